#!/usr/bin/env python3
"""Heap graphs of running JVMs, compared with what the JVM itself writes about the same objects."""
import contextlib
import csv
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.javac import javac, tag

# A heap with every kind of reference: fields of superclasses behind interface constants, arrays,
# statics, weak, soft and phantom ones. It waits; a line on standard input ends it.
SHAPES = r"""
import java.lang.ref.*;
import java.util.*;
public class Shapes {
    interface Constants { Object ONE = new Object(); int NUMBER = 1; Object TWO = new Object(); }
    static class Base implements Constants {
        Object b1 = new long[1]; static Object inBase = new int[3]; int i; Object b2; }
    static class Item extends Base implements Comparable<Item> {
        static Item all; List<String> items = new ArrayList<>(); Object[] attrs = new Object[4]; Item next;
        public int compareTo(Item o) { return 0; } }
    static final List<Object> kept = new ArrayList<>();
    public static void main(String[] a) throws Exception {
        int n = Integer.parseInt(a[0]);
        for (int k = 0; k < n; k++) {
            Item it = new Item();
            it.next = Item.all; Item.all = it; it.b2 = new byte[k % 100];
            it.items.add("s" + k); it.attrs[1] = it; it.attrs[3] = new Object[]{it, it.b2};
        }
        kept.add(new WeakReference<>(Item.all)); kept.add(new SoftReference<>(new char[10]));
        kept.add(new PhantomReference<>(Item.all, new ReferenceQueue<>()));
        kept.add(new Item[][]{{Item.all}, null});
        System.gc();
        System.out.println("ready"); System.out.flush();
        System.in.read();
    }
}
"""

# No JVM, but it looks like one with our library in it. What it answers is its argument.
LIAR = r"""
import array, mmap, os, socket, struct, sys
what = sys.argv[1]
f = open("libjvm.so", "r+b")
m = mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(f"\0heapwise-java-{sys.argv[2]}-{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}")
s.listen()
print("ready", flush=True)
c = s.accept()[0]
HELLO, CLASSES, ATTEMPT, ENDED, DONE = range(1, 6)
def say(kind, fd=None, reason=0, n=0):
    with_it = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd is not None else []
    c.sendmsg([struct.pack("<IIiiIiQQQQQQ", kind, 77, reason, -5, n, 1, *[2**64 - 1] * 6)], with_it)
def file_of(data):
    fd = os.memfd_create("x")
    os.write(fd, data)
    return fd
def pipe_of(data):
    r, w = os.pipe()
    if os.fork() == 0:
        try:
            for _ in range(100000):
                os.write(w, data)
        finally:
            os._exit(0)
    os.close(w)
    return r
c.recv(4096)
try:
    if what == "noise":
        for n in range(200):
            c.send(os.urandom(72))
    elif what == "short":
        c.send(b"x")
    elif what == "done":
        say(DONE)
    elif what == "reasons":
        say(DONE, reason=-2**31)
    elif what == "no-table":
        say(CLASSES, n=9)
    elif what == "table":
        say(CLASSES, fd=file_of(b"\xff" * 100000), n=2**32 - 1)
    elif what == "early":
        say(ATTEMPT, fd=pipe_of(b"\0" * 4096))
    elif what == "walk":
        say(CLASSES, fd=file_of(b"\1\4\0\3LA;\0\0"), n=1)
        say(ATTEMPT, fd=pipe_of(os.urandom(4096)))
        say(ENDED)
        say(DONE)
except OSError:
    pass
"""

# Two threads that allocate and let go as fast as they can.
BUSY = r"""
import java.util.*;
public class Busy {
    static volatile Object[] keep = new Object[300];
    public static void main(String[] a) throws Exception {
        for (int t = 0; t < 2; t++) {
            Thread th = new Thread(() -> { Random r = new Random();
                for (;;) { Map<String, Object> m = new HashMap<>();
                    for (int i = 0; i < 20; i++) m.put("k" + i, new int[r.nextInt(50)]);
                    keep[r.nextInt(keep.length)] = m; } });
            th.setDaemon(true); th.start();
        }
        Thread.sleep(300);
        System.out.println("ready"); System.out.flush();
        System.in.read();
    }
}
"""


def compiled(box, source):
    name = source.split("public class ")[1].split()[0]
    if not (box.dir / f"{name}.class").exists():
        (box.dir / f"{name}.java").write_text(source)
        javac(box, box.dir / f"{name}.java", options=["--release", "11", "-Xlint:-options"])
    return name


def own(box, source):
    """The program under a class name of this box's own: recordings of tests that run beside this one go by names, too."""
    name = source.split("public class ")[1].split()[0]
    return name + tag(box), source.replace(name, name + tag(box))


def children(pid):
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += (thread / "children").read_text().split()
    return found


def footprint(pid):
    proc = pathlib.Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line)
    return {"descriptors": len(list((proc / "fd").iterdir())), "threads": int(status["Threads"]),
            "rss_mb": int(status["VmRSS"].split()[0]) >> 10}


def descendants(pid):
    return [d for c in children(pid) for d in (c, *descendants(c))]


class Jvm:
    def __init__(self, box, source, *args, options=(), java=None, env=None):
        java = java or shutil.which("java")
        name = compiled(box, source)
        self.errors = open(box.path(f"{name}.err"), "wb")
        self.p = subprocess.Popen([java, "-Xmx512m", *options, "-cp", str(box.dir), name, *map(str, args)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, cwd=box.dir,
                                  env={**box.env, **env} if env else None, start_new_session=True)
        self.pid = self.p.pid

    def ready(self):
        line = self.p.stdout.readline()
        hw.equal(line, b"ready\n", "the program's first line")
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            try:
                self.p.stdin.write(b"\n")
                self.p.stdin.flush()
            except OSError:
                pass
        try:
            self.p.wait(20)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
        self.errors.close()

    def children(self):
        return children(self.pid)


def dump(box, jvm, *options, trace="java.trace", check=0, timeout=120):
    return box.run([hw.tool("heapwise"), "java", "dump", *map(str, options), "-f", "-o", box.path(trace), str(jvm.pid)],
                   check=check, timeout=timeout)


def ask(box, file, sql):
    p = box.run([hw.tool("heapwise"), "query", str(file), sql], check=0, timeout=120)
    return [tuple(r) for r in list(csv.reader(io.StringIO(p.stdout.decode())))[1:]]


def attributes(box, file):
    said = ask(box, file, "select name, str_value from metadata where name like 'trace_attribute%'")
    return {n.rsplit(".", 1)[1]: v for n, v in said}


CLASSES = """select c.name, count(*), sum(o.self_size) from heap_graph_object o
    join heap_graph_class c on o.type_id = c.id where o.self_size > 0 group by 1"""
SUPERS = """select c.name, s.name, c.kind from heap_graph_class c join heap_graph_class s on c.superclass_id = s.id"""
REFS = """select oc.name, r.field_name, tc.name, count(*) from heap_graph_reference r
    join heap_graph_object o on r.owner_id = o.id join heap_graph_class oc on o.type_id = oc.id
    join heap_graph_object t on r.owned_id = t.id join heap_graph_class tc on t.type_id = tc.id
    where oc.name not like 'java.lang.Class%' and t.self_size > 0 group by 1, 2, 3"""
STATICS = """select oc.name, r.field_name, tc.name, count(*) from heap_graph_reference r
    join heap_graph_object o on r.owner_id = o.id join heap_graph_class oc on o.type_id = oc.id
    join heap_graph_object t on r.owned_id = t.id join heap_graph_class tc on t.type_id = tc.id
    where oc.name like 'java.lang.Class<Shapes%' and r.field_name like 'Shapes%'
      and r.field_name not like '%<%' group by 1, 2, 3"""
MINE = ("Shapes", "java.util.ArrayList", "long[]", "java.lang.ref.ReferenceQueue")


def mine(rows):
    return sorted(r for r in rows if r[0].startswith(MINE) and not r[0].startswith("java.lang.Class"))


def near(ours, theirs, what, key):
    """Most rows are equal; those that differ do so by the few objects that the JVM's own dump makes."""
    a, b = {r[:key]: r[key:] for r in ours}, {r[:key]: r[key:] for r in theirs}
    same = sum(1 for k in a if a[k] == b.get(k))
    print(f"  {what}: {len(a)} rows of ours, {len(b)} of the JVM's, {same} equal")
    hw.true(same >= 0.85 * min(len(a), len(b)), f"{what}: only {same} rows are equal; "
            + str([(k, a.get(k), b.get(k)) for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)][:20]))


def compare(box, options=(), java=None, jcmd=None, dump_options=(), n=2000):
    with Jvm(box, SHAPES, n, options=options, java=java).ready() as jvm:
        first = dump(box, jvm, *dump_options)
        print("  " + first.stderr.decode().splitlines()[0])
        hprof = box.path("jvm.hprof")
        if os.path.exists(hprof):
            os.unlink(hprof)
        box.run([jcmd or "jcmd", str(jvm.pid), "GC.heap_dump", "-all", hprof], check=0, timeout=120)
        hw.equal(jvm.children(), [], "children of the JVM")
    trace = box.path("java.trace")
    bad = ask(box, trace, "select name, value from stats where value > 0 and severity <> 'info'")
    hw.equal(bad, [], "statistics of the trace")
    ours, theirs = ask(box, trace, CLASSES), ask(box, hprof, CLASSES)
    hw.equal([r[:3] for r in mine(ours)], [r[:3] for r in mine(theirs)], "classes: objects and bytes")
    near([r[:2] for r in ours], [r[:2] for r in theirs], "classes", 1)
    ours, theirs = ask(box, trace, REFS), ask(box, hprof, REFS)
    hw.equal([r for r in mine(ours) if r[0].startswith("Shapes")],
             [r for r in mine(theirs) if r[0].startswith("Shapes")], "references of the program's objects")
    near(ours, theirs, "references", 3)
    hw.equal(sorted(ask(box, trace, STATICS)), sorted(ask(box, hprof, STATICS)), "static fields")
    hw.equal(set(attributes(box, trace)) - {"way", "failed_before"}, set(), "what the graph lacks")
    used = int(ask(box, trace, "select heap_size from heap_graph")[0][0])
    reached = int(ask(box, trace, "select sum(self_size) from heap_graph_object")[0][0])
    hw.true(0.9 * reached < used < 512 << 20, f"bytes that the JVM says are in use: {used}, reached {reached}")
    links = """select count(*) from heap_graph_reference r join heap_graph_object t on r.owned_id = t.id
        join heap_graph_class c on t.type_id = c.id where r.field_name = 'java.lang.Class.superClass'
        and c.name = 'java.lang.Class<java.lang.Object>'"""
    ours, theirs = (int(ask(box, f, links)[0][0]) for f in (trace, hprof))
    hw.true(0.75 * theirs < ours < 1.1 * theirs, f"classes whose superclass is Object: {ours}, {theirs} of the JVM's (with archived ones)")
    supers = [r for r in ask(box, trace, SUPERS) if r[0].startswith("Shapes")]
    hw.true(("Shapes$Item", "Shapes$Base", "KIND_NORMAL") in supers, f"superclasses: {supers}")
    kinds = {r[0]: r[1] for r in ask(box, trace, "select name, kind from heap_graph_class")}
    hw.equal([kinds[c] for c in ("java.lang.ref.WeakReference", "java.lang.ref.SoftReference",
                                 "java.lang.ref.PhantomReference", "java.lang.String", "Shapes$Item[]", "long[]")],
             ["KIND_WEAK_REFERENCE", "KIND_SOFT_REFERENCE", "KIND_PHANTOM_REFERENCE", "KIND_STRING", "KIND_ARRAY",
              "KIND_NOREFERENCES"], "kinds")
    return first


def same_g1(box):
    hw.need("java", "javac", "jcmd")
    compare(box)


def same_serial(box):
    hw.need("java", "javac", "jcmd")
    compare(box, ["-XX:+UseSerialGC"])


def same_parallel(box):
    hw.need("java", "javac", "jcmd")
    compare(box, ["-XX:+UseParallelGC", "-XX:-UseCompressedOops"])


COLLECTORS = ("G1", "Parallel", "Serial", "Shenandoah", "Z")


def javas():
    """Every JDK that is installed here, the usual one first."""
    usual = pathlib.Path(shutil.which("java")).resolve()
    return [usual, *sorted({p.resolve() for p in pathlib.Path("/usr/lib/jvm").glob("*/bin/java")} - {usual})]


def in_a_row(box):
    """A JVM under load is dumped again and again: each graph is whole, no child stays, the program lives and has
    neither more descriptors nor threads nor memory than before. The long form takes 1,000 of one JVM, then 100 of each
    collector of each JDK here."""
    hw.need("java", "javac")
    if not os.environ.get("HW_LONG"):
        return many(box, 4)
    many(box, 1000)
    for java in javas():
        for collector in COLLECTORS:
            options = [f"-XX:+Use{collector}GC"]
            if box.run([java, *options, "-version"]).returncode == 0:
                print(f"  {java} {collector}", flush=True)
                many(box, 100, java, options)


def many(box, want, java=None, options=()):
    n, after_first, ended = 0, None, {}
    # A heap that grows is the JVM's affair: it has all of it from the start.
    options = [*options, "-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch"]
    more = ["--allow-pause"] if "-XX:+UseZGC" in options else []
    with Jvm(box, BUSY, options=options, java=java).ready() as jvm:
        while n < want:
            began = time.monotonic()
            p = dump(box, jvm, "-c", "1ms", "-d", "20s" if want > 10 else "2s", *more, timeout=120)
            hw.equal(jvm.children(), [], "children of the JVM")
            hw.true(jvm.p.poll() is None, "the program has ended")
            trace = box.path("java.trace")
            n += int(ask(box, trace, "select count(distinct graph_sample_ts) from heap_graph_object")[0][0])
            hw.equal(ask(box, trace, "select name, value from stats where value > 0 and severity <> 'info'"), [],
                     "statistics")
            hw.true("failed" not in p.stderr.decode(), hw.tail(p.stderr))
            for line in p.stderr.decode().splitlines():
                if line.startswith("the usual way did not work") and not more:
                    ended[line] = ended.get(line, 0) + 1
            has = footprint(jvm.pid)
            after_first = after_first or has
            if want > 10:
                print(f"  {n} dumps, {time.monotonic() - began:.0f} s, {has}", flush=True)
        hw.true(has["descriptors"] <= after_first["descriptors"], f"descriptors: {after_first}, then {has}")
        hw.true(has["threads"] <= after_first["threads"] + 2, f"threads: {after_first}, then {has}")
        hw.true(has["rss_mb"] <= after_first["rss_mb"] * 1.25 + 32, f"memory: {after_first}, then {has}")
    print(f"  {n} dumps; down the ladder: {ended or 'never'}")


def exits_meanwhile(box):
    """The JVM is killed at any moment of a dump: the command ends with a reason or a whole trace."""
    hw.need("java", "javac")
    rounds = 30 if os.environ.get("HW_LONG") else 5
    for i in range(rounds):
        with Jvm(box, SHAPES, 60000).ready() as jvm:
            out = box.path(f"{i}.trace")
            p = subprocess.Popen([str(hw.tool("heapwise")), "java", "dump", "-o", out, str(jvm.pid)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.03 + 0.06 * i % 0.35)
            if i % 2:
                jvm.p.kill()
            else:
                jvm.p.stdin.write(b"\n")
                jvm.p.stdin.flush()
            _, err = p.communicate(timeout=hw.CLOCK)
            whole = os.path.exists(out)
            hw.equal(p.returncode == 0, whole, f"status and file: {err.decode()}")
            hw.true(whole or b": " in err, f"no reason: {err.decode()}")
            hw.wait_for(lambda: not [c for c in hw.processes(session=jvm.p.pid) if c != jvm.pid],
                        "children of the JVM that stay", 10)


def two_at_once(box):
    hw.need("java", "javac")
    with Jvm(box, SHAPES, 20000).ready() as a, Jvm(box, SHAPES, 30000).ready() as b:
        runs = [subprocess.Popen([str(hw.tool("heapwise")), "java", "dump", "-o", box.path(f"{j.pid}.trace"),
                                  str(j.pid)], stderr=subprocess.PIPE) for j in (a, b)]
        for r in runs:
            _, err = r.communicate(timeout=hw.CLOCK)
            hw.equal(r.returncode, 0, err.decode())
        pids = a.pid, b.pid
    for pid, n in zip(pids, ("20000", "30000")):
        rows = dict(r[:2] for r in ask(box, box.path(f"{pid}.trace"), CLASSES))
        hw.equal(rows["Shapes$Item"], n, "objects")


LOCKED = ["-XX:+DisableAttachMechanism", "-XX:-EnableDynamicAgentLoading"]


class Recorded:
    """A JVM that a recorder has started: its pid, its own output."""
    def __init__(self, box, *options, jvm=(), n=500, trace="record.trace"):
        compiled(box, SHAPES)
        self.errors = open(box.path("recorded.err"), "wb")
        self.p = subprocess.Popen([str(hw.tool("heapwise")), "record", *options, "--no-report", "-f", "-o", box.path(trace),
                                   "--", "java", "-Xmx512m", *jvm, "-cp", str(box.dir), "Shapes", str(n)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, cwd=box.dir)
        hw.equal(self.p.stdout.readline(), b"ready\n", "the program's first line")
        self.pid = next(int(c) for c in descendants(self.p.pid)
                        if pathlib.Path(f"/proc/{c}/comm").read_text() == "java\n")

    children = lambda self: children(self.pid)

    def __enter__(self):
        return self

    def end(self):
        if self.p.poll() is None:
            self.p.stdin.write(b"\n")
            self.p.stdin.close()
            self.p.wait(hw.CLOCK)
        self.errors.close()

    def __exit__(self, *_):
        self.end()


def by_the_client(box):
    """A JVM that we profile already is asked by our own library in it: neither the attach mechanism nor agents need
    be allowed, and the JVM prints nothing."""
    hw.need("java", "javac")
    with Recorded(box, jvm=LOCKED) as jvm:
        for trace in "one.trace", "two.trace":
            dump(box, jvm, trace=trace)
            hw.equal(dict(r[:2] for r in ask(box, box.path(trace), CLASSES))["Shapes$Item"], "500", "objects")
            hw.equal(jvm.children(), [], "children of the JVM")
        jvm.end()
        said = pathlib.Path(box.path("recorded.err")).read_text()
        hw.equal([w for w in ("WARNING", "OpenJDK", "Picked up", "agent") if w in said], [], f"the JVM's words: {said}")
    name, source = own(box, SHAPES)
    compiled(box, source)
    java = box.dir / f"java_{name}"
    java.symlink_to(os.path.realpath(shutil.which("java")))
    (box.dir / "config").write_text("""buffers { size_kb: 65536 } duration_ms: 60000
        data_sources { config { name: "android.heapprofd" heapprofd_config { sampling_interval_bytes: 4096
            process_cmdline: "%s" } } }
        data_sources { config { name: "android.java_hprof" java_hprof_config { process_cmdline: "%s"
            continuous_dump_config { dump_phase_ms: 600 dump_interval_ms: 600 } } } }""" % (java.name, name))
    env = {"PERFETTO_PRODUCER_SOCK_NAME": box.path("p"), "PERFETTO_CONSUMER_SOCK_NAME": box.path("c")}
    box.start([hw.tool("traced")], env=env)
    hw.wait_for(lambda: os.path.exists(box.path("c")), "the service")
    recording = box.start([hw.tool("perfetto"), "-c", box.path("config"), "--txt", "-o", box.path("record.trace")], env=env)

    def graphs():
        with contextlib.suppress(hw.Failure):  # there may be nothing to read yet
            return ask(box, box.path("record.trace"), f"""select graph_sample_ts, sum(c.name = '{name}$Item')
                from heap_graph_object o join heap_graph_class c on o.type_id = c.id group by 1""")
        return []

    with Jvm(box, source, 500, options=LOCKED, java=str(java), env={**env, "LD_PRELOAD": str(hw.preload_library())}).ready():
        hw.wait_for(lambda: len(graphs()) > 2, "three graphs")
        recording.send_signal(signal.SIGINT)
        hw.equal(recording.wait(hw.CLOCK), 0, "the recording")
    rows = graphs()
    rows.sort()  # the first one may be of a JVM that has just begun
    hw.true(len(rows) > 1 and {r[1] for r in rows[1:]} == {"500"}, f"graphs beside the native profile: {rows}")
    hw.true(int(ask(box, box.path("record.trace"), "select count(*) from heap_profile_allocation")[0][0]) > 50, "samples")


def in_a_container(box):
    """Another mount and pid namespace, a /tmp of its own, our library hidden from it, another user: by the attach
    protocol, and nothing is left in that /tmp."""
    hw.need("java", "javac", "unshare", "setpriv")
    if os.geteuid() != 0:
        raise hw.Skip("namespaces need root")
    compiled(box, SHAPES)
    box.dir.chmod(0o755)
    hidden = pathlib.Path(hw.tool("heapwise")).resolve().parents[1]
    inside = f"""mount -t tmpfs tmp /tmp && mkdir {box.dir} && mount --bind /mnt {box.dir} && umount /mnt &&
        mount -t tmpfs none {hidden} && cd / &&
        exec setpriv --reuid 65534 --regid 65534 --clear-groups java -Xmx128m -cp {box.dir} Shapes 300"""
    p = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c",
                          f"mount --bind {box.dir} /mnt && {inside}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        hw.equal(p.stdout.readline(), b"ready\n", "the program's first line")
        pid = next(int(c) for c in descendants(p.pid) if pathlib.Path(f"/proc/{c}/comm").read_text() == "java\n")
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        hw.true("\nUid:\t65534" in status and f"\nNSpid:\t{pid}\t" in status, status)
        hw.equal(os.listdir(f"/proc/{pid}/root{hidden}"), [], "what the JVM sees of us")
        for _ in range(2):
            box.run([hw.tool("heapwise"), "java", "dump", "-f", "-o", box.path("java.trace"), str(pid)], check=0)
            hw.equal(dict(r[:2] for r in ask(box, box.path("java.trace"), CLASSES))["Shapes$Item"], "300", "objects")
        left = [f for f in os.listdir(f"/proc/{pid}/root/tmp") if f.startswith((".heapwise", ".attach"))]
        hw.equal(left, [], "files left in its /tmp")
        hw.equal(children(pid), [], "children of the JVM")
        # A user who is neither root nor the JVM's is told so, and the JVM is not touched.
        r = box.run(["setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", hw.tool("heapwise"), "java", "dump",
                     "-o", "/dev/null", str(pid)])
        hw.equal(r.returncode, 77, r.stderr.decode())
        hw.true(" attach_denied_uid: " in r.stderr.decode(), r.stderr.decode())
    finally:
        p.stdin.close()
        p.wait(hw.CLOCK)


def lies(box):
    """Whatever a process answers that claims to be a JVM with our library in it: a reason, soon, and no file."""
    (box.dir / "libjvm.so").write_bytes(b"\0" * 4096)
    (box.dir / "liar.py").write_text(LIAR)
    header = (pathlib.Path(__file__).resolve().parents[3] / "src/java/protocol.h").read_text()
    version = header.split("#define HW_JAVA_PROTOCOL ")[1].split("u")[0]
    for what in "noise", "short", "done", "reasons", "no-table", "table", "early", "walk", "close":
        liar = box.start([sys.executable, "-B", box.path("liar.py"), what, version])
        hw.equal(liar.stdout.readline(), b"ready\n", what)
        r = box.run([hw.tool("heapwise"), "java", "dump", "-o", box.path("lie.trace"), str(liar.pid)], timeout=hw.CLOCK)
        hw.true(r.returncode in (1, 77) and b"heapwise" in r.stderr, f"{what}: {r.returncode} {r.stderr.decode()}")
        hw.true(not os.path.exists(box.path("lie.trace")), f"{what}: a file was left")
        print(f"  {what}: {r.stderr.decode().splitlines()[0][:110]}")
        liar.kill()
        liar.wait()


def no_signal(box):
    """-Xrs: no signal is handled; the JVM listens from its start instead, and none is sent."""
    hw.need("java", "javac")
    with Jvm(box, SHAPES, 10, options=["-Xrs"]).ready() as jvm:
        dump(box, jvm)
        hw.true(jvm.p.poll() is None, "the JVM has ended")


def down_the_ladder(box):
    """A child that stands still is ended, twice tried again, then objects are told apart by tags."""
    hw.need("java", "javac", "jcmd")
    p = compare(box, dump_options=["--stall-modes", "1"], n=300)
    values = attributes(box, box.path("java.trace"))
    hw.equal(values["way"], "fork, objects by tag", "the way")
    hw.equal(values["failed_before"], "; ".join(["fork, objects by address: child_stalled"] * 3), "steps")
    hw.true(b"child_stalled" in p.stderr, p.stderr.decode())


def no_fork(box):
    """ZGC: refused with the reason; with consent the walk is made inside the JVM."""
    hw.need("java", "javac", "jcmd")
    options = ["-XX:+UseZGC"]
    if box.run(["java", *options, "-version"]).returncode:
        raise hw.Skip("this JVM has no ZGC")
    with Jvm(box, SHAPES, 10, options=options).ready() as jvm:
        p = dump(box, jvm, check=77)
        hw.true(" fork_unsafe_gc:ZGC: " in p.stderr.decode(), p.stderr.decode())
    compare(box, options, dump_options=["--allow-pause"], n=300)


def same_shenandoah(box):
    hw.need("java", "javac", "jcmd")
    options = ["-XX:+UseShenandoahGC"]
    if box.run(["java", *options, "-version"]).returncode:
        raise hw.Skip("this JVM has no Shenandoah")
    compare(box, options)


def classic(box):
    """java_heap_dump: by name, with a recorder of its own; its configuration is what it always was."""
    hw.need("java", "javac")
    env = {"PERFETTO_PRODUCER_SOCK_NAME": box.path("p"), "PERFETTO_CONSUMER_SOCK_NAME": box.path("c")}
    p = box.run([hw.tool("java_heap_dump"), "-n", "a,b", "-c", "5000", "--print-config"], check=0)
    hw.equal(" ".join(p.stdout.decode().split()),
             'buffers { size_kb: 262144 fill_policy: DISCARD } data_sources { config { name: "android.java_hprof" '
             'java_hprof_config { process_cmdline: "a" process_cmdline: "b" continuous_dump_config '
             '{ dump_interval_ms: 5000 } } } } data_source_stop_timeout_ms: 100000', "configuration")
    with Jvm(box, SHAPES, 700).ready() as jvm:
        box.run([hw.tool("java_heap_dump"), "-p", str(jvm.pid), "--stop-when-done", "-o", box.path("java.trace")],
                env=env, check=0)
    hw.equal(dict(r[:2] for r in ask(box, box.path("java.trace"), CLASSES))["Shapes$Item"], "700", "objects")
    box.run([hw.tool("java_heap_dump"), "-n", "nobody", "-o", box.path("none.trace")], env=env, check=5)


def by_configuration(box):
    """The service's data source: names of main classes, dumps at an interval, smaps, ignored types."""
    hw.need("java", "javac")
    env = {"PERFETTO_PRODUCER_SOCK_NAME": box.path("p"), "PERFETTO_CONSUMER_SOCK_NAME": box.path("c")}
    box.start([hw.tool("traced")], env=env)
    hw.wait_for(lambda: os.path.exists(box.path("c")), "the service")
    own_name, source = own(box, SHAPES)
    config = """buffers { size_kb: 65536 } duration_ms: 2500
        data_sources { config { name: "android.java_hprof" java_hprof_config { process_cmdline: "%s" dump_smaps: true
            ignored_types: "%s$Item[]" continuous_dump_config { dump_interval_ms: 700 } } } }"""
    with Jvm(box, source, 500).ready() as jvm:
        for name in own_name, "Circles":
            (box.dir / "config").write_text(config % (name, own_name))
            p = box.run([hw.tool("perfetto"), "-c", box.path("config"), "--txt", "-o", box.path(f"{name}.trace")],
                        env=env, check=0)
            hw.equal(b"no JVM" in p.stderr, name == "Circles", p.stderr.decode())
        hw.equal(jvm.children(), [], "children of the JVM")
        for limit in "min_java_heap_size_kb", "min_anonymous_memory_kb":
            for n_kb, dumped in ((500, True), (4000000, False)):
                (box.dir / "config").write_text(f"""buffers {{ size_kb: 65536 }} duration_ms: 500 data_sources {{ config {{
                    name: "android.java_hprof" java_hprof_config {{ pid: {jvm.pid} {limit}: {n_kb} }} }} }}""")
                p = box.run([hw.tool("perfetto"), "-c", box.path("config"), "--txt", "-o", box.path("limit.trace")],
                            env=env, check=0)
                hw.equal(ask(box, box.path("limit.trace"), "select count(*) from heap_graph")[0][0], str(int(dumped)),
                         f"dumps with {limit}: {n_kb}: {p.stderr.decode()}")
                hw.equal(limit.encode() in p.stderr, not dumped, p.stderr.decode())
    rows = ask(box, box.path(f"{own_name}.trace"), f"""select graph_sample_ts, sum(c.name = '{own_name}$Item'), sum(c.name =
        '{own_name}$Item[]') from heap_graph_object o join heap_graph_class c on o.type_id = c.id group by 1""")
    hw.true(len(rows) >= 2, f"one dump at the start and others: {rows}")
    hw.equal({r[1:] for r in rows}, {("500", "0")}, "objects of each dump, ignored ones left out")
    hw.true(int(ask(box, box.path(f"{own_name}.trace"), "select count(*) from profiler_smaps")[0][0]) > 50, "mappings")


def refused(box):
    """Each JVM that cannot be dumped says why, and lives on."""
    hw.need("java", "javac")
    for options, code in ((["-XX:+DisableAttachMechanism"], "attach_disabled"),
                          (["-XX:-EnableDynamicAgentLoading"], "agent_loading_disabled")):
        with Jvm(box, SHAPES, 10, options=options).ready() as jvm:
            p = dump(box, jvm, check=77)
            hw.true(f" {code}: " in p.stderr.decode(), f"{options}: {p.stderr.decode()}")
            hw.true(not os.path.exists(box.path("java.trace")), "a file was left")
            if code == "agent_loading_disabled":
                dump(box, jvm, "--hprof", box.path("own.hprof"))
                rows = dict(r[:2] for r in ask(box, box.path("own.hprof"), CLASSES))
                hw.equal(rows["Shapes$Item"], "10", "objects of the JVM's own dump")
                p = dump(box, jvm, "--allow-pause", "--ignore-type", "java.util.ArrayList")
                trace = box.path("java.trace")
                hw.equal(attributes(box, trace), {"way": "the JVM's own heap dump",
                                                  "failed_before": "library: agent_loading_disabled"}, "the way")
                said = [sorted(r for r in ask(box, f, CLASSES) if r[0].startswith("Shapes"))
                        for f in (trace, box.path("own.hprof"))]
                hw.equal(said[0], said[1], "objects and bytes")
                said = [sorted(r for r in ask(box, f, REFS) if r[0].startswith("Shapes") and "ArrayList" not in r[2])
                        for f in (trace, box.path("own.hprof"))]
                hw.true(said[0], "references")
                hw.equal(said[0], said[1], "references of the program's objects")
                hw.true("java.util.ArrayList" not in dict(r[:2] for r in ask(box, trace, CLASSES)), "ignored")
                hw.equal([f for f in os.listdir("/tmp") if f.startswith(".heapwise-") and f.endswith(".hprof")], [], "files left in /tmp")
            hw.true(jvm.p.poll() is None, f"{options}: the JVM has ended")
    p = subprocess.Popen(["sleep", "60"])
    try:
        r = box.run([hw.tool("heapwise"), "java", "dump", str(p.pid)], check=77)
        hw.true(" not_a_jvm: " in r.stderr.decode(), r.stderr.decode())
        hw.true(p.poll() is None, "a program that is no JVM was killed")
    finally:
        p.kill()
        p.wait()
    if os.geteuid() == 0:  # in a container its first process may be hidden even so
        try:
            code = " not_a_jvm: " if open("/proc/1/maps").read() else " maps_denied: "
        except PermissionError:
            code = " maps_denied: "
        r = box.run([hw.tool("heapwise"), "java", "dump", "1"], check=77)
        hw.true(code in r.stderr.decode(), r.stderr.decode())


def sign_of_life(box):
    """A dump that takes long says so on a terminal: here copies that stand still, each until it is ended."""
    hw.need("java", "javac")
    with Jvm(box, SHAPES, 300).ready() as jvm:
        ours, theirs = os.openpty()
        p = subprocess.Popen([hw.tool("heapwise"), "java", "dump", "--stall-modes", "3", "--allow-pause", "-f", "-o",
                              box.path("java.trace"), str(jvm.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=theirs, env=box.env)
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while more := os.read(ours, 4096):
                said += more
        os.close(ours)
        hw.equal(p.wait(), 0, f"the dump's status: {said}")
        hw.true(f"walking the heap of {jvm.pid}: 1 s".encode() in said, f"a sign of life: {said}")


def other_clock(box):
    """The JVM is in a time namespace of its own, ahead by a day: the graph is of our time, and names come as ever."""
    hw.need("java", "javac", "unshare")
    wrapper = ["unshare", "-T", "--boottime", "86400", "--monotonic", "86400", "-f"]
    if box.run([*wrapper, "true"], check=None).returncode != 0:
        raise hw.Skip("no time namespaces here")
    name = compiled(box, SHAPES)
    p = box.start([*wrapper, "java", "-Xmx512m", "-cp", str(box.dir), name, "300"], stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "the program's first line")
    began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    box.run([hw.tool("heapwise"), "java", "dump", "-f", "-o", box.path("java.trace"), str(children(p.pid)[0])], check=0, timeout=hw.CLOCK)
    ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    times = ask(box, box.path("java.trace"), "select distinct graph_sample_ts from heap_graph_object")
    hw.equal([began <= int(t) <= ended for t, in times], [True], f"{times}, from {began} to {ended}")
    p.stdin.write(b"\n")
    p.stdin.close()
    p.wait(hw.CLOCK)


if __name__ == "__main__":
    hw.main({"same-g1": same_g1, "same-serial": same_serial, "same-parallel": same_parallel, "in-a-row": in_a_row,
             "exits-meanwhile": exits_meanwhile, "two-at-once": two_at_once, "by-the-client": by_the_client, "lies": lies, "in-a-container": in_a_container, "refused": refused, "no-signal": no_signal,
             "by-configuration": by_configuration,
             "down-the-ladder": down_the_ladder, "no-fork": no_fork, "same-shenandoah": same_shenandoah,
             "classic": classic, "sign-of-life": sign_of_life, "other-clock": other_clock})
