#!/usr/bin/env python3
"""What the allocator adds to blocks, by site, against what it says itself of each."""
import csv
import json
import os
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

import account

LIBRARIES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2"}
ROWS = "select r.name as name, rounding, error from process p, heapwise_rounding(p.upid) r where p.name like '%t_rounding%'"


def by_site(box, trace):
    rows = box.run([hw.tool("heapwise"), "query", trace, ROWS], check=0).stdout.decode().splitlines()
    return {r["name"]: (int(r["rounding"]), float(r["error"])) for r in csv.DictReader(rows)}


def want_of(text):
    kinds = [line.split() for line in text.decode().splitlines() if line.startswith("KIND")]
    want = {k[1]: int(k[2]) for k in kinds}
    for site in ("large", "wide"):
        want[site] += want.pop(f"{site}_again")  # one function
    return want


def recorded(box, *options, env=None, argv=()):
    r = box.run([hw.tool("heapwise"), "record", "-q", "-f", "-o", box.path("out.trace"), *options, "--",
                 hw.target("rounding"), *argv], env=env, check=0)
    hw.sound(box.path("out.trace"))
    return want_of(r.stdout), by_site(box, "out.trace")


def exact(box):
    """glibc: to the byte, by site, also of large blocks with and without a mapping of their own."""
    want, have = recorded(box, "-i", "1")
    for site, n in want.items():
        print(f"  {site}: {have[site]}, malloc_usable_size says {n}")
        hw.equal(have[site], (n, 0), site)


def in_account(box):
    """The same in the account: its row is the sum, and a table says whose it is."""
    account.idle_target(box, "-i", "1", argv=("rounding",))
    said = account.account(box, "--at", "last")
    sites = {s["function"]: s for s in said["rounding"]["sites"]}
    rows = by_site(box, "out.trace")
    for site in ("odd", "mixed", "large"):
        hw.equal(sites[site]["rounding_bytes"], rows[site][0], site)
    hw.equal(said["rounding"]["bytes"], sum(r[0] for r in rows.values()), "the sum")
    account.near(account.rss_of(said, "rounding"), said["rounding"]["bytes"], 0.01, "its row")
    text = box.run([hw.tool("heapwise"), "account", "--rounding", "--at", "last", "out.trace"]).stdout.decode()
    hw.true("A BLOCK" in text and "odd" in text, text)


def short(box):
    """A program that ends before its mappings are read has no account, but its rounding is known."""
    hw.record(box, [hw.target("entries")], interval=1)
    said = box.run([hw.tool("heapwise"), "account", "--rounding", box.path("out.trace")], check=0).stdout.decode()
    hw.true("A BLOCK" in said and "fn_memalign" in said, said)
    r = box.run([hw.tool("heapwise"), "account", "--rounding", "--json", box.path("out.trace")], check=0)
    sites = {s["function"]: s for s in json.loads(r.stdout)["rounding"]["sites"]}
    hw.true(sites["fn_memalign"]["rounding_bytes"] > 0, f"{sites}")


def sampled(box):
    """Estimated without bias: within twice its error and half of that, and the error is one."""
    for interval in ("512", "4096"):
        want, have = recorded(box, "-i", interval)
        for site in ("odd", "mixed", "aligned"):
            got, error = have[site]
            print(f"  interval {interval}, {site}: {got} +-{error:.0f}, in truth {want[site]}")
            hw.true(0 < error < 0.5 * want[site], f"{site}: {have[site]}")
            hw.true(abs(got - want[site]) <= 2.5 * error, f"{site}: {got} +-{error:.0f}, in truth {want[site]}")
        hw.equal(have["large"], (want["large"], 0), "large blocks are exact")


def other(name):
    def case(box):
        """Classes of its own: to the byte. mimalloc sometimes finds an aligned block of the smaller class."""
        path = f"/usr/lib/x86_64-linux-gnu/{LIBRARIES[name]}"
        if not os.path.exists(path):
            raise hw.Skip(f"no {name}")
        want, have = recorded(box, "-i", "1", env={"LD_PRELOAD": path}, argv=[name])
        for site, n in want.items():
            print(f"  {name}: {site} {have[site]}, malloc_usable_size says {n}")
            if (name, site) == ("mimalloc", "aligned"):
                hw.true(n <= have[site][0] <= 1.02 * n, f"{site}: {have[site]}, in truth {n}")
            else:
                hw.equal(have[site], (n, 0), site)
    return case


if __name__ == "__main__":
    hw.main({"exact": exact, "account": in_account, "sampled": sampled, "short": short, **{name: other(name) for name in LIBRARIES}})
