#!/usr/bin/env python3
"""Files of other profilers, read by us and by their own tools: both say the same."""
import csv
import io
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
import serve
from lib import hprof as heap_dump, hw, pprof
from lib.javac import javac


def rows(box, file, sql):
    r = box.run([hw.tool("heapwise"), "query", file, sql], check=0)
    return list(csv.reader(io.StringIO(r.stdout.decode())))[1:]


LEAKY = """
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static void *keep(size_t n) { return malloc(n); }
__attribute__((noinline)) static void drop(size_t n) { void *p = malloc(n); memset(p, 1, n); free(p); }
int main(void) { void *big = malloc(3000000); for (int i = 0; i < 1000; i++) { keep(123); drop(i + 1); }
                 free(big); return keep(7) == NULL; }
"""


def heaptrack(box):
    hw.need("heaptrack", "heaptrack_print", "cc")
    src = box.dir / "leaky.c"
    src.write_text(LEAKY)
    box.run(["cc", "-g", "-O1", "-o", box.path("leaky"), src], check=0)
    box.run(["heaptrack", "-o", box.path("ht"), box.path("leaky")], check=0, timeout=120)
    file = next(str(p) for p in sorted(box.dir.glob("ht.*")))
    said = box.run(["heaptrack_print", "-f", file, "-n", "0", "-s", "0"], check=None).stdout.decode()
    calls = int(re.search(r"calls to allocation functions: (\d+)", said).group(1))
    (n, peak), = rows(box, file, """
        select sum(case when count > 0 then count end),
               (select sum(size) from heap_profile_allocation where ts = (select min(ts) from heap_profile_allocation))
        from heap_profile_allocation""")
    hw.equal(int(n), calls, "allocations")
    said_peak = re.search(r"peak heap memory consumption: ([\d.]+)(\w)", said)
    scale = {"B": 1, "K": 1e3, "M": 1e6}[said_peak.group(2)]
    hw.true(abs(int(peak) - float(said_peak.group(1)) * scale) <= 0.01 * scale,
            f"peak {peak}; heaptrack_print: {said_peak.group(0)}")
    # What the source says.
    live = {name: int(size) for name, size in rows(box, file, """
        select s.name, sum(a.size) from heap_profile_allocation a join stack_profile_callsite c on a.callsite_id = c.id
        join stack_profile_frame f on c.frame_id = f.id join stack_profile_symbol s using (symbol_set_id)
        where s.source_file like '%leaky.c' group by 1""")}
    hw.equal(live.get("keep"), 1000 * 123 + 7, f"bytes of keep; all: {live}")
    hw.equal(live.get("drop", 0), 0, "bytes of drop")


LIST = """
import java.util.*;
public class Q {
    static List<Node> all = new ArrayList<>(); static String greet = "gr\\u00fc\\u00dfe \\u20ac"; static long answer = 42;
    static class Node { Node next; byte[] data; int id; Node(int i, Node n) { id = i; next = n; data = new byte[100]; } }
    public static void main(String[] a) throws Exception {
        Node n = null;
        for (int i = 0; i < 20000; i++) { n = new Node(i, n); if (i % 2 == 0) all.add(n); }
        System.out.println("ready"); System.out.flush();
        System.in.read();
    }
}
"""


def hprof(box):
    """A heap dump of a quiet JVM against the histogram it makes itself."""
    hw.need("java", "javac", "jcmd")
    src = box.dir / "Q.java"
    src.write_text(LIST)
    javac(box, src)
    jvm = subprocess.Popen(["java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", str(box.dir), "Q"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
    try:
        hw.equal(jvm.stdout.readline(), "ready\n", "the program's line")
        hw.idles(jvm.pid, 0.2)
        file = box.path("q.hprof")
        box.run(["jcmd", str(jvm.pid), "GC.heap_dump", file], check=0, timeout=hw.CLOCK)
        histogram = box.run(["jcmd", str(jvm.pid), "GC.class_histogram"], check=0, timeout=hw.CLOCK).stdout.decode()
    finally:
        jvm.kill()
        jvm.wait()
    truth = {}
    for line in histogram.splitlines():
        m = re.match(r"\s*\d+:\s+(\d+)\s+(\d+)\s+(\S+)", line)
        if m:
            truth[m.group(3)] = (int(m.group(1)), int(m.group(2)))
    ours = {name: (int(n), int(size)) for name, n, size in rows(box, file, """
        select c.name, count(*), sum(o.self_size) from heap_graph_object o join heap_graph_class c on o.type_id = c.id
        where c.name not like 'java.lang.Class<%' group by 1""")}
    primitive = {"[B": "byte[]", "[I": "int[]", "[C": "char[]", "[J": "long[]", "[Z": "boolean[]", "[S": "short[]",
                 "[D": "double[]", "[F": "float[]"}
    same = same_size = 0
    for name, (n, size) in truth.items():
        plain = primitive.get(name, name)
        if name.startswith("[L"):
            plain = name[2:-1] + "[]"
        if name == "java.lang.Class" or name.startswith("[["):
            continue
        mine = ours.get(plain, (0, 0))
        same += mine[0] == n
        same_size += mine == (n, size)
    compared = len([n for n in truth if n != "java.lang.Class" and not n.startswith("[[")])
    print(f"  {compared} classes: {same} with the same count, {same_size} with the same bytes")
    hw.true(same >= 0.97 * compared, "counts")  # the JVM itself goes on between the two
    hw.true(same_size >= 0.95 * compared, "bytes")
    hw.equal(ours["Q$Node"], truth["Q$Node"], "Q$Node")
    (n,), = rows(box, file, """select count(*) from heap_graph_reference r where r.field_name = 'Q$Node.next'
                               and r.owned_id is not null""")
    hw.equal(int(n), 19999, "references of Q$Node.next")
    (n,), = rows(box, file, "select count(*) from heap_graph_object_data where value_string = 'grüße €'")
    hw.true(int(n) >= 1, "the text of a string")
    (n,), = rows(box, file, "select sum(int_value) from heap_graph_primitive where field_name = 'Q$Node.id'")
    hw.equal(int(n), 19999 * 20000 // 2, "sum of Q$Node.id")
    (n,), = rows(box, file, """select count(*) from heap_graph_thread_callsite t
                               join stack_profile_callsite c on c.id = t.callsite_id""")
    hw.true(int(n) > 0, "stacks of threads")


BUILT_UP = """
#include <stdlib.h>
void *volatile kept[10000];
int main(int n, char **v)
{
    if (n == 1)
        for (int i = 0; i < 10000; i++)
            kept[i] = malloc(100 + i % 2);
    for (int i = 0; i < 10000; i++)
        free(kept[i]);
    free((void *)(kept[0] = malloc(300)));
    return v == 0;
}
"""


def no_temporary(box):
    """Nobody knows which allocations were temporary, so heaptrack's viewer finds none: of a program that frees all it
    has built up (where the first free is of the last allocation), and of one with a single allocation."""
    hw.need("heaptrack_print", "cc")
    src = box.dir / "built.c"
    src.write_text(BUILT_UP)
    box.run(["cc", "-g", "-O1", "-fno-builtin", "-o", box.path("built"), src], check=0)
    for args in [], ["x"]:
        r = hw.record(box, [box.path("built"), *args], trace=f"b{len(args)}.trace")
        for option in [], ["--peak"]:
            out = box.path(f"b{len(args)}{len(option)}.heaptrack")
            box.run([hw.tool("heapwise"), "convert", "-t", "heaptrack", *option, r.trace, out], check=0)
            said = box.run(["heaptrack_print", "-f", out, "-n", "0", "-s", "0"], check=None)
            text = said.stdout.decode()
            hw.equal(int(re.search(r"temporary memory allocations: (\d+)", text).group(1)), 0, f"temporary ones, {args} {option}")
            (have,), = rows(box, out, "select sum(size) from heap_profile_allocation")
            hw.equal(int(have), 0 if not option else int(have), "live bytes, read back")
            hw.true(option or int(re.search(r"calls to allocation functions: (\d+)", text).group(1)) == (1 if args else 10001), text)


def write_heaptrack(box):
    """What we write for heaptrack's viewer adds up to what we recorded."""
    hw.need("heaptrack_print", "sqlite3")
    sql = "with recursive n(i) as (select 1 union all select i+1 from n where i<3000) select count(hex(i)) from n;"
    r = hw.record(box, ["sqlite3", ":memory:", sql])
    d = hw.sound(r.trace).last()
    out = box.path("out.heaptrack")
    box.run([hw.tool("heapwise"), "convert", "-t", "heaptrack", r.trace, out], check=0)
    said = box.run(["heaptrack_print", "-f", out, "-n", "0", "-s", "0"], check=None).stdout.decode()
    hw.equal(int(re.search(r"calls to allocation functions: (\d+)", said).group(1)),
             d.total("allocs"), "calls")
    hw.equal(int(re.search(r"temporary memory allocations: (\d+)", said).group(1)), 0, "temporary ones")
    (have,), = rows(box, out, "select sum(size) from heap_profile_allocation")
    (want,), = rows(box, r.trace, "select sum(size) from heap_profile_allocation")
    hw.equal(have, want, "live bytes, read back")
    stacks = box.run([hw.tool("heapwise"), "convert", "-t", "folded", "--peak", r.trace], check=0).stdout.decode()
    peak = sum(int(line.rsplit(" ", 1)[1]) for line in stacks.splitlines())
    said_peak = re.search(r"peak heap memory consumption: ([\d.]+)(\w)", said)
    scale = {"B": 1, "K": 1e3, "M": 1e6}[said_peak.group(2)]
    hw.true(peak > int(want) and abs(peak - float(said_peak.group(1)) * scale) <= 0.01 * scale,
            f"peak {peak}, end {want}; heaptrack_print: {said_peak.group(0)}")
    (have,), = rows(box, out, "select sum(size) from heap_profile_allocation where size > 0")
    (want,), = rows(box, r.trace, "select sum(size) from heap_profile_allocation where size > 0")
    hw.equal(have, want, "allocated bytes, read back")


def write_massif(box):
    hw.need("ms_print", "sqlite3")
    r = hw.record(box, ["sqlite3", ":memory:", "create table t(a); insert into t values(1); select * from t;"])
    out = box.path("out.massif")
    box.run([hw.tool("heapwise"), "convert", "-t", "massif", "--peak", r.trace, out], check=0)
    said = box.run(["ms_print", out], check=0).stdout.decode()
    total = int(re.search(r"mem_heap_B=([1-9]\d*)", open(out).read()).group(1))
    hw.true(f"{total:,}" in said and "100.00%" in said, "the total in ms_print's text")
    lines = re.findall(r"^( *)n(\d+): (\d+) ", open(out).read(), re.M)
    hw.equal(int(lines[0][2]), total, "the tree's root")
    hw.equal(sum(int(n) for indent, _, n in lines if len(indent) == 1), total, "the sum of its children")


NODES = """
import java.util.*;
public class R {
    static List<Object> keep = new ArrayList<>();
    static class Node { Node next; int a = 7; long b; byte c = -1; String s; Object[] some = new Object[3];
                        Node(Node n, int i) { next = n; b = i; s = "node" + i; some[1] = this; } }
    static class Sub extends Node { double d = 2.5; float f = 1.5f; char ch = 'x'; boolean z = true; short sh = -3;
                                    Object extra = new int[5]; Sub(Node n, int i) { super(n, i); } }
    public static void main(String[] a) throws Exception {
        Node n = null;
        for (int i = 0; i < 3000; i++) n = i % 3 == 0 ? new Sub(n, i) : new Node(n, i);
        keep.add(n); keep.add(new HashMap<>(Map.of("a", 1, "b", new long[1 << 18]))); keep.add(new String[2][3]);
        keep.add(new java.lang.ref.WeakReference<>(n));
        java.lang.management.ManagementFactory.getPlatformMXBean(
            com.sun.management.HotSpotDiagnosticMXBean.class).dumpHeap(a[0], true);
    }
}
"""
READER = "/usr/share/visualvm/visualvm/modules/org-graalvm-visualvm-lib-jfluid-heap.jar"


def write_hprof(box):
    """A JVM's own heap dump through our model into a dump of ours: VisualVM's reader finds the same in both."""
    hw.need("java", "javac")
    if not os.path.exists(READER):
        raise hw.Skip("VisualVM is not installed")
    (box.dir / "R.java").write_text(NODES)
    javac(box, box.dir / "R.java", __file__.rsplit("/", 2)[0] + "/lib/HeapDump.java", options=["-cp", READER])
    theirs, ours, again = box.path("jvm.hprof"), box.path("our.hprof"), box.path("again.hprof")
    box.run(["java", "-XX:+UseSerialGC", "-Xmx64m", "-cp", str(box.dir), "R", theirs], check=0, timeout=hw.CLOCK)
    box.run([hw.tool("heapwise"), "convert", "-t", "hprof", theirs, ours], check=0)
    box.run([hw.tool("traceconv"), "hprof", ours, again], check=0)

    def seen(file):
        said = box.run(["java", "-cp", f"{READER}:{box.dir}", "HeapDump", file], check=0, timeout=120)
        return said.stdout.decode().splitlines()

    want, have = seen(theirs), seen(ours)
    print(f"  {len(want)} lines of classes, references and values")
    hw.true(len(want) > 5000, "lines")
    missing, more = sorted(set(want) - set(have)), sorted(set(have) - set(want))
    hw.true(not missing and not more, f"missing: {missing[:5]}; more: {more[:5]}")
    for what in ("count(*), sum(self_size), sum(reachable), sum(root_type is not null) from heap_graph_object",
                 "count(*) from heap_graph_reference", "count(*), count(distinct name) from heap_graph_class",
                 "count(*) from heap_graph_primitive"):
        hw.equal(rows(box, ours, "select " + what), rows(box, theirs, "select " + what), what)
    hw.true(seen(again) == have, "a dump of the dump")
    for file in (ours, again):
        hw.equal(heap_dump.Dump(file).faults, [], "broken rules of the format")


def sizes_of_hprof(box):
    """The live graph of a JVM, written as a heap dump and read again: each class has the objects and bytes that it had."""
    shop, ours = __file__.rsplit("/", 4)[0] + "/samples/shop.trace.gz", box.path("shop.hprof")
    box.run([hw.tool("heapwise"), "convert", "-t", "hprof", shop, ours], check=0)
    classes = ("select c.name, count(*), sum(self_size), min(self_size), max(self_size), sum(reachable) from heap_graph_object o "
               "join heap_graph_class c on c.id = o.type_id where o.graph_sample_ts = (select max(graph_sample_ts) from heap_graph_object) "
               "group by 1 order by 1")
    want, have = rows(box, shop, classes), rows(box, ours, classes)
    hw.true(len(want) > 500 and "java.lang.Thread" in dict((r[0], r) for r in want), "classes")
    hw.equal([r for r in have if r not in want], [r for r in want if r not in have], "classes with other objects, bytes or reachable ones")
    fields = ("select field_name, count(*) from heap_graph_reference r join heap_graph_object o on o.id = r.owner_id "
              "where graph_sample_ts = (select max(graph_sample_ts) from heap_graph_object) and field_name like 'runtime%' group by 1")
    hw.equal(rows(box, ours, fields), rows(box, shop, fields), "what the JVM holds for classes")


HELD = """
#include <stdlib.h>
__attribute__((noinline)) static char *keep(size_t n) { char *p = malloc(n); p[0] = 1; return p; }
__attribute__((noinline)) static void drop(size_t n) { volatile char *p = malloc(n); p[0] = 1; free((void *)p); }
int main(void) { volatile char *last = 0; for (int i = 0; i < 6000; i++) { last = keep(i % 900 + 1); drop(i % 700 + 1); drop(31); }
                 return last == NULL; }
"""
METRICS = ["space", "objects", "alloc_space", "alloc_objects"]


def figures(box):
    """Every form of one dump has the same four figures: to the byte, of exact recordings and of sampled ones."""
    hw.need("cc")
    (box.dir / "held.c").write_text(HELD)
    box.run(["cc", "-g", "-O1", "-o", box.path("held"), box.dir / "held.c"], check=0)
    for interval in (1, 512):
        trace = box.path(f"held.{interval}.trace")
        box.run([hw.tool("heapwise"), "record", "-q", "-i", str(interval), "-o", trace, "--", box.path("held")], check=0)
        want = told_by_report(box, trace)
        print(f"  interval {interval}: {want}")
        if interval == 1:
            hw.true(want["alloc_objects"] >= 18000 and want["space"] >= sum(i % 900 + 1 for i in range(6000)), f"the source's: {want}")
        for name, form in FORMS.items():
            hw.equal({m: v for m, v in form(box, trace).items()}, {m: want[m] for m in form(box, trace)}, f"{name}, interval {interval}")


def told(box, *args):
    return box.run([hw.tool("heapwise"), *args], check=0).stdout


def told_by_report(box, trace):
    report = json.loads(told(box, "report", "--json", trace))
    for top in ("0", "1", "7"):
        shown = json.loads(told(box, "report", "--json", "--top", top, trace))
        for m in METRICS:
            hw.equal(sum(s[m] for s in shown["sites"]) + shown["other_sites"][m], report["end"][m], f"sites, --top {top}: {m}")
    hw.equal(report["sites_at"], "end", "what is shown")
    return {m: report["end"][m] for m in METRICS}


def told_by_lines(box, trace):
    return {m: sum(int(line.rsplit(b" ", 1)[1]) for line in told(box, "convert", "-t", "folded", "-m", m, trace, "-").splitlines())
            for m in METRICS}


def told_by_speedscope(box, trace):
    profiles = json.loads(told(box, "convert", "-t", "speedscope", trace, "-"))["profiles"]
    return dict(zip(METRICS, (sum(p["weights"]) for p in profiles)))


def told_by_heapprofile(box, trace):
    """The tree's figures, and those of the samples below it; one metric a file."""
    of = {}
    for m in METRICS:
        profile = json.loads(told(box, "convert", "-t", "heapprofile", "-m", m, trace, "-"))
        todo, by_id = [profile["head"]], {}
        while todo:
            node = todo.pop()
            by_id[node["id"]] = node["selfSize"]
            todo += node["children"]
        hw.equal({s["nodeId"]: s["size"] for s in profile["samples"]}, {i: n for i, n in by_id.items() if n}, "samples and nodes")
        of[m] = sum(by_id.values())
    return of


def told_by_csv(box, trace):
    table = list(csv.DictReader(io.StringIO(told(box, "convert", "-t", "csv", trace, "-").decode())))
    hw.equal({m: sum(int(r["self_" + m]) for r in table) for m in METRICS}, {m: int(table[0]["total_" + m]) for m in METRICS}, "csv's own")
    return {m: int(table[0]["total_" + m]) for m in METRICS}


def told_by_text(box, trace):
    stacks = re.findall(rb"^space (\d+) objects (\d+) alloc_space (\d+) alloc_objects (\d+)", told(box, "convert", "-t", "text", "-m", "alloc_space", trace, "-"), re.M)
    return dict(zip(METRICS, (sum(int(v) for v in column) for column in zip(*stacks))))


def told_by_tree(box, trace):
    nodes = json.loads(told(box, "tree", "--json", trace))["nodes"]
    tops = [n for n in nodes if n["parent"] == 0]
    return {m: sum(n[m] for n in tops) for m in METRICS}


def told_by_sql(box, trace):
    (row,) = rows(box, trace, "select sum(size), sum(estimated_count), sum(max(size, 0)), sum(max(estimated_count, 0)) "
                              "from heap_profile_allocation")
    return dict(zip(METRICS, map(int, row)))


def told_by_pprof(box, trace):
    told(box, "convert", "-t", "pprof", trace, box.path("held.pb.gz"))
    return {m: sum(values[m] for _, values in pprof.Pprof(box.path("held.pb.gz")).samples) for m in METRICS}


def told_by_massif(box, trace):
    return {"space": int(re.findall(rb"mem_heap_B=(\d+)", told(box, "convert", "-t", "massif", trace, "-"))[-1])}


def told_by_memory_infra(box, trace):
    told(box, "convert", "-t", "memory-infra", trace, box.path("held.json"))
    with open(box.path("held.json")) as f:
        heaps = [e["args"]["dumps"]["heaps_v2"]["allocators"]["malloc"] for e in json.load(f)["traceEvents"]
                 if e["ph"] == "v" and "heaps_v2" in e["args"]["dumps"]]
    return {"space": sum(heaps[-1]["sizes"]), "objects": sum(heaps[-1]["counts"])}


def told_by_firefox(box, trace):
    told(box, "traceconv", "firefox", trace, box.path("held.firefox"))
    with open(box.path("held.firefox")) as f:
        threads = json.load(f)["threads"]
    return {"space": sum(sum(t["nativeAllocations"]["weight"]) for t in threads)}


def told_by_server(box, trace):
    s = serve.Served(box, trace)
    hw.wait_for(lambda: s.json("GET", "/api/v1/status")["traces"][0]["state"] == "ready", "the trace is read")
    tables = {m: s.json("GET", f"/api/v1/traces/1/table/functions?limit=1000&metric={m}") for m in METRICS}
    s.stop()
    hw.equal({m: sum(row[2] for row in t["data"]) for m, t in tables.items()}, {m: t["total"] for m, t in tables.items()}, "the page's own")
    return {m: t["total"] for m, t in tables.items()}


def told_by_page(box, trace):
    """The data that the page of one file holds."""
    page = told(box, "convert", "-t", "html", trace, "-").decode()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    return {m: sum(data["self"][i]) for i, m in enumerate(METRICS)}


RENAMED = """
#include <stdlib.h>
#include <unistd.h>
void *volatile kept[64];
__attribute__((noinline)) static void without_a_name(int i) { kept[i] = malloc(100000); }
__attribute__((noinline)) void with_a_name(int i) { kept[i] = malloc(50000); }
int main(void) { for (int i = 0; i < 60; i += 2) { without_a_name(i); with_a_name(i + 1); usleep(10000); } return 0; }
"""


def renamed(box):
    """A program that is a link to a file of another name (redis-server is one to redis-check-rdb) goes by what it was
    started as wherever a person looks; formats that other programs read keep the file, filters know both."""
    hw.need("cc", "strip")
    (box.dir / "renamed.c").write_text(RENAMED)
    box.run(["cc", "-O1", "-rdynamic", "-o", box.path("check-rdb"), box.dir / "renamed.c"], check=0)
    box.run(["strip", box.path("check-rdb")], check=0)
    os.symlink("check-rdb", box.path("server"))
    trace, file = box.path("renamed.trace"), box.path("check-rdb")
    box.run([hw.tool("heapwise"), "record", "-q", "-i", "1", "-c", "100ms", "-o", trace, "--", box.path("server")], check=0)
    place = re.search(r"\bcheck-rdb(\+0x\w+) 3000000$", told(box, "convert", "-t", "folded", trace, "-").decode().replace(";malloc ", " "), re.M)
    hw.true(place, "folded stacks name the file")
    nameless = "server" + place[1]

    for args in (["report"], ["tree"], ["leaks"], ["convert", "-t", "svg"], ["convert", "-t", "html"]):
        said = told(box, *args, trace, *(["-"] if args[0] == "convert" else [])).decode()
        hw.true(nameless in said and "check-rdb+" not in said and "(check-rdb)" not in said, f"{args}: {said[:3000]}")
    for args in (["report", "--json"], ["leaks", "--json"], ["tree", "--json"], ["diff", "--json"]):
        said = told(box, *args, trace).decode()
        hw.true(nameless in said and "check-rdb+" not in said, f"{args}: {said[:3000]}")
    frames = json.loads(told(box, "convert", "-t", "speedscope", trace, "-"))["shared"]["frames"]
    hw.equal({f["name"]: f["file"] for f in frames if f["name"] in (nameless, "with_a_name", "main")},
             {nameless: "server", "with_a_name": "server", "main": "server"}, "speedscope")
    told(box, "traceconv", "firefox", trace, box.path("renamed.firefox"))
    with open(box.path("renamed.firefox")) as f:
        firefox = json.load(f)
    thread = firefox["threads"][0]
    names, resources, funcs = thread["stringArray"], thread["resourceTable"], thread["funcTable"]
    where = {names[funcs["name"][i]]: names[resources["name"][r]] for i, r in enumerate(funcs["resource"]) if r >= 0}
    hw.equal((where[nameless], where["with_a_name"]), ("server", "server"), "firefox")
    hw.true("check-rdb" in [lib["name"] for lib in firefox["libs"]], "a symbol server is asked by the file's name")

    # Those that symbolizers, scripts and tables read.
    hw.true(f"({file})" in told(box, "convert", "-t", "text", trace, "-").decode(), "text")
    hw.true(f'"{file}"' in told(box, "convert", "-t", "csv", trace, "-").decode(), "csv")
    told(box, "convert", "-t", "pprof", trace, box.path("renamed.pb.gz"))
    p = pprof.Pprof(box.path("renamed.pb.gz"))
    hw.true(file in p.mapping_files, f"pprof: {p.mapping_files}")
    (have,), = rows(box, trace, "select distinct map_name from heapwise_functions((select min(upid) from heap_profile)) where name = 'with_a_name'")
    hw.equal(have, file, "SQL")

    for f in (nameless, f'"check-rdb{place[1]}"', 'SS:"check-rdb' + place[1] + '"'):
        nodes = json.loads(told(box, "tree", "--json", "-f", f, trace))["nodes"]
        hw.equal(sum(n["space"] for n in nodes if n["parent"] == 0), 3000000, f"filter {f}")
        (have,), = rows(box, trace, "select space from heapwise_tree((select min(upid) from heap_profile), null, null, null, '{}') where id = 0".format(f.replace("'", "''")))
        hw.equal(int(have), 3000000, f"filter {f} of SQL")
    for f in ('M:"server"', f'M:"{file}"'):
        nodes = json.loads(told(box, "tree", "--json", "-f", f, trace))["nodes"]
        hw.true(sum(n["space"] for n in nodes if n["parent"] == 0) >= 4500000, f"filter {f}")

    s = serve.Served(box, trace)
    hw.wait_for(lambda: s.json("GET", "/api/v1/status")["traces"][0]["state"] == "ready", "the trace is read")
    process = s.json("GET", "/api/v1/traces/1/timeline")["processes"][0]
    hw.equal((process["program"], process["program_file"]), ("server", file), "the program of the page's process")
    for q in ("table/functions?callers=1", "leaks?", "sizes?", "lifetimes?", "table/diff?at=peak&all=1&a_at=" + str(process["moments"][0]["ts"])):
        said = json.dumps(s.json("GET", "/api/v1/traces/1/" + q))
        hw.true(nameless in said and "check-rdb" not in said, f"{q}: {said}")
    for q in ("flame?", "flame?group=module", 'flame?filters=M:"server"', f'flame?filters=SS:"{nameless}"'):
        said = s.ask("GET", "/api/v1/traces/1/" + q.replace('"', "%22").replace("+", "%2B"), token=s.token)[1]
        hw.true(nameless.encode() in said and b"check-rdb" not in said, f"{q}: {said}")
    s.stop()


FORMS = {name[len("told_by_"):]: form for name, form in list(globals().items()) if name.startswith("told_by_")}


def full_disk(box):
    """A disk that is full in the middle of a result: no half of it stays, and what was there before does. A recording keeps what it has, and says where."""
    if os.geteuid() != 0:
        raise hw.Skip("only root may mount a small disk")
    trace, small, room = box.path("t.trace"), box.path("small"), 8192
    box.run([hw.tool("heapwise"), "record", "-i", "1", "-o", trace, "--", hw.target("truth")], check=0)
    os.mkdir(small)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room},mode=700", "none", small]).returncode:
        raise hw.Skip("no tmpfs can be mounted")
    try:
        to_files, n_small = [], 0
        for end in ("pb.gz", "pprof", "folded", "speedscope", "svg", "html", "json", "txt", "csv", "heaptrack", "massif", "heapprofile"):
            to_files.append(([hw.tool("heapwise"), "convert", trace], "c." + end))
        for mode in ("text", "json", "systrace", "ctrace", "firefox", "symbolize", "decompress_packets"):
            to_files.append(([hw.tool("traceconv"), mode, trace], mode))
        to_files.append(([hw.tool("heapwise"), "bundle", trace], "b.tar"))
        to_files.append(([hw.tool("heapwise"), "symbolize", trace], "s.pb"))
        to_files.append(([hw.tool("heapwise"), "merge", "-f", trace, trace, "-o"], "m.trace"))
        for argv, name in to_files:
            for old in (None, b"the old one\n"):
                for f in os.listdir(small):
                    os.unlink(f"{small}/{f}")
                if old:
                    with open(f"{small}/{name}", "wb") as f:
                        f.write(old)
                r = box.run([*argv, f"{small}/{name}"], timeout=hw.CLOCK)
                left = {f: open(f"{small}/{f}", "rb").read() for f in os.listdir(small)}
                if r.returncode == 0:  # so little fits
                    hw.true(len(left) == 1 and name in left and left[name] != old, f"{argv[1:]} {name}: {list(left)}")
                    n_small += 1
                    continue
                hw.equal(left, {name: old} if old else {}, f"{argv[1:]} {name} leaves ({hw.tail(r.stderr)})")
        hw.true(n_small < len(to_files), f"{n_small} of {2 * len(to_files)} fit")
        for f in os.listdir(small):
            os.unlink(f"{small}/{f}")
        r = box.run([hw.tool("traceconv"), "profile", "--output-dir", small, trace])
        hw.true(r.returncode != 0, "profile: its status")
        for f in os.listdir(small):  # those before the one that did not fit
            hw.true(f.encode() not in r.stderr and pprof.Pprof(f"{small}/{f}").samples, f"{f}: {hw.tail(r.stderr)}")
            os.unlink(f"{small}/{f}")
        r = box.run([hw.tool("heapwise"), "record", "-i", "1", "-o", small + "/r.trace", "--", hw.target("truth")])
        said = r.stderr.decode()
        kept = os.listdir(small)
        hw.true("No space left" in said and any(f"{small}/{f}" in said for f in kept), f"it says where what it has is: {kept} {said}")
    finally:
        subprocess.run(["umount", "-l", small])


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and k != "rows" and not k.startswith("told")}

if __name__ == "__main__":
    hw.main(CASES)
