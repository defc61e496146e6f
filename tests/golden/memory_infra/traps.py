#!/usr/bin/env python3
"""traps.py HEAPWISE FOLDER: one test for each trap of the trace viewer. What the writer makes of the files in FOLDER
keeps all rules (rules.py); then it is changed as a writer that falls into the trap would have written it, and the rules
must say so. A rule that nothing can break guards nothing."""
import copy
import re
import sys

import rules

V2, V1 = "memory-infra", "memory-infra-v1"


def dumps(trace):
    return [e for e in trace["traceEvents"] if e["ph"] == "v"]


def heaps(trace, n=0):
    return dumps(trace)[n]["args"]["dumps"]["heaps_v2"]


def rows(trace, n=0):
    return next(iter(heaps(trace, n)["allocators"].values()))


def entries(trace, n=0):
    return next(iter(dumps(trace)[n]["args"]["dumps"]["heaps"].values()))["entries"]


def allocators(trace, n=0):
    return dumps(trace)[n]["args"]["dumps"]["allocators"]


def node(trace, n=0):
    return next(iter(allocators(trace, n).values()))


def metadata(trace, name):
    return next(e for e in trace["traceEvents"] if e["name"] == name)


def renumber(trace):
    """Ids restarted in each process, as the viewer's chain of maps does not survive."""
    first = {}
    for e in dumps(trace):
        maps = e["args"]["dumps"]["heaps_v2"]["maps"]
        if e["pid"] not in first:
            first[e["pid"]] = min(r["id"] for r in maps["strings"] + maps["nodes"] + maps["types"]) - 1
        base = first[e["pid"]]
        for r in maps["strings"] + maps["nodes"] + maps["types"]:
            for key in {"id", "name_sid", "parent"} & set(r):
                r[key] -= base
        for heap in e["args"]["dumps"]["heaps_v2"]["allocators"].values():
            heap["types"] = [t - base for t in heap["types"]]
            heap["nodes"] = [n - base for n in heap["nodes"]]


def set_in(get, key, value):
    return lambda t: get(t).__setitem__(key, value)


def drop(get, key):
    return lambda t: get(t).__delitem__(key)


def append(get, value):
    return lambda t: get(t).append(value(t))


def interleave(trace):
    events = trace["traceEvents"]
    last = dumps(trace)[-1]
    events.remove(last)
    events.insert(events.index(dumps(trace)[0]) + 1, last)


def zero_id(trace):
    """The first id is 0, everywhere."""
    maps = heaps(trace)["maps"]
    one = maps["nodes"][-1]["id"]
    for r in maps["nodes"]:
        r["id"] = 0 if r["id"] == one else r["id"]
        if r.get("parent") == one:
            r["parent"] = 0
    for e in dumps(trace):
        for heap in e["args"]["dumps"]["heaps_v2"]["allocators"].values():
            heap["nodes"] = [0 if n == one else n for n in heap["nodes"]]


def totals_of(trace):
    return dumps(trace)[-1]["args"]["dumps"]["process_totals"]


def mappings(trace):
    d = dumps(trace)[0]["args"]["dumps"]
    return d.setdefault("process_mmaps", {"vm_regions": [
        {"sa": "1000", "sz": "1000", "pf": 5, "mf": "/a", "fo": "0"},
        {"sa": "3000", "sz": "1000", "pf": 5, "mf": "/b", "fo": "0"}]})["vm_regions"]


# What the rule says, which file, which version, what a writer in the trap makes of it.
TRAPS = [
    # the file
    ("a bare list", "v2", V2, lambda t: t["traceEvents"]),
    ("symbolizers stop", "v2", V2, drop(lambda t: t["metadata"], "os-arch")),
    ("an event lacks", "v2", V2, drop(lambda t: dumps(t)[0], "name")),
    ("args is no object", "v2", V2, set_in(lambda t: metadata(t, "process_name"), "args", None)),
    ("knows no such metadata", "v2", V2, set_in(lambda t: metadata(t, "process_name"), "name", "process_title")),
    # events
    ("phase or name", "v2", V2, set_in(lambda t: dumps(t)[0], "name", "summary_only")),
    ("no id2", "v2", V2, set_in(lambda t: dumps(t)[0], "id2", {"local": "0x1"})),
    ("ids of dumps", "v2", V2, set_in(lambda t: dumps(t)[0], "id", "1f")),
    ("level of detail", "v2", V2, drop(lambda t: dumps(t)[0]["args"]["dumps"], "level_of_detail")),
    ("two levels", "processes", V2, set_in(lambda t: dumps(t)[1]["args"]["dumps"], "level_of_detail", "light")),
    ("do not overlap", "processes", V2, interleave),
    ("heaps of both", "v2", V2, set_in(lambda t: dumps(t)[0]["args"]["dumps"], "heaps", {})),
    ("twice", "v2", V2, lambda t: t["traceEvents"].insert(t["traceEvents"].index(dumps(t)[0]), copy.deepcopy(dumps(t)[0]))),
    # totals and mappings
    ("a peak without", "v2", V2, drop(totals_of, "is_peak_rss_resetable")),
    ("totals are hexa", "v2", V2, set_in(totals_of, "resident_set_bytes", "0xa00000")),
    ("mappings that are none", "v2", V2, set_in(lambda t: dumps(t)[0]["args"]["dumps"], "process_mmaps", {})),
    ("sorted and do not", "v2", V2, lambda t: mappings(t)[0].update(sz="2001")),
    ("sorted and do not", "v2", V2, lambda t: mappings(t).reverse()),
    ("without fo", "v2", V2, lambda t: mappings(t)[1].pop("fo")),
    ("byte stats", "v2", V2, lambda t: mappings(t)[0].update(bs={"rss": "1"})),
    # allocators
    ("no guid", "v2", V2, drop(node, "guid")),
    ("a guid names one", "v2", V2, lambda t: [n.update(guid="1") for n in allocators(t).values()]),
    ("a guid names one", "processes", V2, lambda t: [n.update(guid=g["guid"]) for n, g in
                                                     zip(allocators(t, 1).values(), allocators(t, 0).values())]),
    ("no attrs", "v2", V2, drop(node, "attrs")),
    ("type of size", "v2", V2, set_in(lambda t: node(t)["attrs"]["size"], "type", "number")),
    ("size in other units", "v2", V2, set_in(lambda t: node(t)["attrs"]["size"], "units", "objects")),
    ("is not hexa", "v2", V2, set_in(lambda t: node(t)["attrs"]["size"], "value", "0x1000")),
    ("too small", "v2", V2, set_in(lambda t: allocators(t, 1)["malloc"]["attrs"]["size"], "value", "1")),
    ("not reachable", "processes", V2, lambda t: [allocators(t).pop(n) for n in list(allocators(t)) if n.startswith("custom")]),
    ("not reachable", "v1", V1, lambda t: [allocators(t).pop(n) for n in list(allocators(t)) if n.startswith("malloc")]),
    ("an unknown node", "edges", V2, lambda t: dumps(t)[0]["args"]["dumps"]["allocators_graph"][0].update(target="beef")),
    ("owns two", "edges", V2, append(lambda t: dumps(t)[0]["args"]["dumps"]["allocators_graph"],
                                     lambda t: dict(dumps(t)[0]["args"]["dumps"]["allocators_graph"][0]))),
    # heap dumps, 7.1
    ("numbers from 1", "v2", V2, zero_id),                                                               # rule 1
    ("a parent of 0", "v2", V2, lambda t: heaps(t)["maps"]["nodes"][0].update(parent=0)),               # rule 1
    ("an undefined type", "v2", V2, lambda t: rows(t)["types"].__setitem__(0, 9999)),                   # rule 2
    ("an undefined node", "v2", V2, lambda t: rows(t)["nodes"].__setitem__(0, 9999)),                   # rule 2
    ("an undefined parent", "v2", V2, lambda t: heaps(t)["maps"]["nodes"][0].update(parent=9999)),      # rule 2
    ("a name that is not", "v2", V2, lambda t: heaps(t)["maps"]["types"][0].update(name_sid=9999)),     # rule 2
    ("a name that is not", "v2", V2, lambda t: heaps(t)["maps"]["strings"].clear()),                    # rules 2, 8
    ("its four arrays", "v2", V2, lambda t: rows(t).clear()),                                           # rule 3
    ("its four arrays", "v2", V2, lambda t: rows(t).pop("types")),                                      # rule 3
    ("arrays of one length", "v2", V2, lambda t: rows(t)["counts"].pop()),                              # rule 4
    ("never redefined", "v2", V2, lambda t: heaps(t, 1)["maps"]["nodes"].append(dict(heaps(t)["maps"]["nodes"][0]))),  # 5
    ("unique in the file", "processes", V2, renumber),                                                  # rule 6
    ("three maps", "v2", V2, lambda t: heaps(t, 1)["maps"].pop("types")),                               # rule 7
    ("an undefined node", "v2", V2, lambda t: heaps(t)["maps"]["nodes"].clear()),                       # rule 8
    ("figures are numbers", "v2", V2, lambda t: rows(t)["nodes"].__setitem__(0, "")),                   # rule 10
    ("version is the number", "v2", V2, lambda t: heaps(t).update(version="1")),
    ("figures are numbers", "v2", V2, lambda t: rows(t)["sizes"].__setitem__(0, "61a80")),
    ("one row per", "v2", V2, lambda t: [c.append(c[-1]) for c in rows(t).values()]),
    ("largest first", "v2", V2, lambda t: [c.reverse() for c in rows(t).values()]),
    ("readers make", "v2", V2, lambda t: heaps(t)["maps"]["strings"][0].update(string="<self>")),
    ("a line's end", "v2", V2, lambda t: heaps(t)["maps"]["strings"][0].update(string="a\nb")),
    # version 1
    ("heap dump vanishes", "v1", V1, lambda t: t["traceEvents"].remove(metadata(t, "typeNames"))),
    ("once a process", "v1", V1, lambda t: t["traceEvents"].append(metadata(t, "stackFrames"))),
    ("no entries", "v1", V1, lambda t: entries(t).clear()),
    ("whole heap comes first", "v1", V1, lambda t: entries(t).reverse()),
    ("are hexa", "v1", V1, lambda t: entries(t)[0].update(size=1030000)),
    ("an undefined frame", "v1", V1, lambda t: entries(t)[-1].update(bt="999")),
    ("an undefined type", "v1", V1, lambda t: entries(t)[-1].update(type="999")),
    ("an entry twice", "v1", V1, lambda t: entries(t).append(dict(entries(t)[-1]))),
]


def main():
    heapwise, folder = sys.argv[1:]
    written, failed = {}, 0
    for says, name, kind, break_it in TRAPS:
        if (name, kind) not in written:
            written[name, kind] = rules.write(heapwise, kind, f"{folder}/cases/{name}.json")[0]
            rules.totals(written[name, kind])  # the writer is in none of them
        trace = copy.deepcopy(written[name, kind])
        changed = break_it(trace)
        try:
            rules.totals(changed if isinstance(changed, list) and says == "a bare list" else trace)
            print(f"{name}, {kind}: nothing said '{says}'")
            failed += 1
        except AssertionError as e:
            if not re.search(re.escape(says), str(e)):
                print(f"{name}, {kind}: '{says}' was told as '{e}'")
                failed += 1
    print(f"{len(TRAPS)} traps, {failed} without a rule")
    return failed != 0


sys.exit(main())
