#!/usr/bin/env python3
"""heapwise tree and heapwise live on a terminal: a pty of our own, read by a terminal emulator (pyte)."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

try:
    import pyte
except ImportError:
    pyte = None
    if sys.argv[1:] != ["--list"] and sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):  # Debian's has its packages
        os.execv("/usr/bin/python3", ["/usr/bin/python3", "-B", *sys.argv])


class Terminal:
    """A program on a terminal of `rows` by `cols`; what it shows is in .lines()."""

    def __init__(self, box, argv, rows=24, cols=80, term="xterm-256color", **env):
        if not pyte:
            raise hw.Skip("no python3-pyte; tools/bootstrap installs it")
        self.screen = pyte.Screen(cols, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.master, slave = pty.openpty()
        self.resize(rows, cols, tell=False)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.p = box.start(argv, env={"TERM": term, **env}, stdin=slave, stdout=slave, stderr=slave,
                           preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, cols, tell=True):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.screen.resize(rows, cols)
        if tell:
            self.p.send_signal(signal.SIGWINCH)

    def read(self, seconds=0.05):
        end = time.monotonic() + seconds
        while select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.raw += data
            self.stream.feed(data)

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def keys(self, text, pause=0.25):
        os.write(self.master, text.encode() if isinstance(text, str) else text)
        self.read(pause)

    def until(self, pattern, seconds=15):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()
            m = re.search(pattern, self.text())
            if m:
                return m
            if self.p.poll() is not None:
                self.read()
                break
        raise hw.Failure(f"'{pattern}' did not come:\n{self.text()}\nraw: {self.raw[-400:]!r}")

    def restored(self):
        """After the end: cursor, wrapping, the old screen, echo, whole lines."""
        self.read(0.2)
        enter, leave = self.raw.rfind(b"\x1b[?1049h"), self.raw.rfind(b"\x1b[?1049l")
        hw.true(enter < 0 or leave > enter, "the first screen is back")
        hw.true(self.raw.rfind(b"\x1b[?25h") > self.raw.rfind(b"\x1b[?25l"), "the cursor is back")
        hw.equal(termios.tcgetattr(self.slave)[:4], self.before[:4], "the terminal's modes")


HOSTILE = "evil\x1b]0;owned\x07\x1b[2Jname"
SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>
void *volatile keep[100000]; int n;
__attribute__((noinline)) void hostile(void) { keep[n++] = memset(malloc(3000), 1, 3000); }
__attribute__((noinline)) void table(size_t s) { keep[n++] = memset(malloc(s), 1, s); }
__attribute__((noinline)) void outer(void) { table(50000); hostile(); }
int main(int argc, char **argv) {
    for (int i = 0; i < 20; i++) outer();
    puts("ready"); fflush(stdout);
    for (int c; argc > 1 && (c = getchar()) != EOF;) if (c == '+' || c == '.') { if (c == '+') outer(); else free(keep[n] = malloc(10)); puts("done"); fflush(stdout); }
    return 0;
}
"""


def program(box):
    with open(box.path("evil.c"), "w") as f:
        f.write(SOURCE)
    hw.need("cc", "objcopy")
    box.run(["cc", "-O1", "-fno-omit-frame-pointer", "-c", "evil.c"], check=0)
    box.run(["objcopy", f"--redefine-sym=hostile={HOSTILE}", "evil.o"], check=0)
    box.run(["cc", "-rdynamic", "-o", "evil", "evil.o"], check=0)
    return box.path("evil")


def trace(box):
    box.run([hw.tool("heapwise"), "record", "-q", "-i", "1", "-o", "t.trace", "--", program(box)], check=0)
    return [hw.tool("heapwise"), "tree", "t.trace"]


def harmless(t):
    hw.true(b"\x1b]0;" not in t.raw and b"\x07" not in t.raw and b"\x1b[2J" not in t.raw, "no byte of a name steers the terminal")


def tree(box):
    t = Terminal(box, trace(box))
    t.until(r"outer")
    hw.true(t.lines()[0].startswith("evil ("), t.lines()[0])
    hw.true(re.search(r"1\.\d\d MiB +100\.0%", t.text()), t.text())
    t.keys("*")
    t.until(r"table")
    t.until(r"evil\\x1b\]0;owned\\x07\\x1b\[2Jname")
    harmless(t)
    hw.true(len(t.lines()) == 24 and "q: quit" in t.lines()[23], t.text())
    t.keys("/table\r")
    marked = [i for i in range(24) if t.screen.buffer[i][0].reverse]
    hw.true(len(marked) == 1 and "table" in t.lines()[marked[0]], f"the search marks its row: {marked}\n{t.text()}")
    t.keys("/nosuchname\r")
    t.until(r"no name contains 'nosuchname'")
    t.keys("m")
    t.until(r"objects")
    t.keys("i")
    t.until(r"bottom-up")
    t.keys("?")
    t.until(r"Keys")
    t.keys(" ")
    t.resize(10, 40)
    t.read(0.4)
    hw.true(all(len(line) <= 40 for line in t.lines()), t.text())
    t.resize(50, 160)
    t.until(r"q: quit")
    t.keys("q")
    hw.equal(t.p.wait(hw.CLOCK), 0, "exit")
    t.restored()


def tree_renamed(box):
    """A stripped program that is a link to a file of another name: its functions go by what it was started as."""
    trace(box)
    box.run(["cc", "-O1", "-fno-omit-frame-pointer", "-s", "-o", "other-name", "evil.c"], check=0)
    os.symlink("other-name", box.path("server"))
    box.run([hw.tool("heapwise"), "record", "-q", "-i", "1", "-o", "r.trace", "--", box.path("server")], check=0)
    t = Terminal(box, [hw.tool("heapwise"), "tree", "r.trace"])
    t.until(r"q: quit")
    t.keys("*")
    t.until(r"server\+0x")
    hw.true("other-name" not in t.text(), t.text())
    t.keys("q")
    hw.equal(t.p.wait(hw.CLOCK), 0, "exit")


def tree_signals(box):
    argv = trace(box)
    for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGQUIT):
        t = Terminal(box, argv)
        t.until("outer")
        t.p.send_signal(sig)
        hw.equal(t.p.wait(hw.CLOCK), -sig, "the end")
        t.restored()
    t = Terminal(box, argv)
    t.until("outer")
    t.keys("\x03")
    hw.equal(t.p.wait(hw.CLOCK), 0, "Ctrl-C quits")
    t.restored()


def tree_plain(box):
    """Not a terminal, a dumb one, --no-pager, --json: printed."""
    argv = trace(box)
    hw.true(b"outer" in box.run(argv, check=0).stdout, "through a pipe")
    hw.true(json.loads(box.run([*argv, "--json"], check=0).stdout)["nodes"], "as JSON")
    for extra, term in (([], "dumb"), (["--no-pager"], "xterm")):
        t = Terminal(box, [*argv, *extra], term=term)
        t.until("outer")
        hw.equal(t.p.wait(hw.CLOCK), 0, "exit")
        hw.true(b"\x1b[?1049h" not in t.raw, "no screen")


class Evil:
    """The program, waiting for '+' on its standard input."""

    def __init__(self, box, name=None):
        path = program(box)
        if name:
            path = shutil.copy(path, box.path(name))
        self.p = box.start([path, "x"], stdin=subprocess.PIPE)
        hw.equal(self.p.stdout.readline(), b"ready\n", "the program")
        self.pid = self.p.pid

    def grow(self, n=1, what=b"+"):
        for _ in range(n):
            self.p.stdin.write(what)
            self.p.stdin.flush()
            hw.equal(self.p.stdout.readline(), b"done\n", "the program")

    def end(self):
        self.p.stdin.close()
        hw.equal(self.p.wait(hw.CLOCK), 0, "the program's exit")


def join(e):
    """It answers the recorder with its next allocations, and is recorded when its tables are made."""
    def asked():
        e.grow(1, b".")
        return any("memfd:" in l and "ring" in l for l in open(f"/proc/{e.pid}/maps"))
    hw.wait_for(asked, "attach")
    e.grow(3, b".")


def recorded(box, pid):
    doc = json.loads(box.run([hw.tool("heapwise"), "ps", "--json"], check=0).stdout)
    return any(pid in r["pids"] for r in doc["recordings"])


def live(box):
    e = Evil(box)
    before = set(os.listdir(box.dir))
    t = Terminal(box, [hw.tool("heapwise"), "live", "-i", "1", "-n", "200ms", str(e.pid)])
    t.until(r"Waiting|SELF")
    join(e)
    e.grow()
    t.until(r"SELF +TOTAL +GROWTH +COUNT +RATE/s +FUNCTION")
    e.grow(9)
    t.until(r"488\.3 KiB|488 KiB")  # ten times 50,000
    hw.true(re.search(r"evil \(\d+\)", t.lines()[0]) and "one sample every 1 B" in t.lines()[0], t.lines()[0])
    hw.true("lost 0" in t.lines()[1] and "exact" in t.lines()[1], t.lines()[1])
    hw.true(any(0x2800 <= ord(c) < 0x2900 for line in t.lines()[2:5] for c in line), "a curve in Braille")
    t.until(r"evil\\x1b\]0;owned")
    harmless(t)
    t.keys("b")
    t.until(r"growth counts from now")
    e.grow(2)
    t.keys("g")
    t.until(r"\+97\.7 KiB +12 .*table")
    t.keys("/hostilex\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7fable\r")
    t.read(0.4)
    t.keys("/table\r")
    t.until(r"only names with 'table'")
    hw.true("outer" not in t.text().split("FUNCTION")[1], t.text())
    t.keys("\r")  # the function, in the tree
    t.until(r"Tab: table")
    t.until(r"▾ outer")
    e.grow(1)
    t.read(0.6)
    hw.true("▾ outer" in t.text(), "what is open stays open from look to look")
    t.keys("\t")
    t.keys(" ")
    t.until("PAUSED")
    t.keys(" ")
    for rows, cols in ((12, 50), (60, 200), (5, 20), (24, 80)):
        t.resize(rows, cols)
        t.read(0.5)
        hw.true(e.p.poll() is None and t.p.poll() is None, "still there")
    t.until(r"SELF +TOTAL")
    t.keys("d")
    t.until(r"leaves no file")
    t.keys("e", 1.5)
    saved = t.until(r"saved (\S+)")[1]
    doc = json.loads(box.run([hw.tool("heapwise"), "report", "--json", saved], check=0).stdout)
    hw.equal({s["function"]: s["space"] for s in doc["sites"]}["table"], 13 * 50000, "the saved trace")
    t.keys("q")
    hw.equal(t.p.wait(hw.CLOCK), 0, "exit")
    t.restored()
    hw.equal(set(os.listdir(box.dir)) - before, {saved}, "files left behind")
    hw.true(not recorded(box, e.pid), "it is not recorded any more")
    e.grow()
    e.end()


def live_ends(box):
    """The process ends, the terminal goes, a signal comes: said, restored, detached."""
    e = Evil(box)
    t = Terminal(box, [hw.tool("heapwise"), "live", "-i", "1", "-n", "200ms", str(e.pid)])
    t.until(r"Waiting|SELF")
    join(e)
    e.grow(2)
    t.until(r"table")
    e.end()
    t.until(r"the process has ended; q quits")
    hw.true("table" in t.text(), "the last look stays")
    t.keys("q")
    hw.equal(t.p.wait(hw.CLOCK), 0, "exit")
    t.restored()
    e = Evil(box)
    t = Terminal(box, [hw.tool("heapwise"), "live", "-i", "1", "-n", "200ms", str(e.pid)])
    t.until(r"Waiting|SELF")
    join(e)
    e.grow(2)
    t.until(r"table")
    t.p.send_signal(signal.SIGTERM)
    hw.equal(t.p.wait(hw.CLOCK), -signal.SIGTERM, "the end")
    t.restored()
    hw.wait_for(lambda: not recorded(box, e.pid), "it is left alone")
    e.grow(3)
    e.end()


def live_plain(box):
    """Exact figures, of a look of ours and of a recording of somebody else, which they do not change."""
    name = f"evil{os.getpid()}"  # other cases run at the same time, and have an "evil" each
    e = Evil(box, name)
    p = box.start([hw.tool("heapwise"), "live", "--once", "--json", "-i", "1", "-n", "2s", str(e.pid)])
    join(e)
    e.grow(4)
    out, err = p.communicate(timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, f"exit: {err}")
    doc = json.loads(out)
    rows = {r["function"]: r for r in doc["functions"]}
    hw.equal((rows["table"]["space"], rows["table"]["objects"], rows[HOSTILE]["space"]), (4 * 50000, 4, 4 * 3000), "what was asked for")
    hw.equal((doc["type"], doc["recording"], doc["lost"]), ("live", None, 0), "its head")
    a = box.start([hw.tool("heapwise"), "attach", "-q", "-i", "1", "-c", "300ms", "-o", "a.trace", str(e.pid)])
    join(e)
    e.grow(5)
    doc = json.loads(box.run([hw.tool("heapwise"), "live", "--once", "--json", "-n", "100ms", str(e.pid)], check=0).stdout)
    hw.true(doc["recording"], "whose recording it is")
    e.grow(1)
    lines = box.start([hw.tool("heapwise"), "live", "-n", "200ms", name])
    text = b""
    while text.count(b"FUNCTION") < 3:
        line = lines.stdout.readline()
        hw.true(line, "live goes on")
        text += line
    hw.true(b"evil\\x1b]0;owned\\x07" in text and b"\x1b" not in text, "names are escaped, too, where no terminal is")
    lines.send_signal(signal.SIGINT)
    hw.equal(lines.wait(hw.CLOCK), 0, "Ctrl-C")
    a.send_signal(signal.SIGINT)
    hw.equal(a.wait(hw.CLOCK), 0, "attach")
    e.end()
    report = json.loads(box.run([hw.tool("heapwise"), "report", "--json", "a.trace"], check=0).stdout)
    hw.equal({s["function"]: s["space"] for s in report["sites"]}["table"], 6 * 50000, "the recording lacks nothing")
    hw.equal({r["function"]: r["space"] for r in doc["functions"]}["table"], 5 * 50000, "the look before the last one")
    none = box.run([hw.tool("heapwise"), "live", "--once", "no-such-process-here"], check=None)
    hw.true(none.returncode == 1 and b"no process named" in none.stderr, f"{none.stderr}")


if __name__ == "__main__":
    hw.main({"live": live, "live-ends": live_ends, "live-plain": live_plain, "tree": tree, "tree-renamed": tree_renamed, "tree-signals": tree_signals, "tree-plain": tree_plain})
