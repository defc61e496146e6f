#!/usr/bin/env python3
"""A user who uses up what the service has, connections and descriptors: the others are answered all the same."""
import array
import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from attach import Late, attach, finish, joined, since
from service import GROUP, OTHER, USER, as_user, need_root, start

# As another user: `flood.py --do HABIT SOCKET NUMBER`, then "done"; it keeps what it has until its input ends.
HEAD = struct.Struct("<IIIIQ")
SOURCE = (pathlib.Path(__file__).resolve().parents[3] / "src/wire/control.h").read_text()
VERSION = int(SOURCE.split("#define HW_CONTROL_VERSION ")[1].split()[0].rstrip("u"))
STATUS, ERROR, DUMPED, STATUS_REPLY = 4, 33, 37, 39
FEW = 80  # descriptors of a service that nobody uses


def connect(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    for wait in range(2000):
        try:
            s.connect(path)
            return s
        except BlockingIOError:  # the queue is full: a socket with a time-out is not let wait for that
            time.sleep(0.005)
    raise TimeoutError(path)


def with_descriptors(s, data, n):
    fds = array.array("i", [s.fileno()] * n)
    s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])


def empty(path, number):
    """Messages without a byte that carry descriptors; with one; with more than there are places; too long ones."""
    kinds = ((b"", 1), (b"", 20), (b"x", 20), (HEAD.pack(VERSION, STATUS, 0, 0, 0), 20), (b"x" * (1 << 17), 5))
    for i in range(number):
        s = connect(path)
        try:
            with_descriptors(s, *kinds[i % len(kinds)])
        except OSError:
            pass
        s.close()


def many(path, number):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    kept = []
    for _ in range(number):
        try:
            kept.append(connect(path))
        except OSError:
            pass
    return kept


def lingering():
    """A socket whose last close waits for its other end, which does not read."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    s = socket.socket()
    s.connect(listener.getsockname())
    kept.append(listener.accept()[0])
    s.setblocking(False)
    try:
        while True:
            s.send(b"x" * 65536)
    except BlockingIOError:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
        return s


kept = []


def linger(path, number):
    """With a message that is read, with several of one, where no more is read, where all is lost at an end."""
    c = connect(path)
    kept.append(c)
    s = lingering()
    status = HEAD.pack(VERSION, STATUS, 0, 0, 0)
    for _ in range(40 if number == 2 else 0):
        c.send(status)
    fds = array.array("i", [s.fileno()] * (number % 2 + 1))
    c.sendmsg([b"" if number == 3 else status], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    s.close()
    if number >= 2:
        c.close()


def every_message(path, number):
    """What each message, with each kind of body and about each session, is answered with: number is a process."""
    bodies = (b"", struct.pack("<i", number), struct.pack("<I", 9), b"key", struct.pack("<Q", number) + b"name",
              struct.pack("<iIII", number, 0, 0, 0), bytes(300))
    heard = []
    for session in (0, 1, 2, 2**64 - 1):
        for kind in (k for k in range(24) if k != STATUS):
            for body in bodies:
                with connect(path) as s:
                    s.send(HEAD.pack(VERSION, kind, len(body), 0, session) + body)
                    answer = (0, b"")
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        s.send(HEAD.pack(VERSION, STATUS, 0, 0, 0))
                    while answer[0] != STATUS_REPLY:
                        data, fds, _, _ = socket.recv_fds(s, 1 << 18, 1)
                        if not data:
                            break
                        answer = HEAD.unpack_from(data)[1], data[HEAD.size:]
                        heard.append((answer[0], len(fds), answer[1].decode(errors="backslashreplace")))
    return heard


def flood(box, uid, habit, path, number):
    p = box.start([*as_user(uid), sys.executable, "-B", __file__, "--do", habit, path, number], stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"done\n", habit)
    return p


def stop(p):
    p.stdin.close()
    p.wait(hw.CLOCK)


def descriptors(s):
    return len(os.listdir(f"/proc/{s.pid}/fd"))


def ask(path):
    """(type, text) of the answer to STATUS, or what it was refused with."""
    with connect(path) as s:
        try:
            s.send(HEAD.pack(VERSION, STATUS, 0, 0, 0))
        except BrokenPipeError:
            pass  # refused already: why is still there to be read
        data = s.recv(1 << 18)
        return (HEAD.unpack_from(data)[1], data[HEAD.size:].decode()) if data else (0, "")


def answered(box, path, user=USER):
    """Another user's."""
    r = box.run([*as_user(user), sys.executable, "-B", __file__, "--do", "ask", path, "0"], check=0)
    return int(r.stdout.split()[0]), r.stdout.decode()


def limited(n):
    return ["prlimit", f"--nofile={n}:{n}", "setpriv", "--bounding-set", "-sys_resource"]


def empty_messages(box):
    """Nothing that came with them stays open, and everybody is answered."""
    need_root(box)
    s = start(box, before=limited(1024))
    before = descriptors(s)
    stop(flood(box, OTHER, "empty", box.path("consumer"), 2000))
    hw.equal(answered(box, box.path("consumer"))[0], STATUS_REPLY, "the answer")
    hw.wait_for(lambda: descriptors(s) <= before + 2, f"the descriptors to be {before}, they are {descriptors(s)}")


def many_connections(box):
    """One user's commands, and one user's programs: the other user's come through, and root's."""
    need_root(box)
    s = start(box, before=limited(1024))
    commands = flood(box, OTHER, "many", box.path("consumer"), 200)
    programs = flood(box, OTHER, "many", box.path("producer"), 900)
    hw.true(descriptors(s) < 1024 // 4 + FEW + 64, f"{descriptors(s)} descriptors")
    hw.equal(answered(box, box.path("consumer"))[0], STATUS_REPLY, "a command's answer")
    hw.equal(ask(box.path("consumer"))[0], STATUS_REPLY, "root's")
    hw.wait_for(lambda: json.loads(ask(box.path("consumer"))[1])["refused_clients"] == 900 - 64,
                "the refused connections to be counted")
    hw.true('"refused_clients":0' in answered(box, box.path("consumer"))[1], "those of another user are not told")
    code, text = answered(box, box.path("consumer"), OTHER)
    hw.equal(code, ERROR, "one command more")
    hw.true("too many" in text, text)
    hw.equal(pathlib.Path(box.path("service.log")).read_text().count(f"programs of user {OTHER} have"), 1, "told")
    out = box.path("out")
    os.mkdir(out)
    os.chmod(out, 0o777)
    p = box.start([*as_user(USER), hw.target("late")], stdin=subprocess.PIPE, env={"LD_PRELOAD": hw.preload_library()})
    pages = pathlib.Path(f"/proc/{p.pid}/maps")
    hw.wait_for(lambda: "hw-control" in pages.read_text(), "another user's program to be welcomed")
    stop(commands)
    stop(programs)


def no_descriptors(box):
    """A service that has none left says so, to who asks and in its log, once; it does not spin, and goes on afterwards."""
    need_root(box)
    s = start(box, before=limited(64))
    first = flood(box, OTHER, "many", box.path("consumer"), 60)
    kind, text = answered(box, box.path("consumer"))
    hw.equal(kind, ERROR, f"the answer: {text}")
    hw.true("no more descriptors" in text, text)
    used = lambda: sum(map(int, pathlib.Path(f"/proc/{s.pid}/stat").read_text().rsplit(")")[1].split()[11:13]))
    before = used()
    time.sleep(1)  # what is measured
    hw.true(used() - before < os.sysconf("SC_CLK_TCK") // 3, f"{used() - before} ticks in a second")
    stop(first)
    hw.wait_for(lambda: answered(box, box.path("consumer"))[0] == STATUS_REPLY, "an answer afterwards")
    log = open(box.path("service.log")).read()
    hw.equal(log.count("no more descriptors"), 1, f"lines of the log: {log}")


def lingering_sockets(box):
    """A descriptor whose close waits comes with a message, read or not: nobody else waits."""
    need_root(box)
    s = start(box)
    before = descriptors(s)
    for name in ("consumer", "producer"):
        for number in range(4):
            os.kill(s.pid, signal.SIGSTOP)  # the last one to have it
            p = flood(box, OTHER, "linger", box.path(name), str(number))
            os.kill(s.pid, signal.SIGCONT)
            began = time.monotonic()
            hw.equal(answered(box, box.path("consumer"))[0], STATUS_REPLY, f"the answer beside {name} {number}")
            hw.true(time.monotonic() - began < 20, f"waited for {name} {number}")
            stop(p)
    hw.wait_for(lambda: descriptors(s) <= before + 2, f"the descriptors to be {before}, they are {descriptors(s)}")


def strangers(box):
    """Under the production policy, root records what is marked. Whatever a member of the group or anybody else
    says to the service, he learns nothing of that session and changes nothing in it."""
    need_root(box)
    start(box, policy=f"machine = production\ngroup = {GROUP}\nprofileable = t_late\n")
    t = Late(box)
    before = t.do("go 10")
    p = attach(box, str(t.pid))
    joined(box, p, t.pid)
    for who in (as_user(USER, [GROUP]), as_user(OTHER)):
        r = box.run([*who, sys.executable, "-B", __file__, "--do", "every_message", box.path("consumer"), str(t.pid)],
                    check=0)
        heard = json.loads(r.stdout)
        hw.equal({kind for kind, _, _ in heard}, {ERROR, DUMPED, STATUS_REPLY}, "answers")
        for kind, fds, text in heard:
            hw.equal(fds, 0, "descriptors")
            hw.true("late" not in text and ".trace" not in text, text)
            hw.true(kind != DUMPED or not text.strip("\0"), f"dumped {text!r}")
            hw.true(kind != STATUS_REPLY or '"sessions":[]' in text, text)
    hw.true(p.poll() is None, "root's session goes on")
    hw.equal([s["dumps"] for s in json.loads(ask(box.path("consumer"))[1])["sessions"]], [0], "dumps of root's session")
    after = t.do("go 500")
    trace = finish(box, p)
    hw.exact(trace.last(), since(after, before), "what it recorded, at its own rate")
    t.end()


if __name__ == "__main__" and sys.argv[1:2] == ["--do"]:
    habit, path, number = sys.argv[2], sys.argv[3], int(sys.argv[4])
    if habit == "ask":
        print(*ask(path))
    elif habit == "every_message":
        print(json.dumps(every_message(path, number)))
    else:
        mine = {"empty": empty, "many": many, "linger": linger}[habit](path, number)
        print("done", flush=True)
        sys.stdin.read()
elif __name__ == "__main__":
    hw.main({"empty-messages": empty_messages, "many-connections": many_connections, "no-descriptors": no_descriptors,
             "lingering-sockets": lingering_sockets, "strangers": strangers})
