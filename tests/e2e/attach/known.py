#!/usr/bin/env python3
"""Known faults of the original: what doc/guide/known-issues-of-others.md lists and no other test has."""
import os
import pathlib
import re
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.javac import javac

PAGE = hw.ROOT / "doc/guide/known-issues-of-others.md"

ASM32 = """
.globl _start
_start: mov $162, %eax   # nanosleep
 mov $pause, %ebx
 xor %ecx, %ecx
 int $0x80
 mov $1, %eax            # exit(7)
 mov $7, %ebx
 int $0x80
.data
pause: .long 1, 0
"""


def compile_(box, name, text, *flags):
    """cc on a text of C or assembler; Skip when it cannot."""
    hw.need("cc")
    src = pathlib.Path(box.path(name + (".S" if "globl" in text else ".c")))
    src.write_text(text)
    r = box.run(["cc", "-g", "-O1", str(src), *flags, "-o", box.path(name)])
    if r.returncode:
        raise hw.Skip(f"cc {' '.join(flags)}: {hw.tail(r.stderr)}")
    return box.path(name)


def thirty_two_bit(box):
    """A 32-bit program on a 64-bit machine is named as such at once, and runs as it would alone."""
    program = compile_(box, "p32", ASM32, "-m32", "-nostdlib", "-static")
    if box.run([program]).returncode != 7:
        raise hw.Skip("this kernel runs no 32-bit programs")
    r = box.run([hw.tool("heapwise"), "record", "-o", box.path("r.trace"), "--", program])
    hw.equal(r.returncode, 7, "the program's status: " + hw.tail(r.stderr))
    hw.true(re.search(rb"32-bit", r.stderr), hw.tail(r.stderr))
    p = box.start([program])
    hw.wait_for(lambda: os.readlink(f"/proc/{p.pid}/exe") == os.path.realpath(program), "exec")
    r = box.run([hw.tool("heapwise"), "attach", "-d", "1s", "-o", box.path("a.trace"), str(p.pid)])
    hw.true(r.returncode != 0 and re.search(rb"32-bit|another architecture", r.stderr), hw.tail(r.stderr))
    hw.equal(p.wait(hw.CLOCK), 7, "it was left alone")


def interval_zero(box):
    """0 bytes between samples is refused everywhere before anything runs; 1 is every allocation."""
    touch = ["touch", box.path("ran")]
    p = box.start(["sleep", "30"])
    for argv in (["record", "-i", "0", "--", *touch], ["heap_profile", "host", "-i", "0", "--", *touch],
                 ["heap_profile", "-n", "x", "-i", "0"], ["attach", "-i", "0", str(p.pid)]):
        r = box.run([hw.tool("heapwise"), *argv])
        hw.true(r.returncode != 0 and b"zero sampling interval." in r.stderr, f"{argv}: {hw.tail(r.stderr)}")
    for body in ("", "sampling_interval_bytes: 0", "all_heaps: true", 'heaps: "a" heap_sampling_intervals: 0'):
        text = ('buffers { size_kb: 1024 } data_sources { config { name: "android.heapprofd" heapprofd_config { '
                f'process_cmdline: "x" {body} }} }} }}')
        (box.dir / "c.txt").write_text(text)
        r = box.run([hw.tool("heapwise"), "config", "--check", box.path("c.txt")])
        hw.true(r.returncode != 0 and b"zero sampling interval" in r.stdout + r.stderr,
                f"{body}: {hw.tail(r.stdout + r.stderr)}")
    hw.true(not os.path.exists(box.path("ran")), "nothing ran")


def quiet_end(box):
    """A profile that is whole ends without any line that reads like an error."""
    os.mkdir(box.path("out"))
    r = box.run([hw.tool("heap_profile"), "host", "-o", box.path("out"), "--", hw.target("freeall")], check=0)
    said = [l for l in (r.stdout + r.stderr).decode().splitlines() if re.search(r"error|fail|warn|lost", l, re.I)]
    hw.equal(said, [], "heap_profile's last words")
    r = hw.record(box, [hw.target("freeall")])
    said = [l for l in r.stderr.decode().splitlines() if re.search(r"error|fail|warn", l, re.I)]
    hw.equal((r.returncode, said), (0, []), "heapwise record's last words")
    for tool in ("traceconv", "trace_to_text"):
        r = box.run([hw.tool(tool), "text", box.path("out/raw-trace"), box.path(tool + ".txt")], check=0)
        hw.true(not re.search(rb"error|fail", r.stderr, re.I), hw.tail(r.stderr))


BIASED = """
#include <stdlib.h>
__attribute__((noinline)) void *biased_alloc(int n)
{
    void *volatile p = malloc((size_t)n); /* line 5 */
    return p;
}
"""
MAIN = """
void *biased_alloc(int n);
int main(void)
{
    for (int i = 0; i < 100; i++)
        biased_alloc(100);
    return 0;
}
"""


def names_of(box, trace):
    q = ("select f.name, s.name, s.line_number, sum(a.size) from heap_profile_allocation a "
         "join stack_profile_callsite c on a.callsite_id = c.id join stack_profile_frame f on c.frame_id = f.id "
         "left join stack_profile_symbol s on f.symbol_set_id = s.symbol_set_id group by 1, 2, 3")
    return box.run([hw.tool("heapwise"), "query", trace, q], check=0).stdout.decode()


def load_bias(box):
    """Files whose addresses are not their offsets: a library, and a program that is not PIE. Names are
    right when they are taken while recording, and when they are looked up afterwards."""
    flags = [["-Wl,-Ttext-segment=0x7650000"], ["-Wl,-z,separate-code", "-Wl,-Ttext-segment=0x10000"]]
    for i, more in enumerate(flags):
        lib = compile_(box, f"libbiased{i}.so", BIASED, "-shared", "-fPIC", "-Wl,--build-id", *more)
        segments = box.run(["readelf", "-lW", lib], check=0).stdout.decode()
        text = next(l.split() for l in segments.splitlines() if l.split()[:1] == ["LOAD"] and " E " in l.replace("R E", " E "))
        hw.true(int(text[1], 16) != int(text[2], 16), f"the library has a bias: {text}")
        for pie in ("-pie", "-no-pie"):
            program = compile_(box, f"main{i}{pie}", MAIN, pie, lib, "-Wl,-rpath," + str(box.dir))
            r = hw.record(box, [program], "-f", trace="named.trace")
            hw.equal(r.returncode, 0, hw.tail(r.stderr))
            hw.exact(hw.sound(r.trace).last(), {"biased_alloc": [10000, 100, 10000, 100]}, f"{more} {pie}")
            os.rename(lib, lib + ".whole")
            box.run(["strip", "-o", lib, lib + ".whole"], check=0)
            r = hw.record(box, [program], "-f", trace="bare.trace")
            os.makedirs(box.path("symbols"), exist_ok=True)
            os.rename(lib + ".whole", box.path(f"symbols/libbiased{i}.so"))
            pathlib.Path(box.path("symbols.trace")).unlink(missing_ok=True)
            box.run([hw.tool("heapwise"), "symbolize", "--symbols", box.path("symbols"), r.trace,
                     box.path("symbols.trace")], check=0)
            pathlib.Path(box.path("late.trace")).write_bytes(
                b"".join(pathlib.Path(p).read_bytes() for p in (r.trace, box.path("symbols.trace"))))
            text = names_of(box, box.path("late.trace"))
            hw.true(re.search(r'"biased_alloc",5,10000', text), text)
            os.rename(box.path(f"symbols/libbiased{i}.so"), lib)


JAVA = """
public class Exec {
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 3; i++) {
            java.nio.ByteBuffer b = java.nio.ByteBuffer.allocateDirect(3 << 20);
            if (new ProcessBuilder("true").start().waitFor() != 0) System.exit(3);
            if (Runtime.getRuntime().exec(new String[]{"true"}).waitFor() != 0) System.exit(4);
            keep[i] = b;
        }
        System.out.println("ok");
    }
    static java.nio.ByteBuffer[] keep = new java.nio.ByteBuffer[3];
}
"""


def runtime_exec(box):
    """Java's Runtime.exec (vfork and CLONE_VM): the profile goes on behind it, also of Python's subprocess."""
    hw.need("java", "javac")
    (box.dir / "Exec.java").write_text(JAVA)
    javac(box, box.path("Exec.java"))
    for how in ("VFORK", "POSIX_SPAWN"):
        r = hw.record(box, ["java", "-Xint", "-XX:TieredStopAtLevel=0", "-cp", str(box.dir),
                            f"-Djdk.lang.Process.launchMechanism={how}", "Exec"], interval=65536, trace=how)
        hw.equal((r.returncode, r.target_stdout), (0, b"ok\n"), f"{how}: {hw.tail(r.stderr)}")
        d = max(hw.sound(r.trace).dumps, key=lambda d: len(d.samples))
        total = sum(s.alloc for s in d.samples if s.alloc >= 3 << 20)
        hw.true(total >= 9 << 20, f"{how}: the blocks behind each exec are there: {total}")


def spawning(box):
    code = ("import subprocess\nkeep=[]\nfor i in range(4):\n keep.append(bytearray(5<<20))\n"
            " subprocess.run(['true'], check=True)\nkeep.append(bytearray(7<<20))\nprint('ok')")
    r = hw.record(box, ["python3", "-c", code], interval=65536)
    hw.equal((r.returncode, r.target_stdout), (0, b"ok\n"), hw.tail(r.stderr))
    d = hw.sound(r.trace).last()
    hw.true(d.total("alloc") >= 27 << 20, f"all of it: {d.total('alloc')}")


def no_stray_frame(box):
    """No frame that reads ERROR, above, in or below a stack."""
    for name in ("truth", "threads", "keys", "sigalloc", "fiber"):
        r = hw.record(box, [hw.target(name)], trace=name)
        d = hw.sound(r.trace).last()
        stray = [s.stack for s in d.samples if any("ERROR" in (f or "") for f in s.stack)]
        hw.equal((stray[:2], d.unwinding_errors), ([], 0), name)


def page(box):
    """Each row of the page names tests that there are."""
    rows = [l for l in PAGE.read_text().splitlines() if l.startswith("| ") and "`e2e/" in l]
    hw.true(len(rows) >= 10, f"{len(rows)} rows with a test")
    named = re.findall(r"`e2e/(\w+)/([\w-]+)`", "\n".join(rows))
    for script in {s for s, _ in named}:
        path = next((hw.ROOT / "tests/e2e").glob(f"*/{script}.py"))
        r = box.run([sys.executable, "-B", str(path), "--list"], check=0)
        missing = {c for s, c in named if s == script} - set(r.stdout.decode().split())
        hw.equal(missing, set(), f"e2e/{script}: no such tests")


if __name__ == "__main__":
    hw.main({"thirty-two-bit": thirty_two_bit, "interval-zero": interval_zero, "quiet-end": quiet_end,
             "load-bias": load_bias, "runtime-exec": runtime_exec, "spawning": spawning,
             "no-stray-frame": no_stray_frame, "page": page})
