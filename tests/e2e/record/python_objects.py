#!/usr/bin/env python3
"""The heap python.alloc: Python's objects by function and line, against tracemalloc in the same process."""
import glob
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from python import EMBED, ask, interpreters, noted

os.environ.pop("MALLOC_PERTURB_", None)
HEAP = "python.alloc"
SLACK = {"bytes": 640, "blocks": 6}  # objects from lists of free ones stay with who asked for their memory

FILL = r'''
import gc, json, os, sys, threading
class Cell:
    __slots__ = ("a", "b")
def fill_bytes(n):
    out = []
    for i in range(n):
        out.append(bytes(400 + i % 200))
    return out
def fill_dicts(n):
    out = []
    for i in range(n):
        out.append({"k%d" % i: [i, i + 1000000]})
    return out
def fill_cells(n):
    out = []
    for i in range(n):
        c = Cell()
        c.a = i * 1.5
        c.b = (i, n)
        out.append(c)
    return out
def fill_open(n):
    class Open: # another one each time: its instances grow smaller with the number of those before
        pass
    out = []
    for i in range(n):
        o = Open()
        o.x = i + 1000000
        out.append(o)
    return out
def fill_grown(n):
    """Grow in arenas, move to malloc, and some shrink again: they stay there."""
    out = []
    for i in range(n):
        a = []
        for k in range(i % 100):
            a.append(None)
        if i % 3 == 0:
            b = bytearray(2000)
            del b[i % 200:]
            out.append(b)
        out.append(a)
    return out
def fill_and_drop(n):
    out = []
    for i in range(n):
        out.append("x" * (100 + i % 100))
    return out[::4]
fills = [fill_bytes, fill_dicts, fill_cells, fill_open, fill_grown, fill_and_drop]
keep = []
def fill(n):
    gc.collect() # empties the lists of free objects
    for f in fills:
        keep.append(f(n))
def in_threads(n):
    gc.collect()
    def part(k):
        for f in fills[k::3]:
            keep.append(f(n))
    for t in [threading.Thread(target=part, args=(k,)) for k in range(3)]:
        t.start()
        t.join() if n < 0 else None
        threads.append(t)
    for t in threads:
        t.join()
threads = []
def lines_of(code):
    if hasattr(code, "co_lines"):
        return [l for _, _, l in code.co_lines()]
    import dis # before 3.10
    return [l for _, l in dis.findlinestarts(code)]
def count():
    """-> {"heap function line": [bytes, blocks]} of what lives, as tracemalloc says. fill_grown's small bytearrays are malloc's."""
    of = {l: f.__name__ for f in fills for l in lines_of(f.__code__) if l and l > f.__code__.co_firstlineno}
    told = {}
    for t in tracemalloc.take_snapshot().traces:
        at = t.traceback[0]
        if at.filename == __file__ and at.lineno in of:
            shrunk = "del b" in lines[at.lineno - 1]
            heap = "libc.malloc" if t.size > 512 or shrunk else "python.alloc"
            row = told.setdefault(" ".join((heap, of[at.lineno], str(at.lineno))), [0, 0])
            row[0] += t.size
            row[1] += 1
    with open(os.environ["TOLD"], "w") as f:
        json.dump(told, f)
lines = open(__file__).read().splitlines()
if "before" not in sys.argv:
    import tracemalloc # which asks for memory
gc.collect()
gc.disable()
def go(n, how):
    if "TOLD" in os.environ:
        tracemalloc.start(1)
    fill(n) if how != "threads" else in_threads(n)
    if "TOLD" in os.environ:
        count()
def allocator(put=None):
    import ctypes
    got = (ctypes.c_void_p * 5)()
    ctypes.pythonapi.PyMem_GetAllocator(2, got)
    for domain in (1, 2) if put else ():
        ctypes.pythonapi.PyMem_SetAllocator(domain, put)
    return got
def is_ours():
    """Do calls for objects lead out of the interpreter's own code?"""
    got = allocator()
    for line in open("/proc/self/maps"):
        lo, hi = (int(x, 16) for x in line.split()[0].split("-"))
        if lo <= got[1] < hi:
            return "python" not in line.rpartition("/")[2]
    return True
def joined():
    while not is_ours():
        "x" * 50000 # it joins at a malloc
def recorded():
    while "heapwise-ring" not in open("/proc/self/maps").read():
        "x" * 50000 # a child goes on without an answer after 50 ms
def talk():
    for line in sys.stdin:
        said = eval(line)
        print(said, flush=True)
if __name__ == "__main__":
    how = sys.argv[1]
    if how == "talk":
        talk()
    if how == "fork" and os.fork() != 0:
        _, status = os.wait()
        os._exit(0 if os.WIFSIGNALED(status) else 3)
    if how == "fork":
        recorded()
    go(int(sys.argv[2]), how)
    os.kill(os.getpid(), 9)
'''


def live(box, trace, heap=None, pid=None):
    """-> {(heap, function, line): [bytes, blocks]} by the innermost Python function of each stack"""
    where = f" and heap_name = '{heap}'" if heap else ""
    if pid:
        where += f" and upid in (select upid from process where pid = {pid})"
    frames = {int(i): (name, mapping, int(line) if line.isdigit() else 0) for i, name, mapping, line in ask(
        box, trace, "select f.id, f.name, m.name, s.line_number from stack_profile_frame f left join stack_profile_mapping m on "
        "m.id = f.mapping left join stack_profile_symbol s using (symbol_set_id)")}
    sites = {int(i): (int(parent) if parent.isdigit() else None, int(frame)) for i, parent, frame in ask(
        box, trace, "select id, parent_id, frame_id from stack_profile_callsite")}
    out = {}
    for site, name, n, size in ask(box, trace, "select callsite_id, heap_name, sum(count), sum(size) from heap_profile_allocation "
                                               f"where true{where} group by 1, 2"):
        at = int(site)
        while at is not None and frames[sites[at][1]][1] != "/[python]":
            at = sites[at][0]
        function, line = (frames[sites[at][1]][0], frames[sites[at][1]][2]) if at is not None else ("", 0)
        row = out.setdefault((name, function, line), [0, 0])
        row[0] += int(size)
        row[1] += int(n)
    return out


def compare(box, trace, told, pid=None, heap=None):
    have = {k: v for k, v in live(box, trace, heap, pid).items() if k[1].startswith("fill_") and not k[0].startswith("mmap.") and v != [0, 0]}
    want = {}
    for k, v in told.items():
        of, function, line = k.split()
        if heap in (None, of):
            want[of, function, int(line)] = v
    hw.true(sum(of == HEAP for of, _, _ in want) >= 10, f"what tracemalloc says: {want}")
    wrong = [f"{k}: have {have.get(k)}, want {want.get(k)}" for k in sorted({*have, *want})
             if abs(have.get(k, (0, 0))[0] - want.get(k, (0, 0))[0]) > SLACK["bytes"]
             or abs(have.get(k, (0, 0))[1] - want.get(k, (0, 0))[1]) > SLACK["blocks"]]
    hw.true(not wrong, f"{len(wrong)} of {len(want)} lines:\n  " + "\n  ".join(wrong))
    exact = sum(have.get(k) == v for k, v in want.items())
    print(f"  {len(want)} lines, {exact} of them to the byte, {sum(v[0] for k, v in want.items() if k[0] == HEAP)} bytes in {HEAP}")


def prepared(box):
    (box.dir / "fill.py").write_text(FILL)
    return box.path("told.json")


ENV = {"PYTHONHASHSEED": "0"}


def counted(box, python, how, n):
    """What tracemalloc says of a run that is not recorded: its own memory is malloc's."""
    told = prepared(box)
    box.run([python, "-S", "fill.py", how, str(n)], env={**ENV, "TOLD": told})
    return json.loads(pathlib.Path(told).read_text())


def recorded(box, argv, *options, env=None, trace="out.trace", interval=1):
    prepared(box)
    return hw.record(box, argv, *options, env={**ENV, **(env or {})}, trace=trace, interval=interval, timeout=200)


def start(box):
    for i, python in enumerate(interpreters()):
        print(f"  {python}")
        told = counted(box, python, "run", 200)
        r = recorded(box, [python, "-S", "fill.py", "run", "200"], trace=f"{i}.trace")
        compare(box, r.trace, told)
    for command, heap, says in (("report", None, True), ("leaks", None, True), ("report", "libc.malloc", False)):
        out = b" ".join(box.run([hw.tool("heapwise"), command, *(["--heap", heap] if heap else []), r.trace]).stdout.split())
        hw.equal(b"Python reuses freed floats" in out, says, f"{command} of {heap}: {out.decode()}")
        hw.true(b"this recording lacks" not in out, f"{command} of {heap}: {out.decode()}")


class Talk:
    """The program, which does what it is asked to."""
    def __init__(self, box, python, *argv, env=None):
        prepared(box)
        self.p = box.start([python, "-S", "fill.py", "talk", *argv], env={**ENV, **(env or {})}, stdin=subprocess.PIPE)
        self.pid = self.p.pid

    def ask(self, what):
        self.p.stdin.write(what.encode() + b"\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().decode().strip()

    def kill(self):
        self.p.kill()
        self.p.wait(hw.CLOCK)


def rings(pid):
    return set(re.findall(r"(\d+) +/memfd:.*ring", pathlib.Path(f"/proc/{pid}/maps").read_text()))


def attach(box, talk, trace, *options, interval=1):
    before = rings(talk.pid)  # of a session before this one
    a = box.start([hw.tool("heapwise"), "attach", "-q", "-i", str(interval), "-o", box.path(trace), *options, str(talk.pid)])
    hw.wait_for(lambda: rings(talk.pid) - before or talk.ask("'x' * 50000") and 0, "the program to join")
    return a


def ended(a, signal_=None):
    if signal_:
        a.send_signal(signal_)
    hw.equal(a.wait(hw.CLOCK), 0, "heapwise attach")


def attached(box):
    """Detached, nothing of ours is left in the table; attached again, all is seen again."""
    for i, python in enumerate(interpreters()):
        print(f"  {python}")
        told = counted(box, python, "run", 200)
        t = Talk(box, python)
        hw.equal(t.ask("is_ours()"), "False", "before the attach")
        for k in range(2):
            trace = f"{i}.{k}.trace"
            a = attach(box, t, trace)
            t.ask("joined()")
            hw.equal(t.ask("fill(200)"), "None", "objects")
            ended(a, signal.SIGINT)
            hw.equal(t.ask("is_ours()"), "False", "after the detach")
            t.ask("keep.pop()")  # freed by the interpreter's own function
            hw.equal(t.ask("fill(20)"), "None", "objects")
            compare(box, box.path(trace), told)
            ours = ask(box, box.path(trace), "select distinct f.name from stack_profile_frame f join stack_profile_mapping m on "
                                             "m.id = f.mapping where m.name like '%libheapprofd%'")
            hw.equal(ours, [], "our own functions in stacks")
        t.kill()


def tracers(box):
    """tracemalloc on top of ours is not disturbed, also by a detach; when it ends, ours is there again. One that was there before
    keeps us out, with the reason, until it ends."""
    python = interpreters()[-1]
    told = counted(box, python, "run", 200)
    t = Talk(box, python)
    a = attach(box, t, "on-top.trace")
    t.ask("joined()")
    t.ask("tracemalloc.start(1)")
    t.ask("fill(200)")
    ended(a, signal.SIGINT)
    compare(box, box.path("on-top.trace"), told, heap=HEAP)
    seen = int(t.ask("sum(s.size for s in tracemalloc.take_snapshot().statistics('filename') if s.traceback[0].filename == __file__)"))
    hw.true(seen >= sum(v[0] for v in told.values()), f"tracemalloc has {seen} bytes")
    t.ask("keep.clear()")
    t.ask("tracemalloc.stop()")
    hw.equal(t.ask("fill(20)"), "None", "a library that stays behind passes calls on")
    a = attach(box, t, "again.trace")
    t.ask("joined()")
    t.ask("fill(200)")
    ended(a, signal.SIGINT)
    hw.equal(t.ask("is_ours()"), "False", "after the detach")
    compare(box, box.path("again.trace"), told)
    t.kill()

    t = Talk(box, python)
    t.ask("tracemalloc.start(1)")
    a = attach(box, t, "before.trace")
    t.ask("fill(100)")
    t.ask("[len('x' * 50000) for i in range(2000)] and None")
    ended(a, signal.SIGINT)
    t.kill()
    hw.equal(live(box, box.path("before.trace"), HEAP), {}, "objects behind a tracemalloc that was there")
    noted(box, box.path("before.trace"), b"tracemalloc, started before")

    t = Talk(box, python)
    t.ask("tracemalloc.start(1)")
    a = attach(box, t, "later.trace")
    t.ask("fill(100)")
    t.ask("tracemalloc.stop()")
    t.ask("joined()")
    t.ask("keep.clear()")
    t.ask("fill(200)")
    ended(a, signal.SIGINT)
    t.kill()
    compare(box, box.path("later.trace"), told, heap=HEAP)


def allocators(box):
    """PYTHONMALLOC=malloc: each object is malloc's, once. =debug: said, and nothing is changed."""
    python = interpreters()[-1]
    told = counted(box, python, "run", 200)
    merged = {}
    for k, v in told.items():
        row = merged.setdefault((*k.split()[1:],), [0, 0])
        row[0] += v[0]
        row[1] += v[1]
    argv = [python, "-S", "fill.py", "run", "200"]
    r = recorded(box, argv, trace="malloc.trace", env={"PYTHONMALLOC": "malloc"})
    have = {k[1:]: v for k, v in live(box, r.trace, "libc.malloc").items() if k[1].startswith("fill_")}
    for (f, line), (size, n) in merged.items():
        row = have.get((f, int(line)), [0, 0])
        hw.true(abs(row[0] - size) <= SLACK["bytes"] and abs(row[1] - n) <= SLACK["blocks"], f"{f}:{line}: {row}, not {size, n}")
    hw.equal(live(box, r.trace, HEAP), {}, "with PYTHONMALLOC=malloc")
    hw.true(b"python.alloc" not in box.run([hw.tool("heapwise"), "report", r.trace]).stdout, "a note")
    r = recorded(box, argv, trace="debug.trace", env={"PYTHONMALLOC": "debug"})
    hw.equal(live(box, r.trace, HEAP), {}, "with PYTHONMALLOC=debug")
    noted(box, r.trace, b"PYTHONMALLOC=debug")


def forked(box):
    """The child is a process of its own, and inherits the changed table."""
    python = interpreters()[-1]
    told = counted(box, python, "run", 200)
    r = recorded(box, [python, "-S", "fill.py", "fork", "200"], "--follow-fork", trace="fork.trace")
    compare(box, r.trace, told)


def threads(box):
    python = interpreters()[-1]
    told = counted(box, python, "run", 200)
    r = recorded(box, [python, "-S", "fill.py", "threads", "200"], trace="threads.trace")
    compare(box, r.trace, told)


def embedded(box):
    """libpython in another program."""
    hw.need("cc", "python3.11-config")
    prepared(box)
    code = FILL.replace("__file__", "'fill.py'").replace('sys.argv[1]', '"run"').replace("int(sys.argv[2])", "200").replace('"before" not in sys.argv', "True")
    (box.dir / "fill.py").write_text(code)
    (box.dir / "embed.c").write_text(EMBED)
    flags = box.run(["python3.11-config", "--includes"], check=0).stdout.decode().split()
    libs = box.run(["python3.11-config", "--ldflags", "--embed"], check=0).stdout.decode().split()
    exe = box.path("embed")
    hw.equal(box.run(["cc", "-o", exe, "embed.c", *flags, *libs]).returncode, 0, "embed.c compiles")
    box.run([exe, "fill.py"], env={**ENV, "TOLD": box.path("told.json")})
    told = json.loads(pathlib.Path(box.path("told.json")).read_text())
    r = hw.record(box, [exe, "fill.py"], env=ENV, trace="embed.trace")
    compare(box, r.trace, told)


GUARD = r"""
#include <sys/mman.h>
static char data[5 << 16] __attribute__((aligned(1 << 16))) = {1}; /* of a program that guards its own pool */
__attribute__((constructor)) static void guard(void) { mprotect(data + (2 << 16), 1 << 16, PROT_NONE); }
"""


# Until our functions are in the table: then the interpreter prints no figures of pymalloc.
WAITS = r"""
import os, sys
def is_there():
    file = os.open("stats", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    stderr = os.dup(2)
    os.dup2(file, 2)
    sys._debugmallocstats()
    os.dup2(stderr, 2)
    text = os.pread(file, 1 << 20, 0)
    os.close(file)
    os.close(stderr)
    return b"arenas allocated total" in text
while "LD_PRELOAD" in os.environ and is_there():
    keep = [bytes(1000) for _ in range(100)]
"""


def guarded(box):
    """3.11 as a part of a program, whose variables are searched for the table: some of its pages must not be read."""
    hw.need("cc", "python3.11-config")
    archives = glob.glob("/usr/lib/*/libpython3.11.a")
    if not archives:
        raise hw.Skip("no libpython3.11.a")
    prepared(box)
    (box.dir / "app.py").write_text(WAITS + "def fill_one():\n    return [str(i) * 20 for i in range(1000)]\nkeep = fill_one()\nos._exit(7)\n")
    (box.dir / "embed.c").write_text(EMBED + GUARD)
    exe = box.path("embed")
    line = ["cc", "-no-pie", "-o", exe, "embed.c", "-I/usr/include/python3.11", "-rdynamic", archives[0], "-lexpat", "-lz", "-lm", "-ldl"]
    if box.run(line, check=None).returncode:
        raise hw.Skip("libpython3.11.a cannot be linked")
    hw.equal(box.run([exe, "app.py"], check=7).returncode, 7, "alone")
    r = hw.record(box, [exe, "app.py"], trace="embed.trace", check=7)
    hw.true(live(box, r.trace, HEAP), "no objects")


SUB = r"""
try:
    import _xxsubinterpreters as sub
except ImportError:
    import _interpreters as sub
i = sub.create()
code = 'def fill_inside():\n    return [str(k) * 20 for k in range(1000)]\nkeep = fill_inside()\n'
(sub.run_string if hasattr(sub, "run_string") else sub.exec)(i, code)
print("done", flush=True)
import os
os.kill(os.getpid(), 9)
"""


def subinterpreter(box):
    """Its objects are asked for through the same table: 1000 strings of 20 to 60 characters, without Python's functions."""
    (box.dir / "sub.py").write_text(SUB)
    seen = 0
    for i, python in enumerate(interpreters()):
        r = hw.record(box, [python, "sub.py"], trace=f"{i}.trace")
        if b"done" not in r.target_stdout:
            continue
        rows = [v for k, v in live(box, r.trace, HEAP).items() if k[1].startswith("fill_inside") or not k[1]]
        size, n = (sum(v[k] for v in rows) for k in (0, 1))
        hw.true(n >= 1000 and size > 1000 * (20 + 49), f"{python}: {n} objects, {size} bytes")
        seen += 1
    print(f"  {seen} interpreters, the last one: {n} objects, {size} bytes")
    hw.true(seen, "no interpreter has subinterpreters")


def replaced(box):
    """A program that sets its allocators as a whole: from then on nothing is seen, which is said."""
    python = interpreters()[-1]
    told = counted(box, python, "run", 200)
    t = Talk(box, python)
    t.ask("keep.append(allocator())")
    a = attach(box, t, "out.trace")
    t.ask("joined()")
    t.ask("fill(200)")
    t.ask("allocator(keep[0]) and None")
    hw.equal(t.ask("is_ours()"), "False", "what the program has set")
    t.ask("[len('x' * 50000) for i in range(3000)] and None")
    t.ask("fill(50)")
    hw.equal(t.ask("is_ours()"), "False", "it stays as the program wants it")
    ended(a, signal.SIGINT)
    t.kill()
    compare(box, box.path("out.trace"), told, heap=HEAP)
    noted(box, box.path("out.trace"), b"until the program replaced its allocators")


def ends(box):
    """A table that is changed shortly before a recording's end, or the program's, is noticed; a usual end is not taken for that.
    Few mallocs are sampled: all of 40000 bytes or more."""
    for i, python in enumerate(interpreters()):
        for last in ("sys.exit()", "allocator(keep[0]) and sys.exit()", "allocator(keep[0]) and [len('x' * 50000) for i in range(20)]"):
            t = Talk(box, python)
            t.ask("keep.append(allocator())")
            trace = f"{i}.{len(last)}.trace"
            a = attach(box, t, trace, interval=40000)
            t.ask("joined()")
            t.ask(last)
            if "exit" in last:
                hw.equal(t.p.wait(hw.CLOCK), 0, "the program")
            ended(a, None if "exit" in last else signal.SIGINT)
            t.kill()
            said = b"until the program replaced its allocators" in box.run([hw.tool("heapwise"), "report", box.path(trace)]).stdout
            hw.equal(said, "allocator" in last, f"{python}: {last}")


HOOKS = r"""
#include <string.h>
#include <sys/mman.h>
struct functions { void *ctx, *malloc, *calloc, *realloc, *free; };
void PyMem_GetAllocator(int, struct functions *);
void PyMem_SetAllocator(int, struct functions *);
static struct { void *ctx; void *(*malloc)(void *, unsigned long); void *(*calloc)(void *, unsigned long, unsigned long);
                void *(*realloc)(void *, void *, unsigned long); void (*free)(void *, void *); } base;
static void *m(void *c, unsigned long n) { return base.malloc(base.ctx, n); }
static void *z(void *c, unsigned long n, unsigned long k) { return base.calloc(base.ctx, n, k); }
static void *r(void *c, void *p, unsigned long n) { return base.realloc(base.ctx, p, n); }
static void f(void *c, void *p) { base.free(base.ctx, p); }
void save(void) { PyMem_GetAllocator(2, (struct functions *)&base); }
static void *near(char *at, void *to) { /* a jump, as near to the interpreter as its own functions are */
#if __x86_64__
    memcpy(at, "\x48\xb8", 2), memcpy(at + 2, &to, 8), memcpy(at + 10, "\xff\xe0", 2);
#else
    memcpy(at, "\x50\0\0\x58\0\x02\x1f\xd6", 8), memcpy(at + 8, &to, 8);
#endif
    return at;
}
void put(int has_context) {
    static char *page;
    char *hint = (char *)(((unsigned long)PyMem_GetAllocator & ~65535ul) + (100ul << 20));
    if (!page)
        page = mmap(hint, 65536, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct functions w = {has_context ? page + 4096 : 0, near(page, m), near(page + 32, z), near(page + 64, r), near(page + 96, f)};
    __builtin___clear_cache(page, page + 128);
    PyMem_SetAllocator(1, &w);
    PyMem_SetAllocator(2, &w);
}
"""


def hook(box, python):
    """The program with an extension that saves the allocators, and sets its own on top of what it saved."""
    hw.need("cc")
    (box.dir / "hook.c").write_text(HOOKS)
    hw.equal(box.run(["cc", "-shared", "-fPIC", "-o", "hook.so", "hook.c"]).returncode, 0, "hook.c compiles")
    t = Talk(box, python)
    t.ask("threads.append(__import__('ctypes').PyDLL('./hook.so'))")
    return t


def saved(box):
    """Functions that were saved while ours were there, and set after a detach: attached again, nothing calls itself. They call
    ours, so that all is seen."""
    for i, python in enumerate(interpreters()):
        told = counted(box, python, "run", 200)
        t = hook(box, python)
        a = attach(box, t, f"{i}.first.trace")
        t.ask("joined()")
        t.ask("threads[0].save()")
        ended(a, signal.SIGINT)
        hw.equal(t.ask("is_ours()"), "False", "after the detach")
        t.ask("threads[0].put(0)")
        a = attach(box, t, f"{i}.second.trace")
        t.ask("[len('x' * 50000) for i in range(1000)] and None")
        hw.equal(t.ask("fill(200)"), "None", "objects through the hook and ours")
        ended(a, signal.SIGINT)
        hw.equal(t.ask("1 + 1"), "2", "the program lives")
        t.kill()
        compare(box, box.path(f"{i}.second.trace"), told, heap=HEAP)
        hw.true(b"not recorded" not in box.run([hw.tool("heapwise"), "report", box.path(f"{i}.second.trace")]).stdout, "a note")


def bypassed(box):
    """Functions with a context over the interpreter's own, which were saved before ours came: nothing is seen from then on, which
    is said. The same functions over ours call ours: all is seen."""
    python = interpreters()[-1]
    told = counted(box, python, "run", 200)
    for over_ours in (False, True):
        t = hook(box, python)
        trace = f"{over_ours}.trace"
        if not over_ours:
            t.ask("threads[0].save()")
        a = attach(box, t, trace)
        t.ask("joined()")
        if over_ours:
            t.ask("(threads[0].save(), threads[0].put(1)) and None")
        t.ask("fill(200)")
        t.ask("threads[0].put(1) and None")
        t.ask("[str(i) * 20 for i in range(1000)] and [len('x' * 50000 + str(i)) for i in range(1000)] and None")
        hw.equal(t.ask("fill(50) if not %d else None" % over_ours), "None", "objects")
        ended(a, signal.SIGINT)
        t.kill()
        compare(box, box.path(trace), told, heap=HEAP)
        if over_ours:
            hw.true(b"until the program replaced" not in box.run([hw.tool("heapwise"), "report", box.path(trace)]).stdout, "a note")
        else:
            noted(box, box.path(trace), b"until the program replaced its allocators")


CASES = {"bypassed": bypassed, "saved": saved, "guarded": guarded, "replaced": replaced, "ends": ends, "start": start, "attached": attached, "tracers": tracers, "allocators": allocators, "forked": forked, "threads": threads,
         "embedded": embedded, "subinterpreter": subinterpreter}

if __name__ == "__main__":
    hw.main(CASES)
