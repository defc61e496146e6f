#!/usr/bin/env python3
"""Every stack of a recorded program compared with a walk without any cache, in the program itself: its client is
tests/unit/client/checked.c, which ends it where a known stack, or a walk that uses the one before, differs; Python's functions
by checked_python.c."""
import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

LONG = bool(os.environ.get("HW_LONG"))
TARGETS = (["truth"], ["fork"], ["vfork"], ["clone_vm"], ["raw_fork"], ["exec"], ["deep"], ["sigalloc"], ["sigjmp"], ["threads"], ["keys"],
           ["realloc"], ["crossfree"], ["newdel"], ["fiber"], ["dlloop"], ["reload"], ["jit"], ["managed"], ["marks"], ["holes"], ["narrow"],
           ["stacks", "11", "8"], ["saturate", "2", "50000"], ["leaky"], ["runpath"], ["wrapper"])

# What makes another stack of the same words, or the same place hold other frames.
CHANGES = r"""
#include <alloca.h>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

static void *volatile block;
static unsigned rng = 7;
static unsigned draw(unsigned n) { rng = rng * 1103515245 + 12345; return (rng >> 16) % n; }
static __attribute__((noinline)) void take(size_t n) { block = malloc(n); memset(block, 1, n); free(block); }

static __attribute__((noinline)) void bent(unsigned n, int d)   // the frame pointer alone finds its caller
{
    volatile char *p = (char *)alloca(n);
    p[0] = 1;
    take(10 + n);
    if (d > 0)
        bent(16 * (1 + draw(4)), d - 1);
    p[n - 1] = 2;
}

// The same sp below, and another place for the frame between. It may be known by what the last one left there.
static __attribute__((noinline)) void inner(unsigned n)
{
    volatile char *p = (char *)alloca(n);
    p[0] = 1;
    take(40);
    p[n - 1] = 2;
}
template <int K> static __attribute__((noinline)) void outer(unsigned n)
{
    volatile char *p = (char *)alloca(n);
    p[0] = K;
    if (draw(2))
        inner(512 - n);
    else
        take(K);  // leaves more of what is below as it was
    p[n - 1] = 2;
}

struct Holder { std::string s; explicit Holder(int d) : s(40 + d, 'x') {} ~Holder() { take(s.size()); } };
static __attribute__((noinline)) int throws(int d)
{
    Holder h(d);
    if (d == 0)
        throw std::string(50, 'e');
    return throws(d - 1) + (int)h.s.size();
}

static jmp_buf out;
static __attribute__((noinline)) void jumps(int d)
{
    volatile char pad[32] = {0};
    take(20 + d);
    if (d == 0)
        longjmp(out, 1);
    jumps(d - 1);
    (void)pad[0];
}

static ucontext_t back, fibers[3];
static void fiber()
{
    for (;;) {
        take(30);
        bent(32, (int)draw(3));
        swapcontext(&fibers[draw(3)], &back);  // whichever: the next one goes on at another's place
    }
}
static __attribute__((noinline)) void in_fibers(char *on_this_stack)
{
    static char one[65536], two[65536];
    char *stacks[] = {on_this_stack, one, two};
    for (int i = 0; i < 3; i++) {
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks[i];
        fibers[i].uc_stack.ss_size = 65536;
        fibers[i].uc_link = &back;
        makecontext(&fibers[i], fiber, 0);
    }
    for (int i = 0; i < 300; i++) {
        take(24);
        swapcontext(&back, &fibers[i % 3]);
    }
}

static void *thread(void *)
{
    for (int i = 0; i < 20; i++)
        bent(16 * (1 + draw(3)), 3);
    return nullptr;
}

// push rbp; mov rbp, rsp; sub rsp, N; mov rax, rdi; mov edi, 64; call rax; leave; ret
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 16, 0x48, 0x89, 0xf8, 0xbf, 64, 0, 0, 0, 0xff, 0xd0, 0xc9, 0xc3};

int main(int, char **argv)
{
    for (int i = 0; i < 200; i++) {
        bent(16 * (1 + draw(4)), (int)draw(4));
        for (int k = 0; k < 40; k++)
            (draw(2) ? outer<30> : outer<31>)(16 * (1 + draw(3)));
        try { throws((int)draw(6)); } catch (const std::string &s) { take(s.size()); }
        if (!setjmp(out))
            jumps((int)draw(6));
    }
    static char *room;
    room = (char *)alloca(65536);
    in_fibers(room);
    for (int i = 0; i < 10; i++) {
        pthread_t t;
        pthread_create(&t, nullptr, thread, nullptr);
        pthread_join(t, nullptr);
    }
    unsigned char *made = (unsigned char *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 300; i++) {
        memcpy(made, code, sizeof code);
        made[7] = (unsigned char)(16 * (1 + draw(3)));
        free(((void *(*)(void *(*)(size_t)))made)(malloc));
    }
    for (int i = 0; i < 40; i++) {
        void *lib = dlopen(argv[1 + draw(2)], RTLD_NOW);
        auto plug = (void (*)(void (*)(size_t)))dlsym(lib, "plug");
        for (int k = 0; k < 20; k++)
            plug(take);
        dlclose(lib);
    }
    puts("done");
}
"""
# The same calls at the same places, and frames of other sizes.
PLUG = r"""
#include <stddef.h>
#include <string.h>
static __attribute__((noinline)) void inner(void (*take)(size_t), int d)
{
    volatile char pad[ROOM];
    pad[0] = (char)d;
    take(16 + (size_t)d);
    if (d > 0)
        inner(take, d - 1);
    (void)pad[0];
}
void plug(void (*take)(size_t)) { inner(take, 3); take(8); }
"""

# What makes a frame or a code object another one at the same address.
PYTHON = r'''
import asyncio, gc, importlib.util, os, sys, tempfile, threading

n = int(sys.argv[1])

def take(size=700):
    return bytearray(size)

def deep(k):
    return deep(k - 1) if k else take()

def generate(k):
    for i in range(k):
        yield take(600 + i)
    if k:
        yield from generate(k - 1)

class Thing:
    def __init__(self, k): self.it = take(600 + k)
    def __del__(self): take(640)
    @property
    def value(self):
        try:
            return self.missing
        except AttributeError:
            return take(650)

async def task(k):
    take(660)
    await asyncio.sleep(0)
    take(670)
    if k:
        await task(k - 1)

async def tasks():
    await asyncio.gather(*(task(k) for k in range(4)))

def raises(k):
    try:
        take(680)
        if k == 0:
            raise ValueError(take(690))
        raises(k - 1)
    finally:
        take(710)

# Of one shape and size, with other names, lines and files, each at the addresses of the one that has just gone.
def made(i):
    gap, t = "\n" * (i % 3), {"t": take}
    exec(compile(f"def f{i % 7}(t, k):\n x = t(720){gap}\n y = t(730)\n return k and f{i % 7}(t, k - 1)\nclass C{i % 5}:\n def m(self, t): return t(740)\n"
                 f"f{i % 7}(t, 2)\nC{i % 5}().m(t)\n", f"<made {i % 11:02}>", "exec"), t)
    exec(f"t(750)\n{gap}t(760)\n", t)
    exec("t(755)\n", t)
    exec("\nt(755)", t)
    for k in range(6):
        exec(compile("t(1200)\n", f"<on {k:03}>", "exec"), t)

# As above, and what a copy takes is too small to be seen where Python has an allocator of its own.
def replaced(i):
    def once():
        return take(780)
    code, function, at = once.__code__, type(take), {"take": take}
    for k in range(4):
        function(code.replace(co_filename=f"<copy {k}>"), at)()
        function(code.replace(co_firstlineno=100 + k), at)()
        function(code.replace(co_name=f"n{k}", **({"co_qualname": f"A.n{k}"} if hasattr(code, "co_qualname") else {})), at)()

# Files in directories that differ in the middle of their names, read from .pyc: names and tables without a hash.
def module(i, box):
    at = os.path.join(box, f"d{i % 5}", "a")
    os.makedirs(at, exist_ok=True)
    name = os.path.join(at, "module.py")
    if not os.path.exists(name):
        with open(name, "w") as f:
            f.write("class K:\n" + "".join(f" def m{k}(self, t):\n  a = t(790)\n  return [t(800) for _ in range(2)]\n" for k in range(4)))
    spec = importlib.util.spec_from_file_location("module", name)
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    for k in range(4):
        getattr(m.K(), f"m{k}")(take)

def another_interpreter():
    source = f"def f(k):\n x = bytearray(900)\n return f(k - 1) if k else bytearray(910)\nfor i in range({n}):\n f(i % 5)\n exec('bytearray(920)\\n' * (1 + i % 2))\n"
    try:
        import _interpreters as it
        run = it.exec
    except ImportError:
        import _xxsubinterpreters as it
        run = it.run_string
    one = it.create()
    run(one, source)
    it.destroy(one)

def work(n, box):
    for i in range(n):
        deep(i % 30)
        for _ in generate(i % 4): pass
        Thing(i % 3).value
        try: raises(i % 6)
        except ValueError: pass
        made(i)
        replaced(i)
        sorted(range(5), key=lambda k: deep(k % 3) and k)
        if i % 10 == 0:
            module(i // 10, box)

with tempfile.TemporaryDirectory() as box:
    for _ in range(2):
        work(n, box)
        asyncio.run(tasks())
        another_interpreter()
        gc.collect()
    threads = [threading.Thread(target=work, args=(n // 3, os.path.join(box, str(k)))) for k in range(3)]
    threads += [threading.Thread(target=another_interpreter)]
    for t in threads: t.start()
    for t in threads: t.join()
print("done")
'''


def checked():
    lib = hw.BUILD / "tests/unit/client/libchecked_client.so"
    if not lib.exists():
        raise hw.Skip("no checked client: a build with sanitizers, or of another architecture")
    return str(lib)


def recorded(box, argv, *options, interval="1", env=None, timeout=200):
    """-> known stacks and walks of all processes of a command"""
    p = box.run([hw.tool("heapwise"), "record", "-q", "-f", "-i", interval, "--no-report", "--follow-fork", "--preload-library", checked(), *options,
                 "-o", box.path("checked.trace"), "--", *argv], env=env, timeout=timeout)
    hw.true(b"DIFFERS" not in p.stderr, f"{argv[0]}: {hw.tail(p.stderr)}")
    said = re.findall(rb"checked: (\d+) known stacks, (\d+) walks", p.stderr)
    return p, sum(int(k) for k, _ in said), sum(int(w) for _, w in said)


def targets(box):
    all_known = 0
    for name, *args in TARGETS:
        _, known, walked = recorded(box, [hw.target(name), *args])
        all_known += known
        print(f"  {name}: {known} known, {walked} walked")
    hw.true(all_known > 100000, f"{all_known} known stacks in all targets")


def changes(box):
    hw.need("g++", "gcc")
    pathlib.Path(box.path("a.cc")).write_text(CHANGES)
    pathlib.Path(box.path("plug.c")).write_text(PLUG)
    for room in ("24", "200"):
        box.run(["gcc", "-O2", "-fPIC", "-shared", "-fomit-frame-pointer", f"-DROOM={room}", "-o", box.path(f"p{room}.so"), box.path("plug.c")], check=0)
    for frames in ("-fomit-frame-pointer", "-fno-omit-frame-pointer"):
        box.run(["g++", "-O2", frames, "-pthread", "-o", box.path("a.out"), box.path("a.cc"), "-ldl"], check=0, timeout=120)
        p, known, walked = recorded(box, [box.path("a.out"), box.path("p24.so"), box.path("p200.so")])
        hw.equal((p.returncode, p.stdout), (0, b"done\n"), f"the program: {hw.tail(p.stderr)}")
        hw.true(known > 500, f"{known} known stacks, {walked} walks")
        print(f"  {frames}: {known} known, {walked} walked")


def programs(box):
    n = 20000 if LONG else 2000
    rows = f"create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<{n}) insert into t select x,'r'||x from c; select count(distinct b) from t;"
    python = f"import json; s=json.dumps([{{'a':i,'b':[str(i)]}} for i in range({n})]); json.loads(s)"
    ran = 0
    for argv in (["sqlite3", ":memory:", rows], ["/usr/bin/python3", "-c", python],
                 ["perl", "-e", "my %h; for my $i (1.." + str(n) + ") { $h{'k'.($i*7919%1003)} .= \"v$i,\"; } print scalar(map { join '-', split /,/, $_ } values %h);"],
                 ["ruby", "-e", f"h={{}}; {n}.times{{|i| (h[\"k#{{i%97}}\"]||=[]) << i.to_s*3}}; puts h.size"],
                 ["git", "--version"], ["node", "-e", f"let a=[]; for(let i=0;i<{n};i++) a.push(Buffer.alloc(9000+i));"]):
        if not shutil.which(argv[0]):
            continue
        p, known, walked = recorded(box, argv, env={"PYTHONMALLOC": "malloc"})
        hw.equal(p.returncode, 0, f"{argv[0]}: {hw.tail(p.stderr)}")
        print(f"  {argv[0]}: {known} known, {walked} walked")
        ran += 1
    hw.true(ran, "no program at all")


def python(box):
    """Python's functions: each frame of every stack, read once more without anything that is remembered (checked_python.c)."""
    pathlib.Path(box.path("changes.py")).write_text(PYTHON)
    found = [p for p in os.environ.get("HW_PYTHONS", "").split(":") if p] + ["/usr/bin/python3"]
    ran = 0
    for interpreter in found:
        # "malloc": each object is a block that is seen. Otherwise small ones, and most code objects, are not: not as blocks of malloc's, and of one heap not at all.
        for allocator, interval in (("malloc", "1"), ("pymalloc", "1"), ("pymalloc", "1000")):
            p, _, _ = recorded(box, [interpreter, box.path("changes.py"), "150" if LONG else "5"], *(["--heap", "libc.malloc"] if interval == "1" else []), interval=interval, env={"PYTHONMALLOC": allocator})
            hw.equal((p.returncode, p.stdout), (0, b"done\n"), f"the program: {hw.tail(p.stderr)}")
            said = re.search(rb"checked: (\d+) stacks of (\d+) Python frames, (\d+) not compared", p.stderr)
            if not said:
                break  # of a version whose frames are not read
            stacks, frames, skipped = map(int, said.groups())
            hw.true(stacks > 1000 and skipped < stacks // 10, f"{stacks} stacks, {frames} frames, {skipped} skipped")
            print(f"  {interpreter}, {allocator}, interval {interval}: {stacks} stacks, {frames} frames, {skipped} not compared")
            ran += 1
    if not ran:
        raise hw.Skip("no Python whose frames are read")


CASES = {"targets": targets, "changes": changes, "programs": programs, "python": python}

if __name__ == "__main__":
    hw.main(CASES)
