#!/usr/bin/env python3
"""Programs that lock their memory while they are recorded: what is ours does not become theirs, and each call does what it does alone."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from attach import attach, finish, joined
from lib import hw

NOBODY = "65534"


class Program:
    """tests/targets/heap/memlock.c, alone or recorded: a letter a step."""

    def __init__(self, box, way, args, interval):
        self.box, self.trace, self.recorder = box, box.path("out.trace"), None
        argv = [self.built(way), *args]
        if way in ("attached", "static"):
            self.start(argv)
            self.pid = self.p.pid
            self.recorder = attach(box, str(self.pid), interval=interval)
            joined_by = lambda: self.step("j") and "heapwise-ring" in self.read("maps")
            hw.wait_for(joined_by, "the program to join")
        elif way == "alone":
            self.start(argv)
            self.pid = self.p.pid
        else:
            self.start([hw.tool("heapwise"), "record", "-q", "-f", "-i", interval, "-o", self.trace, "--", *argv])
            kids = pathlib.Path(f"/proc/{self.p.pid}/task/{self.p.pid}/children").read_text().split()
            self.pid = next(int(k) for k in kids if "memlock" in os.readlink(f"/proc/{k}/exe"))

    def built(self, way):
        if way != "static":
            return hw.target("memlock32" if way == "32" else "memlock")
        exe = self.box.path("memlock.static")
        src = hw.ROOT / "tests/targets"
        r = self.box.run(["gcc", "-O2", "-g", "-static", f"-I{src}", "-o", exe, str(src / "heap" / "memlock.c")])
        if r.returncode:
            raise hw.Skip("no static programs here: " + hw.tail(r.stderr))
        return exe

    def start(self, argv):
        self.p = self.box.start([str(a) for a in argv], stdin=subprocess.PIPE, stderr=open(self.box.path("program.err"), "wb"))
        first = self.p.stdout.readline()
        if not first and self.p.wait(hw.CLOCK) == 77:
            raise hw.Skip("no rights for a limit")
        hw.equal(first, b"ready 1\n", "its start: " + hw.tail(open(self.box.path("program.err"), "rb").read()))

    def read(self, name):
        return pathlib.Path(f"/proc/{self.pid}/{name}").read_text()

    def kib(self, what):
        return int(re.search(what + r":\s+(\d+) kB", self.read("status"))[1])

    def step(self, letter):
        self.p.stdin.write(letter.encode())
        self.p.stdin.flush()
        said = self.p.stdout.readline().decode().strip()
        hw.true(said.startswith("ok"), f"step {letter}: '{said}', {said or self.p.wait(hw.CLOCK)}; " + hw.tail(open(self.box.path("program.err"), "rb").read()))
        return said

    def end(self):
        """-> its last words, and the trace of a recorded one"""
        self.p.stdin.write(b"q")
        self.p.stdin.close()
        out = self.p.stdout.read()
        hw.equal(self.p.wait(hw.CLOCK), 0, "its end: " + hw.tail(open(self.box.path("program.err"), "rb").read()))
        if self.recorder:
            finish(self.box, self.recorder, None)
        return out


def current(way, letter, interval):
    """Locked is what we use, not all that we might."""
    def case(box):
        if os.geteuid():
            raise hw.Skip("locking memory takes root")
        p = Program(box, way, [], interval)
        p.step(".")
        before, maps = p.kib("VmRSS"), p.read("maps")
        said = p.step(letter)
        hw.equal(said, "ok 0 0", "mlockall")
        more = p.kib("VmRSS") - before
        for _ in range(5):
            p.step(".")
        late = p.kib("VmRSS") - before
        print(f"  {way} {letter} at {interval}: {more} KiB more, {late} with what came later")
        hw.true(late < 24 << 10, f"{late} KiB more; {maps}")
        out = p.end()
        d = hw.sound(p.trace).last(p.pid)
        if interval == 1 and way != "static" and way != "attached":
            hw.exact(d, hw.expectations(out), "its blocks")
    return case


def limited(way, limit_kib):
    """With a limit on what may be locked each step does what it does alone, whatever becomes of the recording."""
    def case(box):
        if os.geteuid():
            raise hw.Skip("another user takes root")
        letters = ".c.mu.C.b.mf.oOu."
        alone = Program(box, "alone", [str(limit_kib), NOBODY], 1)
        print(f"  alone {alone.kib('VmSize')} KiB, limit {limit_kib}")
        want = [alone.step(c) for c in letters]
        want_end = alone.end()
        p = Program(box, way, [str(limit_kib), NOBODY], 1)
        have = [p.step(c) for c in letters]
        hw.equal(list(zip(letters, have)), list(zip(letters, want)), "its steps")
        if way not in ("attached", "static"):
            hw.equal(p.end(), want_end, "its last words")
        else:
            p.end()
    return case


CASES = {}
for way in ("preloaded", "attached", "static", "32"):
    for letter in "cCboO":
        for interval in (1, 4096):
            if letter in "cb" or interval == 1:
                CASES[f"current-{way}-{letter}-{interval}"] = current(way, letter, interval)
for way in ("preloaded", "attached", "static", "32"):
    for limit_kib in (64, 8192):
        CASES[f"limited-{way}-{limit_kib}"] = limited(way, limit_kib)

if __name__ == "__main__":
    hw.main(CASES)
