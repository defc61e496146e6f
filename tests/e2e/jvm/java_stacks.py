#!/usr/bin/env python3
"""Native heap profiles of JVMs whose stacks run from C into Java methods: exact bytes at interval 1."""
import csv
import glob
import io
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.javac import javac

# Native memory by every way that Java code takes to it. It begins when our library is there, or at once.
APP = r"""
import java.nio.ByteBuffer;
import java.util.*;
import java.util.zip.*;
public class App {
    static final int ROUNDS = 300, DIRECT = 100_000, UNSAFE = 70_008, JNI = 50_000;
    static final List<Object> kept = new ArrayList<>();
    static sun.misc.Unsafe unsafe;
    static native void jni(int n);
    static class Work implements Runnable {
        public void run() { for (int i = 0; i < ROUNDS; i++) { direct(); zip(); raw(); nested(3); } }
        void direct() { kept.add(ByteBuffer.allocateDirect(DIRECT)); }
        void zip() { Deflater d = new Deflater(); d.deflate(new byte[10]); d.end(); }
        void raw() { unsafe.freeMemory(unsafe.allocateMemory(UNSAFE)); }
        void nested(int depth) { if (depth > 0) nested(depth - 1); else jni(JNI); }
    }
    static boolean ready() {
        for (Thread t : Thread.getAllStackTraces().keySet())
            if (t.getName().equals("heapwise stacks")) return true;
        return false;
    }
    public static void main(String[] a) throws Exception {
        java.lang.reflect.Field f = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        f.setAccessible(true);
        unsafe = (sun.misc.Unsafe) f.get(null);
        System.load(a[0]);
        if (a[1].equals("stdin")) {
            new Deflater().end(); /* what is loaded later is hooked a moment later */
            System.out.println("ready"); System.out.flush();
            System.in.read();
        }
        if (!a[1].equals("now")) {
            for (int i = 0; i < 1000 && !ready(); i++) { jni(1); Thread.sleep(10); }
            Thread.sleep(300);
        }
        Thread t = new Thread(new Work(), "worker");
        t.start(); t.join();
        System.out.println("done"); System.out.flush();
        if (a[1].equals("stdin")) System.in.read();
    }
}
"""
JNI = "#include <stdlib.h>\nvoid *kept;\nvoid Java_App_jni(void *env, void *c, int n) { kept = malloc(n); }\n"
ROUNDS = 300


def prepared(box):
    """-> (folder of classes, library)"""
    hw.need("java", "javac", "cc")
    library = box.path("libapp.so")
    if not os.path.exists(library):
        (box.dir / "App.java").write_text(APP)
        (box.dir / "app.c").write_text(JNI)
        box.run(["cc", "-O1", "-g", "-shared", "-fPIC", "-o", library, box.dir / "app.c"], check=0)
        javac(box, box.dir / "App.java", options=["-source", "11", "-target", "11", "-Xlint:-options", "-XDignore.symbol.file"])  # --release hides sun.misc of some
    return str(box.dir), library


def ask(box, trace, sql):
    p = box.run([hw.tool("heapwise"), "query", str(trace), sql], check=0, timeout=120)
    return [tuple(r) for r in list(csv.reader(io.StringIO(p.stdout.decode())))[1:]]


def java_of(stack):
    """The Java part of a stack, root first."""
    return [f for f in stack if f.startswith(("App", "java.", "jdk.", "sun."))]


def check(trace, rounds=ROUNDS, failures=0, zips=True):
    d = hw.sound(trace).last()
    hw.true(d is not None, "no dump")
    sums, failed, bad = {}, 0, []
    for s in d.samples:
        java = java_of(s.stack)
        # A stub of the compiler's in which AsyncGetCallTrace answers -4: no code of the program's allocates there.
        spared = any("counter_overflow" in f for f in s.stack) or (not zips and "App$Work.zip" in java)
        if not spared and any("unwind failed" in f or f in ("[unwind gap]", "[unnamed function]") for f in s.stack):
            failed += s.allocs
            bad.append(s.stack)
        at = next((i for i, f in enumerate(java) if f.startswith("App$Work.") and f != "App$Work.run"), None)
        if at is None:
            continue
        hw.equal((java[0], java[at - 1]), ("java.lang.Thread.run", "App$Work.run"), f"callers in {s.stack}")
        native = s.stack[s.stack.index(java[-1]) + 1:]
        key = java[at].split(".")[-1], native[0] if native else "", java[at:].count("App$Work.nested")
        row = sums.setdefault(key, [0, 0, 0])
        for i, n in enumerate((s.alloc, s.allocs, s.freed)):
            row[i] += n
    direct = {k: v for k, v in sums.items() if k[0] == "direct" and v[1] == rounds}
    hw.true([rounds * 100_000, rounds, 0] in direct.values(), f"direct buffers: {sums}")
    raw = [v for k, v in sums.items() if k[0] == "raw" and v[0] >= rounds * 70_008]
    hw.equal(raw, [[rounds * 70_008, rounds, rounds * 70_008]], f"Unsafe: {sums}")
    hw.equal(sums.get(("nested", "Java_App_jni", 4)), [rounds * 50_000, rounds, 0], f"JNI: {sums}")
    streams = [v for k, v in sums.items() if k[0] == "zip" and "Deflater_init" in k[1]]
    hw.true(not zips or len(streams) == 1 and streams[0][0] == streams[0][2] and streams[0][0] % rounds == 0 and
            streams[0][0] // rounds > 250_000 and streams[0][1] % rounds == 0, f"Deflater: {sums}")
    hw.true(failed <= failures, f"{failed} samples without their Java frames: {bad[:3]}")
    return d


def counted(box, trace):
    """Samples that lack their Java frames, by reason: the sum is what the stacks show."""
    samples = [s for d in hw.sound(trace).dumps if d is hw.sound(trace).last() for s in d.samples]
    failed = sum(s.allocs for s in samples if any(f.startswith("[java unwind failed") for f in s.stack))
    for command in ("report", "stats"):
        said = b" ".join(box.run([hw.tool("heapwise"), command, trace]).stdout.split()).decode()
        m = re.search(r"(\d+) of its \d+ samples lack their Java functions: (.*?)(?:; \d+ (?:were taken|in threads)|[.;\n]|$)", said)
        reasons = {w: int(n) for n, w in re.findall(r"(\d+) ([^,]+)", m[2])} if m else {}
        hw.equal(int(m[1]) if m else 0, sum(reasons.values()), f"{command}: {said}")
        unseen = sum(n for w, n in reasons.items() if "signal handler" in w or "copy of" in w)
        hw.equal((int(m[1]) if m else 0) - unseen, failed, f"{command}: {said}")
        hw.true(not re.search(r"\b0 (of its|were taken|in threads)", said), f"{command}, nothing of which it tells: {said}")
        hw.true(re.search(r"\d+ (of its \d+ samples )?were taken before the library was in", said), f"{command}: {said}")


def recorded(*java_options, java="java", options=()):
    def case(box):
        folder, library = prepared(box)
        trace = box.path("app.trace")
        if java != "java" and not os.path.exists(java):
            raise hw.Skip(f"no {java}")
        r = box.run([hw.tool("heapwise"), "record", "-i", "1", *options, "-o", trace, "--", java, *java_options, "-cp",
                     folder, "App", library, "wait"], check=0, timeout=200)
        hw.true(b"done" in r.stdout, f"the program's output: {hw.tail(r.stdout)}")
        hw.true(b"no Java functions" not in r.stderr, hw.tail(r.stderr))
        check(trace)
        rows = ask(box, trace, "select distinct f.name, m.name, s.source_file, s.line_number from stack_profile_frame f "
                               "join stack_profile_mapping m on m.id = f.mapping join stack_profile_symbol s "
                               "using (symbol_set_id) where f.name in ('App$Work.direct', "
                               "'jdk.internal.misc.Unsafe.allocateMemory0')")
        line = 1 + next(i for i, l in enumerate(APP.splitlines()) if "void direct()" in l)
        hw.true(("App$Work.direct", f"/[java] {box.dir.name}", "App.java", str(line)) in rows, f"{rows}")
        modules = ask(box, trace, "select distinct m.name from stack_profile_mapping m where m.name like '/[java] %'")
        hw.true(("/[java] java.base",) in modules, f"{modules}")
        counted(box, trace)
        # Methods get their ids on the program's threads: that memory is the JVM's. What our own threads do is not.
        ours = ask(box, trace, "select distinct f.name from stack_profile_frame f join stack_profile_mapping m on "
                               "m.id = f.mapping where m.name like '%/libheapwise_java.so'")
        hw.true(set(ours) <= {("make_ids",), ("on_class_prepare",)}, f"our own doing in the profile: {ours}")
    return case


def native_only(box):
    """--no-managed-frames: no Java frame, and the library stays out."""
    folder, library = prepared(box)
    trace = box.path("app.trace")
    box.run([hw.tool("heapwise"), "record", "-i", "1", "--no-managed-frames", "-o", trace, "--", "java", "-cp", folder,
             "App", library, "now"], check=0, timeout=200)
    d = hw.sound(trace).last()
    hw.equal([s.stack for s in d.samples if java_of(s.stack)], [], "Java frames")
    hw.equal(d.by_function(["Java_App_jni"])["Java_App_jni"][:2], [ROUNDS * 50_000, ROUNDS], "bytes of JNI")


def attached(box):
    """The same for a JVM that ran already."""
    folder, library = prepared(box)
    trace = box.path("app.trace")
    with open(box.path("err"), "wb") as err:
        jvm = subprocess.Popen(["java", "-cp", folder, "App", library, "stdin"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=err)
    try:
        hw.equal(jvm.stdout.readline(), b"ready\n", "the program's first line")
        rec = box.start([hw.tool("heapwise"), "attach", "-i", "1", "-o", trace, str(jvm.pid)])
        hw.wait_for(lambda: "libheapprofd" in open(f"/proc/{jvm.pid}/maps").read(), "the client in the JVM")
        hw.wait_for(lambda: hw.called(jvm.pid), "the recorder to call it")
        jvm.stdin.write(b"\n")
        jvm.stdin.flush()
        hw.equal(jvm.stdout.readline(), b"done\n", "the program's second line")
        rec.send_signal(2)
        hw.equal(rec.wait(hw.CLOCK), 0, "heapwise attach")
        check(trace, failures=20)
        hw.true(jvm.poll() is None, "the JVM has ended")
        names = [open(f).read().strip() for f in glob.glob(f"/proc/{jvm.pid}/task/*/comm")]
        hw.equal(sorted(n for n in names if n.startswith("heapwise")), ["heapwise", "heapwise stacks"],
                 "threads that stay: one waits for requests, one has named methods")
    finally:
        jvm.kill()
        jvm.wait()


# Objects of known classes, numbers and sizes; some stay.
CHURN = r"""
import java.util.*;
public class Churn {
    static volatile Object sink;
    static class Node { Object a; long b; }
    static final List<Object> kept = new ArrayList<>();
    static void small() { sink = new byte[1000]; }
    static void node() { sink = new Node(); }
    static void keep() { kept.add(new int[1000]); }
    static void work(int n) { for (int i = 0; i < n; i++) { small(); node(); if (i % 10 == 0) keep(); } }
    static boolean ready() {
        for (Thread t : Thread.getAllStackTraces().keySet())
            if (t.getName().equals("heapwise stacks")) return true;
        return false;
    }
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 1000 && !ready(); i++) Thread.sleep(10);
        Thread.sleep(700);
        for (int i = 0; i < 16000; i++) sink = new byte[1000]; /* an interval holds from the next sample on */
        work(Integer.parseInt(a[0]));
        sink = null;
        System.gc();
        Thread.sleep(1100);
    }
}
"""


def churned(box, heap, n, *options):
    hw.need("java", "javac")
    if not (box.dir / "Churn.class").exists():
        (box.dir / "Churn.java").write_text(CHURN)
        javac(box, box.dir / "Churn.java", options=["--release", "11", "-Xlint:-options"])
    trace = box.path("churn.trace")
    r = box.run([hw.tool("heapwise"), "record", "--heap", heap, *options, "-f", "-o", trace, "--", "java", "-Xmx300m",
                 "-cp", box.dir, "Churn", str(n)], check=0, timeout=200)
    t = hw.sound(trace)
    hw.equal({d.heap for d in t.dumps}, {heap}, "heaps in the trace")
    d = t.last(heap=heap)
    sums = {}
    for s in d.samples:
        if "Churn.work" not in s.stack:
            continue
        row = sums.setdefault(";".join(s.stack[s.stack.index("Churn.main"):]), [0, 0, 0])
        for i, v in enumerate((s.alloc, s.allocs, s.alloc - s.freed)):
            row[i] += v
    return d, sums, r


def every_object(box):
    """At interval 1 each object is there, with its class below the method that made it, and goes again."""
    n = 2000
    for heap in ("com.android.art", "java.alloc"):
        d, sums, r = churned(box, heap, n, "-i", "1")
        path = "Churn.main;Churn.work;Churn."
        live = heap == "java.alloc"
        want = {"small;byte[]": (1016, n, 0), "node;Churn$Node": (24, n, 0), "keep;int[]": (4016, n // 10, 1)}
        for key, (size, count, kept) in want.items():
            row = [size * count, count, size * count * kept if live else size * count]
            hw.equal(sums.get(path + key), row, f"{heap}: {key}: {sums}")
        hw.true(not d.has_temporary, f"{heap}: the end of an object is seen late, or never")
        hw.true(b"524288 is usual" in r.stderr and b"no Java functions" not in r.stderr, hw.tail(r.stderr))
        shown = box.run([hw.tool("heapwise"), "infra", "--by", "type,backtrace", "--heap", heap, box.path("churn.trace")],
                        check=0).stdout.decode().splitlines()
        types = {w[3]: (int(w[0]), int(w[1])) for w in (line.split() for line in shown) if w[2:3] == ["Ⓣ"]}
        rows = box.run([hw.tool("heapwise"), "report", "--metric", "alloc_space", "--top", "0", "--heap", heap,
                        box.path("churn.trace")]).stdout.decode()
        for row in "Churn.small: byte[]", "Churn.node: Churn$Node", "Churn.keep: int[]":
            hw.true(row in rows, f"rows without who allocates what: {rows}")
        node = types.get("Churn$Node")
        hw.equal(node, None if live else (24 * n, n), f"bytes and objects of a class: {types}")
        hw.equal(types["int[]"] >= (4016 * n // 10, n // 10), True, f"of an array: {types}")


def sampled_objects(box):
    """The default is 512 KiB for Java objects; sums are right within their error."""
    d, sums, r = churned(box, "com.android.art", 300000)
    hw.true(b"no Java functions" not in r.stderr, hw.tail(r.stderr))
    hw.equal(d.interval, 512 * 1024, "interval")
    have = sum(v[0] for k, v in sums.items())
    want = 300000 * (1016 + 24) + 30000 * 4016
    hw.true(abs(have - want) < 0.2 * want, f"{have} bytes of {want}: {sums}")


def no_java(box):
    """A Java heap of something that is no JVM: said, not silent."""
    r = box.run([hw.tool("heapwise"), "record", "--heap", "java.alloc", "-f", "-o", box.path("no.trace"), "--",
                 hw.target("truth")])
    hw.true(b"its Java objects were not sampled (java.alloc)" in r.stderr, hw.tail(r.stderr))


def no_frames(box):
    """A JVM of which no Java function was seen, as by far most that end so soon: said, kept in the trace, and told by
    who reads it. Why is said as the samples have it."""
    hw.need("java")
    r = box.run([hw.tool("heapwise"), "record", "--no-report", "-o", box.path("v.trace"), "--", "java", "-version"], check=0)
    text = b"its stacks have no Java functions"
    none = ask(box, box.path("v.trace"), "select count(*) from stack_profile_frame f join stack_profile_mapping m on "
               "m.id = f.mapping where m.name like '/[java]%' and f.name not like '[java unwind%'") == [("0",)]
    hw.equal(text in r.stderr, none, hw.tail(r.stderr))
    for command in ("report", "stats"):
        said = box.run([hw.tool("heapwise"), command, box.path("v.trace")]).stdout
        said = b" ".join(said.split())
        hw.equal(text in said, none, f"{command}: {said.decode()}")
        hw.equal(b"not in the JVM before the last sample" in said, b"taken before the library was in" not in said,
                 f"one note or the other: {said.decode()}")
    r = box.run([hw.tool("heapwise"), "record", "--no-report", "--no-managed-frames", "-o", box.path("n.trace"), "--", "java",
                 "-version"], check=0)
    hw.true(text not in r.stderr, hw.tail(r.stderr))


def long_only(case):
    def run(box):
        if not os.environ.get("HW_LONG"):
            raise hw.Skip("HW_LONG=1 runs it")
        case(box)
    return run


def at_once(box):
    """A program that begins its work when the JVM is made, and ends with it: nothing lacks its Java frames."""
    folder, library = prepared(box)
    found = sorted({os.path.realpath(p) for p in glob.glob("/usr/lib/jvm/*/bin/java")})
    for java in found if os.environ.get("HW_LONG") else found[-1:]:
        trace = box.path("app.trace")
        r = box.run([hw.tool("heapwise"), "record", "-f", "-i", "1", "-o", trace, "--", java, "-cp", folder, "App", library,
                     "now"], check=0, timeout=200)
        hw.true(b"done" in r.stdout, f"the program's output: {hw.tail(r.stdout)}")
        check(trace, zips=False)  # libzip is loaded meanwhile: its first stacks end in other ways


CASES = {"every-object": every_object, "sampled-objects": sampled_objects, "no-java": no_java, "no-frames": no_frames,
         "compiled": recorded(), "interpreted": recorded("-Xint"), "native-only": native_only, "at-once": at_once, "attached": attached,
         **{name: long_only(recorded(*options, **kw)) for name, options, kw in (
             ("c1", ["-XX:TieredStopAtLevel=1"], {}), ("zgc", ["-XX:+UseZGC", "-Xmx256m"], {}),
             ("jdk25", [], {"java": "/usr/lib/jvm/temurin-25-jdk-amd64/bin/java"}))}}

if __name__ == "__main__":
    hw.main(CASES)
