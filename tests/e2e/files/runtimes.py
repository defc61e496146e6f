#!/usr/bin/env python3
"""What V8 (Node.js, Chrome) and Ruby write, against a reader that goes through the same file by force."""
import csv
import io
import json
import re
import sys
from collections import Counter

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

HELD = """
const v8 = require('v8');
class Session { constructor(i) { this.id = i; this.data = new Array(50).fill(i + 0.5); this.name = 'session ' + i; } }
class Cache { constructor() { this.map = new Map(); } add(s) { this.map.set(s.id, s); } }
class Key { constructor(i) { this.k = i; } }
class Weakly { constructor() { this.text = 'x'.repeat(1000) + Math.random(); } }
class OfTwo { constructor() { this.text = new Array(100).fill(1); } }
globalThis.cache = new Cache();
for (let i = 0; i < 2000; i++) globalThis.cache.add(new Session(i));
globalThis.keys = [];
globalThis.weak = new WeakMap();
for (let i = 0; i < 50; i++) { const k = new Key(i); globalThis.keys.push(k); globalThis.weak.set(k, new Weakly()); }
globalThis.ref = new WeakRef(globalThis.keys[0]);
globalThis.one = { shared: new OfTwo(), 'an odd \\u20ac name': new Array(10) };
globalThis.two = { shared: globalThis.one.shared };
v8.writeHeapSnapshot('held.heapsnapshot');
"""


def rows(box, file, sql):
    r = box.run([hw.tool("heapwise"), "query", file, sql], check=0)
    return list(csv.reader(io.StringIO(r.stdout.decode())))[1:]


class Graph:
    """Objects are numbers, out[o] what o refers to; what one retains is found by leaving it out."""
    roots = (0,)

    def reached(self, without=-1):
        seen = {r for r in self.roots if r != without}
        todo = list(seen)
        while todo:
            for t in self.out[todo.pop()]:
                if t not in seen and t != without:
                    seen.add(t)
                    todo.append(t)
        return sum(self.size[i] for i in seen)

    def retained(self, o):
        return self.reached() - self.reached(o)


class Twin(Graph):
    """A snapshot as Chrome's developer tools count it."""
    OF_TABLE = re.compile(r"^\d+ / part of key \(.*? @\d+\) -> value \(.*? @\d+\) pair in WeakMap \(table @(\d+)\)$", re.S)
    NAMES = {"hidden": "(system)", "code": "(compiled code)", "closure": "Function", "regexp": "RegExp"}

    def __init__(self, file):
        d = json.load(open(file))
        meta, texts = d["snapshot"]["meta"], d["strings"]
        width, columns = len(meta["node_fields"]), meta["node_fields"].index
        kinds = meta["node_types"][columns("type")]
        flat = d["nodes"]
        nodes = [flat[i:i + width] for i in range(0, len(flat), width)]
        self.size = [n[columns("self_size")] for n in nodes]
        self.name = [self.class_of(kinds[n[columns("type")]], texts[n[columns("name")]]) for n in nodes]
        step, of = len(meta["edge_fields"]), meta["edge_fields"].index
        ways, flat, at = meta["edge_types"][of("type")], d["edges"], 0
        self.out = []
        for i, n in enumerate(nodes):
            targets = []
            for _ in range(n[columns("edge_count")]):
                way, name, to = ways[flat[at + of("type")]], flat[at + of("name_or_index")], flat[at + of("to_node")] // width
                at += step
                table = self.OF_TABLE.match(texts[name]) if way == "internal" else None
                if way == "weak" or (way == "shortcut" and i) or (table and int(table.group(1)) == n[columns("id")]):
                    continue
                targets.append(to)
            self.out.append(targets)
        hw.equal(at, len(flat), "references of all objects")

    def class_of(self, kind, name):
        if kind in ("object", "native"):
            return name
        if kind == "synthetic":
            return name or "(root)"
        return self.NAMES.get(kind, f"({kind})")


def suspect(box, file, step):
    """The suspect whose path goes over that step."""
    page = json.loads(box.run([hw.tool("heapwise"), "graph", "--suspects", "--json", "--top", "0", file], check=0).stdout)
    found = [r for r in page["rows"] if step in [s.get("by") or s["class"] for s in r["nearest"]]]
    hw.true(len(found) == 1, f"suspects: {[(r['class'], r['nearest']) for r in page['rows']]}")
    names = [r["class"] for r in page["rows"]] + [r["point"]["class"] for r in page["rows"] if "point" in r]
    hw.true(not any(n.endswith("root)") or n.endswith("roots)") for n in names), f"a group of roots is no suspect, and no point: {names}")
    return found[0]


def snapshot(box):
    """Classes, sizes, retained memory, paths, names of fields."""
    hw.need("node")
    (box.dir / "held.js").write_text(HELD)
    box.run(["node", "held.js"], check=0, timeout=120)
    twin, file = Twin(box.path("held.heapsnapshot")), box.path("held.heapsnapshot")
    want = Counter(twin.name), Counter()
    for name, size in zip(twin.name, twin.size):
        want[1][name] += size
    r = box.run([hw.tool("heapwise"), "convert", "-t", "perfetto", file, box.path("held.trace")], check=None)
    hw.true(r.returncode != 0 and b"only a heap graph" in r.stderr, r.stderr.decode())
    got = rows(box, file, "select c.name, count(*), sum(o.self_size) from heap_graph_object o "
                       "join heap_graph_class c on o.type_id = c.id group by c.name")
    hw.equal({n: int(k) for n, k, _ in got}, dict(want[0]), f"objects by class, {file}")
    hw.equal({n: int(s) for n, _, s in got}, dict(want[1]), f"bytes by class, {file}")
    (reachable,), = rows(box, file, "select sum(self_size) from heap_graph_object where reachable")
    hw.equal(int(reachable), twin.reached(), "bytes that the root reaches")
    for name, n in ("Cache", 1), ("OfTwo", 1), ("Weakly", 50), ("WeakMap", None):
        of = [i for i, c in enumerate(twin.name) if c == name]
        hw.true(n is None or len(of) == n, f"{name}: {len(of)} objects")
        got = rows(box, file, "include perfetto module android.memory.heap_graph.dominator_tree; "
                           "select d.dominated_size_bytes from heap_graph_dominator_tree d join heap_graph_object o using (id) "
                           f"join heap_graph_class c on o.type_id = c.id where c.name = '{name}' order by o.id")
        hw.equal([int(r[0]) for r in got[:4]], [twin.retained(i) for i in of[:4]], f"retained by each {name}")
    r = box.run([hw.tool("heapwise"), "graph", file, "--path", "Session"], check=0)
    hw.true(b"Session < " in r.stdout and b"< Map < Cache < global" in r.stdout, r.stdout.decode())
    cache = suspect(box, file, "Cache.map")
    same = [twin.retained(i) for i, n in enumerate(twin.name) if n == cache["class"]]
    hw.true(cache["retained"] in same and twin.name.count("Cache") == 1, f"retained by the suspect: {cache['retained']} of {same}")
    hw.equal((cache["accumulates"][0]["class"], cache["accumulates"][0]["objects"]), ("Session", 2000), "what accumulates")
    fields = {n for n, in rows(box, file, "select distinct field_name from heap_graph_reference where field_name like 'Object.%'")}
    hw.true('Object.an odd \u20ac name' in fields, f"names of fields: {sorted(fields)[:50]}")
    again = rewritten(box, file)
    hw.equal(Counter(again.name), Counter(twin.name), "written again: the same nodes")


def strict(file):
    """What Chrome's developer tools rely on without a check: members in this order, whole rows, edges that lead to nodes, ids that differ."""
    text = open(file).read()
    d = json.loads(text)
    members = ["snapshot", "nodes", "edges", "trace_function_infos", "trace_tree", "samples", "locations", "strings"]
    hw.equal(list(d), members, "members, in the order in which they are read")
    meta, nodes, edges = d["snapshot"]["meta"], d["nodes"], d["edges"]
    node, edge = meta["node_fields"], meta["edge_fields"]
    hw.equal((len(node), len(edge)), (len(meta["node_types"]), len(meta["edge_types"])), "a type for each column")
    hw.true(all(type(n) is int and n >= 0 for n in nodes + edges), "numbers only")
    hw.equal(len(nodes), d["snapshot"]["node_count"] * len(node), "node_count")
    hw.equal(len(edges), d["snapshot"]["edge_count"] * len(edge), "edge_count")
    hw.equal(sum(nodes[node.index("edge_count")::len(node)]), d["snapshot"]["edge_count"], "edges of all nodes")
    ids = nodes[node.index("id")::len(node)]
    hw.equal(len(set(ids)), len(ids), "ids")
    kinds, ways = meta["node_types"][0], meta["edge_types"][0]
    hw.true(max(nodes[0::len(node)]) < len(kinds) and max(nodes[1::len(node)]) < len(d["strings"]), "types and names of nodes")
    hw.equal((kinds[nodes[0]], d["strings"][nodes[1]], nodes[3]), ("synthetic", "", 0), "the first node is the root")
    for way, name, to in zip(edges[0::3], edges[1::3], edges[2::3]):
        hw.true(way < len(ways) and to < len(nodes) and to % len(node) == 0, f"an edge of type {way} to {to}")
        hw.true(ways[way] in ("element", "hidden") or name < len(d["strings"]), f"an edge's name {name}")
    return len(ids)


OUTSIDE = "native memory"


def figures(box, file):
    """Objects, bytes, bytes in reach and retained bytes by class, of the last graph. Memory outside of the heap counts with its object."""
    module = "include perfetto module android.memory.heap_graph.dominator_tree; "
    last = " where o.graph_sample_ts = (select max(graph_sample_ts) from heap_graph_object) group by 1"
    by_class = rows(box, file, "select c.name, count(*), sum(max(o.self_size, 0)), sum(o.reachable), sum(max(o.self_size, 0) * o.reachable) "
                               "from heap_graph_object o join heap_graph_class c on o.type_id = c.id" + last)
    kept = rows(box, file, module + "select c.name, sum(d.dominated_size_bytes + d.dominated_native_size_bytes) "
                                    "from heap_graph_dominator_tree d join heap_graph_object o using (id) "
                                    "join heap_graph_class c on o.type_id = c.id" + last)
    retained = {n: int(b) for n, b in kept}
    return {n: (*map(int, v), retained.get(n, 0)) for n, *v in by_class if n != OUTSIDE}


ROOTS = re.compile(r"\((?:root|GC roots|unknown|jni global|jni local|java frame|native stack|sticky class|thread block|monitor used|thread object"
                   r"|interned string|finalizing|debugger|reference cleanup|vm internal|jni monitor|compiled code)\)")


def rewritten(box, file):
    """Written as V8 writes it, read again: the same graph, but for the root above the roots."""
    out = box.path("written.heapsnapshot")
    box.run([hw.tool("heapwise"), "convert", "-t", "heapsnapshot", file, out], check=0)
    strict(out)
    want, got = figures(box, file), figures(box, out)
    new = {n for n in got if n not in want}
    hw.true(all(ROOTS.fullmatch(n) for n in new), f"new classes: {new}")
    other = {n: (got.get(n), v) for n, v in want.items() if got.get(n) != v}
    hw.equal(other, {}, f"classes of {file} with other objects, bytes, reachable objects, bytes, retained bytes")
    twin = Twin(out)
    (reachable,), = rows(box, out, "select sum(self_size) from heap_graph_object where reachable")
    hw.equal(int(reachable), twin.reached(), "bytes in reach, as Chrome counts them")
    return twin


def written(box):
    """Graphs of JVMs, Ruby and V8 as snapshots: Chrome's developer tools and our own reader find the same in them."""
    graphs = hw.ROOT / "tests/golden/trace/graph"
    for file in graphs / "hprof_hotspot.hprof", graphs / "hprof_art.hprof", hw.ROOT / "samples/shop.trace.gz":
        rewritten(box, file)
    small = hw.ROOT / "tests/fuzz/corpus/text_profile/small.heapsnapshot"
    twin = rewritten(box, small)
    hw.equal(Counter(twin.name), Counter(Twin(small).name), "V8's own: the same nodes, and no root above its root")
    (box.dir / "native.folded").write_text("main;keep 100\n")
    r = box.run([hw.tool("heapwise"), "convert", "-t", "heapsnapshot", box.path("native.folded"), box.path("none.heapsnapshot")], check=None)
    hw.true(r.returncode != 0 and b"heap graph" in r.stderr, r.stderr.decode())


def samples(box):
    """A sampled profile: bytes by stack, and the lines that V8 tells."""
    hw.need("node")
    (box.dir / "kept.js").write_text("""globalThis.kept = [];
function keep(n) {
    for (let i = 0; i < n; i++) globalThis.kept.push(new Array(200).fill(i));
}
function outer() { keep(3000); keep(10); }
outer();
""")
    box.run(["node", "--heap-prof", "--heap-prof-interval=2048", "--heap-prof-name=kept.heapprofile", "kept.js"], check=0, timeout=120)
    want, todo = Counter(), [(json.load(open(box.path("kept.heapprofile")))["head"], ())]
    while todo:
        node, path = todo.pop()
        call = node["callFrame"]
        if node["id"] != 1:
            path += ((call["functionName"] or "(anonymous)", call["url"], call["lineNumber"] + 1 if call["url"] else 0),)
            want[path] += node["selfSize"]
        todo += [(c, path) for c in node["children"]]
    hw.true(sum(v for p, v in want.items() if p[-1][0] == "keep") > 3000 * 200 * 4, f"the program keeps what it says: {want.most_common(3)}")
    got = Counter()
    for site, size in rows(box, box.path("kept.heapprofile"), "select callsite_id, sum(size) from heap_profile_allocation group by 1"):
        path = rows(box, box.path("kept.heapprofile"), f"""
            with recursive up(id, n) as (select {site}, 0 union all select c.parent_id, n + 1
                from up join stack_profile_callsite c using (id) where c.parent_id is not null)
            select f.name, coalesce(s.source_file, ''), coalesce(s.line_number, 0) from up join stack_profile_callsite c using (id)
            join stack_profile_frame f on c.frame_id = f.id left join stack_profile_symbol s using (symbol_set_id) order by n desc""")
        got[tuple((n, u, int(l)) for n, u, l in path)] += int(size)
    hw.equal(dict(got), {p: int(v) for p, v in want.items() if v >= 1}, "bytes by stack")
    r = box.run([hw.tool("heapwise"), "report", box.path("kept.heapprofile")], check=0)
    hw.true(re.search(rb"MiB\s+\d+\s+keep < outer", r.stdout), r.stdout.decode())


def damaged(box):
    """Cut off, or with numbers that lead nowhere: a word about it, and what is right is shown."""
    small = json.loads((hw.ROOT / "tests/fuzz/corpus/text_profile/small.heapsnapshot").read_text())

    def said(d, *command):
        (box.dir / "d.heapsnapshot").write_text(d if isinstance(d, str) else json.dumps(d))
        r = box.run([hw.tool("heapwise"), *command, box.path("d.heapsnapshot")], check=None)
        return r.returncode, r.stdout.decode() + r.stderr.decode()

    status, text = said(small, "graph")
    hw.true(status == 0 and "reachable 180 B in 6 objects" in text, text)
    status, text = said(json.dumps(small)[:-30], "graph")
    hw.true(status != 0 and "cut off" in text, text)
    for column in "self_size", "edge_count":
        without = json.loads(json.dumps(small))
        without["snapshot"]["meta"]["node_fields"].remove(column)
        status, text = said(without, "graph")
        hw.true(status != 0 and "lacks a column" in text, text)
    for at, wrong in (2, 8), (2, 7000000), (0, 77), (3, -5), (3, 1.5), (3, "x"):
        bad = json.loads(json.dumps(small))
        bad["edges"][at] = wrong
        status, text = said(bad, "graph")
        hw.true(status == 4 and "heap_graph_malformed_packet = 1" in text, f"edges[{at}] = {wrong}: {text}")
    short = json.loads(json.dumps(small))
    del short["edges"][-3:]
    status, text = said(short, "graph")
    hw.true(status == 4 and "heap_graph_malformed_packet = 1" in text and "reachable 156 B" in text, text)


KEPT = """
require 'objspace'
class Session; def initialize(i); @id = i; @data = Array.new(50) { |k| k.to_f + i }; @name = 'session \\u00fc ' * 3 + i.to_s; end; end
class Cache; def initialize; @map = {}; end; def add(i, s); @map[i] = s; end; end
$cache = Cache.new
300.times { |i| $cache.add(i, Session.new(i)) }
$odd = Session.new(-1)
def $odd.own; 1; end # a singleton class
def hold(o); big = 'x' * 400_000; o.define_singleton_method(:big) { big }; end
hold($odd)
GC.start
File.open('kept.json', 'w') { |f| ObjectSpace.dump_all(output: f) }
puts ObjectSpace.each_object(Session).count, ObjectSpace.memsize_of_all(Session), ObjectSpace.each_object(Cache).count
"""


class Dump(Graph):
    """Ruby's lines. Of what has no address the roots are made, in front."""

    def __init__(self, file):
        lines = [json.loads(line) for line in open(file)]
        self.lines, number = lines, {o["address"]: i for i, o in enumerate(lines) if "address" in o}
        self.size = [o.get("memsize", 0) for o in lines]
        self.out = [[number[r] for r in [o.get("class"), *o.get("references", ())] if r in number] for o in lines]
        self.roots = [i for i, o in enumerate(lines) if o["type"] == "ROOT"]


def ruby(box):
    """Objects by class as Ruby counts them, retained memory by force."""
    hw.need("ruby")
    (box.dir / "kept.rb").write_text(KEPT)
    sessions, session_bytes, caches = (int(x) for x in box.run(["ruby", "kept.rb"], check=0, timeout=120).stdout.split())
    twin, file = Dump(box.path("kept.json")), box.path("kept.json")
    got = {n: (int(k), int(s)) for n, k, s in rows(box, file, "select c.name, count(*), sum(o.self_size) from heap_graph_object o "
                                                             "join heap_graph_class c on o.type_id = c.id where c.name in ('Session', 'Cache') group by 1")}
    hw.equal(got["Session"], (sessions, session_bytes), "sessions, those with a singleton class, too")
    hw.equal(got["Cache"][0], caches, "caches")
    (n, size, reachable), = rows(box, file, "select count(*), sum(self_size), sum(self_size * reachable) from heap_graph_object where self_size >= 0")
    hw.equal((int(n), int(size), int(reachable)), (len(twin.lines), sum(twin.size), twin.reached()), "objects, bytes, those in reach")
    cache_class = next(o["address"] for o in twin.lines if o.get("name") == "Cache")
    cache = next(i for i, o in enumerate(twin.lines) if o.get("class") == cache_class and o["type"] == "OBJECT")
    (retained,), = rows(box, file, "include perfetto module android.memory.heap_graph.dominator_tree; select d.dominated_size_bytes "
                                   "from heap_graph_dominator_tree d join heap_graph_object o using (id) "
                                   "join heap_graph_class c on o.type_id = c.id where c.name = 'Cache'")
    hw.equal(int(retained), twin.retained(cache), "retained by the cache")
    rewritten(box, file)
    r = box.run([hw.tool("heapwise"), "graph", file, "--path", "Cache"], check=0)
    hw.true(b"Cache < (global_tbl) [ROOT" in r.stdout, r.stdout.decode())
    page = box.run([hw.tool("heapwise"), "graph", "--suspects", "--json", file], check=0)
    names = [r["class"] for r in json.loads(page.stdout)["rows"]]
    hw.true(names and not {"(vm)", "(global_tbl)", "(machine_context)"} & set(names), f"suspects: {names}")
    # What only a singleton method holds is in use: Ruby marks an object's class, which is not among its references.
    (held,), = rows(box, file, "select sum(o.reachable) from heap_graph_object o join heap_graph_class c on o.type_id = c.id where c.name = 'String' and o.self_size > 300000")
    hw.equal(int(held), 1, "the string of a singleton method, in reach")
    text = open(file).read().splitlines()
    (box.dir / "bad.json").write_text("\n".join(text[:100] + ['{"address":"0xzz", "type":"STRING"}', '{"cut": ', "[1]"] + text[100:])[:-40])
    r = box.run([hw.tool("heapwise"), "graph", box.path("bad.json")], check=None)
    hw.true(r.returncode == 4 and b"heap_graph_malformed_packet = 4" in r.stdout + r.stderr, r.stderr.decode())


CASES = {k: v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in ("rows", "suspect", "Graph", "Twin", "Dump", "strict", "figures", "rewritten")}

if __name__ == "__main__":
    hw.main(CASES)
