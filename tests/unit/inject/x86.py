#!/usr/bin/env python3
"""The lengths of instructions by objdump against ours: every different one of some libraries."""
import glob
import os
import shutil
import subprocess
import sys

if os.uname().machine != "x86_64" or not shutil.which("objdump"):
    print("needs x86-64 and objdump")
    sys.exit(77)
libs = "libc.so.6 libm.so.6 libstdc++.so.6 libjemalloc.so.2 libtcmalloc_minimal.so.4"
if os.environ.get("HW_LONG"):
    libs += " libcrypto.so.3 libLLVM-14.so.1"
seen = set()
with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, text=True) as check:
    for f in (f for name in libs.split() for f in glob.glob("/lib/x86_64-linux-gnu/" + name)):
        with subprocess.Popen(["objdump", "-dw", f], stdout=subprocess.PIPE, text=True, errors="replace") as dump:
            for line in dump.stdout:
                parts = line.split("\t")
                if len(parts) < 3:
                    continue
                code, text = parts[1].strip(), parts[2].strip()
                # What is none, two in one (fwait), what only ends a block of data, and XOP, which is refused.
                if code in seen or code.startswith("9b ") or "(bad)" in text or text.startswith((".byte", "rex", "data16", "vprotd")):
                    continue
                if len(code) < 3 and text.split()[0] in ("cs", "ds", "es", "ss", "fs", "gs", "lock", "repz", "repnz",
                                                         "addr32"):
                    continue
                seen.add(code)
                check.stdin.write(f"{code} | {text}\n")
    check.stdin.close()
    sys.exit(check.wait())
