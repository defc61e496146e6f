#!/usr/bin/env python3
"""rules.py HEAPWISE CASE.json...: each case is written as a memory-infra trace and read by the rules of the
trace viewer, told here a second time: where the viewer would warn, stop or show wrong figures, this stops.
Then the sums are compared with those of the case."""
import gzip
import json
import subprocess
import sys
import tempfile

heapwise, cases = sys.argv[1], sys.argv[2:]
METADATA = {"process_name", "process_labels", "process_sort_index", "process_uptime_seconds", "thread_name",
            "num_cpus", "TraceConfig", "stackFrames", "typeNames"}


def check_event(e):
    assert all(k in e for k in ("ph", "pid", "name", "args")), e
    if e["ph"] == "M":
        assert e["name"] in METADATA, e["name"]
        return
    dumps = e["args"]["dumps"]
    assert e["ph"] == "v" and e["name"] in ("periodic_interval", "explicitly_triggered")
    assert e["id"].startswith("0x") and int(e["id"], 16) > 0
    assert dumps["level_of_detail"] in ("detailed", "light", "background")
    assert not ("heaps" in dumps and "heaps_v2" in dumps)
    totals = dumps.get("process_totals", {})
    assert ("peak_resident_set_bytes" in totals) == ("is_peak_rss_resetable" in totals)
    regions = dumps.get("process_mmaps", {}).get("vm_regions", [])
    ends = 0
    for r in regions:
        assert int(r["sa"], 16) >= ends and int(r["sz"], 16) > 0, "regions are sorted and do not overlap"
        ends = int(r["sa"], 16) + int(r["sz"], 16)
        assert "fo" in r or not r["mf"].startswith("/")


def check_allocators(dumps, guids):
    roots = {name.split("/")[0] for name in dumps["allocators"]}
    for name, node in dumps["allocators"].items():
        assert guids.setdefault(node["guid"], name) == name, "a guid names one node of a global dump"
        for key, attr in node["attrs"].items():
            assert attr["type"] in ("scalar", "string") and isinstance(attr["value"], str)
            assert key != "size" or attr["units"] == "bytes"
            if attr["type"] == "scalar":
                int(attr["value"], 16)
    sizes = {n: int(v["attrs"]["size"]["value"], 16) for n, v in dumps["allocators"].items() if "size" in v["attrs"]}
    for name, size in sizes.items():
        below = sum(s for n, s in sizes.items() if n.rpartition("/")[0] == name)
        assert size >= below, f"{name}: the given size is too small"
    for heap in list(dumps.get("heaps_v2", {}).get("allocators", {})) + list(dumps.get("heaps", {})):
        assert heap in roots, f"{heap}: not reachable, no allocator root of that name"


class Ids:
    """Strings, types and nodes of the file, as its one chain of maps resolves them."""

    def __init__(self):
        self.of = {"strings": {}, "types": {}, "nodes": {}}
        self.owner = {}

    def take(self, pid, maps):
        assert set(maps) == {"strings", "types", "nodes"}
        for kind, rows in maps.items():
            for row in rows:
                assert isinstance(row["id"], int) and row["id"] >= 1
                assert (kind, row["id"]) not in self.owner, "ids are unique in the file and never redefined"
                self.owner[kind, row["id"]] = pid
                self.of[kind][row["id"]] = row
                assert row.get("parent", 1) != 0
        for row in maps["nodes"] + maps["types"]:
            assert self.owner["strings", row["name_sid"]] == pid
            assert "parent" not in row or self.owner["nodes", row["parent"]] == pid

    def stack(self, node):
        path = []
        while node is not None:
            row = self.of["nodes"][node]
            path.append(self.of["strings"][row["name_sid"]]["string"])
            node = row.get("parent")
        assert "<self>" not in path and not any("\n" in name or "\r" in name for name in path)
        return tuple(reversed(path))


def heaps_v2(pid, heaps, ids):
    assert heaps["version"] == 1 and isinstance(heaps["version"], int)
    ids.take(pid, heaps["maps"])
    result = {}
    for name, heap in heaps["allocators"].items():
        columns = [heap[c] for c in ("counts", "sizes", "types", "nodes")]
        assert len({len(c) for c in columns}) == 1 and columns[0]
        rows = list(zip(*columns))
        assert all(isinstance(v, int) and v >= 0 for row in rows for v in row)
        assert all(ids.owner["types", t] == pid and ids.owner["nodes", n] == pid for _, _, t, n in rows)
        assert len({(t, n) for _, _, t, n in rows}) == len(rows), "one row per (node, type)"
        assert [r[1] for r in rows] == sorted((r[1] for r in rows), reverse=True)
        for _, _, _, n in rows:
            ids.stack(n)
        result[name] = (sum(r[1] for r in rows), sum(r[0] for r in rows))
    return result


def heaps_v1(pid, heaps, frames, types):
    result = {}
    for name, heap in heaps.items():
        entries = heap["entries"]
        assert entries and entries[0]["bt"] == "" and "type" not in entries[0]
        assert all(e["bt"] == "" or e["bt"] in frames[pid] for e in entries)
        assert all("type" not in e or e["type"] in types[pid] for e in entries)
        assert len({(e["bt"], e.get("type")) for e in entries}) == len(entries)
        result[name] = (int(entries[0]["size"], 16), int(entries[0]["count"], 16))
    return result


def totals(trace):
    """What each heap holds at each time, by the rules of the viewer."""
    events = trace["traceEvents"]
    for key in ("product-version", "os-name", "os-arch", "user-agent"):
        assert key in trace["metadata"]
    frames = {e["pid"]: e["args"]["stackFrames"] for e in events if e["name"] == "stackFrames"}
    types = {e["pid"]: e["args"]["typeNames"] for e in events if e["name"] == "typeNames"}
    ids, result, guids, last, done, levels = Ids(), {}, {}, None, set(), {}
    for e in events:
        check_event(e)
        if e["ph"] == "M":
            continue
        assert e["id"] not in done, "global dumps do not overlap"
        if e["id"] != last:
            done.add(last)
            last, guids = e["id"], {}
        dumps = e["args"]["dumps"]
        assert levels.setdefault(e["id"], dumps["level_of_detail"]) == dumps["level_of_detail"]
        check_allocators(dumps, guids)
        heaps = (heaps_v2(e["pid"], dumps["heaps_v2"], ids) if "heaps_v2" in dumps else
                 heaps_v1(e["pid"], dumps.get("heaps", {}), frames, types))
        for name, value in heaps.items():
            result[e["ts"], e["pid"], name] = value
    return result


def of_model(path):
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


with tempfile.TemporaryDirectory() as folder:
    for case in cases:
        want = of_model(case)
        for kind in ("memory-infra", "memory-infra-v1"):
            path = f"{folder}/out.json.gz"
            subprocess.run([heapwise, "convert", "-t", kind, case, path], check=True)
            with gzip.open(path) as f:
                got = totals(json.load(f))
            assert got == want, (case, kind, got, want)
            assert of_model(path) == want, (case, kind)
