#!/usr/bin/env python3
"""rules.py HEAPWISE CASE.json...: each case is written as a memory-infra trace and read by the rules of the
trace viewer, told here a second time: where the viewer would warn, stop or show wrong figures, this stops.
Then the sums are compared with those of the case."""
import gzip
import json
import subprocess
import sys
import tempfile

METADATA = {"process_name", "process_labels", "process_sort_index", "process_uptime_seconds", "thread_name",
            "num_cpus", "TraceConfig", "stackFrames", "typeNames"}
BYTE_STATS = {"pss", "pd", "pc", "sd", "sc", "sw"}
PARTS = ("process_totals", "process_mmaps", "heaps", "heaps_v2")


def is_hex(text):
    return isinstance(text, str) and text and all(c in "0123456789abcdef" for c in text)


def check_event(e):
    assert all(k in e for k in ("ph", "pid", "name", "args")), "an event lacks a member"
    assert isinstance(e["args"], dict), "args is no object"
    if e["ph"] == "M":
        assert e["name"] in METADATA, f"{e['name']}: the viewer knows no such metadata"
        return
    dumps = e["args"]["dumps"]
    assert e["ph"] == "v" and e["name"] in ("periodic_interval", "explicitly_triggered"), "phase or name of a dump"
    assert "id" in e and "id2" not in e, "a dump has an id, no id2"
    assert e["id"].startswith("0x") and int(e["id"], 16) > 0, "ids of dumps are hexadecimal"
    assert dumps.get("level_of_detail") in ("detailed", "light", "background"), "level of detail"
    assert not ("heaps" in dumps and "heaps_v2" in dumps), "heaps of both versions"
    totals = dumps.get("process_totals", {})
    assert ("peak_resident_set_bytes" in totals) == ("is_peak_rss_resetable" in totals), "a peak without its flag"
    assert all(is_hex(v) for k, v in totals.items() if k != "is_peak_rss_resetable"), "totals are hexadecimal"
    assert dumps.get("process_mmaps") != {}, "mappings that are none"
    regions = dumps.get("process_mmaps", {}).get("vm_regions", [])
    ends = 0
    for r in regions:
        assert int(r["sa"], 16) >= ends and int(r["sz"], 16) > 0, "regions are sorted and do not overlap"
        ends = int(r["sa"], 16) + int(r["sz"], 16)
        assert "fo" in r or not r["mf"].startswith("/"), "a file's mapping without fo"
        assert set(r.get("bs", {})) <= BYTE_STATS, "byte stats that the viewer does not know"


def check_allocators(pid, dumps, guids):
    roots = {name.split("/")[0] for name in dumps["allocators"]}
    for name, node in dumps["allocators"].items():
        assert is_hex(node.get("guid")), f"{name}: no guid"
        owner = (name, None if name.startswith("global/") else pid)
        assert guids.setdefault(node["guid"], owner) == owner, "a guid names one node of a global dump"
        assert "attrs" in node, f"{name}: no attrs"
        for key, attr in node["attrs"].items():
            assert attr["type"] in ("scalar", "string") and isinstance(attr["value"], str), f"{name}: type of {key}"
            assert key != "size" or attr["units"] == "bytes", f"{name}: size in other units"
            assert attr["type"] == "string" or is_hex(attr["value"]), f"{name}: {key} is not hexadecimal"
    sizes = {n: int(v["attrs"]["size"]["value"], 16) for n, v in dumps["allocators"].items() if "size" in v["attrs"]}
    for name, size in sizes.items():
        below = sum(s for n, s in sizes.items() if n.rpartition("/")[0] == name)
        assert size >= below, f"{name}: the given size is too small"
    for heap in list(dumps.get("heaps_v2", {}).get("allocators", {})) + list(dumps.get("heaps", {})):
        assert heap in roots, f"{heap}: not reachable, no allocator root of that name"


def check_edges(events, guids):
    """Once all processes of the dump have told their nodes."""
    owners = set()
    for e in events:
        for edge in e["args"]["dumps"].get("allocators_graph", []):
            assert edge["source"] in guids and edge["target"] in guids, "an edge of an unknown node"
            if edge["type"] == "ownership":
                assert edge["source"] not in owners, "a node owns two"
                owners.add(edge["source"])


class Ids:
    """Strings, types and nodes of the file, as its one chain of maps resolves them."""

    def __init__(self):
        self.of = {"strings": {}, "types": {}, "nodes": {}}
        self.owner = {}

    def take(self, pid, maps):
        assert set(maps) == {"strings", "types", "nodes"}, "one of the three maps is missing"
        for kind, rows in maps.items():
            for row in rows:
                assert isinstance(row["id"], int) and row["id"] >= 1, "ids are numbers from 1 on"
                assert (kind, row["id"]) not in self.owner, "ids are unique in the file and never redefined"
                self.owner[kind, row["id"]] = pid
                self.of[kind][row["id"]] = row
                assert row.get("parent", 1) != 0, "a parent of 0 is none"
        for row in maps["nodes"] + maps["types"]:
            assert self.owner.get(("strings", row["name_sid"])) == pid, "a name that is not defined"
            assert "parent" not in row or self.owner.get(("nodes", row["parent"])) == pid, "an undefined parent"

    def stack(self, node):
        path = []
        while node is not None:
            row = self.of["nodes"][node]
            path.append(self.of["strings"][row["name_sid"]]["string"])
            node = row.get("parent")
        assert "<self>" not in path, "readers make <self>"
        assert not any("\n" in name or "\r" in name for name in path), "a line's end in a name"
        return tuple(reversed(path))


def heaps_v2(pid, heaps, ids):
    assert heaps["version"] == 1 and isinstance(heaps["version"], int), "version is the number 1"
    ids.take(pid, heaps["maps"])
    result = {}
    for name, heap in heaps["allocators"].items():
        assert set(heap) == {"counts", "sizes", "types", "nodes"}, f"{name}: its four arrays"
        columns = [heap[c] for c in ("counts", "sizes", "types", "nodes")]
        assert len({len(c) for c in columns}) == 1 and columns[0], f"{name}: arrays of one length"
        rows = list(zip(*columns))
        assert all(isinstance(v, int) and v >= 0 for row in rows for v in row), f"{name}: figures are numbers"
        assert all(ids.owner.get(("types", t)) == pid for _, _, t, _ in rows), f"{name}: an undefined type"
        assert all(ids.owner.get(("nodes", n)) == pid for _, _, _, n in rows), f"{name}: an undefined node"
        assert len({(t, n) for _, _, t, n in rows}) == len(rows), "one row per (node, type)"
        assert [r[1] for r in rows] == sorted((r[1] for r in rows), reverse=True), f"{name}: the largest first"
        for _, _, _, n in rows:
            ids.stack(n)
        result[name] = (sum(r[1] for r in rows), sum(r[0] for r in rows))
    return result


def heaps_v1(pid, heaps, frames, types):
    result = {}
    assert not heaps or (pid in frames and pid in types), "without typeNames a heap dump vanishes"
    for name, heap in heaps.items():
        entries = heap["entries"]
        assert entries, f"{name}: no entries"
        assert entries[0]["bt"] == "" and "type" not in entries[0], f"{name}: the whole heap comes first"
        assert all(is_hex(e["size"]) and is_hex(e["count"]) for e in entries), f"{name}: figures are hexadecimal"
        assert all(e["bt"] == "" or e["bt"] in frames[pid] for e in entries), f"{name}: an undefined frame"
        assert all("type" not in e or e["type"] in types[pid] for e in entries), f"{name}: an undefined type"
        assert len({(e["bt"], e.get("type")) for e in entries}) == len(entries), f"{name}: an entry twice"
        result[name] = (int(entries[0]["size"], 16), int(entries[0]["count"], 16))
    return result


def v1_maps(events, name):
    result = {}
    for e in events:
        if e["name"] == name:
            assert e["pid"] not in result, f"{name} once a process"
            result[e["pid"]] = e["args"][name]
    return result


def check_order(events):
    done, last = set(), None
    for e in events:
        if e["ph"] == "v" and e["id"] != last:
            assert e["id"] not in done, "global dumps do not overlap"
            done.add(e["id"])
            last = e["id"]


def totals(trace):
    """What each heap holds at each time, by the rules of the viewer."""
    assert isinstance(trace, dict), "a bare list is refused by tools"
    events = trace["traceEvents"]
    for key in ("product-version", "os-name", "os-arch", "user-agent"):
        assert key in trace["metadata"], f"symbolizers stop without {key}"
    for e in events:
        check_event(e)
    check_order(events)
    frames, types = v1_maps(events, "stackFrames"), v1_maps(events, "typeNames")
    ids, result, guids, last, levels, seen, of_dump = Ids(), {}, {}, None, {}, set(), []
    for e in events:
        if e["ph"] == "M":
            continue
        if e["id"] != last:
            check_edges(of_dump, guids)
            last, guids, of_dump = e["id"], {}, []
        of_dump.append(e)
        dumps = e["args"]["dumps"]
        assert levels.setdefault(e["id"], dumps["level_of_detail"]) == dumps["level_of_detail"], "two levels in a dump"
        for part in PARTS:
            assert part not in dumps or (e["id"], e["pid"], part) not in seen, f"{part} twice"
            seen.add((e["id"], e["pid"], part) if part in dumps else None)
        check_allocators(e["pid"], dumps, guids)
        heaps = (heaps_v2(e["pid"], dumps["heaps_v2"], ids) if "heaps_v2" in dumps else
                 heaps_v1(e["pid"], dumps.get("heaps", {}), frames, types))
        for name, value in heaps.items():
            result[e["ts"], e["pid"], name] = value
    check_edges(of_dump, guids)
    return result


def of_model(heapwise, path):
    sql = ("select d.ts / 1000, pid, heap_name, (select sum(size) from heap_profile_allocation a where a.upid = d.upid "
           "and a.heap_name = d.heap_name and a.ts <= d.ts), (select sum(count) from heap_profile_allocation a where "
           "a.upid = d.upid and a.heap_name = d.heap_name and a.ts <= d.ts) from (select distinct ts, upid, heap_name "
           "from heap_profile_allocation) d join process using (upid)")
    out = subprocess.run([heapwise, "query", path, sql], check=True, capture_output=True, text=True).stdout
    result = {}
    for line in out.splitlines()[1:]:
        ts, pid, heap, size, count = line.replace('"', "").split(",")
        heap = "malloc" if heap == "libc.malloc" else heap
        if int(size) or int(count):
            result[int(ts), int(pid), heap] = (int(size), int(count))
    return result


def write(heapwise, kind, case, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/out.json.gz"
        subprocess.run([heapwise, "convert", "-t", kind, *options, case, path], check=True)
        with gzip.open(path) as f:
            return json.load(f), of_model(heapwise, path)


def main():
    heapwise, cases = sys.argv[1], sys.argv[2:]
    for case in cases:
        want = of_model(heapwise, case)
        for kind in ("memory-infra", "memory-infra-v1"):
            trace, again = write(heapwise, kind, case)
            got = totals(trace)
            assert got == want, (case, kind, got, want)
            assert again == want, (case, kind)


if __name__ == "__main__":
    main()
