#!/usr/bin/env python3
"""Every stack of a recorded program compared with a walk without any cache, in the program itself: its client is
tests/unit/client/checked.c, which ends it where a known stack, or a walk that uses the one before, differs."""
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


def checked():
    lib = hw.BUILD / "tests/unit/client/libchecked_client.so"
    if not lib.exists():
        raise hw.Skip("no checked client: a build with sanitizers, or of another architecture")
    return str(lib)


def recorded(box, argv, env=None, timeout=200):
    """-> known stacks and walks of all processes of a command"""
    p = box.run([hw.tool("heapwise"), "record", "-q", "-f", "-i", "1", "--no-report", "--follow-fork", "--preload-library", checked(),
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


CASES = {"targets": targets, "changes": changes, "programs": programs}

if __name__ == "__main__":
    hw.main(CASES)
