#!/usr/bin/env python3
"""Programs that start, or get their name, while a recording runs: heap_profile -n, record -n, --all,
--follow-fork. Nothing that happens to the recorder or its helpers may keep a program waiting."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import hw


class Late:
    """tests/targets/late.c: does what it is told, a line at a time."""

    def __init__(self, box, argv, **kw):
        self.p = box.start(argv, stdin=subprocess.PIPE, **kw)
        self.pid = self.p.pid
        hw.equal(self.p.stdout.readline(), b"ready\n", "late")

    def do(self, command):
        """-> {function: [alloc, allocs, live, live objects]} from the start on."""
        self.p.stdin.write(command.encode() + b"\n")
        self.p.stdin.flush()
        out = b""
        while not out.endswith(b"done\n"):
            line = self.p.stdout.readline()
            if not line:
                raise hw.Failure(f"the program ended: {hw.tail(self.p.stderr.read())}")
            if line.startswith(b"child "):
                self.pid = int(line.split()[1])
            out += line
        return hw.expectations(out)

    def end(self):
        self.p.stdin.close()
        hw.equal(self.p.wait(20), 0, "the program's exit")


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
        """{name: pid} of all processes of the recorder."""
        found, todo = {}, [self.recorder()]
        while todo:
            pid = todo.pop()
            with contextlib.suppress(OSError):
                found[pathlib.Path(f"/proc/{pid}/comm").read_text().strip()] = pid
                for t in os.listdir(f"/proc/{pid}/task"):
                    todo += map(int, pathlib.Path(f"/proc/{pid}/task/{t}/children").read_text().split())
        return found

    def end(self, check=0):
        self.p.send_signal(signal.SIGINT)
        hw.equal(self.p.wait(40), check, "heap_profile: " + self.errors())
        return hw.sound(self.out + "/raw-trace")


def holds():
    """Can this machine hold programs at their exec?"""
    r = subprocess.run([hw.tool("heapwise"), "doctor", "--json"], stdout=subprocess.PIPE, timeout=60)
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
    """The program finds its environment as it was given it, and so do its children."""
    holds()
    src = box.path("env.c")
    pathlib.Path(src).write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/auxv.h>\n#include <string.h>\n"
        "extern char **environ;\nint main(int c, char **v) {\n"
        " for (int i = 0; i < c; i++) puts(v[i]);\n for (char **e = environ; *e; e++) puts(*e);\n"
        " puts((char *)getauxval(AT_EXECFN));\n fflush(stdout);\n return system(\"env | sort\"); }\n")
    hw.need("gcc")
    exe = box.path("e_" + box.dir.name.split(".")[-1])
    box.run(["gcc", "-o", exe, src], check=0)
    big = {f"V{i}": "x" * 1000 for i in range(100)}
    cases = [({}, ["a"]), ({"LD_PRELOAD": "libpthread.so.0"}, []), (big, ["b" * 5000] * 20)]
    want = [box.run([exe, *args], env=env).stdout for env, args in cases]
    w = Watch(box, "-n", os.path.basename(exe))
    have = [box.run([exe, *args], env=env).stdout for env, args in cases]
    empty = subprocess.run([exe], env={}, stdout=subprocess.PIPE, timeout=20).stdout
    trace = w.end()
    for h, n in zip(have, want):
        hw.true(h == n, f"have\n{hw.tail(h, 800)}\nwant\n{hw.tail(n, 800)}")
    hw.equal(empty.split(b"\n")[:2], [exe.encode(), exe.encode()], "without an environment")
    hw.equal(len({d.pid for d in trace.dumps}), 4, "processes")


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
        r = box.run([e], timeout=20)
        hw.equal(r.returncode, 7, e + ": " + hw.tail(r.stderr))
        uids = r.stdout.split()[:2]
        hw.equal(uids, [b"0", b"65534"] if "suid_" in e else [b"0", b"0"], e)
    w.p.send_signal(signal.SIGINT)
    w.p.wait(40)


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
    w.p.wait(40)
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
    def whole():
        return {"heapprofd-allow", "heapprofd-find"} <= w.below().keys()
    hw.wait_for(whole, "helpers anew")
    time.sleep(0.3)
    t = Late(box, [exe])
    want = t.do("go 9")
    t.end()
    hw.exact(w.end().last(t.pid), want, "afterwards")


def killed_in_a_storm(box):
    """kill -9 of each in the middle of many starts: every program runs to its end, none stays traced
    or stopped."""
    holds()
    exe = box.own("truth")
    def start():
        return subprocess.Popen([exe], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=box.dir)
    p = start()
    want = (p.communicate(timeout=20)[0], p.returncode)
    for i, who in enumerate(("heapprofd-allow", "heapprofd-find", "heapprofd-guard", "heapprofd")):
        w = Watch(box, "-n", os.path.basename(exe), name=f"out{i}", interval=4096)
        helpers = w.below()
        running = []
        for k in range(24):
            running.append(start())
            if k == 10:
                os.kill(helpers[who], signal.SIGKILL)
        for p in running:
            try:
                out, err = p.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                state = pathlib.Path(f"/proc/{p.pid}/status").read_text()
                raise hw.Failure(f"{who} killed: a program hangs\n{state}")
            hw.equal((out, p.returncode), want, f"{who} killed: {hw.tail(err)}")
        hw.true(spawn_time(5) < 2, "execs afterwards")
        w.p.send_signal(signal.SIGINT)
        w.p.wait(40)
        for pid in helpers.values():
            hw.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), f"{helpers} to end")


def renamed(box):
    """A child of a server that gives itself the name, by prctl or over its arguments, is profiled from
    then on; the server itself is not."""
    exe, tag = box.own("late"), box.dir.name.split(".")[-1]
    for i, how in enumerate(("comm", "argv")):
        want = f"w{i}_{tag}"
        server = Late(box, [exe])
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


if __name__ == "__main__":
    hw.main({"by-name": patiently(by_name), "environment": patiently(environment),
             "running-and-new": patiently(running_and_new), "left-alone": left_alone, "script": patiently(script), "stopped-helpers": stopped_helpers,
             "killed-in-a-storm": killed_in_a_storm, "renamed": renamed})
