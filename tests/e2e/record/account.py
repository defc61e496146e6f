#!/usr/bin/env python3
"""All memory of a process has an owner: what `heapwise account` says, beside the kernel's own sums."""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.javac import javac

MIB = 1 << 20
os.environ.pop("MALLOC_PERTURB_", None)  # the runner's: it fills blocks that are not to be touched


def rollup(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return {k: int(v) * 1024 for k, v in re.findall(r"^(\w+):\s+(\d+) kB", f.read(), re.M)}


def account(box, *options, trace="out.trace"):
    r = box.run([hw.tool("heapwise"), "account", "--json", *options, box.path(trace)])
    hw.true(r.returncode in (0, 5), f"account: {hw.tail(r.stderr)}")
    said = json.loads(r.stdout)
    closes(said)
    return said


def closes(said):
    """The parts are the whole, and next to nothing has no owner."""
    parts = {p["name"]: p for p in said["parts"]}
    for what in ("rss_bytes", "pss_bytes", "swap_bytes"):
        total = sum(p[what] for p in said["parts"])
        hw.true(abs(total - said[what]) < 1, f"{what}: parts {total}, all {said[what]}")
    hw.true(said["unexplained_bytes"] <= said["rss_bytes"] / 100, f"unexplained: {parts['unexplained']}")
    hw.true(abs(parts["moved meanwhile"]["rss_bytes"]) <= 0.01 * said["rss_bytes"] + said["requested_error_bytes"],
            f"moved: {parts['moved meanwhile']}")


def rss_of(said, part):
    return next(p["rss_bytes"] for p in said["parts"] if p["name"] == part)


def near(have, want, share, what):
    hw.true(abs(have - want) <= share * want, f"{what}: {have / MIB:.2f} MiB, expected {want / MIB:.2f}")


def child_of(pid, name):
    for c in open(f"/proc/{pid}/task/{pid}/children").read().split():
        if name in open(f"/proc/{c}/comm").read():
            return int(c)
    return None


ARENAS = "malloc_arena"


def counter_of(name):
    return f"(select c.ts from counter c join process_counter_track t on c.track_id = t.id where t.name = '{name}')"


def newest_reading(box, trace, rows="profiler_smaps"):
    r = box.run([hw.tool("heapwise"), "query", trace, f"select ifnull(max(ts), 0) from {rows}"], check=None)
    return int(r.stdout.split()[-1]) if r.stdout.split() else 0


def idle_target(box, *options, argv=("kinds",), trace="out.trace", env=None, rows="profiler_smaps"):
    """A target under record, with two dumps behind its last change. -> what it says it has, the kernel's sums"""
    for pause in (3, 8, 20):  # readings of a busy machine rest as long as they took
        kinds, sums, ready = paused_target(box, pause, options, argv, trace, env)
        if newest_reading(box, box.path(trace), rows) > ready:
            return kinds, sums
    raise hw.Failure("nothing was read of what it had at the end")


def paused_target(box, pause, options, argv, trace, env=None):
    p = box.start([hw.tool("heapwise"), "record", "-c", "400ms", "-f", "-o", box.path(trace), *options, "--",
                   hw.target(argv[0]), *argv[1:]], env=env, stdin=subprocess.PIPE)
    kinds = {}
    while (line := p.stdout.readline().decode().split()) != ["ready"]:
        hw.true(line and line[0] in ("KIND", "PIN"), f"{argv[0]} said {line}")
        kinds[line[1]] = int(line[2])
    ready = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    pid = hw.wait_for(lambda: child_of(p.pid, argv[0]), "the target")
    time.sleep(pause)  # readings rest by the clock, and one has to be later than `ready`
    sums = rollup(pid)
    out, err = p.communicate(b"", timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, f"record: {hw.tail(err)}")
    return kinds, sums, ready


def kinds(box):
    """Each kind of memory is found in its part, within 3 % or 300 KiB."""
    have, sums = idle_target(box)
    hw.sound(box.path("out.trace"))
    said = account(box, "--at", "last")
    near(said["rss_bytes"], sums["Rss"], 0.01, "RSS")
    near(said["pss_bytes"], sums["Pss"], 0.02, "PSS")
    slack = 300 * 1024
    for part, want in (("live", have["live"] + have["large"] + have["arenas"]), ("anonymous mappings", have["anonymous"]),
                       ("shared memory", have["shared"]), ("mapped files", have["file"]), ("stacks", have["stacks"])):
        got = rss_of(said, part)
        error = said["requested_error_bytes"] if part == "live" else 0
        hw.true(abs(got - want) <= max(0.03 * want, slack) + error, f"{part}: {got / MIB:.2f} MiB, expected {want / MIB:.2f}")
    hw.true(rss_of(said, "program and libraries") >= have["bss"], "variables belong to the program")
    near(rss_of(said, "free inside the allocator"), have["free"], 0.1, "free")
    near(said["untouched_bytes"], 15 * MIB, 0.05, "never written to")
    hw.true(said["page_tables_bytes"] > 0, "page tables")
    most = said["mapped_by"][0]
    hw.true(most["mapped_bytes"] >= 20 * MIB and most["function"] == "mappings", f"who mapped: {said['mapped_by']}")


def mapped_by(said):
    return {m["function"]: m for m in said["mapped_by"]}


def measured_alive(box, want):
    """The account of the last dump that was made with all of it there, and with the process's own page map."""
    best = None
    for n in range(1, 100):
        r = box.run([hw.tool("heapwise"), "account", "--json", "--at", str(n), box.path("out.trace")], check=None)
        if r.returncode:
            return best
        said = json.loads(r.stdout)
        if said.get("mapped_resident_bytes", 0) >= 0.99 * want and said["mapped_estimated_bytes"] == 0:
            best = said
    return best


def touched(box):
    """-> what mincore says of each call's mappings; the account while it lived, and at its end"""
    for pause in (3, 8, 20):  # readings of a busy machine rest as long as they took
        have, _, _ = paused_target(box, pause, (), ("touched",), "out.trace")
        lives = measured_alive(box, sum(have.values()))
        if lives:
            return have, lives, account(box, "--at", "last")
    raise hw.Failure("nothing was measured of what it had while it lived")


MAPS_LATER = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) char *map_it(size_t n) { char *p = mmap(0, n, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memset(p, 1, n); return p; }
int main(void) {
    char *a = map_it(20 << 20), *m = malloc(4 << 20);
    memset(m, 1, 4 << 20);
    usleep(100000);
    free(m);
    char *b = map_it(30 << 20);
    usleep(900000);
    munmap(b, 25 << 20);
    usleep(300000);
    return a[5] - 1; }
"""


def mapped_later(box):
    """Figures of different moments are not compared: what a seen call mapped is never told as of no call, nor as more than it is."""
    hw.need("gcc")
    (box.dir / "later.c").write_text(MAPS_LATER)
    box.run(["gcc", "-O1", "-w", "-o", box.path("later"), box.path("later.c")], check=0)
    for more in (), ("-c", "200ms"):
        box.run([hw.tool("heapwise"), "record", "-q", "-f", "--no-report", *more, "-o", box.path("out.trace"), "--", box.path("later")], check=0)
        for at in (), ("--at", "1"), ("--at", "2"), ("--at", "3"), ("--at", "last"):
            r = box.run([hw.tool("heapwise"), "account", "--json", *at, box.path("out.trace")])
            if r.returncode:
                continue  # so many dumps there are not
            said = json.loads(r.stdout)
            hw.equal(said["mapped_unseen_bytes"], 0, f"{more} {at}: {said}")
            for m in said["mapped_by"]:
                hw.true(m.get("resident_bytes", 0) <= m["mapped_bytes"], f"{more} {at}: {m}")


def resident(box):
    """What of each call's mappings is in memory, as mincore in the program itself says: also where the kernel joined
    two calls' mappings, where a part was given back, and of what was only reserved."""
    have, lives, ended = touched(box)
    hw.sound(box.path("out.trace"))
    for said in lives, ended:
        by = {m["function"]: m for m in said["mapped_by"]}
        for call, want in have.items():
            got = by[call]["resident_bytes"]
            hw.true(abs(got - want) <= 64 * 1024, f"{call}: {got / MIB:.2f} MiB, mincore says {want / MIB:.2f}")
        hw.true(by["reserved"]["mapped_bytes"] > 3900 * MIB, f"address space: {by['reserved']}")
        hw.equal(said["mapped_left_bytes"], 0, "all of it was looked at")
        order = [m["resident_bytes"] for m in said["mapped_by"]]
        hw.equal(order, sorted(order, reverse=True), "the most resident first")
        near(said["mapped_resident_bytes"], sum(have.values()), 0.01, "all calls")
        near(said["mapped_unseen_bytes"], 6 * MIB, 0.05, "what a system call of its own has mapped")
        hw.true(said["mapped_resident_bytes"] <= rss_of(said, "anonymous mappings") + 64 * 1024, "a part of the anonymous mappings")
    hw.equal(lives["mapped_estimated_bytes"], 0, "all of it is known while it lives")
    hw.true("mapped_estimated_why" not in ended, "nothing was forbidden")
    out = box.run([hw.tool("heapwise"), "account", "--at", "last", box.path("out.trace")], check=0).stdout.decode()
    hw.true(re.search(r"12\.0 MiB of 16\.0 MiB mapped by densely", out), out)
    hw.true(re.search(r"\d MiB by no call that was seen: system calls of the program's own", out), out)
    r = box.run([hw.tool("heapwise"), "query", box.path("out.trace"), "select sum(size) from heap_profile_allocation "
                 "where heap_name = 'mmap.anon.resident'"], check=0)
    hw.equal(int(r.stdout.decode().splitlines()[1]), round(ended["mapped_resident_bytes"]), "SQL has the same")


def flagged(pid):
    """Resident bytes of nameless mappings with the flags that the profiler's have, by the kernel."""
    total = 0
    with open(f"/proc/{pid}/smaps") as f:
        for m in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", f.read(), flags=re.M)[1:]:
            if len(m.split("\n", 1)[0].split()) == 5 and re.search(r"^VmFlags:.* nr .*\bnh\b", m, re.M):
                total += int(re.search(r"^Rss: +(\d+)", m, re.M)[1]) * 1024
    return total


def ours(box):
    """The profiler's memory is what it has mapped, and nothing that looks like it."""
    for pause in (3, 8, 20):
        p = box.start([hw.tool("heapwise"), "record", "-c", "400ms", "-f", "-i", "1", "-o", box.path("out.trace"), "--", hw.target("kinds")],
                      stdin=subprocess.PIPE)
        while p.stdout.readline().strip() != b"ready":
            pass
        ready = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        pid = hw.wait_for(lambda: child_of(p.pid, "kinds"), "the target")
        time.sleep(pause)  # the same; a longer one follows if none was
        alike = flagged(pid)
        p.communicate(b"", timeout=hw.CLOCK)
        if newest_reading(box, box.path("out.trace")) > ready:
            break
    else:
        raise hw.Failure("nothing was read of what it had at the end")
    said = account(box, "--at", "last")
    entries = {e["name"]: e for part in said["parts"] if part["name"] == "profiler" for e in part["entries"]}
    hw.true({"[heapwise]", "[heapwise:shared]", "[heapwise:library]"} >= entries.keys() >= {"[heapwise]", "[heapwise:shared]"}, f"{entries.keys()}")
    near(rss_of(said, "shared memory"), 8 * MIB, 0.01, "the program's own file with the ring's name")
    hw.true("profiler_unlisted_bytes" not in said, "all of it was listed")
    got = entries["[heapwise]"]["rss_bytes"]
    hw.true(100 * 1024 < got < 6 * MIB, f"the profiler's own: {got / MIB:.2f} MiB")
    if alike > 6 * MIB + 100 * 1024:  # kernels before 6.7 do not show the flag
        hw.true(abs(got - (alike - 6 * MIB)) <= 100 * 1024, f"the profiler's: {got}, all with its flags: {alike}")


def group(box):
    """The group's figures are its processes' and a rest; parent and child are both there, and nothing counts twice."""
    p = box.start([hw.tool("heapwise"), "record", "-c", "300ms", "-i", "4096", "--follow-fork", "-f", "-o", box.path("out.trace"), "--",
                   "/usr/bin/python3", "-c", "import os, time; a = [bytearray(8 << 20)]; pid = os.fork(); a.append(bytearray((pid == 0) * (12 << 20) + 1))\n"
                   "b = [bytes(100) for _ in range(1000)]; time.sleep(3); os._exit(0)"])
    p.communicate(timeout=hw.CLOCK)
    # Not when the group has the most: that may be before the fork, where others beside it have much just then.
    r = box.run([hw.tool("heapwise"), "account", "--group", "--at", "2s", "--json", box.path("out.trace")], check=None)
    if r.returncode == 5 and b"no figures of a memory group" in r.stderr:
        raise hw.Skip("no memory group can be read here")
    hw.equal(r.returncode, 0, hw.tail(r.stderr))
    said = json.loads(r.stdout)
    hw.equal(len(said["processes"]), 2, f"processes: {said}")
    for kind, all_of_it in said["group"].items():
        hw.true(abs(all_of_it - said["rest"][kind] - sum(x.get(kind, 0) for x in said["processes"])) < 1, f"{kind}: {said}")
    anon = sorted(x["anon"] for x in said["processes"])
    near(anon[1] - anon[0], 12 * MIB, 0.15, "what the child alone has")
    hw.true(anon[0] < 8 * MIB + 12 * MIB, f"what they share is divided: {anon}")
    hw.true(said["rest"]["anon"] > -2 * MIB, f"more than the group has: {said}")
    total = sum(x["pss_bytes"] for x in said["processes"])
    near(sum(x["pss_bytes"] for x in said["parts"]), total, 0.01, "parts")
    text = box.run([hw.tool("heapwise"), "account", "--group", box.path("out.trace")], check=0).stdout.decode()
    hw.true("memory group, read" in text and "the rest: processes" in text, text)


def group_files(box):
    """A private mapping of a file, written to in part by two processes: what is anonymous of it is what the kernel says."""
    open(box.path("file"), "wb").write(b"x" * (48 << 20))
    code = ("import mmap, os, sys, time\n"
            "m = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE); sum(m[::4096])\n"
            "os.fork()\nsum(m[::4096])\nfor i in range(0, 16 << 20, 4096): m[i] = 1\n"
            "time.sleep(2.5); f = [l.split()[1] for l in open('/proc/self/smaps_rollup') if l.startswith(('Pss_Anon:', 'Pss_File:'))]\n"
            "os.write(1, f'ROLLUP {os.getpid()} {f[0]} {f[1]}\\n'.encode())\n"
            "time.sleep(.5); os._exit(0)")
    p = box.start([hw.tool("heapwise"), "record", "-c", "300ms", "-i", "4096", "--follow-fork", "-f", "-o", box.path("out.trace"), "--", "/usr/bin/python3", "-c", code, box.path("file")])
    out, _ = p.communicate(timeout=hw.CLOCK)
    kernel = {int(l.split()[1]): [int(k) * 1024 for k in l.split()[2:]] for l in out.decode().splitlines() if l.startswith("ROLLUP")}
    r = box.run([hw.tool("heapwise"), "account", "--group", "--json", box.path("out.trace")], check=None)
    if r.returncode == 5 and b"no figures of a memory group" in r.stderr:
        raise hw.Skip("no memory group can be read here")
    hw.equal(len(kernel), 2, out)
    for x in json.loads(r.stdout)["processes"]:
        anon, file = kernel[x["pid"]]
        hw.true(abs(x["anon"] - anon) < 2 * MIB and abs(x["file"] - file) < 2 * MIB, f"{x}; the kernel: anonymous {anon}, of files {file}")


N_MANY = 60000  # the kernel's limit is 65530


def many_mappings(box):
    """More mappings than are read: what was not looked at is told, and no call has less in memory without that."""
    (box.dir / "many.c").write_text(f"enum {{ N = {N_MANY}, PAGE = 4096 }};" + """
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noipa)) char *reserve(void) { return mmap(0, N * PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }
int main(void) {
    char *b = reserve();
    for (long i = 0; i < N; i++) b[i * PAGE] = 1;
    for (long i = 0; i < N; i += 2) if (mprotect(b + i * PAGE, PAGE, PROT_READ)) return 3;
    puts("ready");
    fflush(stdout);
    return getchar() == 'x';
}""")
    box.run(["cc", "-O1", "-g", "-o", box.path("many"), box.path("many.c")], check=0)
    p = box.start([hw.tool("heapwise"), "record", "-d", "3s", "-f", "-o", box.path("out.trace"), "--", box.path("many")], stdin=subprocess.PIPE)
    if p.stdout.readline() != b"ready\n":
        raise hw.Skip("the kernel does not allow so many mappings")
    # At a recording's end the mappings of a program that lives on are read in any case.
    hw.wait_for(lambda: os.path.exists(box.path("out.trace")), "the recording's end")
    p.communicate(b"", timeout=hw.CLOCK)
    hw.sound(box.path("out.trace"))
    said = json.loads(box.run([hw.tool("heapwise"), "account", "--json", "--at", "last", box.path("out.trace")], check=None).stdout)
    resident, left = said.get("mapped_resident_bytes", 0), said["mapped_left_bytes"]
    print(f"  {resident} of {N_MANY * 4096} in memory, {left} not looked at")
    hw.true(left > 0, f"all was read, which this test is not about: {said['mapped_by']}")
    hw.true(resident + left >= 0.99 * N_MANY * 4096, f"{resident} and {left} of {N_MANY * 4096}")
    text = box.run([hw.tool("heapwise"), "account", "--at", "last", box.path("out.trace")], check=None).stdout.decode()
    hw.true("was not looked at: too many mappings" in text, text)


def java(box):
    """What the JVM says of its heap, beside what the program asks it itself."""
    hw.need("java")
    hw.need("javac")
    with open(box.path("H.java"), "w") as f:
        f.write("public class H { static byte[][] keep = new byte[24][]; public static void main(String[] a) throws Exception {"
                "for (int i = 0; i < 24; i++) keep[i] = new byte[1 << 20]; System.gc(); var m = java.lang.management.ManagementFactory.getMemoryMXBean();"
                "long used = 0, all = 0; for (var p : java.lang.management.ManagementFactory.getMemoryPoolMXBeans()) if (p.getName().startsWith(\"Code\")) {"
                "used += p.getUsage().getUsed(); all += p.getUsage().getCommitted(); }"
                "System.out.println(m.getHeapMemoryUsage().getUsed() + \" \" + m.getHeapMemoryUsage().getCommitted() + \" \" + used + \" \" + all); Thread.sleep(3000); } }")
    javac(box, box.path("H.java"))
    p = box.start([hw.tool("heapwise"), "record", "-q", "--no-report", "-c", "500ms", "-f", "-o", box.path("out.trace"), "--", "java", "-Xmx128m", "-XX:+UseSerialGC",
                   "-cp", str(box.path(".")), "H"])
    out, err = p.communicate(timeout=4 * hw.CLOCK)
    hw.equal(p.returncode, 0, hw.tail(err))
    used, committed, code_used, code_committed = (int(x) for x in out.split()[:4])
    said = account(box, "--at", "last")
    code = {m["name"]: m for m in said["managed"]}["code cache"]
    near(code["used_bytes"], code_used, 0.2, "code")  # it goes on compiling
    near(code["committed_bytes"], code_committed, 0.2, "code cache")
    heap = {m["name"]: m for m in said["managed"]}["Java heap"]
    near(heap["used_bytes"], used, 0.1, "used")
    near(heap["committed_bytes"], committed, 0.1, "committed")
    hw.true(heap["max_bytes"] <= 128 * MIB, f"at most: {heap}")
    hw.true("jcmd" in said["managed_unknown"], f"what it does not say: {said['managed_unknown']}")


NODE = r"""
const v8 = require('v8'), fs = require('fs'), keep = [];
for (let i = 0; i < 100000; i++) keep.push({ a: i, s: 'x' + i });
keep.push(new Array(300000).fill(1.5));
const outside = Buffer.alloc(20 << 20, 1);
gc();
const all = {};
for (const s of v8.getHeapSpaceStatistics()) all[s.space_name] = [s.space_size, s.space_used_size];
fs.writeSync(1, JSON.stringify([process.versions.v8, all]) + '\n');
fs.readSync(0, Buffer.alloc(1));
"""


def v8_spaces(box):
    """V8's spaces, beside what the program asks V8 itself; a buffer outside of the heap is in none."""
    hw.need("node")
    p = box.start(["node", "--expose-gc", "--single-threaded-gc", "-e", NODE], stdin=subprocess.PIPE)
    version, spaces = json.loads(p.stdout.readline())
    r = box.run([hw.tool("heapwise"), "attach", "-q", "--no-report", "-d", "300ms", "-f", "-o", box.path("out.trace"), str(p.pid)], check=None)
    hw.true(r.returncode in (0, 5), f"attach: {hw.tail(r.stderr)}")  # 5: it allocates nothing
    p.communicate(b"x", timeout=hw.CLOCK)
    said = account(box, "--at", "last")
    if not version.startswith(("10.2.", "11.3.", "12.4.")):
        hw.true("known of" in said["managed_unknown"], said)
        return
    managed = {m["name"]: m for m in said["managed"]}
    for name, ours, slack in (("new_space", "V8's space of new objects", 128), ("old_space", "V8's space of old objects", 320),
                              ("large_object_space", "V8's large objects", 0), ("code_space", "V8's code space", 320)):
        size, used = spaces[name]
        hw.equal(int(managed[ours]["committed_bytes"]), size, f"{name}: {managed[ours]}")
        hw.true(-65536 <= managed[ours]["used_bytes"] - used <= slack * 1024, f"{name}: {used}, and {managed[ours]}")
        hw.true(managed[ours]["resident_bytes"] <= size, f"{name}: {managed[ours]}")
    hw.true(sum(m["resident_bytes"] for m in managed.values()) < rss_of(said, "managed heaps") + MIB, f"more than there is: {said}")


PYTHON = r"""
import os, sys
a = [(i, str(i), [i]) for i in range(60000)]
b = [bytes(i % 400) for i in range(60000)]
del a[::3]; del b[1000:50000]
sys._debugmallocstats()
os.write(1, b"ready\n")
os.read(0, 1)
os._exit(0)
"""


GO = r"""
package main
import ("fmt"; "os"; "runtime")
import "C"
var keep [][]byte
func main() {
	for i := 0; i < 400; i++ { keep = append(keep, make([]byte, 100000)) }
	for i := range keep { if i%3 != 0 { keep[i] = nil } }
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println(m.HeapInuse, m.HeapAlloc, m.StackInuse, m.MSpanSys+m.MCacheSys+m.BuckHashSys+m.GCSys+m.OtherSys)
	os.Stdin.Read(make([]byte, 1))
}
"""


def go(box):
    """Go's heap, its stacks and tables, as runtime.MemStats has them."""
    hw.need("go", "cc")
    with open(box.path("m.go"), "w") as f:
        f.write(GO)
    env = {"GO111MODULE": "off", "GOFLAGS": "", "GOCACHE": box.path("cache"), "CGO_ENABLED": "1"}
    r = box.run(["go", "build", "-o", box.path("m"), box.path("m.go")], check=None, env=env, timeout=4 * hw.CLOCK)
    if r.returncode:
        raise hw.Skip(f"go cannot build: {hw.tail(r.stderr)}")
    for pause in (3, 8, 20):
        p = box.start([hw.tool("heapwise"), "record", "-q", "--no-report", "-c", "400ms", "-f", "-o", box.path("out.trace"), "--", box.path("m")],
                      stdin=subprocess.PIPE)
        in_use, objects, stacks, tables = (int(x) for x in p.stdout.readline().split())
        ready = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        time.sleep(pause)  # readings rest by the clock, and one has to be later than `ready`
        p.communicate(b"", timeout=hw.CLOCK)
        if newest_reading(box, box.path("out.trace"), counter_of("go.heap.in_use")) > ready:
            break
    else:
        raise hw.Failure("nothing was read of what it had at the end")
    said = {m["name"]: m for m in account(box, "--at", "last")["managed"]}
    print(f"  {said}; it says {in_use} {objects} {stacks} {tables}")
    for have, want in ((said["Go's heap"]["used_bytes"], in_use), (said["Go's heap"]["objects_bytes"], objects),
                       (said["Go's stacks"]["used_bytes"], stacks), (said["Go's own tables"]["used_bytes"], tables)):
        hw.true(abs(have - want) <= 128 * 1024, f"{have}, it says {want}")  # to print it takes some objects


def python_told(text):
    def figure(what):
        return int(re.search(what + r".*= *([\d,]+)$", text, re.M).group(1).replace(",", ""))
    return {"used_bytes": figure("# bytes in allocated blocks"), "free_blocks_bytes": figure("# bytes in available blocks"),
            "free_pools_bytes": figure("unused pools"), "committed_bytes": figure("# arenas allocated current") << 20}


def python(box):
    """Python's own arenas: what is in use, free in its pools and free as pools, as the interpreter has it."""
    with open(box.path("app.py"), "w") as f:
        f.write(PYTHON)
    for pause in (3, 8, 20):
        # Not python.alloc: its functions in CPython's table would keep _debugmallocstats from telling anything.
        p = box.start([hw.tool("heapwise"), "record", "-q", "--no-report", "-c", "400ms", "-f", "--heap", "libc.malloc,mmap.anon", "-o",
                       box.path("out.trace"), "--", sys.executable, "-S", "-E", box.path("app.py")], stdin=subprocess.PIPE)
        hw.equal(p.stdout.readline(), b"ready\n", "the program")
        ready = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        time.sleep(pause)  # readings rest by the clock, and one has to be later than `ready`
        _, err = p.communicate(b"", timeout=hw.CLOCK)
        hw.equal(p.returncode, 0, hw.tail(err))
        if newest_reading(box, box.path("out.trace"), counter_of("python.heap.used")) > ready:
            break
    else:
        raise hw.Failure("nothing was read of what it had at the end")
    hw.sound(box.path("out.trace"))
    said = account(box, "--at", "last")
    if sys.version_info[:2] < (3, 10) or sys.version_info[:2] > (3, 13):
        hw.true("were not found" in said["managed_unknown"], f"{said}")
        raise hw.Skip(f"its arenas are not known: Python {sys.version}")
    heap = {m["name"]: m for m in said["managed"]}["Python's objects"]
    want = python_told(err.decode())
    print(f"  {heap}; it says {want}")
    for key, n in want.items():  # the call that waits has a few objects of its own
        hw.true(abs(heap[key] - n) <= (2048 if "blocks" in key or key == "used_bytes" else 0), f"{key}: {heap[key]}, it says {n}")
    text = box.run([hw.tool("heapwise"), "account", "--at", "last", box.path("out.trace")], check=0).stdout.decode()
    hw.true("Python's objects: " in text and " in free pools" in text and "managed_unknown" not in said, text)


def text(box):
    """The first line is the sum; its terms are the table's."""
    idle_target(box)
    out = box.run([hw.tool("heapwise"), "account", "--at", "last", box.path("out.trace")], check=0).stdout.decode()
    line = re.search(r"^RSS ([\d.]+) MiB = (.*?) \(unexplained ([\d.]+)\)", out, re.M | re.S)
    hw.true(line, out)
    terms = sum(float(s + v) for s, v in re.findall(r"(^|[-+])?[ \n]*[a-z][a-z ]*? ([\d.]+)", line.group(2))
                for s in [s if s == "-" else ""])
    hw.true(abs(terms + float(line.group(3)) - float(line.group(1))) < 0.6, f"{terms} of {line.group(0)}")
    for words in ("live: ", "stacks: ", "[stack:t_kinds]", "page tables"):
        hw.true(words in out, f"{words} in {out}")


def quick(box):
    """A program that ends by itself, and frees all before: what it had at its largest was kept.

    It stays as large for ten times what readings rest on an idle machine: they rest a hundred times the processor time
    that they took."""
    hw.need("python3")
    code = "import time; a = [bytes(1000) for _ in range(20000)]; b = bytearray(10 << 20); time.sleep(4); del a, b; time.sleep(0.3)"
    hw.record(box, [sys.executable, "-c", code], interval=4096)
    said = account(box, "--at", "peak")
    near(said["requested_bytes"], 20000 * 1033 + (10 << 20), 0.15, "live")
    hw.true(rss_of(said, "live") > 0.9 * said["requested_bytes"], f"it is resident: {said['parts']}")
    # Of these blocks, not as of the few that are left at the end: 23 bytes each, and what Python itself has.
    hw.true(20000 * 20 < rss_of(said, "rounding") < 20000 * 40, f"rounding: {said['parts']}")


def other_moment(box):
    """The report's line of all memory is there, whenever the nearest reading was; it names a time that is not the report's own."""
    hw.need("python3")
    code = "import time; t = time.monotonic(); a = []\nwhile time.monotonic() < t + 0.5: a.append(bytes(3000)); time.sleep(0.0001)"
    for i in range(4):
        hw.record(box, [sys.executable, "-c", code], interval=4096)
        said = json.loads(box.run([hw.tool("heapwise"), "report", "--json", box.path("out.trace")], check=0).stdout)
        text = box.run([hw.tool("heapwise"), "report", box.path("out.trace")], check=0).stdout.decode()
        line = re.search(r"^RSS [\d.]+ MiB( at [\d.]+ m?s)? = live", text, re.M)
        hw.true("account" in said and line, f"run {i}: {text}")
        if said["end"]["space"] > 1.05 * account(box, "--at", "last")["requested_bytes"]:
            hw.true(line.group(1), f"run {i}: it does not say that it was read earlier: {text}")


def gaps(box):
    """What alignment leaves around large blocks is no live memory that was never written to, nor is live then free."""
    hw.need("python3")
    code = """import ctypes, time
c, small, p = ctypes.CDLL(None), [bytes(1000) for _ in range(40000)], ctypes.c_void_p()
for _ in range(10):
    assert c.posix_memalign(ctypes.byref(p), ctypes.c_size_t(2 << 20), ctypes.c_size_t(4 << 20)) == 0
    ctypes.memset(p, 1, 4 << 20)
time.sleep(3)"""
    hw.record(box, [sys.executable, "-c", code], interval=4096)
    said = account(box, "--at", "peak")
    near(said["requested_bytes"], 40000 * 1033 + (40 << 20), 0.1, "live")
    hw.true(said["untouched_bytes"] < MIB, f"never written to: {said['untouched_bytes']}")
    near(rss_of(said, "live"), said["requested_bytes"], 0.02, "resident")


def attached(box):
    """What was allocated before is a row of its own, and our library none of the program's memory."""
    p = box.start([hw.target("kinds")], stdin=subprocess.PIPE)
    while p.stdout.readline().strip() != b"ready":
        pass
    a = box.start([hw.tool("heapwise"), "attach", str(p.pid), "-i", "1", "-d", "2s", "-o", box.path("out.trace")])
    for _ in range(15):  # it allocates all the time while it is recorded
        time.sleep(0.1)
        p.stdin.write(b"x" * 20)
        p.stdin.flush()
    out, err = a.communicate(timeout=hw.CLOCK)
    hw.equal(a.returncode, 0, f"attach: {hw.tail(err)}")
    sums = rollup(p.pid)
    r = box.run([hw.tool("heapwise"), "account", "--json", box.path("out.trace")])
    p.communicate(b"", timeout=hw.CLOCK)
    hw.equal(r.returncode, 0, f"account: {hw.tail(r.stderr)}")
    said = json.loads(r.stdout)
    closes(said)
    hw.true(said["older_or_free"], "nothing tells what is older")
    near(said["rss_bytes"], sums["Rss"], 0.02, "RSS")
    near(rss_of(said, "shared memory"), 8 * MIB, 0.01, "shared")
    hw.true(rss_of(said, "older than the recording") > 30 * MIB, "what it had before")


def asked_before(box):
    """The allocator was asked before a burst: what is older than the recording is what was there before all the same."""
    p = box.start([hw.target("steps")], stdin=subprocess.PIPE)

    def step(line):
        p.stdin.write(line.encode() + b"\n")
        p.stdin.flush()
        p.stdout.readline()

    p.stdout.readline()
    step("a 20000")
    a = box.start([hw.tool("heapwise"), "attach", str(p.pid), "-i", "1", "-c", "300ms", "--malloc-info=60s", "-o", box.path("out.trace")])

    def asked():
        step("c 10")  # it is asked at a sample
        r = box.run([hw.tool("heapwise"), "query", box.path("out.trace.part"),
                     "select count(*) from counter_track where name = 'malloc_info.in_use'"], check=None)
        return r.returncode == 0 and r.stdout.split()[-1:] == [b"1"]

    hw.wait_for(asked, "the allocator's figures")
    step("b 20000")
    since = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    hw.wait_for(lambda: newest_reading(box, box.path("out.trace.part")) > since, "a reading")
    a.send_signal(2)
    out, err = a.communicate(timeout=hw.CLOCK)
    hw.equal(a.returncode, 0, f"attach: {hw.tail(err)}")
    said = account(box, "--at", "last")
    p.communicate(b"", timeout=hw.CLOCK)
    near(rss_of(said, "live"), 20000 * 2000, 0.02, "live")
    near(rss_of(said, "older than the recording"), 20000 * 1008, 0.03, "older")
    hw.true(said["older_at_ns"] < said["at_ns"], "asked before")
    hw.true(rss_of(said, "free inside the allocator") < MIB, f"free: {said['parts']}")


def silent(box):
    """A process that is attached to and allocates nothing meanwhile has its account all the same, at each dump and at
    the end, whether its hooks were put in or its library was told."""
    for i, env in enumerate(({}, {"LD_PRELOAD": hw.preload_library()})):
        p = box.start([hw.target("kinds")], stdin=subprocess.PIPE, env={**os.environ, **env})
        while p.stdout.readline().strip() != b"ready":
            pass
        trace = f"silent{i}.trace"
        for seconds in 2, 10, 30:  # a busy machine takes its time to reach it
            r = box.run([hw.tool("heapwise"), "attach", str(p.pid), "-f", "-c", "1s", "-d", f"{seconds}s", "-o", box.path(trace)],
                        check=None, timeout=hw.CLOCK)
            if b"[not-ready]" not in r.stderr:
                break
        sums = rollup(p.pid)
        hw.true(b"[never-allocated]" in r.stderr, hw.tail(r.stderr))
        hw.true(b"heapwise account" in r.stderr, f"who says what there is? {hw.tail(r.stderr)}")
        said = account(box, trace=trace)
        hw.equal(said["pid"], p.pid, "its number")
        near(said["rss_bytes"], sums["Rss"], 0.02, "RSS")
        near(said["pss_bytes"], sums["Pss"], 0.02, "PSS")
        hw.true(said["older_or_free"], "nothing tells what is older")
        near(rss_of(said, "shared memory"), 8 * MIB, 0.01, "shared")
        hw.true(rss_of(said, "older than the recording") > 30 * MIB and rss_of(said, "live") == 0, "what it had before")
        text = box.run([hw.tool("heapwise"), "account", "--pid", str(p.pid), box.path(trace)], check=0).stdout.decode()
        hw.true(f"kinds ({p.pid})" in text and "read " in text, text)
        every = json.loads(box.run([hw.tool("heapwise"), "account", "--json", "--at", "all", "--pid", str(p.pid), box.path(trace)], check=0).stdout)
        hw.true(every["readings"] and all(0 <= r["at_ns"] < hw.CLOCK * 1e9 for r in every["readings"]), f"times since the start: {every['readings']}")
        r = box.run([hw.tool("heapwise"), "query", box.path(trace),
                     "select count(distinct ts), count(distinct upid), (select sum(rss) > 0 from heapwise_account((select max(upid) from "
                     "profiler_smaps)) where name is null) from profiler_smaps"], check=0)
        n, who, rows = (int(x) for x in r.stdout.decode().splitlines()[1].split(","))
        hw.true(n >= 2 and (who, rows) == (1, 1), f"{n} readings of {who} processes, SQL {rows}")
        hw.sound(box.path(trace))
        p.communicate(b"", timeout=hw.CLOCK)


def every_child(box):
    """Of many processes each that lives for some seconds has its account, though it ends before anybody asks for a dump."""
    children = 16
    script = ("import os, time\n"
              f"for _ in range({children}):\n"
              "    if os.fork() == 0:\n"
              "        keep = [bytearray(10_000) for _ in range(100)]; time.sleep(6); os._exit(0)\n"
              f"for _ in range({children}): os.wait()\n")
    box.run([hw.tool("heapwise"), "record", "--follow-fork", "-o", box.path("out.trace"), "--", "python3", "-S", "-c", script], check=0, timeout=hw.CLOCK)
    r = box.run([hw.tool("heapwise"), "query", box.path("out.trace"), "select count(distinct upid) from profiler_smaps"], check=0)
    read = int(r.stdout.decode().splitlines()[1])
    hw.equal(read, children + 1, "processes with an account")


def no_mappings(box):
    """A program too short for a reading: that is said, with an exit code of its own."""
    hw.record(box, ["/bin/true"])
    r = box.run([hw.tool("heapwise"), "account", box.path("out.trace")])
    hw.true(r.returncode in (0, 5), f"exit {r.returncode}: {hw.tail(r.stderr)}")
    if r.returncode == 5:
        hw.true(b"no mappings" in r.stderr or b"no heap" in r.stderr, hw.tail(r.stderr))


PROGRAMS = {
    "sqlite3": ["sqlite3", ":memory:", "with recursive n(i) as (values(1) union all select i+1 from n where i < 300000) "
                "select count(*) from (select i, hex(randomblob(20)) h from n order by h);"],
    "perl": ["perl", "-e", "my %h; $h{$_} = 'x' x 100 for 1 .. 200000; sleep 2"],
    "git": ["git", "-C", str(hw.BUILD.parent), "log", "--stat", "-200"],
    "python3": ["python3", "-c", "import json, time; a = [json.loads('{\"k\": [%d, \"x\"]}' % i) for i in range(60000)]; time.sleep(2)"],
    "node": ["node", "-e", "const a = []; for (let i = 0; i < 300000; i++) a.push({i, s: 'x' + i}); setTimeout(() => a.length, 2000)"],
    "redis": ["redis-server", "--port", "0", "--unixsocket", "redis.sock", "--save", ""],
}


def watched(box, p, name, seconds):
    """The kernel's sums while it runs: (moment, sums)."""
    seen, until = [], time.monotonic() + seconds
    while p.poll() is None and time.monotonic() < until:
        try:
            pid = child_of(p.pid, name)
            if pid:
                seen.append((time.clock_gettime_ns(time.CLOCK_BOOTTIME), rollup(pid)["Rss"]))
        except (OSError, KeyError):
            pass
        time.sleep(0.05)
    return seen


def program(name):
    def case(box):
        """What is read has an owner, and is what the kernel says at that time."""
        argv = PROGRAMS[name]
        hw.need(argv[0])
        for seconds in 4, 20:  # a busy machine takes its time to the first reading
            p = box.start([hw.tool("heapwise"), "record", "-f", "-c", "500ms", "-d", f"{seconds}s", "-o", box.path("out.trace"), "--", *argv],
                          stdout=open(box.path("said"), "w"))
            seen = watched(box, p, name, seconds)
            if name == "redis":
                child = child_of(p.pid, name)
                if child:
                    box.run(["kill", str(child)])
            p.communicate(timeout=hw.CLOCK)
            r = box.run([hw.tool("heapwise"), "query", box.path("out.trace"),
                         "select ts, sum(rss_kb) * 1024 from profiler_smaps group by upid, ts order by 2 desc limit 1"], check=0)
            rows = r.stdout.decode().splitlines()[1:]
            if rows:
                break
        hw.true(rows, "a reading")
        ts, rss = (int(x) for x in rows[0].split(","))
        said = account(box, "--at", "peak")
        print(f"  {name}: RSS {said['rss_bytes'] / MIB:.1f} MiB, unexplained {100 * said['unexplained_bytes'] / said['rss_bytes']:.2f} %, "
              f"moved {100 * rss_of(said, 'moved meanwhile') / said['rss_bytes']:.2f} %, read {len(seen)} times beside it")
        # Of a program that grows: not less than just before, not more than soon after. A busy machine's reading goes on for a while after
        # its time, and who looks beside it may have no processor just then: so it is one that was seen surely after it, too.
        before, later = [r for t, r in seen if t < ts][-1:], [r for t, r in seen if t >= ts + 1_000_000_000][:1]
        around = before + [r for t, r in seen if ts < t < ts + 1_000_000_000] + later
        if before and later:
            hw.true(min(around) * 0.97 <= rss <= max(around) * 1.03, f"read {rss}, the kernel says {around}")
    return case


if __name__ == "__main__":
    hw.main({"kinds": kinds, "ours": ours, "group": group, "group-files": group_files, "many-mappings": many_mappings, "java": java, "v8": v8_spaces, "python": python, "go": go, "resident": resident, "mapped-later": mapped_later, "text": text, "quick": quick, "other-moment": other_moment, "gaps": gaps, "attached": attached, "asked-before": asked_before, "silent": silent, "every-child": every_child, "no-mappings": no_mappings,
             **{name: program(name) for name in PROGRAMS}})
