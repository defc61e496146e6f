#!/usr/bin/env python3
"""Who holds the roots of a heap graph: threads and methods, compared with the JVM's own heap dump and stacks."""
import os
import pathlib
import re
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from java import Jvm, ask, dump
from lib import hw

# Two threads hold objects in variables of methods that call themselves, and wait; one of them in a method that
# was called by native code (reflection). One thread has a name that is no ASCII. A third one waits in a method that is
# compiled (COMPILED) and names what a static field holds; nothing on its stack does.
HOLDERS = r"""
import java.util.concurrent.CountDownLatch;
public class Holders {
    static class Held { byte[] bytes = new byte[1000]; }
    static class Other { int[] x = new int[10]; }
    static final Object lock = new Object();
    public static void deep(int n, CountDownLatch up) throws Exception {
        Held mine = new Held();
        if (n > 1) { deep(n - 1, up); }
        else if (n == 1) { Holders.class.getMethod("deep", int.class, CountDownLatch.class).invoke(null, 0, up); }
        else { Other o = new Other(); up.countDown(); synchronized (lock) { lock.wait(); } System.out.println(o.x[0]); }
        System.out.println(mine.bytes[0]);
    }
    static class Cache { byte[][] all = new byte[50][10000]; }
    static final Cache cache = new Cache();
    public static int constant(CountDownLatch up) throws Exception {
        up.countDown(); synchronized (lock) { lock.wait(); }
        return cache.all.length;
    }
    public static void main(String[] a) throws Exception {
        String[] names = {"holder <one>", "Gr\u00f6\u00dfe"};
        CountDownLatch up = new CountDownLatch(3);
        Thread c = new Thread(() -> { try { constant(up); } catch (Exception e) { } }, "compiled");
        c.setDaemon(true); c.start();
        for (int i = 0; i < 2; i++) {
            int n = i + 1;
            Thread t = new Thread(() -> { try { deep(n, up); } catch (Exception e) { } }, names[i]);
            t.setDaemon(true); t.start();
        }
        up.await();
        System.gc();
        System.out.println("ready"); System.out.flush();
        System.in.read();
    }
}
"""

COMPILED = ["-Xcomp", "-Xbatch", "-XX:TieredStopAtLevel=1", "-XX:CompileCommand=quiet",
            "-XX:CompileCommand=compileonly,Holders::constant"]

# Objects of the program, by thread, method and line. `Object.wait` and what the runtime holds besides differ
# between a walk and the JVM's dump.
HELD = """select t.name, h.root_type, c.name, h.method, h.line, count(*) from heap_graph_root_holder h
    join heap_graph_java_thread t on h.thread_id = t.id join heap_graph_object o on h.object_id = o.id
    join heap_graph_class c on o.type_id = c.id
    where h.method like 'Holders.%' and c.name not like '%Lambda%' and h.root_type <> 'ROOT_COMPILED_CODE'
    group by 1, 2, 3, 4, 5"""
# What is said of native methods of the JDK.
NATIVE = """select c.name, h.method, count(*) from heap_graph_root_holder h
    join heap_graph_object o on h.object_id = o.id join heap_graph_class c on o.type_id = c.id
    where h.root_type = 'ROOT_JNI_LOCAL' and h.method is not null and h.method not like '%Attach%' group by 1, 2"""
CONSTANTS = """select c.name, h.method, ifnull(o.root_type, '') from heap_graph_root_holder h
    join heap_graph_object o on h.object_id = o.id join heap_graph_class c on o.type_id = c.id
    where h.root_type = 'ROOT_COMPILED_CODE' and c.name like 'Holders%' and h.method like 'Holders%' group by 1, 2, 3"""
# How many objects would be free without the cache, and what keeps it: the class in whose field it is.
KEPT = """include perfetto module android.memory.heap_graph.dominator_tree;
    select d.dominated_obj_count, up.name from heap_graph_dominator_tree d
    join heap_graph_object o using (id) join heap_graph_class c on c.id = o.type_id
    join heap_graph_object i on i.id = d.idom_id join heap_graph_class up on up.id = i.type_id
    where c.name = 'Holders$Cache'"""
THREADS = """select t.name, c.name, count(h.id) from heap_graph_java_thread t join heap_graph_object o on t.object_id = o.id
    join heap_graph_class c on o.type_id = c.id
    left join heap_graph_root_holder h on h.thread_id = t.id and h.object_id = t.object_id
    and h.root_type = 'ROOT_THREAD_OBJECT' where t.name not in ('heapwise', 'Attach Listener') group by 1, 2"""


def jstack(box, jvm, java):
    """{name: (number in Java, [(method, line)…])} as the JVM prints them."""
    text = box.run([str(pathlib.Path(java).parent / "jcmd"), str(jvm.pid), "Thread.print"], check=0).stdout.decode()
    found = {}
    for part in re.split(r"\n(?=\")", text):
        m = re.match(r'"(.*)" #(\d+)', part)
        if m:
            found[m[1]] = int(m[2]), re.findall(r"at (?:[\w.]+(?:@[\w.]+)?/)?([\w.$<>]+)\((?:\w+\.java:(\d+))?", part)
    return found


def check(box, java, options=(), jvm_options=()):
    trace, own, back = (box.path(f) for f in ("java.trace", "own.hprof", "back.hprof"))
    with Jvm(box, HOLDERS, java=java, options=[*COMPILED, *jvm_options]).ready() as jvm:
        dump(box, jvm, *options)
        stacks = jstack(box, jvm, java)
        if os.path.exists(own):
            os.unlink(own)
        box.run([str(pathlib.Path(java).parent / "jcmd"), str(jvm.pid), "GC.heap_dump", "-all", own], check=0, timeout=120)
    box.run([hw.tool("heapwise"), "convert", "-t", "hprof", trace, back], check=0)
    ours = sorted(ask(box, trace, HELD))
    hw.equal(sorted({r[0] for r in ours}), ["Größe", "compiled", "holder <one>", "main"], "threads that hold something")
    held = [r for r in ours if r[2] == "Holders$Held"]
    hw.equal(sorted((r[0], r[3], int(r[5])) for r in held if r[4]), sorted((r[0], r[3], int(r[5])) for r in held), "lines")
    hw.equal(sum(int(r[5]) for r in held), 5, f"objects that variables hold: {held}")
    hw.equal(ours, sorted(ask(box, own, HELD)), "who holds what, against the JVM's own dump")
    hw.equal(ours, sorted(ask(box, back, HELD)), "who holds what, written as .hprof and read again")
    hw.equal(sorted(ask(box, trace, NATIVE)), sorted(ask(box, own, NATIVE)), "JNI code, against the JVM's own dump")
    hw.equal(ask(box, trace, CONSTANTS), [("Holders$Cache", "Holders.constant", "")], "constants of compiled code, their roots")
    for file in own, trace, back:
        hw.equal(ask(box, file, KEPT), [("52", "java.lang.Class<Holders>")], f"what the cache keeps, what keeps it: {file}")
    hw.equal(sorted(ask(box, trace, THREADS)), sorted(ask(box, own, THREADS)), "threads, against the JVM's own dump")
    hw.equal(sorted(ask(box, trace, THREADS)), sorted(ask(box, back, THREADS)), "threads, written and read again")
    bad = ask(box, trace, "select name, value from stats where value > 0 and severity <> 'info'")
    hw.equal(bad, [], "statistics of the trace")
    # Frames of a thread's callsite are some of those that the JVM prints for it, in the same order.
    numbers = dict(ask(box, trace, "select name, java_id from heap_graph_java_thread where java_id is not null"))
    hw.equal({n: int(numbers[n]) for n in stacks if n in numbers}, {n: stacks[n][0] for n in stacks if n in numbers},
             "numbers of threads")
    hw.true({"main", "Finalizer"} <= set(numbers), f"threads: {numbers}")
    for name in "Größe", "holder <one>", "main":
        frames = ask(box, trace, f"""select f.name from heap_graph_java_thread t
            join heap_graph_root_holder h on h.thread_id = t.id join stack_profile_frame f on h.frame_id = f.id
            where t.name = '{name}' group by h.depth order by h.depth""")
        said = iter(m for m, _ in stacks[name][1])
        lost = [f for f, in frames if "Lambda" not in f and f not in said]
        hw.equal(lost, [], f"{name}: frames that the JVM does not print, or in another order; it prints {stacks[name][1]}")
    text = box.run([hw.tool("heapwise"), "graph", "--path", "Holders$Other", trace], check=0).stdout.decode()
    hw.true(re.search(r'ROOT_JAVA_FRAME: a variable of Holders\.deep \(Holders\.java:11\) in thread "', text), text)
    hw.true(text.splitlines()[0].endswith(" (garbage of a running JVM is not recorded)"), text)
    text = box.run([hw.tool("heapwise"), "graph", "--json", "--path", "Holders$Other", trace], check=0).stdout.decode()
    hw.true('"held_by"' in text and "a variable of Holders.deep" in text, text)


def javas():
    found = sorted(str(p.resolve()) for p in pathlib.Path("/usr/lib/jvm").glob("*/bin/java")
                   if (p.parent / "jcmd").exists())
    return list(dict.fromkeys(found))


def same(box):
    """Each JDK here."""
    hw.need("java", "javac", "jcmd")
    for java in javas():
        print(f"  {java}")
        check(box, java)


LATER = r"""
public class Later {
    static class Held { byte[] bytes = new byte[1000]; }
    static class Second {
        static void hold(int n) throws Exception {
            Held mine = new Held();
            System.gc();
            if (n > 0) hold(n - 1); else { System.out.println("ready"); System.out.flush(); System.in.read(); }
            System.out.println(mine.bytes[0]);
        }
    }
    public static void main(String[] a) throws Exception {
        System.out.println("ready"); System.out.flush();
        System.in.read();
        Second.hold(20);
    }
}
"""


def later(box):
    """Methods that nobody asked the JVM about before the walk, in a process where one walk was."""
    hw.need("java", "javac", "jcmd")
    for java in javas():
        with Jvm(box, LATER, java=java).ready() as jvm:
            dump(box, jvm)
            jvm.p.stdin.write(b"\n")
            jvm.p.stdin.flush()
            jvm.ready()
            dump(box, jvm)
            found = ask(box, box.path("java.trace"), """select h.method, count(*) from heap_graph_root_holder h
                join heap_graph_object o on h.object_id = o.id join heap_graph_class c on o.type_id = c.id
                where c.name = 'Later$Held' group by 1""")
            hw.equal([(m, int(n)) for m, n in found], [("Later$Second.hold", 21)], java)


def by_tags(box):
    """A walk that knows no addresses, in the JVM itself."""
    hw.need("java", "javac", "jcmd")
    options = ["-XX:+UseZGC"]
    if box.run(["java", *options, "-version"]).returncode:
        raise hw.Skip("this JVM has no ZGC")
    check(box, javas()[0], ["--allow-pause"], options)


if __name__ == "__main__":
    hw.main({"same": same, "later": later, "by-tags": by_tags})
