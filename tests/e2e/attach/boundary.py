#!/usr/bin/env python3
"""What a user's program or command, with no more rights than its user has, could get out of a recorder
that has more: tests/targets/confined/hostile.c, as strangers that a root's service works for."""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from attach import Late, is_joined, maps
from namespaces import below
from service import OTHER, USER, as_user, need_root, start

OPEN = "machine = developer\n"


class Program:
    """Something that is ready and waits for its input to end."""

    def __init__(self, box, argv, before=as_user(USER), env=None, name=None):
        # setpriv has root's rights still when it executes what comes
        self.p = box.start([*before, "sh", "-c", 'exec "$0" "$@"', *argv], stdin=subprocess.PIPE, env=env)
        hw.equal(self.p.stdout.readline(), b"ready\n", str(argv))
        self.pid = below(self.p.pid, name) if name else self.p.pid

    def tell(self):
        self.p.stdin.write(b"\n")
        self.p.stdin.flush()

    def end(self):
        self.p.kill()
        self.p.wait(hw.CLOCK)


def hostile(box, *argv, **kw):
    return Program(box, [hw.target("hostile"), *argv], **kw)


def has_library(pid):
    with contextlib.suppress(OSError):
        return "memfd:lib" in maps(pid) or is_joined(pid)
    return False


def ask(box, pid, before=as_user(USER)):
    """heap_profile -p by that user: what it says when it is over, or None: the process has joined."""
    out = box.path(f"out{time.monotonic_ns()}")
    os.mkdir(out)
    os.chmod(out, 0o777)
    p = box.start([*before, hw.tool("heap_profile"), "-p", str(pid), "-i", "1", "-o", out, "-d", "1000"])
    try:
        while p.poll() is None:
            if is_joined_now(pid):
                return None
            time.sleep(0.01)
        return hw.tail(p.stderr.read())
    finally:
        if p.poll() is None:
            p.send_signal(signal.SIGINT)
        p.communicate(timeout=hw.CLOCK)


def is_joined_now(pid):
    with contextlib.suppress(OSError):
        return bool(is_joined(pid))
    return False


def refused(box, pid, text, before=as_user(USER)):
    said = ask(box, pid, before)
    hw.true(said is not None, f"process {pid} was profiled for a user that may not")
    hw.true(text in said, f"'{text}' in: {said}")
    hw.true(not has_library(pid), "the library is in there all the same")


def copy(box, name):
    path = shutil.copy(hw.target("late"), box.path(name))
    os.chmod(path, 0o755)
    return path


def swapped_file(box):
    """A descriptor of another's file in place of the memory file: not a byte of it is written."""
    need_root(box)
    victim = pathlib.Path(box.path("victim"))
    start(box, policy=OPEN)
    for mode in (0o600, 0o666):  # the second may be written by its user, not by way of us
        victim.write_bytes(b"root's")
        os.chmod(victim, mode)
        t = hostile(box, "swap", str(victim))
        for _ in range(3):
            ask(box, t.pid)
            hw.true(victim.read_bytes() == b"root's", "root's file was written")
        hw.true(t.p.poll() is None, "the program lives")
        t.end()


def other_group(box):
    """Set-group-id: the kernel lets nobody but root look into it."""
    need_root(box)
    start(box, policy=OPEN)
    path = copy(box, "t_setgid")
    os.chown(path, 0, OTHER)
    os.chmod(path, 0o2755)
    t = Program(box, [path, "late"])
    refused(box, t.pid, "runs with other user or group ids")
    hw.equal(ask(box, t.pid, before=()), None, "root may")
    t.end()
    t = Program(box, [hw.target("late")])  # his own, but he asks as another group
    refused(box, t.pid, "runs with other user or group ids",
            ["setpriv", "--reuid", str(USER), "--regid", str(OTHER), "--clear-groups"])
    t.end()


def capable(box):
    """What has capabilities, of its file or inherited, is not for a user who has none."""
    need_root(box)
    hw.need("setcap")
    start(box, policy=OPEN)
    path = copy(box, "t_capable")
    if box.run(["setcap", "cap_net_bind_service+ep", path]).returncode:
        raise hw.Skip("no file capabilities here")
    t = Program(box, [path])
    refused(box, t.pid, "is protected from other processes")
    t.end()
    t = Program(box, [hw.target("late")],
                before=[*as_user(USER), "--inh-caps", "+net_bind_service", "--ambient-caps", "+net_bind_service"])
    refused(box, t.pid, "has capabilities that you do not have")
    hw.equal(ask(box, t.pid, before=()), None, "root may")
    t.end()


def closed(box):
    """PR_SET_DUMPABLE 0, attached to and prepared; a program whose file may not be read."""
    need_root(box)
    start(box, policy=OPEN)
    t = hostile(box, "closed")
    refused(box, t.pid, "is protected from other processes")
    t.end()
    t = hostile(box, "closed", env={"LD_PRELOAD": hw.preload_library()})
    refused(box, t.pid, "is protected from other processes")
    t.end()
    path = copy(box, "t_unread")
    os.chmod(path, 0o711)
    t = Program(box, [path])
    refused(box, t.pid, "is protected from other processes")
    hw.equal(ask(box, t.pid, before=()), None, "root may")
    t.end()


HIDING = ["unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$0" "$@"']


def hidden(box):
    """Where /proc hides the processes of others, a service does not tell of them: neither that a name
    is one's, nor whose a number is."""
    need_root(box)
    hw.need("unshare")
    if box.run([*HIDING, "true"]).returncode:
        raise hw.Skip("no /proc of its own here")
    start(box, policy=OPEN, before=HIDING)
    t = Program(box, [copy(box, "t_secret"), "late"], before=as_user(OTHER))
    me = [*HIDING, *as_user(USER)]

    def said(*argv):
        out = box.path(f"out{time.monotonic_ns()}")
        os.mkdir(out)
        os.chmod(out, 0o777)
        r = box.run([*me, hw.tool("heap_profile"), "-i", "1", "-o", out, "-d", "500", *argv])
        return r.returncode, r.stderr.decode().replace(out, "OUT")
    named, nobodys = said("-n", "t_secret"), said("-n", "t_absent")
    hw.equal(named, (nobodys[0], nobodys[1].replace("t_absent", "t_secret")), "a name of another's, and nobody's")
    code, text = said("-p", str(t.pid))
    hw.true(code != 0 and str(OTHER) not in text and "t_secret" not in text, f"by its number: {text}")
    own = Program(box, [copy(box, "t_own"), "late"])
    hw.equal(ask(box, own.pid, before=me), None, "his own is his own")
    own.end()
    t.end()


def entered(box):
    """Root's process that has gone into a user's namespace is not that user's."""
    need_root(box)
    if box.run([*as_user(USER), "unshare", "-Ur", "true"]).returncode:
        raise hw.Skip("no user namespaces here")
    start(box, policy=OPEN)
    own = Program(box, ["unshare", "-Ur", hw.target("late")])
    t = hostile(box, "enter", str(own.pid), before=())
    t.tell()
    hw.wait_for(lambda: os.stat(f"/proc/{t.pid}/ns/user").st_ino == os.stat(f"/proc/{own.pid}/ns/user").st_ino,
                "the namespace")
    refused(box, t.pid, "came from outside")
    hw.equal(ask(box, own.pid), None, "his own is his")
    own.end()
    t.end()


def root_without(box):
    """Root that may not trace others gets nothing from a service that may."""
    need_root(box)
    start(box, policy=OPEN)
    t = Program(box, [hw.target("late")])
    refused(box, t.pid, "belongs to user", ["setpriv", "--bounding-set", "-sys_ptrace"])
    t.end()


def executes(box):
    """Between the question and the injection it becomes set-user-id root; so it does while one of its
    threads is held. The library never gets into that program, and that program runs on."""
    need_root(box)
    start(box, policy=OPEN)
    path = copy(box, "t_setuid")
    os.chmod(path, 0o4755)
    for ms in (0, 15, 30, 45, 60, 90):
        t = hostile(box, "exec", path)
        out = box.path(f"exec{ms}")
        os.mkdir(out)
        os.chmod(out, 0o777)
        p = box.start([*as_user(USER), hw.tool("heap_profile"), "-p", str(t.pid), "-i", "1", "-o", out, "-d", "400"])
        hw.wait_for(lambda: pathlib.Path(out, "raw-trace").exists() or p.poll() is not None, "the recording")
        time.sleep(ms / 1000)
        t.tell()
        became_root(t, path)
        p.communicate(timeout=hw.CLOCK)
        hw.true(not has_library(t.pid), f"the library is in root's program, {ms} ms")
        t.end()
    for _ in range(4):
        t = hostile(box, "held", path)
        for _ in range(20):  # its thread that looks may have had no processor while the other one was held
            ask(box, t.pid)
            time.sleep(0.1)
            if exe(t) != hw.target("hostile"):
                break
        became_root(t, path)
        hw.true(not has_library(t.pid), "the library is in root's program")
        t.end()


def outlived(box):
    """It becomes set-user-id root while it is recorded, and a child keeps its connection to the recorder: no
    mapping of that program comes into its user's trace."""
    need_root(box)
    start(box, policy=OPEN)
    path = copy(box, "t_setuid_kept")
    os.chmod(path, 0o4755)
    t = hostile(box, "kept", path)
    trace = box.path("kept.trace")
    p = box.start([*as_user(USER), hw.tool("heapwise"), "attach", str(t.pid), "-i", "1", "-c", "100ms", "--smaps", "100ms", "-f", "-o", trace])

    def readings(mapping="%"):
        path = trace if os.path.exists(trace) else trace + ".part"
        r = box.run([hw.tool("heapwise"), "query", path,
                     f"select count(distinct ts) from profiler_smaps where path like '{mapping}'"], check=None)
        return int(r.stdout.split()[-1]) if r.returncode == 0 else 0

    hw.wait_for(lambda: readings() > 0, "a reading of it")
    t.tell()
    became_root(t, path)
    time.sleep(1)  # the recorder may try a few times
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=hw.CLOCK)
    hw.true(readings("%/hostile%") > 0 or readings("%t_hostile%") > 0, "what it was is in the trace")
    hw.equal(readings("%t_setuid_kept%"), 0, "readings of root's program")
    t.end()


def sums_of_others(box):
    """All processes may be listed; what the kernel keeps to their users, the sums of their mappings, is his own only."""
    need_root(box)
    s = start(box, policy=OPEN)
    t = hostile(box)
    config = ('duration_ms: 1500 buffers { size_kb: 4096 } data_sources { config { name: "linux.process_stats" '
              'process_stats_config { scan_all_processes_on_start: true scan_smaps_rollup: true proc_stats_poll_ms: 200 } } }')
    trace = box.path("all.trace")
    p = box.start([*as_user(USER), hw.tool("perfetto"), "--txt", "-c", "-", "-o", trace], stdin=subprocess.PIPE)
    _, err = p.communicate(config.encode(), timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, hw.tail(err))

    def readings(pid, name):
        out = box.run([hw.tool("heapwise"), "query", trace, "select count(*) from counter c join process_counter_track t on "
                       f"c.track_id = t.id join process p using (upid) where p.pid = {pid} and t.name = '{name}'"]).stdout
        return int(out.split()[-1])

    hw.true(readings(t.pid, "mem.smaps.pss") > 0, "his own")
    hw.true(readings(s.pid, "mem.rss.anon") > 0, "what is public of others")
    hw.equal(readings(s.pid, "mem.smaps.pss"), 0, "of root's service")
    t.end()


def exe(t):
    """Its program; none in the moment in which its first thread makes way for the one that executes."""
    try:
        return os.readlink(f"/proc/{t.pid}/exe")
    except FileNotFoundError:
        hw.true(t.p.poll() is None, "it runs on")
        return ""


def became_root(t, path):
    hw.wait_for(lambda: exe(t) == path, "the exec")
    hw.equal(t.p.stdout.readline(), b"ready\n", "root's program runs")
    hw.equal(os.stat(f"/proc/{t.pid}").st_uid, 0, "with root's rights")


# ---- the policy ----

def field(number, value):
    """Bytes as a message, else a varint."""
    key = number << 3 | (2 if isinstance(value, bytes) else 0)
    return varint(key) + (varint(len(value)) + value if isinstance(value, bytes) else varint(value))


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def config():
    heapprofd = field(1, 1)
    return field(1, field(1, 63488)) + field(2, field(1, field(1, b"android.heapprofd") + field(105, heapprofd)))


START, TARGET, STARTED, ERROR = 1, 5, 32, 33
LAUNCHED = 8


def as_child_of(uid, work):
    """work() in a child with that user's rights -> its text."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(w, work().encode())
        except Exception as e:
            os.write(w, f"{type(e).__name__}: {e}".encode())
        finally:
            os._exit(0)
    os.close(w)
    with open(r, "rb") as f:
        text = f.read().decode()
    os.waitpid(pid, 0)
    return text


def lie(box, pid, seconds=2.0):
    """A command that says it has started that process."""
    def message(s, kind, body, fds=()):
        s.sendmsg([struct.pack("<IIIIQ", 1, kind, len(body), 0, 0) + body],
                  [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("<i", fds[0]))] if fds else [])

    def work():
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(box.path("consumer"))
        out = os.open(box.path(f"lie{os.getpid()}"), os.O_RDWR | os.O_CREAT, 0o600)
        message(s, TARGET, struct.pack("<iI", pid, 0))
        c = config()
        message(s, START, struct.pack("<IIIIQII", LAUNCHED, 0, 0, 0, 0, len(c), 0) + c, [out])
        s.settimeout(seconds)
        said = ""
        end = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            while time.monotonic() < end:  # it is told of its progress meanwhile
                b = s.recv(1 << 18)
                if not b:
                    break
                kind = struct.unpack_from("<I", b, 4)[0]
                said += " started" if kind == STARTED else " " + b[24:].decode(errors="replace") if kind == ERROR else ""
        return said + (" joined" if is_joined_now(pid) else "")
    return as_child_of(uid=USER, work=work)


def launched(box):
    """On a production machine a command is believed nothing about what it has started."""
    need_root(box)
    start(box, policy="machine = production\n")
    t = hostile(box, env={"LD_PRELOAD": hw.preload_library()})
    refused(box, t.pid, "not to be profiled on a production machine")
    said = lie(box, t.pid)
    hw.true("joined" not in said and "none that this command has just started" in said, said)
    t.end()
    r = box.run([*as_user(USER), hw.tool("heapwise"), "record", "-i", "1", "-o", box.path("his.trace"), "--no-report", "--",
                 hw.target("truth")], check=0)
    hw.exact(hw.sound(box.path("his.trace")).last(), hw.expectations(r.stdout), "what it has started is profiled")


if __name__ == "__main__":
    hw.main({"swapped-file": swapped_file, "other-group": other_group, "capable": capable, "closed": closed,
             "hidden": hidden,
             "entered": entered, "root-without": root_without, "executes": executes, "outlived": outlived, "sums-of-others": sums_of_others,
             "launched": launched})
