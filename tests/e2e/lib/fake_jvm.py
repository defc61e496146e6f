"""
A hostile process that looks like a JVM: it maps a libjvm.so, handles SIGQUIT and answers the attach protocol.

fake_jvm.py ROOT UID HABITS...: chroots to ROOT, becomes UID, prints "ready". Its habits:
  exchange         swaps /tmp and /away all the time; SIGQUIT ends it
  chase FILE       replaces what we put into its /tmp by a link to FILE; SIGQUIT ends it
  socket-link FILE its attach socket is a link to FILE
  other-socket     another process listens at its attach socket
  answer NAME      its answer to an attach request, see ANSWERS
  join NAME        then it connects as our library would, and sends messages, see JOINS
"""
import array
import contextlib
import ctypes
import mmap
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

root, uid, habits = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
HELLO, CLASSES, ATTEMPT, ENDED, DONE, HOLDERS, EVENT = range(1, 8)
libc = ctypes.CDLL(None, use_errno=True)


def exchange(a, b):
    while True:
        libc.renameat2(-100, a, -100, b, 2)


def chase(file):
    while True:
        for name in os.listdir("/tmp"):
            if name.startswith(".heapwise"):
                with contextlib.suppress(OSError):
                    os.rename("/tmp/" + name, "/tmp/was" + name)
                    os.symlink(file, "/tmp/" + name)


def after(habit):
    return habits[habits.index(habit) + 1] if habit in habits else None


def endless(c):
    while True:
        c.sendall(b"0\n" + b"x" * 65536)


def slowly(c):
    while True:
        c.sendall(b"x")
        time.sleep(0.01)


def hang(_):
    time.sleep(1000)


ANSWERS = {
    "yes": lambda c: c.sendall(b"0\nreturn code: 0\n"),
    "nothing": lambda c: None,
    "hang": hang,
    "endless": endless,
    "slowly": slowly,
    "noise": lambda c: c.sendall(os.urandom(5000)),
    "escape": lambda c: c.sendall(b"0\n\x1b]0;owned\x07\x9b31m\xff\n"),
    "reset": lambda c: c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)),
}


def say(c, kind, fds=(), reason=0, n=0):
    with_it = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    c.sendmsg([struct.pack("<IIiiIiQQQQQQQ", kind, 0, reason, 0, n, 1, *[0] * 7)], with_it)


def memory(data=b"\0"):
    fd = os.memfd_create("x")
    os.write(fd, data)
    return fd


def table():
    return memory(b"\1\4\0\3LA;\0\0")


def never(_):
    """A pipe that is never written to and never closed."""
    return os.pipe()[0]


def many(c):
    while True:
        say(c, HELLO)


def no_memory(c):
    say(c, CLASSES, [zeros])


def huge(c):
    fd = memory()
    os.ftruncate(fd, 1 << 40)
    say(c, CLASSES, [fd], n=2**32 - 1)
    hang(c)


def roots(c):
    """A walk that reports the same root forever."""
    say(c, CLASSES, [table()], n=1)
    r, w = os.pipe()
    say(c, ATTEMPT, [r])
    os.close(r)
    os.write(w, b"\x3b\2\1\2")
    while True:
        os.write(w, b"\x1b\2" * 32768)


def no_walk(c):
    say(c, CLASSES, [table()], n=1)
    say(c, ATTEMPT, [never(c)])
    hang(c)


def device(c):
    say(c, CLASSES, [table()], n=1)
    say(c, ATTEMPT, [zeros])
    hang(c)


def descriptors(c):
    for _ in range(60):
        say(c, HELLO, [memory()] * 250)
    hang(c)


JOINS = {f.__name__.replace("_", "-"): f for f in (many, no_memory, huge, roots, no_walk, device, descriptors, hang)}
JOINS["close"] = lambda c: c.close()


def serve(listener):
    answer = ANSWERS[after("answer") or "yes"]
    join = JOINS.get(after("join"))
    while True:
        c = listener.accept()[0]
        asked = c.recv(8192).split(b"\0")
        answer(c)
        c.close()
        if join:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(asked[4].decode())
            threading.Thread(target=talk, args=(join, s), daemon=True).start()


def talk(join, s):
    try:
        if join is not JOINS["close"]:
            s.recv(4096)
        join(s)
    except OSError:
        s.close()


zeros = os.open("/dev/zero", os.O_RDONLY)
library = open(os.path.join(root, "libjvm.so"), "r+b")
mapped = mmap.mmap(library.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
os.chroot(root)
os.chdir("/")
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
name = f"/tmp/.java_pid{os.getpid()}"
asked, tell = os.pipe()
signal.signal(signal.SIGQUIT, lambda *_: os.write(tell, b"x"))
quits = "exchange" in habits or "chase" in habits
if quits:
    signal.signal(signal.SIGQUIT, lambda *_: os._exit(0))
if "exchange" in habits:
    threading.Thread(target=exchange, args=(b"/tmp", b"/away"), daemon=True).start()
if "chase" in habits:
    threading.Thread(target=chase, args=(after("chase"),), daemon=True).start()
if "socket-link" in habits:
    os.symlink(after("socket-link"), name)
print("ready", flush=True)
while True:
    select.select([asked], [], [])
    os.read(asked, 1)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if "other-socket" in habits:
        if os.fork() == 0:
            listener.bind(name)
            listener.listen()
            serve(listener)
    else:
        listener.bind(name)
        listener.listen()
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
