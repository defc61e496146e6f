#!/usr/bin/env python3
"""Programs that run already: heapwise attach, heap_profile -p and -n, and leaving them as they were."""
import contextlib
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.late import Late
from lib.trace import Trace

ROUNDS = 1000 if os.environ.get("HW_LONG") else 100


def maps(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text()


def fds(pid):
    return sorted(os.listdir(f"/proc/{pid}/fd"))


def resting_fds(pid):
    """Those that stay: libc reads a file of /sys when a thread makes its first arena."""
    stay = set(fds(pid))
    for _ in range(10):
        time.sleep(0.02)
        stay &= set(fds(pid))
    return sorted(stay)


def rings(pid):
    return {l for l in maps(pid).splitlines() if "memfd:" in l and "ring" in l}


def known_blocks(pid):
    """Mappings as large as what the client keeps free for what it knows of living blocks at small intervals: parts of
    320 MiB, of which those in use are cut out. Libc's own are 64 MiB at most."""
    ranges = [l.split() for l in maps(pid).splitlines()]
    sizes = [int(r[0].split("-")[1], 16) - int(r[0].split("-")[0], 16) for r in ranges if r[1:5] == ["---p", "00000000", "00:00", "0"]]
    return [n for n in sizes if n >> 20 > 64]


def is_joined(pid, before=()):
    return rings(pid) - set(before)


def attach(box, *argv, trace="out.trace", interval=1):
    p = box.start([hw.tool("heapwise"), "attach", "-i", str(interval), "-f", "-o", box.path(trace), *argv],
                  stdout=open(box.path("attach.out"), "wb"), stderr=open(box.path("attach.err"), "wb"))
    p.trace = box.path(trace)
    return p


def joined(box, p, pid, before=()):
    def ready():
        hw.true(p.poll() is None, "attach ended: " + hw.tail(open(box.path("attach.err"), "rb").read()))
        return is_joined(pid, before)
    hw.wait_for(ready, "the program to join the recording")


def finish(box, p, signal_=signal.SIGINT):
    if signal_:
        p.send_signal(signal_)
    hw.equal(p.wait(hw.CLOCK), 0, "attach: " + hw.tail(open(box.path("attach.err"), "rb").read()))
    return hw.sound(p.trace)


def since(after, before):
    return {f: [a - b for a, b in zip(after[f], before[f])] for f in after}


def left_alone(pid, fds_before):
    hw.equal(fds(pid) if fds(pid) == fds_before else resting_fds(pid), fds_before, "descriptors after the detach")
    hw.true(not is_joined(pid), "the buffer is still mapped after the detach")
    hw.equal(sum("hw-" in l for l in maps(pid).splitlines()), 0, "memory files of the recorder")
    hw.equal(known_blocks(pid), [], "what was known of living blocks is mapped after the detach")


def exact(box):
    """Every allocation behind the attach, and none before; frees of older blocks are nobody's; what
    they are reallocated to counts. Three times, with every way to end it."""
    t = Late(box)
    before, have_fds = t.do("go 10"), resting_fds(t.pid)
    for i in range(3):
        p = attach(box, str(t.pid))
        joined(box, p, t.pid)
        t.do("go 500")
        hw.true(known_blocks(t.pid), "what is known of living blocks is mapped")
        after = t.do("old") if i == 0 else t.do("go 1")
        if i == 1:
            box.run([hw.tool("heapwise"), "stop", str(t.pid)], check=0)
        trace = finish(box, p, None if i == 1 else signal.SIGINT)
        hw.exact(trace.last(), since(after, before), f"round {i}")
        hw.true("beat" in str([s.stack for s in trace.last().samples]), "its own blocks are there, too")
        hw.true("early" not in str([s.stack for s in trace.last().samples]), "nothing from before")
        left_alone(t.pid, have_fds)
        before = after
        mapped = len(maps(t.pid).splitlines()) if i == 0 else mapped
    hw.equal(len(maps(t.pid).splitlines()), mapped, "mappings after the third detach and the first")
    t.do("go 5")
    t.end()


def modules(box):
    """A library that is loaded while the recording runs is hooked, too."""
    t = Late(box)
    p = attach(box, str(t.pid))
    joined(box, p, t.pid)
    before = hw.slots(t.pid)
    t.do("plug " + str(hw.TARGETS / "libhwplug.so"))
    hw.wait_for(lambda: hw.slots(t.pid) > before, "its entries to be hooked, too")
    want = t.do("use 300")
    trace = finish(box, p)
    hw.exact(trace.last(), {"plug_alloc": want["plug_alloc"]}, "the library's own calls")
    t.end()


def by_name(box):
    """-n and a time: the running one of that name, which goes on."""
    name = box.own("late")
    t = Late(box, [name])
    p = attach(box, os.path.basename(name), "-d", "1s")
    joined(box, p, t.pid)
    t.do("go 100")
    trace = finish(box, p, None)
    hw.equal(trace.last().pid, t.pid, "pid")
    hw.true(not trace.last().from_startup, "from_startup")
    os.mkdir(box.path("out"))
    r = box.start([hw.tool("heap_profile"), "-n", os.path.basename(name), "-i", "1", "-o", box.path("out"),
                   "-d", "1500"])
    hw.wait_for(lambda: is_joined(t.pid), "heap_profile -n to attach")
    before = t.do("go 0")
    after = t.do("go 50")
    hw.equal(r.wait(hw.CLOCK), 0, "heap_profile -n")
    hw.exact(hw.sound(box.path("out/raw-trace")).last(), since(after, before), "heap_profile -n")
    t.end()


def two_recorders(box):
    """Without a service: the second recorder of a process says that another has it, and so does its trace."""
    name = box.own("late")
    for env in {}, {"LD_PRELOAD": hw.preload_library()}:
        t = Late(box, [name], env=env)
        p = attach(box, os.path.basename(name))
        joined(box, p, t.pid)
        says = b"another recorder has it (process %d, 'heapwise attach -i 1 " % p.pid
        for how in ([os.path.basename(name)], [str(t.pid)]):
            trace = box.path("second.trace")
            r = box.run([hw.tool("heapwise"), "attach", "-f", "-d", "2s", "-o", trace, *how])
            hw.equal(r.stderr.count(says), 2, f"{how} {env}: warned of once, and the reason: {hw.tail(r.stderr)}")
            hw.true(b"no process of that name" not in r.stderr, hw.tail(r.stderr))
            hw.true(r.returncode != 0, f"{how} {env}: nothing was recorded, and the exit status is 0")
            hw.true([d for d in Trace(trace).dumps if d.pid == t.pid and d.rejected], f"{how} {env}: rejected_concurrent")
        before = t.do("go 0")
        after = t.do("go 50")
        hw.exact(finish(box, p).last(), since(after, before), "the first one's")
        t.end()


def two_commands(box):
    """heap_profile twice, without a service: each its own process; of one process the second is told who has it."""
    one, other = Late(box, [box.own("late")]), Late(box, [hw.target("late")], env={"LD_PRELOAD": hw.preload_library()})
    for d in "abc":
        os.mkdir(box.path(d))

    def heap_profile(d, *argv):
        return box.start([hw.tool("heap_profile"), "-i", "1", "-o", box.path(d), *map(str, argv)])
    a = heap_profile("a", "-n", os.path.basename(box.own("late")))
    hw.wait_for(lambda: is_joined(one.pid), "the first to attach")
    b = heap_profile("b", "-p", other.pid)
    hw.wait_for(lambda: is_joined(other.pid) or b.poll() is not None, "the second to attach")
    c = heap_profile("c", "-p", one.pid, "-n", "nobody-of-that-name", "-d", "500")
    said = c.communicate(timeout=hw.CLOCK)[1]
    who = f"(process {a.pid}, 'heap_profile -i 1 "
    hw.equal(said.decode().count(f"another recorder has it {who}"), 2, f"a warning, and the reason: {hw.tail(said)}")
    hw.true(f"another recorder {who}" in said.decode() and f"is listening at '{box.path('producer')}'" in said.decode(),
            f"where prepared programs ask: {hw.tail(said)}")
    hw.true(c.returncode != 0, "nothing was recorded, and the exit status is 0")
    for p, t, d in (a, one, "a"), (b, other, "b"):
        before = t.do("go 0")
        after = t.do("go 50")
        p.send_signal(signal.SIGINT)
        said = p.communicate(timeout=hw.CLOCK)[1]
        hw.equal((p.returncode, said), (0, b""), f"heap_profile {d}")
        hw.exact(hw.sound(box.path(d) + "/raw-trace").last(), since(after, before), d)
        t.end()


def service(box):
    """A running heapprofd attaches for its commands."""
    s = box.start([hw.tool("heapprofd")], stderr=open(box.path("service.log"), "wb"))
    hw.wait_for(lambda: os.path.exists(box.path("consumer")), "the service")
    t = Late(box)
    have = resting_fds(t.pid)
    for i in range(2):
        out = box.path(f"out{i}")
        os.mkdir(out)
        r = box.start([hw.tool("heap_profile"), "-p", str(t.pid), "-i", "1", "-o", out])
        hw.wait_for(lambda: is_joined(t.pid), "the service to attach")
        before = t.do("go 0")
        after = t.do("go 50")
        r.send_signal(signal.SIGINT)
        hw.equal(r.wait(hw.CLOCK), 0, "heap_profile -p")
        hw.exact(hw.sound(out + "/raw-trace").last(), since(after, before), f"round {i}")
        left_alone(t.pid, have)
    t.end()
    s.terminate()
    s.wait(hw.CLOCK)


def killed_recorder(box):
    """The recorder dies: the program goes on, and the next one can have it."""
    t = Late(box)
    p = attach(box, str(t.pid))
    joined(box, p, t.pid)
    kids = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
    for k in kids:
        os.kill(int(k), signal.SIGKILL)
    p.wait(hw.CLOCK)
    t.do("go 1000")
    left = rings(t.pid)
    p = attach(box, str(t.pid))
    joined(box, p, t.pid, left)
    before = t.do("go 0")
    after = t.do("go 200")
    hw.exact(finish(box, p).last(), since(after, before), "the second recorder")
    t.end()


def forked(box):
    """The child of a prepared program is recorded when it is asked for: of one that nobody has recorded, and of one that was."""
    for recorded_before in False, True:
        t = Late(box, env={"LD_PRELOAD": hw.preload_library()})
        if recorded_before:
            p = attach(box, str(t.pid))
            joined(box, p, t.pid)
            before = t.do("go 0")
            after = t.do("go 3")
            hw.exact(finish(box, p).last(), since(after, before), "the parent's")
        t.do("fork")
        have = rings(t.pid)
        p = attach(box, str(t.pid))
        joined(box, p, t.pid, have)
        before = t.do("go 0")
        after = t.do("go 60")
        hw.exact(finish(box, p).last(), since(after, before), f"the child's; recorded before: {recorded_before}")
        t.end()


def ends_with_program(box):
    t = Late(box)
    p = attach(box, str(t.pid))
    joined(box, p, t.pid)
    before = t.do("go 0")
    after = t.do("go 77")
    t.end()
    hw.exact(finish(box, p, None).last(), since(after, before), "a program that ends")


def refusals(box):
    """Each says why not, at once, and touches nothing."""
    def refused(pid, *words):
        r = box.run([hw.tool("heapwise"), "attach", str(pid), "-o", box.path("no.trace")], timeout=hw.CLOCK)
        text = r.stderr.decode()
        hw.true(r.returncode != 0 and all(w in text for w in words), f"{words}: exit {r.returncode}\n{text}")
        ps = box.run([hw.tool("heapwise"), "ps", str(pid)], timeout=hw.CLOCK).stdout.decode()
        hw.true("yes" not in ps, f"ps: {ps}")

    t = Late(box)
    ps = box.run([hw.tool("heapwise"), "ps", str(t.pid)], check=0).stdout.decode()
    hw.true(" yes" in ps, f"ps: {ps}")
    os.kill(t.pid, signal.SIGSTOP)
    hw.stopped(t.pid)
    refused(t.pid, "stopped", "kill -CONT")
    os.kill(t.pid, signal.SIGCONT)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0x4206, t.pid, 0, 0) == 0:  # PTRACE_SEIZE
        refused(t.pid, "traced", str(os.getpid()))
        libc.ptrace(0x4207, t.pid, 0, 0)
        os.waitpid(t.pid, 0x40000000)
        libc.ptrace(17, t.pid, 0, 0)
    t.do("go 1")
    t.end()
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    refused(zombie.pid, "no process")
    zombie.wait()
    refused(4194300, "no process")


TARGETS = hw.ROOT / "tests" / "targets"
LATE = ["-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-D_GNU_SOURCE", "-pthread", f"-I{TARGETS}",
        str(TARGETS / "threads" / "late.c")]
# Every allocator linked in has to be found in a library of Debian's.
KINDS = {
    "no-pie": ["gcc", "-no-pie", "-fno-pie"],
    "static": ["gcc", "-static", "-DLATE_STATIC"],
    "static-pie": ["gcc", "-static-pie", "-DLATE_STATIC"],
    "jemalloc": ["gcc", ":libjemalloc_pic.a", "-lm", "-lstdc++"],
    "jemalloc-no-pie": ["gcc", "-no-pie", "-fno-pie", ":libjemalloc.a", "-lm", "-lstdc++"],
    "tcmalloc": ["gcc", "-no-pie", "-Wl,--whole-archive", ":libtcmalloc_minimal.a", "-Wl,--no-whole-archive",
                 "-lstdc++", "-lm"],
    "musl": ["musl-gcc", "-DLATE_STATIC"],
    "musl-static": ["musl-gcc", "-static", "-DLATE_STATIC"],
}


def compiled(box, kind):
    """late.c as a program of that kind; all that is needed for it is not everywhere."""
    cc, *flags = KINDS[kind]
    hw.need(cc)
    exe = box.path("late." + kind)
    flags = ["-l" + f if f[0] == ":" else f for f in flags]
    r = box.run([cc, *LATE, "-o", exe, *flags])
    if r.returncode:
        raise hw.Skip(f"{kind} cannot be built here: {hw.tail(r.stderr)}")
    return exe


def ours(pid):
    """How many mappings are ours: of the library's file, and code that is of no file."""
    return sum("memfd:" in l or l.split()[1:] == ["r-xp", "00000000", "00:00", "0"] for l in maps(pid).splitlines())


def kind(name):
    def case(box):
        t = Late(box, [compiled(box, name)])
        have, before = resting_fds(t.pid), t.do("go 10")
        mapped = None
        for i in range(3):
            p = attach(box, str(t.pid))
            joined(box, p, t.pid)
            for command in ("go 300", "ways 50", "threads 30"):
                t.do(command)
            after = t.do("old") if i == 0 else t.do("go 1")
            if i == 1:
                box.run([hw.tool("heapwise"), "stop", str(t.pid)], check=0)
            trace = finish(box, p, None if i == 1 else signal.SIGINT)
            hw.exact(trace.last(), {f: n for f, n in since(after, before).items() if n[1]}, f"{name}, round {i}")
            left_alone(t.pid, have)
            hw.true(mapped in (None, ours(t.pid)), f"mappings after the first detach {mapped}, now {ours(t.pid)}")
            before, mapped = after, ours(t.pid)
        t.do("ways 5")
        t.end()
    case.__doc__ = f"late.c, {name}: exact, each function of the family once, three times; then as before."
    return case


def no_marks(box):
    """Scopes and types that cannot be seen are said to be missing; without the wish for them nothing is."""
    t = Late(box, [compiled(box, "static")])
    for options, told in ((["--types"], True), (["--stack-mode", "mixed"], True), ([], False)):
        p = attach(box, str(t.pid), *options)
        joined(box, p, t.pid)
        t.do("go 10")
        finish(box, p)
        err = open(box.path("attach.err"), "rb").read()
        hw.equal(b"its scopes and types are not seen" in err, told, f"{options}: {hw.tail(err)}")
    t.end()


def seccomp(box):
    """Filters that let our calls through do no harm; another is named before anything is changed."""
    if os.geteuid() != 0:
        raise hw.Skip("only root may read filters")
    kill, error = 0x80000000, 0x50001
    t = Late(box)
    t.do(f"filter 169 {kill}")  # reboot
    t.do(f"filter 28 {error}")  # madvise: we can do without
    have = resting_fds(t.pid)
    p = attach(box, str(t.pid))
    joined(box, p, t.pid)
    before = t.do("go 0")
    t.do("go 100")
    after = t.do("threads 20")
    trace = finish(box, p)
    hw.exact(trace.last(), {f: n for f, n in since(after, before).items() if n[1]}, "with harmless filters")
    left_alone(t.pid, have)
    t.end()
    for number, name, action in ((41, "socket", kill), (319, "memfd_create", error), (11, "munmap", 0x30000),
                                 (28, "madvise", kill)):
        t = Late(box)
        t.do(f"filter {number} {action}")
        before, have = maps(t.pid), fds(t.pid)
        r = box.run([hw.tool("heapwise"), "attach", "-f", str(t.pid), "-o", box.path("no.trace")], timeout=hw.CLOCK)
        text = r.stderr.decode()
        hw.true(r.returncode != 0 and "seccomp" in text and f" of {name}" in text, text)
        hw.equal([maps(t.pid), fds(t.pid)], [before, have], "a refused program")
        t.do("go 10")
        t.end()


def only_calls(name, way):
    def case(box):
        if os.geteuid() != 0:
            raise hw.Skip("only root may read filters")
        exe, own = compiled(box, name) if name else hw.target("late"), box.path("own")
        script = ["go 100", "ways 10", "threads 20", "go 10"]
        r = box.run([hw.target("only"), "learn", own, exe], stdin="".join(l + "\n" for l in script).encode())
        hw.equal(r.returncode, 0, hw.tail(r.stderr))
        t = Late(box, [hw.target("only"), way, own, exe])
        for i in range(2):
            p = attach(box, str(t.pid))
            joined(box, p, t.pid)
            before = t.do("go 0")
            for command in script:
                after = t.do(command)
            hw.exact(finish(box, p).last(), {f: n for f, n in since(after, before).items() if n[1]}, f"round {i}")
        t.end()
    case.__doc__ = f"late.c, {name or 'glibc'}, under a filter that ends it at any call but its own and those that we say are needed ({way})."
    return case


def static_sandbox(how, begins):
    """A static program gives up its calls right behind the attach, when it joins, or beside a full buffer; or before the attach, which is then
    refused. None of its calls, and no look at a clock, is ours from then on."""
    def case(box):
        exe = box.path("sandbox.static")
        r = box.run(["gcc", "-O2", "-g", "-static", f"-I{TARGETS}", "-o", exe, str(TARGETS / "confined" / "sandbox.c")])
        if r.returncode:
            raise hw.Skip("not built here: " + hw.tail(r.stderr))
        p = box.start([exe, how], stdin=subprocess.PIPE)

        def step(c):
            p.stdin.write(c)
            p.stdin.flush()
            said = p.stdout.readline()
            hw.equal(said, b"ok\n", f"step {c}, {said or p.wait(hw.CLOCK)}")
        hw.equal(p.stdout.readline(), b"ready 1\n", "its start")
        if begins == "before":
            step(b"s")
            r = box.run([hw.tool("heapwise"), "attach", "-q", "-f", "-d", "300ms", "-o", box.path("no.trace"), str(p.pid)], timeout=hw.CLOCK)
            hw.true(r.returncode != 0 and b"seccomp" in r.stderr, hw.tail(r.stderr))
        else:
            a = attach(box, str(p.pid), "--shmem-size", "8192")
            if begins == "hooked":  # mapped, and not asked anybody yet: the next allocation would
                hw.wait_for(lambda: ours(p.pid), "the library in the program")
                hw.quiet(0.3)  # its code is patched then; such a program has no tables whose entries could be counted
            else:
                def join():
                    step(b"j")
                    return is_joined(p.pid)
                hw.wait_for(join, "the program to join")
            step(b"s" if begins == "hooked" else b"S")
            step(b".")  # few: by itself it asks for more memory after eight, and is killed for that
            hw.quiet(0.3)  # a recorder that waits for it has time to see that it does not answer
            step(b".")
            a.send_signal(signal.SIGINT)
            a.wait(hw.CLOCK)
        step(b".")
        p.stdin.write(b"q")
        p.communicate(timeout=hw.CLOCK)
        hw.equal(p.returncode, 0, "its end")
        if begins == "full":
            n = hw.sound(a.trace, ("disconnected", "overran")).last(p.pid).by_function(["fn_inside"])["fn_inside"][1]
            hw.true(n > 400, f"{n} samples")
    return case


def filtered_recorder(box):
    """Who has filters himself is shown none: that is said, and not that root could; also when a recording by name meets one."""
    if os.geteuid() != 0:
        raise hw.Skip("only root may read filters")
    name = f"late{os.getpid()}"
    shutil.copy(hw.target("late"), box.path(name))
    t = Late(box, [box.path(name)])
    t.do(f"filter 169 {0x80000000}")
    r = box.run([hw.tool("heapwise"), "attach", "-f", str(t.pid), "-o", box.path("no.trace")], timeout=hw.CLOCK, preexec_fn=hw.filter_calls)
    text = r.stderr.decode()
    hw.true(r.returncode != 0 and "the recorder itself runs under seccomp filters" in text and "root" not in text, text)
    with open(box.path("serve.err"), "wb") as err:
        p = box.start([hw.tool("heapwise"), "serve", "--continuous", "--name", name, "--profiles", box.path("kept")], stderr=err,
                      preexec_fn=hw.filter_calls)
    said = lambda: open(box.path("serve.err")).read()
    hw.wait_for(lambda: f"process {t.pid}: " in said() or p.poll() is not None, "a refusal that is told")
    hw.true("the recorder itself runs under seccomp filters" in said() and p.poll() is None, said())
    p.send_signal(signal.SIGINT)
    p.wait(hw.CLOCK)
    t.do("go 10")
    t.end()


def asleep(box):
    """One that asks for no memory meanwhile was ready all the same: nobody says that there is no such process,
    whether the hooks had to be put in, or its library was told, with a service and without one."""
    wants = "process {} was ready to be profiled, but allocated nothing [never-allocated]"
    for serve in False, True:
        if serve:
            service = box.start([hw.tool("heapprofd")], stderr=open(box.path("service.log"), "wb"))
            hw.wait_for(lambda: os.path.exists(box.path("consumer")), "the service")
        for env in {}, {"LD_PRELOAD": hw.preload_library()}:
            p = box.start(["sleep", "30"], env=env)
            hw.wait_for(lambda: "sleep" in pathlib.Path(f"/proc/{p.pid}/wchan").read_text() or
                        pathlib.Path(f"/proc/{p.pid}/syscall").read_text().split()[0] in ("35", "230"), "sleep to sleep")
            for time_ in "500ms", "2s", "10s":  # a busy machine takes its time, and is told so
                r = box.run([hw.tool("heapwise"), "attach", "-f", "-d", time_, "-o", box.path("no.trace"), str(p.pid)], timeout=hw.CLOCK)
                if b"[not-ready]" not in r.stderr:
                    break
            hw.true(r.returncode != 0 and wants.format(p.pid) in r.stderr.decode(), f"{serve} {env}: {r.stderr.decode()}")
            p.kill()
    service.terminate()
    service.wait(hw.CLOCK)


def filtered_restart(box):
    """A prepared process whose unit restricts its calls is the next recorder's when its own was killed; one that
    no recorder has known is not, and is told how to be."""
    def served():
        s = box.start([hw.tool("heapprofd")], stderr=open(box.path("service.log"), "wb"))
        hw.wait_for(lambda: os.path.exists(box.path("consumer")), "the service")
        return s
    how = {"env": {"LD_PRELOAD": hw.preload_library()}, "preexec_fn": hw.filter_calls}
    stranger = Late(box, **how)
    s = served()
    p = Late(box, **how)
    hw.wait_for(lambda: "hw-control" in maps(p.pid), "it to wait")
    s.kill()
    s.wait(hw.CLOCK)
    os.unlink(box.path("consumer"))
    s = served()
    r = box.start([hw.tool("heapwise"), "attach", "-q", "-f", "-i", "1", "-o", box.path("out.trace"), str(p.pid)])
    hw.wait_for(lambda: is_joined(p.pid) or r.poll() is not None, "it to join")
    before = p.do("go 0")
    after = p.do("go 50")
    r.send_signal(signal.SIGINT)
    hw.equal((r.communicate(timeout=hw.CLOCK)[1], r.returncode), (b"", 0), "attach to the one that the first knew")
    hw.exact(hw.sound(box.path("out.trace")).last(), since(after, before), "of the one that the first knew")
    r = box.run([hw.tool("heapwise"), "attach", "-f", "-o", box.path("no.trace"), str(stranger.pid)], timeout=hw.CLOCK)
    hw.true(r.returncode != 0 and b"(seccomp), and no recorder was running when" in r.stderr, hw.tail(r.stderr))
    p.end()
    stranger.end()
    s.terminate()
    s.wait(hw.CLOCK)


def kinds_refused(box):
    """What cannot be done is said, with the reason, and nothing is touched."""
    exe = compiled(box, "static")
    box.run(["strip", exe], check=0)
    t = Late(box, [exe])
    before = maps(t.pid)
    r = box.run([hw.tool("heapwise"), "attach", str(t.pid), "-o", box.path("no.trace")], timeout=hw.CLOCK)
    text = r.stderr.decode()
    hw.true(r.returncode != 0 and "linked statically" in text and "stripped" in text, text)
    hw.equal(maps(t.pid), before, "mappings of a refused program")
    t.end()
    r = box.run(["gcc", "-m32", *LATE, "-o", box.path("late32")])
    if r.returncode == 0 and box.run([box.path("late32")]).returncode == 0:
        t = Late(box, [box.path("late32")])
        r = box.run([hw.tool("heapwise"), "attach", str(t.pid), "-o", box.path("no.trace")], timeout=hw.CLOCK)
        text = r.stderr.decode()
        hw.true(r.returncode != 0 and "32-bit program for i386" in text, text)
        t.end()


def beside_libc(box):
    """A libc that a static program has mapped is not its own: nothing in it is called."""
    libc = "/lib/x86_64-linux-gnu/libc.so.6"
    if not os.path.exists(libc):
        raise hw.Skip(f"no {libc}")
    t = Late(box, [compiled(box, "static")])
    t.do("map " + libc)
    before = t.do("go 10")
    p = attach(box, str(t.pid))
    joined(box, p, t.pid)
    t.do("go 300")
    after = t.do("go 1")
    hw.exact(finish(box, p).last(), {f: n for f, n in since(after, before).items() if n[1]}, "a static program beside a libc")
    t.end()


def valgrind(box):
    """Interpreted code cannot be called: refused before anything is touched."""
    hw.need("valgrind")
    p = box.start(["valgrind", "-q", hw.target("late")], stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "late under valgrind")
    before = fds(p.pid), [l for l in maps(p.pid).splitlines() if l.split()[5:]]
    r = box.run([hw.tool("heapwise"), "attach", str(p.pid), "-o", box.path("no.trace")], timeout=hw.CLOCK)
    hw.true(r.returncode != 0 and b"runs under valgrind" in r.stderr, r.stderr.decode())
    hw.equal((fds(p.pid), [l for l in maps(p.pid).splitlines() if l.split()[5:]]), before, "a refused program")
    p.stdin.close()
    hw.equal(p.wait(hw.CLOCK), 0, "the program's exit")


def need_inject():
    exe = hw.BUILD / "bench" / "inject" / "inject"
    if not exe.exists():
        raise hw.Skip("bench/inject is not built")
    return str(exe)


def rounds(box, threads, program=None):
    """In tenths, so that a run that hangs says where. At a load of 15 on two processors a round took half a second, by itself a hundredth of that: a
    machine that is so busy makes fewer of them."""
    began = time.monotonic()
    t = box.start([program or hw.target("busy"), str(threads)], stdin=subprocess.PIPE)
    hw.equal(t.stdout.readline(), b"ready\n", "busy")
    for i in range(10):
        if i >= 2 and time.monotonic() - began > 2 * hw.CLOCK:
            break
        r = box.run([need_inject(), hw.preload_library(), str(ROUNDS // 10), "-p", str(t.pid)], timeout=300)
        print("  " + r.stdout.decode().strip())
        hw.equal(r.returncode, 0, hw.tail(r.stderr))
        have = json.loads(r.stdout)
        hw.equal([have["rounds"], have["loaded"]], [ROUNDS // 10, int(i == 0)], "rounds, loads")
    t.stdin.close()
    out = t.stdout.read()
    hw.equal((t.wait(hw.CLOCK), out), (0, b"ok\n"), "the program")


def rounds_alone(box):
    """A single thread that spends all its time in malloc, with a signal every millisecond."""
    rounds(box, 0)


def rounds_threads(box):
    rounds(box, 3)


def static_busy(box):
    hw.need("gcc")
    exe = box.path("busy")
    r = box.run(["gcc", "-O2", "-g", "-static", "-D_GNU_SOURCE", "-pthread", f"-I{TARGETS}", "-o", exe,
                 str(TARGETS / "threads" / "busy.c")])
    if r.returncode:
        raise hw.Skip("static programs cannot be built here")
    return exe


def holes_code(box):
    """Threads of a static program end at each instruction behind a reservation: nobody waits for them."""
    hw.need("gcc")
    exe = box.path("holes")
    if box.run(["gcc", "-O2", "-g", "-static", "-D_GNU_SOURCE", "-pthread", f"-I{TARGETS}", "-o", exe,
                str(TARGETS / "stack" / "holes.c")]).returncode:
        raise hw.Skip("static programs cannot be built here")
    t = box.start([exe, "wait"], stdin=subprocess.PIPE)
    hw.equal(t.stdout.readline(), b"ready\n", "holes")
    p = attach(box, str(t.pid))
    said = t.stdout.read()
    t.wait(hw.CLOCK)
    hw.true(b"stuck" not in said, f"the recorder waits: {said}")
    hw.equal(p.wait(hw.CLOCK), 4, "attach says what is missing: " + hw.tail(open(box.path("attach.err"), "rb").read()))
    d = hw.sound(p.trace).last()
    hw.exact(d, hw.expectations(said), "holes")
    hw.true(d.lost > 10, f"only {d.lost} records were left open")


def rounds_code(box):
    """The same where code is changed: three threads in the allocator of a static program."""
    exe = static_busy(box)
    rounds(box, 0, exe)
    rounds(box, 3, exe)


def killed_midway(box):
    """Whoever attaches is killed at any moment: the program goes on as if nothing had been."""
    need_inject()
    exes = [hw.target("busy")]
    with contextlib.suppress(hw.Skip):
        exes.append(static_busy(box))
    dice = random.Random(1)
    for exe in exes:
        t = box.start([exe, "0"], stdin=subprocess.PIPE)
        hw.equal(t.stdout.readline(), b"ready\n", "busy")
        have = resting_fds(t.pid)
        for i in range(ROUNDS // 8):
            p = box.start([need_inject(), hw.preload_library(), "100000", "-p", str(t.pid)])
            time.sleep(dice.uniform(0.02, 0.1))
            p.kill()
            p.wait(hw.CLOCK)
            hw.true(t.poll() is None, f"the program died with the {i}th of those who attached")
        again = lambda: box.run([need_inject(), hw.preload_library(), "3", "-p", str(t.pid)], timeout=hw.CLOCK).returncode == 0
        hw.wait_for(again, "the next one, when the last one's heart has stopped for long enough")
        hw.true(len(resting_fds(t.pid)) <= len(have) + 1, "descriptors")  # one killed in the middle of a load
        t.stdin.close()
        out = t.stdout.read()
        hw.equal((t.wait(hw.CLOCK), out), (0, b"ok\n"), "the program")


def recorded(box, exe):
    t = box.start([exe, "2"], stdin=subprocess.PIPE)
    hw.equal(t.stdout.readline(), b"ready\n", "busy")
    have = resting_fds(t.pid)
    for i in range(ROUNDS // 20):
        left = rings(t.pid)  # of a thread that was taken off its processor inside a hook
        p = attach(box, str(t.pid), "-q", interval=4096)
        joined(box, p, t.pid, left)
        hw.works(t.pid)
        hw.true(finish(box, p).last().samples, "samples")
        # A thread that was taken off its processor inside a hook keeps the buffer until the next attach.
        hw.true(len(rings(t.pid)) <= 6, "buffers of more than two recordings are mapped")
        hw.equal(resting_fds(t.pid), have, "descriptors after the detach")
    t.stdin.close()
    out = t.stdout.read()
    hw.equal((t.wait(hw.CLOCK), out), (0, b"ok\n"), "the program")


def rounds_recorded(box):
    """With a recording each time, on threads that allocate without a pause."""
    recorded(box, hw.target("busy"))


def rounds_recorded_code(box):
    """The same where code is changed."""
    recorded(box, static_busy(box))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def redis(box):
    """Under load: every answer comes, and what redis says it holds is what was seen to come."""
    hw.need("redis-server", "redis-benchmark", "redis-cli")
    port = free_port()
    p = box.start(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                   "--daemonize", "no"], stdout=open(box.path("redis.out"), "wb"))
    cli = ["redis-cli", "-p", str(port)]
    hw.wait_for(lambda: box.run([*cli, "ping"]).stdout == b"PONG\n", "redis to answer")
    have = resting_fds(p.pid)

    def used():
        return int([l for l in box.run([*cli, "info", "memory"]).stdout.decode().split("\r\n")
                    if l.startswith("used_memory:")][0].split(":")[1])
    for i in range(3):
        box.run([*cli, "flushall"], check=0)  # else values from before are replaced by ones that count
        before = used()
        a = attach(box, str(p.pid), "-q", interval=4096)
        joined(box, a, p.pid)
        box.run(["redis-benchmark", "-p", str(port), "-q", "-n", "20000", "-r", str(10000 * (i + 1)), "-d", "500",
                 "-t", "set"], check=0, timeout=120)
        grown = used() - before
        d = finish(box, a).last()
        live = sum(s.alloc - s.freed for s in d.samples)
        print(f"  live {live}, redis grew by {grown}")
        hw.true(live > 0 and d.samples, "samples")
        if grown > 3 << 20:
            hw.true(0.6 * grown < live < 1.5 * grown, f"live {live}, redis grew by {grown}")
    hw.wait_for(lambda: len(fds(p.pid)) <= len(have), f"redis to close its clients: {have}")
    box.run([*cli, "shutdown", "nosave"])
    hw.equal(p.wait(hw.CLOCK), 0, "redis")


def python3(box):
    code = ("import sys,time\nprint('ready',flush=True)\nkeep=[]\n"
            "for i in range(300):\n keep.append(bytearray(100000)); time.sleep(0.005)\n"
            "assert all(len(b)==100000 for b in keep)\nprint('ok')")
    py = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    p = box.start([py, "-c", code])
    hw.equal(p.stdout.readline(), b"ready\n", "python")
    a = attach(box, str(p.pid), "-q", interval=4096)
    d = finish(box, a, None).last()
    hw.equal((p.stdout.read(), p.wait(hw.CLOCK)), (b"ok\n", 0), "the program")
    live = sum(s.alloc - s.freed for s in d.samples)
    hw.true(10e6 < d.total("alloc"), f"allocated {d.total('alloc')}, live {live}")


def sqlite(box):
    hw.need("sqlite3")
    p = box.start(["sqlite3"], stdin=subprocess.PIPE)
    a = attach(box, str(p.pid), "-q")
    hw.wait_for(lambda: hw.called(p.pid), "the attach")
    sql = ("create table t(a,b);\nwith recursive c(x) as (select 1 union all select x+1 from c where x<20000) "
           "insert into t select x, hex(randomblob(50)) from c;\nselect count(*), sum(a) from t;\n")
    out, _ = p.communicate(sql.encode(), 30)
    hw.equal(out, b"20000|200010000\n", "sqlite3")
    d = finish(box, a, None).last()
    hw.true(d.total("alloc") > 1000000, f"allocated {d.total('alloc')}")


LOCKED = """
import ctypes, sys, time
if ctypes.CDLL(None).mlockall(3):
    sys.exit("cannot lock")
print("locked", flush=True)
kept = []
while True:
    kept.extend(bytearray(1000) for i in range(20))
    print(len(kept), flush=True)
    time.sleep(0.01)
"""


def locked_memory(box):
    """What such a program maps is there at once: large maps of ours, used here and there, would be its memory."""
    def peak():
        return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{p.pid}/status").read_text())[1])
    if os.geteuid():
        raise hw.Skip("locking memory takes root")
    for interval in ("1", "4096"):
        p = subprocess.Popen([sys.executable, "-c", LOCKED], stdout=subprocess.PIPE)
        try:
            hw.equal(p.stdout.readline(), b"locked\n", "its word")
            before = peak()
            a = attach(box, "-q", str(p.pid), interval=interval)
            joined(box, a, p.pid)
            last = int(p.stdout.readline())
            hw.wait_for(lambda: int(p.stdout.readline()) > last + 1000, "a thousand blocks while it is recorded")
            a.send_signal(signal.SIGINT)
            hw.true(a.wait(hw.CLOCK) in (0, 4), "attach: " + hw.tail(open(box.path("attach.err"), "rb").read()))  # 4: a ring so small may overflow
            more = peak() - before
            hw.true(more < 100 << 10, f"at {interval} bytes: {more} kB more")
        finally:
            p.kill()
            p.wait()


def malloc_info(box):
    """The allocator's own figures of a program that runs already: glibc's, jemalloc's, through each attach."""
    for name in (None, "libjemalloc.so.2"):
        lib = f"/usr/lib/x86_64-linux-gnu/{name}"
        if name and not os.path.exists(lib):
            continue
        t = Late(box, env={"LD_PRELOAD": lib} if name else None)
        for i in range(2):
            p = attach(box, str(t.pid), "-q", "--malloc-info", "100ms", trace=f"{name}{i}.trace")
            joined(box, p, t.pid)
            t.do("go 5000")
            time.sleep(0.7)  # what is tested: some of its periods of 100 ms, in which it does nothing
            finish(box, p)
            q = "select name, value from counter c join process_counter_track t on c.track_id = t.id " \
                "where name like 'malloc_info.%' order by c.ts"
            rows = box.run([hw.tool("heapwise"), "query", p.trace, q]).stdout.decode().split()[1:]
            last = {k.strip('"').split(".")[1]: int(float(v)) for k, v in (r.split(",") for r in rows)}
            hw.true(last, f"{name}, attach {i}: no figures")
            hw.equal(last["in_use"] + last["free"], last["arena"], f"{name}: in use + free")
            least = 5000 * 100 * (i + 1)
            hw.true(least < last["in_use"] < least * 1.5 + (1 << 20), f"{name}, attach {i}: in use {last['in_use']}")
        t.end()


if __name__ == "__main__":
    hw.main({"exact": exact, "locked-memory": locked_memory, "malloc-info": malloc_info, "modules": modules, "by-name": by_name, "two-recorders": two_recorders, "two-commands": two_commands, "service": service,
             "killed-recorder": killed_recorder, "ends-with-program": ends_with_program, "forked": forked, "refusals": refusals,
             **{"kind-" + k: kind(k) for k in KINDS}, "kinds-refused": kinds_refused, "beside-libc": beside_libc, "valgrind": valgrind,
             "no-marks": no_marks, "seccomp": seccomp, "only-glibc": only_calls(None, "dlopen"),
             **{"only-" + k: only_calls(k, "raw") for k in ("static", "musl")},
             **{f"static-sandbox-{how}-{begins}": static_sandbox(how, begins)
                for how in ("filter", "strict", "call") for begins in ("before", "hooked", "full")},
             "filtered-recorder": filtered_recorder, "asleep": asleep, "filtered-restart": filtered_restart,
             "holes-code": holes_code, "rounds-code": rounds_code,
             "killed-midway": killed_midway,
             "rounds-alone": rounds_alone, "rounds-threads": rounds_threads, "rounds-recorded": rounds_recorded,
             "rounds-recorded-code": rounds_recorded_code,
             "redis": redis, "python3": python3, "sqlite": sqlite})
