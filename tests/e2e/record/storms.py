#!/usr/bin/env python3
"""Processes that do not answer, signals that are given twice, more processes than there are descriptors."""
import contextlib
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.trace import Trace
from start import holds


@contextlib.contextmanager
def locked(box, milliseconds, *user):
    """A process whose memory cannot be looked at for that long."""
    p = box.start([hw.target("locked"), str(milliseconds), *user], stdin=subprocess.PIPE)
    if p.stdout.readline() != b"locked\n":
        p.wait(hw.CLOCK)
        raise hw.Skip("no FUSE here")
    try:
        yield p
        hw.true(p.poll() is None, "the lock was over before the test was")
    finally:
        p.stdin.close()
        p.wait(hw.CLOCK)


@hw.by_themselves
def locked_memory(box):
    """/proc/PID/cmdline of one process waits: who lists all processes goes on without its name."""
    with locked(box, 15000) as p:
        began = time.monotonic()
        r = box.run([hw.tool("heapwise"), "ps"], timeout=hw.CLOCK)
        hw.equal(r.returncode, 0, f"ps: {hw.tail(r.stderr)}")
        hw.true("t_locked" in r.stdout.decode(), f"ps lists its children: {r.stdout.decode()}")
        r = box.run([hw.tool("heapwise"), "record", "-d", "300ms", "-n", "nobody-has-this-name", "-o", box.path("n.trace")],
                    timeout=hw.CLOCK)
        hw.true(b"nobody-has-this-name" in r.stderr + r.stdout or r.returncode, "a recording by name looks at all")
        r = hw.record(box, [hw.target("truth")])
        hw.equal(r.returncode, 0, f"record: {hw.tail(r.stderr)}")
        with open(box.path("config"), "w") as f:
            f.write('duration_ms: 300 buffers { size_kb: 64 } data_sources { config { name: "android.java_hprof" '
                    'java_hprof_config { process_cmdline: "nobody.has.this.Name" } } }')
        env = {"PERFETTO_PRODUCER_SOCK_NAME": box.path("p"), "PERFETTO_CONSUMER_SOCK_NAME": box.path("c")}
        box.start([hw.tool("traced")], env=env)
        hw.wait_for(lambda: os.path.exists(box.path("c")), "the service")
        r = box.run([hw.tool("perfetto"), "-c", box.path("config"), "--txt", "-o", box.path("j.trace")], env=env, timeout=hw.CLOCK)
        hw.true(b"no JVM" in r.stderr, f"heap graphs by name: {hw.tail(r.stderr)}")
        hw.true(time.monotonic() - began < 10, f"{time.monotonic() - began:.1f} s beside a locked process")
        hw.true(p.poll() is None, "it is locked still")


@hw.by_themselves
def looked_up_beside(box):
    """What other tests ask for their processes does not wait for one whose memory is locked, as pgrep does."""
    with locked(box, 15000) as p:
        began = time.monotonic()
        hw.true(p.pid in hw.processes("t_locked", session=p.pid), "the process is found")
        hw.true(time.monotonic() - began < 10, f"{time.monotonic() - began:.1f} s beside a locked process")


@hw.by_themselves
def locked_many(box):
    """One user has many of them: a recording by name still finds what others start."""
    with contextlib.ExitStack() as all_of_them:
        for _ in range(10):
            all_of_them.enter_context(locked(box, 25000, "65534"))
        p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-n", box.named("t_truth"), "-o", box.path("m.trace")])
        # What is tested: while it looks at them, two of which cost a second, with their pauses, and the watch is
        # started again up to three times. What starts just then may be missing, which it says.
        for _ in range(16):
            time.sleep(.5)
            said = box.run([box.own("truth")])
            hw.equal(said.returncode, 0, "the program")
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=hw.CLOCK)
    hw.true(b"programs that start from now on are not profiled" not in err, f"it goes on looking: {hw.tail(err)}")
    hw.equal(p.returncode, 0, f"record: {hw.tail(err)}")
    readable(box.path("m.trace"))


def readable(path):
    t = Trace(path)
    hw.true(t.packets > 0 and not t.truncated, f"{path}: {t.packets} packets, truncated: {t.truncated}")
    return t


def recorder_of(p):
    found = hw.processes("heapprofd", parent=p.pid)
    return found[0] if found else None


def asked_twice(box):
    """A recorder that hears nothing any more: the second Ctrl-C ends the command, with what was written."""
    p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-o", box.path("a.trace"), "--", hw.target("saturate"), "1", "0"])
    recorder = hw.wait_for(lambda: recorder_of(p), "the recorder")
    program = hw.wait_for(lambda: hw.processes("t_saturate", parent=p.pid), "the program")[0]
    hw.wait_for(lambda: "heapwise-ring" in open(f"/proc/{program}/maps").read(), "the recording")
    os.kill(recorder, signal.SIGSTOP)
    hw.stopped(recorder)
    p.send_signal(signal.SIGINT)
    hw.took(p.pid, signal.SIGINT)
    p.send_signal(signal.SIGINT)
    began = time.monotonic()
    with contextlib.suppress(subprocess.TimeoutExpired):
        p.wait(hw.CLOCK)  # who is stopped may hold its pipes
    hw.true(p.poll() is not None, "the command waits for its recorder")
    print(f"  ended after {time.monotonic() - began:.1f} s")
    hw.wait_for(lambda: not os.path.exists(f"/proc/{recorder}"), "the recorder's end")


def deaf_program(box):
    """A program that ignores SIGTERM: the second one ends the recording, the program runs on."""
    p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-o", box.path("d.trace"), "--", "sh", "-c",
                   f'trap "" TERM INT; {hw.target("truth")} >/dev/null; echo ready >&2; while :; do sleep 0.1; done'])
    try:
        hw.wait_for(lambda: b"ready" in (p.stderr.readline() or b""), "the program")
        p.send_signal(signal.SIGTERM)
        hw.took(p.pid, signal.SIGTERM)
        hw.quiet(0.2)
        hw.true(p.poll() is None, "one SIGTERM is the program's")
        p.send_signal(signal.SIGTERM)
        p.wait(hw.CLOCK)
        readable(box.path("d.trace"))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)


def few_descriptors(box):
    """300 processes and 256 descriptors: it says so, the file is whole, and who was there first is exact."""
    hw.need("setpriv")
    if os.getuid() != 0:
        raise hw.Skip("needs root: nobody else is let past the limit")
    # They are there all at the same time, until it has said so, however long both take.
    enough, said = box.path("enough"), box.path("said")
    os.mkfifo(enough)
    sh = (f'{hw.target("truth")} >{box.path("truth.out")}; i=0; '
          f'while [ $i -lt 300 ]; do sleep 120 & all="$all $!"; i=$((i + 1)); done; read x <{enough}; kill $all; wait')
    p = box.start(["setpriv", "--bounding-set=-sys_resource", "sh", "-c", 'ulimit -n 256; exec "$@"', "sh", hw.tool("heapwise"),
                   "record", "--follow-fork", "-i", "1", "-o", box.path("f.trace"), "--", "sh", "-c", sh], stderr=open(said, "wb"))
    hw.wait_for(lambda: b"descriptors" in open(said, "rb").read() or p.poll() is not None, "it to say so")
    pathlib.Path(enough).write_text("\n")
    p.wait(hw.CLOCK)
    t = readable(box.path("f.trace"))
    first = [d for d in t.of() if any("fn_a" in s.stack for s in d.samples)]
    hw.true(first, "the first process")
    hw.exact(first[-1], hw.expectations(open(box.path("truth.out"), "rb").read()), "who was there first")


def executes_another(box):
    """A recorded process executes a program without the library: nobody tells the end of that one, and the recording
    ends nevertheless, not before it."""
    sh = f'( echo $(echo an allocation) >&2; unset LD_PRELOAD; exec sleep 2 ) & exec {hw.target("truth")} >{box.path("truth.out")}'
    began = time.monotonic()
    p = box.start([hw.tool("heapwise"), "record", "--follow-fork", "-i", "1", "-o", box.path("e.trace"), "--", "sh", "-c", sh],
                  stderr=open(box.path("said"), "wb"))
    p.wait(hw.CLOCK)
    hw.true(time.monotonic() - began >= 2, "it waits for what it executes")
    said = open(box.path("said"), "rb").read()
    hw.true(b"(--follow-fork): sleep (" in said, f"it names what it waits for: {said}")
    t = readable(box.path("e.trace"))
    hw.true([d for d in t.of() if any("fn_a" in s.stack for s in d.samples)], "the program")


def daemons(box):
    """Whoever forks twice leaves a process that is below nobody: it is found although its parent ends while it is looked for."""
    sh = f'( ( sleep 0.2; exec {hw.target("truth")} >"$0" ) & )'
    for i in range(12):
        out = box.path(f"truth.{i}")
        r = box.run([hw.tool("heapwise"), "record", "--follow-fork", "--no-report", "-f", "-i", "1", "-o", box.path("w.trace"), "--", "sh", "-c", sh, out], check=0)
        hw.true(os.path.exists(out), f"run {i}: the recording ended before its daemon: {hw.tail(r.stderr)}")
        t = readable(box.path("w.trace"))
        hw.true([d for d in t.of() if any("fn_a" in s.stack for s in d.samples)], f"run {i}: the daemon")


@contextlib.contextmanager
def locked_root(box, *args, program=None):
    """Whoever looks up a name in that root waits where no signal ends it. Its end, however it comes, frees all."""
    p = box.start([program or hw.target("rootlock"), *args], stdin=subprocess.PIPE)
    if p.stdout.readline() != b"locked\n":
        p.wait(hw.CLOCK)
        raise hw.Skip("no userfaultfd here")
    try:
        yield p
    finally:
        p.stdin.close()
        p.wait(hw.CLOCK)


def in_the_kernel(*names):
    """Our processes and threads in state D, which are not made to wait there: the readers are."""
    found = []
    for task in glob.glob("/proc/[0-9]*/task/[0-9]*"):
        with contextlib.suppress(OSError):
            name, state = open(task + "/comm").read().strip(), open(task + "/stat").read().rsplit(")", 1)[1].split()[0]
            if state == "D" and name in names:
                found.append((name, task))
    return found


@hw.by_themselves
def locked_root_start(box):
    """Programs of a name that is recorded start in a root whose lock is kept: no other start waits, all others are
    recorded, and what could not be held is said and counted."""
    holds()
    name = box.named("t_truth")
    with open(box.path("start.err"), "wb") as err:
        p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-n", name, "--no-report", "-o", box.path("start.trace")], stderr=err)
    said = lambda: open(box.path("start.err")).read()
    hw.wait_for(lambda: "recording the processes" in said(), "record")
    with locked_root(box, "starts", box.own("truth"), name) as q:
        for _ in range(6):
            q.stdin.write(b"\n")
            q.stdin.flush()
            began = time.monotonic()
            r = box.run([box.own("truth")])
            hw.equal(r.returncode, 0, "a program of somebody else")
            hw.true(time.monotonic() - began < 10, f"it took {time.monotonic() - began:.1f} s to start and run")
        hw.equal(in_the_kernel("heapprofd-find", "heapprofd-allow", "heapprofd"), [], "waits with what it holds")
        hw.wait_for(lambda: "cannot be read in time" in said(), "what is not held is said")
        p.send_signal(signal.SIGINT)
        hw.equal(p.wait(hw.CLOCK), 0, f"record: {said()}")
    t = readable(box.path("start.trace"))
    hw.equal(len([d for d in t.dumps if d.samples and d.from_startup]) >= 6, True, f"the others are recorded from their start: {said()}")


@hw.by_themselves
def locked_root_attach(box):
    """A session means a program whose root's lock is kept, in another network namespace: it is recorded, or refused
    with the reason, and the service goes on for all others."""
    env = {"PERFETTO_PRODUCER_SOCK_NAME": box.path("p"), "PERFETTO_CONSUMER_SOCK_NAME": box.path("c")}
    service = box.start([hw.tool("traced")], env=env)
    hw.wait_for(lambda: os.path.exists(box.path("c")), "the service")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as apart, \
            locked_root(box, "stays", program=shutil.copy(hw.target("rootlock"), apart + "/" + box.named("t_rootlock"))) as q:
        p = box.start([hw.tool("heapwise"), "record", "-n", box.named("t_rootlock"), "-d", "2s", "--no-report", "-o", box.path("one.trace")], env=env)
        for _ in range(5):
            began = time.monotonic()
            r = box.run([hw.tool("heapwise"), "ps"], env=env, timeout=hw.CLOCK)
            hw.equal(r.returncode, 0, f"ps: {hw.tail(r.stderr)}")
            hw.true(time.monotonic() - began < 10, f"ps took {time.monotonic() - began:.1f} s")
        hw.equal([t for t in in_the_kernel("heapprofd", "traced") if f"/{service.pid}/task/{service.pid}" in t[1]], [], "the service's main thread")
        r = hw.record(box, [hw.target("truth")], env=env)
        hw.equal(r.returncode, 0, f"record: {hw.tail(r.stderr)}")
        out, err = p.communicate(timeout=hw.CLOCK)
        print("  " + hw.tail(err))
        recorded = any(d.samples for d in readable(box.path("one.trace")).dumps)
        hw.true(recorded or str(q.pid).encode() in err, f"why it is not recorded: {hw.tail(err)}")
        hw.true(q.poll() is None, "the lock was over before the test was")


CASES = {"locked-memory": locked_memory, "locked-many": locked_many, "looked-up-beside": looked_up_beside, "locked-root-start": locked_root_start,
         "locked-root-attach": locked_root_attach, "asked-twice": asked_twice, "deaf-program": deaf_program,
         "daemons": daemons, "executes-another": executes_another, "few-descriptors": few_descriptors}

if __name__ == "__main__":
    hw.main(CASES)
