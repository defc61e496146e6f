#!/usr/bin/env python3
"""Java frames of samples against what jstack says of the same threads at the same stop; libraries that come and go."""
import contextlib
import csv
import ctypes
import io
import os
import re
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from java import descendants, javas
from lib import hw
from lib.javac import javac

# Each thread takes its own way to one native method, which allocates its size and stays there.
STOPS = r"""
import java.lang.invoke.*;
import java.lang.reflect.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
public class Stops {
    static native void stop(int n);
    interface Step { void go(int depth); default void twice(int n) { go(n); } }
    static class Down implements Step {
        final int size;
        Down(int size) { this.size = size; }
        public void go(int depth) { if (depth > 0) go(depth - 1); else stop(size); }
    }
    static class Starts { Starts(int n) { stop(n); } }
    static class Loads { static int first = Loads.load(); static int load() { stop(1000006); return 1; } }
    static synchronized void held(int n) { synchronized (Stops.class) { stop(n); } }
    static void reflected(int n) { stop(n); }
    static void hot(int depth, int n) { if (depth == 0) { if (n > 0) stop(n); return; } hot(depth - 1, n); }
    static void start(String name, Runnable r) { Thread t = new Thread(r, name); t.setDaemon(true); t.start(); }
    static boolean ready() {
        for (Thread t : Thread.getAllStackTraces().keySet())
            if (t.getName().equals("heapwise stacks")) return true;
        return false;
    }
    public static void main(String[] a) throws Exception {
        System.load(a[0]);
        for (int i = 0; i < 1000 && !ready(); i++) { stop(1); Thread.sleep(10); }
        for (int i = 0; i < 20000; i++) hot(10, 0);
        Thread.sleep(300);
        start("deep", () -> new Down(1000001).go(60));
        start("default", () -> new Down(1000002).twice(3));
        start("constructor", () -> new Starts(1000003));
        start("reflection", () -> { try { Stops.class.getDeclaredMethod("reflected", int.class).invoke(null, 1000004); }
                                    catch (Exception e) { throw new RuntimeException(e); } });
        start("compiled", () -> hot(10, 1000005));
        start("initializer", () -> { if (Loads.first == 0) throw new RuntimeException(); });
        start("lock", () -> held(1000007));
        start("streamed", () -> List.of(1).stream().map(x -> { stop(1000009); return x; }).forEach(x -> { }));
        start("handle", () -> { try { MethodHandles.lookup().findStatic(Stops.class, "reflected", MethodType.methodType(void.class, int.class)).invokeExact(1000010); }
                                catch (Throwable e) { throw new RuntimeException(e); } });
        ExecutorService pool = Executors.newFixedThreadPool(1, r -> { Thread t = new Thread(r, "pool"); t.setDaemon(true); return t; });
        pool.submit(() -> hot(2, 1000011));
        start("proxy", () -> ((Runnable) Proxy.newProxyInstance(Stops.class.getClassLoader(), new Class<?>[]{Runnable.class},
                (p, m, x) -> { stop(1000012); return null; })).run());
        Thread.sleep(500);
        System.out.println("ready"); System.out.flush();
        System.in.read();
        System.exit(0);
    }
}
"""
STOP = """#include <stdlib.h>
#include <unistd.h>
void *kept;
void Java_Stops_stop(void *env, void *c, int n) { kept = malloc((size_t)n); while (n > 1) pause(); }
"""
SIZES = {"deep": 1000001, "default": 1000002, "constructor": 1000003, "reflection": 1000004, "compiled": 1000005,
         "initializer": 1000006, "lock": 1000007, "streamed": 1000009, "handle": 1000010, "pool": 1000011, "proxy": 1000012}


def ask(box, trace, sql):
    p = box.run([hw.tool("heapwise"), "query", str(trace), sql], check=0, timeout=120)
    return [tuple(r) for r in list(csv.reader(io.StringIO(p.stdout.decode())))[1:]]


def samples(box, trace):
    """-> {bytes: [(method, file, line) of Java, innermost first]}"""
    frames = {i: rest for i, *rest in ask(
        box, trace, "select f.id, f.name, m.name, s.source_file, s.line_number from stack_profile_frame f left join "
        "stack_profile_mapping m on m.id = f.mapping left join stack_profile_symbol s using (symbol_set_id)")}
    sites = {i: rest for i, *rest in ask(box, trace, "select id, parent_id, frame_id from stack_profile_callsite")}
    out = {}
    for at, size in ask(box, trace, "select callsite_id, size from heap_profile_allocation where size > 1000000 and count = 1"):
        path = []
        while at in sites:
            at, frame = sites[at]
            name, mapping, file, line = frames[frame]
            if mapping.startswith("/[java]"):
                path.append((name, file, line))
        out[int(size)] = path
    return out


def told(text):
    """-> {thread: [(method, file, line), innermost first]} of jstack's text"""
    out, now = {}, None
    for line in text.splitlines():
        head = re.match(r'"([^"]*)" ', line)
        frame = re.match(r"\s+at (\S+)\((?:.*?/)?([^()]*)\)", line)
        if head:
            now = out.setdefault(head[1], [])
        elif frame and now is not None:
            file, _, number = frame[2].partition(":")
            now.append((frame[1], "" if file in ("Native Method", "Unknown Source") else file, number))
    return out


def plain(name):
    """Hidden classes have numbers that every tool writes in its own way."""
    return re.sub(r"(\$\$Lambda|LambdaForm\$\w+|\$Proxy)[^.]*(/0x[0-9a-f]+)?", r"\1", re.sub(r"[./]0x[0-9a-f]+", "", name))


def same_as_jstack(*options, before=()):
    def case(box):
        hw.need("java", "javac", "jstack", "cc", *before[:1])
        if before and os.geteuid() != 0:
            raise hw.Skip("needs root")
        os.chmod(box.dir, 0o755)
        (box.dir / "Stops.java").write_text(STOPS)
        (box.dir / "stop.c").write_text(STOP)
        box.run(["cc", "-O1", "-shared", "-fPIC", "-o", box.path("libstop.so"), box.dir / "stop.c"], check=0)
        javac(box, box.dir / "Stops.java")
        trace = box.path("stops.trace")
        p = box.start([hw.tool("heapwise"), "record", "--no-report", "-i", "65536", "-o", trace, "--", *before, "java", *options, "-cp", box.dir,
                       "Stops", box.path("libstop.so")], stdin=subprocess.PIPE)
        hw.equal(p.stdout.readline(), b"ready\n", "the program's line")
        pid = next(int(x) for x in os.listdir("/proc") if x.isdigit() and comm(x) == "java" and str(box.dir).encode() in cmdline(x))
        said = box.run(["jstack", str(pid)], check=0, timeout=hw.CLOCK).stdout.decode()
        p.stdin.write(b"\n")
        p.stdin.flush()
        hw.equal(p.wait(hw.CLOCK), 0, "the recorder's status")
        want, have = told(said), samples(box, trace)
        n = 0
        for thread, size in SIZES.items():
            a = [(plain(name), file, line) for name, file, line in want[thread]]
            b = [(plain(name), file, line) for name, file, line in have.get(size, [])]
            hw.equal([f[0] for f in b], [f[0] for f in a], f"methods of thread {thread}")
            for ours, theirs in zip(b, a):
                if theirs[2]:
                    hw.equal((ours[1].split("/")[-1], ours[2]), theirs[1:], f"file and line of {theirs[0]} in thread {thread}")
            n += len(a)
        print(f"  {n} frames of {len(SIZES)} threads")
        hw.true(n > 120, "frames")
    return case


def comm(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        return ""


def cmdline(pid):
    try:
        return open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        return b""


# A class loader whose class loads a library, allocates in it, and goes, so that the JVM closes the library.
GOES = r"""
import java.lang.ref.*;
import java.net.*;
import java.nio.file.*;
public class Goes {
    static boolean ready() {
        for (Thread t : Thread.getAllStackTraces().keySet())
            if (t.getName().equals("heapwise stacks")) return true;
        return false;
    }
    static WeakReference<ClassLoader> round(Path from) throws Exception {
        URLClassLoader l = new URLClassLoader(new URL[]{from.toUri().toURL()}, null);
        l.loadClass("Guest").getDeclaredMethod("work", String.class).invoke(null, from.resolve("libguest.so").toString());
        l.close();
        return new WeakReference<>(l);
    }
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 1000 && !ready(); i++) { java.nio.ByteBuffer.allocateDirect(100); Thread.sleep(10); }
        int gone = 0;
        System.out.println("ready"); System.out.flush();
        System.in.read();
        for (int i = 0; i < 8; i++) {
            WeakReference<ClassLoader> w = round(Paths.get(a[0]));
            for (int k = 0; k < 50 && w.get() != null; k++) { System.gc(); Thread.sleep(10); }
            gone += w.get() == null ? 1 : 0;
            Thread.sleep(30);
        }
        boolean mapped = new String(Files.readAllBytes(Paths.get("/proc/self/maps"))).contains("libguest");
        System.out.println("gone " + gone + " mapped " + mapped); System.out.flush();
        System.in.read();
    }
}
"""
GUEST = r"""
public class Guest {
    static native void take(int n);
    public static void work(String library) { System.load(library); inner(3); }
    static void inner(int depth) { if (depth > 0) inner(depth - 1); else for (int i = 0; i < 25; i++) take(7000); }
}
"""


class Stopped:
    """A process's threads of this name do nothing meanwhile; its others go on."""
    SEIZE, INTERRUPT, DETACH, WALL, FUTEX = 0x4206, 0x4207, 17, 0x40000000, 202

    def __init__(self, pid, name):
        self.tids = [int(t) for t in os.listdir(f"/proc/{pid}/task") if comm(f"{pid}/task/{t}") == name]
        hw.true(self.tids, f"no thread {name} of {pid}")
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def ask(self, what, tid):
        hw.true(self.libc.ptrace(what, tid, None, None) == 0, f"ptrace {what:#x} of {tid}: {os.strerror(ctypes.get_errno())}")

    def stop(self, tid):
        """Where it waits for work. Elsewhere the JVM would wait for it, too."""
        self.ask(self.SEIZE, tid)
        self.ask(self.INTERRUPT, tid)
        os.waitpid(tid, self.WALL)
        with open(f"/proc/{tid}/syscall") as f:
            if f.read().split()[0] == str(self.FUTEX):
                return True
        self.ask(self.DETACH, tid)
        return False

    def __enter__(self):
        for tid in self.tids:
            hw.wait_for(lambda: self.stop(tid), "the thread to wait for work")

    def __exit__(self, *_):
        for tid in self.tids:
            self.ask(self.DETACH, tid)


def library_goes(namer_stopped=False):
    def case(box):
        """Eight times a class with a library is loaded and unloaded: each allocation has native and Java frames, and a
        program that goes on. Also where the thread that asks for names is stopped until all these classes are gone."""
        hw.need("java", "javac", "cc")
        guest = box.dir / "guest"
        guest.mkdir()
        (box.dir / "Goes.java").write_text(GOES)
        (guest / "Guest.java").write_text(GUEST)
        (box.dir / "guest.c").write_text("#include <stdlib.h>\nvoid *kept;\nvoid Java_Guest_take(void *e, void *c, int n) { kept = malloc(n); }\n")
        box.run(["cc", "-O1", "-shared", "-fPIC", "-o", guest / "libguest.so", box.dir / "guest.c"], check=0)
        javac(box, box.dir / "Goes.java")
        javac(box, guest / "Guest.java", to=guest)
        trace = box.path("goes.trace")
        for java in javas() if namer_stopped else ["java"]:
            p = subprocess.Popen([hw.tool("heapwise"), "record", "--no-report", "-f", "-i", "1", "-o", trace, "--", java, "-Xmx64m", "-cp", box.dir, "Goes",
                                  guest], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            try:
                hw.equal(p.stdout.readline(), b"ready\n", "the program's first line")
                pid = next(c for c in descendants(p.pid) if cmdline(c).find(b"Goes\0") > 0 and b"heapwise" not in cmdline(c).split(b"\0")[0])
                with Stopped(pid, "heapwise stacks") if namer_stopped else contextlib.nullcontext():
                    p.stdin.write(b"\n")
                    p.stdin.flush()
                    said = p.stdout.readline().decode()
            finally:
                p.communicate(b"\n", timeout=hw.CLOCK)
            hw.true("gone 8" in said, said)
            print(f"  {java}: {said.strip()}")
            check_guest(trace)
    return case


def check_guest(trace):
    n, bad = 0, []
    for s in hw.sound(trace).last().samples:
        if "Java_Guest_take" not in s.stack and not (s.alloc and s.alloc % 7000 == 0 and "Guest.inner" in s.stack):
            continue
        n += s.allocs
        java = [f for f in s.stack if f.startswith(("Guest.", "Goes."))]
        if java[-6:] != ["Guest.work"] + ["Guest.inner"] * 4 + ["Guest.take"] or "Goes.main" not in java:
            bad.append(s.stack)
    hw.equal(n, 8 * 25, "allocations in the library")
    hw.true(not bad, f"{len(bad)} stacks are others: {bad[:2]}")


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
CASES = {"jstack-other-user": same_as_jstack(before=NOBODY), "jstack": same_as_jstack(), "jstack-interpreted": same_as_jstack("-Xint"), "library-goes": library_goes(),
         "library-goes-unnamed": library_goes(namer_stopped=True)}

if __name__ == "__main__":
    hw.main(CASES)
