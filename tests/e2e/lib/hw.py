"""
Shared by the end-to-end tests: the built product, running targets with and without it, comparing.

Environment: HW_BUILD is Meson's build directory (the tests set it), HW_KEEP=1 keeps the temporary
directories of failed cases. A case is a function that returns, raises Skip (exit 77) or fails.
"""
import contextlib
import ctypes
import fcntl
import functools
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback

from lib import checked
from lib.trace import Trace

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HW_BUILD", ROOT / "build")).resolve()
TARGETS = BUILD / "tests" / "targets"
STAGE = BUILD / "stage"
# Seconds after which something counts as hung. All such limits are defined here: a busy machine takes many
# times as long as an idle one, and a limit that is never reached costs nothing. Tests of speed measure and
# compare.
CLOCK = 60


class Skip(Exception):
    pass


class Failure(Exception):
    pass


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise Skip(f"{p} is not installed")


def built():
    """The product as installed by `make install`, brought up to date once for all parallel tests."""
    exe, lib = BUILD / "src/cli/heapwise", BUILD / "src/client/libheapprofd_glibc_preload.so"
    lib32 = BUILD / "src/client/i386" / lib.name
    for f in (exe, lib):
        if not f.exists():
            raise Skip(f"{f.name} is not built")
    STAGE.mkdir(exist_ok=True)
    with open(BUILD / "stage.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = STAGE / "stamp"
        java = BUILD / "src/java/libheapwise_java.so"
        newest = max(f.stat().st_mtime for f in (exe, lib, lib32, java) if f.exists())
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            shutil.rmtree(STAGE)  # an earlier prefix may be in it
            STAGE.mkdir()
            env = {**os.environ, "DESTDIR": str(STAGE)}
            p = subprocess.run(["meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet"],
                               env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if p.returncode:
                raise Failure(f"meson install: {p.stdout}")
            stamp.touch()
    found = list(STAGE.glob("**/bin/heapwise"))
    if not found:
        raise Failure("meson install left no bin/heapwise")
    return found[0].parent


def tool(name):
    return str(built() / name)


def preload_library():
    return str(built().parent / "lib" / "libheapprofd_glibc_preload.so")


def preload_library_32():
    p = built().parent / "lib32" / "libheapprofd_glibc_preload.so"
    if not p.exists():
        raise Skip("no client library of 32 bits: the compiler makes no such programs (libc6-dev-i386, lib32gcc-12-dev)")
    return str(p)


def target(name):
    p = TARGETS / ("t_" + name)
    if not p.exists():
        raise Skip(f"{p.name} is not built")
    return str(p)


class Box:
    """A temporary directory with sockets, caches and HOME of its own, and the processes started in it."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="hw."))
        self.children = []
        self.allowed = set()
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("HEAPWISE", "PERFETTO", "LD_PRELOAD"))}
        bindir = shutil.which("heapwise")
        with contextlib.suppress(Skip, Failure):
            bindir = str(built())
        self.env.update(HOME=str(self.dir), TMPDIR=str(self.dir), XDG_CACHE_HOME=str(BUILD / "cache"),
                        XDG_CONFIG_HOME=str(self.dir / "config"), NO_COLOR="1", LC_ALL="C.UTF-8",
                        PERFETTO_PRODUCER_SOCK_NAME=str(self.dir / "producer"),
                        PERFETTO_CONSUMER_SOCK_NAME=str(self.dir / "consumer"))
        if bindir:
            self.env["PATH"] = bindir + ":" + self.env["PATH"]
        self.env.pop("MALLOC_CONF", None)

    def own(self, name):
        """The target under this box's own name: recorders of parallel tests also look for processes
        by name."""
        link = self.dir / f"t_{name}.{self.dir.name.split('.')[-1]}"
        if not link.exists():
            link.symlink_to(target(name))
        return str(link)

    def named(self, name):
        """The name that a recorder should look for instead of t_STEPS: this box's own."""
        return os.path.basename(self.own(name[2:])) if name.startswith("t_") else name

    def path(self, name):
        return str(self.dir / name)

    def broken(self, *names):
        """These files are damaged on purpose ("*" = all): they may break the format's rules."""
        checked.spoil(self.dir, *names)

    def allow(self, *rules):
        """Rules that traces of this case may break: a recorder that is killed does not end its dump."""
        self.allowed |= set(rules)

    def traces_are_sound(self):
        """Checks that every trace our tools left here follows the format's rules (doc/design/check.md)."""
        with contextlib.suppress(Skip):
            wrong = checked.check_folder(tool("heapwise"), self.dir, self.allowed)
            true(not wrong, "heapwise check: " + "\n  ".join(wrong[:10]))

    def run(self, argv, timeout=CLOCK, env=None, stdin=None, check=None, **kw):
        """-> CompletedProcess with bytes; a hang is a failure, killed with all its children."""
        p = self.start(argv, env=env, stdin=subprocess.PIPE if stdin is not None else None, **kw)
        try:
            out, err = p.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
            raise Failure(f"hung for {timeout} s: {' '.join(map(str, argv))}\n{tail(out)}\n{tail(err)}")
        r = subprocess.CompletedProcess(argv, p.returncode, out, err)
        if check is not None and r.returncode != check:
            raise Failure(f"exit {r.returncode}, expected {check}: {' '.join(map(str, argv))}\n"
                          f"{tail(out)}\n{tail(err)}")
        return r

    def start(self, argv, env=None, stdin=None, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw):
        p = subprocess.Popen([str(a) for a in argv], env={**self.env, **(env or {})}, cwd=self.dir,
                             stdin=stdin if stdin is not None else subprocess.DEVNULL,
                             stdout=stdout, stderr=stderr, start_new_session=True, **kw)
        self.children.append(p)
        return p

    def again(self):
        """Restores the initial state."""
        self.traces_are_sound()
        self.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        self.__init__()

    def close(self):
        for p in self.children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(p.pid, signal.SIGKILL)
            with contextlib.suppress(Exception):
                p.wait(5)


ALLOW, LOG, KILL, TRAP, NOTIFY, ERROR = 0x7fff0000, 0x7ffc0000, 0x80000000, 0x30000, 0x7fc00000, 0x50001  # a filter's results; ERROR is EPERM


def calls(number, action, *tests):
    """A filter: one system call of x86-64 gets this action if all tests hold, all others are allowed. A test is (argument, mask, value) of the lower half."""
    rest = [x for arg, mask, value in tests
            for x in ((0x20, 0, 0, 16 + 8 * arg), (0x54, 0, 0, mask), (0x15, 0, None, value))]
    code = [(0x20, 0, 0, 0), (0x15, 0, None, number), *rest, (0x06, 0, 0, action), (0x06, 0, 0, ALLOW)]
    return [(op, jt, len(code) - i - 2 if jf is None else jf, k) for i, (op, jt, jf, k) in enumerate(code)]


def filter_calls(*filters):
    """For preexec_fn: installs system call filters, as in a unit with SystemCallFilter=; without arguments one that allows everything."""
    libc = ctypes.CDLL(None, use_errno=True)
    for f in filters or [[(0x06, 0, 0, ALLOW)]]:
        code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *i) for i in f))
        program = ctypes.create_string_buffer(struct.pack("@HP", len(f), ctypes.addressof(code)))
        if libc.prctl(38, 1, 0, 0, 0) < 0 or libc.prctl(22, 2, program, 0, 0) < 0:  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
            raise OSError(ctypes.get_errno(), "seccomp")


def tail(data, n=2500):
    text = data.decode(errors="replace") if isinstance(data, bytes) else str(data or "")
    return text[-n:]


def equal(have, want, what):
    if have != want:
        raise Failure(f"{what}: have {have!r}, want {want!r}")


def true(condition, what):
    if not condition:
        raise Failure(what)


def wait_for(condition, what, seconds=CLOCK):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        v = condition()
        if v:
            return v
        time.sleep(0.02)
    raise Failure(f"waited {seconds} s for {what}")


def quiet(seconds):
    """For tests that nothing happens: there is no event to wait for."""
    time.sleep(seconds)


def status(pid, key):
    """A line of /proc/PID/status, without its key; "" if the process is gone."""
    with contextlib.suppress(OSError):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((l.partition(":")[2].strip() for l in lines if l.startswith(key + ":")), "")
    return ""


def stopped(pid):
    """Waits until a process that was sent SIGSTOP has stopped."""
    wait_for(lambda: status(pid, "State")[:1] in "tT", f"{pid} to stop")


def took(pid, signal_):
    """Waits until a process has handled a signal, so that the same one may be sent again."""
    bit = 1 << signal_ - 1
    wait_for(lambda: status(pid, "State")[:1] in ("", "Z", "X") or not any(int(status(pid, k) or "0", 16) & bit for k in ("ShdPnd", "SigPnd")), f"{pid} to take signal {signal_}")


def unread(fd):
    """Bytes in a pipe or socket that the other side has not read."""
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]


def processes(name=None, session=None, parent=None):
    """Pids by the kernel's name, session and parent. Not by pgrep: that reads the command line of every process there is, and waits
    as long as another test keeps the memory of one locked (storms/locked-*)."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            head, _, rest = path.read_text(errors="replace").rpartition(") ")
            state, ppid, _, sid = rest.split()[:4]
            if state != "Z" and name in (None, head.partition(" (")[2]) and session in (None, int(sid)) and parent in (None, int(ppid)):
                found.append(int(path.parent.name))
    return found


def ticks(pid):
    """CPU time used by a process, in clock ticks."""
    return sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))


def idles(pid, seconds=0.1):
    """Waits until a process sleeps and has used almost no CPU time for a while: it may poll now and then."""
    def nothing():
        before = ticks(pid)
        time.sleep(seconds)
        return ticks(pid) == before and status(pid, "State")[:1] == "S"
    wait_for(nothing, f"{pid} to have nothing to do")


@functools.cache
def exported(name):
    """The object's offset from the start of the client library."""
    out = subprocess.run(["nm", "-D", "--defined-only", preload_library()], stdout=subprocess.PIPE, text=True, check=True).stdout
    return next(int(l.split()[0], 16) for l in out.splitlines() if l.split()[2].split("@")[0] == name)


def in_client(pid, name, offset):
    """A 32-bit word of an exported object of the client library, in a process that may have it; 0 = it does not."""
    ours = [l.split() for l in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "libheapprofd_glibc_preload.so" in l]
    at = next((int(m[0].split("-")[0], 16) for m in ours if m[2] == "00000000"), None)
    if at is None:
        return 0
    with open(f"/proc/{pid}/mem", "rb", 0) as f:
        f.seek(at + exported(name) + offset)
        return int.from_bytes(f.read(4), sys.byteorder)


def called(pid):
    """Has a recorder told the client to make the handshake? It does so at its next allocation. (wire/control_page.h: generation)"""
    return in_client(pid, "heapwise_control_page", 0)


def slots(pid):
    """How many table entries are hooked in an attached process. (wire/attach.h: n_slots)"""
    return in_client(pid, "heapwise_attach_block", 36)


def works(pid, n=5):
    """Waits until a process has used this many clock ticks of CPU time, for one that answers an endless query."""
    before = ticks(pid)
    wait_for(lambda: ticks(pid) >= before + n, f"{n} ticks of work")


def by_themselves(case):
    """Runs the case in a new pid namespace: a recorder sees only processes that start there."""
    def inside(box):
        if os.environ.get("HW_BY_THEMSELVES"):
            return case(box)
        need("unshare")
        if os.geteuid():
            raise Skip("needs root")
        name = case.__name__.replace("_", "-")
        p = subprocess.run(["unshare", "-pfm", "--mount-proc", "--kill-child", "sh", "-c", '"$@"; exit $?', "sh", sys.executable,
                            "-B", sys.argv[0], name], env={**os.environ, "HW_BY_THEMSELVES": "1"}, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
        lines = p.stdout.decode(errors="replace").splitlines()
        for line in lines:
            if not line.startswith(("ok ", "FAILED ", "skip ")):
                print(line)
        last = ([l for l in lines if l.startswith(("FAILED ", "skip "))] or [""])[-1].partition(": ")[2]
        if p.returncode == 77:
            raise Skip(last)
        true(p.returncode == 0, last or tail(p.stdout))
    return inside


def record(box, argv, *options, trace="out.trace", interval=1, stdout="target.out", **kw):
    """`heapwise record` with the target's standard output in a file of its own, because record
    prints its report on the same stream. The shell execs the target: same process, same pid."""
    out = box.path(stdout)
    line = ["sh", "-c", 'exec "$@" >"$HW_TARGET_OUT"', "sh", *map(str, argv)]
    r = box.run([tool("heapwise"), "record", "-i", str(interval), "-o", box.path(trace), *options,
                 "--", *line], env={"HW_TARGET_OUT": out, **kw.pop("env", {})}, **kw)
    r.target_stdout = pathlib.Path(out).read_bytes() if os.path.exists(out) else b""
    r.trace = box.path(trace)
    return r


def expectations(stdout):
    """EXPECT lines -> {function: [alloc, allocs, live, live objects]}"""
    r = {}
    for line in stdout.decode(errors="replace").splitlines():
        if line.startswith("EXPECT "):
            w = line.split()
            r[w[1]] = [int(x) for x in w[2:6]]
    return r


def sound(path, allow=("disconnected",)):
    """Checks that protoc can decode the trace and that a strict reader finds nothing wrong. -> Trace"""
    t = Trace(path)
    true(not t.truncated, f"{path} ends in the middle of a packet")
    true(not t.problems, f"{path}: {t.problems[:10]} ({len(t.problems)} problems)")
    true(t.uuid, f"{path}: no trace_uuid")
    wrong = checked.check(tool("heapwise"), [path])
    true(not wrong, f"heapwise check: {wrong}")
    last = {}
    for d in t.dumps:
        if d.ts and not d.rejected:
            true(d.ts > last.get((d.pid, d.heap), 0), f"{path}: process {d.pid} heap {d.heap}: {d.trigger} is not "
                 "behind the dump before it")
            last[d.pid, d.heap] = d.ts
        bad = [f for f in d.flags() if f not in allow]
        true(not bad, f"{path}: process {d.pid} heap {d.heap} has {bad}")
    if shutil.which("protoc"):
        with open(path, "rb") as f:
            p = subprocess.run(["protoc", "--decode_raw"], stdin=f, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
        equal(p.returncode, 0, f"protoc --decode_raw {path}: {tail(p.stderr)}")
    return t


def exact(dump, want, what=""):
    """Checks a dump at interval 1, where all numbers are exact: bytes and counts, allocated and live."""
    true(dump is not None, f"{what}: no dump of libc.malloc")
    have = dump.by_function(want)
    wrong = [f"{f}: have {have[f]}, want {want[f]}" for f in want if have[f] != want[f]]
    true(not wrong, f"{what} [alloc, allocs, live, live objects]\n  " + "\n  ".join(wrong)
         + f"\n  {len(dump.samples)} callstacks, {dump.heap_samples} samples, lost {dump.lost}")


def reason(e):
    """What failed, and the test's line; never empty."""
    frames = [f for f in traceback.extract_tb(e.__traceback__) if f.filename != __file__]
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    return (str(e).strip() or "no reason given") + where


def main(cases):
    """argv[1:] names cases (default: all). Exits with 0, 1, or 77 if all were skipped."""
    if sys.argv[1:] == ["--list"]:
        print(*sorted(cases))
        return
    names = sys.argv[1:] or sorted(cases)
    failed = skipped = 0
    for name in names:
        box, start = Box(), time.monotonic()
        keep = False
        try:
            cases[name](box)
            box.traces_are_sound()
            print(f"ok {name} ({time.monotonic() - start:.1f} s)")
        except Skip as e:
            skipped += 1
            print(f"skip {name}: {e}")
        except (Failure, AssertionError) as e:
            failed, keep = failed + 1, True
            print(f"FAILED {name}: {reason(e)}")
        except Exception as e:
            failed, keep = failed + 1, True
            traceback.print_exc(file=sys.stdout)
            print(f"FAILED {name}: {type(e).__name__}: {reason(e)}")
        finally:
            box.close()
            if keep and os.environ.get("HW_KEEP"):
                print(f"  kept {box.dir}")
            else:
                shutil.rmtree(box.dir, ignore_errors=True)
        sys.stdout.flush()
    sys.exit(1 if failed else 77 if skipped == len(names) else 0)
