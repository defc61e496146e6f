#!/usr/bin/env python3
"""What of a process's memory grew, and why: the account over time and between recordings."""
import json
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

import account

MIB = 1 << 20


def answer(box, *argv, ok=(0, 5)):
    r = box.run([hw.tool("heapwise"), *argv])
    hw.true(r.returncode in ok, f"exit {r.returncode} of {argv}: {hw.tail(r.stderr)}")
    return r.stdout.decode()


def diff(box):
    """The same live memory, or less, but more of it resident: the allocator keeps what was freed."""
    account.idle_target(box, "-i", "1", argv=("pinned", "whole"), trace="a.trace")
    account.idle_target(box, "-i", "1", argv=("pinned", "nth"), trace="b.trace")
    names = "--a", "last", "--b", "last", "a.trace", "b.trace"
    d = json.loads(answer(box, "diff", "--json", *names))["account"]
    parts = {p["part"]: p for p in d["parts"] if "name" not in p}
    for side in "ab":
        said = account.account(box, "--at", "last", trace=side + ".trace")
        for p in said["parts"]:
            hw.true(abs(parts[p["name"]][side] - p["rss_bytes"]) < 1, f"{side}: {p['name']}")
        hw.true(abs(sum(p[side] for p in parts.values()) - d["rss"][side]) < 1, f"{side}: the sum")
    free = parts["free inside the allocator"]
    account.near(free["b"], 100000 * 63 // 64 * 112, 0.1, "free in B")  # of blocks of 112 bytes, headers included
    text, form = answer(box, "diff", *names), answer(box, "diff", "--format", "markdown", *names)
    for words in ("All memory of the process, by owner, read at", "all resident memory", "free inside the allocator"):
        hw.true(words in text, f"{words} in {text}")
    hw.true("**all resident memory** |" in form and "| free inside the allocator |" in form, form)
    hw.true("by owner" not in answer(box, "diff", "--heap", "libc.malloc", *names), "an account is of all heaps")
    same = answer(box, "diff", "--a", "last", "--b", "last", "b.trace")
    hw.true("both dumps have the same reading" in same, same)


def measured(box, ready):
    """The account at a dump that both mappings and pinned pages were read at, behind the target's last change."""
    offset = account.newest_reading(box, box.path("out.trace")) - account.account(box, "--at", "last")["at_ns"]
    for n in range(1, 200):
        r = box.run([hw.tool("heapwise"), "account", "--json", "--at", str(n), "out.trace"])
        if r.returncode not in (0, 5):
            return None
        said = json.loads(r.stdout)
        if "whole_pages_bytes" in said.get("pinned", {}) and said["pinned"]["at_ns"] + offset > ready:
            return n, said
    return None


def with_pins(box, how):
    for pause in (2, 8, 25):  # readings of a busy machine rest as long as they took
        want, _, ready = account.paused_target(box, pause, ("-i", "1", "--pinned"), ("pinned", how), "out.trace")
        found = measured(box, ready)
        if found:
            return want, *found
    raise hw.Failure("pinned pages were not measured behind its last change")


def pinned(how):
    def case(box):
        """What live blocks pin, by site, as the target computes it from its own addresses: exact."""
        want, dump, said = with_pins(box, how)
        hw.sound(box.path("out.trace"))
        sites = {s["function"]: s for s in said["pinned"]["sites"]}
        for site, n in want.items():
            have = sites.get(site, {"pins_bytes": 0})["pins_bytes"]
            print(f"  {how}: {site} pins {have}, by its addresses {n}")
            hw.true(abs(have - n) <= 0.01 * n + 8192, f"{site} pins {have}, expected {n}")
        free, whole = account.rss_of(said, "free inside the allocator"), said["pinned"]["whole_pages_bytes"]
        hw.true(abs(said["pinned"]["pinned_bytes"] + whole - free) < 8192, f"pinned and whole: {said['pinned']}, free {free}")
        if how == "whole":
            account.near(whole, 20000 * 416, 0.05, "whole pages")
        text = answer(box, "account", "--at", str(dump), "out.trace")
        for words in ("on pages that live blocks pin", "in whole pages", "PINS  LIVE THERE  SITE"):
            hw.true(words in text, f"{words} in {text}")
        hw.true("malloc.pinned" in answer(box, "report", "out.trace"), "the report names the heap")
    return case


def not_pinned(box):
    """Of a sample nobody knows what else is on a page: that is said, before and behind a recording."""
    r = box.run([hw.tool("heapwise"), "record", "--pinned", "-i", "4096", "--", "true"])
    hw.true(r.returncode == 2 and b"--interval 1" in r.stderr, f"exit {r.returncode}: {hw.tail(r.stderr)}")
    account.idle_target(box, "-i", "4096", argv=("pinned", "nth"))
    text = answer(box, "account", "--at", "last", "out.trace")
    hw.true("record from the start with --pinned --interval 1" in text, text)


def grown(box, how, enough):
    """`leaks --json` of a target that does so until enough(answer), or for as long as it takes."""
    for seconds in (5, 12, 30):
        p = box.start([hw.tool("heapwise"), "record", "-q", "-c", "300ms", "-f", "-o", box.path("out.trace"), "-i", "1",
                       "--pinned", "--", hw.target("pinned"), how], stdin=subprocess.PIPE)
        time.sleep(seconds)  # growth is a matter of time; if that was too short, longer
        _, err = p.communicate(b"", timeout=hw.CLOCK)
        hw.equal(p.returncode, 0, f"record: {hw.tail(err)}")
        said = json.loads(answer(box, "leaks", "--json", "out.trace"))
        if said["parts"]["readings"] >= 6 and enough(said["parts"]):
            return said["parts"]
    raise hw.Failure(f"{how}: {said['parts']}")


def fragmentation(box):
    """RSS grows while the live heap does not: that is said, and by whom."""
    parts = grown(box, "fragment", lambda p: p["growing"])
    hw.equal([g["part"] for g in parts["growing"]], ["free inside the allocator"], "what grows")
    hw.true(parts["growing"][0]["pinned_by"][0] == "shrunk", f"pinned by {parts['growing']}")
    hw.true(parts["live_grown"] < parts["growing"][0]["grown"] / 10, f"the live heap grows less: {parts}")
    text = answer(box, "leaks", "out.trace")
    hw.true("fragmentation: what was freed stays resident, pinned by shrunk" in text, text)


def mappings(box):
    parts = grown(box, "map", lambda p: p["growing"])
    hw.equal([g["part"] for g in parts["growing"]], ["anonymous mappings"], "what grows")
    hw.true("map_more" in parts["growing"][0]["mapped_by"][0], f"mapped by {parts['growing']}")
    rows = json.loads(answer(box, "account", "--json", "--at", "all", "out.trace"))["readings"]
    hw.equal(len(rows), parts["readings"], "a row for each reading")
    for r in rows:
        hw.true(abs(sum(r["parts"].values()) - r["rss_bytes"]) < 1, f"the sum at {r['at_ns']}")
    text = answer(box, "account", "--at", "all", "out.trace")
    hw.true("ANONYMOUS" in text and len(text.splitlines()) == len(rows) + 3, text)


def steady(box):
    """No alarm where nothing grows."""
    parts = grown(box, "steady", lambda p: True)
    hw.equal(parts["growing"], [], "what grows")
    text = answer(box, "leaks", "out.trace")
    hw.true("beside the live heap" not in text, text)


if __name__ == "__main__":
    hw.main({"diff": diff, "fragmentation": fragmentation, "mappings": mappings, "steady": steady, "not-pinned": not_pinned, **{f"pinned-{how}": pinned(how) for how in ("nth", "two", "page", "whole")}})
