#!/usr/bin/env python3
"""What of a process's memory grew, and why: the account over time and between recordings."""
import json
import os
import re
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
        is_behind = min(said["at_ns"], said.get("pinned", {}).get("at_ns", 0)) + offset > ready
        if "whole_pages_bytes" in said.get("pinned", {}) and is_behind:
            return n, said
    return None


def with_pins(box, how, *options):
    for pause in (2, 8, 25):  # readings of a busy machine rest as long as they took
        want, _, ready = account.paused_target(box, pause, ("--pinned", *options), ("pinned", how), "out.trace")
        found = measured(box, ready)
        if found:
            return want, *found
    raise hw.Failure("pinned pages were not measured behind its last change")


def pinned(how):
    def case(box):
        """What live blocks pin, by site, as the target computes it from its own addresses: exact."""
        want, dump, said = with_pins(box, how, "-i", "1")
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


def sampled(how):
    def case(box):
        """The same of a sample, by what the headers around it say: within a tenth, and within its error."""
        want, dump, said = with_pins(box, how, "-i", "256")
        hw.sound(box.path("out.trace"))
        sites = {s["function"]: s for s in said["pinned"]["sites"]}
        hw.true(said["pinned"]["missed_share"] < 0.05, f"missed: {said['pinned']}")
        for site, n in want.items():
            if n == 0:
                continue
            have, error = sites[site]["pins_bytes"], sites[site]["pins_error_bytes"]
            print(f"  {how}: {site} pins {have} +-{error:.0f}, by its addresses {n}")
            hw.true((how == "two" and site == "site_b") or error > 0, f"{site} has an error: its blocks are smaller than the interval")
            hw.true(error < 0.15 * n, f"the error of {site}: {error} of {n}")
            hw.true(abs(have - n) <= 2 * error + 0.01 * n, f"{site} pins {have} +-{error}, expected {n}")
        text = answer(box, "account", "--at", str(dump), "out.trace")
        hw.true("on pages that live blocks pin (+-" in text, text)
    return case


def lies(box):
    """A target that damages its allocator's memory: what cannot be found out is counted and said."""
    p = box.start([hw.tool("heapwise"), "record", "-c", "400ms", "-f", "-o", box.path("out.trace"), "--pinned", "-i", "256", "--",
                   hw.target("pinned"), "lies"], stdin=subprocess.PIPE)
    while p.stdout.readline() != b"ready\n":
        pass
    os.set_blocking(p.stderr.fileno(), False)
    said = bytearray()

    def is_said():
        said.extend(p.stderr.read() or b"")
        return b"what pins memory is told by" in said and b"damaged" in said

    try:
        hw.wait_for(is_said, "a warning")
    except hw.Failure as e:
        raise hw.Failure(f"{e}; said: {hw.tail(bytes(said))}")
    p.communicate(b"", timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, f"record: {hw.tail(bytes(said))}")
    pinned = account.account(box, "--at", "last").get("pinned")  # not if most of it was lost
    hw.true(pinned is None or pinned["missed_share"] > 0.2 or pinned["pinned_bytes"] < 16 * MIB, f"{pinned}")


def trimmed(box):
    """What the account says that malloc_trim returns, it returns."""
    for pause in (2, 8, 25):
        p = box.start([hw.tool("heapwise"), "record", "-c", "400ms", "-f", "-o", box.path("out.trace"), "--pinned", "-i", "256", "--",
                       hw.target("pinned"), "whole"], stdin=subprocess.PIPE)
        while p.stdout.readline() != b"ready\n":
            pass
        ready = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        time.sleep(pause)
        p.stdin.write(b"t")
        p.stdin.flush()
        _, before, after = p.stdout.readline().split()
        _, err = p.communicate(b"", timeout=hw.CLOCK)
        hw.equal(p.returncode, 0, f"record: {hw.tail(err)}")
        found = measured(box, ready)
        if found:
            break
    hw.true(found, "pinned pages were not measured behind its last change")
    remedies = {r["remedy"]: r for r in found[1]["remedies"]}
    print(f"  remedies {remedies}; RSS {before} to {after}")
    account.near(int(before) - int(after), remedies["malloc_trim"]["bytes"], 0.1, "what malloc_trim returned")
    hw.true(not remedies["malloc_trim"]["is_most"], "it was measured")
    text = answer(box, "account", "--at", str(found[0]), "out.trace")
    hw.true("what would give memory back" in text and "malloc_trim(0)" in text, text)


def decayed(box):
    """The same of jemalloc's decay: with the settings that the account names, resident memory is less by what it says."""
    lib = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    if not os.path.exists(lib):
        raise hw.Skip("no jemalloc")
    said = []
    for conf in ("", "dirty_decay_ms:0,muzzy_decay_ms:0"):
        p = box.start([hw.tool("heapwise"), "record", "-c", "400ms", "-i", "1", "-f", "-o", box.path("out.trace"), "--", hw.target("pinned"), "whole"],
                      env={"LD_PRELOAD": lib, "MALLOC_CONF": conf}, stdin=subprocess.PIPE)
        while p.stdout.readline() != b"ready\n":
            pass
        time.sleep(2)  # what is tested: readings of it
        _, err = p.communicate(b"", timeout=hw.CLOCK)
        hw.equal(p.returncode, 0, f"record: {hw.tail(err)}")
        said.append(account.account(box, "--at", "last"))
    remedy, = said[0]["remedies"]
    print(f"  {remedy}; RSS {said[0]['rss_bytes']} to {said[1]['rss_bytes']}")
    hw.true(remedy["remedy"] == "decay" and remedy["is_most"] and "dirty_decay_ms:0" in remedy["advice"], f"{remedy}")
    account.near(said[0]["rss_bytes"] - said[1]["rss_bytes"], remedy["bytes"], 0.1, "what the decay returned")


def told_arenas(path):
    """malloc_info's arenas: (system, fast, free and top). It adds the flag in each chunk's size, but for the top's."""
    heaps = []
    for heap in open(path).read().split("<heap nr=")[1:]:
        total = {k: (int(n), int(b)) for k, n, b in re.findall(r'<total type="(\w+)" count="(\d+)" size="(\d+)"', heap.split("</heap>")[0])}
        system = int(re.search(r'<system type="current" size="(\d+)"', heap).group(1))
        heaps.append((system, total["fast"][1], total["rest"][1] - (total["rest"][0] - 1)))
    return sorted(heaps)


def limited(how, name, setting, words):
    def case(box):
        """Arenas as malloc_info has them, to the byte; with the setting that the account names, resident memory is less by
        about what it says."""
        said = []
        for env in ({}, setting):
            account.idle_target(box, argv=("arenas", how, box.path("info.xml")), env=env, rows=account.ARENAS)
            said.append(account.account(box, "--at", "last"))
            hw.sound(box.path("out.trace"))
            arenas = said[-1]["arenas"]
            hw.equal([a for a in arenas if "unknown" in a], [], "all are known")
            hw.equal(sorted((a["system_bytes"], a["fast_bytes"], a["free_bytes"] + a["top_bytes"]) for a in arenas),
                     told_arenas(box.path("info.xml")), "as malloc_info has them")
            for a in arenas:
                whole = sum(a[k + "_bytes"] for k in ("in_use", "free", "top", "cached", "fast"))
                hw.equal(whole, a["system_bytes"], f"the sum of {a}")
            if env:
                break
            hw.true(arenas[0]["main"] and not any(a["main"] for a in arenas[1:]), f"the main one: {arenas}")
            if how == "caches":  # seven of each class, of 64 threads
                cached = sum(a["cached_bytes"] for a in arenas)
                hw.true(0 <= cached - 64 * 7 * sum(range(32, 1041, 16)) <= 4096, f"cached: {cached}")
            text = answer(box, "account", "--at", "last", "out.trace")
            for word in ("malloc's arenas at ", ", by what is not in use", "THREADS  ARENA", words):
                hw.true(word in text, f"{word} in {text}")
            rows = answer(box, "query", "out.trace", "select sum(free_bytes), max(ts) from malloc_arena group by ts order by ts desc limit 1")
            hw.equal(int(rows.splitlines()[1].split(",")[0]), sum(a["free_bytes"] for a in arenas), "the same by SQL")
        remedy, = (r for r in said[0]["remedies"] if r["remedy"] == name)
        rss = [s["rss_bytes"] - account.rss_of(s, "profiler") for s in said]
        print(f"  {remedy}; RSS {rss[0]} to {rss[1]}")
        hw.true(remedy["is_most"] and words in remedy["advice"], f"{remedy}")
        hw.true(0.75 * remedy["bytes"] <= rss[0] - rss[1] <= 1.02 * remedy["bytes"], f"the setting gave back {rss[0] - rss[1]}")
    return case


def not_pinned(box):
    """Without it, the account says how to ask for it; of other allocators, that it cannot be."""
    account.idle_target(box, "-i", "4096", argv=("pinned", "nth"))
    text = answer(box, "account", "--at", "last", "out.trace")
    hw.true("record with --pinned" in text, text)
    lib = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    r = box.run([hw.tool("heapwise"), "record", "--pinned", "-o", "je.trace", "--", hw.target("pinned"), "nth"], env={"LD_PRELOAD": lib})
    hw.true(b"it needs glibc's malloc" in r.stderr, hw.tail(r.stderr))


def grown(box, how, enough, interval="1"):
    """`leaks --json` of a target that does so until enough(answer), or for as long as it takes."""
    for seconds in (5, 12, 30):
        p = box.start([hw.tool("heapwise"), "record", "-q", "-c", "300ms", "-f", "-o", box.path("out.trace"), "-i", interval,
                       "--pinned", "--", hw.target("pinned"), how], stdin=subprocess.PIPE)
        time.sleep(seconds)  # growth is a matter of time; if that was too short, longer
        _, err = p.communicate(b"", timeout=hw.CLOCK)
        hw.equal(p.returncode, 0, f"record: {hw.tail(err)}")
        said = json.loads(answer(box, "leaks", "--json", "out.trace"))
        if said["parts"]["readings"] >= 6 and enough(said["parts"]):
            return said["parts"]
    raise hw.Failure(f"{how}: {said['parts']}")


def fragmentation(box, interval="1"):
    """RSS grows while the live heap does not: that is said, and by whom."""
    parts = grown(box, "fragment", lambda p: p["growing"], interval)
    hw.equal([g["part"] for g in parts["growing"]], ["free inside the allocator"], "what grows")
    hw.equal(parts["growing"][0]["pinned_by"], ["shrunk", "shrunk_too"], f"pinned by: {parts['growing']}")
    hw.true(parts["live_grown"] < parts["growing"][0]["grown"] / 10, f"the live heap grows less: {parts}")
    text = answer(box, "leaks", "out.trace")
    hw.true("fragmentation: what was freed stays resident, pinned by shrunk and shrunk_too" in text, text)


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
    hw.main({"diff": diff, "fragmentation": fragmentation, "mappings": mappings, "steady": steady, "not-pinned": not_pinned,
             "fragmentation-sampled": lambda box: fragmentation(box, "256"), "lies": lies, "trimmed": trimmed, "decayed": decayed,
             "arena-limit": limited("bursts", "arenas", {"MALLOC_ARENA_MAX": "1"}, "MALLOC_ARENA_MAX=1"),
             "thread-caches": limited("caches", "caches", {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}, "glibc.malloc.tcache_count=0"),
             **{f"sampled-{how}": sampled(how) for how in ("nth", "two", "page")}, **{f"pinned-{how}": pinned(how) for how in ("nth", "two", "page", "whole")}})
