#!/usr/bin/env python3
"""Programs with a sanitizer below a recording: their runtimes tolerate nobody before them, so each runs as if nobody
recorded, however it was started."""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
int main(int argc, char **argv)
{
    char *kept[64], name[17] = "";
    unsigned sum = 0;
    for (int i = 0; i < 20000; i++) {
        char *p = malloc((size_t)(i % 500) + 1);
        p[0] = (char)i;
        sum += (unsigned char)p[0];
        free(p);
    }
    for (int i = 0; i < 64; i++)
        kept[i] = strdup("kept");
    prctl(PR_SET_DUMPABLE, 1);
    prctl(PR_GET_NAME, name);
    printf("%s %s %s %s %d %u %s\\n", argv[0], argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "", name, argc, sum, kept[63]);
    printf("%s\\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none");
    for (int i = 0; i < 64; i++)
        free(kept[i]);
    return 7;
}
"""


def clang_runtimes():
    out = subprocess.run(["clang", "-print-file-name=libclang_rt.asan-x86_64.so"], stdout=subprocess.PIPE, text=True).stdout
    return os.path.dirname(out.strip())


def compilers():
    """{name: command} of what the compilers here may make."""
    made = {"plain": ["gcc"]}
    for c in filter(shutil.which, ("gcc", "clang")):
        made |= {f"{c}_{s}": [c, "-fsanitize=" + s] for s in ("address", "thread", "undefined", "leak")}
    made |= {"gcc_address_static": ["gcc", "-fsanitize=address", "-static-libasan"],
             "gcc_address_stripped": ["gcc", "-fsanitize=address", "-static-libasan", "-s"],
             "gcc_thread_static": ["gcc", "-fsanitize=thread", "-static-libtsan"]}
    if shutil.which("clang"):
        rpath = "-Wl,-rpath," + clang_runtimes()
        made |= {"clang_memory": ["clang", "-fsanitize=memory"],
                 "clang_hwaddress": ["clang", "-fsanitize=hwaddress"],
                 "clang_address_shared": ["clang", "-fsanitize=address", "-shared-libasan", rpath],
                 "clang_undefined_shared": ["clang", "-fsanitize=undefined", "-shared-libsan", rpath]}
    return made


def build(box):
    """{name: path} of what they do make, and what runs on this machine when nobody records. Once for all cases, which may run
    at the same time."""
    hw.need("gcc")
    made, folder = compilers(), hw.BUILD / "sanitized"
    versions = [subprocess.run([c, "--version"], stdout=subprocess.PIPE, text=True).stdout for c in ("gcc", "clang") if shutil.which(c)]
    key = repr((PROGRAM, made, versions))
    folder.mkdir(exist_ok=True)
    with open(hw.BUILD / "sanitized.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, src = folder / "stamp", folder / "p.c"
        if not stamp.exists() or stamp.read_text() != key:
            shutil.rmtree(folder)
            folder.mkdir()
            src.write_text(PROGRAM)
            for name, argv in made.items():
                exe = folder / name
                if box.run([*argv, "-o", exe, src]).returncode or alone(box, [str(exe), "a", "b"])[1] != 7:
                    exe.unlink(missing_ok=True)
            stamp.write_text(key)
    good = {name: str(folder / name) for name in made if (folder / name).exists()}
    hw.true("plain" in good and "gcc_address" in good, f"sanitizers of gcc: {list(good)}")
    return good


def alone(box, argv, env=None):
    r = box.run(argv, env=env, timeout=hw.CLOCK)
    return r.stdout, r.returncode, re.sub(rb"==\d+==", b"==", r.stderr)


def recorded(box, argv, *options, env=None):
    r = box.run([hw.tool("heapwise"), "record", "-q", "--no-report", "-f", *options, "-o", box.path("t.trace"), "--", *argv],
                env=env, timeout=hw.CLOCK)
    said = b"\n".join(l for l in r.stderr.splitlines() if not l.startswith((b"heapwise: ", b"hint: ")))
    return r.stdout, r.returncode, re.sub(rb"==\d+==", b"==", said + b"\n" if said else b"")


def starters(box, exe):
    """Ways to the program; what each does with its output and exit status is the same without us."""
    makefile, spawn = box.path("Makefile"), box.path("spawn.py")
    pathlib.Path(makefile).write_text(f"all:\n\t@{exe} a b; echo $$?\n")
    pathlib.Path(spawn).write_text("import os, subprocess, sys\nr = subprocess.run(sys.argv[1:]).returncode\n"
                                   "pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n"
                                   "sys.exit(r + os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
    return [[exe, "a", "b"], ["sh", "-c", f"{exe} a b; exit $?"], ["bash", "-c", f"exec -a other {exe} a b"],
            ["env", "A=1", exe, "a", "b"], ["make", "-s", "-f", makefile], [sys.executable, spawn, exe, "a", "b"],
            ["sh", "-c", f"echo a b | xargs {exe}"]]


def same(box, exe, argv, *options, env=None):
    want, have = alone(box, argv, env), recorded(box, argv, *options, env=env)
    if "plain" in os.path.basename(exe) or "undefined" in os.path.basename(exe):  # which are profiled: the variable stays for what a shell executes
        hw.equal(have[1], want[1], f"{argv}: {hw.tail(have[2])}")
        hw.equal(have[0].splitlines()[:1], want[0].splitlines()[:1], f"{argv}")
    else:
        hw.equal(have, want, f"{argv} {options}")


def below(box):
    """Started directly, by shells, make, env, xargs and Python: the strictest in each way, the others in two by turns."""
    for i, (name, exe) in enumerate(build(box).items()):
        ways = [w for w in starters(box, exe) if shutil.which(w[0])]
        for argv in ways if name in ("gcc_address", "clang_address_shared") else [ways[1], ways[(i + 2) % len(ways)]]:
            same(box, exe, argv)
        for argv in by_loader(exe) if name in ("gcc_address", "clang_address_shared", "gcc_leak") else []:
            same(box, exe, argv)


def by_loader(exe):
    """The loader started by hand, which moves its arguments before anything can look at them."""
    ld = next((p for p in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(p)), None)
    return [[ld, *more, exe, "a", "b"] for more in ([], ["--argv0", "other"], ["--library-path", "/nowhere"], ["--preload", "libm.so.6"])
            if ld]


def followed(box):
    """--follow-fork hands the library to everything below."""
    for name, exe in build(box).items():
        same(box, exe, ["sh", "-c", f"{exe} a b; exit $?"], "--follow-fork")


def preloaded(box):
    """A runtime that the user preloads, alone or with others, for a program that knows of none; and what the user
    preloads for a program with a runtime of its own stays."""
    made = build(box)
    runtimes = [subprocess.run(["gcc", "-print-file-name=" + lib], stdout=subprocess.PIPE, text=True).stdout.strip()
                for lib in ("libasan.so", "liblsan.so", "libtsan.so")]
    for lib in filter(os.path.exists, map(os.path.realpath, runtimes)):
        for value in (lib, lib + ":libm.so.6", "libm.so.6 " + lib):
            env = {"ASAN_OPTIONS": "detect_leaks=0"}
            sh = ["sh", "-c", f"LD_PRELOAD='{value}' {made['plain']} a b; exit $?"]
            hw.equal(recorded(box, sh, env=env), alone(box, sh, env), f"{value} by a shell")
            inside = ["sh", "-c", f'LD_PRELOAD="$LD_PRELOAD:{value}" {made["plain"]} a b; exit $?']
            clean = ["sh", "-c", f"LD_PRELOAD=':{value}' {made['plain']} a b; exit $?"]
            have, want = recorded(box, inside, env=env), alone(box, clean, env)
            if want[1] == 7:
                hw.equal((have[0].splitlines()[:1], have[1:]), (want[0].splitlines()[:1], want[1:]), f"ours before {value}")
    for name in ("gcc_leak", "gcc_thread", "clang_address"):
        if name in made:
            argv = ["sh", "-c", f'LD_PRELOAD="$LD_PRELOAD:libm.so.6" {made[name]} a b; exit $?']
            want = alone(box, ["sh", "-c", f"LD_PRELOAD=libm.so.6 {made[name]} a b; exit $?"])
            hw.equal(recorded(box, argv), want, f"{name} with libm before it")


def needed_by_a_library(box):
    """Not the program needs the runtime, but a library of its does: only the loader knows."""
    hw.need("gcc")
    pathlib.Path(box.path("l.c")).write_text("#include <stdlib.h>\nvoid *take(void) { return malloc(40); }\n")
    pathlib.Path(box.path("m.c")).write_text("#include <stdio.h>\nvoid *take(void);\nint main(void) { puts(take() ? \"yes\" : \"no\"); return 7; }\n")
    for flag in ("-fsanitize=thread", "-fsanitize=leak"):
        lib, exe = box.path("libl.so"), box.path("m")
        if box.run(["gcc", flag, "-shared", "-fPIC", "-o", lib, box.path("l.c")]).returncode:
            continue
        box.run(["gcc", "-o", exe, box.path("m.c"), lib, "-Wl,-rpath," + str(box.dir)], check=0)
        want = alone(box, [exe])
        if want[1] == 7:
            hw.equal(recorded(box, [exe]), want, flag)
            hw.equal(recorded(box, ["sh", "-c", f"{exe}; exit $?"]), want, flag + " by a shell")


@hw.by_themselves
def held(box):
    """By their names, at their exec: nobody's environment is changed, or only until the loader has found the runtime."""
    made = build(box)
    exe = box.path("m")
    pathlib.Path(box.path("l.c")).write_text("#include <stdlib.h>\nvoid *take(void) { return malloc(40); }\n")
    pathlib.Path(box.path("m.c")).write_text("#include <stdio.h>\nvoid *take(void);\nint main(void) { puts(take() ? \"yes\" : \"no\"); return 7; }\n")
    box.run(["gcc", "-fsanitize=leak", "-shared", "-fPIC", "-o", box.path("libl.so"), box.path("l.c")], check=0)
    box.run(["gcc", "-o", exe, box.path("m.c"), box.path("libl.so"), "-Wl,-rpath," + str(box.dir)], check=0)
    lib = subprocess.run(["gcc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True).stdout.strip()
    cases = [([e, "a", "b"], {}) for n, e in made.items() if n != "plain" and "undefined" not in n]
    cases += [([exe], {}), ([made["plain"], "a", "b"], {"LD_PRELOAD": os.path.realpath(lib), "ASAN_OPTIONS": "detect_leaks=0"})]
    want = [alone(box, argv, env) for argv, env in cases]
    os.mkdir(box.path("out"))
    w = box.start([hw.tool("heap_profile"), "-n", ",".join(os.path.basename(a[0]) for a, _ in cases), "-i", "4096", "-o", box.path("out")],
                  stderr=open(box.path("err"), "wb"))
    hw.true(b"active" in w.stdout.readline(), open(box.path("err")).read())
    for (argv, env), n in zip(cases, want):
        hw.equal(alone(box, argv, env), n, f"{argv} {env}")
    w.send_signal(signal.SIGINT)
    w.wait(hw.CLOCK)


def script(box):
    """An interpreter with a runtime: its script is started once, with its arguments and its short name."""
    made = build(box)
    for name in ("gcc_address", "clang_address_shared", "clang_memory"):
        if name not in made:
            continue
        s = box.path("script_" + name)
        pathlib.Path(s).write_text(f"#!{made[name]} x\n")
        os.chmod(s, 0o755)
        want, have = (f(box, ["sh", "-c", f"{s} y; exit $?"]) for f in (alone, recorded))
        cut = lambda r: (r[0].split()[:3] + r[0].split()[4:], r[1:])  # without the short name
        hw.equal(cut(have), cut(want), name)


if __name__ == "__main__":
    hw.main({"below": below, "followed": followed, "preloaded": preloaded, "needed-by-a-library": needed_by_a_library,
             "script": script, "held": held})
