#!/usr/bin/env python3
"""Programs and recorders in other namespaces: pids, mounts, users, networks; made here with unshare."""
import os
import pathlib
import re
import shutil
import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from attach import Late, attach, finish, is_joined, joined, left_alone, resting_fds, since
from service import profile

OWN_PROC = ["-m", "-p", "-f", "-n", "-U", "-r", "--mount-proc"]
# What unshare is asked for; -p without a /proc of its own leaves the outer one, with other numbers.
KINDS = {"pid": ["-p", "-f"], "mount": ["-m"], "net": ["-n"], "user": ["-U", "-r"], "stranger": ["-U", "-n"],
         "all": ["-m", "-p", "-f", "-n", "-U", "-r"], "container": OWN_PROC + ["-i", "-u", "-C"]}
USER = 54321  # nobody's


def need_unshare(box, flags):
    hw.need("unshare")
    r = box.run(["unshare", *flags, "true"])
    if r.returncode:
        raise hw.Skip(f"unshare {' '.join(flags)}: {hw.tail(r.stderr)}")


def below(pid, name):
    """The process of that name at or below pid, by its number here."""
    def look():
        todo = [pid]
        while todo:
            p = todo.pop()
            try:
                if pathlib.Path(f"/proc/{p}/comm").read_text().strip() == name[:15]:
                    return p
                todo += map(int, pathlib.Path(f"/proc/{p}/task/{p}/children").read_text().split())
            except OSError:
                pass
    return hw.wait_for(look, f"{name} below {pid}")


class Inside(Late):
    def __init__(self, box, before, argv=None):
        super().__init__(box, [*before, *(argv or [hw.target("late")])])
        self.pid = below(self.p.pid, "t_late")


def inner(pid):
    return int(re.search(r"^NSpid:.*\s(\d+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def own(kind):
    def case(box):
        """Recorder and program are both in there."""
        flags = KINDS[kind]
        need_unshare(box, flags)
        plain = box.run([hw.target("truth")])
        r = box.run(["unshare", *flags, hw.tool("heapwise"), "record", "-i", "1", "-o", box.path("out.trace"),
                     "--no-report", "--", hw.target("truth")], check=0)
        hw.exact(hw.sound(box.path("out.trace")).last(), hw.expectations(plain.stdout), kind + hw.tail(r.stderr))
    return case


def started(kind):
    def case(box):
        """The recorder is outside, the program begins inside: every allocation from the first on."""
        flags = KINDS[kind]
        need_unshare(box, flags)
        plain = box.run([hw.target("truth")])
        r = hw.record(box, ["unshare", *flags, hw.target("truth")], "--no-report")
        hw.equal(r.returncode, 0, hw.tail(r.stderr))
        d = max(hw.sound(r.trace).dumps, key=lambda d: len(d.samples))  # unshare itself is another
        hw.true(d.from_startup, "from_startup")
        hw.exact(d, hw.expectations(plain.stdout), kind)
    return case


def running(kind):
    def case(box):
        """Attached from outside, twice, and left as it was."""
        flags = KINDS[kind]
        need_unshare(box, flags)
        t = Inside(box, ["unshare", *flags])
        before, have = t.do("go 10"), resting_fds(t.pid)
        for i in range(2):
            a = attach(box, str(t.pid))
            joined(box, a, t.pid)
            t.do("go 300")
            after = t.do("go 1")
            d = finish(box, a).last()
            hw.equal(d.pid, t.pid, "the pid is ours")
            hw.exact(d, since(after, before), f"{kind}, round {i}")
            hw.true("main" in str([s.stack for s in d.samples]), "stacks are whole and have names")
            left_alone(t.pid, have)
            before = after
        t.end()
    return case


def inner_pid(box):
    """A number that only a container has; two that have it; --pid-ns says which."""
    need_unshare(box, OWN_PROC)
    # a number that no process has here: a namespace's next pid can be chosen
    top = int(pathlib.Path("/proc/sys/kernel/pid_max").read_text())
    number = next(n for n in range(top - 10, 1000, -1) if not os.path.exists(f"/proc/{n}"))
    line = f"echo {number - 1} >/proc/sys/kernel/ns_last_pid && \"$0\"; exit $?"
    make = ["unshare", "-p", "-f", "-n", "--mount-proc", "sh", "-c", line]
    one = Inside(box, make)
    if inner(one.pid) != number:
        raise hw.Skip(f"no choice of pids: {inner(one.pid)} in place of {number}")
    before = one.do("go 0")
    a = attach(box, str(number))
    joined(box, a, one.pid)
    after = one.do("go 100")
    hw.exact(finish(box, a).last(), since(after, before), "by its inner number")
    hw.true(f"process {one.pid} here" in open(box.path("attach.err")).read(), "the number here is told")
    ps = box.run([hw.tool("heapwise"), "ps", str(one.pid)], check=0).stdout.decode()
    hw.true(f"({number} in its namespace)" in ps, ps)

    two = Inside(box, make)
    hw.equal(inner(two.pid), number, "the same number in two namespaces")
    r = box.run([hw.tool("heapwise"), "attach", "-d", "1s", "-o", box.path("x.trace"), str(number)])
    err = r.stderr.decode()
    hw.true(r.returncode == 1 and "[ambiguous-pid]" in err and f"{one.pid} ('t_late')" in err
            and f"{two.pid} ('t_late')" in err and "--pid-ns" in err, f"exit {r.returncode}: {err}")
    before = two.do("go 0")
    a = attach(box, "--pid-ns", str(two.pid), str(number))
    joined(box, a, two.pid)
    after = two.do("go 100")
    d = finish(box, a).last()
    hw.equal(d.pid, two.pid, "the one that --pid-ns means")
    hw.exact(d, since(after, before), "--pid-ns")
    r = box.run([hw.tool("heapwise"), "attach", "--pid-ns", str(two.pid), "7777", "-o", box.path("x.trace")])
    hw.true(r.returncode == 1 and b"no process 7777 in the pid namespace" in r.stderr, hw.tail(r.stderr))
    one.end()
    two.end()


def first(box):
    """In a container its own process 1 is a program like others, seen from the inside."""
    need_unshare(box, OWN_PROC)
    hw.need("nsenter")
    t = Inside(box, ["unshare", *OWN_PROC])
    hw.equal(inner(t.pid), 1, "its number in there")
    before, have = t.do("go 0"), resting_fds(t.pid)
    for i in range(2):
        a = box.start(["nsenter", "-t", str(t.pid), "-a", hw.tool("heapwise"), "attach", "-i", "1", "-f", "-o",
                       box.path("out.trace"), "1"], stderr=open(box.path("attach.err"), "wb"))
        a.trace = box.path("out.trace")
        joined(box, a, t.pid)
        after = t.do("go 100")
        recorder = below(a.pid, "heapwise")
        os.kill(recorder, signal.SIGINT)
        hw.equal(a.wait(hw.CLOCK), 0, "attach")
        hw.exact(hw.sound(a.trace).last(), since(after, before), f"round {i}")
        left_alone(t.pid, have)
        before = after
    r = box.run([hw.tool("heapwise"), "attach", "-o", box.path("x.trace"), "1"])
    hw.true(r.returncode == 77 and b"process 1 is never profiled" in r.stderr, hw.tail(r.stderr))
    t.end()


def preloaded(box):
    """Preloaded in a container before any recorder was there, then by a service, twice."""
    need_unshare(box, OWN_PROC)
    t = Inside(box, ["unshare", *OWN_PROC, "env", "LD_PRELOAD=" + hw.preload_library()])
    before = t.do("go 10")
    box.start([hw.tool("heapprofd")], stderr=open(box.path("service.log"), "wb"))
    hw.wait_for(lambda: os.path.exists(box.path("consumer")), "the service")
    for i in range(2):
        out = box.path(f"out{i}")
        os.mkdir(out)
        r = box.start([hw.tool("heap_profile"), "-p", str(t.pid), "-i", "1", "-o", out])
        hw.wait_for(lambda: is_joined(t.pid), "the service to reach it")
        before = t.do("go 0")
        after = t.do("go 50")
        r.send_signal(signal.SIGINT)
        hw.equal(r.wait(hw.CLOCK), 0, "heap_profile -p")
        hw.exact(hw.sound(out + "/raw-trace").last(), since(after, before), f"round {i}")
        hw.wait_for(lambda: not is_joined(t.pid) or t.do("go 1"), "the end")
    t.end()


def no_privilege(box):
    """A user without any: his own program in his own user and network namespace."""
    hw.need("setpriv")
    me = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
    os.chmod(box.dir, 0o777)
    flags = ["-U", "-r", "-n"]
    if os.geteuid() != 0 or box.run([*me, "unshare", *flags, hw.target("late")], stdin=b"").returncode:
        raise hw.Skip("not root, or no user namespaces for users")
    if box.run([*me, hw.tool("heapwise"), "help"]).returncode:
        raise hw.Skip("other users may not read the build directory")
    t = Inside(box, [*me, "unshare", *flags])
    before = t.do("go 0")
    a = box.start([*me, hw.tool("heapwise"), "attach", "-i", "1", "-f", "-o", box.path("out.trace"), str(t.pid)],
                  stdout=open(box.path("attach.out"), "wb"), stderr=open(box.path("attach.err"), "wb"))
    a.trace = box.path("out.trace")
    joined(box, a, t.pid)
    after = t.do("go 100")
    hw.exact(finish(box, a).last(), since(after, before), "without privilege")
    t.end()


FOREIGN = """
import ctypes, os, sys
root, argv = sys.argv[1], sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *a):
    if getattr(libc, name)(*a) != 0:
        sys.exit(f"{name}: {os.strerror(ctypes.get_errno())}")
gate_r, gate_w = os.pipe()
up_r, up_w = os.pipe()
pid = os.fork()
if pid == 0:
    call("unshare", 0x10000000 | 0x20000 | 0x20000000 | 0x40000000)  # user, mounts, pids, network
    os.write(up_w, b"x")
    os.read(gate_r, 1)
    os.setresgid(0, 0, 0); os.setresuid(0, 0, 0)
    child = os.fork()
    if child == 0:
        call("mount", b"proc", (root + "/proc").encode(), b"proc", 0, None)
        os.chroot(root); os.chdir("/")
        os.setresgid(33, 33, 33); os.setresuid(33, 33, 33)
        os.execv(argv[0], argv)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.read(up_r, 1)
for f in ("uid_map", "gid_map"):
    open(f"/proc/{pid}/{f}", "w").write("0 700000 1000")
os.write(gate_w, b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def make_root(box):
    """A directory with t_late and what it is linked with, and an empty proc."""
    root = box.dir / "root"
    (root / "proc").mkdir(parents=True)
    for f in re.findall(r"(/\S+) \(0x", box.run(["ldd", hw.target("late")]).stdout.decode()):
        (root / f[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f, root / f[1:])
    shutil.copy(hw.target("late"), root / "t_late")
    return root


def bare_root(box):
    """A root without /proc: the loader has no name for our file, so the client goes in without it."""
    if os.geteuid() != 0:
        raise hw.Skip("not root")
    t = Inside(box, ["unshare", "-m", "-n", "-p", "-f", "chroot", str(make_root(box))], ["/t_late"])
    before, have = t.do("go 0"), resting_fds(t.pid)
    for i in range(2):
        a = attach(box, str(t.pid))
        joined(box, a, t.pid)
        t.do("go 100")
        after = t.do("go 1")
        hw.exact(finish(box, a).last(), since(after, before), f"round {i}")
        left_alone(t.pid, have)
        before = after
    t.end()


def foreign_root(box):
    """A container as engines make them: a root of its own whose files belong to its root, who is user
    700000 here; the program is its user 33."""
    if os.geteuid() != 0:
        raise hw.Skip("not root")
    root = make_root(box)
    for d, _, names in os.walk(root):
        os.chown(d, 700000, 700000)
        for n in names:
            os.chown(os.path.join(d, n), 700000, 700000)
    os.chmod(box.dir, 0o755)
    t = Inside(box, [sys.executable, "-c", FOREIGN, str(root)], ["/t_late"])
    hw.equal(os.stat(f"/proc/{t.pid}").st_uid, 700033, "its user here")
    before, have = t.do("go 0"), resting_fds(t.pid)
    a = attach(box, str(t.pid))
    joined(box, a, t.pid)
    after = t.do("go 100")
    d = finish(box, a).last()
    hw.exact(d, since(after, before), "a container's program")
    hw.true("main" in str([s.stack for s in d.samples]), "names come from files in its root")
    left_alone(t.pid, have)
    t.end()


ROOTLESS = """
import ctypes, os, sys
uid, argv = int(sys.argv[1]), sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
gate_r, gate_w = os.pipe()
up_r, up_w = os.pipe()
pid = os.fork()
if pid == 0:
    os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
    libc.prctl(4, 1, 0, 0, 0)  # dumpable again
    if libc.unshare(0x10000000 | 0x40000000) != 0:
        sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
    os.write(up_w, b"x")
    os.read(gate_r, 1)
    os.setresgid(33, 33, 33); os.setresuid(33, 33, 33)
    os.execv(argv[0], argv)
os.read(up_r, 1)
for f in ("uid_map", "gid_map"):
    open(f"/proc/{pid}/{f}", "w").write(f"0 {uid} 1\\n1 700000 1000")
os.write(gate_w, b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def only_ptrace(box):
    """A recorder that may trace, but enter no namespace (a container beside): a file in the other's /tmp."""
    hw.need("setpriv")
    if os.geteuid() != 0:
        raise hw.Skip("not root")
    root = make_root(box)
    (root / "tmp").mkdir(mode=0o1777)
    os.chmod(root / "tmp", 0o1777)
    t = Inside(box, ["unshare", "-n", "-m", "--root", str(root)], ["/t_late"])
    before = t.do("go 0")
    a = box.start(["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", hw.tool("heapwise"),
                   "attach", "-i", "1", "-f", "-o", box.path("out.trace"), str(t.pid)],
                  stdout=open(box.path("attach.out"), "wb"), stderr=open(box.path("attach.err"), "wb"))
    a.trace = box.path("out.trace")
    joined(box, a, t.pid)
    hw.equal(len(os.listdir(root / "tmp")), 1, "the file")
    after = t.do("go 100")
    hw.exact(finish(box, a).last(), since(after, before), "without sys_admin")
    hw.equal(os.listdir(root / "tmp"), [], "it is gone")
    shutil.rmtree(root / "tmp")
    r = box.run(["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", hw.tool("heapwise"),
                 "attach", "-i", "1", "-d", "1s", "-f", "-o", box.path("out.trace"), str(t.pid)])
    hw.true(r.returncode != 0 and b"may not enter" in r.stderr and b"nsenter" in r.stderr, hw.tail(r.stderr))
    t.end()


def no_litter(box):
    """The file beside an abstract name goes with the recorder, also when that is killed."""
    def files():
        return {f for f in os.listdir("/tmp") if re.match(rf"heapwise-{p.pid}-[0-9a-f]+$", f)}
    for kill in (False, True):
        p = box.start([hw.tool("heapwise"), "record", "-f", "-o", box.path("x.trace"), "--", "sleep", "0.6"])
        hw.wait_for(files, "the file")
        for q in pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split() if kill else ():
            if pathlib.Path(f"/proc/{q}/comm").read_text() == "heapprofd\n":
                os.kill(int(q), signal.SIGKILL)
        p.wait(hw.CLOCK)
        hw.equal(files(), set(), f"killed: {kill}")


def rootless(box):
    """A user's container without root: its process has a user of his range. He is told the way in, which
    works; root's service does it for him; nobody else may."""
    hw.need("setpriv", "nsenter")
    if os.geteuid() != 0:
        raise hw.Skip("not root")
    os.chmod(box.dir, 0o777)
    t = Inside(box, [sys.executable, "-c", ROOTLESS, str(USER)])
    hw.equal(os.stat(f"/proc/{t.pid}").st_uid, 700032, "its user here")

    def by(uid, *before):
        me = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
        return [*me, *before, hw.tool("heapwise"), "attach", "-i", "1", "-f", "-o", box.path("out.trace"), str(t.pid)]
    r = box.run(by(USER))
    hw.true(r.returncode == 77 and f"-t {t.pid} heapwise attach {t.pid}" in r.stderr.decode(), hw.tail(r.stderr))
    r = box.run(by(USER + 1))
    hw.true(r.returncode == 77 and b"belongs to user 700032 [not-yours]" in r.stderr, hw.tail(r.stderr))
    before = t.do("go 0")
    a = box.start(by(USER, "nsenter", "-U", "--preserve-credentials", "-t", str(t.pid)),
                  stdout=open(box.path("attach.out"), "wb"), stderr=open(box.path("attach.err"), "wb"))
    a.trace = box.path("out.trace")
    joined(box, a, t.pid)
    after = t.do("go 100")
    hw.exact(finish(box, a).last(), since(after, before), "from inside")
    box.start([hw.tool("heapprofd")], stderr=open(box.path("service.log"), "wb"))
    hw.wait_for(lambda: os.path.exists(box.path("consumer")), "the service")
    for uid, may in ((USER, True), (USER + 1, False)):
        _, r = profile(box, t.pid, f"o{uid}", joins=may,
                       before=["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"])
        hw.equal(r.returncode == 0, may, f"user {uid} with root's service: {hw.tail(r.stderr)}")
    t.end()


REUSE = """import os, sys
def run(*argv):
    pid = os.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    os.waitpid(pid, 0)
    return pid
first = run(sys.argv[1], "15")
for i in range(100):
    with open("/proc/sys/kernel/ns_last_pid", "w") as f:
        f.write(str(first - 1))
    if run(sys.argv[2], "0.05") == first:
        break
"""


def number_used_again(box):
    """A program ends with many callstacks, and while they are written another one has its number: each has its own."""
    if not os.path.exists("/proc/sys/kernel/ns_last_pid"):
        raise hw.Skip("the kernel does not let us choose numbers")
    stacks, truth = hw.target("stacks"), hw.target("truth")
    r = hw.record(box, [sys.executable, "-c", REUSE, stacks, truth], "--follow-fork")
    hw.sound(r.trace)
    q = box.run([hw.tool("heapwise"), "query", r.trace, "select p.name, count(distinct a.ts) > 0, count(distinct callsite_id) "
                 "from process p left join heap_profile_allocation a using(upid) where pid = (select pid from process where "
                 "name like '%stacks') group by p.upid order by p.upid"], check=0).stdout.decode()
    rows = [line.split(",") for line in q.splitlines()[1:]]
    hw.equal([os.path.basename(n.strip('"')) for n, _, _ in rows], ["t_stacks", "t_truth"], f"processes of one number: {rows}")
    hw.true(int(rows[0][2]) >= 1 << 15 and int(rows[1][2]) < 1000, f"callstacks of each: {rows}")


def refused_number(box):
    """Who cannot be recorded ends, and another one that cannot has its number: both are told of."""
    hw.need("gcc")
    exe, last = box.path("alone"), "/proc/sys/kernel/ns_last_pid"
    pathlib.Path(exe + ".c").write_text("#include <unistd.h>\nint main(void) { return pause(); }\n")
    if not os.path.exists(last) or box.run(["gcc", "-static", "-s", "-o", exe, exe + ".c"]).returncode:
        raise hw.Skip("no static programs, or no numbers of one's choice")
    a = box.start([hw.tool("heapwise"), "record", "-n", "alone", "-f", "-o", box.path("o.trace")], stderr=open(box.path("err"), "wb"))
    told = lambda n: open(box.path("err"), "rb").read().count(b"linked statically") >= n  # noqa: E731
    hw.wait_for(lambda: b"Ctrl-C" in open(box.path("err"), "rb").read(), "it waits")
    first = box.start([exe])
    hw.wait_for(lambda: told(1), "the first is told of")
    number = first.pid
    first.kill()
    first.wait()
    for i in range(100):
        pathlib.Path(last).write_text(str(number - 1))
        second = box.start([exe])
        if second.pid == number:
            break
        second.kill()
    hw.equal(second.pid, number, "the number")
    hw.wait_for(lambda: told(2), "the second is told of")
    a.send_signal(signal.SIGINT)
    a.wait(hw.CLOCK)
    hw.equal(open(box.path("o.trace"), "rb").read().count(b"linked statically"), 2, "refusals in the trace")


if __name__ == "__main__":
    hw.main({**{f"own-{k}": own(k) for k in KINDS}, **{f"started-{k}": started(k) for k in KINDS},
             **{f"running-{k}": running(k) for k in KINDS}, "inner-pid": inner_pid, "first": first, "preloaded": preloaded,
             "no-privilege": no_privilege, "foreign-root": foreign_root, "bare-root": bare_root,
             "rootless": rootless, "number-used-again": hw.by_themselves(number_used_again), "refused-number": hw.by_themselves(refused_number), "no-litter": no_litter,
             "only-ptrace": only_ptrace})
