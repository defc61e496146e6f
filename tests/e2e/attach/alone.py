#!/usr/bin/env python3
"""Real programs come out as alone: the same output, errors and status when they are recorded, attached to
and left; and what is attached to is afterwards as it was before."""
import contextlib
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw, state as whole
from lib.fed_programs import BUILDS, FED
from lib.feed import Run

LONG = bool(os.environ.get("HW_LONG"))  # every program, more rounds; else the first ones of each group
SEED = int(os.environ.get("HW_SEED") or (time.time_ns() % 100000 if LONG else 1))
ROUNDS = 3 if LONG else 1
TEXT = "".join(f"line {i * 7919 % 1000} of {i}\n" for i in range(3000))
JSON = '{"a":[' + ",".join(str(i) for i in range(2000)) + "]}\n"
XML = "<a>" + "".join(f"<b n='{i}'>{i}</b>" for i in range(500)) + "</a>\n"

# Whole runs: what they are given lies in the box.
RECORDED = {
    "files": [["ls", "-1", "in"], ["find", "in", "-name", "*.t*", "-size", "+1k"], ["tar", "-cf", "-", "in", "--mtime=@0", "--sort=name"],
              ["dd", "if=in/text", "bs=100", "status=none"], ["dd", "if=/nowhere"], ["git", "hash-object", "in/text", "in/json"],
              ["make", "-f", "in/Makefile"], ["xmllint", "--format", "in/xml"], ["curl", "-s", "file:///nowhere"]],
    "text": [["sort", "in/text"], ["grep", "-c", "7", "in/text"], ["grep", "nothing", "in/text"], ["awk", "{s+=$2} END {print s}", "in/text"],
             ["sed", "s/line/row/", "in/text"], ["jq", ".a|add", "in/json"], ["sqlite3", ":memory:", "select sum(value) from generate_series(1,5000)"],
             ["perl", "-e", "print join ',', map { $_ * 2 } 1 .. 1000"], ["bash", "-c", "for i in {1..50}; do echo $(echo $i); done; umask; pwd; ulimit -a; trap; exit 3"]],
    "packed": [["gzip", "-nc", "in/text"], ["xz", "-c", "in/text"], ["zstd", "-qc", "in/text"], ["openssl", "dgst", "-sha256", "in/text"],
               ["gdb", "-batch", "-nx", "-ex", "print 6*7"]],
    "languages": [["python3", "-c", "import os; print(sum(range(9999)), os.getcwd(), os.umask(0))"],
                  ["gcc", "-O1", "-x", "c", "-S", "-o", "-", "in/code.c"], ["node", "-e", "console.log([1,2,3].map(x=>x*x))"],
                  ["gofmt", "in/code.go"], ["valgrind", "-q", "--error-exitcode=9", "sort", "in/text"]],
}

# Read their standard input to its end.
ATTACHED = {
    "text": {"sort": ["sort"], "grep": ["grep", "-c", "7"], "awk": ["awk", "{s+=$2} END {print s}"], "sed": ["sed", "s/line/row/"],
             "perl": ["perl", "-ne", "$n += length; END { print $n }"], "dd": ["dd", "bs=7", "status=none"]},
    "packed": {"gzip": ["gzip", "-nc"], "xz": ["xz", "-c"], "zstd": ["zstd", "-qc"], "openssl": ["openssl", "dgst", "-sha256"]},
    "languages": {"python3": ["python3", "-c", "import sys, os; n = len(sys.stdin.read()); print(n); os.system('umask; pwd; ulimit -a; env | grep -c LD_'); sys.exit(5)"],
                  "bash": ["bash", "-c", "while read -r a; do n=$((n+1)); done; echo $n; umask; ulimit -a; env | grep -c LD_; trap; exit 3"],
                  "node": ["node", "-e", "let n=0;process.stdin.on('data',d=>n+=d.length);process.stdin.on('end',()=>console.log(n))"]},
}


def prepare(box):
    files = {"text": TEXT, "json": JSON, "xml": XML, "code.c": "int f(int n) { return n * 7; }\n",
             "code.go": "package  p\nfunc  F( ) int {return 1}\n", "Makefile": "all:\n\t@echo made $(shell echo it)\n"}
    os.mkdir(box.path("in"))
    for name, text in files.items():
        pathlib.Path(box.path(f"in/{name}")).write_text(text)


@contextlib.contextmanager
def hogs(n):
    """Somebody else's work on every processor."""
    all_ = [subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for p in all_:
            p.kill()
            p.wait()


def shell(argv):
    """Its standard error in a file: the recorder has lines of its own."""
    return ["sh", "-c", 'exec "$@" 2>target.err', "sh", *argv]


def errors(box):
    return pathlib.Path(box.path("target.err")).read_bytes()


def recorded(group):
    def case(box):
        prepare(box)
        for n, argv in enumerate(RECORDED[group]):
            if not shutil.which(argv[0]):
                print(f"  {argv[0]} is not installed")
                continue
            plain = box.run(shell(argv))
            want = (plain.stdout, errors(box), plain.returncode)
            for interval in (1, 4096):
                r = hw.record(box, shell(argv), "-q", interval=interval, trace=f"{argv[0]}{interval}.{n}.trace")
                have = (r.target_stdout, errors(box), r.returncode)
                hw.true(have == want, f"{argv[0]} at {interval}: {[hw.tail(x, 400) for x in have]}, alone {[hw.tail(x, 400) for x in want]}")
    return case


def state(pid):
    """What others see of a program, and what of the recorder's buffers is mapped."""
    proc = pathlib.Path(f"/proc/{pid}")
    status = (proc / "status").read_text()
    of_ours = [l.split()[-1] for l in (proc / "maps").read_text().splitlines() if "memfd:hw-" in l]
    return {"signals": re.findall(r"^(?:Sig[BICP]|Shd)\w+:.*|^Umask:.*|^Seccomp:.*|^TracerPid:.*|^Threads:.*", status, re.M),
            "descriptors": {n: os.readlink(proc / "fd" / n) for n in sorted(os.listdir(proc / "fd"))},
            "limits": (proc / "limits").read_text(), "folder": os.readlink(proc / "cwd"),
            "environment": (proc / "environ").read_bytes(), "ours": of_ours}


def attach_once(box, p, interval, duration=300, refused=False):
    """From the attach to the detach; the program may do what it likes meanwhile."""
    a = box.start([hw.tool("heapwise"), "attach", "-i", str(interval), "-f", "-q", "-d", f"{duration}ms", "-o", box.path("a.trace"), str(p)])
    out, err = a.communicate(timeout=hw.CLOCK)
    allowed = (0, 1, 2, 3, 5) if refused else (0, 5)  # of Go: what its runtime samples
    hw.true(a.returncode in allowed, f"attach ended with {a.returncode}: " + hw.tail(out + err))  # 5: allocated nothing


def attached(group):
    def case(box):
        for name, argv in ATTACHED[group].items():
            if not shutil.which(argv[0]):
                print(f"  {argv[0]} is not installed")
                continue
            plain = box.run(argv, stdin=TEXT.encode())
            p = box.start(argv, stdin=subprocess.PIPE)
            half = len(TEXT) // 2
            p.stdin.write(TEXT[:half].encode())
            p.stdin.flush()
            hw.wait_for(lambda: name[:4] in os.readlink(f"/proc/{p.pid}/exe") and hw.unread(p.stdin) == 0, f"{name} to read")
            hw.idles(p.pid)
            before = state(p.pid)
            for interval in (1, 4096):
                attach_once(box, p.pid, interval)
                hw.equal(state(p.pid), before, f"{name} after the detach at {interval}")
            hw.true("memfd:libheapprofd" in pathlib.Path(f"/proc/{p.pid}/maps").read_text(), f"{name} was not attached to")
            out, err = p.communicate(TEXT[half:].encode(), 30)
            hw.equal((out, err, p.returncode), (plain.stdout, plain.stderr, plain.returncode), name)
    return case


def chosen(programs, n):
    """The group's programs that are here: all, or the first n."""
    for name, program in list(programs.items())[:None if LONG else n]:
        missing = [x for x in program.needs or (program.argv[0],) if not x.startswith("{") and not shutil.which(x)]
        if missing:
            print(f"  {name}: {', '.join(missing)} is not installed")
        else:
            yield name, program


def compare(name, count, result, alone):
    for have, want, what in zip(result, alone, ("output", "errors", "answers", "status")):
        hw.true(have == want, f"{name}, {count} pieces of work: other {what} than alone: " +
                (f"{len(have)} bytes, {hw.tail(have, 300)!r}; {len(want)}, {hw.tail(want, 300)!r}" if what != "status" else f"{have}, {want}"))


def work_one(box, name, program, dice):
    run = Run(box, program, name + ".attached")
    pid = run.pid()
    run.go()
    hw.wait_for(lambda: run.count >= 20, f"{name} to work")
    run.pause()
    before = whole.at_rest(pid)
    for i in range(ROUNDS):
        for interval in (1, 4096):
            run.go()
            time.sleep(dice.uniform(0, 0.2))
            attach_once(box, pid, interval, int(dice.uniform(50, 500)), program.refused)
            time.sleep(dice.uniform(0, 0.1))
            run.pause()
            whole.same(pid, before, f"{name}, round {i}, after the detach at {interval}", program.pool, program.jvm)
            if not program.refused:
                whole.library_only(pid, name)
    result = run.finish(pid)
    alone = Run(box, program, name + ".alone")
    alone.give(run.count)
    compare(name, run.count, result, alone.finish())


def whole_one(box, name, program, dice):
    """Recorded from its start to its end, and once left in the middle."""
    for interval, left in ((1, False), (4096, False), (4096, True)):
        tag = f"{name}.{interval}.{left}"
        run = Run(box, program, tag, lambda argv: [hw.tool("heapwise"), "record", "-q", "-f", "-i", str(interval), "-o", box.path("w.trace"), *argv])
        pid = run.pid()
        run.go()
        time.sleep(dice.uniform(0.1, 0.4))
        if left:
            box.run([hw.tool("heapwise"), "stop", str(run.p.pid if program.refused else pid)], check=None if program.refused else 0)
            time.sleep(dice.uniform(0, 0.1))
        run.pause()
        at_work = whole.at_rest(pid)
        result = run.finish(pid)
        hw.true(b"heapwise" not in run.said or b"empty" in run.said, hw.tail(run.said))
        alone = Run(box, program, name + ".alone")
        alone_pid = alone.pid()
        alone.give(run.count)
        alone.pause()
        whole.recorded_as(at_work, alone_pid, f"{name} at {interval}", 1 + program.jvm + (name == "qemu"), program.pool)
        compare(name, run.count, result, alone.finish(alone_pid))


def each(one, programs, n):
    def case(box):
        prepare(box)
        print(f"  seed {SEED}")
        dice = random.Random(SEED)
        with hogs(2 if LONG else 0):
            for name, program in chosen(programs, n):
                begin = time.monotonic()
                one(box, name, program, dice)
                print(f"  {name}: {time.monotonic() - begin:.1f} s")
    return case


def build_one(box, name, program, dice):
    """Works by itself until it is done: recorded, and attached to at any moment until then."""
    if program.prepare:
        program.prepare(box, name, 0)
    argv = [a.format(box=box.dir) for a in program.argv]
    run = lambda: box.run(shell(argv), env=program.env, timeout=100)
    run()  # what it keeps of its first run is there
    plain, begin = None, time.monotonic()
    plain = run()
    seconds = time.monotonic() - begin
    want = (program.masks(plain.stdout), program.masks(errors(box)), plain.returncode)
    for interval in (1, 4096):
        r = hw.record(box, shell(argv), "-q", "-f", interval=interval, trace="b.trace", env=program.env, timeout=200)
        have = (program.masks(r.target_stdout), program.masks(errors(box)), r.returncode)
        hw.true(have == want, f"{name} recorded at {interval}: {[hw.tail(str(x), 300) for x in have]}, alone {[hw.tail(str(x), 300) for x in want]}")
        with open(box.path("b.out"), "wb") as out:
            p = box.start(shell(argv), env=program.env, stdout=out)
        rounds = 0
        while p.poll() is None:
            time.sleep(dice.uniform(0, min(seconds, 1) / 3))
            a = box.run([hw.tool("heapwise"), "attach", "-i", str(interval), "-f", "-q", "-d", f"{int(dice.uniform(20, 400))}ms", "-o", box.path("a.trace"),
                         str(p.pid)])
            rounds += a.returncode in (0, 5)
        have = (program.masks(pathlib.Path(box.path("b.out")).read_bytes()), program.masks(errors(box)), p.returncode)
        hw.true(have == want, f"{name} attached {rounds} times: {[hw.tail(str(x), 300) for x in have]}, alone {[hw.tail(str(x), 300) for x in want]}")
        print(f"  {name} at {interval}: attached {rounds} times")


def busy(case):
    def with_hogs(box):
        with hogs(2):
            case(box)
    return with_hogs


if __name__ == "__main__":
    hw.main({**{"record-" + g: recorded(g) for g in RECORDED}, **{"attach-" + g: attached(g) for g in ATTACHED},
             **{"work-" + g: each(work_one, p, 1) for g, p in FED.items()}, **{"whole-" + g: each(whole_one, p, 1) for g, p in FED.items()},
             "builds": each(build_one, BUILDS, 1),
             "attach-busy": busy(attached("text")), "record-busy": busy(recorded("packed"))})
