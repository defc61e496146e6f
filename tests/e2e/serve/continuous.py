#!/usr/bin/env python3
"""serve --continuous: what is kept of processes that are recorded all the time, and what becomes of it when things go wrong."""
import glob
import gzip
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import clickhouse
from lib import hw
from lib.pprof import Pprof


class Stepper:
    """tests/targets/heap/steps.c under a name of its own, as others on this machine are recorded, too."""
    def __init__(self, box, name, *args):
        if not os.path.exists(box.path(name)):
            shutil.copy(hw.target("steps"), box.path(name))
        self.p = box.start([box.path(name), *args], stdin=subprocess.PIPE)
        self.pid = self.p.pid
        hw.equal(self.p.stdout.readline(), b"ready 1\n", "its start")

    def do(self, step):
        self.p.stdin.write(step.encode() + b"\n")
        self.p.stdin.flush()
        hw.equal(self.p.stdout.readline(), b"ok\n", step)

    def prepared(self):
        """Whether our library is in it: it speaks to the recorder when it allocates."""
        return "heapprofd" in open(f"/proc/{self.pid}/maps").read()

    def churn_until(self, done, what, seconds=30):
        """Allocates and frees until then; not so fast that a recorder without a processor loses it (a full buffer ends it)."""
        end = time.time() + seconds
        while not done():
            hw.true(time.time() < end, what)
            self.do("c 10000")
            time.sleep(0.02)

    def end(self):
        self.p.stdin.write(b"q\n")
        self.p.stdin.close()
        self.p.wait(hw.CLOCK)


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class Continuous:
    def __init__(self, box, *args, interval=1, every="500ms", kept="kept", log="serve.log", env=None):
        self.box, self.kept, self.log = box, box.path(kept), box.path(log)
        self.p = box.start([hw.tool("heapwise"), "serve", "--continuous", "--every", every, "-i", str(interval), "--max-rate", "0",
                            "--profiles", self.kept, *([] if "--max-cpu" in args else ["--max-cpu", "0"]),
                            *([] if "--max-starts" in args else ["--max-starts", "0"]), *args], stderr=open(self.log, "wb"), env=env)
        hw.wait_for(lambda: self.p.poll() is not None or b"Ctrl-C ends" in self.said(), "the server runs")
        hw.true(self.p.poll() is None, f"it runs: {self.said()}")

    def said(self):
        return pathlib.Path(self.log).read_bytes()

    def files(self):
        return sorted(glob.glob(self.kept + "/2*/*.pb.gz"))

    def recorder(self):
        kids = []
        for task in os.listdir(f"/proc/{self.p.pid}/task"):
            kids += pathlib.Path(f"/proc/{self.p.pid}/task/{task}/children").read_text().split()
        return max((int(k) for k in kids if comm(k) == "heapprofd"), default=0)

    def state(self):
        """What it said at the end of a round; \"\" before the first."""
        path = self.kept + "/state.json"
        return open(path).read() if os.path.exists(path) else ""

    def rounds(self, n):
        """Waits for the end of so many rounds more."""
        path = pathlib.Path(self.kept, "state.json")
        written = lambda: os.stat(path)[1:3] + (os.stat(path).st_mtime_ns,) if path.exists() else None
        for _ in range(n):
            last = written()
            hw.wait_for(lambda: written() != last, "the end of a round")

    def stop(self):
        self.p.send_signal(signal.SIGINT)
        hw.equal(self.p.wait(hw.CLOCK), 0, "its exit")


def rows(box, path):
    """Rows of a file by heapwise: [(count, size)] of its base and of its period."""
    out = box.run([hw.tool("heapwise"), "query", path,
                   "select (select count(*) from heap_profile_allocation b where b.ts < a.ts) > 0 as later, f.name, a.count, a.size, a.heap_name, "
                   "p.pid, p.name from heap_profile_allocation a join process p using(upid) join stack_profile_callsite c on a.callsite_id = c.id "
                   "join stack_profile_frame f on c.frame_id = f.id where f.name in ('fn_a', 'fn_b') order by a.ts, f.name, a.size desc"],
                  check=0).stdout.decode().splitlines()[1:]
    return [r.replace('"', "").split(",") for r in out]


def sums(box, files, pid):
    """What all files of one process say together: {site: [allocated, allocations, live at the end, objects]}"""
    total = {}
    for path in files:
        if f"-{pid}-" not in path:
            continue
        raw = box.run(["go", "tool", "pprof", "-raw", path], check=0).stdout.decode()
        types = [t.split("/")[0] for t in raw.split("Samples:\n")[1].splitlines()[0].split()]
        hw.equal(types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "base_objects", "base_space"], "the columns")
        names = {}
        for line in raw.split("Locations\n")[1].split("Mappings")[0].splitlines():
            word = line.split()
            if len(word) > 3:
                names[word[0].rstrip(":")] = word[3]
        now = {}
        for line in raw.split("Samples:\n")[1].split("Locations\n")[0].splitlines()[1:]:
            values, stack = line.split(":")
            for site in ("fn_a", "fn_b"):
                if site in (names.get(i) for i in stack.split()):
                    v = [int(x) for x in values.split()]
                    have = total.get(site, [0, 0, 0, 0])
                    hw.equal([v[5], v[4]], have[2:], f"{path}: {site} was held before")
                    total[site] = [have[0] + v[1], have[1] + v[0], v[3], v[2]]
                    now[site] = v
        for site, have in total.items():
            hw.true(site in now or have[2] == 0, f"{path}: {site} is missing")
    return total


def exact(box):
    """Interval 1: the periods add up to what the program says; one that ends between two rounds is kept, too."""
    hw.need("go")
    name = f"cont{os.getpid()}"
    t = Stepper(box, name)
    s = Continuous(box, "--name", name)
    hw.wait_for(lambda: hw.called(t.pid), "it is attached to")
    for step in ("a 100", "f 40", "b 10"):
        t.do(step)
        s.rounds(2)
    t.do("a 7")
    t.end()
    hw.wait_for(lambda: sums(box, s.files(), t.pid).get("fn_a", [0])[0] == 107000, "its last look")
    hw.equal(sums(box, s.files(), t.pid), {"fn_a": [107000, 107, 67000, 67], "fn_b": [20000, 10, 20000, 10]}, "all periods")
    hw.true(len(s.files()) >= 4, f"a file for each period with a change: {s.files()}")
    r = rows(box, [f for f in s.files() if f"-{t.pid}-" in f][-1])
    hw.equal(sum(int(x[3]) for x in r if x[1] == "fn_a"), 67000, f"base and change are what is held: {r}")
    hw.equal({tuple(x[4:]) for x in r}, {("libc.malloc", str(t.pid), name)}, "whose it is")
    n = len(s.files())
    s.rounds(3)
    hw.equal(len(s.files()), n, "nothing happens, nothing is written")
    # One that starts while we watch, and lives for less than a period.
    env = {"LD_PRELOAD": hw.preload_library()}
    p = box.start([box.path(name)], stdin=subprocess.PIPE, env=env)
    p.communicate(b"a 50\nb 3\nf 10\nq\n", timeout=hw.CLOCK)
    hw.wait_for(lambda: any(f"-{p.pid}-" in f for f in s.files()), "a short life is kept")
    hw.equal(sums(box, s.files(), p.pid), {"fn_a": [50000, 50, 40000, 40], "fn_b": [6000, 3, 6000, 3]}, "all of it")
    s.stop()


def taken(box):
    """One that another recorder has when this begins is looked at again, and recorded when it is free."""
    name = f"cont{os.getpid()}"
    t = Stepper(box, name)
    other = box.start([hw.tool("heapwise"), "attach", "-f", str(t.pid), "-d", "4s", "-o", box.path("other.trace")])
    hw.wait_for(lambda: t.prepared() or other.poll() is not None, "the other one's")
    hw.wait_for(lambda: hw.called(t.pid) or other.poll() is not None, "it is its own")
    s = Continuous(box, "--name", name)
    other.communicate(timeout=hw.CLOCK)

    def kept():
        t.do("a 10")
        time.sleep(0.2)
        return any(f"-{t.pid}-" in f for f in s.files())
    hw.wait_for(kept, f"it is recorded after all: {s.said()}")
    t.end()
    s.stop()


def service(box):
    """One of our own; the environment that leads to it."""
    env = {"PERFETTO_PRODUCER_SOCK_NAME": box.path("producer"), "PERFETTO_CONSUMER_SOCK_NAME": box.path("consumer")}
    box.start([hw.tool("heapprofd")], env=env, stderr=subprocess.DEVNULL)
    hw.wait_for(lambda: os.path.exists(box.path("consumer")), "the service listens")
    return env


def rate(box):
    """Samples that cost too much become fewer, and come back, within one session, of a service as well: what is held stays known."""
    hw.need("go")
    name = f"cont{os.getpid()}"
    t = Stepper(box, name)
    env = service(box)
    s = Continuous(box, "--name", name, "--max-cpu", "0.1", "--shmem-size", "64M", interval=256, env=env)
    with open(box.path("policy"), "w") as f:
        f.write(f"continuous = {name}\n")
    r = box.run([hw.tool("heapwise"), "serve", "--continuous", "--policy", "policy", "--profiles", "kept2"], check=None, env=env)
    hw.true(r.returncode == 1 and b"omit --policy" in r.stderr, f"it says what to do: {r.returncode} {r.stderr}")
    hw.wait_for(lambda: (t.do("w"), str(t.pid) in s.state())[1], "it is recorded")
    t.do("b 500")
    t.churn_until(lambda: b"from now on one in " in s.said(), "fewer samples")
    t.churn_until(lambda: any(Pprof(f).period > 256 for f in s.files()), "a file tells so")

    def quiet():
        t.do("w")  # a thread follows when it samples
        time.sleep(0.1)
        return Pprof(s.files()[-1]).period < max(Pprof(f).period for f in s.files())
    hw.wait_for(quiet, "they come back")
    t.end()
    s.stop()
    hw.equal(sums(box, s.files(), t.pid)["fn_b"], [1000000, 500, 1000000, 500], "each file begins where the one before ended")
    held = [Pprof(f).of("fn_b") for f in s.files() if f"-{t.pid}-" in f]
    hw.equal({(h["inuse_space"], h["inuse_objects"]) for h in held if h["inuse_objects"]}, {(1000000, 500)}, "held all the time")
    hw.equal([h["base_objects"] for h in held].count(0), [h["inuse_objects"] for h in held].count(0) + 1, "from one session")
    hw.equal(s.said().count(b"starting again"), 0, "no other one")
    coarse = [f for f in s.files() if Pprof(f).period > 256]
    hw.true(all(b"heapwise.interval_was=256" in gzip.open(f).read() for f in coarse), "the file says what was asked for")


def forks(box):
    """A target that forks all day: all that its children allocate is kept, those of one round in one file, and the processes do not pile up in us."""
    hw.need("go")
    name = f"cont{os.getpid()}"
    shutil.copy(hw.target("steps"), box.path(name))
    s = Continuous(box, "--name", name + "*", every="300ms")
    env = {"LD_PRELOAD": hw.preload_library()}
    n = 300 if os.environ.get("HW_LONG") else 25

    def kept():
        all = [Pprof(f) for f in s.files()]
        return (sum(int(p.comments.get("processes", 1)) for p in all), sum(p.of("fn_a")["alloc_objects"] for p in all),
                {p.comments["process"] for p in all})
    for i in range(n):
        # A title of their own does not make them other programs.
        p = box.start(["bash", "-c", f"exec -a '{name} *:{17000 + i}' {box.path(name)}"], stdin=subprocess.PIPE, env=env)
        p.communicate(f"a {i + 1}\nq\n".encode(), timeout=hw.CLOCK)
    # One that lives when a period ends is in two files, with what it allocated in each: on a busy machine that is usual.
    want = (n * (n + 1) // 2, {name})
    hw.wait_for(lambda: kept()[1:] == want and kept()[0] >= n, f"each is kept: {n} processes, {want}")
    hw.wait_for(lambda: json.loads(s.state() or "{}").get("processes") == [], "all are forgotten")
    hw.true(len(s.files()) < n, f"they share files: {len(s.files())} of {n} processes")
    s.stop()
    # Where nothing was sampled there is no file.
    s = Continuous(box, "--name", name, every="300ms", interval=1 << 40, kept="rare", log="rare.log")
    t = Stepper(box, name)
    hw.wait_for(lambda: (t.do("a 10"), str(t.pid) in s.state())[1], "it is recorded")
    for i in range(4):
        box.start([box.path(name)], stdin=subprocess.PIPE, env=env).communicate(b"a 10\nq\n", timeout=hw.CLOCK)
    t.end()
    hw.wait_for(lambda: json.loads(s.state() or "{}").get("processes") == [], "all have ended")
    s.stop()
    hw.equal(s.files(), [], "files without a sample")


def killed(box):
    """The recorder is killed, then the server, under load: the target is recorded again, and the gap is in the data."""
    hw.need("go")
    name = f"cont{os.getpid()}"
    t = Stepper(box, name)
    s = Continuous(box, "--name", name)
    hw.wait_for(lambda: hw.called(t.pid), "it is attached to")
    t.do("a 10")
    rounds = 100 if os.environ.get("HW_LONG") else 4
    for i in range(rounds):
        hw.wait_for(lambda: str(t.pid) in s.state(), "it is recorded")
        before = len(s.files())
        old = s.recorder()
        os.kill(old, signal.SIGKILL)
        hw.wait_for(lambda: s.said().count(b"starting again") == i + 1, "it is told")
        hw.wait_for(lambda: s.recorder() not in (0, old), "another recorder")

        def works():
            t.do("a 1")
            return len(s.files()) > before
        hw.wait_for(works, "the next file")
    files = [f for f in s.files() if f"-{t.pid}-" in f]
    gaps = [f for f in files if b"heapwise.unknown_since=2" in gzip.open(f).read()]
    hw.true(len(gaps) >= rounds, f"{len(gaps)} gaps are marked")
    s.p.kill()
    s.p.wait()
    t.do("a 5")
    s = Continuous(box, "--name", name, log="again.log")
    hw.true(len(s.files()) >= len(files), "what was kept stays")

    def goes_on():
        t.do("b 2")
        return any(b"heapwise.unknown_since=2" in gzip.open(f).read() for f in s.files() if f not in files)
    hw.wait_for(goes_on, "it goes on, with the gap")
    hw.equal(t.p.poll(), None, "the target lives")
    t.end()
    s.stop()


def again(box):
    """A buffer that stayed full ends a process's recording for a while only: it begins anew, later each time, and what is kept tells of the gap."""
    hw.need("go")
    name = f"cont{os.getpid()}"
    t = Stepper(box, name)
    s = Continuous(box, "--name", name, "--shmem-size", "64K", every="300ms", env={"HEAPWISE_AGAIN_MS": "500"})
    breaks_off(t, s, s.recorder())
    t.end()
    s.stop()


def again_service(box):
    """The same with a service's recorder, whose clients keep their connection."""
    hw.need("go")
    name = f"cont{os.getpid()}"
    service = box.start([hw.tool("heapprofd")], stderr=open(box.path("service.log"), "wb"), env={"HEAPWISE_AGAIN_MS": "500"})
    hw.wait_for(lambda: os.path.exists(box.path("consumer")), "the service")
    t = Stepper(box, name)
    s = Continuous(box, "--name", name, "--shmem-size", "64K", every="300ms")
    breaks_off(t, s, service.pid)
    t.end()
    s.stop()
    service.terminate()
    service.wait(hw.CLOCK)


def breaks_off(t, s, recorder):
    hw.wait_for(t.prepared, "it is attached to")
    hw.wait_for(lambda: (t.do("w 1"), str(t.pid) in s.state())[1], "it is recorded")
    waits, before = [], []
    for i in range(3):
        before = [f for f in s.files() if f"-{t.pid}-" in f]
        os.kill(recorder, signal.SIGSTOP)
        t.do("c 20000")
        os.kill(recorder, signal.SIGCONT)
        hw.wait_for(lambda: s.said().count(b"the buffer stayed full") == i + 1, f"its recording breaks off: {s.said()}")
        t.do(f"a {1000 + i}")  # seen by nobody
        began = time.time()
        hw.wait_for(lambda: (t.do("w 1"), s.said().count(b"its recording broke off") == i + 1)[1], f"it is recorded again: {s.said()}")
        waits.append(time.time() - began)

        def counted():
            t.do("b 1")
            return [f for f in s.files() if f"-{t.pid}-" in f and f not in before and b"heapwise.unknown_since=2" in gzip.open(f).read()]
        hw.wait_for(counted, "what it does is kept, with the gap")
    hw.true(waits[0] > 0.3 and waits[1] > 0.8 and waits[2] > 1.8, f"later each time: {waits}")
    hw.equal(s.said().count(b"starting again"), 0, "in one session")
    seen = [Pprof(f).of("fn_a") for f in s.files() if f"-{t.pid}-" in f]
    hw.equal(sum(v["alloc_objects"] for v in seen), 0, "what came in between is not made up")


def room(box):
    """Only so much is kept; a full disk takes the oldest first and loses no newer one."""
    hw.need("go")
    name = f"cont{os.getpid()}"
    t = Stepper(box, name)
    s = Continuous(box, "--name", name, "--keep-size", "1500", every="200ms")
    seen = set()
    for i in range(12):
        t.do(f"a {i + 1}")
        s.rounds(2)
        seen |= set(s.files())
    s.stop()
    size = sum(os.path.getsize(f) for f in s.files())
    hw.true(0 < size <= 1500, f"{size} bytes are kept")
    hw.true(len(seen) > len(s.files()) > 0, f"{len(seen)} files, {len(s.files())} kept")
    hw.equal(s.files(), sorted(seen)[-len(s.files()):], "the newest ones")
    hw.equal(json.load(open(s.kept + "/state.json"))["dropped"], 0, "none was dropped")
    if os.geteuid() == 0:
        os.mkdir(box.path("small"))
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k,mode=700", "none", box.path("small")]).returncode == 0:
            try:
                s = Continuous(box, "--name", name, every="200ms", kept="small", log="small.log")
                for i in range(14):
                    t.do("a 3")
                    s.rounds(2)
                state = json.load(open(box.path("small/state.json")))
                s.stop()
                hw.true(s.files(), "some are kept")
                hw.true(state["removed"] > 0, f"the oldest made room: {state} {s.said()}")
            finally:
                subprocess.run(["umount", "-l", box.path("small")])
    t.end()


def policy(box):
    """The policy names the targets; without names, or with a faulty file, it says what to do."""
    name = f"cont{os.getpid()}"
    t = Stepper(box, name)
    with open(box.path("policy"), "w") as f:
        f.write(f"continuous = {name[:-1]}*\n")
    s = Continuous(box, "--policy", "policy", interval=4096)
    hw.wait_for(t.prepared, "it is attached to")
    s.stop()
    for text, want in (("machine = open\n", b"continuous = NAME"), ("continuous\n", b"no `key = value`")):
        with open(box.path("policy"), "w") as f:
            f.write(text)
        r = box.run([hw.tool("heapwise"), "serve", "--continuous", "--policy", "policy", "--profiles", "kept"], check=None)
        hw.true(r.returncode != 0 and want in r.stderr, f"{text!r}: {r.returncode} {r.stderr}")
    for args in (["--name", "x"], ["--push-to", "clickhouse://h"], ["--every", "2s"]):
        r = box.run([hw.tool("heapwise"), "serve", *args], check=2)
        hw.true(b"add --continuous" in r.stderr, f"{args}: {r.stderr}")
    r = box.run([hw.tool("heapwise"), "serve", "--continuous", "--policy", "nowhere"], env={"HEAPWISE_STORE": ""}, check=None)
    hw.true(b"nowhere" in r.stderr, f"no store is asked for: {r.stderr}")
    t.end()


PROFILE = """sample_type {{ type: 1 unit: 3 }} sample_type {{ type: 2 unit: 4 }} sample_type {{ type: 5 unit: 3 }} sample_type {{ type: 6 unit: 4 }}
sample_type {{ type: 7 unit: 3 }} sample_type {{ type: 8 unit: 4 }}
sample {{ location_id: 1 {values} }}
location {{ id: 1 line {{ function_id: 1 }} }} function {{ id: 1 name: 9 }}
{strings} time_nanos: {time} duration_nanos: 60000000000 period: {period} {comments}"""


def made_file(box, name, values, comments, at, period=4096):
    """A file as another machine would have written it, by protoc."""
    strings = ["", "alloc_objects", "alloc_space", "count", "bytes", "inuse_objects", "inuse_space", "base_objects", "base_space", "fn_x", *comments]
    text = PROFILE.format(values=" ".join(f"value: {v}" for v in values), strings=" ".join(f'string_table: "{s}"' for s in strings), time=int(at * 1e9),
                          period=period, comments=" ".join(f"comment: {10 + i}" for i in range(len(comments))))
    proto = pathlib.Path(__file__).resolve().parents[3] / "proto"
    raw = subprocess.run(["protoc", "-I", proto, "--encode=" + package(proto), "pprof.proto"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
    pathlib.Path(box.path(name)).write_bytes(gzip.compress(raw))
    return box.path(name)


def package(proto):
    for line in (proto / "pprof.proto").read_text().splitlines():
        if line.startswith("package "):
            return line.split()[1].rstrip(";") + ".Profile"
    return "Profile"


class Store:
    """ClickHouse, with tables; down() and up() as often as wanted."""
    def __init__(self, box):
        if not clickhouse.installed():
            raise hw.Skip("clickhouse-server is not installed")
        self.server = clickhouse.Server(box.path("clickhouse"))
        box.children.append(self.server.p)
        self.url = self.server.url("profiles", user="default")
        box.run([hw.tool("heapwise"), "push", "--to", self.url, "--init-schema"], check=0)

    def ask(self, sql):
        return [line.split("\t") for line in self.server.ask(sql, database="profiles").splitlines()]

    def asked(self, pid):
        return int(self.ask(f"select sum(alloc_space) from samples where pid = {pid}")[0][0])


def pushed(box):
    """Each period reaches the store, also those of a time when it was down and of a server that was killed: what is held at each moment, what was asked for
    in all."""
    store = Store(box)
    name = f"cont{os.getpid()}"
    t = Stepper(box, name)
    s = Continuous(box, "--name", name, "--push-to", store.url, "--label", "version=1.41", "--label", "zone=x", every="1s")
    hw.wait_for(lambda: hw.called(t.pid), "it is attached to")
    steps = ("a 100", "f 40", "b 10", "a 7", "a 1")
    for i, step in enumerate(steps):
        if i == 2:
            store.server.stop()
        if i == 3:
            s.p.kill()  # while the store is down
            s.p.wait()
            s = Continuous(box, "--name", name, "--push-to", store.url, "--label", "version=1.41", "--label", "zone=x", every="1s", log="again.log")
            again = time.time()
            hw.wait_for(lambda: str(t.pid) in s.state() and json.loads(s.state())["written"] > again + 1, "it is recorded again")
        n = len(s.files())
        t.do(step)
        hw.wait_for(lambda: len(s.files()) > n, f"a file after {step}: {s.said()} {s.p.poll()}")
        if i == 3:
            store.server.start()
            box.children.append(store.server.p)
    t.do("b 3")
    t.end()
    files = lambda: [f for f in s.files() if f"-{t.pid}-" in f]
    hw.wait_for(lambda: Pprof(files()[-1]).of("fn_b")["inuse_space"], "its last look")
    hw.wait_for(lambda: int(store.ask(f"select count(distinct ts) from samples where pid = {t.pid}")[0][0]) >= len(files()), f"all of it is there: {store.ask('select pid, ts, sum(space) from samples group by pid, ts order by ts')} {files()} {s.said()}")
    s.stop()
    held, asked = [], 0
    for f in files():
        p = Pprof(f)
        held.append([sum(v["inuse_space"] for _, v in p.samples), sum(v["alloc_space"] for _, v in p.samples)])
    got = store.ask(f"select toUnixTimestamp(ts) as t, sum(space), sum(alloc_space) from samples where pid = {t.pid} group by t order by t")
    hw.equal([[int(r[1]), int(r[2])] for r in got], held, "held and asked for, period by period")
    fn = lambda what, site, where="": store.ask(f"select sum({what}) from (select stack, space, alloc_space, ts from samples where pid = {t.pid} {where}) any inner "
                                                f"join (select hash as stack, frames from stacks) using stack where has(frames, '{site}')")[0][0]
    hw.equal(fn("space", "fn_a", f"and ts = (select max(ts) from samples where pid = {t.pid})"), str(held[-1][0] - Pprof(files()[-1]).of("fn_b")["inuse_space"]),
             "held at the end")
    # The first server was killed: what was asked for until its last file, and from the next one on, is there.
    hw.true(int(fn("alloc_space", "fn_a")) in range(100000, 108001, 1000), fn("alloc_space", "fn_a"))
    hw.equal(store.ask("select distinct service, version, host, heap, labels.k[1], labels.v[1] from samples"),
             [[name, "1.41", os.uname().nodename, "libc.malloc", "zone", "x"]], "labels")
    for args, want in (([store.url, "--every", "500ms"], b"--every 1s"), (["mongo://x"], b"mongo"), (["otlp://h"], b"--alpha"), ([store.url, "--label", "x"], b"'x'")):
        r = box.run([hw.tool("heapwise"), "serve", "--continuous", "--name", name, "--profiles", "kept2", "--push-to", *args], check=None)
        hw.true(r.returncode != 0 and want in r.stderr, f"{args}: {r.stderr}")


def periods(box):
    """Ten minutes of periods from another machine: space is what was held, alloc_space adds up, labels come from the file; a file that is damaged holds up none."""
    hw.need("protoc")
    store = Store(box)
    who = ["heapwise.process=/srv/checkout", "heapwise.pid=4711", "heapwise.heap=libc.malloc", "heapwise.host=node-7"]
    where = ["heapwise.unit=check.service", "heapwise.container=" + "ab" * 32]
    begin, held, files, want, all_asked = 1770000000, 50 * 100, [], [], 0
    for i in range(10):
        asked, now = 300 + (i * 3 % 7) * 100, 4000 + i * 300
        values = [asked // 100, asked, now // 100, now, held // 100, held]
        files.append(made_file(box, f"{i}.pb.gz", values, who + where + (["heapwise.unknown_since=2026-02-02T02:40:00Z"] if i == 4 else []), begin + 60 * i))
        want.append([str(begin + 60 * i), str(now), str(asked)])
        held, all_asked = now, all_asked + asked
    pathlib.Path(box.path("bad.pb.gz")).write_bytes(b"\x1f\x8b nothing")
    r = box.run([hw.tool("heapwise"), "push", "--to", store.url, *files[:5], box.path("bad.pb.gz"), box.path("gone.pb.gz"), *files[5:]], check=None)
    hw.true(r.returncode == 1 and b"bad.pb.gz" in r.stderr and b"gone.pb.gz" in r.stderr, f"{r.returncode} {r.stderr}")
    hw.equal(store.ask("select toUnixTimestamp(ts) as t, sum(space), sum(alloc_space) from samples group by t order by t"), want, "by period")
    hw.equal(store.asked(4711), all_asked, f"in all: {store.ask('select distinct pid from samples')}")
    hw.equal(store.ask("select distinct service, host, heap, labels.k, labels.v from samples order by length(labels.k)"),
             [["check", "node-7", "libc.malloc", "['unit','container']", f"['check.service','{'ab' * 32}']"],
              ["check", "node-7", "libc.malloc", "['unit','container','unknown_since']", f"['check.service','{'ab' * 32}','2026-02-02T02:40:00Z']"]], "labels")
    # 40 objects of 100 bytes, one sample in 4096: n s^2 (1 - p) / p with p = 1 - e^(-s/4096).
    unseen = math.exp(-100 / 4096)
    got = float(store.ask("select variance from samples order by ts limit 1")[0][0])
    hw.true(abs(got / (40 * 100 * 100 * unseen / (1 - unseen)) - 1) < 1e-6, f"variance {got}")
    # Four processes that stand for 32: each figure is 8 times what was recorded, its variance 64 times. That of the choice is not a row's.
    chosen = made_file(box, "chosen.pb.gz", [3, 300, 40, 4000, 0, 0], who + ["heapwise.processes=4", "heapwise.starts=32"], begin)
    box.run([hw.tool("heapwise"), "push", "--to", store.url, "--service", "chosen", chosen], check=0)
    got = float(store.ask("select variance from samples where service = 'chosen'")[0][0])
    hw.true(abs(got / (8 * 40 * 100 * 100 * unseen / (1 - unseen)) - 1) < 1e-6, f"variance {got}")
    box.run([hw.tool("heapwise"), "push", "--to", store.url, "--service", "s", "--host", "h", "--label", "unit=u", files[0]], check=0)
    hw.equal(store.ask("select host, labels.k, labels.v from samples where service = 's'"), [["h", "['unit','container']", f"['u','{'ab' * 32}']"]], "by hand")


def calm(box):
    """Beside a program that does nothing its recorder is hardly ever woken; a guard that is stopped goes on all the same."""
    s = Continuous(box, "--name", "calm", every="60s")
    recorder = s.recorder()
    hw.true(recorder, "the recorder")
    for _ in range(50):  # one that is held: the first ones make its file known, which nobody waits for longer than 20 ms
        t = Stepper(box, "calm")
        if t.prepared():
            break
        t.end()
    t.do("a 1000")
    hw.wait_for(t.prepared, "the program is recorded")
    hw.idles(recorder, 1)  # the program's files have been read

    def woken():
        return int(next(w.split()[1] for w in open(f"/proc/{recorder}/status") if w.startswith("voluntary")))
    before, begin = woken(), time.time()
    time.sleep(3)  # what is measured
    rate = (woken() - before) / (time.time() - begin)
    hw.true(rate < 20, f"the recorder's main thread was woken {rate:.1f} times a second")
    guards = [int(p) for p in os.listdir("/proc") if p.isdigit() and comm(p) == "heapprofd-guard" and f"PPid:\t{recorder}\n" in open(f"/proc/{p}/status").read()]
    if guards:
        os.kill(guards[0], signal.SIGSTOP)
        hw.wait_for(lambda: "State:\tT" not in open(f"/proc/{guards[0]}/status").read(), "the guard goes on")
        os.kill(guards[0], signal.SIGKILL)
        hw.wait_for(lambda: "State:\tZ" in open(f"/proc/{guards[0]}/status").read(), "its end")
        hw.quiet(1)
        hw.true("State:\tZ" in open(f"/proc/{guards[0]}/status").read(), "its number is kept: the recorder will kill it once more at its own end")
    t.end()
    s.stop()


if __name__ == "__main__":
    hw.main({"exact": exact, "calm": calm, "taken": taken, "rate": rate, "forks": forks, "killed": killed, "again": again, "again-service": again_service, "room": room, "policy": policy, "pushed": pushed, "periods": periods})
