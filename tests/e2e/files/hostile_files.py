#!/usr/bin/env python3
"""Files that somebody made to harm who reads them: each costs little time and memory and a clear word."""
import contextlib
import ctypes.util
import io
import json
import lzma
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zlib

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import elf_put as elf, hw, proto_put as pb

ZEROS = bytes(1 << 20)
HPROF = b"JAVA PROFILE 1.0.2\0" + (8).to_bytes(4, "big") + bytes(8)


class Cost:
    """What one command took: processor time of its own and of its helpers, resident memory at its peak."""

    def __init__(self, box, argv, stdin=None, env=None, seconds=60):
        out, err = open(box.path("cost.out"), "wb"), open(box.path("cost.err"), "wb")
        start = time.monotonic()
        p = subprocess.Popen([str(a) for a in argv], stdin=stdin or subprocess.DEVNULL, stdout=out, stderr=err,
                             cwd=box.dir, env={**box.env, **(env or {})}, start_new_session=True)
        box.children.append(p)
        pid = 0
        while not pid and time.monotonic() - start < seconds:
            pid, status, used = os.wait4(p.pid, os.WNOHANG)
            time.sleep(0.01)
        hw.true(pid, f"still running after {seconds} s: {argv}")
        p.returncode = self.status = os.waitstatus_to_exitcode(status)
        self.wall = time.monotonic() - start
        self.cpu = used.ru_utime + used.ru_stime
        self.mib = used.ru_maxrss >> 10
        out.close(), err.close()
        self.out, self.err = (open(box.path(f), errors="replace").read() for f in ("cost.out", "cost.err"))

    def below(self, cpu, mib, what):
        if os.environ.get("HW_KEEP"):
            print(f"  {what}: {self.cpu:.1f} s of processor time, {self.wall:.1f} s, {self.mib} MiB")
        hw.true(self.status >= 0, f"{what}: died by signal {-self.status}\n{hw.tail(self.err)}")
        hw.true(self.cpu < cpu, f"{what}: {self.cpu:.1f} s of processor time, allowed {cpu}")
        hw.true(self.mib < mib, f"{what}: {self.mib} MiB, allowed {mib}")
        return self

    def says(self, text, what):
        hw.true(text in self.err + self.out, f"{what}: no '{text}' in: {hw.tail(self.err)} {hw.tail(self.out)}")
        return self


def deflated(path, head, n_mib, filler=ZEROS):
    """A file of gzip: head, and so many MiB of the filler, which is packed once: its block is the same behind each other one."""
    c = zlib.compressobj(9, zlib.DEFLATED, -15)
    begin = c.compress(head) + c.flush(zlib.Z_FULL_FLUSH)
    block = c.compress(filler) + c.flush(zlib.Z_FULL_FLUSH)
    crc = zlib.crc32(head)
    for _ in range(n_mib):
        crc = zlib.crc32(filler, crc)
    with open(path, "wb") as f:
        f.write(bytes((31, 139, 8, 0, 0, 0, 0, 0, 2, 255)) + begin + block * n_mib + c.flush())
        f.write(struct.pack("<II", crc, (len(head) + n_mib * len(filler)) & 0xffffffff))
    return path


def report(box, file, **kw):
    return Cost(box, [hw.tool("heapwise"), "report", file], **kw)


def packed(box):
    """A gigabyte of nothing in a megabyte: gzip, twice gzip, zstd, as a file and through a pipe."""
    nothing = deflated(box.path("nothing.gz"), b"", 1024)
    report(box, nothing).below(2, 100, "gzip").says("no known format", "gzip")
    with open(nothing, "rb") as f:
        report(box, "-", stdin=f).below(2, 100, "gzip, standard input")
    cat = subprocess.Popen(["cat", nothing], stdout=subprocess.PIPE)
    report(box, "-", stdin=cat.stdout).below(2, 100, "gzip, pipe").says("no known format", "pipe")
    cat.stdout.close(), cat.wait()
    with open(nothing, "rb") as f:
        deflated(box.path("twice.gz"), f.read(), 0)
    report(box, box.path("twice.gz")).below(2, 100, "twice").says("packed twice", "twice")
    begun = deflated(box.path("begun.gz"), HPROF, 1024)
    said = report(box, begun).below(10, 700, "heap dump").says("more than 256 MiB", "heap dump")
    said.says("HEAPWISE_UNPACK_MB=512", "heap dump")
    report(box, begun, env={"HEAPWISE_UNPACK_MB": "20"}).below(3, 100, "a limit given").says("20 MiB", "a limit given")
    report(box, begun, env={"HEAPWISE_MEMORY_MB": "100"}).below(3, 200, "little memory").says("50 MiB", "memory")
    blanks = deflated(box.path("blanks.json.gz"), b'{"traceEvents":[', 400, b" " * (1 << 20))
    report(box, blanks).below(20, 100, "JSON of blanks").says("256 MiB", "JSON of blanks")


def packed_zstd(box):
    hw.need("zstd")
    p = subprocess.run(f"(printf 'JAVA PROFILE 1.0.2\\0\\0\\0\\0\\10'; head -c 1000000000 /dev/zero) | zstd -q > {box.path('z.zst')}",
                       shell=True)
    hw.equal(p.returncode, 0, "zstd")
    report(box, box.path("z.zst")).below(10, 700, "zstd").says("more than 256 MiB", "zstd")


def no_end(box):
    """A pipe that never ends, of no known format."""
    yes = subprocess.Popen(["yes", "\1\2\3"], stdout=subprocess.PIPE)
    report(box, "-", stdin=yes.stdout, seconds=20).below(2, 100, "endless pipe").says("no known format", "pipe")
    yes.stdout.close(), yes.wait()


def packed_packets(box):
    """Compressed packets of a trace, each of them a bomb; what stands between them is read."""
    inner = zlib.compress(pb.packet() * (40 << 20), 9)
    with open(box.path("bombs.trace"), "wb") as f:
        for _ in range(10):
            f.write(pb.packet(pb.data(50, inner)))
        f.write(pb.packet(pb.data(50, zlib.compress(ZEROS))))
    stats = Cost(box, [hw.tool("heapwise"), "stats", "--json", box.path("bombs.trace")],
                 env={"HEAPWISE_UNPACK_MB": "96"})
    stats.below(30, 250, "compressed packets").says("trace_compressed_packets_cut", "compressed packets")


def packed_nothing(box):
    """A hundred million empty packets in less than a megabyte: they cost time, not room."""
    inner = zlib.compress(pb.packet() * (25 << 20), 9)
    with open(box.path("nothing.trace"), "wb") as f:
        f.write(pb.packet(pb.data(50, zlib.compress(pb.packet(pb.number(10, 1), pb.number(8, 1)) * (1 << 20), 9))))
        for _ in range(6):
            f.write(pb.packet(pb.data(50, inner)))
    said = Cost(box, [hw.tool("heapwise"), "stats", box.path("nothing.trace")]).below(3, 250, "empty packets")
    said.says("trace_compressed_packets_cut", "empty packets")


def packed_members(box):
    """An archive's members."""
    with tarfile.open(box.path("b.tar"), "w", format=tarfile.USTAR_FORMAT) as t:
        for name in ("trace.perfetto.gz", "symbols.pb"):
            with open(deflated(box.path("m"), pb.packet(pb.number(10, 1)), 700), "rb") as f:
                data = f.read()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            t.addfile(member, io.BytesIO(data))
    report(box, box.path("b.tar")).below(10, 700, "archive").says("256 MiB", "archive")


class Server:
    """A server of debug info that means harm: one behaviour for every request."""

    def __init__(self, behave):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.behave, self.n_asked, self.asked = behave, 0, threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        with contextlib.suppress(OSError), s:
            s.recv(65536)
            self.n_asked += 1
            self.asked.set()
            self.behave(s, self.url)


def endless(s, _url):
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n")
    while True:
        s.sendall(bytes(1 << 16))


def trickle(s, _url):
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        s.sendall(b"x")
        time.sleep(1)


def redirect(s, url):
    s.sendall(f"HTTP/1.1 302 Found\r\nLocation: {url}/again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())


def silent(s, _url):
    while s.recv(65536):
        pass


def record_gone(box):
    """t.trace: of a program that is not on this machine any more."""
    shutil.copy(hw.target("steps"), box.path("gone"))
    hw.record(box, [box.path("gone")], "--no-symbolize", trace="t.trace")
    os.unlink(box.path("gone"))


def servers(box):
    """Servers of debug info that never come to an end: our limits hold, and the report comes without them."""
    if not ctypes.util.find_library("debuginfod"):
        raise hw.Skip("no libdebuginfod")
    record_gone(box)
    for behave, env, word in ((endless, {"DEBUGINFOD_MAXSIZE": "3000000"}, "DEBUGINFOD_MAXSIZE"),
                              (trickle, {"DEBUGINFOD_TIMEOUT": "2"}, "going on without"),
                              (silent, {"DEBUGINFOD_TIMEOUT": "2"}, "going on without"),
                              (redirect, {"DEBUGINFOD_MAXTIME": "3"}, "going on without")):
        server = Server(behave)
        c = Cost(box, [hw.tool("heapwise"), "report", "--symbols", "nowhere", "t.trace"], seconds=40,
                 env={**env, "DEBUGINFOD_URLS": server.url, "DEBUGINFOD_CACHE_PATH": box.path(behave.__name__)})
        c.below(10, 200, behave.__name__).says(word, behave.__name__).says("main", behave.__name__)
        hw.equal(c.status, 0, behave.__name__)
        if behave is not redirect:
            hw.true(server.n_asked <= 3, f"{behave.__name__}: asked {server.n_asked} times")


def server_interrupted(box):
    """Ctrl-C while a server is silent: the report comes, without its symbols."""
    if not ctypes.util.find_library("debuginfod"):
        raise hw.Skip("no libdebuginfod")
    record_gone(box)
    server = Server(silent)
    p = box.start([hw.tool("heapwise"), "report", "--symbols", "nowhere", "t.trace"],
                  env={"DEBUGINFOD_URLS": server.url, "DEBUGINFOD_CACHE_PATH": box.path("cache")})
    hw.true(server.asked.wait(hw.CLOCK), "nobody asked")
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, f"interrupted: {hw.tail(err)}")
    hw.true(b"main" in out, hw.tail(out))


def trace_of(box, name, n=8, size=100, time=1000, head=b""):
    """A profile of n functions in one file, whose names are only in the file. size: of the first sample."""
    frames = b"".join(pb.data(6, pb.number(1, i + 1) + pb.number(3, 1) + pb.number(4, 0x1008 + 16 * i)) for i in range(n))
    stacks = b"".join(pb.data(7, pb.number(1, i + 1) + pb.number(2, i + 1)) for i in range(n))
    mapping = pb.data(19, pb.number(1, 1) + pb.number(2, 1) + pb.number(4, 0x7f0000001000) +
                      pb.number(5, 0x7f0000002000) + pb.number(8, 0x1000) + pb.number(7, 1))
    interned = (pb.data(16, pb.number(1, 1) + pb.data(2, elf.BUILD_ID)) +
                pb.data(17, pb.number(1, 1) + pb.data(2, "prog")) + mapping + frames + stacks)
    samples = b"".join(pb.data(2, pb.number(1, i + 1) + pb.number(2, 100 if i else size) + pb.number(5, 1))
                       for i in range(n))
    dump = pb.data(5, pb.number(1, 77) + pb.number(9, time) + head + samples)
    with open(box.path(name), "wb") as f:
        clocks = b"".join(pb.data(1, pb.number(1, c) + pb.number(2, 1000)) for c in (4, 6))
        f.write(pb.packet(pb.number(10, 3), pb.data(6, clocks)))
        f.write(pb.packet(pb.number(8, 1000), pb.number(10, 3), pb.number(13, 1), pb.data(12, interned),
                          pb.data(37, dump)))
    return box.path(name)


def symbolized(box, what, env=None):
    return Cost(box, [hw.tool("heapwise"), "report", "--symbols", box.path("syms"), box.path("t.trace")], seconds=120,
                env={"HEAPWISE_MEMORY_MB": "512", **(env or {})}).below(40, 400, what)


def pack_name(levels=60):
    """A mangled name that takes years, and prints nothing."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    number = lambda n: (digits[n // 36] if n >= 36 else "") + digits[n % 36]
    return ("_Z1fDp" + "".join(f"1{chr(97 + i % 26)}I" for i in range(levels)) + "ii" +
            "".join(f"ES{number(i)}_" for i in range(levels - 1, 2 * levels - 2)) + "E").encode()


def program(box, *sections, **kw):
    os.makedirs(box.path("syms"), exist_ok=True)
    return elf.write(box.path("syms/prog"), [*elf.symbols([b"fine", b"_ZN4deep4nameEv"]), *sections], **kw)


def symbol_tables(box):
    """Tables and mini debug info that unpack to gigabytes, or are holes of gigabytes, and names without end."""
    trace_of(box, "t.trace")
    zeros = elf.deflated_zeros(500)
    program(box)
    symbolized(box, "a sound file").says("fine", "a sound file").says("deep::name", "a sound file")
    elf.write(box.path("syms/prog"), [elf.compressed(".symtab", zeros, 500 << 20, elf.SYMTAB, ".strtab", 24),
                                      elf.compressed(".strtab", zeros, 500 << 20, elf.STRTAB)])
    symbolized(box, "packed tables")
    elf.write(box.path("syms/prog"), [elf.Section(".symtab", bytes(24), elf.SYMTAB, 0, ".strtab", 960 << 20, 24),
                                      elf.Section(".strtab", b"\0", elf.STRTAB, size=960 << 20)], hole=1 << 30)
    symbolized(box, "tables of holes")
    elf.write(box.path("syms/prog"), [elf.Section(".gnu_debugdata", lzma.compress(bytes(300 << 20), preset=0))])
    symbolized(box, "mini debug info")
    elf.write(box.path("syms/prog"), elf.symbols([pack_name(), b"fine", b"_Z" + b"N" * 4000, b"_R" + b"B_" * 2000]))
    symbolized(box, "mangled names").says("fine", "mangled names")


def debug_info(box):
    """Debug info that goes round in circles or asks for all the memory: names come from the symbols."""
    trace_of(box, "t.trace")
    unit = elf.abbrev(1, 0x11, 1, (0x11, 1), (0x12, 7), (0x10, 0x17))
    function = elf.abbrev(2, 0x2e, 1, (0x11, 1), (0x12, 7), (0x31, 0x13), (0x47, 0x13))
    inlined = elf.abbrev(3, 0x1d, 1, (0x31, 0x13), (0x11, 1), (0x12, 7))
    top = b"\1" + struct.pack("<QQI", 0x1000, 0x1000, 0)
    at = 11 + len(top)
    looped = b"\2" + struct.pack("<QQII", 0x1000, 16, at, at)
    depth = 3000
    looped += (b"\3" + struct.pack("<IQQ", at, 0x1000, 16)) * depth + bytes(depth) + b"\0"
    rows = b"\0\x09\2" + struct.pack("<Q", 0x1000)
    program(box, elf.Section(".debug_abbrev", unit + function + inlined + b"\0"),
            elf.Section(".debug_info", elf.debug_info(top + looped + b"\0")),
            elf.Section(".debug_line", elf.line_table(rows + b"\2\x10\1\0\1\1")))
    symbolized(box, "circles").says("deep::name", "circles")
    program(box, elf.Section(".debug_abbrev", unit + b"\0"),
            elf.Section(".debug_info", elf.debug_info(top + b"\0")),
            elf.Section(".debug_line", elf.line_table(rows + b"\1" * (40 << 20) + b"\0\1\1")))
    symbolized(box, "lines").says("fine", "lines")
    one = lambda to: elf.debug_info(top + (b"\4" + struct.pack("<I", to)) * 20 + looped[:17] + struct.pack("<II", to, to) + b"\0\0")
    far = elf.abbrev(2, 0x2e, 1, (0x11, 1), (0x12, 7), (0x31, 0x10), (0x47, 0x10)) + elf.abbrev(4, 0x3d, 0, (0x18, 0x10))
    program(box, elf.Section(".debug_abbrev", unit + far + b"\0"), elf.Section(".debug_info", one(len(one(0)) + 11) + one(11)),
            elf.Section(".debug_line", elf.line_table(rows + b"\2\x10\1\0\1\1")),
            elf.Section(".gnu_debugaltlink", b"prog\0" + elf.BUILD_ID))
    symbolized(box, "circles through units and files").says("fine", "circles through units and files")
    # Files that a link names and that nobody writes into: opening one waits for ever.
    os.mkfifo(box.path("fifo"))
    elsewhere = elf.abbrev(2, 0x2e, 1, (0x03, 0x1f21), (0x11, 1), (0x12, 7))  # its name is in the other file
    for to in (box.path("fifo"), "../fifo", "/dev/zero", "/dev/tty", "/proc/kmsg"):
        program(box, elf.Section(".debug_abbrev", unit + elsewhere + b"\0"),
                elf.Section(".debug_info", elf.debug_info(top + b"\2" + struct.pack("<IQQ", 5, 0x1000, 16) + b"\0\0")),
                elf.Section(".debug_line", elf.line_table(rows + b"\2\x10\1\0\1\1")), elf.Section(".gnu_debugaltlink", to.encode() + b"\0" + elf.BUILD_ID))
        c = symbolized(box, f"another file at {to}").says("fine", to)
        hw.true(c.wall < 20, f"{to}: {c.wall} s")
    program(box, elf.Section(".gnu_debuglink", b"far\0" + bytes(4)))
    elf.write(box.path("syms/far"), [], hole=1 << 40)
    with open(box.path("syms/far"), "r+b") as f:
        f.seek(64 + 2 * 56 + 8)
        f.write(b"\x09")  # no build id, so that its sum decides
    symbolized(box, "a link to a terabyte").says("fine", "a link to a terabyte")
    zeros = elf.deflated_zeros(500)
    program(box, elf.compressed(".debug_info", zeros, 1 << 45), elf.compressed(".debug_abbrev", zeros, 500 << 20),
            elf.compressed(".debug_str", zeros, 500 << 20))
    symbolized(box, "packed debug info").says("fine", "packed debug info")


def name_files(box):
    """Name maps and symbol files of one line without end, or of rows without end."""
    trace_of(box, "t.trace")
    os.makedirs(box.path("pad"))
    with open(box.path("long.map"), "wb") as f:
        f.write(b"a.b.C -> d:\n    void " + b"x" * (64 << 20))
    with open(box.path("rows.map"), "wb") as f:
        f.write(b"a.b.C -> d:\n" + b" int a -> b\n" * (2 << 20))
    for file, word in (("long.map", "line 2 is longer than"), ("rows.map", "too many members")):
        c = Cost(box, [hw.tool("heapwise"), "report", box.path("t.trace")],
                 env={"PERFETTO_PROGUARD_MAP": "x=" + box.path(file), "HEAPWISE_MEMORY_MB": "400"})
        c.below(20, 300, file).says(word, file).says(file, file)
    for name, text, word in (("long", b"FUNC 0 10 0 " + b"x" * (64 << 20), "line 2 is longer than"),
                             ("rows", b"FUNC 0 10 0 x\n" + b"1 1 1 1\n" * (4 << 20), "too many records")):
        with open(box.path("pad/" + elf.BUILD_ID.hex().upper() + ".breakpad"), "wb") as f:
            f.write(b"MODULE Linux x86_64 AB prog\n" + text)
        c = Cost(box, [hw.tool("heapwise"), "report", box.path("t.trace")],
                 env={"BREAKPAD_SYMBOL_DIR": box.path("pad"), "HEAPWISE_MEMORY_MB": "400"})
        c.below(20, 300, name).says(word, name).says("prog+0x1008", name)


def snapshot_of(nodes, edges, strings):
    """A snapshot of V8: nodes are (name, number of references), references (type, name, to)."""
    return json.dumps({
        "snapshot": {"meta": {"node_fields": ["type", "name", "id", "self_size", "edge_count"],
                              "node_types": [["object", "synthetic"], "string", "number", "number", "number"],
                              "edge_fields": ["type", "name_or_index", "to_node"],
                              "edge_types": [["property", "internal"], "string_or_number", "node"]}},
        "nodes": [x for i, (name, n) in enumerate(nodes) for x in (0, name, i + 1, 8, n)],
        "edges": [x for t, name, to in edges for x in (t, name, 5 * to)], "strings": strings})


def heap_snapshots(box):
    """Names that would become gigabytes as the class of many fields, and one that is searched for each reference."""
    long, many = "x" * 1000000, 30000
    def cost(name, *what):
        pathlib.Path(box.path(name)).write_text(snapshot_of(*what))
        return Cost(box, [hw.tool("heapwise"), "graph", name]).below(10, 600, name)
    cost("class.heapsnapshot", [(0, many)], [(0, i + 1, 0) for i in range(many)], [long] + [f"f{i}" for i in range(many)]).says("ELIMIT", "class")
    pair = "1 / part of key (" + long + " table)"
    cost("pair.heapsnapshot", [(0, many)], [(1, 1, 0)] * many, ["A", pair]).says("reachable", "pair")
    cost("node.heapsnapshot", [(0, 0)] * many, [], [long]).says("reachable", "node")


def numbers(box):
    """Numbers that nothing can have: a sample or a number of the dump is left out, and counted."""
    for n in (1 << 63, (1 << 64) - 1, 1 << 62):
        for changed, word in (({"size": n}, "heapprofd_malformed_packet"), ({"time": n}, "heapprofd_implausible_number"),
                              ({"head": pb.number(12, n)}, "heapprofd_implausible_number"),
                              ({"head": pb.number(13, n)}, "heapprofd_implausible_number")):
            trace_of(box, "n.trace", **changed)
            Cost(box, [hw.tool("heapwise"), "stats", box.path("n.trace")]).below(5, 100, word).says(word, str(changed))
            r = box.run([hw.tool("heapwise"), "report", "--json", box.path("n.trace")])
            live = json.loads(r.stdout)["end"]["alloc_space"]
            hw.equal(live, 700 if "size" in changed else 800, f"bytes with {changed}")
    trace_of(box, "n.trace", head=pb.number(12, 0))
    report(box, box.path("n.trace")).below(5, 100, "interval 0").says("800 B", "interval 0")


def messages(box):
    """What a file or a program is called is no command to the terminal that a message about it is shown on."""
    evil = "\x1b]0;owned\x07\x1b[2Jx\u202e\u009b31m"
    shutil.copy(hw.target("steps"), box.path(evil))
    with open(box.path(evil + ".trace"), "wb") as f:
        f.write(b"nothing")
    os.mkdir(box.path(evil + ".dir"))
    for argv in (["report", evil + ".trace"], ["report", evil + ".none"], ["record", "--", "./" + evil + ".none"], ["query", evil + ".trace", "select 1"],
                 ["diff", evil + ".none", evil + ".trace"], ["record", "-o", evil + ".dir", "--", "./" + evil], ["stats", evil + ".trace"],
                 ["query", "--all", "select 1", evil + ".trace"], ["report", "--heap", evil, "-o", evil], ["convert", evil + ".trace", evil], ["report", "--" + evil]):
        r = box.run([hw.tool("heapwise"), *argv], check=None)
        text = r.stderr.decode("utf-8", "replace")
        hw.true(r.stderr and not any(c in text for c in "\x1b\x07\u202e\u009b"), f"{argv}: {r.stderr}")


def sessions(box):
    """Nor is what another user calls his recording, and his command, to who lists all of them."""
    evil = "\x1b]0;owned\x07\x1b[2Jx\nroot\u202e\u009b31m"
    octal = "".join(f"\\{b:03o}" for b in evil.encode())
    pathlib.Path(box.path("cfg")).write_text(f'unique_session_name: "{octal}" buffers {{ size_kb: 64 }} data_sources {{ config {{ '
                                             'name: "android.heapprofd" heapprofd_config { sampling_interval_bytes: 1 process_cmdline: "none" } } }')
    box.start([hw.tool("heapprofd")], stderr=subprocess.DEVNULL)
    hw.wait_for(lambda: os.path.exists(box.path("consumer")), "the service")
    box.run([hw.tool("perfetto"), "-c", "cfg", "--txt", "-o", evil + ".trace", "--detach", evil + "key"], check=0)
    shown = [box.run([hw.tool(t), *argv]) for t, *argv in (("heapwise", "ps"), ("perfetto", "--query"), ("perfetto", "--query", "--long"),
                                                           ("heapwise", "doctor"), ("heapwise", "stop", "none"))]
    for r in shown:
        text = (r.stdout + r.stderr).decode("utf-8", "replace")
        hw.true(not any(c in text for c in "\x1b\x07\u202e\u009b"), f"{r.args}: {text!r}")
        hw.true("\nroot" not in text, f"{r.args}: a line of its own: {text!r}")
    hw.true(all(b"owned" in r.stdout for r in shown[:3]), "nothing was shown")


if __name__ == "__main__":
    hw.main({f.__name__: f for f in (packed, packed_zstd, no_end, packed_packets, packed_nothing, packed_members,
                                     servers, server_interrupted, symbol_tables, debug_info,
                                     name_files, heap_snapshots, numbers, messages, sessions)})
