#!/usr/bin/env python3
"""The otel_memory probes: notes as readelf and perf read them, and samples through the kernel's uprobes against
what the program asked for. The library is a copy, so that nobody else's programs are sampled."""
import collections
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.trace import Trace

TRACING = pathlib.Path("/sys/kernel/tracing")
INTERVAL = 512 * 1024
Note = collections.namedtuple("Note", "pc semaphore args")


def notes(lib):
    """name -> Note, by readelf."""
    text = subprocess.run(["readelf", "-nW", lib], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: 0x(\w+), Base: 0x(\w+), Semaphore: 0x(\w+)\s+Arguments: (.*)",
                       text)
    for provider, *_ in found:
        hw.equal(provider, "otel_memory", "provider")
    names = [f[1] for f in found]
    hw.equal(sorted(names), ["alloc", "free"], "probes, each once")
    return {name: Note(int(pc, 16), int(sem, 16), args.split()) for _, name, pc, _, sem, args in found}


def offset(lib, address):
    """Where an address of the library's own space is in its file."""
    data = pathlib.Path(lib).read_bytes()
    hw.equal(data[4], 2, "ELF class")
    at, = struct.unpack_from("<Q", data, 32)
    size, n = struct.unpack_from("<HH", data, 54)
    for i in range(n):
        kind, flags, off, vaddr, _, filesz, _, _ = struct.unpack_from("<IIQQQQQQ", data, at + i * size)
        if kind == 1 and vaddr <= address < vaddr + filesz:
            return address - vaddr + off, flags
    raise hw.Failure(f"{address:#x} is in no loaded part")


class Reader:
    """Attaches to both probes of a library, as an agent would, and reads what they say."""
    def __init__(self, lib):
        if os.getuid() != 0 or not (TRACING / "uprobe_events").exists():
            raise hw.Skip("uprobes want root and the kernel's tracing directory")
        self.group = f"hw_{os.getpid()}_{time.monotonic_ns()}"
        self.found = notes(lib)
        self.instance = TRACING / "instances" / self.group
        self.lib = lib
        self.is_attached = False

    def attach(self):
        fields = {"alloc": ["ptr", "size", "weight"], "free": ["ptr"]}
        for name, note in self.found.items():
            code, _ = offset(self.lib, note.pc)
            semaphore, flags = offset(self.lib, note.semaphore)
            hw.true(flags & 2, "the semaphore can be written")
            args = []
            for field, arg in zip(fields[name], note.args, strict=True):
                hw.true(arg.startswith("8@%"), f"argument '{arg}'")
                args.append(f"{field}={re.sub('%r(?=[a-z])', '%', arg[2:])}:x64")
            self.control(f"p:{self.group}/{name} {self.lib}:{code:#x}({semaphore:#x}) {' '.join(args)}")
        self.is_attached = True
        self.instance.mkdir()
        (self.instance / "buffer_size_kb").write_text("8192")
        for name in self.found:
            (self.instance / "events" / self.group / name / "enable").write_text("1")

    @staticmethod
    def control(line):
        fd = os.open(TRACING / "uprobe_events", os.O_WRONLY | os.O_APPEND)  # open() would seek, which it refuses
        try:
            os.write(fd, line.encode() + b"\n")
        finally:
            os.close(fd)

    def events(self):
        """[(pid, name, fields)] in order, since the last call."""
        stats = [(c / "stats").read_text() for c in (self.instance / "per_cpu").iterdir()]
        hw.equal(sum(int(re.search(r"overrun: (\d+)", s)[1]) for s in stats), 0, "events that found no room")
        text = (self.instance / "trace").read_text()
        (self.instance / "trace").write_text("")
        out = []
        for pid, name, rest in re.findall(r"-(\d+) +\[\d+\].*? (alloc|free): \(0x\w+\)(.*)", text):
            out.append((int(pid), name, {k: int(v, 16) for k, v in re.findall(r"(\w+)=(0x\w+)", rest)}))
        return out

    def detach(self):
        if not self.is_attached:
            return
        self.is_attached = False
        if self.instance.exists():
            for name in self.found:
                (self.instance / "events" / self.group / name / "enable").write_text("0")
            self.instance.rmdir()
        for name in self.found:
            self.control(f"-:{self.group}/{name}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.detach()


class Probed:
    """tests/targets/runtime/probed.c with a copy of the client, without a recorder."""
    def __init__(self, box, lib):
        self.p = box.start([hw.target("probed")], env={"LD_PRELOAD": lib}, stdin=subprocess.PIPE)
        hw.equal(self.p.stdout.readline(), b"ready\n", "its start")
        self.pid = self.p.pid

    def do(self, command):
        self.p.stdin.write(command.encode() + b"\n")
        self.p.stdin.flush()
        return int(self.p.stdout.readline())

    def semaphore(self, lib, note):
        maps = pathlib.Path(f"/proc/{self.pid}/maps").read_text()
        base = int(re.search(rf"^(\w+)-.* 00000000 .*{re.escape(os.path.basename(lib))}$", maps, re.M)[1], 16)
        with open(f"/proc/{self.pid}/mem", "rb") as f:
            f.seek(base + note.semaphore)
            return struct.unpack("<H", f.read(2))[0]


def copy(box):
    lib = box.path("client.so")
    shutil.copy(hw.preload_library(), lib)
    return lib


def check(events, asked, interval=INTERVAL, slack=0):
    """The weights' sum estimates what was asked for; a free is of a block that was told and is not free."""
    live, n = {}, collections.Counter()
    weights = 0
    for _, name, f in events:
        n[name] += 1
        if name == "free":
            hw.true(live.pop(f["ptr"], None) is not None, f"free of {f['ptr']:#x}, which no event was about")
            continue
        hw.true(f["ptr"] not in live, f"{f['ptr']:#x} allocated twice")
        hw.true(f["weight"] == f["size"] >= interval or f["weight"] % interval == 0, f"weight of {f}")
        live[f["ptr"]] = f["size"]
        weights += f["weight"]
    sigma = math.sqrt(interval * asked)
    hw.true(abs(weights - asked) < 5 * sigma + slack, f"{weights} for {asked} bytes, sigma {sigma:.0f}")
    return live, n


def read_notes(box):
    """readelf reads them; so does perf, as what can be attached to; the 32-bit library has them too."""
    lib = copy(box)
    for name, note in notes(lib).items():
        hw.equal([a[:2] for a in note.args], ["8@"] * (3 if name == "alloc" else 1), name)
        offset(lib, note.pc)
    subprocess.run(["strip", lib], check=True)
    notes(lib)
    for name, note in notes(hw.preload_library_32()).items():
        hw.equal([a[:2] for a in note.args], ["4@"] * (3 if name == "alloc" else 1), f"32 bits: {name}")
    if shutil.which("aarch64-linux-gnu-gcc"):
        src = hw.ROOT / "src"
        box.run(["aarch64-linux-gnu-gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-c",
                 f"-I{src}", f"-I{hw.ROOT}/include", "-o", box.path("arm64.o"), src / "client/sample/probes.c"], check=0)
        for name, note in notes(box.path("arm64.o")).items():
            hw.true(all(re.fullmatch(r"8@x\d+", a) for a in note.args), f"arm64: {note.args}")


def perf(box):
    """perf finds the notes by itself."""
    hw.need("perf")
    lib = copy(box)
    r = box.run(["perf", "buildid-cache", "--add", lib], env={"HOME": box.path("")})
    listed = box.run(["perf", "list", "sdt"], env={"HOME": box.path("")}).stdout.decode()
    if r.returncode != 0 or "sdt" not in listed:
        raise hw.Skip("this perf reads no notes")
    for name in ("alloc", "free"):
        hw.true(f"sdt_otel_memory:{name}" in listed, listed)


def count(box):
    """Attached before the start: what is told estimates what is asked for, each free once, threads too."""
    lib = copy(box)
    with Reader(lib) as r:
        r.attach()
        t = Probed(box, lib)
        hw.equal(t.semaphore(lib, r.found["alloc"]), 1, "the semaphore")
        r.events()
        asked = t.do("run 4 200000")
        live, n = check(r.events(), asked)
        hw.equal(len(live), 0, "blocks that were freed and not told")
        hw.true(n["alloc"] > 5000, n)
        asked = t.do("keep 20000")
        live, n = check(r.events(), asked)
        hw.true(n["free"] == 0 and set(live.values()) == {4096}, n)


def late(box):
    """Attached to a program that runs: each thread notices within an interval, and rests again afterwards."""
    lib = copy(box)
    with Reader(lib) as r:
        t = Probed(box, lib)
        t.do("run 2 20000")
        for _ in range(2):
            hw.equal(t.semaphore(lib, r.found["alloc"]), 0, "the semaphore")
            t.do("run 2 20000")
            r.attach()
            hw.equal(t.semaphore(lib, r.found["alloc"]), 1, "the semaphore")
            asked = t.do("run 2 40000")
            check(r.events(), asked, slack=INTERVAL)
            r.detach()


def fork(box):
    """A child of fork is sampled as its parent is."""
    lib = copy(box)
    with Reader(lib) as r:
        r.attach()
        t = Probed(box, lib)
        r.events()
        asked = t.do("fork 2 40000")
        events = r.events()
        hw.true(t.pid not in {pid for pid, _, f in events if f.get("weight")}, "samples of the parent")
        live, _ = check(events, asked)
        hw.equal(len(live), 0, "blocks that were freed and not told")


def recorded(box):
    """While a recorder samples, its samples are the ones that are told."""
    prefix = pathlib.Path(hw.tool("heapwise")).parent.parent
    shutil.copytree(prefix, box.path("prefix"), symlinks=True)
    lib = box.path("prefix/lib/libheapprofd_glibc_preload.so")
    with Reader(lib) as r:
        r.attach()
        p = box.start([box.path("prefix/bin/heapwise"), "record", "-q", "-i", "64K", "-o", box.path("t.trace"), "--",
                       hw.target("probed")], stdin=subprocess.PIPE)
        hw.equal(p.stdout.readline(), b"ready\n", "its start")
        r.events()
        p.stdin.write(b"run 2 5000\n")
        p.stdin.flush()
        asked = int(p.stdout.readline())
        events = r.events()
        live, n = check(events, asked, interval=65536)
        hw.equal(len(live), 0, "blocks that were freed and not told")
        p.stdin.close()
        hw.equal(p.wait(hw.CLOCK), 0, "record")
        total = Trace(box.path("t.trace")).last().total("alloc")
        told = sum(f.get("weight", 0) for _, _, f in events)
        hw.true(0 <= total - told < 1000000, f"{told} bytes were told, {total} recorded, the program's start with them")


if __name__ == "__main__":
    hw.main({"notes": read_notes, "perf": perf, "count": count, "late": late, "fork": fork, "recorded": recorded})
