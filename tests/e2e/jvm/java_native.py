#!/usr/bin/env python3
"""Memory outside of a JVM's heap: which objects own how much of it, and which native callstacks allocated it."""
import collections
import contextlib
import json
import os
import sys
import zlib

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from java import Jvm, ask, dump
from lib import hw
from lib.proto import fields, ints, message, one, text

# Direct buffers of known sizes and views of them, streams of zlib in different states, a mapped file, and
# the same again as garbage. It prints what the JVM itself counts.
OWNERS = r"""
import java.lang.management.*;
import java.nio.*;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.*;
import java.util.zip.*;
public class Owners {
    static final List<Object> kept = new ArrayList<>();
    static void make(List<Object> to) throws Exception {
        for (int i = 1; i <= 50; i++) to.add(ByteBuffer.allocateDirect(10000 * i));
        for (int i = 0; i < 50; i++) to.add(((ByteBuffer) to.get(i)).slice());
        byte[] packed = new byte[1000];
        int n = 0;
        for (int i = 0; i < 7; i++) {
            Deflater d = new Deflater(); d.setInput(new byte[100000]); d.finish(); n = d.deflate(packed); to.add(d); }
        Deflater closed = new Deflater(); closed.end(); to.add(closed);
        for (int i = 0; i < 5; i++) {
            Inflater f = new Inflater(); f.setInput(packed, 0, n); if (i > 1) f.inflate(new byte[100]); if (i > 3) f.reset();
            to.add(f); }
    }
    public static void main(String[] a) throws Exception {
        make(new ArrayList<>());
        make(kept);
        Path p = Paths.get("mapped");
        Files.write(p, new byte[123456]);
        try (FileChannel c = FileChannel.open(p)) { kept.add(c.map(FileChannel.MapMode.READ_ONLY, 0, 123456)); }
        for (int i = 0; i < 100; i++) {
            long used = 0;
            for (BufferPoolMXBean b : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class))
                if (b.getName().equals("direct")) used = b.getMemoryUsed();
            if (used < 13000000) break;
            System.gc(); Thread.sleep(50); // until the garbage is gone
        }
        System.out.println("ready");
        for (BufferPoolMXBean b : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class))
            System.out.println(b.getName().split(" ")[0] + " " + b.getCount() + " " + b.getMemoryUsed());
        System.out.println("end");
        System.out.flush();
        System.in.read();
    }
}
"""


def beans(jvm):
    """-> {pool: (count, bytes)} as the JVM counts."""
    found = {}
    while (line := jvm.p.stdout.readline().decode().split()) and line[0] != "end":
        found.setdefault(line[0], (line[-2], line[-1]))
    return found


# One buffer of before the recording; then, on a line of input, others and streams, by methods of their own.
LATER = r"""
import java.nio.*;
import java.util.*;
import java.util.zip.*;
public class Later {
    static final List<Object> kept = new ArrayList<>();
    static void buffers() { for (int i = 1; i <= 50; i++) kept.add(ByteBuffer.allocateDirect(10000 * i)); }
    static void streams() throws Exception {
        for (int i = 0; i < 7; i++) {
            Deflater d = new Deflater(); d.setInput(new byte[1000]); d.finish(); d.deflate(new byte[1000]); kept.add(d); }
    }
    public static void main(String[] a) throws Exception {
        kept.add(ByteBuffer.allocateDirect(777));
        System.out.println("ready"); System.out.flush();
        System.in.read();
        buffers();
        streams();
        System.out.println("done"); System.out.flush();
        System.in.read();
    }
}
"""

BLOCKS = """select c.name, b.kind, count(*), sum(b.size) from heap_graph_native_block b join heap_graph_object o
    on o.id = b.object_id join heap_graph_class c on c.id = o.type_id group by 1, 2"""
NATIVE = """select c.name, count(*), sum(o.native_size) from heap_graph_object o join heap_graph_class c
    on c.id = o.type_id where o.native_size > 0 group by 1"""
DEFLATER, INFLATER, WINDOW = (1 << 18) + 6144, 7168, 1 << 15


def packets(path):
    """The trace's packets, those in compressed ones, too."""
    for no, v in fields(path.read_bytes()):
        packed = message(v)[50]
        if packed:
            yield from (p for _, p in fields(zlib.decompress(packed[0])))
        else:
            yield v


def public_sizes(path):
    """Native bytes by class, as readers of the published format find them: by the chain of Android's runtime."""
    names, types, objects, sizes, last = {}, {}, {}, {}, 0
    for p in packets(path):
        for graph in message(p)[56]:
            for no, v in fields(graph):
                m = message(v) if isinstance(v, bytes) else None
                if no == 4:
                    names[one(m, 1)] = text(m, 2)
                elif no == 9:
                    types[one(m, 1)] = text(m, 3)
                elif no == 2:
                    last = one(m, 1) or last + one(m, 7)
                    base = one(m, 6) or 0
                    refs = [r + base if r else 0 for r in ints(m[5])]
                    objects[last] = one(m, 2), dict(zip(ints(m[4]), refs)) if m[4] else {}
                    if m[8]:
                        sizes[last] = m[8][0] & ~1
    number = {n.split(" ")[1]: i for i, n in names.items() if " " in n}
    found = collections.Counter()
    for kind, refs in objects.values():
        if types[kind] != "sun.misc.Cleaner":
            continue
        thunk = objects[refs[number["sun.misc.Cleaner.thunk"]]][1]
        registry = thunk[number["libcore.util.NativeAllocationRegistry$CleanerThunk.this$0"]]
        owner = refs[number["java.lang.ref.Reference.referent"]]
        found[types[objects[owner][0]]] += sizes[registry]
    return found


def owners(box, options=(), dump_options=(), java=None):
    """Buffers equal the JVM's own count; streams have what zlib takes for them; the closed one has nothing."""
    hw.need("java", "javac")
    with Jvm(box, OWNERS, options=options, java=java).ready() as jvm:
        pools = beans(jvm)
        p = dump(box, jvm, *dump_options)
        hw.equal(jvm.children(), [], "children of the JVM")
    hw.true(b"outside of the heap" in p.stderr, p.stderr.decode())
    trace = box.path("java.trace")
    hw.equal(ask(box, trace, "select name, value from stats where value > 0 and severity <> 'info'"), [], "statistics")
    blocks = {r[:2]: r[2:] for r in ask(box, trace, BLOCKS)}
    hw.equal(blocks["java.nio.DirectByteBuffer", "buffer"], pools["direct"], "direct buffers, against the JVM's bean")
    hw.equal(blocks["java.nio.DirectByteBufferR", "mapped"], pools["mapped"], "mapped files, against the JVM's bean")
    hw.equal(blocks["java.util.zip.Deflater", "deflater"], ("7", str(7 * DEFLATER)), "deflaters")
    hw.equal(blocks["java.util.zip.Inflater", "inflater"], ("5", str(5 * INFLATER + 3 * WINDOW)), "inflaters")
    native = {r[0]: r[1:] for r in ask(box, trace, NATIVE)}
    hw.equal(native, {k[0]: v for k, v in blocks.items() if k[1] != "mapped"}, "native_size")
    hw.equal(ask(box, trace, "select name from heap_graph_class where name like 'libcore.%'"), [], "what is made up")
    hw.equal({k: str(v) for k, v in public_sizes(box.dir / "java.trace").items()},
             {k: v[1] for k, v in native.items()}, "what other readers find")


def by_tags(box):
    """A walk that knows no addresses is told the numbers by the JVM."""
    hw.need("java", "javac")
    options = ["-XX:+UseZGC"]
    if box.run(["java", *options, "-version"]).returncode:
        raise hw.Skip("this JVM has no ZGC")
    owners(box, options, ["--allow-pause"])


def near(got, want, share, what):
    hw.true(abs(got - want) <= share * want, f"{what}: {got}, not {want}")


SESSION = """buffers { size_kb: 65536 } duration_ms: 60000
    data_sources { config { name: "android.heapprofd" heapprofd_config { sampling_interval_bytes: %d pid: %d } } }
    data_sources { config { name: "android.java_hprof" java_hprof_config { pid: %d } } }"""


def join(box, interval, options=()):
    """-> rows of graph --native after a recording of both kinds; the first graph came before there was anything."""
    hw.need("java", "javac")
    env = {"PERFETTO_PRODUCER_SOCK_NAME": box.path("p"), "PERFETTO_CONSUMER_SOCK_NAME": box.path("c")}
    service = box.start([hw.tool("traced")], env=env)
    hw.wait_for(lambda: os.path.exists(box.path("c")), "the service")
    trace = box.path("joined.trace")

    def graphs():
        with contextlib.suppress(hw.Failure):  # there may be nothing to read yet
            return len(ask(box, trace, "select distinct graph_sample_ts from heap_graph_object"))
        return 0
    with Jvm(box, LATER, options=options).ready() as jvm:
        (box.dir / "config").write_text(SESSION % (interval, jvm.pid, jvm.pid))
        p = box.start([hw.tool("perfetto"), "-c", box.path("config"), "--txt", "-o", trace], env=env)
        maps = lambda: (f"/proc/{jvm.pid}/maps", open(f"/proc/{jvm.pid}/maps").read())[1]
        hw.wait_for(lambda: "heapprofd_glibc" in maps() and "libheapwise_java" in maps(), "both libraries")
        hw.wait_for(lambda: hw.called(jvm.pid) and graphs() == 1, "the recorder to call it, and the first graph")
        jvm.p.stdin.write(b"\n")
        jvm.p.stdin.flush()
        hw.equal(jvm.p.stdout.readline(), b"done\n", "the program's second line")
        hw.idles(service.pid, 0.2)  # the ring is emptied
        service.send_signal(10)  # SIGUSR1: dumps now
        hw.wait_for(lambda: graphs() == 2, "the second graph")
        p.send_signal(2)
        hw.equal(p.wait(hw.CLOCK), 0, "the recorder's status")
        hw.true(jvm.p.poll() is None, "the JVM has ended")
    hw.equal(ask(box, trace, "select name, value from stats where value > 0 and severity <> 'info'"), [], "statistics")
    out = box.run([hw.tool("heapwise"), "graph", "--native", "--json", trace], check=0).stdout
    page = json.loads(out)
    hw.true(page["linked"], "the graph is not linked")
    return page, {(r["class"], r["kind"]): r for r in page["rows"]}


def joined(box):
    """Every block that was allocated during the recording has its callstack; with NativeMemoryTracking, too."""
    page, rows = join(box, 1, ["-XX:NativeMemoryTracking=summary"])
    buffers, streams = rows["java.nio.DirectByteBuffer", "buffer"], rows["java.util.zip.Deflater", "deflater"]
    size = sum(10000 * i for i in range(1, 51))
    hw.equal([buffers[k] for k in ("blocks", "bytes", "linked_blocks", "linked_bytes")], [51, size + 777, 50, size],
             "buffers, all but the one of before")
    hw.true(size <= buffers["sampled_bytes"] <= size + 50 * 32, f"sampled: {buffers['sampled_bytes']}")
    hw.equal([page["blocks_without_sample"], page["bytes_without_sample"]], [1, 777], "what has no sample")
    hw.true(any("Unsafe_AllocateMemory" in f for f in buffers["stacks"][0]["frames"]), "the buffers' callstack")
    hw.equal([streams["blocks"], streams["linked_blocks"]], [7, 7], "streams")
    hw.equal(sum(s["samples"] for s in streams["stacks"]), 7 * 5, "allocations of streams: state, window, two tables, output")
    near(streams["sampled_bytes"], streams["bytes"], 0.01, "what zlib took, against what it is taken for")
    hw.true(all({"Java_java_util_zip_Deflater_init", "java.util.zip.Deflater.init"} & set(s["frames"])
                for s in streams["stacks"]),
            f"the streams' callstacks: {streams['stacks']}")


def joined_sampled(box):
    """At an interval of 64 KiB: bytes of samples are scaled, so they stand for all."""
    _, rows = join(box, 65536)
    buffers = rows["java.nio.DirectByteBuffer", "buffer"]
    hw.true(44 <= buffers["linked_blocks"] <= 50, f"linked: {buffers['linked_blocks']}")
    near(buffers["sampled_bytes"], buffers["bytes"], 0.05, "bytes of samples")


if __name__ == "__main__":
    hw.main({"owners": owners, "by-tags": by_tags, "joined": joined, "joined-sampled": joined_sampled})
