#!/usr/bin/env python3
"""What a session can be told to do: each option of its configuration, seen in the trace it writes."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from classic import Steps, finish, preloaded, service, session
from lib import hw
from lib.proto import message, one
from lib.trace import Trace


def packets(path, field):
    """The messages in one field of all packets, and the packets that hold them."""
    data = open(path, "rb").read()
    found = [message(p) for p in message(data)[1]]
    return [(message(p[field][0]), p) for p in found if field in p]


def under_record(box, *options, trace="out.trace", program="steps", env=None):
    """-> (process, do): a target under `heapwise record` that does steps."""
    p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-o", box.path(trace), *options, "--",
                   hw.target(program)], stdin=subprocess.PIPE, env=env)
    hw.equal(p.stdout.readline().strip(), b"ready 1", "steps under record")

    def do(*steps):
        for s in steps:
            p.stdin.write(s.encode() + b"\n")
            p.stdin.flush()
            hw.equal(p.stdout.readline().strip(), b"ok", s)
    return p, do


def quit_record(p):
    p.stdin.write(b"q\n")
    p.stdin.flush()
    out, err = p.communicate(timeout=40)
    hw.equal(p.returncode, 0, f"record: {hw.tail(err)}")
    return out.decode(), err.decode()


def malloc_info(box):
    """--malloc-info, --smaps and process_stats: the allocator's own figures beside ours."""
    p, do = under_record(box, "--malloc-info", "100ms", "--smaps", "100ms")
    do("a 3000")
    for _ in range(12):
        do("s 120", "a 1")
    out, err = quit_record(p)
    trace = box.path("out.trace")
    hw.sound(trace)
    infos = [m for m, _ in packets(trace, 1900)]
    hw.true(len(infos) >= 3, f"{len(infos)} malloc_info packets")
    last = infos[-1]
    arena, in_use, free = one(last, 2), one(last, 4), one(last, 5)
    hw.equal(in_use + free, arena, "in use + free = arena")
    hw.true(3000 * 1000 < in_use < 3000 * 1000 * 1.2, f"in use {in_use} bytes of 3,000,000")
    for field, least, what in ((68, 3, "smaps_packet"), (9, 1, "process_stats")):
        n = len(packets(trace, field))
        hw.true(n >= least, f"{n} packets {what}")
    shown = box.run([hw.tool("heapwise"), "report", trace], check=0).stdout.decode()
    hw.true("malloc_info: 2.9" in shown and "RSS" in shown, f"the report:\n{hw.tail(shown)}")


def malloc_info_elsewhere(box):
    """It is glibc's: with another allocator none is collected, and that is said."""
    lib = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    if not os.path.exists(lib):
        raise hw.Skip("jemalloc is not installed")
    p, do = under_record(box, "--malloc-info", "100ms", env={"LD_PRELOAD": lib})
    do("a 100", "s 300", "a 100", "s 200", "a 100")
    out, err = quit_record(p)
    hw.true("malloc_info is glibc's" in err and "libjemalloc" in err, hw.tail(err))
    hw.equal(packets(box.path("out.trace"), 1900), [], "malloc_info packets")


def malloc_info_handlers(box):
    """Asked for all the time, in programs that allocate in signal handlers and leave them by a jump."""
    for name in ("sigalloc", "sigjmp", "threads", "crossfree", "fork"):
        plain = box.run([hw.target(name)])
        r = hw.record(box, [hw.target(name)], "--malloc-info", "100ms", trace=f"{name}.trace")
        hw.equal(r.target_stdout, plain.stdout, f"{name}: output")
        hw.exact(hw.sound(r.trace).last(), hw.expectations(plain.stdout), name)


def attach(box, pid, n, out):
    """A recording of a running process by an embedded recorder of its own."""
    d = box.dir / out
    d.mkdir()
    env = {"PERFETTO_PRODUCER_SOCK_NAME": box.path(f"producer{n}"),
           "PERFETTO_CONSUMER_SOCK_NAME": box.path(f"consumer{n}")}
    p = box.start([hw.tool("heap_profile"), "-p", str(pid), "-i", "1", "-o", d], env=env)
    return p, d


def rings(pid):
    """The rings a process has mapped, by the inodes of their memory files."""
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {l.split()[4] for l in lines if "/memfd:" in l and "ring" in l}


def recorders_in_turn(box):
    """One preloaded process, recorded by a service that is killed, then by others, one after the other."""
    d1 = service(box)
    s = preloaded(box, hw.target("steps"))
    p1 = session(box, "t_steps")
    s.do("s 200", "a 10", "s 100")
    d1.kill()
    d1.wait()
    p1.communicate(timeout=30)
    s.do("a 5")
    for n, count in ((2, 20), (3, 30), (4, 40)):
        before = rings(s.p.pid)
        p, d = attach(box, s.p.pid, n, f"o{n}")
        hw.wait_for(lambda: (d / "raw-trace").exists(), "the recording")
        # The dead recorder's last heartbeat must be two seconds old before anybody else may have the process.
        until = time.monotonic() + 10
        while time.monotonic() < until and not rings(s.p.pid) - before:
            s.do("a 1", "s 50")
        s.do("s 100", f"b {count}", "s 200")
        p.send_signal(signal.SIGKILL if n == 3 else signal.SIGINT)
        out, err = p.communicate(timeout=40)
        if n == 3:
            for q in subprocess.run(["pgrep", "-x", "-s", str(p.pid), "heapprofd"], stdout=subprocess.PIPE,
                                    text=True).stdout.split():
                os.kill(int(q), signal.SIGKILL)
            continue
        hw.equal(p.returncode, 0, f"recorder {n}: {hw.tail(err)}")
        t = hw.sound(str(d / "raw-trace"))
        hw.true(t.last(s.p.pid), f"recorder {n}: no profile: {hw.tail(err)}")
        hw.exact(t.last(s.p.pid), {"fn_b": [2000 * count, count, 2000 * count, count]}, f"recorder {n}")
    s.quit()


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in
         ("packets", "rings", "under_record", "quit_record", "attach")}

if __name__ == "__main__":
    hw.main(CASES)
