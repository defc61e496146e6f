#!/usr/bin/env python3
"""The service: who may record what with it, what a refused process leaves, privileges, sockets."""
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import hw
from attach import Late

USER, OTHER, GROUP = 54321, 54322, 54399  # nobody's


def start(box, *options, before=(), policy=None, **kw):
    """heapprofd on the box's sockets."""
    if policy is not None:
        pathlib.Path(box.path("policy")).write_text(policy)
        options += ("--policy", box.path("policy"))
    s = box.start([*before, hw.tool("heapprofd"), *options], stderr=open(box.path("service.log"), "wb"), **kw)
    hw.wait_for(lambda: os.path.exists(box.path("consumer")) or s.poll() is not None, "the service")
    hw.true(s.poll() is None, "the service ended: " + open(box.path("service.log")).read())
    return s


def profile(box, pid, name, *options, before=()):
    out = box.path(name)
    os.mkdir(out)
    os.chmod(out, 0o777)
    return out, box.run([*before, hw.tool("heap_profile"), "-p", str(pid), "-i", "1", "-o", out, "-d", "600", *options])


def refused(box):
    """The empty profile of a process that may not, or cannot, be profiled says why."""
    start(box, policy="machine = developer\nnever = t_late\n")
    t = Late(box)
    out, r = profile(box, t.pid, "out")
    hw.true(r.returncode != 0 and b"the policy never lets 't_late' be profiled" in r.stderr, hw.tail(r.stderr))
    report = box.run([hw.tool("heapwise"), "report", out + "/raw-trace"])
    hw.true(b"the policy never lets" in report.stdout + report.stderr, hw.tail(report.stdout + report.stderr))
    s = Late(box, [shutil.copy(hw.target("late"), box.path("t_other"))])
    os.kill(s.pid, signal.SIGSTOP)
    out, r = profile(box, s.pid, "out2")
    hw.true(b"is stopped; continue it first" in r.stderr, hw.tail(r.stderr))
    report = box.run([hw.tool("heapwise"), "report", out + "/raw-trace"])
    hw.true(b"is stopped; continue it first" in report.stdout + report.stderr,
            hw.tail(report.stdout + report.stderr))
    os.kill(s.pid, signal.SIGCONT)
    s.end()
    t.end()


def as_user(uid, groups=()):
    more = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), *more]


def need_root(box):
    hw.need("setpriv")
    if os.geteuid() != 0:
        raise hw.Skip("not root")
    os.chmod(box.dir, 0o777)
    if box.run([*as_user(USER), hw.tool("heapwise"), "help"]).returncode:
        raise hw.Skip("other users may not read the build directory")


def group(box):
    """Members of the policy's group profile their own processes with root's service; nobody else's,
    and nobody else does."""
    need_root(box)
    start(box, policy=f"group = {GROUP}\n")
    mine = Late(box, [*as_user(USER), hw.target("late")])
    yours = Late(box, [*as_user(OTHER), hw.target("late")])
    member = as_user(USER, [GROUP])
    out, r = profile(box, mine.pid, "mine", before=member)
    hw.equal(r.returncode, 0, hw.tail(r.stderr))
    hw.equal(hw.sound(out + "/raw-trace").last().pid, mine.pid, "a member's own process")
    out, r = profile(box, yours.pid, "yours", before=member)
    hw.true(r.returncode != 0 and b"belongs to user" in r.stderr, hw.tail(r.stderr))
    out, r = profile(box, mine.pid, "stranger", before=as_user(USER))
    hw.true(r.returncode != 0 and b"may not record with this service" in r.stderr, hw.tail(r.stderr))
    hw.equal(box.run([*as_user(USER), hw.tool("heapwise"), "record", "-o", box.path("own.trace"), "--no-report",
                      "--", "/bin/true"]).returncode in (0, 5), True, "his own recorder is his own affair")
    mine.end()
    yours.end()


if __name__ == "__main__":
    hw.main({"refused": refused, "group": group})
