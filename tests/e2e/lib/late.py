"""The target that does what it is told."""
import subprocess

from lib import hw


class Late:
    """tests/targets/threads/late.c: does what it is told, a line at a time."""

    def __init__(self, box, argv=None, env=None, **kw):
        self.p = box.start(argv or [hw.target("late")], stdin=subprocess.PIPE, env=env, **kw)
        self.pid = self.p.pid
        hw.equal(self.p.stdout.readline(), b"ready\n", "late")

    def do(self, command):
        """-> {function: [alloc, allocs, live, live objects]} from the start on."""
        self.p.stdin.write(command.encode() + b"\n")
        self.p.stdin.flush()
        out = b""
        while not out.endswith(b"done\n"):
            line = self.p.stdout.readline()
            if not line:
                raise hw.Failure(f"the program ended: {hw.tail(self.p.stderr.read())}")
            if line.startswith(b"child "):
                self.pid = int(line.split()[1])
            out += line
        return hw.expectations(out)

    def end(self):
        self.p.stdin.close()
        hw.equal(self.p.wait(hw.CLOCK), 0, "the program's exit")
