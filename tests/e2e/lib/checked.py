#!/usr/bin/env python3
"""checked.py HEAPWISE DIR [RULE...]: checks that all traces in a folder that our tools wrote follow the format's rules.

Our traces are recognized by their first packets (SystemInfo). Traces that a test damages on purpose are listed by name
in the folder's file `.broken`; the rules given as arguments may be broken.
"""
import json
import os
import pathlib
import subprocess
import sys

HEAD = 1 << 16
LOSS = {"dump-loss", "packets-lost", "stats-loss"}  # the trace reports losses, which may be real
BROKEN = ".broken"


def ours(path):
    try:
        if path.is_symlink() or not path.is_file():
            return False
        with open(path, "rb") as f:
            head = f.read(HEAD)
    except OSError:
        return False
    return head[:1] == b"\n" and b"heapwise 0." in head


def broken(folder):
    """-> names of files in the folder that are damaged on purpose."""
    path = pathlib.Path(folder) / BROKEN
    return set(path.read_text().split()) if path.exists() else set()


def spoil(folder, *names):
    with open(pathlib.Path(folder) / BROKEN, "a") as f:
        f.write("".join(f"{n}\n" for n in names))


def check(heapwise, paths, allow=()):
    """-> one line for each error or warning that is not allowed."""
    paths = [str(p) for p in paths]
    if not paths:
        return []
    ran = subprocess.run([heapwise, "check", "--json", "--max-each", "2", "--", *paths], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": ""})
    lines = [ran.stderr.decode(errors="replace")] if ran.returncode not in (0, 1) else []
    for f in json.loads(ran.stdout or b'{"files": []}')["files"]:
        for r in f["rules"]:
            if r["severity"] != "note" and r["rule"] not in LOSS and r["rule"] not in allow:
                first = "; ".join(f"packet {x['packet']} at {x['offset']}: {x['text']}" for x in r["findings"])
                lines.append(f"{f['path']}: {r['rule']} ({r['count']}): {first}")
    return lines


def check_folder(heapwise, folder, allow=()):
    spoiled = broken(folder)
    # A store that still runs removes folders meanwhile; os.walk ignores that.
    found = [p for p in sorted(pathlib.Path(at) / name for at, _, names in os.walk(folder) for name in names)
             if ours(p) and p.name not in spoiled and "*" not in spoiled]
    return check(heapwise, found, allow)


if __name__ == "__main__":
    wrong = check_folder(sys.argv[1], sys.argv[2], sys.argv[3:])
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)
