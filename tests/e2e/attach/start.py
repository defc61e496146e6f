#!/usr/bin/env python3
"""Programs that start, or get their name, while a recording runs: heap_profile -n, record -n, --all,
--follow-fork. Nothing that happens to the recorder or its helpers may keep a program waiting."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.late import Late
from lib.trace import Trace


def linux():
    return tuple(map(int, os.uname().release.split(".")[:2]))


def since(after, before):
    return {f: [a - b for a, b in zip(after[f], before[f])] for f in after}


def is_joined(pid):
    """Has it a buffer of a recorder?"""
    return any("memfd:" in l and "ring" in l for l in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines())


class Watch:
    """heap_profile -n NAME, until it is told to end."""

    def __init__(self, box, *argv, name="out", interval=1, **kw):
        self.out = box.path(name)
        os.mkdir(self.out)
        self.p = box.start([hw.tool("heap_profile"), "-i", str(interval), "-o", self.out, *argv],
                           stderr=open(box.path(name + ".err"), "wb"), **kw)
        self.err = box.path(name + ".err")
        line = self.p.stdout.readline()
        hw.true(b"active" in line, f"heap_profile: {line} {self.errors()}")

    def errors(self):
        return pathlib.Path(self.err).read_text(errors="replace")

    def recorder(self):
        return int(pathlib.Path(f"/proc/{self.p.pid}/task/{self.p.pid}/children").read_text().split()[0])

    def below(self):
        """{name: pid} of all processes of the recorder, but those that are started when a file has to be read."""
        found, todo = {}, [self.recorder()]
        while todo:
            pid = todo.pop()
            with contextlib.suppress(OSError):
                found[pathlib.Path(f"/proc/{pid}/comm").read_text().strip()] = pid
                for t in os.listdir(f"/proc/{pid}/task"):
                    todo += map(int, pathlib.Path(f"/proc/{pid}/task/{t}/children").read_text().split())
        found.pop("heapprofd-read", None)
        return found

    def end(self, check=0, **kw):
        self.p.send_signal(signal.SIGINT)
        hw.equal(self.p.wait(hw.CLOCK), check, "heap_profile: " + self.errors())
        return hw.sound(self.out + "/raw-trace", **kw)


def holds():
    """Can this machine hold programs at their exec?"""
    r = subprocess.run([hw.tool("heapwise"), "doctor", "--json"], stdout=subprocess.PIPE, timeout=hw.CLOCK)
    for c in json.loads(r.stdout)["checks"]:
        if c["name"] == "starting programs" and c["verdict"] == "good":
            return
    raise hw.Skip("programs cannot be held at their exec here (CAP_SYS_ADMIN, fanotify)")


def patiently(case):
    """A program that waits longer than 20 ms goes on unseen: on a machine with too much to do that is
    nobody's fault, three times in a row it is."""
    def tried(box):
        for last in (False, False, True):
            try:
                return case(box)
            except hw.Failure as e:
                if last:
                    raise
                print(f"  once more: {str(e)[:200]}")
                box.again()
    return tried


def by_name(box):
    """Every new one from its first allocation, by the name it is started with; nobody else."""
    holds()
    name = os.path.basename(box.own("late"))
    w = Watch(box, "-n", name)
    runs = []
    for argv in ([box.own("late")], [box.own("late"), "with", "arguments"]):
        t = Late(box, argv)
        runs.append((t, t.do("go 100")))
    t = Late(box, [name], executable=box.own("late"))  # argv[0] alone
    runs.append((t, t.do("go 10")))
    other = Late(box, ["other"], executable=box.own("late"))
    other.do("go 5")
    for t, _ in runs:
        env = pathlib.Path(f"/proc/{t.pid}/environ").read_bytes()
        hw.true(b"HEAPWISE" not in env and b"LD_PRELOAD" not in env, "its environment")
        t.end()
    trace = w.end()
    for t, want in runs:
        d = trace.last(t.pid)
        hw.exact(d, want, f"process {t.pid}")
        hw.true(d.from_startup, "from_startup")
        hw.true("early" in str([s.stack for s in d.samples]), "its first allocations")
    hw.true(trace.last(other.pid) is None, "the other one is not meant")
    hw.equal(w.errors(), "", "messages")
    other.end()


def environment(box):
    """The program finds its environment as it was given it, and so do its children; and behind the kernel's
    array the auxiliary vector, where runtimes without libc look for it."""
    holds()
    src = box.path("env.c")
    pathlib.Path(src).write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/auxv.h>\n#include <string.h>\n"
        "extern char **environ;\nint main(int c, char **v) {\n"
        " for (int i = 0; i < c; i++) puts(v[i]);\n for (char **e = environ; *e; e++) puts(*e);\n"
        " char **k = v + c + 1;\n for (; *k; k++) if (strstr(*k, \"HEAPWISE\") || strstr(*k, \"heapprofd\")) puts(*k);\n"
        " unsigned long *a = (unsigned long *)(k + 1), page = 0;\n for (; *a; a += 2) if (*a == AT_PAGESZ) page = a[1];\n"
        " printf(\"page %lu\\n\", page);\n"
        " puts((char *)getauxval(AT_EXECFN));\n fflush(stdout);\n return system(\"env | sort\"); }\n")
    hw.need("gcc")
    exe = box.path("e_" + box.dir.name.split(".")[-1])
    box.run(["gcc", "-o", exe, src], check=0)
    big = {f"V{i}": "x" * 1000 for i in range(100)}
    cases = [({}, ["a"]), ({"LD_PRELOAD": "libpthread.so.0"}, []), (big, ["b" * 5000] * 20)]
    want = [box.run([exe, *args], env=env).stdout for env, args in cases]
    w = Watch(box, "-n", os.path.basename(exe))
    have = [box.run([exe, *args], env=env).stdout for env, args in cases]
    empty = subprocess.run([exe], env={}, stdout=subprocess.PIPE, timeout=hw.CLOCK).stdout
    trace = w.end()
    for h, n in zip(have, want):
        hw.true(h == n, f"have\n{hw.tail(h, 800)}\nwant\n{hw.tail(n, 800)}")
    hw.equal(empty.split(b"\n")[:3], [exe.encode(), b"page 4096", exe.encode()], "without an environment")
    hw.equal(len({d.pid for d in trace.dumps}), 4, "processes")


CHILD_OF_A_LIBRARY = r"""
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
extern char **environ;
__attribute__((constructor)) static void begin(void)
{
    char *argv[] = {"cat", "/proc/self/environ", NULL};
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, "cat", NULL, NULL, argv, environ) == 0)
        (void)waitpid(pid, &status, 0);
}
int library_is_there(void)
{
    return 0;
}
"""


def children(box):
    """What a program that was prepared starts has none of our variables: not when our library found no memory for its work or
    for another environment, and not what a library's constructor starts before ours has run."""
    hw.need("gcc")
    ours = {"LD_PRELOAD": hw.preload_library(), "HEAPWISE_SOCKET": box.path("nobody"), "HEAPWISE_HELD": "1"}  # as the finder gives them
    left = lambda out: [l for l in out.decode().split("\0") if "HEAPWISE" in l or "heapprofd" in l]
    before, without = {**os.environ, "LAST": "1"}, 0
    given = [f"{k}={v}" for k, v in ours.items()]
    shown = lambda kib: box.run(["prlimit", f"--as={kib * 1024}", "env", *given, "sh", "-c", "exec cat /proc/self/environ"], env=before)
    for kib in [*range(2500, 24000, 500), *range(24000, 160000, 8000)]:
        r = shown(kib)
        without += r.returncode != 0
        if r.returncode == 0:
            hw.equal(left(r.stdout), [], f"with {kib} KiB of addresses")
            hw.equal(r.stderr, b"", f"messages with {kib} KiB of addresses")
    hw.true(without > 0, "some are too few for the program itself")
    src, lib, exe = box.path("l.c"), box.path("libchild.so"), box.path("m")
    pathlib.Path(src).write_text(CHILD_OF_A_LIBRARY)
    pathlib.Path(box.path("m.c")).write_text("#include <stdlib.h>\nint library_is_there(void);\n"
                                             "int main(void) { return library_is_there() + system(\"echo main; cat /proc/self/environ\"); }\n")
    box.run(["gcc", "-w", "-shared", "-fPIC", "-o", lib, src], check=0)
    box.run(["gcc", "-o", exe, box.path("m.c"), lib, "-Wl,-rpath," + str(box.dir)], check=0)
    for more in ({}, {"LD_PRELOAD": ours["LD_PRELOAD"] + ":libm.so.6"}):
        want = box.run([exe], env={**before, **({"LD_PRELOAD": "libm.so.6"} if more else {})})
        have = box.run([exe], env={**before, **ours, **more})
        hw.equal(left(have.stdout), [], "what the constructor of a library starts")
        words = lambda r: [sorted(set(part.split(b"\0"))) for part in r.stdout.split(b"main\n")]
        hw.equal(words(have), words(want), "environments of both children")
        part = have.stdout.split(b"main\n")[1].split(b"\0")
        hw.equal(len(part), len(set(part)), "each variable once")


def running_and_new(box):
    """-n means both; --no-startup and --no-running each leave out one kind."""
    holds()
    exe = box.own("late")
    name = os.path.basename(exe)
    for i, (option, old_is, new_is) in enumerate([((), True, True), (("--no-startup",), True, False),
                                                  (("--no-running",), False, True)]):
        old = Late(box, [exe])
        w = Watch(box, "-n", name, *option, name=f"out{i}")
        new = Late(box, [exe])
        if old_is:
            hw.wait_for(lambda: is_joined(old.pid), "the running one")
        before = old.do("go 0")
        after, want = old.do("go 20"), new.do("go 30")
        trace = w.end()
        if old_is:
            hw.exact(trace.last(old.pid), since(after, before), f"{option}: the running one")
        if new_is:
            hw.exact(trace.last(new.pid), want, f"{option}: the new one")
        hw.equal([trace.last(old.pid) is not None, trace.last(new.pid) is not None], [old_is, new_is], str(option))
        if old_is and new_is:
            hw.equal([trace.last(p.pid).from_startup for p in (old, new)], [False, True], "from_startup")
        old.end()
        new.end()


def called_a_loader(box):
    """Who mounts another's program under the name of a loader and executes it, as any user may in namespaces of his own, hides
    no later start of that program."""
    holds()
    hw.need("setpriv", "unshare")
    exe = box.own("late")
    box.dir.chmod(0o755)
    w = Watch(box, "-n", os.path.basename(exe))
    fake = f"/tmp/{os.path.basename(exe)}"
    line = f"mkdir {fake} && : > {fake}/ld-linux.so && mount --bind {exe} {fake}/ld-linux.so && exec sh -c 'exec {fake}/ld-linux.so'"
    try:
        r = box.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "unshare", "-U", "-r", "-m", "sh", "-c", line], stdin=b"")
        if b"ready" not in r.stdout:
            raise hw.Skip(f"no namespaces for users: {hw.tail(r.stderr)}")
    finally:
        shutil.rmtree(fake, ignore_errors=True)
    runs = []
    for _ in range(4):
        t = Late(box, [exe])
        runs.append((t, t.do("go 10")))
        t.end()
    trace = w.end()
    held = [(trace.last(t.pid), want) for t, want in runs if trace.last(t.pid) is not None and trace.last(t.pid).from_startup]
    hw.true(held, "recorded from their start, but for one that a busy machine kept waiting")
    for d, want in held:
        hw.exact(d, want, f"process {d.pid}")


def left_alone(box):
    """What must not be touched runs as if nobody looked: set-uid programs, sanitizers; a static one says why."""
    holds()
    hw.need("gcc")
    tag = box.dir.name.split(".")[-1]
    src = box.path("p.c")
    pathlib.Path(src).write_text("#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
                                 "int main(void) { void *p = malloc(100); printf(\"%d %d %p\\n\", getuid(), geteuid(), "
                                 "getenv(\"LD_PRELOAD\")); free(p); return 7; }\n")
    made = {"suid_": [], "asan_": ["-fsanitize=address"], "static_": ["-static"]}
    exes = [box.path(k + tag) for k, f in made.items()
            if box.run(["gcc", "-o", box.path(k + tag), src, *f]).returncode == 0]
    for e in exes:
        if "suid_" in e:
            os.chown(e, 65534, 65534)
            os.chmod(e, 0o6755)
    os.chmod(box.dir, 0o755)
    w = Watch(box, "-n", ",".join(map(os.path.basename, exes)))
    for e in exes:
        r = box.run([e], timeout=hw.CLOCK)
        hw.equal(r.returncode, 7, e + ": " + hw.tail(r.stderr))
        uids = r.stdout.split()[:2]
        hw.equal(uids, [b"0", b"65534"] if "suid_" in e else [b"0", b"0"], e)
    w.p.send_signal(signal.SIGINT)
    w.p.wait(hw.CLOCK)


def script(box):
    """A script is its interpreter's process: that name is meant, as in /proc/PID/cmdline."""
    holds()
    exe, tag = box.own("late"), box.dir.name.split(".")[-1]
    s = box.path("script_" + tag)
    pathlib.Path(s).write_text(f"#!{exe}\n")
    os.chmod(s, 0o755)
    w = Watch(box, "-n", os.path.basename(exe))
    t = Late(box, [s])
    want = t.do("go 3")
    t.end()
    hw.exact(w.end().last(t.pid), want, "the interpreter")
    w = Watch(box, "-n", os.path.basename(s), name="out2")
    t = Late(box, [s])
    t.end()
    w.p.send_signal(signal.SIGINT)
    w.p.wait(hw.CLOCK)
    hw.true("profile is empty" in w.errors(), w.errors())


def spawn_time(n=20, argv=("/bin/true",)):
    """The slowest of n starts, in seconds."""
    slowest = 0
    for _ in range(n):
        start = time.monotonic()
        pid = os.posix_spawn(argv[0], list(argv), dict(os.environ), file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
        os.waitpid(pid, 0)
        slowest = max(slowest, time.monotonic() - start)
    return slowest


def stopped_helpers(box):
    """The recorder, or any of its helpers, is stopped: no exec of the machine waits for it, those that
    are meant included; a stopped helper is replaced."""
    holds()
    exe = box.own("late")
    w = Watch(box, "-n", os.path.basename(exe))
    for who in ("heapprofd", "heapprofd-allow", "heapprofd-find", "heapprofd-guard"):
        pid = w.below()[who]
        os.kill(pid, signal.SIGSTOP)
        slowest = spawn_time()
        meant = spawn_time(5, (exe,))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        print(f"  {who} stopped: slowest start {slowest * 1000:.0f} ms, of one that is meant {meant * 1000:.0f} ms")
        hw.true(slowest < 2 and meant < 2, f"{who} stopped: an exec took {max(slowest, meant):.1f} s")
    guard, finder = (w.below()[n] for n in ("heapprofd-guard", "heapprofd-find"))
    recorder = w.recorder()
    for pid in (recorder, guard, finder):  # nobody is left to replace the finder: the answerer waits 20 ms
        os.kill(pid, signal.SIGSTOP)
    slowest, meant = spawn_time(), spawn_time(1, (exe,))
    print(f"  all but the answerer stopped: {slowest * 1000:.0f} ms, of one that is meant {meant * 1000:.0f} ms")
    hw.true(slowest < 2 and 0.02 < meant < 2, f"all but the answerer stopped: {slowest:.3f} s, {meant:.3f} s")
    os.kill(recorder, signal.SIGCONT)  # which continues the guard, which replaces the finder

    def whole(name, not_pid):
        """All are there, and this one is another."""
        below = w.below()
        return below if {"heapprofd-guard", "heapprofd-allow", "heapprofd-find"} <= below.keys() and below[name] != not_pid else None

    def at_rest():
        """The answerer, too, may be another by now."""
        below = whole("heapprofd-find", finder)
        try:
            for n in ("find", "allow") if below else ():
                hw.idles(below["heapprofd-" + n])
        except (FileNotFoundError, ProcessLookupError):
            return None
        return below
    hw.wait_for(at_rest, "another finder, with nothing to do")
    t = Late(box, [exe])
    want = t.do("go 9")
    t.end()
    below = hw.wait_for(lambda: whole("heapprofd-find", finder), "all helpers")
    everybody = [recorder, *(below["heapprofd-" + n] for n in ("guard", "find", "allow"))]
    # should it fail: the machine goes on all the same
    rescue = threading.Timer(6, lambda: [os.kill(p, signal.SIGKILL) for p in everybody])
    rescue.start()
    for pid in everybody:  # as by a frozen cgroup: the answerer's own time ends it
        os.kill(pid, signal.SIGSTOP)
    slowest = spawn_time(5)
    rescue.cancel()
    print(f"  all of them stopped: {slowest * 1000:.0f} ms")
    hw.true(slowest < 3, f"all of them stopped: {slowest:.3f} s")
    os.kill(recorder, signal.SIGCONT)
    hw.wait_for(lambda: whole("heapprofd-allow", everybody[-1]), "another answerer")
    hw.exact(w.end().last(t.pid), want, "afterwards")


def kill_one(watch, who):
    try:
        os.kill(watch.below()[who], signal.SIGKILL)
        return True
    except (KeyError, ProcessLookupError):
        return False


def killed_in_a_storm(box):
    """kill -9 of each in the middle of many starts: every program runs to its end, none stays traced
    or stopped."""
    holds()
    exe = box.own("truth")
    def start():
        return subprocess.Popen([exe], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=box.dir)
    p = start()
    want = (p.communicate(timeout=hw.CLOCK)[0], p.returncode)
    for i, who in enumerate(("heapprofd-allow", "heapprofd-find", "heapprofd-guard", "heapprofd")):
        w = Watch(box, "-n", os.path.basename(exe), name=f"out{i}", interval=4096)
        helpers = w.below()
        running = []
        for k in range(24):
            running.append(start())
            if k == 10:
                # The one that is there: on a busy machine one that was kept waiting has been replaced.
                hw.wait_for(lambda: kill_one(w, who), f"a {who} to kill")
        for p in running:
            try:
                out, err = p.communicate(timeout=hw.CLOCK)
            except subprocess.TimeoutExpired:
                state = pathlib.Path(f"/proc/{p.pid}/status").read_text()
                raise hw.Failure(f"{who} killed: a program hangs\n{state}")
            hw.equal((out, p.returncode), want, f"{who} killed: {hw.tail(err)}")
        hw.true(spawn_time(5) < 2, "execs afterwards")
        w.p.send_signal(signal.SIGINT)
        w.p.wait(hw.CLOCK)
        for pid in helpers.values():
            hw.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), f"{helpers} to end")


def seen_in_a_storm(box):
    """Programs that are meant are seen among many others that start on busy processors, where the one
    that asks is often interrupted by the one that looks."""
    holds()
    exe, n, late = box.path("g_" + box.dir.name.split(".")[-1]), 60, 3
    shutil.copy(shutil.which("grep"), exe)
    w = Watch(box, "-n", os.path.basename(exe), interval=4096)
    others = [box.start(["sh", "-c", "while :; do /bin/true; done"]) for _ in range(3)]
    missed = sum(box.run([exe, "-q", "heapprofd_glibc", "/proc/self/maps"], timeout=hw.CLOCK).returncode != 0 for _ in range(n))
    for p in others:
        p.kill()
    w.p.send_signal(signal.SIGINT)
    w.p.wait(hw.CLOCK)
    print(f"  {missed} of {n} not seen from their start")
    hw.true(missed <= late, f"{missed} of {n} ran without the library")


def renamed(box):
    """A child of a server that gives itself the name, by prctl or over its arguments, is profiled from
    then on; the server itself is not."""
    exe, tag = box.own("late"), box.dir.name.split(".")[-1]
    for i, (how, env) in enumerate((("comm", {}), ("argv", {}), ("comm", {"LD_PRELOAD": hw.preload_library()}))):
        want = f"w{i}_{tag}"
        server = Late(box, [exe], env=env)
        w = Watch(box, "-n", want, name=f"out{i}")
        parent = server.pid
        server.do("fork")
        server.do("go 3")
        server.do(f"{how} {want}")
        hw.wait_for(lambda: is_joined(server.pid), how)
        before = server.do("go 0")
        after = server.do("go 40")
        trace = w.end()
        hw.exact(trace.last(server.pid), since(after, before), how)
        hw.true(trace.last(parent) is None, "the server")
        server.end()


def attach(box, *argv, trace="out.trace"):
    p = box.start([hw.tool("heapwise"), "attach", "-i", "1", "-q", "-f", "-o", box.path(trace), *argv],
                  stderr=open(box.path("attach.err"), "wb"))
    p.trace = box.path(trace)
    return p


def finish(box, p):
    p.send_signal(signal.SIGINT)
    hw.equal(p.wait(hw.CLOCK), 0, "attach: " + open(box.path("attach.err")).read())
    return hw.sound(p.trace)


def shared_memory(box):
    """Children that run in the memory of an attached process, with and without an exec, end nothing:
    what they allocate is booked there."""
    for follow in ([], ["--follow-fork"]):
        t = Late(box, [hw.target("late")])
        p = attach(box, str(t.pid), *follow)
        hw.wait_for(lambda: is_joined(t.pid), "the attach")
        before = t.do("go 0")
        t.do("vfork 20")
        t.do("clone 20")
        after = t.do("go 10")
        d = finish(box, p).last(t.pid)
        hw.exact(d, since(after, before), f"{follow}")
        hw.true(not d.disconnected, "the profile went on to the end")
        t.end()


def follow_fork(box):
    """An attached process, its child, the child's child and what that executes: each a process of its own."""
    holds()
    t = Late(box, [hw.target("late")])
    first = t.pid
    p = attach(box, str(first), "--follow-fork")
    hw.wait_for(lambda: is_joined(first), "the attach")
    want, before = {}, t.do("go 0")
    own = t.do("go 5")
    want[first] = since(own, before)
    for n in (7, 9):
        t.do("fork")
        rings = lambda: [l for l in pathlib.Path(f"/proc/{t.pid}/maps").read_text().splitlines() if "ring" in l]
        hw.wait_for(rings, "the child to join")
        at = t.do("go 0")
        want[t.pid] = since(t.do(f"go {n}"), at)
    t.do("fork")
    t.p.stdin.write(b"exec\n")
    t.p.stdin.flush()
    hw.equal(t.p.stdout.readline(), b"ready\n", "the program that it executes")
    want[t.pid] = t.do("go 11")
    trace = finish(box, p)
    for pid, w in want.items():
        hw.true(trace.last(pid) is not None, f"{pid} of {list(want)}: have {sorted({d.pid for d in trace.dumps})}")
        hw.exact(trace.last(pid), {k: w[k] for k in ("late_kept", "late_freed")}, f"process {pid}, {first} is the first")
    hw.equal([trace.last(p).from_startup for p in want], [False, False, False, True], "from_startup")
    for pid in list(want)[:3]:
        hw.wait_for(lambda: not is_joined(pid), f"process {pid} to be left")
    t.do("go 1")
    t.end()


def record_name(box):
    """record -n, without a command."""
    holds()
    exe = box.own("late")
    p = box.start([hw.tool("heapwise"), "record", "-n", os.path.basename(exe), "-i", "1", "-o", box.path("n.trace"),
                   "--no-report"], stderr=open(box.path("record.err"), "wb"))
    hw.wait_for(lambda: b"recording the processes" in open(box.path("record.err"), "rb").read(), "record")
    t = Late(box, [exe])
    want = t.do("go 12")
    t.end()
    p.send_signal(signal.SIGINT)
    hw.equal(p.wait(hw.CLOCK), 0, open(box.path("record.err")).read())
    hw.exact(hw.sound(box.path("n.trace")).last(t.pid), want, "record -n")
    for wrong in (["-n", "a", "--", "true"], ["-n", "a", "--all"], ["--no-running", "--", "true"],
                  ["-n", "a", "--no-running", "--no-startup"]):
        hw.equal(box.run([hw.tool("heapwise"), "record", *wrong]).returncode, 2, " ".join(wrong))


def everybody(box):
    """--all: each process that may be profiled, each new one, each forked child. In a pid namespace of
    its own, since the machine's other processes are nobody's business here."""
    holds()
    hw.need("unshare")
    late, out = hw.target("late"), box.path("all.trace")
    shell = f"""
mkfifo a b
{late} <a >a.out & echo $! >a.pid
exec 3>a
until grep -q ready a.out; do sleep 0.02; done
{hw.tool("heapwise")} record --all -i 1 -q --no-report -o {out} 2>rec.err &
rec=$!
until grep -q ring /proc/$(cat a.pid)/maps; do sleep 0.02; done
{late} <b >b.out & echo $! >b.pid
exec 4>b
echo go 10 >&3; echo go 20 >&4
until grep -q done a.out && grep -q done b.out; do sleep 0.02; done
echo fork >&4
until grep -q child b.out; do sleep 0.02; done
child=$(sed -n 's/^child //p' b.out)
until grep -q ring /proc/$child/maps; do sleep 0.02; done
echo go 30 >&4
until [ $(grep -c done b.out) = 3 ]; do sleep 0.02; done
kill -INT $rec; wait $rec; echo status $?
"""
    r = box.run(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", shell], timeout=hw.CLOCK)
    hw.true(b"status 0" in r.stdout, hw.tail(r.stdout) + hw.tail(r.stderr) + open(box.path("rec.err")).read())
    trace = hw.sound(out)
    a, b = (int(open(box.path(f"{x}.pid")).read()) for x in "ab")
    child = int([l for l in open(box.path("b.out")) if l.startswith("child")][0].split()[1])
    hw.equal([trace.last(p).from_startup for p in (a, b, child)], [False, True, False], "from_startup")
    kept = lambda pid: trace.last(pid).by_function(["late_kept"])["late_kept"][1]
    hw.equal([kept(a), kept(b)], [10, 20], "allocations of the running one and the new one")
    hw.true(0 < kept(child) <= 30, f"the child: {kept(child)}")


def not_held(box):
    """Without the right to hold programs they are found, attached to, and it is said what is missing."""
    hw.need("setpriv")
    exe = box.own("late")
    os.chmod(box.dir, 0o755)
    out = box.path("out")
    os.mkdir(out)
    err = box.path("out.err")
    p = box.start(["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-all", hw.tool("heap_profile"), "-n",
                   os.path.basename(exe), "-i", "1", "-o", out], stderr=open(err, "wb"))
    hw.true(b"active" in p.stdout.readline(), open(err).read())
    t = Late(box, [exe])
    start = time.monotonic()
    hw.wait_for(lambda: is_joined(t.pid) or p.poll() is not None, "it to be found")
    hw.true(is_joined(t.pid), open(err).read())
    print(f"  found and attached {(time.monotonic() - start) * 1000:.0f} ms after its start")
    before = t.do("go 0")
    after = t.do("go 10")
    t.end()
    p.send_signal(signal.SIGINT)
    hw.equal(p.wait(hw.CLOCK), 0, open(err).read())
    d = hw.sound(out + "/raw-trace").last(t.pid)
    hw.exact(d, since(after, before), "from then on")
    hw.true(not d.from_startup, "from_startup")
    text = open(err).read()
    hw.true("ms after its start: what it allocated before that is missing" in text,
            f"no word about what is missing: {text!r}")


def two_watch(box):
    """Two commands watch for one name, and a program of it is over at once: one has it, the other is told which."""
    holds()
    exe = box.own("late")
    watches = [Watch(box, "-n", os.path.basename(exe), name=name) for name in ("a", "b")]
    p = subprocess.run([exe], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, "the program's exit")
    for w in watches:
        hw.idles(w.p.pid, 0.3)
    codes = []
    for w in watches:
        w.p.send_signal(signal.SIGINT)
        codes.append(w.p.wait(hw.CLOCK))
    has = [c == 0 for c in codes]
    hw.equal(sorted(has), [False, True], f"one has it: {codes} {[w.errors() for w in watches]}")
    other, first = watches[has.index(False)], watches[has.index(True)]
    text = other.errors()
    hw.true(f"another recorder has it (process {first.p.pid}, 'heap_profile " in text, text)
    hw.true("the profile is empty: process " in text and "named" not in text, text)


def memory_without_an_answer(box):
    """Arguments in memory that nobody answers for (userfaultfd): the execs of others go on, whoever asked
    for them is replaced, and later programs are seen."""
    holds()
    hw.need("gcc")
    src, exe = box.path("h.c"), box.own("late")
    pathlib.Path(src).write_text("""
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(unsigned long)p, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &r)) return 3;
    puts("now"); fflush(stdout);
    char *argv[] = {p, 0};
    execv("/bin/true", argv);
    return 4; }
""")
    box.run(["gcc", "-w", "-o", box.path("h"), src], check=0)
    w = Watch(box, "-n", os.path.basename(exe))
    answerer = w.below()["heapprofd-allow"]
    h = box.start([box.path("h")])
    if h.stdout.readline() != b"now\n":
        raise hw.Skip("no userfaultfd here")
    slowest = spawn_time(10)
    print(f"  slowest start {slowest * 1000:.0f} ms")
    hw.true(slowest < 2, f"an exec took {slowest:.1f} s")
    hw.wait_for(lambda: w.below().get("heapprofd-allow", answerer) != answerer, "another answerer")
    hw.idles(w.below()["heapprofd-allow"])
    t = Late(box, [exe])
    want = t.do("go 9")
    t.end()
    h.kill()
    hw.exact(w.end().last(t.pid), want, "afterwards")


def short_lived(box):
    """Static programs are found and attached to; most of these end meanwhile. The recorder stays, and so
    does each program's result."""
    holds()
    hw.need("gcc")
    src, exe = box.path("s.c"), box.path("s_" + box.dir.name.split(".")[-1])
    pathlib.Path(src).write_text("#include <stdlib.h>\n#include <unistd.h>\nint main(int c, char **v) { "
                                 "for (int i = atoi(v[1]); i >= 0; i--) { free(malloc(100)); usleep(500); } return 7; }\n")
    if box.run(["gcc", "-static", "-o", exe, src]).returncode:
        raise hw.Skip("no static libc")
    w = Watch(box, "-n", os.path.basename(exe))
    for i in range(60):
        hw.equal(box.run([exe, str(i % 30)], timeout=hw.CLOCK).returncode, 7, f"run {i}")
    w.p.send_signal(signal.SIGINT)
    w.p.wait(hw.CLOCK)
    hw.true("recorder is gone" not in w.errors(), w.errors())


def of_a_user(box):
    """A service of root's holds for a user the processes that are his, and nobody else's of that name."""
    holds()
    hw.need("setpriv")
    exe, out, user = box.own("late"), box.path("user"), ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    os.chmod(box.dir, 0o755)
    os.mkdir(out)
    os.chown(out, 65534, 65534)
    s = box.start([hw.tool("heapprofd")], stderr=open(box.path("service.log"), "wb"))
    hw.wait_for(lambda: os.path.exists(box.path("consumer")), "the service")
    p = box.start([*user, hw.tool("heap_profile"), "-n", os.path.basename(exe), "-i", "1", "-o", out],
                  stderr=open(box.path("user.err"), "wb"))
    hw.true(b"active" in p.stdout.readline(), open(box.path("user.err")).read())
    theirs = Late(box, [*user, exe])
    roots = Late(box, [exe])
    want = theirs.do("go 8")
    roots.do("go 9")
    maps = pathlib.Path(f"/proc/{roots.pid}/maps").read_text()
    hw.true("heapprofd" not in maps, "another user's process was touched")
    theirs.end()
    roots.end()
    p.send_signal(signal.SIGINT)
    hw.equal(p.wait(hw.CLOCK), 0, open(box.path("user.err")).read())
    trace = hw.sound(out + "/raw-trace")
    hw.exact(trace.last(theirs.pid), want, "the user's own")
    hw.true(trace.last(theirs.pid).from_startup, "from_startup")
    hw.equal({d.pid for d in trace.dumps}, {theirs.pid}, "processes")
    s.terminate()
    hw.equal(s.wait(hw.CLOCK), 0, "the service")


PROBE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
extern char **environ;
int main(int argc, char **argv)
{
    char line[4096];
    for (int i = 0; i < argc; i++)
        puts(argv[i]);
    for (char **e = environ; *e; e++)
        puts(*e);
    for (char **e = argv + argc + 1; *e; e++)
        puts(*e);
    puts((char *)getauxval(AT_EXECFN));
    FILE *f = fopen("/proc/self/maps", "r");
    for (int i = 0; f && fgets(line, sizeof line, f); i++)
        if (strstr(line, "heapprofd") || strstr(line, "memfd") || strstr(line, "heapwise"))
            fputs(line, stdout);
    fflush(stdout);
    free(malloc(100));
    return system("env | sort | grep -v '^_='") ? 1 : 7;
}
"""


def others(box):
    """{what: argv} of programs that nobody asks for."""
    src, exe, s = box.path("probe.c"), box.path("probe"), box.path("probe.sh")
    hw.need("gcc")
    pathlib.Path(src).write_text(PROBE)
    box.run(["gcc", "-o", exe, src], check=0)
    pathlib.Path(s).write_text(f"#!/bin/sh\n{exe} script; echo $?\ngrep -c heapprofd /proc/self/maps\n")
    os.chmod(s, 0o755)
    os.chmod(box.dir, 0o755)
    shutil.copy(exe, box.path("suid"))
    os.chown(box.path("suid"), 65534, 65534)
    os.chmod(box.path("suid"), 0o6755)
    crt = "/usr/lib32/"  # without the compiler's own library, which not every compiler has for these
    bits32 = box.run(["gcc", "-m32", "-no-pie", "-fno-pic", "-fno-stack-protector", "-idirafter", "/usr/include/x86_64-linux-gnu",
                      "-nostdlib", "-o", box.path("probe32"), crt + "crt1.o", crt + "crti.o", src, "-lc", crt + "crtn.o"]).returncode == 0
    return {"32 bits": [box.path("probe32") if bits32 else exe, "a"], "plain": [exe, "a", "b"], "script": [s], "own name": ["bash", "-c", f"exec -a other {exe} x"],
            "set-uid": [box.path("suid")], "other user": ["setpriv", "--reuid", "65534", "--clear-groups", exe],
            "python": [sys.executable, "-c", "print(open('/proc/self/maps').read().count('heapprofd'))"],
            "env": ["env", "-i", exe], "traced": ["strace", "-qq", "-o", "/dev/null", exe] if shutil.which("strace") else [exe]}


def clean(box, argv):
    r = box.run(argv, timeout=hw.CLOCK)
    return r.stdout, r.stderr, r.returncode


def asked_of_the_finder(starts=200):
    """How often it is woken beside so many programs, but for what it does by itself: it wakes three times a second, and looks into /proc once."""
    finder = next(p.parent for p in pathlib.Path("/proc").glob("[0-9]*/comm") if p.read_text() == "heapprofd-find\n")
    woken = lambda: int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (finder / "status").read_text(), re.M)[1])
    before, began = woken(), time.monotonic()
    subprocess.run(["sh", "-c", f"i=0; while [ $i -lt {starts} ]; do /bin/true; i=$((i + 1)); done"], check=True)
    return woken() - before - 5 * (time.monotonic() - began)


@hw.by_themselves
def nobody_asked(box):
    """200 programs that start while rules name others, by name, group, role and user, or the policy says never: each has
    the environment, maps, output and exit status that it has alone, and one process is woken for it where that is enough."""
    holds()
    hw.need("setpriv")
    programs = others(box)
    want = {k: clean(box, a) for k, a in programs.items()}
    policy = box.path("policy")
    pathlib.Path(policy).write_text("never = probe probe32 suid python3*\n")
    os.chmod(policy, 0o644)
    rules = [["--name", "nobody_has_this"], ["--name", "cgroup:/nobody/is/here"], ["--name", "role:nobody"],
             ["--policy", policy, "--name", "probe,probe32,suid,name:python3*,cgroup:/"]]
    for i, rule in enumerate(rules):
        log = box.path(f"serve{i}.log")
        p = box.start([hw.tool("heapwise"), "serve", "--continuous", "--profiles", box.path(f"kept{i}"), *rule], stderr=open(log, "wb"))
        hw.wait_for(lambda: p.poll() is not None or b"Ctrl-C ends" in open(log, "rb").read(), "the server")
        hw.true(p.poll() is None, open(log).read())
        for n in range(50):
            what = list(programs)[n % len(programs)]
            if "--policy" in rule and what in ("script", "env", "own name"):
                continue  # sh, env and cat are in the group, too, and nothing forbids them
            hw.equal(clean(box, programs[what]), want[what], f"{what} beside {rule}")
        if rule[-1] in ("nobody_has_this", "role:nobody") or rule[-1].startswith("cgroup:/nobody") and linux() >= (6, 8):
            n = asked_of_the_finder()
            hw.true(n < 100, f"the answerer alone decides about 200 programs: the finder was woken {n:.0f} times beside {rule}")
        p.send_signal(signal.SIGINT)
        hw.equal(p.wait(hw.CLOCK), 0, open(log).read())


@hw.by_themselves
def by_role(box):
    """Of a role, by variable or argument, wherever it stands among many that cross pages: prepared. Others are not, nor is one
    whose variable begins like that."""
    holds()
    exe, log = box.own("late"), box.path("serve.log")
    prepared = lambda t: "heapprofd_glibc" in pathlib.Path(f"/proc/{t.pid}/maps").read_text()
    p = box.start([hw.tool("heapwise"), "serve", "--continuous", "--profiles", box.path("kept"), "--name", "role:mine"], stderr=open(log, "wb"))
    hw.wait_for(lambda: p.poll() is not None or b"Ctrl-C ends" in open(log, "rb").read(), "the server")
    many = [f"V{i}={'x' * (i * 37 % 700)}" for i in range(300)]
    cases = [(True, ["MEMLOG_ROLE=mine"], []), (True, [*many, "MEMLOG_ROLE=mine"], []), (True, [*many[:100], "MEMLOG_ROLE=mine", *many[100:]], []),
             (True, [], ["--type=mine"]), (True, many, [*many[:30], "--type=mine", "last"]), (False, [*many, "MEMLOG_ROLE=mine2"], []),
             (False, many, [*many[:30], "--type=other"]), (False, ["MEMLOG_ROL=mine"], [])]
    for want, environment, arguments in cases:
        t = Late(box, ["env", "-i", *environment, exe, *arguments])
        hw.equal(prepared(t), want, str([w[:20] for w in environment[-2:] + arguments[-2:]]))
        t.end()
    p.send_signal(signal.SIGINT)
    hw.equal(p.wait(hw.CLOCK), 0, open(log).read())


@hw.by_themselves
def by_group(box):
    """Of a control group: who starts there is prepared, whoever else is not; a child of his is who is there, too."""
    holds()
    root = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
    group = f"{root}/{box.dir.name.replace('.', '_')}"
    try:
        os.mkdir(group)
    except OSError as e:
        raise hw.Skip(f"no control group can be made: {e}")
    if not os.path.exists(group + "/cgroup.procs"):
        raise hw.Skip("no control groups of version 2")
    exe, log = box.own("late"), box.path("serve.log")
    enter = ["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"]
    prepared = lambda t: "heapprofd_glibc" in pathlib.Path(f"/proc/{t.pid}/maps").read_text()
    try:
        p = box.start([hw.tool("heapwise"), "serve", "--continuous", "--profiles", box.path("kept"), "--name",
                       "cgroup:/" + os.path.basename(group)], stderr=open(log, "wb"))
        hw.wait_for(lambda: p.poll() is not None or b"Ctrl-C ends" in open(log, "rb").read(), "the server")
        outside, inside = Late(box, [exe]), Late(box, [*enter, exe])
        hw.equal([prepared(outside), prepared(inside)], [False, True], "outside, inside")
        outside.end()
        inside.end()
        p.send_signal(signal.SIGINT)
        hw.equal(p.wait(hw.CLOCK), 0, open(log).read())
    finally:
        for t in range(50):
            with contextlib.suppress(OSError):
                os.rmdir(group)
                break
            time.sleep(0.05)


NEEDS = {  # what a filter answers to which call, and the call that is named
    "no socket": (hw.calls(41, hw.ERROR, (0, ~0 & 0xffffffff, 1)), "socket"),  # RestrictAddressFamilies= without AF_UNIX
    "no ppoll": (hw.calls(271, hw.KILL), "ppoll"),
    "no mapping from the ninth descriptor": (hw.calls(9, hw.TRAP, (4, 0xffffffff, 9)), "mmap"),  # which it will be is not known
    "no high descriptor": (hw.calls(72, hw.ERROR, (1, 0xffffffff, 1030)), "fcntl"),
    "somebody is asked": (hw.calls(47, hw.NOTIFY), "recvmsg"),
}
FINE = {
    "all": [],
    "as a unit has them": [hw.calls(169, hw.KILL), hw.calls(9, hw.ERROR, (2, 6, 6)), hw.calls(10, hw.ERROR, (2, 4, 4)),
                           hw.calls(41, hw.ERROR, (0, 0xffffffff, 2)), hw.calls(56, hw.ERROR, (0, 0x7e020000, 0x7e020000)),
                           hw.calls(257, hw.ERROR, (2, 0x40, 0x40), (3, 0xc00, 0xc00))],
    "what it can do without": [hw.calls(n, hw.ERROR) for n in (28, 302, 318, 324, 186)],  # madvise prlimit64 getrandom membarrier gettid
    "logged": [hw.calls(47, hw.LOG)],
}


def filtered(box):
    """A program that starts under filters of system calls (as a unit's) is recorded from its first allocation, if they let through
    what that takes; else it is left alone, runs as it does by itself, and what its filter forbids is told."""
    if os.geteuid() != 0:
        raise hw.Skip("only root may read filters")
    holds()
    exe = box.own("late")
    w, seen = Watch(box, "-n", os.path.basename(exe)), {}
    for what, filters in FINE.items():
        t = Late(box, [exe], preexec_fn=lambda: hw.filter_calls(*filters))
        hw.true(is_joined(t.pid), f"{what}: not held: {w.errors()}")
        want = t.do("go 100")
        want = t.do("threads 20")
        t.end()
        seen[what] = t.pid, want
    for what, (code, name) in NEEDS.items():
        t = Late(box, [exe], preexec_fn=lambda: hw.filter_calls(code))
        t.do("go 10")
        of_it = lambda: "".join(l for l in w.errors().splitlines() if f"process {t.pid}" in l and "(seccomp)" in l)
        with contextlib.suppress(hw.Failure):
            hw.wait_for(of_it, what)
        told = of_it()
        hw.true(f" of {name}, " in told, f"{what}: {told}")
        hw.true("libheapprofd" not in pathlib.Path(f"/proc/{t.pid}/maps").read_text(), what)
        t.do("threads 5")
        t.end()
    trace = w.end(allow=("disconnected", "rejected"))
    for what, (pid, want) in seen.items():
        d = trace.last(pid)
        hw.exact(d, want, what)
        hw.true(d.from_startup and "early" in str([s.stack for s in d.samples]), f"{what}: from its start")


def filtered_recorder(box):
    """Who has filters himself is shown none: then only programs without any are held, and the others are told of."""
    if os.geteuid() != 0:
        raise hw.Skip("only root may read filters")
    holds()
    exe = box.own("late")
    w = Watch(box, "-n", os.path.basename(exe), preexec_fn=hw.filter_calls)
    t = Late(box, [exe], preexec_fn=hw.filter_calls)
    free = Late(box, [exe])
    hw.true(is_joined(free.pid) and not is_joined(t.pid), f"held: {w.errors()}")
    t.do("go 10")
    with contextlib.suppress(hw.Failure):
        hw.wait_for(lambda: "the recorder itself runs under" in w.errors(), "it to be told")
    hw.true(f"process {t.pid}" in w.errors() and "the recorder itself runs under" in w.errors(), f"told: {w.errors()}")
    free.do("go 10")
    t.end()
    free.end()
    trace = w.end(allow=("disconnected", "rejected"))
    hw.true(trace.last(free.pid).from_startup and trace.last(t.pid) is None, "only the one without filters")


ONLY = ("fork", "vfork", "threads", "marks", "dlloop", "managed", "custom", "saturate", "crossfree", "realloc")


def watches(p):
    """Waits until a command holds programs at their start."""
    w = Watch.__new__(Watch)
    w.p = p

    def holds_them():
        with contextlib.suppress(OSError, IndexError):
            return "heapprofd-allow" in w.below()
    hw.wait_for(holds_them, "who answers the kernel")
    hw.idles(w.below()["heapprofd-allow"])


def only_options(box):
    """The same with all that can be asked for, a buffer that is too small, and programs that fork, load and unload, tell of scopes, and share heaps."""
    if os.geteuid() != 0:
        raise hw.Skip("only root may read filters")
    holds()
    for name in ONLY:
        exe, own = box.own(name), box.path("own." + name)
        r = box.run([hw.target("only"), "learn", own, exe])
        if r.returncode == 77:
            continue
        hw.equal(r.returncode, 0, f"{name} alone: {hw.tail(r.stderr)}")
        p = box.start([hw.tool("heapwise"), "record", "-q", "-f", "-n", os.path.basename(exe), "-i", "1", "--all-heaps", "--follow-fork", "--types",
                       "--slices", "--scopes", "*", "--stack-mode", "mixed", "--malloc-info", "20ms", "--shmem-size", "64K", "-c", "200ms", "--no-report",
                       "-o", box.path(name + ".trace")], stderr=open(box.path(name + ".err"), "wb"))
        watches(p)
        r = box.run([hw.target("only"), "held", own, exe])
        hw.equal(r.returncode, 0, f"{name}: {hw.tail(r.stderr)}")
        p.send_signal(signal.SIGINT)
        p.wait(hw.CLOCK)
        trace = Trace(box.path(name + ".trace"))
        hw.true([d for d in trace.dumps if d.samples and d.from_startup], f"{name}: {open(box.path(name + '.err')).read()}")


def held(box, argv):
    """A program that is held: the first ones make its file known, which nobody waits for longer than 20 ms."""
    for tries in range(50):
        t = Late(box, argv)
        if is_joined(t.pid):
            return t
        t.end()
    raise hw.Failure(f"none of {tries + 1} is held")


def only_calls(box):
    """Under a filter that lets through its own calls and those that we say are needed, and ends it at any other, it is held and recorded
    to its end: there is no call that we forgot."""
    if os.geteuid() != 0:
        raise hw.Skip("only root may read filters")
    holds()
    exe, own = box.own("late"), box.path("own")
    script = ["go 100", "ways 10", "threads 20", "go 10"]
    r = box.run([hw.target("only"), "learn", own, exe], stdin="".join(l + "\n" for l in script).encode())
    hw.equal(r.returncode, 0, hw.tail(r.stderr))
    w = Watch(box, "-n", os.path.basename(exe))
    t = held(box, [hw.target("only"), "held", own, exe])
    for command in script:
        want = t.do(command)
    t.end()
    alone = Late(box, [hw.target("only"), "alone", own, exe])
    hw.true(not is_joined(alone.pid), "its own calls are enough?")
    for command in script:
        alone.do(command)
    alone.end()
    d = w.end(allow=("disconnected", "rejected")).last(t.pid)  # who was not held may be found later, and then refused
    hw.exact(d, want, "held")
    hw.true(d.from_startup, "from its start")


STORM = r"""
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) /* N RATE EVERY MEANT OTHER: starts N, one in EVERY of them MEANT; both exit with 7 */
{
    long n = atol(argv[1]), rate = atol(argv[2]), every = atol(argv[3]), wrong = 0, out = 0;
    struct timespec b, t;
    clock_gettime(CLOCK_MONOTONIC, &b);
    for (long i = 0; i < n || out; ) {
        int status;
        pid_t pid;
        clock_gettime(CLOCK_MONOTONIC, &t);
        if (i < n && out < 16 && (t.tv_sec - b.tv_sec) * 1e9 + (t.tv_nsec - b.tv_nsec) >= i * 1e9 / rate) {
            char *a[] = {argv[i % every ? 5 : 4], NULL};
            if (posix_spawn(&pid, a[0], NULL, NULL, a, environ))
                return 1;
            if (i++ % every == 0)
                printf("%d\\n", pid);
            out++;
        }
        while ((pid = waitpid(-1, &status, out == 16 || i == n ? 0 : WNOHANG)) > 0) {
            wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
            out--;
            if (out < 16 && i < n)
                break;
        }
        usleep(50);
    }
    printf("wrong %ld\\n", wrong);
    return argc == 6 ? 0 : 1;
}
"""


@hw.by_themselves
def storm(box):
    """2,000 short programs a second, one in a hundred of them meant: each ends as it does alone, each that is meant is seen
    and its end, too, nobody becomes a zombie, and the recorder and its helpers hold what they held before."""
    holds()
    hw.need("gcc")
    n, every, tag = 4000, 100, box.dir.name.split(".")[-1]
    meant, other, starter = box.path("meant_" + tag), box.path("other"), box.path("starter")
    pathlib.Path(box.path("m.c")).write_text("#include <stdlib.h>\nint main(void) { void *volatile p = malloc(100); return p ? 7 : 1; }\n")
    pathlib.Path(box.path("s.c")).write_text(STORM.replace("\\\\n", "\\n"))
    box.run(["gcc", "-o", meant, box.path("m.c")], check=0)
    shutil.copy(meant, other)
    box.run(["gcc", "-w", "-o", starter, box.path("s.c")], check=0)
    w = Watch(box, "-n", os.path.basename(meant))
    helpers = w.below()
    count = lambda: {k: len(os.listdir(f"/proc/{p}/fd")) for k, p in helpers.items()}
    cpu = lambda: sum(sum(map(int, pathlib.Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) for p in helpers.values())
    box.run([starter, "200", "2000", "100", meant, other], check=0)
    for pid in helpers.values():
        hw.idles(pid, 0.3)
    before, ticks, start = count(), cpu(), time.monotonic()
    r = box.run([starter, str(n), "2000", str(every), meant, other], check=0, timeout=hw.CLOCK)
    took, ticks = time.monotonic() - start, cpu() - ticks
    pids = [int(x) for x in r.stdout.split()[:-2]]
    hw.true(r.stdout.endswith(b"wrong 0\n"), hw.tail(r.stdout, 100))
    hw.equal(w.below(), helpers, "recorder and helpers")
    hw.wait_for(lambda: count() == before, f"descriptors of {before}, have {count()}")
    states = [p.read_text().rsplit(")", 1)[1].split()[0] for p in pathlib.Path("/proc").glob("[0-9]*/stat")]
    hw.true("Z" not in states, "a zombie")
    us = ticks * 1e6 / os.sysconf("SC_CLK_TCK") / n
    print(f"  {n / took:.0f} starts a second, {us:.0f} us of CPU each for the watch")
    hw.true(us < 500, f"{us:.0f} us of CPU for each start")
    trace = w.end()
    missed = [p for p in pids if trace.last(p) is None or not trace.last(p).from_startup]
    late = [p for p in missed if trace.last(p) is not None]
    print(f"  {len(missed)} of {len(pids)} not seen from their start, {len(late)} later")
    hw.true(len(missed) <= len(pids) // 20, f"not seen: {missed}")


if __name__ == "__main__":
    hw.main({"filtered": patiently(filtered), "only-calls": patiently(only_calls), "only-options": patiently(only_options), "filtered-recorder": patiently(filtered_recorder), "storm": patiently(storm), "nobody-asked": nobody_asked, "by-role": patiently(by_role), "by-group": patiently(by_group), "by-name": patiently(by_name), "environment": patiently(environment), "children": children, "left-alone": left_alone, "called-a-loader": called_a_loader,
             "running-and-new": patiently(running_and_new), "script": patiently(script), "renamed": renamed,
             "stopped-helpers": patiently(stopped_helpers), "killed-in-a-storm": killed_in_a_storm,
             "seen-in-a-storm": patiently(seen_in_a_storm),
             "shared-memory": shared_memory, "follow-fork": patiently(follow_fork), "all": patiently(everybody),
             "record-name": patiently(record_name), "not-held": not_held, "two-watch": patiently(two_watch), "of-a-user": patiently(of_a_user),
             "short-lived": short_lived, "memory-without-an-answer": patiently(memory_without_an_answer)})
