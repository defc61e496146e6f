#!/usr/bin/env python3
"""The survive list: whatever happens, the target's output and end are those it has without us."""
import contextlib
import os
import pathlib
import random
import resource
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from classic import Steps, finish, preloaded, service, session
from lib import hw
from lib.trace import Trace

LONG = bool(os.environ.get("HW_LONG"))  # the full counts of the list; short ones otherwise
SEED = int(os.environ.get("HW_SEED", "1"))


def under_load(box, *args, env=None):
    """The saturating target in the background, preloaded. -> (process, its output without us)"""
    argv = [box.own("saturate"), *args]
    plain = box.run(argv, timeout=120)
    p = box.start(argv, env={"LD_PRELOAD": hw.preload_library(), **(env or {})})
    return p, plain.stdout


def ended(p, want, what, timeout=120):
    out, err = p.communicate(timeout=timeout)
    hw.equal(p.returncode, 0, f"{what}: the target's end ({hw.tail(err)})")
    hw.equal(out, want, f"{what}: the target's output")


def start_stop(box):
    """Sessions started and stopped under load, 1,000 times (HW_LONG) or 30."""
    service(box)
    n = 1000 if LONG else 30
    p = box.start([box.own("saturate"), "2", "0"], env={"LD_PRELOAD": hw.preload_library()})
    seen = 0

    def rings():
        lines = pathlib.Path(f"/proc/{p.pid}/maps").read_text().splitlines()
        return {x for x in lines if "heapwise-ring" in x}
    def work():  # clock ticks of processor time
        return sum(map(int, pathlib.Path(f"/proc/{p.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))

    joined = 0
    for i in range(n):
        before = rings()
        s = session(box, "t_saturate", interval=4096, trace="s.trace")
        if i % 2 == 0:  # joins and works; the others may be over before the program has heard of them
            joined += 1
            # A buffer that overran may be gone before we look: then the samples below tell that it joined.
            until = time.monotonic() + 30
            while not rings() - before and time.monotonic() < until:
                time.sleep(0.005)
            enough = work() + 5
            hw.wait_for(lambda: work() >= enough, "the program to work")
        else:
            time.sleep(0.01 * (i % 4))
        t = finish(box, s, "s.trace", allow=("disconnected", "overran"))
        saw = any("fn_thread" in x.stack for d in t.of(p.pid) for x in d.samples)
        seen += saw
        hw.true(saw or i % 2, f"session {i} saw nothing of a program that joined and worked")
        hw.true(p.poll() is None, f"the target ended in session {i}: {p.returncode}")
    p.send_signal(signal.SIGTERM)
    ended(p, b"stopped\n", f"after {n} sessions", 300)
    print(f"  {n} sessions, {seen} with samples, {joined} had to")


def recorder_killed(box):
    """The recorder is killed at random moments: the target goes on, the trace stays readable."""
    rnd = random.Random(SEED)
    for i in range(25 if LONG else 6):
        b = hw.Box()
        try:
            d = service(b)
            p, want = under_load(b, "2", "300000")
            with contextlib.suppress(hw.Failure):
                s = session(b, "t_saturate", "-c", "50", trace="k.trace")
            time.sleep(rnd.uniform(0, 0.5))
            d.kill()
            ended(p, want, f"recorder killed, round {i}")
            if os.path.exists(b.path("k.trace")):
                t = Trace(b.path("k.trace"))  # may end in the middle of a packet, never be wrong before
                bad = [x for x in t.problems if x != "non_finalized_profile"]
                hw.true(not bad or t.truncated, f"round {i}: {bad[:5]}")
        finally:
            b.close()


def embedded_killed(box):
    """`record` itself and its recorder are killed: the program under it ends as without us."""
    rnd = random.Random(SEED)
    want = box.run([hw.target("saturate"), "2", "300000"]).stdout
    for i in range(25 if LONG else 6):
        out = box.path(f"out{i}")
        p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-c", "50", "-o", box.path(f"{i}.trace"), "--",
                       "sh", "-c", 'exec "$0" 2 300000 >"$1"; ', hw.target("saturate"), out])
        hw.wait_for(lambda: os.path.exists(out), "the program's start")  # before it there is none that goes on
        time.sleep(rnd.uniform(0, 0.5))
        for q in hw.processes("heapprofd", session=p.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(q, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(hw.CLOCK)
        hw.wait_for(lambda: pathlib.Path(out).exists() and pathlib.Path(out).read_bytes() == want,
                    f"the target's output, round {i}", 60)
        found = [f for f in box.dir.glob(f"{i}.trace*")]
        for f in found:
            t = Trace(f)
            hw.true(t.packets > 0 or f.stat().st_size == 0, f"{f}: nothing readable in {t.size} bytes")


def target_killed(box):
    """The target is killed at random moments: what it had allocated is in the trace."""
    rnd = random.Random(SEED)
    for i in range(20 if LONG else 5):
        p = box.start([hw.tool("heapwise"), "record", "-i", "1", "-o", box.path(f"{i}.trace"), "--",
                       hw.target("saturate"), "2", "100000000"])
        pid = hw.wait_for(lambda: hw.processes("t_saturate", session=p.pid), "the target")[0]
        hw.wait_for(lambda: "heapwise-ring" in pathlib.Path(f"/proc/{pid}/maps").read_text(), "the target to join")
        hw.works(pid)
        time.sleep(rnd.uniform(0, 0.5))
        os.kill(pid, signal.SIGKILL)
        p.communicate(timeout=hw.CLOCK)
        hw.equal(p.returncode, 128 + 9, f"round {i}: record's status")
        t = hw.sound(box.path(f"{i}.trace"), allow=("disconnected", "overran"))
        d = t.last()
        n = d.by_function(["fn_thread"])["fn_thread"] if d else None
        hw.true(n and n[1] > 1000, f"round {i}: fn_thread {n}")


def small_buffer(box):
    """8 KiB of buffer, blocking: exact, and never locked up. Not blocking: it says it was lost."""
    want = box.run([hw.target("saturate"), "4", "20000"]).stdout
    r = hw.record(box, [hw.target("saturate"), "4", "20000"], "--shmem-size", "8192", timeout=120)
    hw.equal(r.target_stdout, want, "output with a buffer of 8 KiB")
    t = hw.sound(r.trace, allow=("disconnected", "overran"))
    d = t.last()
    if not d.overran and not d.lost:
        hw.exact(d, hw.expectations(want), "8 KiB, blocking")
    r = hw.record(box, [hw.target("saturate"), "4", "300000"], "--shmem-size", "8192",
                  "--no-block-client", trace="nb.trace", timeout=120)
    want = box.run([hw.target("saturate"), "4", "300000"]).stdout
    hw.equal(r.target_stdout, want, "output, not blocking")
    t = hw.sound(r.trace, allow=("disconnected", "overran"))
    d = t.last()
    have = d.by_function(["fn_thread"])["fn_thread"]
    hw.true(d.overran or d.lost or have == hw.expectations(want)["fn_thread"],
            f"incomplete ({have}) without saying so")
    if d.overran:
        hw.true(b"--shmem-size" in r.stderr, f"the remedy is not named: {hw.tail(r.stderr)}")


def block_timeout(box):
    """--block-client-timeout ends the profile, not the program."""
    want = box.run([hw.target("saturate"), "4", "200000"]).stdout
    r = hw.record(box, [hw.target("saturate"), "4", "200000"], "--shmem-size", "8192",
                  "--block-client-timeout", "1", timeout=120)
    hw.equal(r.target_stdout, want, "output")
    hw.sound(r.trace, allow=("disconnected", "overran"))


def stopped_recorder(box):
    """The recorder is stopped for good: a blocking target still gets to its end."""
    d = service(box)
    p, want = under_load(box, "2", "200000")
    with contextlib.suppress(hw.Failure):
        session(box, "t_saturate", trace="st.trace")
    d.send_signal(signal.SIGSTOP)
    try:
        ended(p, want, "recorder stopped", 120)
    finally:
        d.send_signal(signal.SIGCONT)


def full_disk(box):
    """No space left: a clear error, what was written before stays readable."""
    tmp = box.dir / "small"
    tmp.mkdir()
    m = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp], stderr=subprocess.PIPE)
    if m.returncode:
        raise hw.Skip("no right to mount a small tmpfs")
    try:
        r = box.run([hw.tool("heapwise"), "record", "--no-passthrough", "-i", "1", "-c", "100",
                     "-o", tmp / "full.trace", "--", "sh", "-c", f"exec {hw.target('stacks')} 15 8 >{box.path('out')}"])
        want = box.run([hw.target("stacks"), "15", "8"]).stdout
        hw.equal(pathlib.Path(box.path("out")).read_bytes(), want, "the target's output")
        hw.true(r.returncode in (1, 4), f"exit {r.returncode} though the disk was full")
        hw.true(b"No space left" in r.stderr or b"space" in r.stderr, f"stderr: {hw.tail(r.stderr)}")
        hw.true(b"recording is complete" not in r.stderr, f"stderr: {hw.tail(r.stderr)}")
        for f in tmp.iterdir():
            t = Trace(f)
            hw.true(t.packets > 0, f"{f.name}: nothing readable")
    finally:
        subprocess.run(["umount", tmp])


def cut_file(box):
    """A file that ends in its only dump: no figures of it, least of all zeros."""
    whole = box.path("whole.trace")
    box.run([hw.tool("heapwise"), "record", "-q", "-i", "1", "--no-report", "-o", whole, "--",
             hw.target("stacks"), "12", "8"])
    data = pathlib.Path(whole).read_bytes()
    box.broken("cut")
    for tenth in range(2, 10):
        cut = pathlib.Path(box.path("cut"))
        cut.write_bytes(data[:len(data) * tenth // 10])
        for command in ("report", "tree", "leaks"):
            r = box.run([hw.tool("heapwise"), command, cut], check=None)
            hw.true(r.returncode == 5 and b" 0 B" not in r.stdout,
                    f"{command} of {tenth} tenths: {r.returncode} {hw.tail(r.stdout)} {hw.tail(r.stderr)}")


def file_limit(box):
    """RLIMIT_FSIZE reached: SIGXFSZ must not reach anybody, the error is said."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    r = box.run([hw.tool("heapwise"), "record", "--no-passthrough", "-i", "1", "-c", "100",
                 "-o", box.path("x.trace"), "--", hw.target("stacks"), "14", "8"], preexec_fn=limit)
    hw.true(r.returncode in (1, 4, 5), f"exit {r.returncode}: {hw.tail(r.stderr)}")
    hw.true(b"File too large" in r.stderr, f"the reason is said: {hw.tail(r.stderr)}")
    hw.true(b"EXPECT fn_leaf" in r.stdout, "the target's output")


def many_stacks(box):
    """10^6 distinct callstacks (HW_LONG; 2^16 otherwise) with continuous dumps."""
    levels, repeat = ("20", "2") if LONG else ("16", "4")
    plain = box.run([hw.target("stacks"), levels, repeat])
    r = hw.record(box, [hw.target("stacks"), levels, repeat], "-c", "5000" if LONG else "200", timeout=300)
    hw.equal(r.target_stdout, plain.stdout, "output")
    t = hw.sound(r.trace)
    d = t.last()
    hw.exact(d, hw.expectations(plain.stdout), "many stacks")
    hw.equal(len([s for s in d.samples if "fn_leaf" in s.stack]), 1 << int(levels), "distinct callstacks")


def many_targets(box):
    """1,000 targets at once (HW_LONG) or 60, in one session."""
    n = 1000 if LONG else 60
    steps = box.own("steps")
    service(box)
    s = session(box, "t_steps", interval=1, trace="many.trace")
    targets = []
    for _ in range(n):
        targets.append(box.start([steps], env={"LD_PRELOAD": hw.preload_library()},
                                 stdin=subprocess.PIPE))
    for i, p in enumerate(targets):
        p.stdin.write(b"a %d\nq\n" % (1 + i % 7))
        p.stdin.flush()
    for i, p in enumerate(targets):
        out, _ = p.communicate(timeout=120)
        hw.equal(p.returncode, 0, f"target {i}")
        k = 1 + i % 7
        hw.true(b"EXPECT fn_a %d %d %d %d\n" % (1000 * k, k, 1000 * k, k) in out, f"target {i}: {out}")
    t = finish(box, s, "many.trace")
    for i, p in enumerate(targets):
        k = 1 + i % 7
        hw.exact(t.last(p.pid), {"fn_a": [1000 * k, k, 1000 * k, k]}, f"target {i} of {n}")


def exec_under_session(box):
    """A preloaded process under a session execs itself, again and again."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = session(box, "t_steps")
    for i in range(10):
        s.join().do("s 50", "a 3")
        s.p.stdin.write(b"x\n")
        s.p.stdin.flush()
        s.line("ready 1")
    s.join().do("s 200", "b 4", "s 50")
    t = finish(box, p)
    out = s.quit()
    hw.true(b"EXPECT fn_b 8000 4 8000 4" in out, hw.tail(out))
    hw.exact(t.last(s.p.pid), {"fn_b": [8000, 4, 8000, 4]}, "the last image")
    rows = box.run([hw.tool("heapwise"), "query", box.path("session.trace"),
                    "select sum(size), sum(count) from heap_profile_allocation"], check=0).stdout.decode()
    live = t.last(s.p.pid)
    want = f"{live.total('alloc') - live.total('freed')},{live.total('allocs') - live.total('frees')}"
    hw.equal(rows.split()[-1], want, "what the process holds: nothing of the images before")


def hostile_socket(box):
    """Somebody talks nonsense to the service's sockets; sessions go on."""
    service(box)
    s = preloaded(box, box.own("steps"))
    p = session(box, "t_steps")
    rnd = random.Random(SEED)
    kept = []  # half of them stay connected and say nothing more
    for which in ("producer", "consumer"):
        for i in range(40):
            c = None
            for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
                c = socket.socket(socket.AF_UNIX, kind)
                try:
                    c.connect(box.path(which))
                    break
                except OSError:
                    c.close()
                    c = None
            if not c:
                raise hw.Failure(f"cannot connect to the {which} socket")
            with contextlib.suppress(OSError):
                data = rnd.randbytes(rnd.choice((1, 8, 16, 64, 4096, 65536)))
                if i % 3 == 0:
                    socket.send_fds(c, [data], [0, 1, 2][:1 + i % 3])
                else:
                    c.send(data)
            if i % 2:
                c.close()
            else:
                kept.append(c)
    s.join().do("s 100", "a 9", "s 100")
    t = finish(box, p)
    hw.exact(t.last(s.p.pid), {"fn_a": [9000, 9, 9000, 9]}, "a session beside a hostile client")
    s.quit()


OTHER_VERSION = """
import os, socket, struct
name = os.environ["HEAPWISE_SOCKET"]
for size in (48, 48, 64, 12):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(name.replace("@", chr(0), 1))
    s.send(struct.pack("<QIIIIi", 0x316c6c6568777768, 8, 1, 1, 4096, os.getpid()).ljust(size, bytes(1))[:size])
    assert s.recv(100) == b""
print("done")
"""


def other_version(box):
    """A program with the library from before an upgrade: the recorder says so once, with what helps, and the program runs on."""
    r = box.run([hw.tool("heapwise"), "record", "-f", "-o", box.path("t.trace"), "--", "env", "-u", "LD_PRELOAD", sys.executable, "-c", OTHER_VERSION])
    text = r.stderr.decode()
    hw.equal((r.returncode, r.stdout), (0, b"done\n"), text)
    hw.equal(text.count("the client library of another version of heapwise (protocol 8, the recorder speaks "), 1, text)
    hw.true("restart the program" in text, text)


def squatted_socket(box):
    """The socket's name is taken by something that never answers: the target starts all the same."""
    c = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    c.bind(box.path("producer"))
    c.listen(1)
    plain = box.run([hw.target("truth")])
    start = time.monotonic()
    r = box.run([hw.target("truth")], env={"LD_PRELOAD": hw.preload_library()}, check=0, timeout=hw.CLOCK)
    hw.equal(r.stdout, plain.stdout, "output")
    print(f"  {time.monotonic() - start:.2f} s")
    c.close()


def no_service(box):
    """Preloaded without any service: nothing happens."""
    for name in ("truth", "threads", "closefds", "seccomp", "fork", "sigjmp", "fiber"):
        plain = box.run([hw.target(name)])
        r = box.run([hw.target(name)], env={"LD_PRELOAD": hw.preload_library()})
        hw.equal((r.returncode, r.stdout, r.stderr), (plain.returncode, plain.stdout, plain.stderr), name)


def sandboxed(how):
    """A program gives up its system calls under a session. The session ends, another begins and ends:
    it is never killed by a call of ours."""
    def case(box):
        if box.run([hw.target("sandbox"), how], stdin=b"sq").returncode == 77:
            raise hw.Skip("no seccomp here")
        service(box)
        s, said = Steps(box, [box.own("sandbox"), how], env={"LD_PRELOAD": hw.preload_library()}), []

        def step(c=b"."):
            said.append(c)
            s.p.stdin.write(c)
            s.p.stdin.flush()
            s.line("ok")
        first = session(box, "t_sandbox", trace="1.trace")
        s.join(step)
        step(b"s")
        step()
        step()
        t = finish(box, first, "1.trace")
        for _ in range(3):
            step()
        second = session(box, "t_sandbox", trace="2.trace")
        step()
        finish(box, second, "2.trace")
        step()
        s.p.stdin.write(b"q")
        out, _ = s.p.communicate(timeout=hw.CLOCK)
        plain = box.run([hw.target("sandbox"), how], stdin=b"".join(said) + b"q")
        hw.equal((s.p.returncode, b"ready 1\n" + b"ok\n" * len(said) + out), (plain.returncode, plain.stdout),
                 "status and output")
        print(f"  {t.last(s.p.pid).heap_samples} samples")
    return case


def sandboxed_at_once(how, bits=""):
    """It gives up its calls and goes on allocating, with a buffer that is full all the time: the
    recorder has not seen the filter yet, and a wait must not kill."""
    def case(box):
        name = "sandbox" + bits
        library = hw.preload_library_32() if bits else hw.preload_library()
        if box.run([hw.target(name), how], stdin=b"sq").returncode == 77:
            raise hw.Skip("no seccomp here")
        service(box)
        s = Steps(box, [box.own(name), how], env={"LD_PRELOAD": library})
        p = session(box, "t_" + name, "--shmem-size", "8192", trace="at-once.trace")

        def step(c=b"."):
            s.p.stdin.write(c)
            s.p.stdin.flush()
            s.line("ok")
        s.join(step)
        step(b"S")
        step()
        t = finish(box, p, "at-once.trace")
        step()
        s.p.stdin.write(b"q")
        out, _ = s.p.communicate(timeout=hw.CLOCK)
        hw.equal(s.p.returncode, 0, "the target's end")
        hw.true(t.last(s.p.pid).by_function(["fn_inside"])["fn_inside"][1] > 40000, "its samples")
    return case


def same_end(name, *args, exact=False, allow=("disconnected",), limit=None, empty=False):
    """Output and status are those without us, under record at interval 1."""
    def case(box):
        plain = box.run([hw.target(name), *args])
        if plain.returncode == 77:
            raise hw.Skip(f"{name} needs more rights")
        argv = [hw.target(name), *args]
        if limit:
            argv = ["sh", "-c", f'{limit}; exec "$@"', "sh", *argv]
            plain = box.run(argv)
        r = hw.record(box, argv)
        hw.equal((r.returncode, r.target_stdout), (plain.returncode, plain.stdout), hw.tail(r.stderr))
        t = hw.sound(r.trace, allow)
        if empty:
            hw.true(b"there was no memory for the client library" in r.stderr, f"no reason: {hw.tail(r.stderr)}")
        elif exact:
            hw.exact(t.last(), hw.expectations(plain.stdout), name)
        else:
            d = t.last()
            hw.true(d, "no dump")
            print(f"  {d.flags()} {d.heap_samples} samples, lost {d.lost}")
    return case


def little_for_both(box):
    """RLIMIT_AS over the recorder too, as a shell's ulimit sets it."""
    want = box.run([hw.target("truth")]).stdout
    r = box.run(["sh", "-c", 'ulimit -v 100000; exec "$@"', "sh", hw.tool("heapwise"), "record", "-i", "1", "-o",
                 box.path("x.trace"), "--", hw.target("truth")], check=0)
    hw.true(want in r.stdout, "the target's output")
    hw.exact(hw.sound(box.path("x.trace")).last(), hw.expectations(want), "100 MB of address space")


def other_clock(*wrapper):
    """A target whose clocks are not the recorder's: none of its samples is lost, and times are ours."""
    def case(box):
        hw.need(wrapper[0])
        if box.run([*wrapper, "true"], check=None).returncode != 0:
            raise hw.Skip(f"{wrapper[0]} cannot do that here")
        plain = box.run([*wrapper, hw.target("truth")])
        r = hw.record(box, [*wrapper, hw.target("truth")], "--follow-fork")
        hw.equal((r.returncode, r.target_stdout), (plain.returncode, plain.stdout), hw.tail(r.stderr))
        d = [d for d in hw.sound(r.trace).of() if any("fn_a" in s.stack for s in d.samples)]
        hw.true(d, f"no profile: {hw.tail(r.stderr)}")
        hw.exact(d[-1], hw.expectations(plain.stdout), str(wrapper))
        began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        r = hw.record(box, [*wrapper, hw.target("marks")], "--follow-fork", "--slices", trace="slices.trace")
        ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        rows = box.run([hw.tool("heapwise"), "query", r.trace, "select min(ts), max(ts + dur), count(1) from slice"],
                       check=0).stdout.decode().split()
        hw.true(rows[-1][-2:] != ",0", f"no slices: {rows}")
        first, last, n = map(int, rows[-1].split(","))
        hw.true(n > 0 and began <= first < last <= ended, f"{n} slices from {first} to {last}, {began} to {ended} by us")
    return case


def clock_stands(box):
    """The same where no time passes at all. A recorder that does not answer is waited for by the kernel's clock, or for ever."""
    stands = ("faketime", "-f", "2020-01-01 00:00:00")
    other_clock(*stands)(box)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.bind(box.path("silent"))
        silent.listen()
        p = box.start([*stands, "sh", "-c", f"LD_PRELOAD={hw.preload_library()}:$LD_PRELOAD exec {hw.target('truth')}"],
                      env={"PERFETTO_PRODUCER_SOCK_NAME": box.path("silent")})
        asked, _ = silent.accept()
        out, err = p.communicate(timeout=hw.CLOCK)
    hw.equal((p.returncode, out, err), (0, box.run([hw.target("truth")]).stdout, b""), "beside a recorder that does not answer")


FORKING_LIBRARY = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void)
{
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(malloc(100) == NULL);
        (void)waitpid(pid, NULL, 0);
    }
}
"""


def forking_constructor(box):
    """A library's constructor forks 20 children before anything is allocated, each of which would wait a second for a recorder that does not
    answer: they wait for it once, all together."""
    hw.need("gcc")
    source = box.path("forking.c")
    pathlib.Path(source).write_text(FORKING_LIBRARY)
    box.run(["gcc", "-O1", "-shared", "-fPIC", "-o", box.path("forking.so"), source], check=0)
    pathlib.Path(box.path("main.c")).write_text("int main(void) { return 0; }\n")
    box.run(["gcc", "-o", box.path("main"), box.path("main.c"), "-Wl,--no-as-needed", box.path("forking.so")], check=0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.bind(box.path("silent"))
        silent.listen(64)
        began = time.monotonic()
        r = box.run([box.path("main")], env={"PERFETTO_PRODUCER_SOCK_NAME": box.path("silent"), "LD_PRELOAD": hw.preload_library()}, check=0)
        took = time.monotonic() - began
        silent.setblocking(False)
        for asked in range(100):
            try:
                silent.accept()[0].close()
            except BlockingIOError:
                break
    hw.equal((r.stdout, r.stderr), (b"", b""), "what it says")
    hw.true(asked >= 20, f"only {asked} of them asked")
    hw.true(took < 10, f"20 children took {took:.1f} s")


def descriptors(box):
    """The target's first own descriptor is the one it gets without us."""
    code = "import os; print(os.open('/dev/null', os.O_RDONLY), os.pipe())"
    hw.need("python3")
    py = sys.executable
    plain = box.run([py, "-S", "-E", "-c", code])
    r = hw.record(box, [py, "-S", "-E", "-c", code], interval=4096)
    hw.equal(r.target_stdout, plain.stdout, "descriptor numbers")


def alternate_handshake(box):
    """A session begins while the program allocates in a handler on a small alternate stack only."""
    service(box)
    p = box.start([box.own("narrow"), "wait"], env={"LD_PRELOAD": hw.preload_library()})
    hw.equal(p.stdout.readline(), b"ready\n", "narrow")
    s = session(box, "t_narrow", interval=4096, trace="n.trace")
    hw.wait_for(lambda: "heapwise-ring" in pathlib.Path(f"/proc/{p.pid}/maps").read_text(), "the program to join")
    hw.quiet(0.1)  # it goes on
    finish(box, s, "n.trace", allow=("disconnected", "overran"))
    p.send_signal(signal.SIGTERM)
    ended(p, b"alternate stack: untouched\n", "a handshake on an alternate stack")


def loader_lock(box):
    """A session begins in an allocation under a lock that a thread wants that has the loader's."""
    p = box.start([hw.target("phdr")], stdin=subprocess.PIPE, env={"LD_PRELOAD": hw.preload_library()})
    hw.equal(p.stdout.readline(), b"ready\n", "phdr")
    r = box.run([hw.tool("heapwise"), "attach", str(p.pid), "-i", "1", "-d", "1s", "--types", "-o", box.path("l.trace")],
                timeout=hw.CLOCK)
    hw.equal(r.returncode, 0, f"attach: {hw.tail(r.stderr)}")
    p.stdin.write(b"end\n")
    p.stdin.close()
    hw.equal(p.stdout.read(), b"done\n", "two locks in two orders")
    hw.equal(p.wait(hw.CLOCK), 0, "the program's end")
    d = hw.sound(box.path("l.trace"), ("disconnected", "overran")).last(p.pid)
    hw.true(d and d.by_function(["main"])["main"][1] > 0, "no samples")


def raised_limit(box):
    """The main stack might grow to where threads' stacks lie: nothing above those is read."""
    p = box.start([hw.target("raised")], stdin=subprocess.PIPE)
    if p.stdout.readline() != b"ready\n":
        raise hw.Skip(f"this machine does not let us: {p.wait(hw.CLOCK)}")
    r = box.run([hw.tool("heapwise"), "attach", str(p.pid), "-i", "1", "-d", "1s", "-o", box.path("r.trace")],
                timeout=hw.CLOCK)
    hw.true(p.poll() is None, f"the program ended: {p.returncode}")
    hw.equal(r.returncode, 0, f"attach: {hw.tail(r.stderr)}")
    d = hw.sound(box.path("r.trace"), ("disconnected", "overran")).last(p.pid)
    hw.true(d and d.by_function(["fn_thread"])["fn_thread"][1] > 0, "no samples")
    p.stdin.close()
    hw.equal(p.wait(hw.CLOCK), 0, "the program's end")


def holes(box):
    """Threads end, leave or sleep at each instruction behind a reservation: nobody waits for those that are gone."""
    r = hw.record(box, [hw.target("holes")], timeout=120)
    hw.true(b"ring: seen" in r.target_stdout, f"no ring in its mappings: {r.target_stdout}")
    d = hw.sound(r.trace, ("disconnected",)).last()
    hw.true(b"stuck" not in r.target_stdout, f"the recorder waits: {r.target_stdout}")
    hw.exact(d, hw.expectations(r.target_stdout), "holes")
    hw.true(d.lost > 20, f"only {d.lost} records were left open")


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__"
         and k not in ("under_load", "ended", "sandboxed", "sandboxed_at_once", "same_end", "other_clock")}
CASES.update({
    "sandbox-filter": sandboxed("filter"), "sandbox-strict": sandboxed("strict"),
    "sandbox-call": sandboxed("call"), **{f"sandbox-at-once-{h}{b}": sandboxed_at_once(h, b) for h in ("filter", "strict", "call") for b in ("", "32")},
    "scribbled-ring": same_end("scribble", allow=("disconnected", "corrupted", "overran")),
    "rewound-ring": same_end("rewound", allow=("disconnected", "corrupted")),
    "limit-as": same_end("limits", "as", allow=("disconnected", "overran")),
    "limit-nofile": same_end("limits", "nofile"), "limit-nproc": same_end("limits", "nproc"),
    "few-descriptors": same_end("limits", "nofile", limit="ulimit -n 30"),
    "narrow": same_end("narrow"), "wrapper": same_end("wrapper", exact=True),
    "narrow32": same_end("narrow32"), "wrapper32": same_end("wrapper32", exact=True),
    "little-memory": same_end("truth", exact=True, limit="ulimit -v 60000"),
    "less-memory": same_end("truth", exact=True, limit="ulimit -v 30000"),
    "no-memory": same_end("truth", limit="ulimit -v 16000", empty=True),
    "dropped-rights": same_end("drop", exact=True), "operator-plugs": same_end("opplugs"),
    "clock-ahead": other_clock("faketime", "-f", "+30d"), "clock-behind": other_clock("faketime", "-f", "-30d"),
    "clock-namespace-ahead": other_clock("unshare", "-T", "--monotonic", "100000", "--boottime", "70000", "-f"),
    "clock-namespace-behind": other_clock("unshare", "-T", "--monotonic", "-50", "-f"),
})

if __name__ == "__main__":
    hw.main(CASES)
