#!/usr/bin/env python3
"""The service: who may record what with it, what a refused process leaves, privileges, sockets."""
import os
import pathlib
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
from attach import Late, is_joined
from start import Watch, held, holds

USER, OTHER, GROUP = 54321, 54322, 54399  # nobody's


def start(box, *options, before=(), policy=None, **kw):
    """heapprofd on the box's sockets."""
    if policy is not None:
        pathlib.Path(box.path("policy")).write_text(policy)
        options += ("--policy", box.path("policy"))
    s = box.start([*before, hw.tool("heapprofd"), *options], stderr=open(box.path("service.log"), "wb"), **kw)
    hw.wait_for(lambda: os.path.exists(box.path("consumer")) or s.poll() is not None, "the service")
    hw.true(s.poll() is None, "the service ended: " + open(box.path("service.log")).read())
    return s


def profile(box, pid, name, *options, before=(), joins=True):
    """heap_profile -p: until the process has joined, or, where it will not, for a moment."""
    out = box.path(name)
    os.mkdir(out)
    os.chmod(out, 0o777)
    argv = [*before, hw.tool("heap_profile"), "-p", str(pid), "-i", "1", "-o", out, *options]
    if not joins:
        return out, box.run([*argv, "-d", "600"])
    p = box.start(argv)
    hw.wait_for(lambda: is_joined(pid) or p.poll() is not None, "the process to join")
    hw.quiet(0.1)  # a part of its life
    p.send_signal(signal.SIGINT)
    said = p.communicate(timeout=hw.CLOCK)
    hw.wait_for(lambda: not is_joined(pid) or p.returncode, "the end of its part")
    return out, subprocess.CompletedProcess(argv, p.returncode, *said)


def refused(box):
    """The empty profile of a process that may not, or cannot, be profiled says why."""
    start(box, policy="machine = developer\nnever = t_late\n")
    t = Late(box)
    out, r = profile(box, t.pid, "out", joins=False)
    hw.true(r.returncode != 0 and b"the policy never lets 't_late' be profiled" in r.stderr, hw.tail(r.stderr))
    report = box.run([hw.tool("heapwise"), "report", out + "/raw-trace"])
    hw.true(b"the policy never lets" in report.stdout + report.stderr, hw.tail(report.stdout + report.stderr))
    s = Late(box, [shutil.copy(hw.target("late"), box.path("t_other"))])
    os.kill(s.pid, signal.SIGSTOP)
    out, r = profile(box, s.pid, "out2", joins=False)
    hw.true(b"is stopped; continue it first" in r.stderr, hw.tail(r.stderr))
    report = box.run([hw.tool("heapwise"), "report", out + "/raw-trace"])
    hw.true(b"is stopped; continue it first" in report.stdout + report.stderr,
            hw.tail(report.stdout + report.stderr))
    os.kill(s.pid, signal.SIGCONT)
    s.end()
    t.end()


def as_user(uid, groups=()):
    more = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), *more]


def need_root(box):
    hw.need("setpriv")
    if os.geteuid() != 0:
        raise hw.Skip("not root")
    os.chmod(box.dir, 0o777)
    if box.run([*as_user(USER), hw.tool("heapwise"), "help"]).returncode:
        raise hw.Skip("other users may not read the build directory")


def group(box):
    """Members of the policy's group profile their own processes with root's service; nobody else's,
    and nobody else does."""
    need_root(box)
    start(box, policy=f"group = {GROUP}\n")
    mine = Late(box, [*as_user(USER), hw.target("late")])
    yours = Late(box, [*as_user(OTHER), hw.target("late")])
    member = as_user(USER, [GROUP])
    out, r = profile(box, mine.pid, "mine", before=member)
    hw.equal(r.returncode, 0, hw.tail(r.stderr))
    hw.equal(hw.sound(out + "/raw-trace").last().pid, mine.pid, "a member's own process")
    out, r = profile(box, yours.pid, "yours", before=member, joins=False)
    hw.true(r.returncode != 0 and b"belongs to user" in r.stderr, hw.tail(r.stderr))
    out, r = profile(box, mine.pid, "stranger", before=as_user(USER), joins=False)
    hw.true(r.returncode != 0 and b"may not record with this service" in r.stderr, hw.tail(r.stderr))
    hw.equal(box.run([*as_user(USER), hw.tool("heapwise"), "record", "-o", box.path("own.trace"), "--no-report",
                      "--", "/bin/true"]).returncode in (0, 5), True, "his own recorder is his own affair")
    mine.end()
    yours.end()


LOCKS = """
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int n, char **argv) {
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC), out = open(argv[1], O_WRONLY | O_APPEND);
    struct uffdio_api api = {.api = UFFD_API};
    char *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(unsigned long)p + 4096, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    p[0] = 1;
    if (out < 0 || fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &r)) return 3;
    puts("now"); fflush(stdout);
    write(out, p + 4096, 4096); /* with the file's lock, for ever */
    return 4; }
"""


def locked_output(box):
    """A file whose lock somebody keeps ends the recording that writes it, and no other one."""
    hw.need("gcc")
    (box.dir / "locks.c").write_text(LOCKS)
    box.run(["gcc", "-w", "-o", box.path("locks"), box.path("locks.c")], check=0)
    start(box)
    one, other = Late(box), Late(box)
    os.mkdir(box.path("apart"))  # a rename of the file waits, too, with its directory's lock
    bad = box.start([hw.tool("heapwise"), "attach", str(one.pid), "-i", "1", "-c", "200ms", "-o", box.path("bad.trace")],
                    stderr=open(box.path("bad.err"), "wb"))
    good = box.start([hw.tool("heapwise"), "attach", str(other.pid), "-i", "1", "-o", box.path("apart/good.trace"), "--no-report"],
                     stderr=open(box.path("good.err"), "wb"))
    hw.wait_for(lambda: is_joined(one.pid) and is_joined(other.pid), "both to join")
    part = next(f for f in (box.path("bad.trace.part"), box.path("bad.trace")) if os.path.exists(f))
    holder = box.start([box.path("locks"), part])
    try:
        if holder.stdout.readline() != b"now\n":
            raise hw.Skip("no userfaultfd here")
        before = other.do("go 0")
        # Its next dump waits; then everybody else is served again.
        hw.wait_for(lambda: bad.poll() is not None or b"takes no more data" in open(box.path("bad.err"), "rb").read(), "the recording to be given up")
        after = other.do("go 70")
        t = time.monotonic()
        box.run([hw.tool("heapwise"), "ps"], check=0, timeout=hw.CLOCK)
        hw.true(time.monotonic() - t < 30, "ps of others")
        good.send_signal(signal.SIGINT)
        hw.equal(good.wait(hw.CLOCK), 0, open(box.path("good.err")).read())
        hw.exact(hw.sound(box.path("apart/good.trace")).last(), {k: [a - b for a, b in zip(after[k], before[k])] for k in after}, "the other recording")
    finally:
        holder.kill()
        holder.wait(hw.CLOCK)
    bad.wait(hw.CLOCK)
    hw.true("takes no more data" in open(box.path("bad.err")).read(), open(box.path("bad.err")).read())
    one.do("go 3")
    one.end()
    other.end()


KEPT = {"sys_ptrace", "dac_override", "sys_admin", "setuid", "net_admin", "kill"}
CAPABILITIES = ("chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable "
                "net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio "
                "sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time "
                "sys_tty_config mknod lease audit_write audit_control setfcap mac_override mac_admin syslog "
                "wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore").split()


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {l.split(":")[0]: l.split(":")[1].split() for l in text.splitlines()}


def capabilities(pid, which="CapEff"):
    bits = int(status(pid)[which][0], 16)
    return {n for i, n in enumerate(CAPABILITIES) if bits >> i & 1}


def children(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def by_name(pid, name):
    return [c for c in children(pid) if status(c)["Name"] == [name]]


def kept_by(name, pid, want):
    """The children of that name. They give up what they do not need after they took it."""
    def settled():
        found = by_name(pid, name)
        return found and all({k: capabilities(c, k) for k in want} == want for c in found) and found
    return hw.wait_for(settled, f"{name} with {want}")


def by_root(box):
    """Started by hand as root: the capabilities it needs are left, and no way to get others."""
    need_root(box)
    s = start(box)
    all_of = capabilities(os.getpid(), "CapPrm")
    for which in ("CapEff", "CapPrm", "CapBnd"):
        hw.equal(capabilities(s.pid, which), KEPT & all_of, which)
    for which in ("CapInh", "CapAmb"):
        hw.equal(capabilities(s.pid, which), set(), which)
    hw.equal(status(s.pid)["NoNewPrivs"], ["1"], "no_new_privs")
    left = KEPT & all_of
    kept_by("heapprofd-guard", s.pid, {"CapPrm": left, "CapBnd": left, "CapAmb": set()})
    for w in kept_by("heapprofd-elf", s.pid, {"CapEff": set(), "CapPrm": set(), "CapAmb": set()}):
        hw.equal((status(w)["Uid"][1], status(w)["NoNewPrivs"]), ("65534", ["1"]), "a worker's user")
    theirs = Late(box, [*as_user(USER), hw.target("late")])
    out, r = profile(box, theirs.pid, "theirs")
    hw.equal(r.returncode, 0, "another user's program, with what is left: " + hw.tail(r.stderr))
    theirs.end()
    s.terminate()
    hw.equal(s.wait(hw.CLOCK), 0, "the service's end")


def held_by_it(box):
    """A program that is held at its start is told of the socket that the service has, not of the usual one; also in a mount
    namespace of its own, as a unit with ProtectSystem= has."""
    try:
        holds()
    except hw.Skip:
        return
    w = Watch(box, "-n", os.path.basename(box.own("late")), name="held")
    first = held(box, [*as_user(OTHER), box.own("late")])
    started = [first, Late(box, ["unshare", "-m", *as_user(OTHER), box.own("late")])]
    wants = [t.do("go 100") for t in started]
    for t in started:
        t.end()
    trace = w.end(allow=("disconnected", "rejected"))
    for t, want in zip(started, wants):
        d = trace.last(t.pid)
        hw.exact(d, want, f"process {t.pid}")
        hw.true(d.from_startup, "from_startup")


def activated(box):
    """As the units have it: root makes the sockets, a user without root's name records for all."""
    need_root(box)
    sockets = []
    for name, mode in (("producer", 0o666), ("consumer", 0o660)):
        k = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        k.bind(box.path(name))
        os.chown(box.path(name), 0, GROUP)
        os.chmod(box.path(name), mode)
        k.listen(100)
        sockets.append(k)
    os.mkdir(box.path("cache"))
    os.chown(box.path("cache"), USER, USER)
    # 3 and 4, and $LISTEN_PID is who executes the service at last
    line = ("import os,sys; os.dup2(int(sys.argv[1]),103); os.dup2(int(sys.argv[2]),104); os.dup2(103,3); "
            "os.dup2(104,4); os.set_inheritable(3,True); os.set_inheritable(4,True); "
            "os.environ.update(LISTEN_PID=str(os.getpid()),LISTEN_FDS='2',LISTEN_FDNAMES='producer:consumer'); "
            "os.execvp(sys.argv[3],sys.argv[3:])")
    caps = ",".join("+" + c for c in sorted(KEPT))
    s = box.start([sys.executable, "-c", line, str(sockets[0].fileno()), str(sockets[1].fileno()),
                   *as_user(USER), "--inh-caps", caps, "--ambient-caps", caps, "--no-new-privs",
                   hw.tool("heapprofd"), "--cache-dir", box.path("cache")],
                  stderr=open(box.path("service.log"), "wb"), pass_fds=[k.fileno() for k in sockets],
                  env={"PERFETTO_PRODUCER_SOCK_NAME": box.path("the-usual-one")})
    for k in sockets:
        k.close()
    held_by_it(box)
    theirs = Late(box, [*as_user(OTHER), hw.target("late")])
    preloaded = Late(box, ["env", "LD_PRELOAD=" + hw.preload_library(), *as_user(OTHER), hw.target("late")])
    out, r = profile(box, theirs.pid, "theirs")
    hw.equal(r.returncode, 0, "attached: " + hw.tail(r.stderr) + open(box.path("service.log")).read())
    hw.equal(status(s.pid)["Uid"], [str(USER)] * 4, "the service's user")
    hw.equal(capabilities(s.pid), KEPT, "its capabilities")
    for w in by_name(s.pid, "heapprofd-elf"):
        hw.equal([capabilities(w, c) for c in ("CapEff", "CapPrm", "CapAmb")], [set()] * 3, "a worker's")
    out, r = profile(box, preloaded.pid, "preloaded")
    hw.equal(r.returncode, 0, "preloaded: " + hw.tail(r.stderr))
    hw.true(is_trusted(preloaded.pid), "a preloaded program believes root's socket")
    out, r = profile(box, theirs.pid, "member", before=as_user(OTHER, [GROUP]))
    hw.equal(r.returncode, 0, "a member of the group: " + hw.tail(r.stderr))
    out, r = profile(box, theirs.pid, "other", before=as_user(OTHER), joins=False)
    hw.true(r.returncode != 0 and b"is for root and members of group" in r.stderr, hw.tail(r.stderr))
    s.terminate()
    hw.equal(s.wait(hw.CLOCK), 0, "the service's end")
    hw.true(os.path.exists(box.path("producer")), "the service manager's sockets stay")
    theirs.end()
    preloaded.end()


def is_trusted(pid):
    return "memfd:hw-control" in pathlib.Path(f"/proc/{pid}/maps").read_text()


def units(box):
    """What `make install` leaves: systemd finds nothing wrong with it, and it names the same capabilities."""
    root = hw.built().parent
    service = root / "lib/systemd/system/heapprofd.service"
    text = service.read_text()
    for key in ("AmbientCapabilities", "CapabilityBoundingSet"):
        hw.equal({w[4:].lower() for w in re.search(rf"^{key}=(.*)$", text, re.M)[1].split()}, KEPT, key)
    hw.true((root / "lib/sysusers.d/heapwise.conf").exists(), "sysusers")
    # systemd gives such a directory, and all in it, to the unit's user: two units of different users share none.
    owners = {}
    for unit in service.parent.glob("heap*.service"):
        user = re.search(r"^User=(.*)", unit.read_text(), re.M)[1]
        for directory in re.findall(r"^((?:Cache|State|Runtime|Logs)Directory=.*)", unit.read_text(), re.M):
            hw.equal(owners.setdefault(directory, user), user, f"the user of {directory}")
    hw.need("systemd-analyze")
    home = box.path("units")
    shutil.copytree(service.parent, home)
    unit = pathlib.Path(home, "heapprofd.service")
    unit.write_text(re.sub(r"ExecStart=\S+", "ExecStart=" + hw.tool("heapprofd"), text))
    r = box.run(["systemd-analyze", "verify", "--man=no", str(unit)], env={"SYSTEMD_UNIT_PATH": home + ":"})
    ours = [l for l in (r.stdout + r.stderr).decode().splitlines() if "heap" in l and "not found" not in l]
    hw.equal(ours, [], "systemd-analyze verify")
    # No setting that systemd makes a system call filter of: the recorder could not read other programs' filters then, and
    # would attach to none of them. That leaves 7.1 of systemd's 10; more cannot be had.
    for kept in ("NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=read-only", "PrivateTmp=yes", "DevicePolicy=closed"):
        hw.true(f"\n{kept}\n" in text, f"{kept} is kept")
    hw.true("SystemCallFilter=" not in re.sub(r"^#.*", "", text, flags=re.M), "no filter")
    r = box.run(["systemd-analyze", "security", "--offline=yes", "--threshold=72", str(unit)])
    hw.equal(r.returncode, 0, "systemd-analyze security: " + hw.tail(r.stdout, 300) + hw.tail(r.stderr))


def unreached(box):
    """Started by hand where nobody looks: it says so, and what to do."""
    def says(*options, env=None):
        pathlib.Path(box.path("c")).unlink(missing_ok=True)
        s = box.start([hw.tool("heapprofd"), "--consumer-socket", box.path("c"), *options], env=env,
                      stderr=open(box.path("log"), "wb"))
        hw.wait_for(lambda: os.path.exists(box.path("c")), "the service")
        s.terminate()
        s.wait(hw.CLOCK)
        return open(box.path("log")).read()
    elsewhere = box.path("elsewhere")
    text = says("--producer-socket", elsewhere, env={"PERFETTO_PRODUCER_SOCK_NAME": ""})
    hw.true(f"must be started with PERFETTO_PRODUCER_SOCK_NAME={elsewhere}" in text, text)
    text = says(env={"PERFETTO_PRODUCER_SOCK_NAME": elsewhere})
    hw.true("must be started with" not in text, text)
    if os.geteuid() == 0:
        os.chmod(box.dir, 0o700)
        text = says("--producer-socket", elsewhere)
        hw.true(f"directory '{box.dir}' is closed to them" in text, text)
        os.chmod(box.dir, 0o755)
        hw.true("closed" not in says("--producer-socket", elsewhere), "an open directory is fine")


def behind_another(box):
    """A command that begins while the recorder of a killed one still holds the socket's name waits for it."""
    path = os.environ.get("PERFETTO_PRODUCER_SOCK_NAME") or box.path("producer")
    old = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    old.bind(path)
    old.listen(4)
    p = box.start([hw.tool("heapwise"), "record", "-n", f"nobody{os.getpid()}", "-d", "300ms", "-o", box.path("n.trace")],
                  env={"PERFETTO_PRODUCER_SOCK_NAME": path}, stderr=open(box.path("log"), "wb"))
    time.sleep(0.7)  # what is tested: it waits
    old.close()
    p.wait(hw.CLOCK)
    text = open(box.path("log")).read()
    hw.true("in use by" not in text and "[no-process]" in text, text)


def kernel_file(box):
    """A file of /proc is no output: who may open it is not who writes it."""
    need_root(box)
    start(box)
    os.chmod(box.dir, 0o777)
    as_him = [*as_user(USER), hw.tool("perfetto"), "-t", "300ms"]
    r = box.run([*as_him, "-o", "/proc/self/coredump_filter", "sched/sched_switch"])
    hw.true(r.returncode != 0 and b"file system of the kernel's own" in r.stderr, f"{r.returncode}: {hw.tail(r.stderr)}")
    r = box.run([*as_him, "-o", box.path("fine"), "sched/sched_switch"])
    hw.equal(r.returncode, 0, hw.tail(r.stderr))


if __name__ == "__main__":
    hw.main({"refused": refused, "group": group, "by-root": by_root, "activated": activated, "units": units,
             "unreached": unreached, "behind-another": behind_another, "kernel-file": kernel_file, "locked-output": locked_output})
