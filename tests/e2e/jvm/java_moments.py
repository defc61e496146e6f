#!/usr/bin/env python3
"""Heap graphs of moments of a JVM's life: memory has run out, it ends, its recording ends."""
import json
import os
import signal
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from java import SHAPES, Jvm, ask, compiled, javas
from lib import hw

# On a line of input it fills its heap, says how far it came, lets go; twice. It lives on till the next line.
FULL = r"""
import java.util.*;
public class Full {
    static class Leak { byte[] bytes = new byte[5000]; }
    static List<Object> kept = new ArrayList<>();
    static void fill() { for (;;) kept.add(new Leak()); }
    public static void main(String[] a) throws Exception {
        System.out.println("ready"); System.out.flush();
        System.in.read();
        for (int i = 0; i < 2; i++) {
            int n = 0;
            try { fill(); } catch (OutOfMemoryError e) { n = kept.size(); kept = null; }
            kept = new ArrayList<>();
            System.out.println("kept " + n); System.out.flush();
        }
        System.in.read();
    }
}
"""

# Memory outside of its heap, by one method; a status of its own.
ENDS = r"""
import java.nio.*;
import java.util.*;
public class Ends {
    static class Holder { ByteBuffer b = ByteBuffer.allocateDirect(100000); }
    static final List<Object> kept = new ArrayList<>();
    public static void main(String[] a) throws Exception {
        Thread.sleep(Integer.parseInt(a[0]));
        for (int i = 0; i < 30; i++) kept.add(new Holder());
        System.exit(Integer.parseInt(a[1]));
    }
}
"""

# It has 400 of its objects, and takes memory outside of its heap all the time.
LIVES = r"""
import java.nio.*;
public class Lives {
    static class Item { Object o = new Object(); }
    static final Item[] items = new Item[400];
    static ByteBuffer b;
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < items.length; i++) items[i] = new Item();
        System.out.println("ready"); System.out.flush();
        while (System.in.available() == 0) { b = ByteBuffer.allocateDirect(5000); Thread.sleep(5); }
    }
}
"""

COUNTS = """select h.ts, sum(c.name = '{0}') from heap_graph h join heap_graph_object o on o.graph_sample_ts = h.ts
    join heap_graph_class c on c.id = o.type_id group by 1 order by 1"""


def counts(box, trace, name):
    return [int(r[1]) for r in ask(box, trace, COUNTS.format(name))]


def sockets(box):
    return {"PERFETTO_PRODUCER_SOCK_NAME": box.path("p"), "PERFETTO_CONSUMER_SOCK_NAME": box.path("c")}


def watched(pid):
    with open(f"/proc/{pid}/maps") as f:
        return "libheapwise_java" in f.read()


def fill(jvm):
    """-> how much there was each time."""
    jvm.p.stdin.write(b"\n")
    jvm.p.stdin.flush()
    said = []
    while len(said) < 2:  # the JVM itself writes of an error there, too
        line = jvm.p.stdout.readline()
        hw.true(line, "the program has ended")
        if line.startswith(b"kept "):
            said.append(int(line.split()[1]))
    return said


def out_of_memory(box, options=(), java=None):
    """The graph is that of the moment, and says by which stack; the program gets its error and goes on, and what it
    does the second time is not looked at."""
    hw.need("java", "javac")
    trace = box.path("oom.trace")
    with Jvm(box, FULL, options=["-Xmx48m", *options], java=java).ready() as jvm:
        p = box.start([hw.tool("java_heap_dump"), "-p", jvm.pid, "--wait-for-oom", "-o", trace], env=sockets(box))
        hw.wait_for(lambda: watched(jvm.pid), "our library")
        hw.idles(p.pid, 0.3)  # it listens
        first, second = fill(jvm)
        hw.equal(p.wait(hw.CLOCK), 0, "java_heap_dump")
        hw.true(jvm.p.poll() is None, "the program has ended")
        hw.equal(jvm.children(), [], "children of the JVM")
    hw.true(first > 5000 and second > 5000, f"objects: {first}, {second}")
    found = counts(box, trace, "Full$Leak")
    hw.true(len(found) == 1 and first <= found[0] <= first + 1, f"{found} objects, of {first} (one more had no room in the list)")
    details = ask(box, trace, "select error_msg, free_bytes_until_oom from android_heap_graph_java_oome_details")
    hw.equal([d[0] for d in details], ["Java heap space"], "the JVM's words")
    least = 0 if "-XX:+UseZGC" in options else 1  # whose pages are all in use then
    hw.true(least <= int(details[0][1]) < 8 << 20, f"what was left: {details}")
    stack = ask(box, trace, """with recursive s(id, parent, frame, n) as (select c.id, c.parent_id, c.frame_id, 0
        from heap_graph_thread_callsite t join stack_profile_callsite c on c.id = t.callsite_id where t.id = (select max(id)
        from heap_graph_thread_callsite) union all
        select c.id, c.parent_id, c.frame_id, n + 1 from s join stack_profile_callsite c on c.id = s.parent)
        select f.name, (select line_number from stack_profile_symbol y where y.symbol_set_id = f.symbol_set_id) line
        from s join stack_profile_frame f on f.id = s.frame order by n""")
    names = [r[0] for r in stack]
    # The heap is full at the object itself or at what its constructor allocates.
    hw.equal([n for n in names if n != "Full$Leak.<init>"][-2:], ["Full.fill", "Full.main"], f"the stack: {stack}")
    lines = FULL.splitlines()
    hw.true("void fill()" in lines[int(dict(stack)["Full.fill"]) - 1], f"the line: {stack}")


def out_of_memory_others(box):
    """Other collectors and JDKs. ZGC's heap cannot be copied: the JVM, which is held already, walks itself."""
    hw.need("java", "javac")
    if not os.environ.get("HW_LONG"):
        raise hw.Skip("HW_LONG=1 runs it")
    for java in javas():
        for gc in "Serial", "Parallel", "Shenandoah", "Z":
            options = [f"-XX:+Use{gc}GC"]
            if box.run([java, *options, "-version"]).returncode == 0:
                print(f"  {java} {gc}", flush=True)
                out_of_memory(box, options, java)


def in_vain(box):
    """Nobody runs out of memory: the command says so, in its time, and the JVM is not held by it afterwards."""
    hw.need("java", "javac")
    p = box.run([hw.tool("java_heap_dump"), "-n", "a", "--wait-for-oom", "--oom-wait-seconds", "7", "--print-config"], check=0)
    hw.equal(" ".join(p.stdout.decode().split()),
             'buffers { size_kb: 262144 fill_policy: DISCARD } data_sources { config { name: "android.java_hprof.oom" '
             'java_hprof_config { process_cmdline: "a" dump_oome_callstack: true } } } duration_ms: 7000 '
             'data_source_stop_timeout_ms: 100000', "configuration")
    with Jvm(box, FULL, options=["-Xmx48m"]).ready() as jvm:
        p = box.run([hw.tool("java_heap_dump"), "-p", jvm.pid, "--wait-for-oom", "--oom-wait-seconds", "2", "-o",
                     box.path("none.trace")], env=sockets(box), check=5)
        hw.true(b"ran out of memory within 2 s" in p.stderr, p.stderr.decode())
        began = time.monotonic()
        fill(jvm)
        hw.true(time.monotonic() - began < 20, "the JVM was held")


def asker_dies(box):
    """Whoever asked is stopped when the moment comes: the JVM waits for its answer, and goes on when it is killed."""
    hw.need("java", "javac")
    with Jvm(box, FULL, options=["-Xmx48m"]).ready() as jvm:
        p = box.start([hw.tool("java_heap_dump"), "-p", jvm.pid, "--wait-for-oom", "-o", box.path("x.trace")], env=sockets(box))
        hw.wait_for(lambda: watched(jvm.pid), "our library")
        hw.idles(p.pid, 0.3)
        os.killpg(p.pid, signal.SIGSTOP)
        hw.stopped(p.pid)
        jvm.p.stdin.write(b"\n")
        jvm.p.stdin.flush()
        hw.quiet(1.5)  # the moment comes, and nobody answers
        os.killpg(p.pid, signal.SIGKILL)
        said = []
        while len(said) < 2 and (line := jvm.p.stdout.readline()):
            said += [line] * line.startswith(b"kept ")
        hw.equal(len(said), 2, "rounds of the program")


def recorded(box):
    """One command: the native profile and the graph of a JVM's end, whose buffers have their callstacks."""
    hw.need("java", "javac")
    compiled(box, ENDS)
    trace = box.path("ends.trace")
    box.run([hw.tool("heapwise"), "record", "-f", "-o", trace, "--exact", "--java-graph", "--no-report", "--",
             "java", "-Xmx64m", "-cp", box.dir, "Ends", 1500, 3], check=3, timeout=120)
    hw.equal(counts(box, trace, "Ends$Holder"), [30], "objects of the graph at the end")
    page = json.loads(box.run([hw.tool("heapwise"), "graph", "--native", "--json", trace], check=0).stdout)
    rows = {(r["class"], r["kind"]): r for r in page["rows"]}
    buffers = rows["java.nio.DirectByteBuffer", "buffer"]
    hw.equal([buffers[k] for k in ("blocks", "bytes", "linked_blocks")], [30, 3_000_000, 30], "buffers")
    hw.true(int(ask(box, trace, "select count(*) from profiler_smaps")[0][0]) > 20, "mappings")


def recorded_short(box):
    """A program that ends at once, before the recorder has come to the JVM; and one that ends by System.exit."""
    hw.need("java", "javac")
    compiled(box, ENDS)
    trace = box.path("short.trace")
    for status in (0, 3):
        box.run([hw.tool("heapwise"), "record", "-f", "-o", trace, "--java-graph", "--no-report", "--",
                 "java", "-Xmx64m", "-cp", box.dir, "Ends", 0, status], check=status, timeout=120)
        hw.equal(counts(box, trace, "Ends$Holder"), [30], "objects of the graph at the end")


def recorded_running(box):
    """A JVM that runs on: at each interval and at the end of the recording. One that allocates nothing has no native
    profile, and its graph all the same."""
    hw.need("java", "javac")
    trace = box.path("attached.trace")
    with Jvm(box, LIVES).ready() as jvm:
        box.run([hw.tool("heapwise"), "attach", "-f", "-o", trace, "--java-graph", "-d", "4s", "-c", "1500ms", "--no-report",
                 jvm.pid], check=0, timeout=120)
        hw.true(jvm.p.poll() is None, "the JVM has ended")
        hw.equal(jvm.children(), [], "children of the JVM")
    found = counts(box, trace, "Lives$Item")
    hw.true(len(found) >= 2 and set(found) == {400}, f"objects of each graph: {found}")
    rows = ask(box, trace, "select count(*) from heap_profile_allocation")
    hw.true(int(rows[0][0]) > 20, f"samples: {rows}")
    with Jvm(box, SHAPES, 400).ready() as jvm:
        box.run([hw.tool("heapwise"), "attach", "-f", "-o", trace, "--java-graph", "-d", "1s", jvm.pid], timeout=120)
    hw.equal(counts(box, trace, "Shapes$Item"), [400], "objects of an idle JVM")


def recorded_others(box):
    """No JVM: said, and the native profile is what it always is. ZGC at its end walks itself."""
    hw.need("java", "javac")
    trace = box.path("none.trace")
    p = box.run([hw.tool("heapwise"), "record", "-f", "-o", trace, "--java-graph", "--no-report", "--", hw.target("malloc_loop")
                 if (hw.TARGETS / "t_malloc_loop").exists() else "ls"], timeout=hw.CLOCK)
    hw.true(b"no JVM was recorded" in p.stderr, p.stderr.decode())
    compiled(box, ENDS)
    if box.run(["java", "-XX:+UseZGC", "-version"]).returncode == 0:
        box.run([hw.tool("heapwise"), "record", "-f", "-o", trace, "--java-graph", "--no-report", "--", "java",
                 "-XX:+UseZGC", "-Xmx64m", "-cp", box.dir, "Ends", 1500, 0], check=0, timeout=120)
        hw.equal(counts(box, trace, "Ends$Holder"), [30], "objects of the graph at the end")


if __name__ == "__main__":
    hw.main({"out-of-memory": out_of_memory, "out-of-memory-others": out_of_memory_others, "in-vain": in_vain,
             "asker-dies": asker_dies, "recorded": recorded, "recorded-short": recorded_short, "recorded-running": recorded_running,
             "recorded-others": recorded_others})
