#!/usr/bin/env python3
"""Processes in which our library's file is mapped and not loaded: a loader that fails leaves a part of it behind, and a debugger maps it to read it."""
import pathlib
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from attach import Late, attach, finish, joined, maps, since
from lib import hw

NAME = "libheapprofd_glibc_preload.so"


def recorded(box, t, trace="out.trace"):
    """An attach records what the program allocates from now on."""
    before = t.do("go 1")
    p = attach(box, str(t.pid), trace=trace)
    joined(box, p, t.pid)
    after = t.do("go 200")
    hw.exact(finish(box, p).last(), since(after, before), trace)


def preload(box):
    """LD_PRELOAD of a library whose code may not be mapped: glibc says so, leaves its first part and goes on."""
    hw.need("unshare")
    away = box.path("noexec")
    line = f"mkdir {away} && mount -t tmpfs -o noexec tmpfs {away} && cp {hw.preload_library()} {away}/ && LD_PRELOAD={away}/{NAME} exec {hw.target('late')}"
    if box.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]).returncode:
        raise hw.Skip("mounting takes root")
    t = Late(box, ["unshare", "-m", "sh", "-c", line])
    hw.true(not any(NAME in l and "x" in l.split()[1] for l in maps(t.pid).splitlines()), "the loader took it even so")
    ps = box.run([hw.tool("heapwise"), "ps", str(t.pid)], check=0).stdout.decode()
    hw.true(" yes" in ps, f"ps: {ps}")
    recorded(box, t)
    recorded(box, t, "again.trace")
    t.end()


def reader(box):
    """A program that reads our library and another's by a mapping, as a debugger does."""
    asan = box.path("libasan.so.8")
    pathlib.Path(asan).write_bytes(bytes(4096))
    code = f"""
import mmap
files = [open(f, "rb") for f in ({hw.preload_library()!r}, {asan!r})]
kept = [mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) for f in files]
print("ready", flush=True)
while True:
    kept.append(bytearray(100000))
    kept[2:] = kept[-9:]
"""
    p = box.start([sys.executable, "-c", code], stdout=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "the program")
    hw.true(NAME in maps(p.pid) and "libasan" in maps(p.pid), "both are mapped")
    a = attach(box, str(p.pid), interval=4096)
    joined(box, a, p.pid)
    hw.works(p.pid)
    hw.true(finish(box, a).last().samples, "samples")
    p.kill()


if __name__ == "__main__":
    hw.main({"preload": preload, "reader": reader})
