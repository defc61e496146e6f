#!/usr/bin/env python3
"""Each target recorded at interval 1: exact numbers, the same output, the same end as without us."""
import contextlib
import glob
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

# Targets that say themselves what they allocated; the options they are recorded with.
PLAIN = {
    "truth": [], "fork": [], "vfork": [], "clone_vm": [], "raw_fork": [], "exec": [], "deep": [],
    "sigalloc": [], "sigjmp": [], "threads": [], "keys": [], "realloc": [], "entries": [],
"closefds": [], "attr": [], "seccomp": [], "stopped": [], "freeall": [],
    "crossfree": [], "newdel": [], "saturate": [],
}
# Of these there is a second build, of 32 bits, where the compiler makes such programs.
TWINS_32 = ("truth", "fork", "vfork", "exec", "deep", "sigalloc", "sigjmp", "threads", "realloc", "entries",
            "freeall", "crossfree", "clone_vm", "raw_fork", "keys", "closefds", "attr", "seccomp", "stopped", "saturate")
STARTS = ("_start", "__libc_start_main", "__libc_start_main_impl")
ENDS = ["return", "exit", "_exit", "quick_exit", "abort", "segv", "kill", "term", "pthread_exit"]


def compare(box, argv, *options, name="", allow=("disconnected",), **kw):
    plain = box.run(argv, env=kw.get("env"))
    r = hw.record(box, argv, *options, **kw)
    hw.equal(r.target_stdout, plain.stdout, f"{name}: the target's output")
    hw.equal(r.returncode, plain.returncode if plain.returncode >= 0 else 128 - plain.returncode,
             f"{name}: exit status ({hw.tail(r.stderr)})")
    t = hw.sound(r.trace, allow)
    return plain, r, t


def plain_target(name, bits=""):
    def case(box):
        if bits:
            hw.preload_library_32()
        plain, r, t = compare(box, [hw.target(name + bits)], *PLAIN[name], name=name)
        hw.exact(t.last(), hw.expectations(plain.stdout), name)
        d = t.last()
        if bits and name not in ("deep", "sigalloc", "sigjmp"):  # the limit; behind a handler
            whole(d, name)
        hw.equal((d.interval, d.orig_interval, d.lost), (1, 1, 0), f"{name}: interval, lost")
    return case


def started_32(box):
    """A 32-bit program gets its library by itself, with names and whole stacks."""
    hw.preload_library_32()
    trace = box.path("32.trace")
    r = box.run([hw.tool("heapwise"), "record", "-i", "1", "-o", trace, "--", hw.target("truth32")])
    hw.equal(r.returncode, 0, hw.tail(r.stderr))
    hw.true(b"ld.so" not in r.stderr, hw.tail(r.stderr))
    d = hw.sound(trace).last()
    hw.exact(d, hw.expectations(r.stdout), "truth32")
    whole(d, "truth32")
    first = {s.stack[0] for s in d.samples}
    hw.true(first <= set(STARTS), f"roots: {first}")


def of_each_kind(box):
    """Below a shell: each program gets the library of its own kind, and says and does what it does alone: one of 32 bits,
    with its library and where none was built, one of musl, and where the folder has a name that LD_PRELOAD cannot say."""
    musl = box.path("musl")
    if shutil.which("musl-gcc"):
        pathlib.Path(musl + ".c").write_text("#include <stdio.h>\nint main(void) { return puts(\"musl\") < 0; }\n")
        box.run(["musl-gcc", "-o", musl, musl + ".c"], check=0)
    prefix = pathlib.Path(hw.tool("heapwise")).parent.parent
    whole_copy, without = box.dir / "a $b:c", box.dir / "without"
    shutil.copytree(prefix / "bin", whole_copy / "bin", symlinks=True, copy_function=same_file)
    for folder in prefix.glob("lib*"):
        shutil.copytree(folder, whole_copy / folder.name, symlinks=True, copy_function=same_file)
    shutil.copytree(whole_copy, without, symlinks=True, copy_function=same_file)
    shutil.rmtree(without / "lib32", ignore_errors=True)
    platform = without / "lib/heapwise/platform"
    for link in platform.glob("i?86"):
        link.unlink()
        link.symlink_to(hw.BUILD / "src/client/empty32")
    for at, n_recorded in ((prefix, 2), (whole_copy, 2), (without, 1)):
        below(box, at, musl, n_recorded)
    hw.equal(glob.glob("/tmp/heapwise-lib-*"), [], "links that were left")
    outlived(box, whole_copy)


def outlived(box, at):
    """A program that the command left behind goes on starting others when the recording is over: without a word of their
    loaders. Who becomes another user on the way reads the library, too."""
    said = box.path("said")
    box.dir.chmod(0o755)
    go, over = box.dir / "go", box.dir / "over"
    line = (f"(until [ -e {go} ]; do sleep 0.02; done; setpriv --reuid=65534 --clear-groups true; true; : >{over}) >/dev/null "
            f"2>{shlex.quote(said)} & exec true")
    r = box.run([at / "bin/heapwise", "record", "--no-report", "-o", box.path("o.trace"), "--", "sh", "-c", line])
    hw.equal((r.returncode, r.stdout), (0, b""), f"exit: {hw.tail(r.stderr)}")
    left = glob.glob("/tmp/heapwise-lib-*")
    try:
        go.touch()
        hw.wait_for(over.exists, "those that were left behind")
        hw.equal(pathlib.Path(said).read_bytes(), b"", "of those that were left behind")
    finally:
        for d in left:
            shutil.rmtree(d)


def same_file(a, b):
    try:
        os.link(a, b)
    except OSError:
        shutil.copy2(a, b)


def below(box, prefix, musl, n_recorded):
    said = {n: hw.target("truth" + (str(n) if n == 32 else "")) for n in (64, 32)}
    script = f"{said[64]}; {said[32]}; eval \"LD_PRELOAD=$LD_PRELOAD /bin/true\"; test ! -x {musl} || {musl}; exit 5"
    trace = box.path("kinds.trace")
    plain = box.run(["sh", "-c", script])
    r = box.run([prefix / "bin/heapwise", "record", "-q", "-f", "-i", "4K", "-o", trace, "--", "sh", "-c", script])
    hw.equal((r.returncode, r.stderr), (5, b""), f"{prefix}: what it says")
    hw.equal(r.stdout, plain.stdout, f"{prefix}: output")
    seen = {d.pid for d in hw.sound(trace).of() if d.by_function(["fn_a"])["fn_a"][1]}
    hw.equal(len(seen), n_recorded, f"{prefix}: programs that were recorded")


def whole(d, name):
    """No stack was cut, and none shows us."""
    cut = [s for s in d.samples if any(f.startswith("ERROR") for f in s.stack)]
    hw.true(not cut, f"{name}: {sum(s.allocs for s in cut)} of {d.total('allocs')} samples are cut: "
                     f"{[(s.allocs, s.stack) for s in cut[:4]]}")
    ours = [s.stack for s in d.samples if {"hook_dlclose", "dlclose"} & set(s.stack[:-1])]
    hw.true(not ours, f"{name}: our own frames: {ours[:2]}")


def plug_in(name):
    """Code that was loaded a moment ago, and may be gone the next, and other code at its address."""
    def case(box):
        plain, r, t = compare(box, [hw.target(name)], name=name)
        hw.exact(t.last(), hw.expectations(plain.stdout), name)
        whole(t.last(), name)
    return case


def foreign(name, roots):
    """Stacks whose ends nobody told us: whole to their first function all the same."""
    def case(box):
        plain, r, t = compare(box, [hw.target(name)], name=name)
        want = hw.expectations(plain.stdout)
        hw.exact(t.last(), {("strdup" if f == "__GI___strdup" and not t.last().by_function([f])[f][1] else f): v
                            for f, v in want.items()}, name)
        whole(t.last(), name)
        for s in t.last().samples:
            if set(s.stack) & set(want):
                hw.true(set(s.stack) & set(roots), f"{name}: where does this one begin? {s.stack}")
    return case


def extensions(box):
    """Modules of an interpreter that allocate within milliseconds of their dlopen."""
    hw.need("/usr/bin/python3")
    code = ("import json, _json, zlib, bz2, lzma, sqlite3, decimal, ctypes, hashlib, ssl%s\n"
            "json.dumps([{str(i): i} for i in range(300)]); decimal.Decimal(1) / 3; zlib.compress(b'x' * 9999)")
    for options, interval in (((), 1), ((), 512), (("--no-block-client",), 4096)):
        # readline: its set-up has more on the stack than a copy takes, so it must be waited for. Who may
        # not wait loses what the recorder had no time to look at before the process's end.
        script = code % "" + "; import time; time.sleep(1)" if options else code % ", readline"
        argv = ["/usr/bin/python3", "-S", "-E", "-c", script]
        r = hw.record(box, argv, *options, interval=interval, trace=f"{interval}.trace",
                      env={"PYTHONMALLOC": "malloc"})
        hw.equal(r.returncode, 0, hw.tail(r.stderr))
        d = hw.sound(r.trace).last()
        hw.equal((d.overran, d.lost), (False, 0), "lost")
        whole(d, f"python3 {interval} {options}")


def whole_stacks(box):
    """Not the leaf only: each of the two callers of every function has its share."""
    _, r, t = compare(box, [hw.target("truth")], name="truth")
    for c in "abcdefghijklmnopqrstuvwxyz":
        most = rest = 0
        for s in t.last().samples:
            if f"fn_{c}" not in s.stack:
                continue
            hw.true(s.stack[0] in STARTS, f"root: {s.stack}")
            tail = s.stack[s.stack.index("main"):]
            if tail == ["main", "work", f"most_{c}", "churn", f"fn_{c}"]:
                most += s.allocs
            elif tail == ["main", "work", f"rest_{c}", "churn", f"fn_{c}"]:
                rest += s.allocs
            else:
                raise hw.Failure(f"unexpected callstack {s.stack}")
        n = most + rest
        hw.equal((most, rest), (n - n // 4, n // 4), f"fn_{c} through most_{c}, rest_{c}")


def roots(box):
    """A complete stack begins in the C library's start code, not in the middle."""
    _, r, t = compare(box, [hw.target("threads")], name="threads")
    for s in t.last().samples:
        if "fn_main" in s.stack:
            hw.true(s.stack[0] in STARTS,
                    f"root of the main thread: {s.stack}")
        if "fn_thread" in s.stack:
            # Debian's libc keeps no symbols for the first two frames of a thread.
            hw.true(re.match(r"(clone3?|__clone3?|start_thread|)$", s.stack[0] or ""),
                    f"root of a thread: {s.stack}")


def sampled(box):
    """4 KiB interval: the estimates agree with the truth within what sampling allows."""
    plain, r, t = compare(box, [hw.target("truth"), "1"], name="truth", interval=4096)
    want = hw.expectations(plain.stdout)
    have = {f: [0, 0.0, 0, 0.0] for f in want}
    for s in t.last().samples:
        for f in set(s.stack) & have.keys():
            h = have[f]
            h[0] += s.alloc
            h[1] += s.est_allocs
            h[2] += s.alloc - s.freed
            h[3] += s.est_allocs - s.est_frees
    for k, what, bar in ((0, "bytes", 0.03), (2, "live bytes", 0.04)):
        total = sum(w[k] for w in want.values())
        error = sum(abs(have[f][k] - want[f][k]) for f in want) / total
        print(f"  total variation of {what}: {100 * error:.2f} %")
        hw.true(error < bar, f"total variation of {what} {error:.4f}")
    for k, what in ((1, "allocations"), (3, "live objects")):
        total = sum(w[k] for w in want.values())
        bias = sum(h[k] for h in have.values()) / total - 1
        # Of n allocations of one size about n * p are sampled, with p = 1 - exp(-size / interval): four standard errors.
        chances = [(w[k], -math.expm1(-w[k - 1] / w[k] / 4096)) for w in want.values() if w[k]]
        bar = 4 * math.sqrt(sum(n * (1 - p) / p for n, p in chances)) / total
        print(f"  bias of {what}: {100 * bias:+.2f} %, four standard errors are {100 * bar:.2f} %")
        hw.true(abs(bias) < bar, f"bias of {what} {bias:+.4f}")


def ending(how):
    def case(box):
        plain, r, t = compare(box, [hw.target("die"), how], name=how)
        n = 101 if how in ("return", "exit", "pthread_exit") else 100
        hw.exact(t.last(), {"fn_a": [n * 10, n, n * 10, n]}, how)
    return case


def peak(box):
    """A program that frees everything still shows what held its memory."""
    _, r, t = compare(box, [hw.target("freeall")], "--dump-at-max", name="freeall")
    held = sum(s.max for s in t.last().samples if "fn_big" in s.stack)
    count = sum(s.max_count for s in t.last().samples if "fn_big" in s.stack)
    hw.equal((held, count), (40960000, 400), "dump at max: bytes and objects of fn_big")


def allocator(library):
    def case(box):
        found = sorted(glob.glob(f"/usr/lib/*/{library}") + glob.glob(f"/usr/lib/{library}"))
        if not found:
            raise hw.Skip(f"{library} is not installed")
        env = {"LD_PRELOAD": found[0]}
        for name in ("newdel", "threads", "realloc"):
            plain = box.run([hw.target(name)], env=env)
            r = hw.record(box, [hw.target(name)], trace=f"{name}.trace", env=env)
            hw.equal(r.target_stdout, plain.stdout, f"{name} with {library}: output")
            t = hw.sound(r.trace)
            want = hw.expectations(plain.stdout)
            hw.exact(t.last(), want, f"{name} with {library}")
        # Plug-ins, loaded later than our constructor: whichever operators they get without us.
        plain = box.run([hw.target("opplugs")], env=env)
        r = hw.record(box, [hw.target("opplugs")], trace="opplugs.trace", env=env)
        hw.equal((r.returncode, r.target_stdout), (plain.returncode, plain.stdout), f"opplugs with {library}")
        made = sum(s.allocs for s in hw.sound(r.trace).last().samples if "opplug_new" in s.stack)
        hw.equal(made, 12, f"opplugs with {library}: blocks of opplug_new")
    return case


def custom_heaps(box):
    """--all-heaps: heaps that the program announces itself, each with its own dump."""
    out = box.dir / "o"
    out.mkdir()
    plain = box.run([hw.target("custom")])
    r = box.run([hw.tool("heap_profile"), "host", "-i", "1", "--all-heaps", "-o", out, "--",
                 hw.target("custom")], check=0)
    hw.true(plain.stdout in r.stdout, "the target's output")
    t = hw.sound(str(out / "raw-trace"))
    want = hw.expectations(plain.stdout)
    hw.exact(t.last(heap="test.pool"), {"fn_pool": want["fn_pool"]}, "test.pool")
    hw.exact(t.last(heap="test.other"), {"fn_other": want["fn_other"]}, "test.other")
    pid = t.last().pid
    names = sorted(p.name for p in out.iterdir())
    for heap in ("test.pool", "test.other"):
        hw.true(any(n.startswith("heap_dump.") and n.endswith(f".{pid}.{heap}.pb.gz") for n in names), f"{names}")
    r = hw.record(box, [hw.target("custom"), "child"], "--follow-fork", "--all-heaps", "--no-passthrough")
    if r.returncode == 0:  # 4: the child has ended before the recorder could answer
        t = hw.sound(r.trace)
        child = next((d.pid for d in t.dumps if d.heap == "test.pool" and d.samples), None)  # its parent's may be the last dump
        hw.exact(t.last(child, heap="test.pool"), {"fn_pool": want["fn_pool"]}, "test.pool of a child that does not call malloc")
    hw.true(r.returncode in (0, 4), hw.tail(r.stderr))


def chains(box):
    """Scripts, env, nice and timeout end with the profile of the real program underneath."""
    script = box.dir / "run.sh"
    script.write_text(f"#!/bin/sh\nx=1\n{hw.target('truth')} > out.txt\n")
    script.chmod(0o755)
    want = hw.expectations(box.run([hw.target("truth")]).stdout)
    for i, argv in enumerate((["./run.sh"], ["env", "A=b", hw.target("truth")],
                              ["nice", "-n", "1", hw.target("truth")],
                              ["timeout", "30", hw.target("truth")],
                              ["sh", "-c", f"exec {hw.target('truth')}"])):
        trace = box.path(f"{i}.trace")
        r = box.run([hw.tool("heapwise"), "record", "-i", "1", "-o", trace, "--", *argv])
        hw.equal(r.returncode, 0, f"{argv}: {hw.tail(r.stderr)}")
        t = hw.sound(trace)
        best = [d for d in t.of() if any("fn_a" in s.stack for s in d.samples)]
        hw.true(best, f"{argv}: no profile of the program underneath, only {[(d.pid, len(d.samples)) for d in t.dumps]}")
        hw.exact(best[-1], want, str(argv))


def follow_fork(box):
    """Children are profiled too with --follow-fork, each as a process of its own."""
    r = hw.record(box, ["sh", "-c", f"{hw.target('threads')} >&2; {hw.target('keys')} >&2; true"],
                  "--follow-fork")
    t = hw.sound(r.trace)
    for name in ("threads", "keys"):
        want = hw.expectations(box.run([hw.target(name)]).stdout)
        site = next(iter(want))
        d = [d for d in t.of() if d.by_function([site])[site] == want[site]]
        hw.true(d, f"{name}: not among {[(d.pid, len(d.samples)) for d in t.dumps]}")


@contextlib.contextmanager
def busy_machine(box, n=2):
    """Others want the processors, too."""
    hogs = [box.start(["nice", "-n", "19", "sh", "-c", "while :; do :; done"]) for _ in range(n)]
    try:
        yield
    finally:
        for p in hogs:
            p.kill()
            p.wait()


def missed(box, trace):
    text = box.run([hw.tool("heapwise"), "query", trace, "select ifnull(sum(value), 0) from stats "
                    "where name = 'heapprofd_missed_processes'"], check=0).stdout.decode()
    return int(text.splitlines()[1].strip('"'))


def fork_many(box):
    """Of children that fork all at once each is recorded that allocates after some seconds (one, but
    other tests run beside this one); those that ended before are told of."""
    for rounds, n, ms in ((1, 60, 3000), (2, 60, 10)):
        with busy_machine(box):
            r = hw.record(box, [hw.target("prefork"), rounds, n, ms, 1], "--follow-fork", interval=4096,
                          trace=f"{ms}.trace")
        hw.equal(r.returncode, 0, hw.tail(r.stderr))
        children = {int(p) for p in re.findall(rb"^pid (\d+)$", r.target_stdout, re.M)}
        hw.equal(len(children), rounds * n, "children")
        seen = {d.pid for d in hw.sound(r.trace, ("disconnected",)).of()} & children
        late = {d.pid for d in hw.sound(r.trace, ("disconnected",)).of()
                if any("fn_late" in s.stack for s in d.samples)} & children
        lost = missed(box, r.trace)
        hw.equal(len(seen) + lost, len(children), f"children recorded ({len(seen)}) and told of as lost ({lost})")
        hw.equal(b"forked process" in r.stderr, lost > 0, f"{lost} lost: {hw.tail(r.stderr)}")
        if ms > 1000:
            hw.equal((len(late), lost), (len(children), 0), "children that allocated late, lost")


def fork_pool(box):
    """Python's worker processes, beside other work."""
    hw.need("/usr/bin/python3")
    code = ("import multiprocessing, os, time\n"
            "def work(i):\n"
            "    time.sleep(1.2); keep = [bytes(30000 + k) for k in range(50)]; return os.getpid()\n"
            "with multiprocessing.get_context('fork').Pool(6) as p:\n"
            "    for pid in sorted(set(p.map(work, range(6), chunksize=1))): print('pid', pid, flush=True)\n"
            "    p.close(); p.join()\n")
    with busy_machine(box):
        r = hw.record(box, ["/usr/bin/python3", "-S", "-E", "-c", code], "--follow-fork", interval=4096)
    hw.equal(r.returncode, 0, hw.tail(r.stderr))
    workers = {int(p) for p in re.findall(rb"^pid (\d+)$", r.target_stdout, re.M)}
    big = {d.pid for d in hw.sound(r.trace, ("disconnected",)).of() if d.total("alloc") > 1000000}
    hw.true(workers and workers <= big, f"workers {sorted(workers)}, recorded {sorted(big)}")


def managed(box):
    """Functions of a runtime stand where they belong, under their names, whenever those came."""
    plain, r, t = compare(box, [hw.target("managed")], name="managed")
    have = {}
    for s in t.last().samples:
        leaf = s.stack[-1]
        if leaf not in ("fn_small", "fn_large"):
            continue
        hw.true("main" in s.stack and not {"run", "[unnamed function]"} & set(s.stack), f"{s.stack}")
        methods = [f for f in s.stack if f.startswith("vm.Main.method")]
        first = 7 if methods == ["vm.Main.method7"] else int(methods[0][-1])
        hw.equal(methods, [f"vm.Main.method{first + i}" for i in range(len(methods))], f"methods of {s.stack}")
        row = have.setdefault(f"{methods[-1]};{leaf}", [0, 0, 0, 0])
        for i, n in enumerate((s.alloc, s.allocs, s.alloc - s.freed, s.allocs - s.frees)):
            row[i] += n
    hw.equal(have, hw.expectations(plain.stdout), "[alloc, allocs, live, live objects]")
    sql = ("select distinct f.name, m.name, s.source_file, s.line_number from stack_profile_frame f "
           "join stack_profile_mapping m on m.id = f.mapping left join stack_profile_symbol s using (symbol_set_id) "
           "where m.name like '/[java]%' order by 1")
    rows = box.run([hw.tool("heapwise"), "query", r.trace, sql], check=0).stdout.decode().splitlines()[1:]
    want = [f'"vm.Main.method{i}","/[java]{"" if i == 2 else " vm.jar"}","Main{i}.java",{10 * i + 10}' for i in range(8)]
    hw.equal(rows, want, "frames")
    text = box.run([hw.tool("heapwise"), "tree", r.trace], check=0).stdout.decode()
    hw.true("vm.Main.method0" in text, f"tree: {text}")


def images(box):
    """A large program makes way for a small one, whose names are found sooner: the dumps of the one
    process are in the order of its images all the same, and what the first held is freed."""
    hw.need("/usr/bin/python3")
    code = f"import os, json, sqlite3, decimal, ssl; os.execv({hw.target('die')!r}, ['die', 'return'])"
    for i in range(2):
        r = hw.record(box, ["/usr/bin/python3", "-S", "-E", "-c", code], trace=f"{i}.trace",
                      env={"PYTHONMALLOC": "malloc"})
        dumps = [d for d in hw.sound(r.trace).of() if d.trigger != "peak"]
        hw.equal([d.trigger for d in dumps], ["exec", "freed-by-exec", "exit"], "order of dumps")
        hw.equal(dumps[1].total("alloc") - dumps[1].total("freed"), 0, "live bytes of the first image")
        hw.exact(dumps[2], {"fn_a": [1010, 101, 1010, 101]}, "the second image")


def execs_between_dumps(box):
    """Dumps while a start script or program works do not outlive its exec: its memory went with it."""
    def work(rounds):
        return f"r=0; while [ $r -lt {rounds} ]; do r=$((r+1)); x=; i=0; while [ $i -lt 4000 ]; do x=$x.abcdefgh; i=$((i+1)); done; done; "

    slow = ("import os, sys, time; keep = [bytes(5000) for i in range(200)]; time.sleep(.4); "
            "n = int(sys.argv[2]); "
            "os.execv(*((sys.executable, ['python3', *sys.orig_argv[1:-1], str(n - 1)]) if n else (sys.argv[1], ['die', 'return'])))")
    script = box.path("slow.py")
    open(script, "w").write(slow)
    chains = [lambda n: ["sh", "-c", work(n) + f"exec {hw.target('die')} return"],
              lambda n: ["sh", "-c", work(n) + f"sh -c '{work(n)} exec {hw.target('die')} return'; exit 0"]]
    if os.path.exists("/usr/bin/python3"):
        chains += [lambda n, k=k: ["/usr/bin/python3", "-S", "-E", script, hw.target("die"), k] for k in "01"]
    for i, chain in enumerate(chains):
        trace = box.path(f"{i}.trace")
        for rounds in (1, 4, 16):  # a program that has worked before the timer's first dump works longer
            argv = chain(rounds)
            box.run([hw.tool("heapwise"), "record", "-i", "1", "-c", "50ms", "-f", "-o", trace, "--", *argv])
            dumps = hw.sound(trace).of()
            if any(d.trigger == "continuous" for d in dumps):
                break
        hw.true(any(d.trigger == "continuous" for d in dumps), f"{argv}: no dump in between: {[d.trigger for d in dumps]}")
        rows = box.run([hw.tool("heapwise"), "query", trace, "select p.pid, sum(a.size), sum(a.count) from heap_profile_allocation a "
                        "join process p using (upid) group by 1"], check=0).stdout.decode().splitlines()[1:]
        live = {int(pid): (int(size), int(n)) for pid, size, n in (row.split(",") for row in rows)}
        last = [d for d in dumps if any("fn_a" in s.stack for s in d.samples)][-1]
        want = last.total("alloc") - last.total("freed"), last.total("allocs") - last.total("frees")
        hw.equal(live[last.pid], want, f"{argv}: live bytes and objects at the end; {[(d.pid, d.trigger) for d in dumps]}")


def dump_counts(box):
    """One number of dumps, whoever tells it; the maxima in between and heaps of one moment count for none."""
    trace = box.path("c.trace")
    code = "import time\nfor i in range(4): keep = [bytes(9000) for k in range(300 * i)]; del keep; time.sleep(.1)"
    hw.need("/usr/bin/python3")
    said = json.loads(box.run([hw.tool("heapwise"), "record", "--json", "-i", "4096", "-c", "100ms", "-o", trace, "--",
                               "/usr/bin/python3", "-S", "-E", "-c", code]).stdout)
    told = json.loads(box.run([hw.tool("heapwise"), "report", "--json", trace]).stdout)
    dumps = len({d.ts for d in hw.sound(trace).of() if d.trigger != "peak"})
    have = {k: v["dumps"] for k, v in (("record", said), ("report", told))}
    first = box.run([hw.tool("heapwise"), "stats", trace]).stdout.decode().splitlines()[0]
    have["stats"] = int(re.search(r"(\d+) dumps? of", first)[1])
    hw.equal(have, {"record": dumps, "report": dumps, "stats": dumps}, "dumps")
    hw.true(any(d.trigger == "peak" for d in hw.sound(trace).of()), "no maximum in between: nothing was tested")


def last_rss(box):
    """What a program's memory was shortly before its end: when the end is seen there is nothing to be read any more."""
    hw.need("/usr/bin/python3")
    code = "import os, time\ntime.sleep(1.4)\nkeep = bytearray(b'x') * (60 << 20)\ntime.sleep(.3)\nos._exit(0)"
    box.run([hw.tool("heapwise"), "record", "-q", "-i", "4096", "-o", box.path("r.trace"), "--", "/usr/bin/python3", "-S", "-E",
             "-c", code])
    told = json.loads(box.run([hw.tool("heapwise"), "report", "--json", box.path("r.trace")]).stdout)
    hw.true(told["end"]["space"] >= 60 << 20, f"{told['end']}")
    hw.true(told["rss_bytes"] >= 60 << 20 and told["rss_at_ns"] > 1_400_000_000,
            f"RSS {told['rss_bytes']} at {told['rss_at_ns']}, the end is at {told['end']['since_start_ns']}")


CASES = {"managed": managed, **{n: plain_target(n) for n in PLAIN},
         **{n + "32": plain_target(n, "32") for n in TWINS_32}, "started32": started_32, "kinds": of_each_kind,
         "dlloop": plug_in("dlloop"), "runpath": plug_in("runpath"), "reload": plug_in("reload"), "extensions": extensions,
         "fiber": foreign("fiber", ("body", "own_body", "main", "rounds")), "inlibc": foreign("inlibc", ("fn_thread",)),
         **{"end-" + e: ending(e) for e in ENDS},
         "whole-stacks": whole_stacks, "roots": roots, "sampled": sampled, "peak": peak,
         "jemalloc": allocator("libjemalloc.so.2"), "tcmalloc": allocator("libtcmalloc_minimal.so.4"),
         "mimalloc": allocator("libmimalloc.so.2*"), "chains": chains, "custom-heaps": custom_heaps, "images": images, "follow-fork": follow_fork,
         "fork-many": fork_many, "fork-pool": fork_pool, "exec-between-dumps": execs_between_dumps,
         "dump-counts": dump_counts, "last-rss": last_rss}

if __name__ == "__main__":
    hw.main(CASES)
