#!/usr/bin/env python3
"""What programs count of themselves (tracemalloc, sqlite3_status, jemalloc's statistics), against every form of
their profiles at interval 1. None of these counters is ours, and the files are read by other programs or by hand."""
import collections
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw, pprof
from serve import Served

METRICS = ["space", "objects", "alloc_space", "alloc_objects"]


def told(box, *args):
    return box.run([hw.tool("heapwise"), *args], check=0).stdout


def converted(box, form, trace, *options):
    return told(box, "convert", "-t", form, *options, trace, "-").decode()


# ---- each form as stacks: (names from the root to who called malloc, {metric: value}) ----

def tree_stacks(nodes):
    """nodes: {id: (parent, name, values of its own)}; the root has no name."""
    def path(i):
        names = []
        while i in nodes and nodes[i][1] is not None:
            names.append(nodes[i][1])
            i = nodes[i][0]
        return names[::-1]
    return [(path(i), own) for i, (_, name, own) in nodes.items() if name is not None and any(own.values())]


def of_folded(box, trace):
    lines = [(line.rsplit(" ", 1), m) for m in METRICS for line in converted(box, "folded", trace, "-m", m).splitlines()]
    return [(stack.split(";"), {m: int(v)}) for (stack, v), m in lines]


def of_text(box, trace):
    found = []
    for block in converted(box, "text", trace, "-m", "alloc_space").split("\n\n"):
        head, *frames = block.strip().split("\n")
        if head:
            found.append(([f.strip().split("  (")[0] for f in frames][::-1], dict(zip(METRICS, map(int, re.findall(r" (\d+)", " " + head))))))
    return found


def of_json(box, trace):
    data = json.loads(converted(box, "json", trace))
    return [([data["functions"][f]["name"] for f in s["stack"]], {m: s[m] for m in METRICS}) for s in data["stacks"]]


def of_csv(box, trace):
    table = csv.DictReader(io.StringIO(converted(box, "csv", trace)))
    return tree_stacks({r["id"]: (r["parent"], r["function"].lstrip("'") if r["parent"] else None, {m: int(r["self_" + m]) for m in METRICS})
                        for r in table})


def of_speedscope(box, trace):
    data = json.loads(converted(box, "speedscope", trace))
    names = [f["name"] for f in data["shared"]["frames"]]
    return [([names[f] for f in s], {m: w}) for m, p in zip(METRICS, data["profiles"]) for s, w in zip(p["samples"], p["weights"])]


def of_pprof(box, trace):
    told(box, "convert", "-t", "pprof", trace, box.path("o.pb.gz"))
    return [(names[::-1], values) for names, values in pprof.Pprof(box.path("o.pb.gz")).samples]


def raw_of_go(box, file):
    """`go tool pprof -raw`: another reader's stacks; its names of the columns."""
    raw = box.run(["go", "tool", "pprof", "-raw", file], check=0).stdout.decode()
    types = [t.split("/")[0] for t in re.search(r"Samples:\n(.*)\n", raw)[1].split()]
    names, at = collections.defaultdict(list), None  # of a location, innermost first; inlined ones have lines of their own
    for line in raw[raw.index("\nLocations"):raw.index("\nMappings")].splitlines()[2:]:
        m = re.match(r"\s+(?:(\d+): 0x[0-9a-f]+ (?:M=\d+ )?)?(\S+) ", line)
        at = m[1] or at
        names[at].append(m[2])
    return types, [([n for i in reversed(stack.split()) for n in reversed(names[i])], dict(zip(types, map(int, values.split()))))
                   for values, stack in re.findall(r"^\s+([-\d ]+): ([\d ]+)$", raw, re.M)]


def of_go(box, trace):
    told(box, "convert", "-t", "pprof", trace, box.path("go.pb.gz"))
    return raw_of_go(box, box.path("go.pb.gz"))[1]


def of_html(box, trace):
    data = json.loads(re.search(r'id="data">(.*?)</script>', converted(box, "html", trace), re.S)[1])
    return tree_stacks({i: (data["parent"][i], data["functions"][data["function"][i]][0] if i else None,
                            {m: data["self"][k][i] for k, m in enumerate(METRICS)}) for i in range(len(data["parent"]))})


def of_firefox(box, trace):
    told(box, "traceconv", "firefox", trace, box.path("o.firefox"))
    with open(box.path("o.firefox")) as f:
        threads = json.load(f)["threads"]
    found = []
    for t in threads:
        stacks, frames, funcs, names = t["stackTable"], t["frameTable"], t["funcTable"], t["stringArray"]
        for s, weight in zip(t["nativeAllocations"]["stack"], t["nativeAllocations"]["weight"]):
            path = []
            while s is not None and s >= 0:
                path.append(names[funcs["name"][frames["func"][stacks["frame"][s]]]])
                s = stacks["prefix"][s]
            found.append((path[::-1], {"space": weight}))
    return found


def of_chrome(box, trace):
    told(box, "convert", "-t", "memory-infra", "--other", "all", trace, box.path("o.json"))
    with open(box.path("o.json")) as f:
        maps = [e["args"]["dumps"]["heaps_v2"] for e in json.load(f)["traceEvents"] if e["ph"] == "v" and "heaps_v2" in e["args"]["dumps"]]
    strings, nodes = {}, {}
    for m in maps:
        strings.update({s["id"]: s["string"] for s in m["maps"]["strings"]})
        nodes.update({n["id"]: (n.get("parent"), n["name_sid"]) for n in m["maps"]["nodes"]})
    heap, found = maps[-1]["allocators"]["malloc"], []
    for node, size, count in zip(heap["nodes"], heap["sizes"], heap["counts"]):
        path = []
        while node in nodes:
            path.append(strings[nodes[node][1]])
            node = nodes[node][0]
        found.append((path[::-1], {"space": size, "objects": count}))
    return found


def of_massif(box, trace):
    """The last snapshot's tree: from who called malloc to the root; what is small stands in the node above."""
    snapshot = converted(box, "massif", trace).rsplit("heap_tree=", 1)[1]
    found, path, rest = [], [], []
    for line in snapshot.splitlines()[1:] + ["n0: 0 end"]:
        m = re.match(r"( *)n(\d+): (\d+) (.*)", line)
        if not m:
            continue
        depth = len(m[1])
        while len(path) > depth or (line.endswith(" end") and path):
            found.append((path[::-1], {"space": rest.pop()}))
            path.pop()
        name = re.match(r"0x[0-9A-F]+: (.*?) \((?:in )?[^()]*\)$", m[4])
        if "below massif's threshold" in m[4] or (not name and depth):
            continue
        if depth:
            rest[-1] -= int(m[3])
        path.append(name[1] if name else "")
        rest.append(int(m[3]))
    return [(p[:-1], v) for p, v in found]  # the last is the heap itself


def of_heaptrack(box, trace):
    """heaptrack's own reader prints stacks, one file a figure."""
    told(box, "convert", "-t", "heaptrack", trace, box.path("o.heaptrack"))
    found = []
    for cost, m in (("leaked", "space"), ("allocations", "alloc_objects")):
        box.run(["heaptrack_print", "-f", box.path("o.heaptrack"), "-n", "0", "-s", "0", "-F", box.path(cost), "--flamegraph-cost-type", cost,
                 "--disable-builtin-suppressions", "--disable-embedded-suppressions"])
        with open(box.path(cost)) as f:
            found += [([re.sub(r" \([^()]*\)$", "", n) for n in line.rsplit(" ", 1)[0].split(";") if n.strip()], {m: int(line.rsplit(" ", 1)[1])}) for line in f if line.strip()]
    return found


def of_sql(box, trace):
    rows = csv.DictReader(io.StringIO(told(box, "query", trace, "select * from heapwise_tree((select upid from heap_profile_allocation limit 1), "
                                           "null, null, null, null, 'all-frames')").decode()))
    return tree_stacks({r["id"]: (r["parent_id"], r["name"] if r["parent_id"] != "[NULL]" else None, {m: int(r["self_" + m]) for m in METRICS})
                        for r in rows})


def of_tree(box, trace):
    nodes = json.loads(told(box, "tree", "--json", "--all-frames", trace))["nodes"]
    below = collections.defaultdict(lambda: dict.fromkeys(METRICS, 0))
    for n in nodes:
        for m in METRICS:
            below[n["parent"]][m] += n[m]
    return tree_stacks({n["id"]: (n["parent"], n["function"], {m: n[m] - below[n["id"]][m] for m in METRICS}) for n in nodes})


def of_trace(box, trace):
    d = hw.sound(trace).last()
    return [(s.stack, {"space": s.alloc - s.freed, "objects": s.allocs - s.frees, "alloc_space": s.alloc, "alloc_objects": s.allocs})
            for s in d.samples]


FORMS = {name[3:]: form for name, form in list(globals().items()) if name.startswith("of_")}
NEEDS = {"go": "go", "heaptrack": "heaptrack_print"}


# ---- the comparison ----

class Recorded:
    """A program under a recording of every allocation, until it is killed: so its profile ends with what it held."""
    def __init__(self, box, name, argv, env=None, **kw):
        self.box, self.trace = box, box.path(name + ".trace")
        self.p = box.start([hw.tool("heapwise"), "record", "-q", "-i", "1", "-o", self.trace, "--", *argv],
                           env=env, stdin=subprocess.PIPE, **kw)

    def say(self, text):
        self.p.stdin.write(text.encode())
        self.p.stdin.flush()

    def until(self, mark):
        text = ""
        while mark not in text:
            line = self.p.stdout.readline().decode()
            hw.true(line, f"it ended: {text}")
            text += line
        return text

    def pid(self, exe):
        def find():
            with open(f"/proc/{self.p.pid}/task/{self.p.pid}/children") as f:
                return [int(k) for k in f.read().split() if exe in os.readlink(f"/proc/{k}/exe")]
        return hw.wait_for(find, exe)[0]

    def pulled(self, pid):
        """What a scraper gets of it now."""
        s = Served(self.box)
        status, body = s.ask("GET", f"/debug/pprof/heap?pid={pid}")
        hw.equal(status, 200, f"{body[:200]}")
        with open(self.box.path("pulled.pb.gz"), "wb") as f:
            f.write(body)
        s.stop()
        to = {"inuse_space": "space", "inuse_objects": "objects", "alloc_space": "alloc_space", "alloc_objects": "alloc_objects"}
        return [(names[::-1], {to[t]: v for t, v in values.items()}) for names, values in pprof.Pprof(self.box.path("pulled.pb.gz")).samples]

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)
        self.p.communicate(timeout=hw.CLOCK)
        return self.trace


def sums(stacks, belongs):
    total = {}
    for names, values in stacks:
        for m, v in values.items() if belongs(names) else ():
            total[m] = total.get(m, 0) + v
    return total


def check(what, stacks, sites, near=0, slack={}):
    """sites: {name: (which stacks, {metric: value})}; near: the share by which a sum may be off, slack: by how much."""
    hw.true(stacks, f"{what}: no stacks")
    for name, (belongs, want) in sites.items():
        have = sums(stacks, belongs)
        hw.true(have.keys() & want.keys(), f"{what}: nothing of {name}; the first stack: {stacks[0]}")
        for m in have.keys() & want.keys():
            hw.true(abs(have[m] - want[m]) <= near * want[m] + slack.get(m, 0), f"{what}, {name}: {m} is {have[m]}, the program says {want[m]}")


def check_forms(box, trace, sites, slack={}):
    for name, form in FORMS.items():
        if name not in NEEDS or hw.shutil.which(NEEDS[name]):
            check(name, form(box, trace), sites, NEAR.get(name, 0), slack)
        else:
            print(f"  not compared: {name}, no {NEEDS[name]}")


NEAR = {"massif": 0.0005}  # what is below a ten thousandth stands with others


# ---- Python ----

FILL = '''
import gc, sys
class Cell:
    __slots__ = ("a", "b")
def fill_bytes(n):
    out = []
    for i in range(n):
        out.append(bytes(1000 + i % 50))
    return out
def fill_dicts(n):
    out = []
    for i in range(n):
        out.append({"k%d" % i: [i, i + 1000000]})
    return out
def fill_cells(n):
    out = []
    for i in range(n):
        c = Cell(); c.a = i * 1.5; c.b = (i, n)
        out.append(c)
    return out
def fill_and_drop(n):
    out = []
    for i in range(n):
        out.append("x" * (100 + i % 100))
    return out[::4]
fills = [fill_bytes, fill_dicts, fill_cells, fill_and_drop]
gc.collect(); gc.disable() # lists of free objects are empty: what they give was not asked of malloc here
keep = [f(3000) for f in fills]
if sys.argv[1] == "count":
    import tracemalloc
    of = {l: f.__name__ for f in fills for _, _, l in f.__code__.co_lines() if l and l > f.__code__.co_firstlineno}
    for s in tracemalloc.take_snapshot().statistics("lineno"):
        if s.traceback[0].filename == __file__ and s.traceback[0].lineno in of:
            print(of[s.traceback[0].lineno], s.size, s.count)
else:
    print("ready", flush=True)
    sys.stdin.read()
'''


def python(box):
    """tracemalloc's bytes and blocks by function, with malloc for every object, in a run of its own. A block that waits in
    a list of free objects stays with who asked malloc for it; tracemalloc gives it to who used it last."""
    slack = {"space": 512, "objects": 5}
    exe = next((p for p in ("/usr/bin/python3", sys.executable) if os.access(p, os.X_OK)), None)
    version = subprocess.run([exe, "-c", "import sys; print(*sys.version_info[:2])"], stdout=subprocess.PIPE, text=True).stdout.split()
    if tuple(map(int, version)) not in ((3, 11), (3, 12), (3, 13)):
        raise hw.Skip(f"Python {version}: its frames are not known")
    (box.dir / "fill.py").write_text(FILL)
    env = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "MALLOC_PERTURB_": "0"}
    want = collections.defaultdict(lambda: {"space": 0, "objects": 0})
    for line in box.run([exe, "-S", "-X", "tracemalloc=1", "fill.py", "count"], env=env, check=0).stdout.decode().splitlines():
        name, size, count = line.split()
        want[name]["space"] += int(size)
        want[name]["objects"] += int(count)
    hw.equal(len(want), 4, "functions that tracemalloc knows")
    print(f"  tracemalloc: {dict(want)}")
    sites = {f: ((lambda f: lambda names: f in names)(f), w) for f, w in want.items()}

    r = Recorded(box, "python", [exe, "-S", "fill.py", "wait"], env=env)
    r.until("ready")
    pid = r.pid("python")
    check("/debug/pprof/heap", r.pulled(pid), sites, slack=slack)
    trace = r.kill(pid)
    check_forms(box, trace, sites, slack)

    report = json.loads(told(box, "report", "--json", "--top", "0", trace))
    check("report --json", [([s["function"]], {m: s[m] for m in METRICS}) for s in report["sites"]], sites, slack=slack)
    shown = told(box, "report", "--top", "0", trace).decode()
    for f, w in want.items():
        have = re.search(rf"^ +([\d.]+) (\w+) .*\b{f}\b", shown, re.M)
        unit = {"B": 1, "KiB": 1024, "MiB": 1 << 20}[have[2]]
        hw.true(abs(float(have[1]) * unit - w["space"]) <= 0.06 * unit + slack["space"], f"report: {have[0]}; tracemalloc: {w}")
    image = converted(box, "svg", trace)
    for f, w in want.items():
        width = sum(float(x) for x in re.findall(rf'data-n="{f}"><title>[^<]*</title><rect x="[\d.]+" y="[\d.]+" width="([\d.]+)"', image))
        hw.true(abs(width / 1180 * report["end"]["space"] - w["space"]) <= 0.001 * report["end"]["space"], f"svg: {f} is {width} wide; tracemalloc: {w}")
    s = Served(box, trace)
    hw.wait_for(lambda: s.json("GET", "/api/v1/status")["traces"][0]["state"] == "ready", "the trace is read")
    for k, m in enumerate(("space", "objects")):
        rows = s.json("GET", f"/api/v1/traces/1/table/functions?limit=10000&metric={m}")["data"]
        check("page", [([row[0]], {m: row[3]}) for row in rows], sites, slack=slack)
    s.stop()


# ---- SQLite ----

def sqlite(box):
    """sqlite3_status: bytes and number of the library's outstanding allocations. Its allocator puts the size in front of
    each block (8 bytes) where it does not ask malloc for it; then malloc may give up to 15 bytes more than were asked for."""
    hw.need("sqlite3")
    r = Recorded(box, "sqlite", ["sqlite3", ":memory:"])
    r.say("create table t(a,b);\n"
          "with recursive n(i) as (select 1 union all select i+1 from n where i<3000) insert into t select i, hex(randomblob(100)) from n;\n"
          "create index i on t(b);\nselect count(*) from t;\n.stats\n.print ready\n")
    said = r.until("ready")
    used, n = (int(re.search(what + r": +(\d+)", said)[1]) for what in ("Memory Used", "Number of Outstanding Allocations"))
    pid = r.pid("sqlite3")

    def belongs(names):
        return not {"sqlite3Malloc", "sqlite3Realloc"}.isdisjoint(names[-2:])  # below them is one function, whose name is not known
    live = r.pulled(pid)
    have = sums(live, belongs)
    if not have:
        r.kill(pid)
        raise hw.Skip("the library's inner functions have no names here")
    print(f"  sqlite3_status: {used} bytes in {n}; seen: {have}")
    with_size = have["space"] == used + 8 * n
    hw.true(with_size or have["space"] <= used <= have["space"] + 15 * n, f"live bytes: {have}, {used} used in {n}")
    sites = {"libsqlite3": (belongs, {"space": have["space"], "objects": n})}
    check("/debug/pprof/heap", live, sites)
    check_forms(box, r.kill(pid), sites)


# ---- Redis, on jemalloc ----

def size_class(n):
    """jemalloc's: multiples of 16 up to 128, then four to a doubling."""
    if n <= 8:
        return 8
    if n <= 128:
        return (n + 15) // 16 * 16
    step = 1 << ((n - 1).bit_length() - 3)
    return (n + step - 1) // step * step


def redis(box):
    """jemalloc counts every allocation; Redis sums up what malloc_usable_size says of its own. Without jemalloc's caches
    of threads, where blocks that were freed wait as if they were used. Between the figures and the end a few requests
    come and go. Redis's sum is made of rounded sizes: each callsite's mean, rounded, comes near as its blocks are alike."""
    hw.need("redis-server", "redis-cli")
    socket = box.path("redis.sock")
    r = Recorded(box, "redis", ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"],
                 env={"MALLOC_CONF": "tcache:false"}, stdout=subprocess.DEVNULL)
    hw.wait_for(lambda: os.path.exists(socket), "redis")

    def ask(*words, stdin=None):
        return box.run(["redis-cli", "-s", socket, *words], stdin=stdin, check=0).stdout.decode()
    value = b"v" * 500
    ask(stdin=b"".join(b"SET key:%05d %s\n" % (i, value) for i in range(10000)))
    used = int(re.search(r"used_memory:(\d+)", ask("INFO", "memory"))[1])
    stats = ask("MEMORY", "MALLOC-STATS")
    m = re.search(r"^total: +(\d+) +(\d+) +\d+ +(\d+) ", stats, re.M)
    pid = r.pid("redis")
    if not m:
        r.kill(pid)
        raise hw.Skip("this Redis has no jemalloc that counts")
    allocated, n_made, n_freed = map(int, m.groups())
    trace = r.kill(pid)

    whole = json.loads(told(box, "report", "--json", trace))["end"]
    print(f"  jemalloc: {n_made - n_freed} of {n_made} live, {allocated} bytes; used_memory {used}; report: {[whole[m] for m in METRICS]}")
    hw.true(abs(whole["objects"] - (n_made - n_freed)) <= 100, f"live: {whole['objects']}, jemalloc: {n_made - n_freed}")
    hw.true(0 <= whole["alloc_objects"] - n_made <= 400, f"made: {whole['alloc_objects']}, jemalloc: {n_made}")
    rounded = collections.Counter()
    for names, v in of_json(box, trace):
        if v["objects"] > 0:
            rounded["all"] += v["objects"] * size_class(v["space"] // v["objects"])
            rounded["redis"] += v["objects"] * size_class(v["space"] // v["objects"]) if re.match(r"z(try)?(m|c|re)alloc|zstrdup", names[-1]) else 0
    hw.true(abs(rounded["all"] - allocated) <= 0.02 * allocated, f"rounded: {rounded}, jemalloc: {allocated}")
    hw.true(abs(rounded["redis"] - used) <= 0.02 * used, f"rounded: {rounded}, used_memory: {used}")
    hw.true(whole["space"] <= allocated, f"asked for {whole['space']}, given {allocated}")
    check_forms(box, trace, {"all": (lambda names: True, {m: whole[m] for m in METRICS})})


CASES = {"python": python, "sqlite": sqlite, "redis": redis}

if __name__ == "__main__":
    hw.main(CASES)
