#!/usr/bin/env python3
"""Programs that serve --continuous holds at their start and arms: the recorder hears of them with their first sample, or when they
are no longer young (doc/design/starts.md)."""
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from continuous import Continuous, Stepper, service
from lib import hw
from lib.pprof import Pprof
from lib.trace import Trace
from start import holds, is_joined, patiently

INTERVAL = 65536  # the least; a block of 66,000 bytes is a sample of its own
YOUNG = 1.5


def begin(box, *args, **kw):
    holds()
    name = f"arm{os.getpid()}"
    return name, Continuous(box, "--name", name, *args, interval=kw.pop("interval", INTERVAL), **kw)


def is_armed(t):
    return t.prepared() and not is_joined(t.pid)


def young(box, name):
    """One that is armed: it has the library, and no buffer. The first ones make its file known, which no start waits for longer than 20 ms; and
    now and then one has a sample before it is ready."""
    for tries in range(50):
        t = Stepper(box, name)
        if is_armed(t):
            t.began = time.time()
            return t
        t.end()
    raise hw.Failure(f"none of {tries + 1} is armed")


def warm(s, pid):
    """-> [bytes, blocks] that its files say of fn_warm."""
    found = [Pprof(f).of("fn_warm") for f in s.files() if f"-{pid}-" in f]
    return [sum(f["alloc_space"] for f in found), sum(f["alloc_objects"] for f in found)]


@patiently
def silent(box):
    """Without a sample: no connection, no file, no trace in what the server knows."""
    name, s = begin(box, interval=1 << 26)
    pids = []
    for _ in range(20):
        t = young(box, name)
        t.do("a 1")
        t.end()
        pids.append(str(t.pid))
    s.rounds(2)
    log = s.said().decode()
    s.stop()
    named = [f for f in s.files() for p in pids if f"-{p}-" in f]
    hw.true(len(named) <= 5, f"a few KiB of 64 MiB are hardly ever a sample: {named}")
    hw.true(not any(p in log for p in pids), log)


@patiently
def sampled(box):
    """The first sample brings the recorder, and is in the file; so is what follows."""
    name, s = begin(box)
    t = young(box, name)
    t.do("w")
    hw.true(is_joined(t.pid), "it has a buffer")
    for _ in range(4):
        t.do("w")
    t.end()
    hw.wait_for(lambda: warm(s, t.pid) == [330000, 5], f"all of them: {warm(s, t.pid)}")
    s.stop()


@patiently
def grown(box):
    """One that lives on without a sample is called, and is then known as if it had never been armed."""
    name, s = begin(box, interval=1 << 30)
    t = young(box, name)
    hw.wait_for(lambda: (t.do("a 1"), is_joined(t.pid))[1], "it is called")
    hw.true(time.time() - t.began > YOUNG, f"only then: {time.time() - t.began:.1f} s")
    hw.wait_for(lambda: str(t.pid) in s.state(), "the server knows it")
    t.end()
    s.stop()
    hw.equal(s.files(), [], "it had no sample")


@patiently
def execs(box):
    """Another image in the same process is held and armed anew, also when the one before was recorded."""
    name, s = begin(box)
    t = young(box, name)
    t.do("w")
    hw.true(is_joined(t.pid), "the first is recorded")
    for _ in range(10):
        t.p.stdin.write(b"x\n")
        t.p.stdin.flush()
        hw.true(t.p.stdout.readline().startswith(b"ready"), "executed again")
        if is_armed(t):
            break
    hw.true(is_armed(t), "armed again")
    t.do("w")
    t.do("w")
    t.end()
    hw.wait_for(lambda: warm(s, t.pid) == [198000, 3], f"of both: {warm(s, t.pid)}")
    s.stop()


@patiently
def chain(box):
    """Programs that execute themselves nine times, each image within milliseconds: all ten are recorded."""
    name, s = begin(box)
    shutil.copy(hw.target("chain"), box.path(name))
    n, images, blocks = 12, 10, 5
    for _ in range(n):
        hw.equal(box.run([box.path(name), str(images - 1), str(blocks)]).returncode, 0, "its exit")
    s.rounds(2)
    s.stop()
    found = sum(Pprof(f).of("fn_warm")["alloc_space"] for f in s.files()) / 66000 / blocks
    print(f"  {found} of {n * images} images")
    hw.true(n * images * 0.95 <= found <= n * images, f"{found} of {n * images} images are recorded")


@patiently
def killed(box):
    """The recorder is killed while a program is armed: its sample finds nobody and costs it nothing; the next recorder finds it."""
    name, s = begin(box)
    t = young(box, name)
    os.kill(s.recorder(), signal.SIGKILL)
    began = time.time()
    for _ in range(20):
        t.do("w")
    hw.true(time.time() - began < 1, f"20 blocks took {time.time() - began:.2f} s")
    hw.wait_for(lambda: b"starting again" in s.said(), "it is told")
    hw.wait_for(lambda: (t.do("a 1"), is_joined(t.pid))[1], "the next recorder calls it")
    hw.wait_for(lambda: (t.do("w"), warm(s, t.pid)[1] > 0)[1], "it is recorded")
    t.end()
    s.stop()


@patiently
def stopped(box):
    """The recorder stands still: the first sample waits 200 ms, the others not; what was lost is counted when it answers."""
    name, s = begin(box)
    t = young(box, name)
    recorder = s.recorder()
    os.kill(recorder, signal.SIGSTOP)
    began = time.time()
    t.do("w")
    first = time.time() - began
    for _ in range(9):
        t.do("w")
    rest = time.time() - began - first
    os.kill(recorder, signal.SIGCONT)
    hw.true(first < 0.6 and rest < 0.3, f"first {first:.2f} s, nine others {rest:.2f} s")
    hw.wait_for(lambda: (t.do("w"), time.sleep(0.05), is_joined(t.pid))[2], "it answers late")
    t.do("w")
    t.end()

    def lost():
        return sum(int(Pprof(f).comments.get("lost_samples", 0)) for f in s.files() if f"-{t.pid}-" in f)
    hw.wait_for(lambda: lost() >= 10, f"lost: {lost()}")
    s.stop()


@patiently
def other(box):
    """Another recorder that means the program gets it, as any that runs; the first one waits until it is free."""
    name, s = begin(box)
    t = young(box, name)
    out = box.path("other.trace")
    p = box.start([hw.tool("heapwise"), "attach", str(t.pid), "-i", "1", "-d", "3s", "-o", out])
    hw.wait_for(lambda: (t.do("a 1"), is_joined(t.pid))[1], "it is joined")
    t.do("w")
    p.communicate(timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, "the other recorder")
    hw.true(any("fn_warm" in x.stack for d in Trace(out).of() if d.pid == t.pid for x in d.samples), "it was the other one's")
    hw.wait_for(lambda: (t.do("w"), warm(s, t.pid)[1] > 0)[1], f"then the first one's: {s.said()}")
    t.end()
    s.stop()


@patiently
def stale(box):
    """Armed for a session of a service that is over: with its sample it asks another session of the same service, for which the draw does not
    count, and is recorded from then on."""
    holds()
    env = service(box)
    name = f"arm{os.getpid()}"
    s = Continuous(box, "--name", name, interval=INTERVAL, env=env)
    t = young(box, name)
    s.stop()
    s = Continuous(box, "--name", name, "--shmem-size", "1M", interval=2 * INTERVAL, kept="kept2", log="again.log", env=env)
    t.do("w")  # armed still, or called by now
    hw.wait_for(lambda: (t.do("a 1"), is_joined(t.pid))[1], "it is recorded")
    t.do("a 2000")
    t.end()
    hw.wait_for(lambda: s.files(), "its file")
    s.stop()
    held = sum(Pprof(f).of("fn_a")["alloc_space"] for f in s.files())
    hw.true(abs(held - 2e6) < 4 * math.sqrt(2e6 * 2 * INTERVAL), f"{held} of 2,000,000 bytes")
    hw.equal({Pprof(f).period for f in s.files()}, {2 * INTERVAL}, "its interval")


@patiently
def ended(box):
    """The server ends while a program is armed: nobody is there, and nothing happens to it."""
    name, s = begin(box)
    t = young(box, name)
    s.stop()
    began = time.time()
    t.do("w")
    t.do("w")
    hw.true(time.time() - began < 0.5, f"{time.time() - began:.2f} s")
    hw.true(not is_joined(t.pid), "nobody has it")
    t.end()


@patiently
def sandbox(box):
    """What gives up its system calls while it is armed is not ended by ours."""
    name, s = begin(box)
    shutil.copy(hw.target("sandbox"), box.path(name))
    for how in ("filter", "strict", "call"):
        p = box.start([box.path(name), how], stdin=subprocess.PIPE)
        out, err = p.communicate(b"s" + b"." * 40 + b"q", timeout=hw.CLOCK)
        # It ends by a call that it may make, or is killed by its last one; not before it has said all.
        alone = subprocess.run([hw.target("sandbox"), how], input=b"s" + b"." * 40 + b"q", stdout=subprocess.PIPE, timeout=hw.CLOCK)
        hw.equal((p.returncode, out), (alone.returncode, alone.stdout), f"{how}: {err}")
    s.stop()


@patiently
def forks(box):
    """A server that forks its workers is armed; what its workers have samples of is theirs."""
    holds()
    name = f"arm{os.getpid()}"
    shutil.copy(hw.target("prefork"), box.path(name))
    s = Continuous(box, "--name", name, interval=INTERVAL)
    r = box.run([box.path(name), "1", "4", "300", "1"])
    hw.equal(r.returncode, 0, hw.tail(r.stderr))
    children = re.findall(rb"^pid (\d+)$", r.stdout, re.M)
    hw.equal(len(children), 4, "children")
    s.rounds(2)
    s.stop()


@patiently
def truth(box):
    """Many short programs, most of them without a sample: all files together say what was asked for, within four standard errors."""
    n, each = 300, 30
    name, s = begin(box)
    for _ in range(n):
        t = Stepper(box, name)
        t.do(f"a {each}")
        t.end()
    asked = n * each * 1000

    def found():
        all = [Pprof(f) for f in s.files()]
        return sum(p.of("fn_a")["alloc_space"] for p in all), sum(int(p.comments.get("processes", 1)) for p in all)
    s.rounds(3)
    s.stop()
    space, processes = found()
    error = (space - asked) / math.sqrt(asked * INTERVAL)
    print(f"  {space} of {asked} bytes, {error:.1f} standard errors; {processes} of {n} processes had a sample")
    hw.true(abs(error) < 4, f"{space} of {asked} bytes, {error:.1f} standard errors")
    hw.true(processes < n * 0.7, f"{processes} of {n} programs had a sample")


def run_many(box, name, n, step):
    for _ in range(n):
        t = Stepper(box, name)
        t.do(step)
        t.end()


@patiently
def share(box):
    """Of a program that starts again and again a share is held; the files say what all of them asked for, within four standard errors."""
    n, each, most = 200, 300, 60
    name, s = begin(box, "--max-starts", str(most), every="1s")
    run_many(box, name, n, f"a {each}")
    s.rounds(2)
    s.stop()
    files = [Pprof(f) for f in s.files()]
    space = sum(p.of("fn_a")["alloc_space"] for p in files)
    held = sum(int(p.comments.get("processes", 1)) for p in files)
    starts = sum(int(p.comments.get("starts", p.comments.get("processes", 1))) for p in files)
    # One of 1, 2, 4 and 8 as they come more often: the choice alone.
    choice = math.sqrt(30 * 1 + 60 * 3 + (n - 120) * 7)
    print(f"  {held} of {n} recorded, which stand for {starts}; {space / (n * each * 1000):.2f} of what was asked for")
    hw.true(40 < held < 130, f"{held} of {n} starts were recorded")
    hw.true(abs(starts - n) < 4 * choice + 0.05 * n, f"they stand for {starts} of {n} starts, {choice:.0f} is the standard error")
    # And the figures are multiplied like the starts: given who was chosen only the samples are left to chance, of each process as often as it counts.
    squares = starts + sum(int(p.comments.get("starts_variance", 0)) for p in files)
    sampled = math.sqrt(each * 1000 * INTERVAL * squares)
    hw.true(abs(space - starts * each * 1000) < 4 * sampled, f"{space} bytes of {starts} starts, of {each * 1000} each; standard error {sampled:.0f}")
    error = math.sqrt((each * 1000 * choice) ** 2 + n * each * 1000 * INTERVAL * 8)
    hw.true(abs(space - n * each * 1000) < 4 * error, f"{space} of {n * each * 1000} bytes, standard error {error:.0f}")


@patiently
def share_rare(box):
    """A command that is started once is held, also while the same program is started all the time for others."""
    name, s = begin(box, "--max-starts", "20", every="1s")
    run_many(box, name, 60, "a 1")
    for i in range(5):
        t = Stepper(box, name, f"rare{i}")
        hw.true(t.prepared(), f"the command 'rare{i}' is held at its start")
        t.end()
    s.stop()


@patiently
def share_grown(box):
    """Those that are passed and live on are found when they are no longer young; all that live count for themselves alone."""
    name, s = begin(box, "--max-starts", "6", every="2s")
    run_many(box, name, 40, "a 1")
    them = [Stepper(box, name) for _ in range(8)]
    passed = [t for t in them if not t.prepared()]
    hw.true(passed, "some are passed")
    time.sleep(1)  # shorter than young: a look through /proc comes by
    hw.true(not any(t.prepared() for t in passed), "they are left alone at first")
    for t in them:
        hw.wait_for(lambda: (t.do("a 1"), is_joined(t.pid))[1], f"it is recorded: {s.said()}", 30)
        t.do("w")
    s.rounds(2)
    for t in them:
        t.do("w")
        t.end()
    hw.wait_for(lambda: all(warm(s, t.pid) == [132000, 2] for t in them), f"two blocks of each: {[warm(s, t.pid) for t in them]}")
    s.stop()


if __name__ == "__main__":
    hw.main({"silent": silent, "sampled": sampled, "grown": grown, "execs": execs, "chain": chain, "killed": killed, "stopped": stopped, "other": other,
             "stale": stale, "ended": ended, "sandbox": sandbox, "forks": forks, "truth": truth, "share": share, "share-rare": share_rare, "share-grown": share_grown})
