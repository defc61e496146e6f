#!/usr/bin/env python3
"""The flows of the original documents, as the documents write them."""
import os
import pathlib
import signal
import select
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.pprof import Pprof
from lib.trace import Trace

SEED_TYPES = ["alloc_objects", "alloc_space", "objects", "space"]


def service(box, name="heapprofd", *options):
    """Our own recorder, on the box's own sockets."""
    p = box.start([hw.tool(name), *options], stderr=open(box.path(name + ".log"), "wb"))
    hw.wait_for(lambda: os.path.exists(box.path("producer")) and os.path.exists(box.path("consumer")),
                f"{name} to open its sockets: {hw.tail(open(box.path(name + '.log'), 'rb').read())}")
    return p


class Steps:
    """A target that does what it is told, a line at a time."""

    def __init__(self, box, argv, env=None):
        self.p = box.start(argv, env=env, stdin=subprocess.PIPE, stderr=open(box.path("steps.err"), "wb"))
        self.line("ready 1")

    def line(self, want):
        have = self.p.stdout.readline().decode().strip()
        hw.equal(have, want, "steps")

    def do(self, *steps):
        for s in steps:
            self.p.stdin.write(s.encode() + b"\n")
            self.p.stdin.flush()
            self.line("ok")

    def join(self, step=None):
        """Allocates until the session that has begun sees it: on a busy machine the answer may take
        longer than a running program waits, and the next try is due later."""
        def joined():
            step() if step else self.do("w")
            return "heapwise-ring" in pathlib.Path(f"/proc/{self.p.pid}/maps").read_text()
        hw.wait_for(joined, "the program to join the session")
        return self

    def quit(self):
        self.p.stdin.write(b"q\n")
        self.p.stdin.flush()
        out = self.p.stdout.read()
        self.p.wait(hw.CLOCK)
        return out


def preloaded(box, *argv):
    return Steps(box, argv, env={"LD_PRELOAD": hw.preload_library()})


def read_until(p, want):
    for line in iter(p.stdout.readline, b""):
        if want in line:
            return
    raise hw.Failure(f"ended before it said {want!r}: {hw.tail(p.stderr.read())}")


def results(directory):
    return sorted(p.name for p in pathlib.Path(directory).iterdir())


def heap_profile_host(box):
    """heap_profile host -- CMD: raw-trace, heap_dump.N.PID.pb.gz, the symlink heap_profile-latest."""
    r = box.run([hw.tool("heap_profile"), "host", "-i", "1", "--", hw.target("truth")], check=0)
    links = list(box.dir.glob("**/heap_profile-latest"))
    hw.true(links and links[0].is_symlink(), f"no symlink heap_profile-latest:\n{hw.tail(r.stdout)}")
    d = links[0].resolve()
    hw.true(d.name.startswith("heap_profile-"), f"directory {d}")
    hw.true(b"Wrote profiles to " in r.stdout, f"standard output: {hw.tail(r.stdout)}")
    names = results(d)
    hw.true("raw-trace" in names, f"no raw-trace in {names}")
    t = hw.sound(str(d / "raw-trace"))
    pid = t.last().pid
    hw.true(f"heap_dump.1.{pid}.pb.gz" in names, f"no heap_dump.1.{pid}.pb.gz in {names}")
    want = hw.expectations(box.run([hw.target("truth")]).stdout)
    hw.exact(t.last(), want, "raw-trace")
    p = Pprof(d / sorted(n for n in names if n.endswith(".pb.gz"))[-1])
    hw.equal(p.types, SEED_TYPES, "sample types")
    for f, w in want.items():
        v = p.of(f)
        hw.equal([v[k] for k in ("alloc_space", "alloc_objects", "space", "objects")], w, f"pprof {f}")


def go_pprof(box):
    """The pprof files open in Debian's pprof, and its numbers are ours."""
    hw.need("go")
    out = box.dir / "o"
    out.mkdir()
    box.run([hw.tool("heap_profile"), "host", "-i", "1", "-o", out, "--", hw.target("truth")], check=0)
    dump = sorted(out.glob("heap_dump.*.pb.gz"))[-1]
    want = hw.expectations(box.run([hw.target("truth")]).stdout)
    r = box.run(["go", "tool", "pprof", "-sample_index=alloc_space", "-unit=B", "-nodecount=1000",
                 "-nodefraction=0", "-text", dump], env={"GOCACHE": "off", "GOFLAGS": "-mod=mod"}, check=0)
    rows = {l.split()[-1]: l.split() for l in r.stdout.decode().splitlines() if l.split()}
    for f, w in want.items():
        hw.true(f in rows, f"pprof does not list {f}: {hw.tail(r.stdout)}")
        hw.equal(int(float(rows[f][3].rstrip("B"))), w[0], f"pprof: cumulative alloc_space of {f}")


def option_prefixes(box):
    """Unambiguous prefixes of long options, and both spellings of a value."""
    a = box.run([hw.tool("heap_profile"), "--name", "x", "--interval=8192", "--print-config"], check=0)
    b = box.run([hw.tool("heap_profile"), "--na", "x", "--inter", "8192", "--print-conf"], check=0)
    hw.equal(a.stdout, b.stdout, "--print-config by prefixes")
    hw.true(b"sampling_interval_bytes: 8192" in a.stdout, hw.tail(a.stdout))


def usage_errors(box):
    """Wrong usage: the line, the help on standard output, status 1."""
    for argv, line in (([], "FATAL: Neither PID nor NAME given."),
                       (["-n", "x", "--shmem-size", "4095"], "FATAL: shmem-size is not a multiple of 4096."),
                       (["-n", "x", "--shmem-size", "4096"], "FATAL: shmem-size is less than 8192."),
                       (["-n", "x", "--shmem-size", "12288"], "FATAL: shmem-size is not a power of two."),
                       (["-n", "x", "--block-client", "--no-block-client"],
                        "FATAL: Both block-client and no-block-client given."),
                       (["-p", "12x"], "FATAL: invalid PID 12x"),
                       (["host"], "FATAL: host subcommand requires a command after --.")):
        r = box.run([hw.tool("heap_profile"), *argv], check=1)
        hw.true(line in r.stderr.decode(), f"{argv}: {hw.tail(r.stderr)}")
    r = box.run([hw.tool("heap_profile"), "-n", "x", "-o", box.path("none")], check=1)
    hw.true("Output directory" in r.stderr.decode() and "not found" in r.stderr.decode(), hw.tail(r.stderr))


def print_config_pipe(box):
    """heap_profile -n NAME --print-config | perfetto -c - --txt -o FILE, with traced running, then
    LD_PRELOAD=libheapprofd_glibc_preload.so NAME."""
    service(box, "traced")
    line = (f"{hw.tool('heap_profile')} -n {box.named('t_truth')} -i 1 -d 4000 --print-config | "
            f"{hw.tool('perfetto')} -c - --txt -o {box.path('pipe.trace')}")
    p = box.start(["sh", "-c", line])
    hw.wait_for(lambda: os.path.exists(box.path("pipe.trace")) and os.path.getsize(box.path("pipe.trace")), "the session")
    plain = box.run([hw.target("truth")])
    r = box.run([box.own("truth")], env={"LD_PRELOAD": hw.preload_library()}, check=0)
    hw.equal(r.stdout, plain.stdout, "the target's output")
    out, err = p.communicate(timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, f"perfetto: {hw.tail(out)} {hw.tail(err)}")
    t = hw.sound(box.path("pipe.trace"))
    hw.exact(t.last(), hw.expectations(plain.stdout), "the pipe")
    hw.true(t.last().from_startup, "from_startup")
    hw.true(t.last().disconnected, "disconnected: the process ended before the session")


def session(box, name, *options, seconds=60, trace="session.trace", interval=1):
    """A running session made by the classic commands; ended by SIGINT."""
    cfg = box.run([hw.tool("heap_profile"), "-n", box.named(name), "-i", str(interval), "-d", str(seconds * 1000),
                   *options, "--print-config"], check=0).stdout
    pathlib.Path(box.path(trace + ".cfg")).write_bytes(cfg)
    r, w = os.pipe()
    p = box.start([hw.tool("perfetto"), "-c", box.path(trace + ".cfg"), "--txt", "-o", box.path(trace),
                   "--notify-fd", str(w)], pass_fds=[w], stderr=open(box.path(trace + ".err"), "wb"))
    os.close(w)
    ready, _, _ = select.select([r], [], [], 20)
    byte = os.read(r, 1) if ready else b""
    os.close(r)
    hw.equal(byte, b"\0", f"start notification: {hw.tail(open(box.path(trace + '.err'), 'rb').read())}")
    return p


def finish(box, p, trace="session.trace", allow=("disconnected",), sig=signal.SIGINT):
    p.send_signal(sig)
    p.communicate(timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, f"perfetto: {hw.tail(open(box.path(trace + '.err'), 'rb').read())}")
    return hw.sound(box.path(trace), allow)


def running_target(box):
    """A preloaded program that runs already is profiled from the session's start on."""
    service(box)
    s = preloaded(box, box.own("steps"))
    s.do("a 50")
    p = session(box, "t_steps")
    s.join().do("s 200", "a 30", "f 60", "b 7")  # 50 of the freed blocks were never seen
    s.do("s 100")
    t = finish(box, p)
    d = t.last(s.p.pid)
    hw.exact(d, {"fn_a": [30000, 30, 20000, 20], "fn_b": [14000, 7, 14000, 7]}, "running target")
    hw.true(not d.from_startup and not d.disconnected, "neither from_startup nor disconnected")
    out = s.quit()
    hw.true(b"EXPECT fn_a 80000 80 20000 20" in out, hw.tail(out))


def usr1(box):
    """killall -USR1 heapprofd: an extra dump of every profiled process (here: only ours by its pid)."""
    d = service(box)
    s = preloaded(box, box.own("steps"))
    p = session(box, "t_steps")
    s.join().do("s 200", "a 10")
    name = pathlib.Path(f"/proc/{d.pid}/comm").read_text().strip()
    hw.equal(name, "heapprofd", "the recorder's process name")
    for i in range(3):
        d.send_signal(signal.SIGUSR1)
        s.do("s 300", "a 10")
    t = finish(box, p)
    dumps = [x for x in t.of(s.p.pid) if not x.checkpoint]
    hw.equal([x.by_function(["fn_a"])["fn_a"][1] for x in dumps], [10, 20, 30, 40], "dumps by SIGUSR1")
    s.quit()


def usr1_embedded(box):
    """The embedded recorder of `record` is named heapprofd too and dumps on SIGUSR1."""
    p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-o", box.path("e.trace"), "--",
                   hw.target("steps")], stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline().strip(), b"ready 1", "steps under record")

    def do(step):
        p.stdin.write(step.encode() + b"\n")
        p.stdin.flush()
        hw.equal(p.stdout.readline().strip(), b"ok", step)

    do("a 10")
    mine = hw.processes("heapprofd", session=p.pid)
    hw.true(mine, "no process named heapprofd in record's session")
    for q in mine:
        os.kill(q, signal.SIGUSR1)
    do("s 500")
    do("a 5")
    p.stdin.write(b"q\n")
    p.stdin.flush()
    p.communicate(timeout=hw.CLOCK)
    t = hw.sound(box.path("e.trace"))
    counts = [x.by_function(["fn_a"])["fn_a"][1] for x in t.of() if not x.checkpoint]
    hw.true(counts[:1] == [10] and counts[-1] == 15, f"dumps {counts}")


def continuous(box):
    """-c: dumps while it runs, cumulative, each later than the one before."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = session(box, "t_steps", "-c", "300")
    s.join().do("s 150", "a 10", "s 350", "f 5", "s 350", "b 3", "s 350")
    t = finish(box, p)
    dumps = t.of(s.p.pid)
    hw.true(len(dumps) >= 4, f"{len(dumps)} dumps")
    hw.true(all(a.ts < b.ts for a, b in zip(dumps, dumps[1:])), "dump times rise")
    live = [d.by_function(["fn_a"])["fn_a"][3] for d in dumps]
    # unchanged callstacks may be left out of the dumps between; the last lists all
    hw.true(5 in live, f"live objects of fn_a in each dump: {live}")
    hw.exact(dumps[-1], {"fn_a": [10000, 10, 5000, 5], "fn_b": [6000, 3, 6000, 3]}, "the last dump")
    s.quit()


def dump_at_max(box):
    service(box)
    s = preloaded(box, box.own("steps"))
    p = session(box, "t_steps", "--dump-at-max")
    s.join().do("s 150", "a 40", "f 30", "b 30", "f 40", "a 2", "s 100")
    t = finish(box, p)
    d = t.last(s.p.pid)
    top = {f: (sum(x.max for x in d.samples if f in x.stack), sum(x.max_count for x in d.samples if f in x.stack))
           for f in ("fn_a", "fn_b")}
    # the peak: 10 of fn_a (10,000) and 30 of fn_b (60,000)
    hw.equal(top, {"fn_a": (10000, 10), "fn_b": (60000, 30)}, "at the peak")
    s.quit()


def rejected_concurrent(box):
    """A process belongs to one session; the second one says so."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p1 = session(box, "t_steps", trace="one.trace")
    s.join().do("s 150", "a 5")
    p2 = session(box, "t_steps", trace="two.trace")
    s.do("s 150", "a 5")
    t2 = finish(box, p2, "two.trace", allow=("disconnected", "rejected"))
    t1 = finish(box, p1, "one.trace")
    hw.exact(t1.last(s.p.pid), {"fn_a": [10000, 10, 10000, 10]}, "the first session")
    hw.true([d for d in t2.dumps if d.pid == s.p.pid and d.rejected], "rejected_concurrent in the second")
    hw.true(not t2.of(s.p.pid), "no samples in the second")
    s.quit()


def two_sessions(box):
    """Several sessions at a time, each its own process."""
    service(box)
    a, b = preloaded(box, box.own("steps")), None
    other = box.dir / "other"
    other.symlink_to(hw.target("steps"))
    b = Steps(box, [other], env={"LD_PRELOAD": hw.preload_library()})
    p1, p2 = session(box, "t_steps", trace="one.trace"), session(box, "other", trace="two.trace")
    a.join().do("s 200", "a 11")
    b.join().do("s 200", "b 22")
    t2 = finish(box, p2, "two.trace")
    a.do("a 1")
    t1 = finish(box, p1, "one.trace")
    hw.exact(t1.last(a.p.pid), {"fn_a": [12000, 12, 12000, 12]}, "first session")
    hw.exact(t2.last(b.p.pid), {"fn_b": [44000, 22, 44000, 22]}, "second session")
    hw.true(not t1.of(b.p.pid) and not t2.of(a.p.pid), "each its own process only")
    a.quit()
    b.quit()


def killall_perfetto(box):
    """SIGTERM to perfetto ends its session with the dump written."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = session(box, "t_steps")
    s.join().do("s 150", "a 5", "s 50")
    t = finish(box, p, sig=signal.SIGTERM)
    hw.exact(t.last(s.p.pid), {"fn_a": [5000, 5, 5000, 5]}, "after SIGTERM")
    s.quit()


def traceconv_profile(box):
    r = hw.record(box, [hw.target("truth")])
    out = box.run([hw.tool("traceconv"), "profile", r.trace], check=0)
    words = [w for w in (out.stdout + out.stderr).decode().split() if "heap_profile-" in w]
    hw.true(words, f"no directory named: {hw.tail(out.stdout)} {hw.tail(out.stderr)}")
    d = pathlib.Path(words[-1])
    pid = Trace(r.trace).last().pid
    names = results(d)
    hw.true(any(n.startswith("heap_dump.") and f".{pid}." in n and n.endswith(".pb") for n in names), f"{names}")


def from_checkout(box):
    """tools/heap_profile and tools/traceconv run from the checkout, as the documents write them."""
    for t in ("heap_profile", "traceconv"):
        p = hw.ROOT / "tools" / t
        hw.true(os.access(p, os.X_OK), f"tools/{t} is missing")
        r = box.run([p, "--help"])
        hw.equal(r.returncode, 0, f"tools/{t} --help")


def ctrl_c(box):
    """Ctrl-C ends cleanly, a second one loses nothing."""
    for times in (1, 2):
        d = box.dir / f"o{times}"
        d.mkdir()
        p = box.start([hw.tool("heap_profile"), "host", "-i", "1", "-o", d, "--", hw.target("steps")],
                      stdin=subprocess.PIPE)
        read_until(p, b"ready 1")
        p.stdin.write(b"a 10\n")
        p.stdin.flush()
        read_until(p, b"ok")
        for _ in range(times):
            os.killpg(p.pid, signal.SIGINT)  # as a terminal does: to everybody in the group
            hw.took(p.pid, signal.SIGINT)
        out, err = p.communicate(timeout=hw.CLOCK)
        hw.equal(p.returncode, 0, f"heap_profile after Ctrl-C: {hw.tail(err)}")
        t = hw.sound(str(d / "raw-trace"))
        hw.exact(t.last(), {"fn_a": [10000, 10, 10000, 10]}, f"after {times} x Ctrl-C")


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in
         ("service", "Steps", "preloaded", "results", "read_until", "session", "finish")}

if __name__ == "__main__":
    hw.main(CASES)
