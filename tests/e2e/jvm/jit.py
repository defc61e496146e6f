#!/usr/bin/env python3
"""Code that is made at run time gets its names from what the program writes down about it."""
import glob
import os
import re
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw


def clean(pid):
    for f in glob.glob(f"/tmp/perf-{pid}.map"):
        os.unlink(f)


def made(way, box):
    """-> (bytes by function as the program says, bytes by function of the profile, the dump)"""
    r = hw.record(box, [hw.target("jit"), way])
    if r.returncode == 77:
        raise SystemExit(77)
    t = hw.sound(r.trace)
    d = t.last()
    clean(d.pid)
    want = {}
    for name, times, size in re.findall(r"^JIT (.+) (\d+) (\d+)$", r.target_stdout.decode(), re.M):
        want[name] = want.get(name, 0) + int(size)
    have = {}
    for s in d.samples:
        if "call" in s.stack and s.stack[-1] != "call":
            have[s.stack[s.stack.index("call") + 1]] = have.get(s.stack[s.stack.index("call") + 1], 0) + s.alloc
    return want, have, r


def map(box):
    want, have, _ = made("map", box)
    hw.equal(have, want, "bytes by function")


def dump(box):
    want, have, r = made("dump", box)
    hw.equal(have, want, "bytes by function")
    q = box.run([hw.tool("heapwise"), "query", r.trace, "select distinct f.name as name, m.name as mapping from"
                 " stack_profile_frame f join stack_profile_mapping m on f.mapping = m.id where f.name in ('first', 'second')"
                 " order by 1"], check=0)
    hw.equal(q.stdout.decode().split("\n")[1:3], ['"first","/[jit]"', '"second","/[jit]"'], "mapping")
    for form, what in (("folded", b"it stays"), ("text", b"it stays")):
        out = box.path("out." + form)
        box.run([hw.tool("heapwise"), "convert", "-t", form, r.trace, out], check=0)
        hw.true(what in open(out, "rb").read(), form)


def late(box):
    """Everything is written at the end: names by the time at which the code was seen."""
    want, have, _ = made("late", box)
    hw.equal(have, want, "bytes by function")


def other(box):
    """A link in a folder where others write."""
    want, have, r = made("other", box)
    hw.true(not set(want) & set(have), f"names were taken from a link: {have}")


def node(box):
    hw.need("node")
    (box.dir / "a.js").write_text(
        "function hot(n) { return Buffer.allocUnsafeSlow(n).length }\n"
        "function middle(k) { let t = 0; for (let i = 0; i < k; i++) t += hot(20000); return t }\n"
        "let t = 0; for (let i = 0; i < 40; i++) t += middle(50);\nconsole.log(t);\n")
    for flag in ("--perf-basic-prof", "--perf-prof"):
        argv = ["node", flag, "--interpreted-frames-native-stack", "--no-opt", "a.js"]
        r = hw.record(box, argv, interval=65536, trace=flag + ".trace", timeout=120)
        hw.equal(r.target_stdout, b"40000000\n", "output")
        d = hw.sound(r.trace).last()
        clean(d.pid)
        total = below = 0
        for s in d.samples:
            names = [f for f in s.stack if re.match(r"JS:\W?(hot|middle) ", f)]
            if any("AllocateExternalBackingStore" in f or "BackingStore::Allocate" in f for f in s.stack):
                total += s.alloc
                below += s.alloc if len(names) >= 2 else 0
        print(f"  {flag}: {below} of {total} bytes of buffers below hot() and middle()")
        hw.true(total > 20e6 and below > 0.95 * total, f"{flag}: {below} of {total}")


CASES = {"map": map, "dump": dump, "late": late, "other": other, "node": node}

if __name__ == "__main__":
    hw.main(CASES)
