"""A program that works as long as it gets input: a head, the same piece again and again, and a tail at the end.
So it can be interrupted at any moment of its work, and run alone afterwards with exactly the same input."""
import contextlib
import dataclasses
import os
import re
import signal
import socket
import subprocess
import threading
import time

from lib import hw

PACE = 0.002  # seconds between pieces


@dataclasses.dataclass
class Program:
    argv: list
    piece: bytes
    head: bytes = b""
    tail: bytes = b""
    way: str = "pipe"  # its standard input; "serve": it connects to us and reads; "talk": we connect and it answers
    end: int = 0  # the signal that ends it
    prepare: object = None  # what it needs in the box
    needs: tuple = ()
    env: dict = dataclasses.field(default_factory=dict)
    user: str = ""
    pool: bool = False  # it starts and ends threads and mappings itself; only those that last are compared
    masks: object = lambda out: out  # removes from the output what differs between runs
    jvm: bool = False
    exe: str = ""  # part of the name of its final executable
    refused: bool = False  # it has no allocator that could be hooked
    pace: float = PACE


class Run:
    """One run; wrap may change the command, which writes its pid to a file."""

    def __init__(self, box, program, tag, wrap=lambda argv: argv):
        self.box, self.program, self.tag = box, program, tag
        self.count, self.error, self.answer = 0, None, bytearray()
        self.lock, self.answered, self.wanted, self.over = threading.Lock(), threading.Event(), False, False
        self.pace, self.limit = program.pace, None
        self.listener, self.port = None, 0
        if program.way != "pipe":
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
            if program.way == "serve":
                s.listen(1)
                self.listener = s
            else:
                s.close()
        if program.prepare:
            program.prepare(box, tag, self.port)
        words = {"port": str(self.port), "box": str(box.dir), "tag": tag}
        argv = [re.sub(r"\{(port|box|tag)\}", lambda m: words[m[1]], a) for a in program.argv]
        if program.user:
            argv = ["setpriv", "--reuid", program.user, "--regid", program.user, "--clear-groups", *argv]
        shell = ["sh", "-c", f'echo $$ >{tag}.pid; exec "$@" >{tag}.out 2>{tag}.err', "sh", *argv]
        self.p = box.start(wrap(shell), env=program.env, stdin=subprocess.PIPE if program.way == "pipe" else None)
        self.feeder = threading.Thread(target=self.feed, daemon=True)
        self.feeder.start()

    def pid(self):
        def written():
            if self.p.poll() is not None:
                raise hw.Failure(f"{self.program.argv[0]} ended: {hw.tail(self.errors() or self.p.stderr.read())}")
            with contextlib.suppress(OSError, ValueError):
                pid = int(open(self.box.path(self.tag + ".pid")).read())
                return pid if self.exe_is_there(pid) else None
        return hw.wait_for(written, f"{self.program.argv[0]} to begin")

    def exe_is_there(self, pid):
        name = self.program.exe or os.path.basename(self.program.argv[0])
        return name in os.readlink(f"/proc/{pid}/exe")

    def connect(self):
        if self.program.way == "serve":
            self.listener.settimeout(30)
            s = self.listener.accept()[0]
            s.recv(1 << 16)  # its request
            return s

        def try_once():
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", self.port))
        s = hw.wait_for(try_once, f"{self.program.argv[0]} to listen")
        threading.Thread(target=self.read_answers, args=(s,), daemon=True).start()
        return s

    def read_answers(self, s):
        with contextlib.suppress(OSError):
            while data := s.recv(1 << 16):
                self.answer += data
        self.answered.set()

    def feed(self):
        try:
            if self.program.way == "pipe":
                self.fd, write, close = self.p.stdin.fileno(), self.write, self.p.stdin.close
            else:
                s = self.connect()
                self.fd, write, close = s.fileno(), s.sendall, s.close
            write(self.program.head)
            while not self.over:
                with self.lock:
                    work = self.wanted and self.count != self.limit
                    if work:
                        write(self.program.piece)
                        self.count += 1
                time.sleep(self.pace if work else PACE)
            write(self.program.tail)
            if self.program.way == "talk":
                self.answered.wait(hw.CLOCK)
            close()
        except Exception as e:  # reported by the thread that waits for us
            self.error = e

    def write(self, data):
        self.p.stdin.write(data)
        self.p.stdin.flush()

    def failed(self, what):
        raise hw.Failure(f"{self.program.argv[0]} {what}: {self.error!r} {hw.tail(self.errors())}")

    def go(self):
        self.wanted = True

    def pause(self):
        """Stops giving input, and waits until the program has read all of it."""
        self.wanted = False
        if not self.lock.acquire(timeout=hw.CLOCK):
            self.failed("takes no more")
        self.lock.release()
        if self.error:
            self.failed("does not take its input")
        if self.program.way == "pipe":
            hw.wait_for(lambda: hw.unread(self.fd) == 0 or self.p.poll() is not None, "the pipe to be empty")

    def give(self, count):
        """Gives exactly this many pieces, as fast as the program reads them."""
        self.pace, self.limit, self.wanted = 0, count, True
        hw.wait_for(lambda: self.count == count or self.error, f"{self.program.argv[0]} to take its input", 120)

    def errors(self):
        with contextlib.suppress(OSError):
            return open(self.box.path(self.tag + ".err"), "rb").read()
        return b""

    def finish(self, pid=None):
        """Ends the input and with it the program. -> output, errors, answers, exit status"""
        self.over = True
        self.feeder.join(90)
        if self.feeder.is_alive() or self.error:
            self.failed("does not take its input")
        if self.program.end:
            os.kill(pid or self.p.pid, self.program.end)
        out, err = self.p.communicate(timeout=90) if not self.p.stdin else (self.p.stdout.read(), self.p.stderr.read())
        self.said = out + err
        status = self.p.wait(90)
        clean = self.program.masks
        output = open(self.box.path(self.tag + ".out"), "rb").read()
        return clean(output), clean(self.errors()), clean(bytes(self.answer)), status
