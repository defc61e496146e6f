#!/usr/bin/env python3
"""Allocations that were freed again within a second, by function, against what the program knows of them."""
import csv
import json
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

FUNCTIONS = ("fn_at_once", "fn_handed", "fn_moved", "fn_late", "fn_kept")


def by_function(dump):
    return {n: (sum(s.temporary for s in dump.samples if n in s.stack),
                sum(s.temporary_count for s in dump.samples if n in s.stack)) for n in FUNCTIONS}


def lives(text):
    """-> {function: ((bytes, count) at least, at most)}"""
    lines = [line.split() for line in text.decode().splitlines() if line.startswith("TEMPORARY")]
    want = {n: ((int(a), int(b)), (int(c), int(d))) for _, n, a, b, c, d in lines}
    return {**want, "fn_kept": ((0, 0), (0, 0))}


def exact(box):
    """To the byte, by function; of what lived about a second, for as long as the machine let a thread wait, between."""
    r = hw.record(box, [hw.target("temporary")], interval=1)
    d = hw.sound(r.trace).last()
    hw.exact(d, hw.expectations(r.target_stdout), "temporary")
    hw.true(d.has_temporary, "the dump says that it knows")
    have, want = by_function(d), lives(r.target_stdout)
    for n, (least, most) in want.items():
        print(f"  {n}: {have[n]}, in truth {least}" + ("" if least == most else f" to {most}"))
        hw.true(all(a <= x <= b for a, x, b in zip(least, have[n], most)), f"{n}: {have[n]}, not {least} to {most}")
    hw.equal((have["fn_late"], have["fn_kept"]), ((0, 0), (0, 0)), "freed late, never")
    hw.true(have["fn_at_once"][1] > 0, "freed at once")


def shown(box):
    """The same in everything that shows a metric; what has no record of it says so, and does not show 0."""
    r = hw.record(box, [hw.target("temporary")], interval=1)
    trace, heapwise = r.trace, hw.tool("heapwise")
    have = by_function(hw.sound(trace).last())
    ask = lambda *argv, check=0: box.run([heapwise, *argv], check=check)

    def sites_of(path):
        report = json.loads(ask("report", "--json", "-m", "temporary", "--top", "0", path).stdout)
        sites = {s["function"]: (s["temporary_space"], s["temporary_objects"]) for s in report["sites"]}
        return report, {n: sites.get(n, (0, 0)) for n in have}
    report, sites = sites_of(trace)
    total = report["end"]["temporary_space"], report["end"]["temporary_objects"]
    hw.equal(sites, have, "report --json")
    text = ask("report", "-m", "temporary", trace).stdout.decode()
    hw.true("freed again within 1 s: " in text and "TEMPORARY" in text, text)
    hw.true("fn_late" not in text and "fn_kept" not in text, text)
    folded = {}
    for line in ask("convert", "-t", "folded", "-m", "temporary", trace, "-").stdout.decode().splitlines():
        stack, n = line.rsplit(" ", 1)
        folded[stack.split(";")[-1]] = folded.get(stack.split(";")[-1], 0) + int(n)
    hw.equal({n: folded.get(n, 0) for n in have}, {n: x[0] for n, x in have.items()}, "folded")
    hw.equal(sum(folded.values()), total[0], "folded, the sum")
    rows = ask("query", trace, "select name, self_temporary_space as s, self_temporary_objects as n from "
               "heapwise_functions((select min(upid) from heap_profile))").stdout.decode().splitlines()
    rows = {x["name"]: (int(x["s"]), int(x["n"])) for x in csv.DictReader(rows)}
    hw.equal({n: rows.get(n, (0, 0)) for n in have}, have, "SQL")
    tree = json.loads(ask("tree", "--json", "-m", "temporary", trace).stdout)
    hw.equal(max(x["temporary_space"] for x in tree["nodes"]), total[0], "tree --json")
    table = list(csv.DictReader(ask("convert", "-t", "csv", trace, "-").stdout.decode().splitlines()))
    hw.equal(int(table[0]["total_temporary_space"]), total[0], "csv")
    ask("convert", "-t", "perfetto", trace, box.path("again.trace"))
    hw.equal(sites_of(box.path("again.trace"))[1], have, "a trace written again")
    diff = json.loads(ask("diff", "--json", "-m", "temporary", trace, box.path("again.trace")).stdout)
    hw.equal(diff["metric"], "temporary_space", "diff")
    # A format without it: no figure, and a clear answer to who asks for it.
    ask("convert", "-t", "pprof", trace, box.path("without.pb.gz"))
    bare = json.loads(ask("report", "--json", box.path("without.pb.gz")).stdout)
    hw.true("temporary_space" not in bare["end"], f"{bare['end']}")
    refused = ask("report", "-m", "temporary", box.path("without.pb.gz"), check=None)
    hw.true(refused.returncode != 0 and b"within a second" in refused.stderr, f"{refused}")
    unknown = ask("query", box.path("without.pb.gz"), "select count(*) from heapwise_functions((select min(upid) from "
                  "heap_profile)) where temporary_space is not null").stdout.decode()
    hw.equal(unknown.split()[-1], "0", "SQL without a record: NULL")


def sampled(box):
    """At 4 KiB the truth is within twice the stated error, or twice that once in many thousands."""
    r = hw.record(box, [hw.target("temporary")], interval=4096)
    report = json.loads(box.run([hw.tool("heapwise"), "report", "--json", r.trace], check=0).stdout)
    want = lives(r.target_stdout)
    for k, key in enumerate(("temporary_space", "temporary_objects")):
        got, error = report["end"][key], report["end"][f"{key}_error"]
        least, most = (sum(w[i][k] for w in want.values()) for i in (0, 1))
        print(f"  {key}: {got} +-{error:.0f}, in truth {least}" + ("" if least == most else f" to {most}"))
        hw.true(error > 0 and least - 2 * error <= got <= most + 2 * error, f"{key}: {got} +-{error}, not {least} to {most}")


if __name__ == "__main__":
    hw.main({"exact": exact, "shown": shown, "sampled": sampled})
