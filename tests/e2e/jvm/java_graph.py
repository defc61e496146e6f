#!/usr/bin/env python3
"""What is said of the graph of a live JVM: retained sizes against their definition, original names, a real program."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from java import SHAPES, Jvm, ask, dump, javas
from lib import hprof, hw
from lib.javac import javac

EDGES = """select r.owner_id, r.owned_id from heap_graph_reference r join heap_graph_object o on o.id = r.owner_id
    join heap_graph_class c on c.id = o.type_id where r.owned_id is not null and o.reachable and not
    (r.field_name = 'java.lang.ref.Reference.referent' and c.kind in
     ('KIND_WEAK_REFERENCE', 'KIND_PHANTOM_REFERENCE', 'KIND_FINALIZER_REFERENCE'))"""
OBJECTS = "select id, self_size, native_size, root_type is not null from heap_graph_object where reachable"
LARGEST = """include perfetto module android.memory.heap_graph.dominator_tree;
    select id, dominated_size_bytes, dominated_native_size_bytes, dominated_obj_count from heap_graph_dominator_tree
    order by dominated_size_bytes desc, id limit %d"""


def numbers(box, file, sql):
    return [tuple(map(int, r)) for r in ask(box, file, sql)]


CLASS_EDGES = """select o.id, k.id from heap_graph_object o join heap_graph_class c on c.id = o.type_id
    join heap_graph_class m on m.name = 'java.lang.Class<' || c.name || '>' join heap_graph_object k on k.type_id = m.id
    where o.reachable and not (c.name like '%[]' and c.classloader_id is null)"""


def edges(box, file):
    """Who keeps whom alive. In an .hprof an object also holds its class, found here by its name."""
    found = numbers(box, file, EDGES)
    if file.endswith(".hprof"):
        of_class = numbers(box, file, CLASS_EDGES)
        hw.equal(len(of_class), len({o for o, _ in of_class}), "class objects of one name")
        found += of_class
    return found


def brute_force(box, file, n):
    """Of the n objects that retain most: what cannot be reached any more without them."""
    objects = {o: (size, native, root) for o, size, native, root in numbers(box, file, OBJECTS)}
    below = {}
    for owner, owned in edges(box, file):
        below.setdefault(owner, []).append(owned)
    roots = [o for o, v in objects.items() if v[2]]

    def reach(without):
        seen = {without} | {o for o in roots if o != without}
        todo = [o for o in roots if o != without]
        while todo:
            for t in below.get(todo.pop(), ()):
                if t not in seen:
                    seen.add(t)
                    todo.append(t)
        seen.discard(without)
        return seen

    hw.equal(len(reach(-1)), len(objects), "reachable objects")
    for o, size, native, count in numbers(box, file, LARGEST % n):
        lost = objects.keys() - reach(o)
        want = sum(max(objects[x][0], 0) for x in lost), sum(objects[x][1] for x in lost), len(lost)
        hw.equal((size, native, count), want, f"what object {o} retains")
    print(f"  {n} objects of {len(objects)}")


def retained(box):
    """The first hundred by retained size, in a graph of ours and in the same JVM's .hprof."""
    hw.need("java", "javac", "jcmd")
    n = 100 if os.environ.get("HW_LONG") else 30
    with Jvm(box, SHAPES, 200).ready() as jvm:
        dump(box, jvm)
        box.run(["jcmd", str(jvm.pid), "GC.heap_dump", "-all", box.path("jvm.hprof")], check=0, timeout=120)
    brute_force(box, box.path("java.trace"), n)
    brute_force(box, box.path("jvm.hprof"), n)


# Loaders that nobody holds but the classes of what is kept: an instance, a lambda, an empty array. A fourth is garbage.
DROPPED = """
import java.nio.file.*;
import java.util.*;
public class Dropped {
    static class Own extends ClassLoader {
        final Path from;
        Own(ClassLoader up, Path from) { super(up); this.from = from; }
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                Class<?> c = findLoadedClass(name);
                if (c == null && name.startsWith("Plugin")) {
                    try {
                        byte[] b = Files.readAllBytes(from.resolve(name + ".class"));
                        c = defineClass(name, b, 0, b.length);
                    } catch (java.io.IOException e) { throw new ClassNotFoundException(name); }
                }
                return c != null ? c : super.loadClass(name, resolve);
            }
        }
    }
    static final List<Object> kept = new ArrayList<>();
    static Object call(Class<?> c, String name) throws Exception {
        var m = c.getDeclaredMethod(name);
        m.setAccessible(true);
        return m.invoke(null);
    }
    static Object make(String name, Path from) throws Exception {
        var made = new Own(Dropped.class.getClassLoader(), from).loadClass(name).getDeclaredConstructor();
        made.setAccessible(true);
        return made.newInstance();
    }
    public static void main(String[] a) throws Exception {
        Path from = Path.of(a[0]);
        kept.add(make("Plugin", from));                      /* its loader is held by its class only */
        Object gone = make("Plugin", from);                  /* nothing holds this one at the end */
        kept.add(((Object[]) call(gone.getClass(), "array")).length);
        gone = null;
        kept.add(call(make("Plugin", from).getClass(), "array")); /* an array of a class, no instance */
        kept.add(call(make("Plugin", from).getClass(), "code")); /* a lambda */
        for (int i = 0; i < 3; i++) System.gc();
        System.out.println("ready"); System.out.flush();
        System.in.read();
    }
}
class Plugin {
    static class Data { byte[] b = new byte[100]; }
    static class Base { static final List<Data> BASE = data(70); }
    static final List<Data> ALL = data(1000);
    static List<Data> data(int n) { List<Data> l = new ArrayList<>(); for (int i = 0; i < n; i++) l.add(new Data()); return l; }
    Object base = new Base();
    public Plugin() { }
    public static Object[] array() { return new Plugin[0]; }
    public static Runnable code() { return () -> System.out.println("x"); }
}
"""


def dropped_loader(box):
    """Of loaders held only through an instance of one of their classes all is reachable, as in the JVM's histogram of
    live objects: in the JVM's own dump as an independent reader finds it, and in a graph of ours."""
    hw.need("java", "javac", "jmap")
    file, data = box.path("jvm.hprof"), "Plugin$Data"
    with Jvm(box, DROPPED, box.dir).ready() as jvm:
        dump(box, jvm)
        box.run(["jmap", f"-dump:live,format=b,file={file}", str(jvm.pid)], check=0, timeout=120)
        said = box.run(["jmap", "-histo:live", str(jvm.pid)], check=0, timeout=120).stdout.decode()
    alive = [line.split()[1:4] for line in said.splitlines() if line.split()[3:4] in ([data], ["Dropped$Own"])]
    hw.equal(alive, [["1070", "17120", data]] * 3 + [["3", alive[-1][1], "Dropped$Own"]], "histogram of live objects")

    def reached(file):
        return ask(box, file, f"""select c.name, sum(o.reachable), count(*) from heap_graph_object o join heap_graph_class c
            on c.id = o.type_id where c.name in ('{data}', 'Dropped$Own') group by c.id order by 1""")

    hw.equal(reached(file), [("Dropped$Own", "3", "3")] + [(data, "1070", "1070")] * 3, "reachable in the JVM's dump")
    theirs = hprof.Dump(file)
    hw.equal(int(ask(box, file, "select count(*) from heap_graph_object where reachable and self_size >= 0")[0][0]), len(theirs.reachable()),
             "reachable objects, against an independent reader")
    lost = len(theirs.reachable()) - len(theirs.reachable(with_classes=False))
    hw.true(lost > 2000, f"only through classes: {lost}")
    # JVMTI does not lead from the class of an array to that of its elements: a loader held by an empty array is not walked.
    hw.equal(reached(box.path("java.trace")), [("Dropped$Own", "2", "2")] + [(data, "1070", "1070")] * 2, "reachable in our graph")
    unreached = ask(box, box.path("java.trace"), """select c.name from heap_graph_object o join heap_graph_class c on c.id = o.type_id
        where not o.reachable and (c.name like '%Plugin%' or c.name like 'java.lang.Class<%')""")
    hw.equal(unreached, [], "not reachable in our graph")
    path = box.run([hw.tool("heapwise"), "graph", "--path", data, file], check=0).stdout.decode()
    hw.true("by <class>" in path and "by Plugin.ALL" in path, path)


LEAK = """
import java.util.*;
public class Leak {
    static final Map<Integer, byte[]> CACHE = new HashMap<>();
    static void work() throws Exception {
        List<long[]> mine = new ArrayList<>();
        for (int i = 0; i < 10000; i++) mine.add(new long[100]);
        System.out.println("ready"); System.out.flush();
        System.in.read();
        System.out.println(mine.size());
    }
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 20000; i++) CACHE.put(i, new byte[1000]);
        Thread t = new Thread(() -> { try { work(); } catch (Exception e) { } }, "worker");
        t.setDaemon(true);
        t.start(); t.join();
    }
}
"""


def retained_by_threads(box, file):
    """By name of thread: bytes and objects that cannot be reached any more without the roots that it alone holds."""
    objects = {o: (size + native, root) for o, size, native, root in numbers(box, file, OBJECTS)}
    below, held, kinds = {}, {}, {}
    for owner, owned in edges(box, file):
        below.setdefault(owner, []).append(owned)
    for o, kind, thread in ask(box, file, "select object_id, root_type, ifnull(thread_id, -1) from heap_graph_root_holder"):
        held.setdefault(int(o), set()).add(int(thread))
        kinds.setdefault(int(o), set()).add(kind)
    kind_of = dict(ask(box, file, "select id, root_type from heap_graph_object where root_type is not null"))
    out = {}
    for thread, name in ask(box, file, "select id, name from heap_graph_java_thread"):
        todo = [o for o, v in objects.items() if v[1] and not (held.get(o) == {int(thread)} and kind_of[str(o)] in kinds[o])]
        seen = set(todo)
        while todo:
            new = [t for t in below.get(todo.pop(), ()) if t not in seen]
            seen.update(new)
            todo += new
        lost = objects.keys() - seen
        out[name] = sum(max(objects[o][0], 0) for o in lost), len(lost)
    return out


def holders(box):
    """A map in a static field and a list in a thread's variable are the suspects, in a graph of ours and in .hprof. What
    each thread retains, against its definition by force."""
    hw.need("java", "javac", "jcmd")
    with Jvm(box, LEAK).ready() as jvm:
        dump(box, jvm)
        box.run(["jcmd", str(jvm.pid), "GC.heap_dump", box.path("jvm.hprof")], check=0, timeout=120)
    graph = [hw.tool("heapwise"), "graph", "--json", "--top", "0"]
    for file in box.path("java.trace"), box.path("jvm.hprof"):
        page = json.loads(box.run([*graph, "--suspects", file], check=0).stdout)
        hw.equal([r["class"] for r in page["rows"]], ["java.lang.Class<Leak>", "java.util.ArrayList"], f"suspects, {file}")
        cache, mine = page["rows"]
        hw.equal((cache["point"]["class"], mine["point"]["class"]), ("java.util.HashMap$Node[]", "java.lang.Object[]"), "points")
        top = [r["accumulates"][0] for r in (cache, mine)]
        hw.equal([(r["class"], r["objects"]) for r in top], [("java.util.HashMap$Node", 20000), ("long[]", 10000)], "what accumulates")
        hw.true(top[0]["retained"] >= 20000 * 1000 and top[1]["retained"] >= 10000 * 800, f"bytes: {top}")
        hw.true("Leak.CACHE" in [s.get("by") for s in cache["nearest"]], f"path: {cache['nearest']}")
        root = mine["nearest"][-1]
        hw.true('in thread "worker"' in root.get("held_by", "") and "Leak.work" in root["held_by"], f"root: {root}")
        page = json.loads(box.run([*graph, "--threads", file], check=0).stdout)
        want = retained_by_threads(box, file)
        hw.equal({r["thread"]: (r["retained"], r["objects"]) for r in page["rows"]},
                 {n: w for n, w in want.items() if n in [r["thread"] for r in page["rows"]]}, f"retained by threads, {file}")
        hw.equal([n for n, w in want.items() if w[1] and n not in [r["thread"] for r in page["rows"]]], [], "threads without a row")
        worker = page["rows"][0]
        hw.true(worker["thread"] == "worker" and worker["retained"] > 10000 * 800, f"first row: {worker['thread']}")
        mine = [v for f in worker["frames"] if f.get("frame", "").startswith("Leak.work") for v in f["variables"]]
        hw.equal([(v["class"], v["only_this_thread"]) for v in mine if v["retained"] > 10000 * 800], [("java.util.ArrayList", True)], "variables of work()")
    said = {r["thread"]: r["daemon"] for r in json.loads(box.run([*graph, "--threads", box.path("java.trace")], check=0).stdout)["rows"]}
    hw.equal((said["worker"], said["main"]), (True, False), "daemons")
    loader = json.loads(box.run([*graph, "--suspects", box.path("java.trace")], check=0).stdout)["rows"][0].get("loader", "")
    hw.true("AppClassLoader" in loader, f"loader: {loader!r}")


SAME = """select c.name, d.array_element_count, count(*), sum(o.self_size), sum(o.self_size) - max(o.self_size)
    from heap_graph_object o join heap_graph_object_data d on d.id = o.object_data_id
    join heap_graph_class c on c.id = o.type_id where d.array_data_hash is not null and o.reachable
    group by o.type_id, d.array_element_count, d.array_data_hash having count(*) > 1"""


def duplicates(box):
    """Arrays that hold the same, against SQLite's grouping of the same hashes, and known ones of the program."""
    hw.need("java", "javac", "jcmd")
    with Jvm(box, SHAPES, 1000).ready() as jvm:
        dump(box, jvm)
        box.run(["jcmd", str(jvm.pid), "GC.heap_dump", box.path("jvm.hprof")], check=0, timeout=120)
    graph = [hw.tool("heapwise"), "graph", "--duplicates", "--json", "--top", "0"]
    page = json.loads(box.run([*graph, box.path("jvm.hprof")], check=0).stdout)
    rows = [(r["class"], str(r["length"]), str(r["copies"]), str(r["bytes"]), str(r["spare"])) for r in page["rows"]]
    hw.equal(sorted(rows), sorted(ask(box, box.path("jvm.hprof"), SAME)), "contents that stand more than once")
    hw.equal(page["spare"], sum(int(r[4]) for r in rows), "sum")
    hw.equal([int(r[4]) for r in rows], sorted((int(r[4]) for r in rows), reverse=True), "order")
    zeros = [int(r[2]) for r in rows if r[:2] == ("byte[]", "97")]
    hw.true(zeros and max(zeros) >= 10, f"arrays of 97 zeros: {zeros}")
    hw.true(any(len(r.get("text", "")) > 8 for r in page["rows"]), "no texts")
    p = box.run([*graph, box.path("java.trace")], check=1)
    hw.true(b"a trace has none" in p.stderr, p.stderr.decode())


OBFUSCATED = """package a.b;
public class A {
    Object c; A d; Object[] e = new Object[3];
    static A f;
    static class B { long g = 42; }
    public static void main(String[] x) throws Exception {
        for (int i = 0; i < 100; i++) { A n = new A(); n.d = f; n.c = new B(); f = n; n.e[0] = new B[]{new B()}; }
        System.out.println("ready"); System.out.flush(); System.in.read();
    }
}
"""
MAP = """# compiler: R8
com.example.shop.Order -> a.b.A:
    java.lang.Object customer -> c
    com.example.shop.Order next -> d
    java.lang.Object[] lines -> e
    com.example.shop.Order all -> f
    1:9:void main(java.lang.String[]) -> main
com.example.shop.Order$Line -> a.b.A$B:
    long price -> g
"""


def original_names(box):
    """Classes, arrays, class objects and fields of a live graph get the names of a map: by option, by environment, of
    this package or of all, not of another one; also in the .hprof made of it."""
    hw.need("java", "javac", "jcmd")
    (box.dir / "A.java").write_text(OBFUSCATED)
    (box.dir / "map.txt").write_text(MAP)
    javac(box, box.dir / "A.java")
    p = subprocess.Popen(["java", "-cp", box.dir, "a.b.A"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        hw.equal(p.stdout.readline(), b"ready\n", "the program's first line")
        box.run(["jcmd", str(p.pid), "GC.heap_dump", box.path("jvm.hprof")], check=0, timeout=hw.CLOCK)
        box.run([hw.tool("heapwise"), "java", "dump", "-o", box.path("a.trace"), str(p.pid)], check=0)
    finally:
        p.communicate(b"\n", timeout=hw.CLOCK)
    trace, names = box.path("a.trace"), box.path("map.txt")

    def classes(*options, env=None):
        out = box.run([hw.tool("heapwise"), "graph", "--json", "--top", "0", *options, trace], env=env, check=0).stdout
        return {r["class"]: r["objects"] for r in json.loads(out)["rows"] if "example" in r["class"]}

    want = {"com.example.shop.Order": 100, "com.example.shop.Order$Line": 200, "com.example.shop.Order$Line[]": 100,
            "java.lang.Class<com.example.shop.Order>": 1, "java.lang.Class<com.example.shop.Order$Line>": 1, "java.lang.Class<com.example.shop.Order$Line[]>": 1}
    hw.equal(classes("--proguard-map", names), want, "by option")
    hw.equal(classes("--proguard-map", "com.example.shop=" + names), want, "by option, of this package")
    hw.equal(classes(env={"PERFETTO_PROGUARD_MAP": "com.example=" + names}), want, "by environment")
    hw.equal(classes("--proguard-map", "com.exam=" + names), want, "of another package: the classes do not say theirs, so any map may name them")
    hw.equal(classes(), {}, "without a map")
    shutil.copy(trace, box.path("named.trace"))
    box.run([hw.tool("heapwise"), "deobfuscate", box.path("named.trace")],
            env={"PERFETTO_PROGUARD_MAP": "=" + names}, check=0)
    fields = ask(box, box.path("named.trace"), """select distinct field_name, deobfuscated_field_name
        from heap_graph_reference where field_name like 'a.b.A.%' order by 1""")
    hw.equal(fields, [("a.b.A.c", "com.example.shop.Order.customer"), ("a.b.A.d", "com.example.shop.Order.next"),
                      ("a.b.A.e", "com.example.shop.Order.lines"), ("a.b.A.f", "com.example.shop.Order.all")], "fields")
    path = box.run([hw.tool("heapwise"), "graph", "--path", "com.example.shop.Order$Line", box.path("named.trace")], check=0)
    hw.true(b"by com.example.shop.Order.customer" in path.stdout, path.stdout.decode())
    convert = [hw.tool("heapwise"), "convert", "-t", "hprof"]
    for file, option, env in ((box.path("named.trace"), [], None), (trace, ["--proguard-map", names], None),
                              (trace, [], {"PERFETTO_PROGUARD_MAP": "=" + names})):
        box.run([*convert, *option, file, box.path("named.hprof")], env=env, check=0)
        hw.equal(ask(box, box.path("named.hprof"), """select c.name, count(*) from heap_graph_object o
            join heap_graph_class c on c.id = o.type_id where c.name like 'com.example.%' group by 1 order by 1"""),
                 [("com.example.shop.Order", "100"), ("com.example.shop.Order$Line", "200"),
                  ("com.example.shop.Order$Line[]", "100")], f"objects of the .hprof, {option or env}")
        hw.equal(ask(box, box.path("named.hprof"), """select distinct field_name from heap_graph_reference
            where field_name like 'com.example.%' and field_name not like '%.runtimeInternalObjects' order by 1"""),
                 [(f"com.example.shop.Order.{f}",) for f in ("all", "customer", "lines", "next")], "fields of the .hprof")
        hw.equal(ask(box, box.path("named.hprof"), "select 1 from heap_graph_class where name like '%a.b.A%'"), [], "others")
    box.run([*convert, "--proguard-map", names, box.path("jvm.hprof"), box.path("named.hprof")], check=0)
    hw.equal(ask(box, box.path("named.hprof"), """select field_name, count(*), sum(long_value) from heap_graph_primitive
        where long_value = 42 and field_name like '%price' group by 1"""),
             [("com.example.shop.Order$Line.price", "200", "8400")], "numbers of the JVM's own dump")
    p = box.run([hw.tool("heapwise"), "convert", "-t", "perfetto", "--proguard-map", names, trace, box.path("p.trace")])
    hw.true(b"keeps the names" in p.stderr, p.stderr.decode())


READER = "/usr/share/visualvm/visualvm/modules/org-graalvm-visualvm-lib-jfluid-heap.jar"


def as_heap_dump(box):
    """The .hprof made of a live graph breaks no rule of the format, and VisualVM's reader finds in it what it finds in the
    dump the same quiet JVM writes: classes of the program, roots, and which objects retain most, and how many others."""
    hw.need("java", "javac", "jcmd")
    if not os.path.exists(READER):
        raise hw.Skip("VisualVM is not installed")
    theirs, ours = box.path("jvm.hprof"), box.path("our.hprof")
    with Jvm(box, SHAPES, 1000).ready() as jvm:
        dump(box, jvm)
        box.run(["jcmd", str(jvm.pid), "GC.heap_dump", "-all", theirs], check=0, timeout=120)
    box.run([hw.tool("heapwise"), "convert", "-t", "hprof", box.path("java.trace"), ours], check=0)
    dumps = {f: hprof.Dump(f) for f in (theirs, ours)}
    hw.equal(dumps[ours].faults, [], "broken rules of the format")
    javac(box, __file__.rsplit("/", 2)[0] + "/lib/HeapRetained.java", options=["-cp", READER])

    def seen(file):
        out = box.run(["java", "-cp", f"{READER}:{box.dir}", "HeapRetained", file, "Shapes", "20"], check=0, timeout=120).stdout
        rows = [line.split() for line in out.decode().splitlines()]
        of = lambda what: [r[1:] for r in rows if r[0] == what]
        return ({r[0]: r[1] for r in of("class") if r[1] != "0"}, {r[0]: int(r[1]) for r in of("root")},
                [r[0] for r in of("largest")], [int(r[1]) for r in of("largest")], [int(r[3]) for r in of("largest")])

    want, have = seen(theirs), seen(ours)
    print(f"  {have[0]}; roots {have[1]}")
    hw.equal(have[0], want[0], "objects of the program by class")
    hw.equal(have[0]["Shapes$Item"], "1000", "Shapes$Item")
    hw.true(set(want[1]) <= set(have[1]), f"kinds of roots: {have[1]}, in the JVM's dump {want[1]}")
    hw.equal(have[2], want[2], "classes of the objects that retain most")
    hw.equal(have[4], sorted(have[4], reverse=True), "what they retain")
    for a, b in list(zip(have[3], want[3]))[::5]:
        hw.equal(dumps[ours].retained(a), dumps[theirs].retained(b), f"objects that {a} retains, {b} in the JVM's dump")


N_CLASSES = 300


# The compiler calls it when it has read its sources, and has them all in memory: there it stands until it is told to go on.
STAND = r"""
import java.nio.file.*;
import java.util.Set;
import javax.annotation.processing.*;
import javax.lang.model.SourceVersion;
import javax.lang.model.element.TypeElement;
@SupportedAnnotationTypes("*")
@SupportedOptions("to")
public class Stand extends AbstractProcessor {
    public SourceVersion getSupportedSourceVersion() { return SourceVersion.latest(); }
    public boolean process(Set<? extends TypeElement> annotations, RoundEnvironment round) {
        Path to = Path.of(processingEnv.getOptions().get("to"));
        try {
            if (!round.processingOver())
                Files.createFile(to.resolve("there"));
            while (!Files.exists(to.resolve("go")))
                Thread.sleep(20);
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
        return false;
    }
}
"""


def compiler(box):
    """The Java compiler at work on some hundred classes: what it holds is what a compiler holds."""
    hw.need("java", "javac")
    for i in range(N_CLASSES):
        (box.dir / f"C{i}.java").write_text(f"public class C{i} {{\n" + "".join(
            f"    int f{k}(int a, String b) {{ return a + b.length() + new C{(i + k) % N_CLASSES}().hashCode() + {k}; }}\n"
            for k in range(10)) + "}\n")
    out, work, symbol = box.dir / "out", box.dir / "work", "com.sun.tools.javac.code.Symbol$ClassSymbol"
    work.mkdir()
    (work / "Stand.java").write_text(STAND)
    javac(box, work / "Stand.java", to=work)
    p = subprocess.Popen([shutil.which("javac"), "-J-Xmx512m", "-d", out, "-processorpath", work, "-processor", "Stand", f"-Ato={work}",
                          *sorted(map(str, box.dir.glob("C*.java")))], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        hw.wait_for((work / "there").exists, "the compiler to read its sources")
        said = box.run([hw.tool("heapwise"), "java", "dump", "-f", "-o", box.path("javac.trace"), str(p.pid)], check=0).stderr
        rows = json.loads(box.run([hw.tool("heapwise"), "graph", "--json", "--dominators", "--top", "0", box.path("javac.trace")],
                                  check=0).stdout)
        by_class = {r["class"]: r for r in rows["rows"]}
        hw.true(by_class[symbol]["objects"] > N_CLASSES / 2, f"symbols: {by_class[symbol]}")
        (work / "go").touch()
        status = p.wait(120)
        hw.equal(status, 0, f"the compiler's status: {p.stderr.read().decode()}")
    finally:
        p.kill()
        p.wait()
    print("  " + said.decode().splitlines()[0])
    hw.equal(len(list(out.glob("C*.class"))), N_CLASSES, "classes compiled while it was dumped")
    trace = box.path("javac.trace")
    hw.equal(ask(box, trace, "select name, value from stats where value > 0 and severity <> 'info'"), [], "statistics")
    total = rows["reachable"]["size"]
    hw.equal(sum(r["size"] for r in rows["rows"]), total, "own bytes of all classes")
    own = sum(r["size"] for r in rows["rows"] if r["class"].startswith("com.sun.tools.javac."))
    hw.true(own > 0.1 * total, f"the compiler's own objects: {own} of {total}")
    symbols = by_class[symbol]
    hw.true(symbols["retained"] > symbols["size"], f"symbols: {symbols}")
    size = os.path.getsize(trace)
    objects = rows["all"]["objects"]
    hw.true(size <= 12 * objects, f"{size} bytes of trace for {objects} objects")
    print(f"  {size / objects:.1f} bytes of trace an object")


LAYOUTS = {"usual": [], "wide references": ["-XX:-UseCompressedOops"], "Z": ["-XX:+UseZGC"],
           "no compressed class pointers": ["-XX:-UseCompressedOops", "-XX:-UseCompressedClassPointers"],
           "compact headers": ["-XX:+UseCompactObjectHeaders"], "compact headers, Z": ["-XX:+UseCompactObjectHeaders", "-XX:+UseZGC"]}
ELEMENTS = {"B": "byte", "C": "char", "D": "double", "F": "float", "I": "int", "J": "long", "S": "short", "Z": "boolean"}


def histogram(text):
    """A JVM's histogram of its classes: by name as in a graph, objects and bytes."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0].endswith(":"):
            name = words[3]
            depth = len(name) - len(name.lstrip("["))
            if depth:
                name = (name[depth + 1:-1] if name[depth] == "L" else ELEMENTS[name[depth]]) + "[]" * depth
            found[name] = int(words[1]), int(words[2])
    return found


def sizes(box):
    """An .hprof does not say how wide its JVM's headers and references were: the addresses of its objects do. Against
    the JVM's own histogram."""
    hw.need("java", "javac", "jcmd", "jmap")
    seen = set()
    for java in javas():
        tried = {n: o for n, o in LAYOUTS.items() if (n not in seen or os.environ.get("HW_LONG")) and subprocess.run([java, *o, "-version"], capture_output=True).returncode == 0}
        seen |= tried.keys()
        for name, options in tried.items():
            file = box.path("jvm.hprof")
            if os.path.exists(file):
                os.unlink(file)
            with Jvm(box, SHAPES, 2000, options=options, java=java).ready() as jvm:
                box.run([java.parent / "jmap", f"-dump:live,format=b,file={file}", str(jvm.pid)], check=0, timeout=120)
                said = histogram(box.run([java.parent / "jmap", "-histo:live", str(jvm.pid)], check=0, timeout=120).stdout.decode())
            have = {n: (int(k), int(b)) for n, k, b in ask(
                box, file, "select c.name, count(*), sum(self_size) from heap_graph_object o join heap_graph_class c on c.id = o.type_id group by 1")}
            # Fields that only the JVM knows are in no file.
            hidden = re.compile(r"Thread$|ClassLoader$|ReferenceHandler$|^java\.lang\.(Class$|Module$|InternalError$|invoke\.)")
            same = {n for n in said.keys() & have.keys() if said[n][0] == have[n][0] and not hidden.search(n)}
            wrong = [(n, said[n], have[n]) for n in same if said[n][1] != have[n][1]]
            print(f"  {java.parents[1].name}, {name}: {len(same)} classes")
            hw.true(len(same) > 100 and {"byte[]", "java.lang.String"} & same, f"{name}: classes to compare: {sorted(same)[:20]}")
            hw.equal(wrong, [], f"sizes in {name}")


def idle(box):
    """attach --java-graph of a JVM that allocates nothing meanwhile: the graph is what was asked for."""
    hw.need("java", "javac", "jcmd")
    with Jvm(box, SHAPES, 200).ready() as jvm:
        r = box.run([hw.tool("heapwise"), "attach", "--java-graph", "--json", "-f", "-d", "1s", "-i", "1G", "-o", box.path("idle.trace"), str(jvm.pid)], check=0)
    facts = json.loads(r.stdout)
    hw.equal((facts["samples"], facts["empty"]), (0, False), "samples, empty")
    hw.true(b"the profile is empty" not in r.stderr and b"heapwise graph" in r.stderr, hw.tail(r.stderr))


if __name__ == "__main__":
    hw.main({"idle": idle, "dropped-loader": dropped_loader, "holders": holders, "sizes": sizes, "retained": retained, "duplicates": duplicates, "original-names": original_names, "as-heap-dump": as_heap_dump, "compiler": compiler})
