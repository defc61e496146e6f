#!/usr/bin/env python3
"""Root asks a process for its heap that only looks like a JVM and means harm: nothing of root's is changed, nothing
hangs or grows, and a reason is said."""
import os
import pathlib
import resource
import socket
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

UID = 64999
FAKE = pathlib.Path(__file__).resolve().parent.parent / "lib" / "fake_jvm.py"
MOST_MB = 400  # of the command; a table of classes may take 256


class Fake:
    """Its root is a folder of its own; root's files lie beside that."""

    def __init__(self, box, *habits):
        if os.geteuid() != 0:
            raise hw.Skip("only root has something to lose here")
        self.box, self.root = box, box.dir / "theirs"
        box.dir.chmod(0o755)
        if not self.root.exists():
            self.victims = box.dir / "victims"
            self.victims.mkdir()
            (self.victims / "file").write_text("root's")
            for d in self.root, self.root / "tmp":
                d.mkdir()
                os.chown(d, UID, UID)
            (self.root / "libjvm.so").write_bytes(b"\0" * 4096)
        self.victims = box.dir / "victims"
        self.habits = habits

    def __enter__(self):
        self.before = self.look()
        self.p = self.box.start([sys.executable, "-B", FAKE, self.root, UID, *self.habits])
        hw.equal(self.p.stdout.readline(), b"ready\n", f"{self.habits}")
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()

    def look(self):
        file = self.victims / "file"
        st, folder = file.stat(), self.victims.stat()
        return (st.st_uid, st.st_gid, st.st_mode, file.read_text(), folder.st_mtime_ns, folder.st_uid,
                sorted(os.listdir(self.victims)))

    def dump(self, *options, timeout=hw.CLOCK, under=()):
        begun = time.monotonic()
        r = self.box.run([*under, hw.tool("heapwise"), "java", "dump", *options, "-f", "-o", self.box.path("x.trace"), str(self.p.pid)],
                         timeout=timeout)
        hw.equal(self.look(), self.before, f"root's files, {self.habits}")
        text = r.stderr.decode()
        hw.true(r.returncode in (1, 77), f"{self.habits}: exit {r.returncode}: {text}")
        hw.true(not os.path.exists(self.box.path("x.trace")), f"{self.habits}: a file was left")
        hw.true(all(c >= " " or c == "\n" for c in text), f"{self.habits}: {text!r}")
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        hw.true(most < MOST_MB, f"{self.habits}: {most} MB")
        print(f"  {' '.join(map(str, self.habits))}: {time.monotonic() - begun:.1f} s, {text.splitlines()[0][:110]}")
        return text

    def refuses(self, reason, **more):
        """reason: a code, or more than one word of the sentence."""
        text = self.dump(**more)
        hw.true((reason if " " in reason else f" {reason}: ") in text, f"{self.habits}: want {reason}: {text}")


def tmp_is_a_link(box):
    """To a folder of root's: neither socket, library nor trigger is made there, and nothing is removed."""
    fake = Fake(box, "answer", "nothing")
    (fake.root / "tmp").rmdir()
    (fake.root / "tmp").symlink_to(fake.victims)
    with fake:
        (fake.victims / f".java_pid{fake.p.pid}").touch()
        fake.before = fake.look()
        fake.refuses("not_its_own")


def tmp_is_exchanged(box):
    """In a race: now a folder, now that link."""
    for _ in range(8):
        fake = Fake(box, "exchange")
        if not (fake.root / "away").is_symlink() and not (fake.root / "tmp").is_symlink():
            (fake.root / "away").symlink_to(fake.victims)
        with fake:
            fake.dump()


def names_are_chased(box):
    """What is put there becomes a link to a file of root's, as soon as it is seen. Calls that go by names are held up."""
    hw.need("strace")
    slow = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=file", "-e",
            "inject=chmod,fchmodat,chown,lchown,fchownat,unlink:delay_enter=300000"]
    for _ in range(2):
        with Fake(box, "chase", box.dir / "victims" / "file") as fake:
            fake.dump(under=slow)


def tmp_is_of_another(box):
    """A /tmp in which a stranger can change names is not used, nor root's own, where he could not write."""
    for owner, mode in ((UID + 1, 0o1777), (0, 0o777), (UID, 0o777)):
        fake = Fake(box, "answer", "nothing")
        os.chown(fake.root / "tmp", owner, owner)
        (fake.root / "tmp").chmod(mode)
        with fake:
            fake.refuses("not_its_own")
    os.chown(fake.root / "tmp", 0, 0)
    (fake.root / "tmp").chmod(0o755)
    with Fake(box, "answer", "nothing") as fake:
        fake.refuses("no_room")
        hw.equal(os.listdir(fake.root / "tmp"), [], "files made where the JVM's user may make none")


def its_socket_is_not_its_own(box):
    """A link to a socket of root's, or another process that listens: nothing is said to them."""
    there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fake = Fake(box, "socket-link", box.dir / "victims" / "socket")
    there.bind(str(fake.victims / "socket"))
    there.listen()
    with fake:
        fake.refuses("not_its_own")
    there.setblocking(False)
    try:
        there.accept()
        raise hw.Failure("root's socket was connected to")
    except BlockingIOError:
        pass
    (fake.root / "tmp" / f".java_pid{fake.p.pid}").unlink()
    with Fake(box, "other-socket") as fake:
        fake.refuses("not_its_own")


def answers(box):
    """To the attach protocol."""
    for what, reason in (("nothing", "attach_denied_uid"), ("reset", "attach_denied_uid"), ("endless", "jvm_talks"),
                         ("noise", "agent_open_failed"), ("escape", "agent_open_failed")):
        with Fake(box, "answer", what) as fake:
            fake.refuses(reason)


def words(box):
    """As our library."""
    for what, reason in (("close", "jvm_talks"), ("many", "jvm_talks"), ("no-memory", "jvm_refused"), ("huge", "file is larger than"),
                         ("device", "jvm_refused"), ("descriptors", "jvm_talks"), ("roots", "or it is not a JVM")):
        with Fake(box, "join", what) as fake:
            fake.refuses(reason, timeout=hw.CLOCK)


if __name__ == "__main__":
    hw.main({"tmp-is-a-link": tmp_is_a_link, "tmp-is-exchanged": tmp_is_exchanged, "names-are-chased": names_are_chased,
             "tmp-is-of-another": tmp_is_of_another, "socket-not-its-own": its_socket_is_not_its_own,
             "answers": answers, "words": words})
