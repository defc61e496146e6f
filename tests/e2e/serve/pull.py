#!/usr/bin/env python3
"""/debug/pprof: what a scraper pulls of a running program, as Go's own pprof reads it."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from serve import NOBODY, Served


class Steps:
    """tests/targets/heap/steps.c under a recording of every allocation."""
    def __init__(self, box, name, program):
        """program: its own name, as others on this machine may be recorded, too."""
        if not os.path.exists(box.path(program)):
            shutil.copy(hw.target("steps"), box.path(program))
        self.p = box.start([hw.tool("heapwise"), "record", "-q", "-i", "1", "-o", f"{name}.trace", "--", box.path(program)],
                           stdin=subprocess.PIPE)
        hw.equal(self.p.stdout.readline(), b"ready 1\n", "its start")
        self.do("a 1")
        kids = pathlib.Path(f"/proc/{self.p.pid}/task/{self.p.pid}/children").read_text().split()
        self.pid = next(int(k) for k in kids if program in os.readlink(f"/proc/{k}/exe"))

    def do(self, step):
        self.p.stdin.write(step.encode() + b"\n")
        self.p.stdin.flush()
        hw.equal(self.p.stdout.readline(), b"ok\n", step)

    def end(self):
        self.p.stdin.write(b"q\n")
        self.p.stdin.close()
        self.p.wait(hw.CLOCK)


def pull(s, path, **kw):
    status, body = s.ask("GET", path, **kw)
    hw.equal(status, 200, f"{path}: {body[:200]}")
    return body


def read(box, body):
    """Go's pprof -raw: sample types with the default marked, and the sum of each for sites fn_a and fn_b."""
    with open(box.path("pulled.pb.gz"), "wb") as f:
        f.write(body)
    raw = box.run(["go", "tool", "pprof", "-raw", "pulled.pb.gz"], check=0).stdout.decode()
    types = re.search(r"Samples:\n(.*)\n", raw)[1].split()
    names = dict(re.findall(r"^\s+(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(\S+)", raw, re.M))
    sums = {}
    for values, stack in re.findall(r"^\s+([-\d ]+): ([\d ]+)$", raw, re.M):
        for site in ("fn_a", "fn_b"):
            if site in (names.get(i) for i in stack.split()):
                old = sums.get(site, [0] * 4)
                sums[site] = [a + int(b) for a, b in zip(old, values.split())]
    period = re.search(r"Period: (\d+)", raw)
    return types, sums, period and int(period[1]), re.search(r"PeriodType: (.*)", raw)[1]


def heap(box):
    """Exact at interval 1: now, since a while ago, one heap, text; the own user needs no token."""
    hw.need("go")
    name = f"steps{os.getpid()}"
    t = Steps(box, "one", name)
    t.do("a 99")
    t.do("b 10")
    t.do("f 40")
    s = Served(box)
    body = pull(s, f"/debug/pprof/heap?pid={t.pid}")
    hw.equal(body[:2], b"\x1f\x8b", "packed")
    types, sums, period, what = read(box, body)
    hw.equal(types, ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes[dflt]"], "sample types")
    hw.equal((period, what), (1, "space bytes"), "the period")
    hw.equal(sums, {"fn_a": [100, 100000, 60, 60000], "fn_b": [10, 20000, 10, 20000]}, "values")
    hw.equal(read(box, pull(s, f"/debug/pprof/heap?name={name}&heap=libc.malloc"))[1], sums, "by name, of its heap")
    hw.equal(read(box, pull(s, f"/debug/pprof/heap?pid={t.pid}&heap=none"))[1], {}, "of a heap that it has not")
    types, again, _, _ = read(box, pull(s, f"/debug/pprof/allocs?name={name}"))
    hw.equal((types[1], again), ("alloc_space/bytes[dflt]", sums), "allocs")
    text = pull(s, f"/debug/pprof/heap?pid={t.pid}&debug=1").decode()
    hw.true(re.match(r"heap profile: \d+: \d+ \[\d+: \d+\] @ heap/1\n", text), f"{text[:200]}")
    hw.true("\n60: 60000 [100: 100000] @\n#\tfn_a" in text, f"{text[:2000]}")
    answer = []
    waiting = threading.Thread(target=lambda: answer.append(pull(s, f"/debug/pprof/heap?pid={t.pid}&seconds=3")))
    waiting.start()
    time.sleep(1.2)  # what is tested: in the middle of the time that is asked for
    t.do("a 7")
    t.do("f 17")
    waiting.join()
    hw.equal(read(box, answer[0])[1].get("fn_a"), [7, 7000, -10, -10000], "in three seconds")
    hw.true(f"pid={t.pid}  " in pull(s, "/debug/pprof/").decode(), "the list")
    u = Steps(box, "two", name)
    u.do("b 1")
    hw.wait_for(lambda: f"pid={u.pid}  " in pull(s, "/debug/pprof/").decode(), "it is recorded")
    hw.equal(read(box, pull(s, f"/debug/pprof/heap?name={name}"))[1], {"fn_a": [108, 108000, 51, 51000], "fn_b": [11, 22000, 11, 22000]}, "both of that name")
    wrong = ((400, "?pid=x"), (400, "?pid=-1"), (400, f"?pid={t.pid}&name={name}"), (400, f"?pid={t.pid}&seconds=999999"),
             (400, "?debug=yes"), (404, "?pid=1"), (404, "?name=nobody"))
    for status, query in wrong:
        have, text = s.ask("GET", f"/debug/pprof/heap{query}")
        hw.equal(have, status, f"{query}: {text}")
    u.end()
    t.end()
    hw.equal(s.ask("GET", f"/debug/pprof/heap?pid={t.pid}")[0], 404, "nobody is recorded")
    s.stop()


def ends_meanwhile(box):
    """A process that ends in the time of a difference: of two the other is left, of one nothing."""
    hw.need("go")
    name = f"steps{os.getpid()}"
    t, u = Steps(box, "one", name), Steps(box, "two", name)
    s = Served(box)
    answer = []
    waiting = threading.Thread(target=lambda: answer.append(s.ask("GET", f"/debug/pprof/heap?name={name}&seconds=3")))
    waiting.start()
    time.sleep(1)  # the same
    u.do("b 3")
    t.end()
    waiting.join()
    hw.equal(answer[0][0], 200, f"{answer[0][1]}")
    hw.equal(read(box, answer[0][1])[1], {"fn_b": [3, 6000, 3, 6000]}, "what the other did")
    waiting = threading.Thread(target=lambda: answer.append(s.ask("GET", f"/debug/pprof/heap?name={name}&seconds=2")))
    waiting.start()
    time.sleep(0.7)  # the same
    u.end()
    waiting.join()
    hw.equal(answer[1][0], 404, f"{answer[1][1]}")
    s.stop()


def token(box):
    """Another user needs the token; --token-file keeps it."""
    t = Steps(box, "one", f"steps{os.getpid()}")
    s = Served(box, "--token-file", "secret")
    hw.equal(open(box.path("secret")).read().strip(), s.token, "the file")
    hw.equal(os.stat(box.path("secret")).st_mode & 0o777, 0o600, "its mode")
    for kw in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        hw.equal(s.ask("GET", "/debug/pprof/heap", **kw)[0], 403, f"{kw}")
    if os.geteuid() == 0 and shutil.which("setpriv"):
        code = ("import http.client,sys\nfor h in {},{'Authorization':'Bearer '+sys.argv[2]}:\n"
                " c=http.client.HTTPConnection('127.0.0.1',int(sys.argv[1]))\n c.request('GET','/debug/pprof/heap?pid='+sys.argv[3],headers=h)\n print(c.getresponse().status)")
        out = box.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c", code, str(s.port), s.token, str(t.pid)])
        hw.equal(out.stdout.split(), [b"403", b"200"], f"another user without and with it: {out.stderr}")
    s.stop()
    s2 = Served(box, "--token-file", "secret")
    hw.equal(s2.token, s.token, "the next server's")
    s2.stop()
    for text, mode in (("short\n", 0o600), ("x" * 200 + "\n", 0o600), ("a b" * 20, 0o600), ("a" * 40, 0o644)):
        with open(box.path("bad"), "w") as f:
            f.write(text)
        os.chmod(box.path("bad"), mode)
        r = box.run([hw.tool("heapwise"), "serve", "--token-file", "bad"], check=None)
        hw.true(r.returncode in (1, 77) and b"'bad'" in r.stderr, f"{text!r}: {r.returncode} {r.stderr}")
    t.end()


if __name__ == "__main__":
    hw.main({"heap": heap, "ends-meanwhile": ends_meanwhile, "token": token})
