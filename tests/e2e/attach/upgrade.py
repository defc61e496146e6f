#!/usr/bin/env python3
"""Programs with the client library of another version: those that run since before an upgrade are recorded."""
import os
import pathlib
import re
import signal
import socket
import struct
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from attach import is_joined

NEWEST = int(re.search(r"#define HW_WIRE_VERSION +(\d+)u", (hw.ROOT / "src/wire/version.h").read_text())[1])
HELLO, STARTUP, X86_64 = 0x316c6c6568777768, 1, 1


def check(box, trace, stdout, what):
    want = hw.expectations(stdout)
    hw.true(len(want) >= 4, f"{what}: {hw.tail(stdout)}")
    dump = hw.sound(trace).last()
    hw.exact(dump, want, what)
    hw.equal(dump.lost, 1, f"{what}: it gave up one record")


def launched(box):
    """A library of version 10 in a program that `record` has started: exact, with all that its records can say."""
    r = hw.record(box, ["env", "-u", "LD_PRELOAD", hw.target("client_v10")], "--all-heaps")
    hw.equal((r.returncode, r.target_stdout.split(b"\n")[0]), (0, b"profile"), hw.tail(r.target_stdout) + hw.tail(r.stderr))
    check(box, r.trace, r.target_stdout, "version 10")
    hw.true(b"another version" not in r.stderr, hw.tail(r.stderr))


def waiting(box):
    """The same with a service: it is registered, waits, is called by its control page and recorded, by name and by number."""
    box.start([hw.tool("heapprofd")], stderr=open(box.path("service.log"), "wb"))
    hw.wait_for(lambda: os.path.exists(box.path("producer")) and os.path.exists(box.path("consumer")), "the service")
    for how in ("-n", "-p"):
        out = box.path("out" + how)
        os.mkdir(out)
        p = box.start([box.own("client_v10"), box.path("producer")], stdout=open(box.path("client.out"), "wb"))
        said = lambda: pathlib.Path(box.path("client.out")).read_bytes()
        hw.wait_for(lambda: said() == b"wait\n" or p.poll() is not None, "it waits")
        hw.equal(p.poll(), None, hw.tail(said()))
        r = box.start([hw.tool("heap_profile"), how, str(p.pid) if how == "-p" else box.named("t_client_v10"), "-i", "1", "-o", out])
        hw.equal(p.wait(hw.CLOCK), 0, hw.tail(said()))
        hw.equal(said().split(b"\n")[:2], [b"wait", b"profile"], "how it was welcomed")
        r.send_signal(signal.SIGINT)
        text = r.communicate(timeout=hw.CLOCK)
        hw.equal(r.returncode, 0, hw.tail(text[1]))
        check(box, out + "/raw-trace", said(), how)


def hello(path, newest, oldest):
    """What the recorder answers: (version, size), or None."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)
    s.settimeout(30)
    s.send(struct.pack("<QIIIIiIQQII", HELLO, newest, X86_64, STARTUP, 4096, os.getpid(), 0, 0, 0, oldest, 0))
    data, fds, _, _ = socket.recv_fds(s, 16384, 4)
    for fd in fds:
        os.close(fd)
    return (struct.unpack_from("<QI", data)[1], len(data)) if data else None


def newest_of_both(box):
    """A library that is newer than the recorder is answered in the recorder's version if it speaks that, and else not at all."""
    box.start([hw.tool("heapprofd")], stderr=open(box.path("service.log"), "wb"))
    hw.wait_for(lambda: os.path.exists(box.path("producer")) and os.path.exists(box.path("consumer")), "the service")
    path = box.path("producer")
    hw.equal(hello(path, NEWEST + 3, NEWEST)[0], NEWEST, "a newer library that speaks ours, too")
    hw.equal(hello(path, NEWEST + 3, NEWEST + 1), None, "one that does not")
    hw.equal(hello(path, 10, 0), (10, 4960), "version 10, which says nothing of others")
    hw.equal(hello(path, 9, 0), None, "one that is too old")
    hw.equal(hello(path, NEWEST, 2)[0], NEWEST, "our own")


CASES = {"launched": launched, "waiting": waiting, "newest-of-both": newest_of_both}

if __name__ == "__main__":
    hw.main(CASES)
