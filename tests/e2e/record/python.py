#!/usr/bin/env python3
"""Python's functions in native stacks: every stack of a known block is compared, function by function and
line by line, with what the interpreter itself says of it (f_back, co_qualname, f_lineno)."""
import csv
import glob
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.trace import Trace

# Some Pythons do not stand memory that is not zero: one that is unloaded hangs with it, without us, too.
os.environ.pop("MALLOC_PERTURB_", None)

INTERVAL = 1 if os.environ.get("HW_LONG") else 1000  # larger blocks are counted exactly
KNOWN = ("3.11", "3.12", "3.13", "3.8", "3.9", "3.10")

# The recorder has found the interpreter, too, once its table of allocators leads to the client. It joins at an allocation.
JOINED = r'''
def is_joined():
    "x" * 50000
    try:
        import ctypes
    except ImportError:
        return True
    got = (ctypes.c_void_p * 5)()
    ctypes.pythonapi.PyMem_GetAllocator(2, got)
    for line in open("/proc/self/maps"):
        lo, hi = (int(x, 16) for x in line.split()[0].split("-"))
        if lo <= got[1] < hi:
            return "python" not in line.rpartition("/")[2]
'''

APP = JOINED + r'''
import asyncio, functools, json, os, select, sys, threading, time
keep, told = [], []
last = 200000

def size():
    global last
    last += 48
    return last

def where(n):
    f, r = sys._getframe(1), []
    while f:
        r.append((getattr(f.f_code, "co_qualname", f.f_code.co_name), f.f_code.co_filename, f.f_lineno)) # before 3.11 the name only
        f = f.f_back
    told.append((n, r[::-1]))

def leaf():
    n = size(); keep.append((bytearray(n), where(n)))

def deep(k):
    return deep(k - 1) if k else leaf()

class Thing:
    def __init__(self): leaf()
    def __len__(self):
        leaf()
        return 1
    def __del__(self): leaf()
    @property
    def value(self): return leaf()
    @staticmethod
    def fixed(): return [leaf() for _ in range(2)]

def inner():
    for i in range(2):
        leaf()
        yield i

def generator():
    yield from inner()
    leaf()
    yield 9

async def task(k):
    leaf()
    await asyncio.sleep(0)
    leaf()
    async def more():
        await asyncio.sleep(0)
        leaf()
    await more()

async def tasks():
    await asyncio.gather(task(1), task(2))

def größe_日本():
    leaf()

def decorated(f):
    @functools.wraps(f)
    def wrapper(*a, **k):
        return f(*a, **k)
    return wrapper

@decorated
@decorated
def twice(*a, key=None):
    leaf()

def fails():
    try:
        raise ValueError("x")
    except ValueError:
        leaf()
    finally:
        leaf()

def made():
    """Code objects that come and go at the same addresses."""
    for i in range(300):
        text = "\n" * (i % 5) + f"def made{i % 7}():\n    n = size(); keep.append((bytearray(n), where(n)))\nmade{i % 7}()"
        exec(compile(text, f"<made {i % 11}>", "exec"), globals())

def called_back():
    try:
        import ctypes
    except ImportError:
        return
    callback = ctypes.CFUNCTYPE(None)(lambda: leaf())
    callback()

def all_of_it():
    leaf()
    deep(40)
    t = Thing()
    len(t)
    t.value
    t.fixed()
    del t
    list(generator())
    sorted([3, 1, 2], key=lambda x: leaf() or x)
    functools.reduce(lambda a, b: leaf() or b, [1, 2, 3])
    asyncio.run(tasks())
    größe_日本()
    twice(1, key=2)
    fails()
    made()
    called_back()
    import imported

if __name__ == "__main__":
    if "wait" in sys.argv:
        print("ready", flush=True)
        while not is_joined():
            select.select([], [], [], 0.01)
    all_of_it()
    t = threading.Thread(target=all_of_it, name="other")
    t.start()
    t.join()
    with open(os.environ["TOLD"], "w") as f:
        json.dump(told, f)
    print("done", flush=True)
    if "wait" in sys.argv:
        sys.stdin.readline()
'''

MODULE = "from __main__ import leaf\ndef at_import():\n    leaf()\nat_import()\n"

EMBED = r'''
#include <Python.h>
int main(int argc, char **argv)
{
    FILE *f = fopen(argv[1], "r");
    if (!f)
        return 2;
    Py_Initialize();
    int rc = PyRun_SimpleFile(f, argv[1]);
    return Py_FinalizeEx() < 0 ? 3 : rc;
}
'''

SUB = r'''
import sys
try:
    import _xxsubinterpreters as sub
except ImportError:
    import _interpreters as sub
i = sub.create()
sub.run_string(i, """
keep = []
def inside():
    keep.append(bytearray(777001))
def outside():
    inside()
outside()
""") if hasattr(sub, "run_string") else None
def mine():
    global b
    b = bytearray(555001)
mine()
print("done")
'''


def interpreters():
    found = [p for p in os.environ.get("HW_PYTHONS", "").split(":") if p]
    for v in KNOWN:
        p = shutil.which("python" + v, path="/usr/bin:/usr/local/bin")
        found += [p] if p else []
    if not found:
        raise hw.Skip("no Python of " + ", ".join(KNOWN))
    return found


def prepared(box):
    app = box.dir / "app.py"
    app.write_text(APP)
    (box.dir / "imported.py").write_text(MODULE)
    return app


def ask(box, trace, sql):
    p = box.run([hw.tool("heapwise"), "query", str(trace), sql], check=0, timeout=120)
    return list(csv.reader(io.StringIO(p.stdout.decode())))[1:]


def stacks(box, trace, mapping_of="/[python]"):
    """-> [(bytes, number, [(function, file, line) of Python, root first], all names)]"""
    frames = {int(i): (name, mapping, file, int(line) if line.isdigit() else 0) for i, name, mapping, file, line in ask(
        box, trace, "select f.id, f.name, m.name, s.source_file, s.line_number from stack_profile_frame f left join "
        "stack_profile_mapping m on m.id = f.mapping left join stack_profile_symbol s using (symbol_set_id)")}
    sites = {int(i): (int(parent) if parent.isdigit() else None, int(frame)) for i, parent, frame in ask(
        box, trace, "select id, parent_id, frame_id from stack_profile_callsite")}
    out = []
    for site, n, size in ask(box, trace, "select callsite_id, sum(count), sum(size) from heap_profile_allocation where "
                                         "size > 0 group by 1"):
        at, path = int(site), []
        while at is not None:
            at, frame = sites[at]
            path.append(frames[frame])
        path.reverse()
        python = [(name, file, line) for name, mapping, file, line in path if mapping == mapping_of]
        out.append((int(size), int(n), python, [f[0] for f in path]))
    return out


def compare(box, trace, told):
    """Bytes and number of the blocks of each stack of Python, exactly."""
    want, have = {}, {}
    for n, stack in told:
        row = want.setdefault(tuple(tuple(f) for f in stack), [0, 0])
        row[0] += n + 1
        row[1] += 1
    for size, n, python, names in stacks(box, trace):
        ours = python and (python[-1][1].endswith("/app.py") or python[-1][1].startswith("<made"))
        if ours and any("ByteArray" in f or "bytearray" in f for f in names):
            row = have.setdefault(tuple(python), [0, 0])
            row[0] += size
            row[1] += n
    wrong = [(k, v, have.get(k)) for k, v in want.items() if have.get(k) != v]
    other = [k for k in have if k not in want]
    hw.true(not wrong and not other, f"{len(wrong)} of {len(want)} stacks differ, {len(other)} are others; the first:\n  "
            f"{wrong[:1]}\n  {other[:1]}")
    print(f"  {len(told)} blocks, {len(want)} stacks, all as the interpreter says")


def record_with(box, argv, *options, env=None, trace="app.trace"):
    told = box.path("told.json")
    r = hw.record(box, argv, *options, env={"TOLD": told, **(env or {})}, trace=trace, timeout=200, interval=INTERVAL)
    hw.true(b"done" in r.target_stdout, f"the program's output: {hw.tail(r.target_stdout)} {hw.tail(r.stderr)}")
    hw.sound(r.trace)
    return r, json.load(open(told))


def exact(box):
    app = prepared(box)
    for i, python in enumerate(interpreters()):
        print(f"  {python}")
        r, told = record_with(box, [python, app], trace=f"{i}.trace")
        hw.true(b"its frames did not fit" not in b" ".join(r.stderr.split()), hw.tail(r.stderr))
        compare(box, r.trace, told)


def attached(box):
    app = prepared(box)
    told = box.path("told.json")
    p = box.start([interpreters()[0], app, "wait"], env={"TOLD": told}, stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "the program")
    trace = box.path("attached.trace")
    a = box.start([hw.tool("heapwise"), "attach", "-i", str(INTERVAL), "-o", trace, str(p.pid)])
    hw.equal(p.stdout.readline(), b"done\n", "the program")
    p.stdin.write(b"\n")
    p.stdin.flush()
    p.wait(hw.CLOCK)
    hw.equal(a.wait(hw.CLOCK), 0, "heapwise attach")
    compare(box, trace, json.load(open(told)))


def embedded(box):
    """In a program of another name: with libpython, and where it is there, the static library."""
    app = prepared(box)
    hw.need("cc", "python3.11-config")
    (box.dir / "embed.c").write_text(EMBED)
    flags = box.run(["python3.11-config", "--includes"], check=0).stdout.decode().split()
    libs = box.run(["python3.11-config", "--ldflags", "--embed"], check=0).stdout.decode().split()
    ways = [libs]
    for a in glob.glob("/usr/lib/*/libpython3.11.a"):
        ways.append([a if w == "-lpython3.11" else w for w in libs] + ["-rdynamic", "-lexpat", "-lz"])
    for i, way in enumerate(ways):
        exe = box.path(f"embed{i}")
        if box.run(["cc", "-o", exe, box.dir / "embed.c", *flags, *way]).returncode:
            hw.true(i > 0, "embed.c does not compile")
            continue
        r, told = record_with(box, [exe, app], env={"PYTHONPATH": str(box.dir)}, trace=f"{i}.trace")
        compare(box, r.trace, told)


def subinterpreter(box):
    (box.dir / "sub.py").write_text(SUB)
    for i, python in enumerate(interpreters()):
        r = hw.record(box, [python, box.dir / "sub.py"], trace=f"{i}.trace", interval=INTERVAL)
        if b"done" not in r.target_stdout:
            continue  # no subinterpreters in this one
        seen = {}
        for size, n, python_frames, names in stacks(box, r.trace):
            if size in (777002, 555002):
                seen[size] = [f[0] for f in python_frames]
        hw.equal(seen.get(555002, [])[-2:], ["<module>", "mine"], "the main one")
        if 777002 in seen:  # none is right as well
            hw.true(seen[777002][-3:] in ([], ["<module>", "outside", "inside"]), f"inside: {seen[777002]}")


FORKS = """import os
keep = []
def grow():
    keep.extend(bytearray(300000) for _ in range(3))
grow()
if os.fork() == 0:
    grow()
    os._exit(0)
os.wait()
print("done")
"""


def forked(box):
    """A child's recorder has none of the names that its parent's has."""
    app = box.dir / "app.py"
    app.write_text(FORKS)
    for i, python in enumerate(interpreters()):
        r = hw.record(box, [python, app], "--follow-fork", trace=f"{i}.trace", interval=INTERVAL, timeout=120)
        hw.equal(r.target_stdout, b"done\n", "the program's output")
        hw.sound(r.trace)
        have = {}
        for size, n, names, _ in stacks(box, r.trace):
            if size // n == 300001:
                site = tuple((name.rpartition(".")[2], line) for name, _, line in names)
                have[site] = have.get(site, 0) + n
        hw.equal(have, {(("<module>", at), ("grow", 4), ("<genexpr>", 4)): 3 for at in (5, 7)}, f"{python}: parent's and child's stacks")


def switched_off(box):
    app = prepared(box)
    python = interpreters()[0]
    r, told = record_with(box, [python, app], "--no-managed-frames")
    hw.true(not any(python_frames for _, _, python_frames, _ in stacks(box, r.trace)), "no Python frames")


NUMPY = """import numpy
keep = []
def zeros(n):
    return numpy.zeros((n, 1000))
def summed(a):
    return a + numpy.full(1000, 2.0)
def by_method(a):
    return a.copy()
class Grid:
    def __init__(self, n):
        self.cells = zeros(n); self.more = numpy.empty(n * 3000)
for i in range(20):
    keep.append(zeros(101))
    keep.append(summed(zeros(102)))
    keep.append(by_method(zeros(103)))
    keep.append(Grid(104))
print('done')
"""


def numpy(box):
    """Arrays of numpy, which its C code allocates, by the Python functions and lines that made them."""
    if box.run(["/usr/bin/python3", "-c", "import numpy, sys; sys.exit(sys.version_info < (3, 11))"]).returncode:
        raise hw.Skip("no numpy for a Python of " + ", ".join(KNOWN))
    (box.dir / "np.py").write_text(NUMPY)
    r = hw.record(box, ["/usr/bin/python3", "np.py"], interval=65536)
    hw.equal(r.target_stdout, b"done\n", "output")
    found = {}
    for size, n, python_frames, _ in stacks(box, r.trace):  # of one line several: the interpreter specializes its code
        mine = tuple((name, line) for name, file, line in python_frames if file.endswith("np.py"))
        if mine and python_frames[-1][1].endswith("np.py"):
            found[mine] = found.get(mine, 0) + size
    want = {(13, ("zeros", 4)): 101, (14, ("zeros", 4)): 102, (14, ("summed", 6)): 102, (15, ("zeros", 4)): 103,
            (15, ("by_method", 8)): 103, (16, ("Grid.__init__", 11), ("zeros", 4)): 104, (16, ("Grid.__init__", 11)): 312}
    for (line, *below), rows in want.items():
        have = found.get((("<module>", line), *below), 0)  # and small blocks beside the arrays, as estimates
        hw.true(20 * rows * 8000 <= have <= 22 * rows * 8000, f"arrays of {line} {below}: {have}, not {20 * rows * 8000}; {found}")


EXTENSION = r"""
#include <Python.h>
PyObject *NAME_take(Py_ssize_t n);
__attribute__((noinline)) PyObject *NAME_take(Py_ssize_t n)
{
    PyObject *taken = PyByteArray_FromStringAndSize(NULL, n);
    __asm__ volatile("" : : "r"(taken) : "memory");
    return taken;
}
static PyObject *take(PyObject *self, PyObject *n)
{
    (void)NAME_take(PyLong_AsSsize_t(n));
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"take", take, METH_O, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "NAME", NULL, -1, methods};
PyMODINIT_FUNC PyInit_NAME(void)
{
    PyObject *app = PyImport_AddModule("__main__");
    PyObject *n = PyObject_CallMethod(app, "size", NULL);
    for (int i = 0; i < 3; i++) /* its code was loaded a moment ago */
        (void)NAME_take(PyLong_AsSsize_t(n));
    return PyModule_Create(&module);
}
"""

IMPORTS = JOINED + """
import importlib, json, os, select, sys, traceback
told, last = [], 200000
def size():
    global last
    last += 48
    told.append((last, [(f.name, f.filename, f.lineno) for f in traceback.extract_stack()[:-1]]))
    return last
def load(name):
    return importlib.import_module(name)
def use(module):
    module.take(size())
def all_of(names):
    for name in names:
        use(load(name))
print("ready", flush=True)
while not is_joined():
    select.select([], [], [], 0.01)
all_of(sys.argv[1:])
with open(os.environ["TOLD"], "w") as f:
    json.dump(told, f)
print("done", flush=True)
sys.stdin.readline()
"""


def extensions(box):
    """Blocks of modules in C, also while they are loaded: the rows of the report are Python's functions."""
    hw.need("cc", "python3.11-config", "python3.11")
    flags = box.run(["python3.11-config", "--includes"], check=0).stdout.decode().split()
    (box.dir / "imports.py").write_text(IMPORTS)
    names = [f"ext{i}" for i in range(8)]
    for name in names:
        (box.dir / "ext.c").write_text(EXTENSION.replace("NAME", name))
        box.run(["cc", "-O2", "-w", "-s", "-shared", "-fPIC", *flags, "-o", f"{name}.cpython-311-x86_64-linux-gnu.so", "ext.c"], check=0)
    told = box.path("told.json")
    p = box.start(["/usr/bin/python3.11", "imports.py", *names], env={"TOLD": told, "PYTHONPATH": str(box.dir)}, stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "the program")
    # Nobody waits for the recorder to read new code: such stacks are sent as copies.
    trace = box.path("out.trace")
    a = box.start([hw.tool("heapwise"), "attach", "-q", "--no-block-client", "--shmem-size", "64M", "-i", str(INTERVAL), "-o", trace, str(p.pid)])
    hw.equal(p.stdout.readline(), b"done\n", "the program")
    a.send_signal(signal.SIGINT)
    hw.equal(a.wait(hw.CLOCK), 0, "heapwise attach")
    p.kill()
    want = {}
    for n, stack in json.load(open(told)):
        inside = stack[-1][0] not in ("use",)
        want[n] = [3 if inside else 1, [(name, line) for name, file, line in stack]]
    have = {}
    for size, n, python_frames, names in stacks(box, trace):
        if n and size % n == 0 and size // n - 1 in want:
            found = have.setdefault(size // n - 1, [0, None])
            found[0] += n
            if python_frames or "_PyEval_EvalFrameDefault" in names: # else the recorder was too late, and the stack is cut
                found[1] = [(name.rpartition(".")[2], line) for name, _, line in python_frames]
    hw.equal({n: v[0] for n, v in have.items()}, {n: v[0] for n, v in want.items()}, "blocks")
    whole = [n for n in want if have[n][1] is not None]
    hw.equal({n: have[n][1] for n in whole}, {n: want[n][1] for n in whole}, "stacks")
    print(f"  {len(whole)} of {len(want)} whole")
    report = json.loads(box.run([hw.tool("heapwise"), "report", "--json", "--top", "0", trace], check=0).stdout)
    rows = {site["function"]: site["space"] for site in report["sites"]}
    if len(whole) == len(want):
        hw.true(not [name for name in rows if "ext" in name and ("_take" in name or ".so" in name)], f"rows of modules in C: {rows}")
        hw.true(sum(n for n in want if want[n][0] == 1) <= rows["use"] < 9 * max(want), f"use: {rows['use']}")


GREENLETS = """import json, os, sys
from greenlet import greenlet
told, keep, last = [], [], 200000
def where(n):
    f, r = sys._getframe(1), []
    while f:
        r.append((f.f_code.co_qualname, f.f_lineno))
        f = f.f_back
    told.append((n, r[::-1]))
def leaf():
    global last
    last += 48
    keep.append((bytearray(last), where(last)))
def inner(k):
    leaf()
    if k:
        inner(k - 1)
def one(other):
    inner(2)
    other.switch()
    list(map(lambda x: inner(1), [1, 2]))
    other.switch()
    [greenlet(leaf).switch() for i in range(2)]
    leaf()
def two():
    list(map(lambda x: leaf(), [1, 2]))
    first.switch()
    leaf()
    first.switch()
def deep(k):
    return deep(k - 1) if k else list(map(lambda _: greenlet(inner).switch(k), [1, 2]))
def generator():
    for i in range(2):
        leaf()
        yield greenlet(leaf).switch()
def main():
    global first
    leaf()
    first = greenlet(one)
    first.switch(greenlet(two))
    leaf()
    deep(10)
    list(generator())
main()
with open(os.environ["TOLD"], "w") as f:
    json.dump(told, f)
print("done")
"""


def greenlets(box):
    """Each has a stack of its own, which is a part of another's: functions down to where it began, and no others."""
    if box.run(["/usr/bin/python3", "-c", "import greenlet, sys; sys.exit(sys.version_info < (3, 11))"]).returncode:
        raise hw.Skip("no greenlet for a Python of " + ", ".join(KNOWN))
    (box.dir / "greenlets.py").write_text(GREENLETS)
    r, told = record_with(box, ["/usr/bin/python3", "greenlets.py"])
    want, have = {}, {}
    for n, stack in told:
        want[n] = (1, [tuple(f) for f in stack])
    natives = set()
    for size, n, python_frames, names in stacks(box, r.trace):
        if any(f[0] == "leaf" for f in python_frames[-1:]) and any("ByteArray" in f for f in names):
            row = have.setdefault(tuple((name, line) for name, _, line in python_frames), [0, 0])
            row[0] += size
            row[1] += n
            natives |= {names[0]}
    by_stack = {}
    for n, (_, stack) in want.items():
        row = by_stack.setdefault(tuple(stack), [0, 0])
        row[0] += n + 1
        row[1] += 1
    hw.equal(have, by_stack, "stacks")
    print(f"  {len(told)} blocks, {len(by_stack)} stacks")
    hw.true(len(by_stack) > 10 and len(natives) == 2, f"{len(by_stack)} stacks, which begin in {natives}")


def noted(box, trace, text):
    """What the recorder said stands in the trace, and its readers say it."""
    for command in ("report", "stats"):
        said = box.run([hw.tool("heapwise"), command, trace]).stdout
        hw.true(text in b" ".join(said.split()), f"{command}: {said.decode()}")


def other(box):
    """A Python of another version, by its own word: said while recording, and later by what reads the trace."""
    python = os.path.realpath(interpreters()[0])
    out = box.run([python, "-c", "import sys, struct; sys.stdout.buffer.write(struct.pack('<I', sys.hexversion))"], check=0).stdout
    image, symbols = bytearray(open(python, "rb").read()), box.run(["readelf", "-sW", "--dyn-syms", python]).stdout.decode()
    place = [line.split() for line in symbols.splitlines() if line.endswith(" Py_Version")]
    if not place:
        raise hw.Skip("this interpreter's Py_Version is in another file")
    for line in box.run(["readelf", "-lW", python], check=0).stdout.decode().splitlines():
        w = line.split()
        if w[:1] == ["LOAD"] and int(w[2], 16) <= int(place[0][1], 16) < int(w[2], 16) + int(w[4], 16):
            at = int(place[0][1], 16) - int(w[2], 16) + int(w[1], 16)
    hw.equal(bytes(image[at:at + 4]), out, "Py_Version")
    image[at + 2] = 77
    (box.dir / "python3").write_bytes(image)
    os.chmod(box.dir / "python3", 0o755)
    r = hw.record(box, [box.path("python3"), "-c", "x = bytearray(300000); print('done')"])
    hw.equal(r.target_stdout, b"done\n", "output")
    hw.true(b"Python 3.77 show only the interpreter" in r.stderr, hw.tail(r.stderr))
    noted(box, r.trace, b"Python 3.77 show only the interpreter")


def unknown(box):
    """Older than what we know: said, and the stacks are native."""
    old = os.environ.get("HW_OLD_PYTHON", "").split(":") + [shutil.which("python3." + v) or "" for v in ("7", "6")]
    python = next((p for p in old if p and box.run([p, "-c", "1"]).returncode == 0), None)
    if not python:
        raise hw.Skip("no Python before 3.8")
    r = hw.record(box, [python, "-c", "x = bytearray(300000); print('done')"])
    hw.equal(r.target_stdout, b"done\n", "output")
    hw.true(b"show only the interpreter" in r.stderr, hw.tail(r.stderr))
    noted(box, r.trace, b"show only the interpreter")


# An interpreter that comes and goes; then generated code lies where its evaluation was.
UNLOADED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3}; /* calls its second argument */
    void *h = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (!h)
        return 77;
    void (*begin)(int) = (void (*)(int))dlsym(h, "Py_InitializeEx");
    int (*run)(const char *) = (int (*)(const char *))dlsym(h, "PyRun_SimpleString");
    int (*end)(void) = (int (*)(void))dlsym(h, "Py_FinalizeEx");
    char *eval = dlsym(h, "_PyEval_EvalFrameDefault");
    begin(0);
    run("import time\ndef f():\n  for i in range(500): bytearray(900 + i)\nfor i in range(30): f(); time.sleep(.02)\n");
    end();
    while (dlclose(h) == 0)
        ;
    void *page = mmap((void *)((uintptr_t)eval & ~4095ul), 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (page == MAP_FAILED)
        return 77; /* it stays loaded */
    memcpy(eval + 16, code, sizeof code);
    void *(*made)(size_t, void *(*)(size_t)) = (void *(*)(size_t, void *(*)(size_t)))(eval + 16);
    for (int i = 0; i < 1000; i++)
        free(made(5000, malloc));
    puts("over");
    return 0;
}
"""


def unloaded(box):
    hw.need("cc")
    if os.uname().machine != "x86_64":
        raise hw.Skip("its generated code is x86-64's")
    (box.dir / "unloaded.c").write_text(UNLOADED)
    box.run(["cc", "-w", "-o", box.path("unloaded"), box.dir / "unloaded.c", "-ldl"], check=0)
    n = 0
    for exe in interpreters():
        home = os.path.dirname(os.path.dirname(os.path.realpath(exe)))
        for library in glob.glob(home + "/lib/libpython3.[0-9]*.so.1.0") + \
                glob.glob(home + "/lib/*-linux-gnu/libpython3.[0-9]*.so.1.0"):
            argv, env = [box.path("unloaded"), library], {"PYTHONHOME": home}
            if box.run(argv, env=env).returncode != 0:
                continue  # it cannot be unloaded
            trace = box.path(f"unloaded{n}.trace")
            r = box.run([hw.tool("heapwise"), "record", "-i", "1", "-o", trace, "--", *argv], env=env, timeout=100)
            hw.true(r.returncode == 0 and b"over" in r.stdout, f"{library}: {r.returncode} {hw.tail(r.stderr)}")
            hw.true(ask(box, trace, "select 1 from stack_profile_frame where name = 'f'"), "no frame of Python's")
            n += 1
    if n == 0:
        raise hw.Skip("no libpython here that can be unloaded")


LINES = """
import time
keep = []
def work(n):
    keep.append(bytearray(5000 + n))
    keep.append(bytearray(6000 + n)); keep.append([0] * 3000)
    keep.append(bytearray(7000 + n))
for n in range(8):
    work(n)
    time.sleep(0.1)
"""


def apart(box):
    """In several dumps of a program, lines of one function are callstacks of their own for other readers, too."""
    with open(box.path("lines.py"), "w") as f:
        f.write(LINES)
    box.run([hw.tool("heapwise"), "record", "-q", "-i", "1", "-c", "300", "-o", "lines.trace", "--", sys.executable, "lines.py"], check=0)
    t = Trace(box.path("lines.trace"))
    hw.true(len(t.dumps) > 2, f"{len(t.dumps)} dumps")
    hw.equal(t.problems, [], "what a strict reader objects to")
    again = box.run([hw.tool("heapwise"), "convert", "-t", "perfetto", "lines.trace", "again.trace"], check=None)
    if again.returncode == 0:
        hw.equal(Trace(box.path("again.trace")).problems, [], "the same of what is written anew")


CASES = {"exact": exact, "apart": apart, "attached": attached, "embedded": embedded, "forked": forked, "subinterpreter": subinterpreter,
         "switched-off": switched_off, "unknown": unknown, "numpy": numpy, "extensions": extensions, "greenlets": greenlets, "other-version": other, "unloaded": unloaded}

if __name__ == "__main__":
    hw.main(CASES)
