#!/usr/bin/env python3
"""mmap as heaps: figures exact to the byte, against a program that keeps a ledger of its pages."""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from left_out import compiled
from lib import hw

HEAPS = ("mmap.anon", "mmap.file", "mmap.shared")
KIND = {"fn_file": "mmap.file", "fn_file_over": "mmap.file", "fn_shared": "mmap.shared", "fn_memfd": "mmap.shared",
        "fn_shm": "mmap.shared"}


def compare(trace, want, what):
    """Each function's bytes and calls in its own heap and in no other; a remapping has the kind that it had."""
    t = hw.sound(trace)
    sums = {f: [0, 0, 0, 0] for f in want}
    for heap in HEAPS:
        d = t.last(heap=heap)
        if d is None:
            continue
        hw.equal(d.interval, 1, f"{what}: interval of {heap}")
        for f, have in d.by_function(want).items():
            hw.true(have[0] == 0 or f == "fn_remap" or KIND.get(f, "mmap.anon") == heap, f"{what}: {f} is in {heap}")
            sums[f] = [a + b for a, b in zip(sums[f], have)]
    wrong = [f"{f}: have {sums[f]}, want {want[f]}" for f in want if sums[f] != want[f]]
    hw.true(not wrong, f"{what} [mapped, calls, still mapped, calls with a rest]\n  " + "\n  ".join(wrong))
    return t


def waited(box, check, *options, interval=1, trace="out.trace"):
    """check(expectations) of all of it, by a program that lives until the recorder has looked at its shared mappings: what they
    are it finds out by itself, and of one that has ended it cannot."""
    for pause in (0.5, 3, 10):  # nothing tells from outside that it has, and a busy machine takes its time
        want = paused(box, pause, options, interval, trace)
        try:
            return check(want)
        except hw.Failure:
            if pause == 10:
                raise


def paused(box, pause, options, interval, trace):
    trace = box.path(trace)
    p = box.start([hw.tool("heapwise"), "record", "-f", "-c", "200ms", "-i", str(interval), "-o", trace, *options, "--", hw.target("maps"), "wait"],
                  stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "it waits")
    p.stdin.write(b"\n")
    p.stdin.flush()
    lines = []
    while len(lines) < 12:
        line = p.stdout.readline()
        hw.true(line, "it ended too soon")
        lines += [line] if line.startswith(b"EXPECT") else []
    time.sleep(pause)
    out, err = p.communicate(b"\n", timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, hw.tail(err))
    return hw.expectations(b"".join(lines))


def ledger(box):
    """Parts unmapped, pages replaced, ranges moved, failing calls, threads, a fork, shared memory."""
    waited(box, lambda want: check_ledger(box, want))


def check_ledger(box, want):
    hw.true(len(want) == 12 and want["fn_parts"][0] and want["fn_remap"][2], f"expectations: {want}")
    t = compare(box.path("out.trace"), want, "preload")
    remapped = {h: t.last(heap=h).by_function(["fn_remap"])["fn_remap"][2] for h in HEAPS}
    hw.equal(remapped["mmap.shared"], 16 * 4096, "what was shared memory before it was moved")
    malloc = t.last().by_function(want)
    hw.true(not any(v[0] for v in malloc.values()), f"libc.malloc has mappings: {malloc}")


def sampled(box):
    """Whatever the interval of malloc is: each call is recorded."""
    waited(box, lambda want: compare(box.path("out.trace"), want, "interval of 512 KiB"), interval=512 * 1024)


def storm(box):
    """10^6 mappings: all bytes, and how many calls are without stack."""
    r = hw.record(box, [hw.target("maps"), "storm", "1000000"], timeout=4 * hw.CLOCK)
    d = hw.sound(r.trace).last(heap="mmap.anon")
    # main's own calloc is libc's, whose mappings are not seen.
    hw.equal(d.total("alloc"), 1000000 * 4096, "bytes mapped")
    hw.equal(d.total("allocs"), 1000000, "calls")
    hw.equal(d.total("freed"), 1000000 * 4096, "bytes unmapped")
    with_stack = sum(s.allocs for s in d.samples if "main" in s.stack)
    hw.true(50000 <= with_stack <= 1000000, f"calls with a stack: {with_stack}")


def limit(box):
    """Single pages given back until the kernel refuses: what it refused is still mapped, and 65,000 ranges are kept."""
    r = hw.record(box, [hw.target("maps"), "limit"], timeout=4 * hw.CLOCK)
    if b"FAILED none" in r.target_stdout:
        print("  the kernel's limit is too high to be met")
    compare(r.trace, hw.expectations(r.target_stdout), "limit")


def chosen(box):
    """--heap chooses; without their names nothing is recorded of mappings."""
    argv = [hw.target("maps")]
    r = hw.record(box, argv, "--heap", "libc.malloc", trace="m.trace")
    hw.equal({d.heap for d in hw.sound(r.trace).dumps}, {"libc.malloc"}, "heaps of --heap libc.malloc")
    waited(box, lambda want: only_shared(box, want), "--heap", "mmap.shared", trace="s.trace")


def only_shared(box, want):
    t = hw.sound(box.path("s.trace"))
    hw.equal({d.heap for d in t.dumps if d.samples}, {"mmap.shared"}, "heaps of --heap mmap.shared")
    shared = {f: want[f] for f in ("fn_shared", "fn_memfd", "fn_shm")}
    hw.exact(t.last(heap="mmap.shared"), shared, "mmap.shared alone")


def views(box):
    """Their bytes stand beside malloc's, are never added, and --heap shows them."""
    r = hw.record(box, [hw.target("maps")])
    heapwise = hw.tool("heapwise")
    malloc = hw.sound(r.trace).last()
    shown = json.loads(box.run([heapwise, "report", "--json", r.trace], check=0).stdout)
    hw.equal(shown["end"]["alloc_space"], malloc.total("alloc"), "report's total is malloc's")
    text = box.run([heapwise, "report", r.trace], check=0).stdout.decode()
    for heap in HEAPS:
        hw.true(re.search(rf"not in these figures: {heap} +mapped ", text), f"{heap} in the report:\n{text}")
        d = hw.sound(r.trace).last(heap=heap)
        one = json.loads(box.run([heapwise, "report", "--json", "--heap", heap, r.trace], check=0).stdout)
        hw.equal(one["end"]["space"], d.total("alloc") - d.total("freed"), f"report --heap {heap}")
        folded = box.run([heapwise, "convert", "-t", "folded", "--heap", heap, r.trace, "-"], check=0).stdout.decode()
        hw.true("fn_" in folded, f"flamegraph of {heap}: {folded[:300]}")


def python(box):
    """mmap of a real program: Python's module, anonymous and of a file, kept and closed."""
    code = ("import mmap, tempfile\n"
            "f = tempfile.TemporaryFile(dir='/var/tmp'); f.truncate(3 << 20)\n"
            "kept = mmap.mmap(f.fileno(), 3 << 20, mmap.MAP_PRIVATE)\n"
            "anon = mmap.mmap(-1, 5 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
            "shared = mmap.mmap(-1, 7 << 20)\n"
            "gone = mmap.mmap(-1, 11 << 20); gone.close()\n"
            "import os; os._exit(0)\n")
    r = hw.record(box, ["/usr/bin/python3", "-c", code])
    t = hw.sound(r.trace)
    for heap, live in (("mmap.file", 3 << 20), ("mmap.shared", 7 << 20), ("mmap.anon", 5 << 20)):
        stacks = [s for s in t.last(heap=heap).samples if any("new_mmap_object" in f or "<module>" in f for f in s.stack)]
        hw.true(any(s.alloc - s.freed == live for s in stacks),
                f"{heap}: {[(s.alloc - s.freed, s.stack[-3:]) for s in t.last(heap=heap).samples]}")
    hw.true(sum(s.freed for s in t.last(heap="mmap.shared").samples) == 11 << 20, "what was closed")


def allocators(box):
    """What an allocator maps for its blocks is not counted a second time."""
    found = False
    for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"):
        lib = f"/usr/lib/x86_64-linux-gnu/{name}"
        if not os.path.exists(lib):
            continue
        found = True
        r = hw.record(box, [hw.target("truth"), "0.05"], trace=name, env={"LD_PRELOAD": lib})
        t = hw.sound(box.path(name))
        hw.exact(t.last(), hw.expectations(r.target_stdout), name)
        for heap in HEAPS:
            d = t.last(heap=heap)
            own = [s.stack for s in d.samples if s.alloc] if d else []
            hw.true(not own, f"{name}: {heap} has {own[:3]}")
    if not found:
        raise hw.Skip("no other allocator is installed")


def attach(box):
    """Put into a running program: from then on exact."""
    for pause in (0.5, 3, 10):  # as in waited()
        want = attached(box, pause)
        try:
            compare(box.path("a.trace"), want, "attach")
            return
        except hw.Failure:
            if pause == 10:
                raise


def attached(box, pause):
    p = box.start([hw.target("maps"), "wait"], stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "it waits")
    rec = box.start([hw.tool("heapwise"), "attach", str(p.pid), "-i", "1", "-f", "-o", box.path("a.trace")])
    hw.wait_for(lambda: rec.poll() is not None or hw.slots(p.pid), "the program to be hooked")
    p.stdin.write(b"\n")
    p.stdin.flush()
    lines = []
    while len(lines) < 12:
        line = p.stdout.readline()
        hw.true(line, "it ended too soon")
        lines += [line] if line.startswith(b"EXPECT") else []
    time.sleep(pause)
    p.stdin.write(b"\n")
    p.stdin.flush()
    p.wait(hw.CLOCK)
    rec.wait(hw.CLOCK)
    return hw.expectations(b"".join(lines))


def forked(box):
    """A recorded child has what its parent had mapped when it forked, by the parent's calls: what it unmaps and maps over
    goes from there, and what the parent unmaps later is the child's still. The parent's ring has to be read for that within
    25 ms: where a busy machine does not, the child has nothing of its parent's, and another is recorded."""
    for i in range(8):
        r = hw.record(box, [hw.target("maps"), "fork"], "--follow-fork", trace=f"{i}.trace")
        child, parent = (hw.expectations(part) for part in r.target_stdout.split(b"PARENT\n"))
        hw.true(child["fn_parts"][1] and child["fn_single"][2], f"expectations: {child}")
        t = hw.sound(r.trace)
        pids = sorted({d.pid for d in t.dumps})
        hw.equal(len(pids), 2, "processes")
        if all(sums_of(t, pid, child)["fn_parts"][1] for pid in pids):
            break
    for want in parent, child:
        matching = [pid for pid in pids if all(sums_of(t, pid, want)[f] == want[f] for f in want)]
        hw.equal(len(matching), 1, f"processes with {want}; have {[sums_of(t, pid, want) for pid in pids]}")


def sums_of(t, pid, want):
    sums = {f: [0, 0, 0, 0] for f in want}
    for heap in HEAPS:
        d = t.last(pid, heap=heap)
        for f, have in d.by_function(want).items() if d else ():
            sums[f] = [a + b for a, b in zip(sums[f], have)]
    return sums


CHILD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
void *volatile keep;
__attribute__((noinline)) static void in_child(void)
{
    keep = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int main(void)
{
    keep = malloc(5000);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++)
            in_child();
        _exit(0);
    }
    printf("pid %d\n", (int)child);
    return waitpid(child, NULL, 0) != child;
}
"""


def only_maps(box):
    """A forked child that maps memory and never calls malloc is recorded; what it maps before the answer is counted as lost."""
    exe = compiled(box, "only", CHILD)
    r = hw.record(box, [exe], "--follow-fork", "--no-report", "--no-passthrough")
    child = int(r.target_stdout.split()[1])
    d = hw.sound(r.trace).last(child, heap="mmap.anon")
    if d and d.by_function(["in_child"])["in_child"] == [6553600, 100, 6553600, 100]:
        return
    hw.equal(r.returncode, 4, "neither all of it nor a loss: " + hw.tail(r.stderr))  # a machine that did not answer within its life


def sandbox(box):
    """A filter that a program sets without libc, and that kills at what only we would call, is not noticed by the
    time it maps shared memory: no hook calls anything there."""
    if box.run([hw.target("raw")], check=None).returncode == 77:
        raise hw.Skip("no seccomp, or no way around libc here")
    r = hw.record(box, [hw.target("raw")])
    hw.equal((r.returncode, r.target_stdout), (0, b"alive\n"), hw.tail(r.stderr))


CASES = {"ledger": ledger, "forked": forked, "only-maps": only_maps, "sandbox": sandbox, "sampled": sampled, "storm": storm, "limit": limit, "chosen": chosen, "views": views, "python": python,
         "allocators": allocators, "attach": attach}

if __name__ == "__main__":
    hw.main(CASES)
