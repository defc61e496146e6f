#!/usr/bin/env python3
"""What makes a dump or ends a recording by itself: conditions, failed allocations, limits that come near."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from classic import preloaded, service, session
from lib import hw
from lib.trace import Trace

MIB = 1 << 20


def refused(out):
    w = next(l for l in out.decode().splitlines() if l.startswith("REFUSED")).split()
    return int(w[1]), int(w[2])


def report(box, path):
    return box.run([hw.tool("heapwise"), "report", path], check=0).stdout.decode()


def failure(box):
    """malloc gives NULL: the dump shows the heap at that call, not what the program made of it afterwards."""
    r = hw.record(box, [hw.target("refuse"), "free"], "--dump-when", "failure")
    n_bytes, n = refused(r.target_stdout)
    dumps = [d for d in hw.sound(r.trace).of() if d.trigger not in ("peak", "near-limit")]
    hw.equal([d.trigger for d in dumps], ["failure", "exit"], "dumps")
    hw.exact(dumps[0], {"fn_a": [n_bytes, n, n_bytes, n], "fn_b": [0, 0, 0, 0]}, "at the failure")
    hw.exact(dumps[1], {"fn_a": [n_bytes, n, 0, 0], "fn_b": [100000, 100, 100000, 100]}, "at the end")
    hw.true("failure" in report(box, r.trace), "the report tells why the dump was made")


def failure_abort(box):
    """It dies on the spot: the recorder reads of the failure after the death, and still makes its dump."""
    for _ in range(3):
        r = hw.record(box, [hw.target("refuse"), "abort"], "--dump-when", "failure", "--force")
        n_bytes, n = refused(r.target_stdout)
        dumps = [d for d in hw.sound(r.trace).of() if d.trigger not in ("peak", "near-limit")]
        hw.equal([d.trigger for d in dumps], ["failure", "exit"], "dumps")
        for d in dumps:
            hw.exact(d, {"fn_a": [n_bytes, n, n_bytes, n]}, d.trigger)


def failure_stop(box):
    """--stop-when failure: the recording ends there, the program runs on."""
    r = hw.record(box, [hw.target("refuse"), "free"], "--stop-when", "failure")
    n_bytes, n = refused(r.target_stdout)
    d = next(d for d in hw.sound(r.trace).of() if d.trigger == "failure")
    hw.exact(d, {"fn_a": [n_bytes, n, n_bytes, n]}, "at the failure")


def python_limit(box):
    """A script that grows until MemoryError under `ulimit -v`: dumps while it grew, at the refusal, at the limit."""
    script = "x = []\ntry:\n  while True: x.append(bytearray(4 << 20))\nexcept MemoryError:\n  n = len(x); x.clear(); print('refused', n)\n"
    (box.dir / "grow.py").write_text(script)
    line = ["sh", "-c", "ulimit -v 700000; exec python3 grow.py >out"]
    box.run([hw.tool("heapwise"), "record", "-o", box.path("py.trace"), "--dump-when", "rss+64M", "--dump-when",
             "failure", "--dump-when", "memory-limit>80%", "--", *line], check=0)
    n = int((box.dir / "out").read_text().split()[1])
    dumps = [d for d in hw.sound(box.path("py.trace")).of() if d.trigger not in ("peak", "near-limit")]
    live, now = {}, {}
    for d in dumps:  # a dump holds what has changed since the last one
        now.update({tuple(x.stack): x.alloc - x.freed for x in d.samples})
        live.setdefault(d.trigger, []).append(sum(now.values()))
    print({k: [round(v / MIB) for v in x] for k, x in live.items()})
    growth = live["rss+64M"]
    hw.true(len(growth) >= 2, "dumps of growth")
    # What a dump shows may be behind what the process has, so that two of them are nearer to each other.
    hw.true(growth[-1] - growth[0] > 48 * MIB * (len(growth) - 1), f"64 MiB apart, about: {growth}")
    hw.true(live["failure"][0] >= n * 4 * MIB * 0.95, "the refusal shows all of it")
    hw.true([d.trigger for d in dumps].index("memory-limit>80%") < [d.trigger for d in dumps].index("failure"),
            "the limit came before")
    hw.true(live["exit"][0] < 16 * MIB, "the end shows nothing of it")


def near_limit(box):
    """Recorder and program are killed at the limit: what is left is the checkpoint made when it came near."""
    p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-o", box.path("hold.trace"), "--",
                   hw.target("refuse"), "hold"], stdin=subprocess.PIPE)
    n_bytes, n = refused(p.stdout.readline())
    def bytes_near_limit():
        left = sorted(box.dir.glob("hold.trace*"))
        if not left or not any(d.trigger == "near-limit" for d in Trace(left[0]).of()):
            return 0
        return json.loads(box.run([hw.tool("heapwise"), "report", "--json", str(left[0])]).stdout)["end"]["space"]
    # A dump at each of several levels: the first may show a program that still grows.
    hw.wait_for(lambda: bytes_near_limit() >= 0.85 * n_bytes, "a dump near the limit with what is held")
    for name in ("heapprofd", "t_refuse"):
        for q in hw.processes(name, session=p.pid):
            os.kill(q, signal.SIGKILL)
    p.communicate(timeout=hw.CLOCK)
    left = sorted(box.dir.glob("hold.trace*"))
    d = Trace(left[0]).last()
    hw.equal((d.trigger, d.checkpoint), ("near-limit", True), "the last dump")
    shown = json.loads(box.run([hw.tool("heapwise"), "report", "--json", str(left[0])], check=0).stdout)
    hw.true(shown["end"]["space"] >= 0.85 * n_bytes, f"{shown['end']} of {n_bytes} bytes")
    hw.true("near-limit" in report(box, str(left[0])), "the report tells why")


def memory_group(box):
    """A memory group (cgroup v1) kills the program: a checkpoint was made before."""
    group = pathlib.Path("/sys/fs/cgroup/memory") / f"heapwise-test-{os.getpid()}"
    if not os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        raise hw.Skip("no memory controller of cgroup v1 here")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(96 * MIB))
    except OSError as e:
        raise hw.Skip(f"no memory group of one's own: {e}")
    try:
        line = ["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@" >/dev/null', "sh", hw.target("refuse"), "kill"]
        r = box.run([hw.tool("heapwise"), "record", "-i", "1", "-o", box.path("oom.trace"), "--", *line])
        hw.equal(r.returncode, 128 + signal.SIGKILL, hw.tail(r.stderr))
        dumps = hw.sound(box.path("oom.trace")).of()
        near = [d for d in dumps if d.trigger == "near-limit"]
        print([(d.trigger, sum(x.alloc - x.freed for x in d.samples) >> 20) for d in dumps])
        hw.true(near and all(d.checkpoint for d in near), "checkpoints near the limit")
        live = near[-1].by_function(["fn_a"])["fn_a"][2]
        hw.true(70 * MIB <= live <= 96 * MIB, f"{live >> 20} MiB at the checkpoint")
        shown = report(box, box.path("oom.trace"))
        hw.true("killed by SIGKILL, memory group at " in shown and "of its limit 96.0 MiB" in shown, shown)
    finally:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def killed(box):
    """The report tells how a program ended: one that was started, and one that was attached to."""
    script = "import os, sys; x = bytearray(8 << 20); sys.stdin.readline(); y = bytearray(8 << 20); os.kill(os.getpid(), 9)"
    r = box.run([hw.tool("heapwise"), "record", "-o", box.path("own.trace"), "--", "python3", "-c", script], stdin=b"")
    hw.equal(r.returncode, 128 + signal.SIGKILL, hw.tail(r.stderr))
    hw.true("\nkilled by SIGKILL\n" in report(box, box.path("own.trace")), "of its own program")
    p = box.start(["python3", "-c", script], stdin=subprocess.PIPE)
    a = box.start([hw.tool("heapwise"), "attach", "-o", box.path("other.trace"), str(p.pid)], stderr=subprocess.PIPE)
    hw.wait_for(lambda: hw.called(p.pid), "the attach")
    p.communicate(b"\n", timeout=hw.CLOCK)
    a.communicate(timeout=hw.CLOCK)
    shown = json.loads(box.run([hw.tool("heapwise"), "report", "--json", box.path("other.trace")]).stdout)
    hw.equal(shown.get("exit"), {"signal": 9}, "of another's program")


def memory_group_v2(box):
    """cgroup v2 with memory.oom.group: recorder and program are killed together, the checkpoint stays."""
    at = pathlib.Path("/sys/fs/cgroup")
    try:
        if "memory" not in (at / "cgroup.controllers").read_text().split():
            raise hw.Skip("no memory controller in cgroup v2 here")
        group = at / f"heapwise-test-{os.getpid()}"
        (at / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
        (group / "memory.max").write_text(str(128 * MIB))
        (group / "memory.oom.group").write_text("1")
    except OSError as e:
        raise hw.Skip(f"no memory group of cgroup v2 of one's own: {e}")
    try:
        line = ["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@" >/dev/null', "sh", hw.tool("heapwise"), "record",
                "-i", "1", "-o", box.path("oom.trace"), "--", hw.target("refuse"), "kill"]
        box.run(line)
        left = sorted(box.dir.glob("oom.trace*"))
        dumps = Trace(left[0]).of()
        hw.true(dumps and dumps[-1].checkpoint and dumps[-1].trigger == "near-limit", f"{[d.trigger for d in dumps]}")
    finally:
        group.rmdir()


def in_configuration(box):
    """The service takes conditions from the configuration that heap_profile prints."""
    program = box.own("steps")
    out = box.run([hw.tool("heap_profile"), "-n", os.path.basename(program), "-i", "1", "--dump-when", "samples>300",
                   "--stop-when", "dumps=1", "--print-config"], check=0).stdout.decode()
    hw.true('[heapwise.protos.dump_when]: "samples>300"' in out, out)
    (box.dir / "c.txt").write_text(out)
    service(box)
    s = preloaded(box, program)
    p = box.start([hw.tool("perfetto"), "-c", box.path("c.txt"), "--txt", "-o", box.path("s.trace")])
    s.join().do("s 200", "a 2000")
    p.communicate(timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, "it ended by its condition")
    s.quit()
    hw.equal([d.trigger for d in hw.sound(box.path("s.trace")).of()], ["samples>300", "end"], "dumps")


def policy_refuses(box):
    """A production machine: the program named is not profiled, and its empty profile says why."""
    (box.dir / "policy").write_text("machine = production\n")
    (box.dir / "policy").chmod(0o644)
    service(box, "heapprofd", "--policy", box.path("policy"))
    s = preloaded(box, box.own("steps"))
    p = session(box, "t_steps", seconds=1)
    s.do("a 10", "s 300")
    _, err = p.communicate(timeout=hw.CLOCK)
    said = pathlib.Path(box.path("session.trace.err")).read_text(errors="replace")
    hw.true("not to be profiled on a production machine" in said, said)
    d = Trace(box.path("session.trace")).dumps
    hw.equal([(x.pid, x.rejected, len(x.samples)) for x in d], [(s.p.pid, True, 0)], "its empty profile")
    shown = box.run([hw.tool("heapwise"), "stats", box.path("session.trace")])
    hw.true(b"not to be profiled on a production machine" in shown.stdout + shown.stderr, hw.tail(shown.stdout))
    s.quit()


def called(pid):
    """Has a recorder told it, or a child of it, to shake hands? It does at its next allocation."""
    pids = [pid, *map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    maps = "".join(pathlib.Path(f"/proc/{q}/maps").read_text() for q in pids if os.path.exists(f"/proc/{q}/maps"))
    return "libheapprofd" in maps


def start_when(box):
    """A profile that begins when the process is large enough: preloaded and attached; nothing from before
    is in it. One that never gets there says so."""
    big, small = 64 * MIB, 100000
    code = ("import sys,time\ndef hold(n): return bytearray(n)\nprint('ready',flush=True)\nsys.stdin.readline()\n"
            f"early=hold({big}); x=[hold(1000) for _ in range(50)]\nprint('big',flush=True)\nsys.stdin.readline()\n"
            "for i in range(120):\n t=hold(2000); time.sleep(0.005)\n"  # it is answered at one of these
            f"late=hold({small}); late2=hold({small})\nprint('late',flush=True)\nsys.stdin.readline()")
    (box.dir / "big.py").write_text(code)
    for how in ("record", "attach"):
        trace = box.path(how + ".trace")
        python = ["python3", box.path("big.py")]
        tool = [hw.tool("heapwise"), how, "-i", "1", "-o", trace, "--start-when", "rss>48M"]
        if how == "record":
            p = rec = box.start([*tool, "--no-report", "--", *python], stdin=subprocess.PIPE)
        else:
            p = box.start(python, stdin=subprocess.PIPE)
        hw.equal(p.stdout.readline(), b"ready\n", how)
        if how == "attach":
            rec = box.start([*tool, str(p.pid)], stderr=open(box.path("err"), "wb"), stdout=open(box.path("o"), "wb"))
            time.sleep(0.7)  # what is tested: it has looked, and the process was too small
        p.stdin.write(b"\n"), p.stdin.flush()
        hw.equal(p.stdout.readline(), b"big\n", how)
        hw.wait_for(lambda: called(p.pid), "the profile to begin")
        p.stdin.write(b"\n"), p.stdin.flush()
        hw.equal(p.stdout.readline(), b"late\n", how)
        p.stdin.close()
        hw.equal(rec.wait(hw.CLOCK), 0, f"{how}'s end")
        d = hw.sound(trace).last()
        hw.true(d is not None and 2 * small <= d.total("alloc") < big / 2, f"{how}: {d and d.total('alloc')}")
        hw.equal(d.from_startup, False, f"{how}: from_startup")
    r = box.run([hw.tool("heapwise"), "record", "-o", box.path("never.trace"), "--start-when", "rss>100G", "--",
                 "sleep", "0.2"])
    hw.true(b"no --start-when condition came true" in r.stderr, hw.tail(r.stderr))
    t = Trace(box.path("never.trace"))
    hw.equal([(x.rejected, len(x.samples)) for x in t.dumps], [(True, 0)], "its empty profile")


def start_on_signal(box):
    """SIGUSR1 to the recorder begins what waits for it."""
    # It allocates at each line, the first lines until it has joined: a handshake waits for 50 ms at most.
    code = "import sys\nprint('ready',flush=True)\nfor l in sys.stdin:\n a=bytearray(int(l))\n print('done',flush=True)"
    p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-o", box.path("s.trace"), "--no-report",
                   "--start-when", "signal", "--", "python3", "-c", code], stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "the program")
    recorder = hw.wait_for(lambda: hw.processes("heapprofd", parent=p.pid), "the recorder")[0]
    hw.idles(recorder)
    os.kill(recorder, signal.SIGUSR1)
    program = next(int(c) for c in pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split() if int(c) != recorder)
    hw.wait_for(lambda: hw.called(program), "the profile to begin")

    def allocate(n):
        p.stdin.write(b"%d\n" % n), p.stdin.flush()
        hw.equal(p.stdout.readline(), b"done\n", "the program")

    def joined():
        allocate(1000)
        return "heapwise-ring" in pathlib.Path(f"/proc/{program}/maps").read_text()

    hw.wait_for(joined, "the program to join")
    allocate(5000000)
    p.stdin.close()
    hw.equal(p.wait(hw.CLOCK), 0, "its end")
    d = hw.sound(box.path("s.trace")).last()
    hw.true(d is not None and 5000000 <= d.total("alloc") < 7000000, f"{d and d.total('alloc')}")


def attached(box):
    """Conditions of a process that was attached to: growth, a refused allocation, its end."""
    code = ("import sys,time\nprint('ready',flush=True)\nsys.stdin.readline()\nkeep=[]\n"
            "for i in range(12): keep.append(bytearray(1<<20)); time.sleep(0.03)\n"
            "try: bytearray(1<<60)\nexcept MemoryError: print('refused',flush=True)")
    p = box.start(["python3", "-c", code], stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "the program")
    a = box.start([hw.tool("heapwise"), "attach", "-i", "1", "-o", box.path("a.trace"), "--dump-when", "rss+4M",
                   "--dump-when", "failure", str(p.pid)], stderr=open(box.path("err"), "wb"),
                  stdout=open(box.path("o"), "wb"))
    hw.wait_for(lambda: hw.called(p.pid) or a.poll() is not None, "the attach")
    p.stdin.write(b"\n"), p.stdin.flush()
    hw.equal(p.stdout.readline(), b"refused\n", "the program")
    hw.equal(a.wait(hw.CLOCK), 0, hw.tail(open(box.path("err"), "rb").read()))
    dumps = hw.sound(box.path("a.trace")).of()
    have = [d.trigger for d in dumps]
    hw.true({"rss+4M", "failure", "exit"} <= set(have), f"dumps: {have}")
    live = {}  # a dump says what has changed since the last one
    for d in dumps[:have.index("failure") + 1]:
        live.update({tuple(x.stack): x.alloc - x.freed for x in d.samples})
    hw.true(sum(live.values()) >= 8 << 20, f"the refusal shows what is there: {sum(live.values())}")


def bad_conditions(box):
    """What is no condition is refused before anything runs."""
    for text in ("rss>", "rss>0", "rss<5", "foo>1", "memory-limit>100%", "dumps=", "failure>1", "rss>1X", "x" * 300):
        r = box.run([hw.tool("heapwise"), "record", "--stop-when", text, "--", "touch", box.path("ran")])
        hw.equal(r.returncode, 2, f"{text}: {hw.tail(r.stderr)}")
    r = box.run([hw.tool("heapwise"), "record", "--dump-when", "dumps=3", "--", "touch", box.path("ran")])
    hw.equal(r.returncode, 2, "a dump when there was a dump")
    hw.true(not os.path.exists(box.path("ran")), "nothing ran")


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in ("refused", "report", "called")}

if __name__ == "__main__":
    hw.main(CASES)
