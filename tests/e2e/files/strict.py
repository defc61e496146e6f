#!/usr/bin/env python3
"""A strict reader finds nothing, not even a warning, in any kind of file that we write (doc/design/check.md)."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
import account
import attach
import java
from lib import hw

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden"


UNTOLD = {"interval-missing", "process-undescribed"}  # other formats do not say


def strict(box, *files, ours=True):
    """-> packets of each file, or part of a bundle. ours: of a recording, which tells all that it knows"""
    r = box.run([hw.tool("heapwise"), "check", "--strict", "--json", "--", *(box.path(f) for f in files)])
    page = json.loads(r.stdout)["files"] if r.stdout else []
    found = [f"{f['path']}: {x['severity']} {x['rule']}: {x['findings'][0]['text']}" for f in page for x in f["rules"]
             if x["severity"] != "note" or ours and x["rule"] in UNTOLD]
    hw.true(r.returncode == 0 and not found, "\n".join(found[:10]) or hw.tail(r.stderr))
    return {(os.path.basename(f["path"]), f.get("member")): f["packets"] for f in page}


def recorded(box):
    """record: at the end, every allocation and sampled, dump by dump, with children; what it says of all memory."""
    hw.record(box, [hw.target("realloc")], trace="one.trace")
    hw.record(box, ["sh", "-c", "for i in 1 2 3; do ls /usr/lib >/dev/null; done; sort /etc/services | tail -1; exit 0"], "--follow-fork", "-c", "20ms", trace="many.trace")
    p = box.start([hw.tool("heapwise"), "record", "-c", "100ms", "-f", "-o", box.path("all.trace"), "--", hw.target("kinds")], stdin=subprocess.PIPE)
    while p.stdout.readline().strip() != b"ready":
        pass
    hw.wait_for(lambda: account.newest_reading(box, box.path("all.trace.part")), "a reading of its memory")
    _, err = p.communicate(b"", timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, hw.tail(err))
    strict(box, "one.trace", "many.trace", "all.trace")
    hw.true(b"rss_bytes" in box.run([hw.tool("heapwise"), "account", "--json", box.path("all.trace")]).stdout, "an account")


def attached(box):
    """attach, and continuous dumps of a program that ends meanwhile."""
    t = attach.Late(box)
    p = attach.attach(box, "-c", "100ms", str(t.pid))
    attach.joined(box, p, t.pid)
    t.do("go 50")
    t.do("threads 5")
    t.end()
    hw.equal(p.wait(hw.CLOCK), 0, "attach")
    strict(box, "out.trace")


def jvm(box):
    """The graph of a JVM's heap, and Java in native stacks."""
    hw.need("java", "javac")
    with java.Jvm(box, java.SHAPES, 50).ready() as j:
        java.dump(box, j)
    strict(box, "java.trace")


PROGRAM = """
import json
keep = []
def grow(n):
    for i in range(n):
        keep.append(json.loads('[%d, {"a": "%s"}]' % (i, "x" * 1000)))
for i in range(4):
    grow(200)
    del keep[::2]
"""


def python(box):
    """Python's functions, whose places have no address."""
    box.run([hw.tool("heapwise"), "record", "-i", "4096", "-c", "50ms", "-f", "-o", box.path("py.trace"), "--", sys.executable, "-c", PROGRAM], check=0)
    strict(box, "py.trace")


def converted(box):
    """Every format that we read, made into a trace; memory dumps of browsers; a bundle, packed or not."""
    r = hw.record(box, [hw.target("realloc")], trace="one.trace")
    convert = [hw.tool("heapwise"), "convert"]
    made = []
    for kind, end in (("pprof", "pb.gz"), ("heaptrack", "heaptrack")):
        box.run([*convert, "-t", kind, r.trace, box.path("x." + end)], check=0)
        made.append(box.path("x." + end))
    made += [str(GOLDEN / f"memory_infra/cases/{name}.json") for name in ("v1", "v2", "processes", "edges", "weak", "owners")]
    made += [str(GOLDEN / "trace/foreign/heaptrack.txt"), str(GOLDEN / "trace/foreign/pprof_go.pb")]
    for i, file in enumerate(made):
        box.run([*convert, "-t", "perfetto", file, box.path(f"{i}.trace")], check=0)
    packets = strict(box, *(f"{i}.trace" for i in range(len(made))), ours=False)
    hw.true(len(packets) == len(made) and max(packets.values()) > 9, f"{packets}")
    # Folded stacks have bytes and no counts, and what is made of them says so.
    box.run([*convert, "-t", "folded", r.trace, box.path("x.folded")], check=0)
    box.run([*convert, "-t", "perfetto", box.path("x.folded"), box.path("folded.trace")], check=0)
    found = box.run([hw.tool("heapwise"), "check", "--strict", box.path("folded.trace")], check=1).stdout.decode()
    hw.equal([w.split(":")[0] for w in found.splitlines() if w.startswith("  w")], ["  warning sample-count"], found)
    box.broken("folded.trace")
    box.run([hw.tool("heapwise"), "bundle", r.trace, box.path("b.tar")], check=0)
    hw.true(("b.tar", "trace.perfetto") in strict(box, "b.tar"), "the trace of the bundle")


def bundles(box):
    """Each member of a bundle is checked for itself; what is no archive of packets is said so."""
    hw.record(box, [hw.target("realloc")], trace="one.trace")
    good = open(box.path("one.trace"), "rb").read()
    bad = good + b"\x0a\x03\x40\x01\xff"  # a packet that breaks off

    def bundle(name, mode="w", **members):
        with tarfile.open(box.path(name), mode) as tar:
            for member, data in members.items():
                (box.dir / member).write_bytes(data)
                tar.add(box.path(member), {"trace": "trace.perfetto", "symbols": "symbols.pb"}.get(member, member))
                os.unlink(box.path(member))

    def check(name, status, *words):
        r = box.run([hw.tool("heapwise"), "check", box.path(name)], check=status)
        for w in words:
            hw.true(w in r.stdout + r.stderr, f"{w!r} is not in {r.stdout + r.stderr}")
    bundle("two.tar", trace=good, symbols=good)
    check("two.tar", 0, b"two.tar: trace.perfetto: ", b"two.tar: symbols.pb: ")
    bundle("bad.tar", trace=good, notes=b"a text", symbols=bad)
    check("bad.tar", 1, b"bad.tar: symbols.pb: 1 error")
    bundle("bad.tar.gz", "w:gz", trace=bad)
    check("bad.tar.gz", 1, b"bad.tar.gz: trace.perfetto: 1 error")
    bundle("none.tar", notes=b"a text")
    check("none.tar", 2, b"none.tar': the archive contains no trace of packets")
    whole = open(box.path("two.tar"), "rb").read()
    (box.dir / "cut.tar").write_bytes(whole[:512 + len(good) // 2])
    check("cut.tar", 2, b"cut.tar': ", b"ends inside a member")
    box.broken("one.trace")


if __name__ == "__main__":
    hw.main({"recorded": recorded, "attached": attached, "jvm": jvm, "python": python, "converted": converted, "bundles": bundles})
