#!/usr/bin/env python3
"""make.py BYTES [v1]: a JSON trace with memory dumps of that size on stdout: one process, 50,000 callstacks of 12
frames (of 60,000 nodes in all), 200 types; each dump tells all rows, one in four of them changed. v1: totals."""
import json
import random
import sys

want, v1 = int(sys.argv[1]), "v1" in sys.argv
rng = random.Random(5)
strings = [{"id": i + 1, "string": f"module{i % 97}::Class{i % 911}::function_{i}(int, char const*)"} for i in range(20000)]
types = [{"id": 100001 + i, "name_sid": 1 + i} for i in range(200)]
nodes = [{"id": 200001, "name_sid": 1}]
for i in range(1, 60000):
    nodes.append({"id": 200001 + i, "name_sid": 1 + rng.randrange(20000), "parent": nodes[max(0, i - 1 - rng.randrange(1 + i // 8))]["id"]})
stacks = [n["id"] for n in nodes[10000:]]
row_types = [100001 + rng.randrange(200) for _ in stacks]
sizes = [rng.randrange(16, 1 << rng.randrange(6, 22)) for _ in stacks]
counts = [1 + s // 100 for s in sizes]


def dump(n):
    for _ in range(len(stacks) // 4):
        i = rng.randrange(len(stacks))
        sizes[i] += rng.randrange(1, 5000)
        counts[i] = 1 + sizes[i] // 100
    if v1:
        return {"heaps": {"malloc": {"entries": [{"bt": "", "size": f"{sum(sizes):x}", "count": f"{sum(counts):x}"}] + [
            {"bt": str(s), "size": f"{b:x}", "count": f"{c:x}", "type": str(t)}
            for s, b, c, t in zip(stacks, sizes, counts, row_types)]}}}
    maps = {"strings": strings, "nodes": nodes, "types": types} if n == 1 else {"strings": [], "nodes": [], "types": []}
    return {"heaps_v2": {"version": 1, "maps": maps, "allocators": {
        "malloc": {"counts": counts, "sizes": sizes, "types": row_types, "nodes": stacks}}}}


out = sys.stdout
out.write('{"traceEvents":[\n')
if v1:
    frames = {str(n["id"]): {"name": strings[n["name_sid"] - 1]["string"],
                             **({"parent": str(n["parent"])} if "parent" in n else {})} for n in nodes}
    for name, value in (("stackFrames", frames), ("typeNames", {str(t["id"]): f"T{t['id']}" for t in types})):
        out.write(json.dumps({"ph": "M", "cat": "__metadata", "name": name, "pid": 100, "tid": 0, "ts": 0,
                              "args": {name: value}}, separators=(",", ":")) + ",\n")
written, n = 0, 0
while written < want:
    n += 1
    text = json.dumps({"ph": "v", "cat": "disabled-by-default-memory-infra", "name": "periodic_interval", "pid": 100, "tid": -1,
                       "ts": n * 1000000, "id": hex(n), "args": {"dumps": {"level_of_detail": "detailed", **dump(n)}}},
                      separators=(",", ":"))
    out.write((",\n" if n > 1 else "") + text)
    written += len(text)
out.write('\n],"metadata":{"product-version":"Made/1","os-name":"Linux","os-arch":"x86_64","user-agent":""}}\n')
