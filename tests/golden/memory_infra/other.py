#!/usr/bin/env python3
"""other.py HEAPWISE CASE.json...: the rules of <other> in the writer, against the same rules told here by brute force over
the stacks; no rule loses a byte; and what was written with all rows shows the same views as the case itself. Then the
specification's example of a long tail, with its 19 entries."""
import json
import pathlib
import subprocess
import sys
import tempfile

import rules

heapwise, cases = sys.argv[1], sys.argv[2:]


def told(trace):
    """{(ts, pid, heap): {(stack, type): (size, count)}} of version 2."""
    ids, result = rules.Ids(), {}
    for e in trace["traceEvents"]:
        heaps = e["ph"] == "v" and e["args"]["dumps"].get("heaps_v2")
        if not heaps:
            continue
        ids.take(e["pid"], heaps["maps"])
        for name, heap in heaps["allocators"].items():
            result[e["ts"], e["pid"], name] = {
                (ids.stack(n), ids.of["strings"][ids.of["types"][t]["name_sid"]]["string"]): (s, c)
                for c, s, t, n in zip(heap["counts"], heap["sizes"], heap["types"], heap["nodes"])}
    return result


def kept_stacks(rows, rule):
    totals = {(): 0}
    for (stack, _), (size, _) in rows.items():
        for n in range(len(stack) + 1):
            totals[stack[:n]] = totals.get(stack[:n], 0) + size
    if rule == "all":
        return set(totals)
    if rule == "rows":
        large = {s for (s, _), (size, count) in rows.items() if size >= 16384 or count >= 1024}
        return {s[:n] for s in large for n in range(len(s) + 1)} | {()}
    kept, level = {()}, [()]
    while level:
        below = []
        for parent in level:
            total = 0
            callees = [s for s in totals if len(s) == len(parent) + 1 and s[:-1] == parent]
            for stack in sorted(callees, key=lambda s: -totals[s]):
                total += totals[stack]
                if totals[stack] < 1024 if rule == "threshold" else totals[stack] * 125 // max(total, 1) == 0:
                    break
                below.append(stack)
        kept.update(below)
        level = below
    return kept


def folded(rows, rule):
    kept, result = kept_stacks(rows, rule), {}
    for (stack, kind), (size, count) in rows.items():
        small = rule == "rows" and size < 16384 and count < 1024
        if stack not in kept or small:
            stack = max((stack[:n] for n in range(len(stack) + 1) if stack[:n] in kept), key=len) + ("<other>",)
        have = result.get((stack, kind), (0, 0))
        result[stack, kind] = (have[0] + size, have[1] + count)
    return result


def views(path, *options):
    heaps = subprocess.run([heapwise, "query", path, "select distinct pid, heap_name from heap_profile_allocation join process "
                            "using (upid) order by 1, 2"], check=True, capture_output=True, text=True).stdout
    result = []
    for line in heaps.splitlines()[1:]:
        pid, heap = line.replace('"', "").split(",")
        for dump in ("first", "last"):
            result.append(subprocess.run([heapwise, "infra", "-q", "--pid", pid, "--heap", heap, "--dump", dump, "--other",
                                          "all", *options, path], check=True, capture_output=True, text=True).stdout)
    assert result and all(len(r.splitlines()) > 1 for r in result)
    return result


def convert(kind, case, out, *options):
    subprocess.run([heapwise, "convert", "-t", kind, *options, case, out], check=True)
    return json.loads(pathlib.Path(out).read_text())


def check_case(case, out):
    everything = told(convert("memory-infra", case, out, "--other", "all"))
    assert views(out) == views(case), f"{case}: not the same views"
    for rule in ("threshold", "fraction", "rows"):
        trace = convert("memory-infra", case, out, "--other", rule)
        have = told(trace)
        want = {heap: folded(rows, rule) for heap, rows in everything.items()}
        assert have == want, (case, rule, have, want)
        n = sum(len([1 for r in rows if r not in have[heap]]) for heap, rows in everything.items())
        noted = sum(int(a["attrs"]["other_rows"]["value"], 16) for e in trace["traceEvents"] if e["ph"] == "v"
                    for a in e["args"]["dumps"]["allocators"].values() if "other_rows" in a["attrs"])
        assert noted >= n, (case, rule, noted, n)
    assert [rules.totals(convert("memory-infra-v1", case, out, "--other", r)) for r in ("all", "fraction", "rows")] == [
        {k: tuple(map(sum, zip(*v.values()))) for k, v in everything.items()}] * 3, (case, "version 1")
    kinds = sorted({kind for rows in everything.values() for _, kind in rows})
    for only in (kinds[0], kinds[0][:2] + "*,nothing"):
        have, want = told(convert("memory-infra", case, out, "--other", "all", "--only-types", only)), {}
        for heap, rows in everything.items():
            want[heap] = {}
            for (stack, kind), (size, count) in rows.items():
                kept = kind if kind == only or (only[-8:] == ",nothing" and kind.startswith(kinds[0][:2])) else "[unknown]"
                old = want[heap].get((stack, kept), (0, 0))
                want[heap][stack, kept] = (old[0] + size, old[1] + count)
        assert have == want, (case, only, have, want)
    if "interior" not in case:  # there a function's own bytes come back as <other>
        convert("memory-infra-v1", case, out, "--other", "all")
        assert views(out, "--by", "type") == views(case, "--by", "type"), f"{case}: version 1 by type"


def long_tail(folder):
    """17.2: the rows of the example; both rules of a dump give 19 entries, and read back as the specification says."""
    names = ["main", "parse", "render", "misc", "big"] + [f"m{i:03}" for i in range(100)] + ["Node", "String", "Rect", "Misc"]
    sid = {name: i + 1 for i, name in enumerate(names)}
    parents = {"parse": "main", "render": "main", "misc": "main", "big": "misc", **{f"m{i:03}": "misc" for i in range(100)}}
    frames = [n for n in names if n == "main" or n in parents]
    rows = [("parse", "Node", 600000, 3000), ("parse", "String", 250000, 5000), ("render", "Rect", 100000, 1000),
            ("big", "Misc", 50000, 10)] + [(f"m{i:03}", "Misc", 300, 1) for i in range(100)]
    heap = {"counts": [r[3] for r in rows], "sizes": [r[2] for r in rows], "types": [sid[r[1]] for r in rows],
            "nodes": [sid[r[0]] for r in rows]}
    maps = {"strings": [{"id": i, "string": n} for n, i in sid.items()],
            "nodes": [{"id": sid[n], "name_sid": sid[n], **({"parent": sid[parents[n]]} if n in parents else {})} for n in frames],
            "types": [{"id": sid[n], "name_sid": sid[n]} for n in names[-4:]]}
    event = {"ph": "v", "name": "periodic_interval", "pid": 7, "tid": -1, "ts": 1000, "id": "0x1", "args": {"dumps": {
        "level_of_detail": "detailed", "heaps_v2": {"version": 1, "maps": maps, "allocators": {"malloc": heap}}}}}
    case, out = f"{folder}/tail.json", f"{folder}/tail-v1.json"
    pathlib.Path(case).write_text(json.dumps({"traceEvents": [event]}))
    for rule in ("threshold", "fraction"):
        trace = convert("memory-infra-v1", case, out, "--other", rule)
        entries = [e["args"]["dumps"]["heaps"]["malloc"]["entries"] for e in trace["traceEvents"] if e["ph"] == "v"][0]
        assert len(entries) == 19, (rule, len(entries))
        shown = subprocess.run([heapwise, "infra", "-q", out], check=True, capture_output=True, text=True).stdout
        lines = [line.split() for line in shown.splitlines()]
        for want in (["1030000", "9110", "malloc"], ["80000", "110", "ƒ", "misc"], ["50000", "10", "ƒ", "big"],
                     ["30000", "100", "ƒ", "<other>"], ["80000", "110", "Ⓣ", "Misc"]):
            assert want in lines, (rule, want, shown)


with tempfile.TemporaryDirectory() as tmp:
    for each in cases:
        check_case(each, f"{tmp}/out.json")
    long_tail(tmp)
