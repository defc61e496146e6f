#!/usr/bin/env python3
"""
heapwise fleet against a real ClickHouse (Debian's): every figure against sums made here from the same rows,
labels that try to be SQL, and a store that is not there.
"""
import glob
import json
import math
import os
import random
import statistics
import struct
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import clickhouse, hw
from lib.pprof import Pprof

DAY = 86400
NOW = int(time.time()) // 3600 * 3600  # not midnight: a day's window would lose rows in the evening
TODAY = NOW // DAY * DAY
METRICS = ["space", "objects", "alloc_space", "alloc_objects"]
# What a label's value may be: anything.
HOSTILE = ["it's", "back\\slash", "tail\\", "'); DROP TABLE samples; --", "' OR 1=1 --", "a\tb\nc", "é中",
           "{where}", "%s%n", "a,b", "\\' OR '1'='1", "`x`", "/*", "a=b"]


def store(box):
    if not clickhouse.installed():
        raise hw.Skip("clickhouse-server is not installed")
    server = clickhouse.Server(box.path("store"))
    box.env["HEAPWISE_STORE"] = server.url("profiles")
    return server


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def text(s):
    raw = s.encode()
    return varint(len(raw)) + raw


def texts(values):
    return varint(len(values)) + b"".join(map(text, values))


def fill(box, server, rows, stacks):
    """rows: dicts of the columns; stacks: number -> names of functions, root first."""
    box.run([hw.tool("heapwise"), "push", "--to", server.url("profiles"), "--init-schema"], check=0)
    data = b"".join(struct.pack("<HI", r["ts"] // DAY, r["ts"]) +
                    b"".join(text(r[k]) for k in ("service", "host", "version", "build_id")) +
                    struct.pack("<I", r["pid"]) + text(r["heap"]) + texts(list(r["labels"])) +
                    texts(list(r["labels"].values())) +
                    struct.pack("<QqqqqdIddd", r["stack"], r["alloc_space"], r["alloc_objects"], r["space"],
                                r["objects"], r["variance"], r["interval"], r["variance_objects"],
                                r["variance_alloc_space"], r["variance_alloc_objects"]) for r in rows)
    server.ask("INSERT INTO samples FORMAT RowBinary", data, "profiles")
    data = b"".join(struct.pack("<Q", n) + texts(names) + texts(["/usr/bin/app"] * len(names)) +
                    texts(["/src/app.cc"] * len(names)) + varint(len(names)) +
                    b"".join(struct.pack("<I", i + 1) for i in range(len(names))) +
                    struct.pack("<H", NOW // DAY) for n, names in stacks.items())
    server.ask("INSERT INTO stacks FORMAT RowBinary", data, "profiles")
    server.ask("INSERT INTO stacks FORMAT RowBinary", data, "profiles")  # parts not merged yet


def row(**kw):
    r = dict(ts=NOW - 3600, service="checkout", host="h0", version="1", build_id="ab", pid=1, heap="libc.malloc",
             labels={}, stack=1, alloc_space=0, alloc_objects=0, space=0, objects=0, variance=0.0, interval=4096,
             variance_objects=0.0, variance_alloc_space=0.0, variance_alloc_objects=0.0)
    return {**r, **kw}


def fleet(box, *words, check=0, **kw):
    return box.run([hw.tool("heapwise"), "fleet", *words], check=check, **kw)


def ask(box, *words, **kw):
    return json.loads(fleet(box, *words, "--json", **kw).stdout)


def some_rows(seed=1):
    """Three services, hosts and versions at random; dumps an hour apart."""
    rnd = random.Random(seed)
    stacks = {rnd.getrandbits(63): ["main", f"work{i % 5}", f"site{i % 17}", "malloc"] for i in range(60)}
    rows = []
    for service in ("checkout", "search", "mail"):
        for host in range(7):
            for pid in range(rnd.randint(1, 3)):
                labels = {"pod": f"p{host % 2}"} if host % 3 else {}
                for dump in range(rnd.randint(1, 6)):
                    for stack in rnd.sample(list(stacks), 25):
                        live = rnd.randint(0, 1 << 20)
                        rows.append(row(ts=NOW - 3600 * (1 + dump) - host, service=service, host=f"h{host}",
                                        version=f"1.{41 + host % 2}", pid=100 + pid, labels=labels, stack=stack,
                                        space=live, objects=rnd.randint(0, 50), alloc_space=rnd.randint(0, 1 << 21),
                                        alloc_objects=rnd.randint(0, 90), variance=live * 4096.0,
                                        variance_objects=rnd.uniform(0, 900), variance_alloc_space=live * 5000.0,
                                        variance_alloc_objects=rnd.uniform(0, 900)))
    return rows, stacks


def sites(rows, stacks, metric):
    """Site -> mean of a process at a dump; the twin of the product's sums."""
    dumps = {(r["service"], r["host"], r["pid"], r["ts"]) for r in rows}
    out = {}
    for r in rows:
        site = stacks[r["stack"]][-2]
        out[site] = out.get(site, 0) + r[metric] / len(dumps)
    return out, len(dumps), len({d[:3] for d in dumps}), len({d[1] for d in dumps})


def error_of(rows, metric, n_dumps, n_processes):
    """Of a mean: of what lives a process is one sample, of what was asked for each dump is."""
    column = "variance" if metric == "space" else f"variance_{metric}"
    return 2 * math.sqrt(sum(r[column] for r in rows) / n_dumps / (n_dumps if "alloc" in metric else n_processes))


def close(have, want, slack, what):
    hw.true(abs(have - want) <= slack, f"{what}: have {have}, want {want}")


SELECTIONS = [
    ([], lambda r: True),
    (["--service", "checkout"], lambda r: r["service"] == "checkout"),
    (["--service", "checkout", "--host", "h3"], lambda r: r["service"] == "checkout" and r["host"] == "h3"),
    (["-l", "service!=mail", "-l", "version=1.42"], lambda r: r["service"] != "mail" and r["version"] == "1.42"),
    (["-l", "host~^h[0-2]$"], lambda r: r["host"] in ("h0", "h1", "h2")),
    (["-l", "host!~[0-2]"], lambda r: r["host"] not in ("h0", "h1", "h2")),
    (["-l", "pod=p1"], lambda r: r["labels"].get("pod") == "p1"),
    (["-l", "pod="], lambda r: not r["labels"]),
    (["-l", "pid=101", "-l", "interval=4096"], lambda r: r["pid"] == 101),
]


def truth(box):
    """Every metric and kind of condition; graphs and files add up to the same."""
    rows, stacks = some_rows()
    since = ["--since", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW - 30 * 3600))]
    with store(box) as server:
        fill(box, server, rows, stacks)
        for i, (words, keeps) in enumerate(SELECTIONS):
            mine = [r for r in rows if keeps(r)]
            metric = METRICS[i % 4]
            have = ask(box, "top", *words, *since, "-m", metric, "--top", "0")
            want, n_dumps, n_processes, n_hosts = sites(mine, stacks, metric)
            what = f"{words} {metric}"
            hw.equal((have["dumps"], have["processes"], have["hosts"], have["store_rows"]),
                     (n_dumps, n_processes, n_hosts, len(mine)), what)
            close(have["total"], sum(want.values()), 2, what)
            for r in have["rows"]:
                close(r["value"], want.pop(r["function"]), 61, f"{what} {r['function']}")
            hw.true(all(v < 61 for v in want.values()), f"{what}: not listed: {want}")
            error = error_of(mine, metric, n_dumps, n_processes)
            close(have["error"], error, error / 1000, f"{what}: error")
            hw.true(sum(r["error"] for r in have["rows"]) > error, f"{what}: errors of the rows")
            hw.true("+-" in fleet(box, "top", *words, *since, "-m", metric).stdout.decode().splitlines()[2], f"{what}: text")
            host = ask(box, "hosts", *words, *since, "-m", metric)["rows"][0]
            hers = [r for r in mine if r["host"] == host["host"]]
            _, n_dumps, n_processes, _ = sites(hers, stacks, metric)
            error = error_of(hers, metric, n_dumps, n_processes)
            close(host["error"], error, error / 1000, f"{what}: error of {host['host']}")
        words = ["--service", "checkout", *since]
        total = ask(box, "top", *words)["total"]
        folded = fleet(box, "flame", *words).stdout.decode()
        close(sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), total, 0, "folded")
        fleet(box, "flame", *words, "all.pb.gz")
        p = Pprof(box.path("all.pb.gz"))
        close(p.of("main")[next(t for t in p.types if t in ("space", "inuse_space"))], total, 0, "pprof")
        hw.true(b"<svg" in fleet(box, "flame", *words, "-t", "svg").stdout, "svg")
        only = fleet(box, "flame", *words, "-f", "site3").stdout.decode()
        hw.true(only and all("site3" in line for line in only.splitlines()), f"a filter: {only[:300]}")
        # A time: the dumps of one hour.
        hour = [r for r in rows if NOW - 3 * 3600 <= r["ts"] < NOW - 2 * 3600]
        have = ask(box, "top", "--since", time.strftime("%FT%TZ", time.gmtime(NOW - 3 * 3600)), "--until",
                   time.strftime("%FT%TZ", time.gmtime(NOW - 2 * 3600)))
        hw.equal(have["dumps"], sites(hour, stacks, "space")[1], "an hour's dumps")
        names = [w["label"] for w in ask(box, "labels", *since)["labels"]]
        hw.equal(names, ["service", "host", "version", "build_id", "pid", "heap", "interval", "pod"], "labels")
        values = {w["value"]: w["rows"] for w in ask(box, "labels", "pod", *since)["values"]}
        hw.equal(values, {v: sum(r["labels"].get("pod", "") == v for r in rows) for v in ("", "p0", "p1")}, "pods")


def differences(box):
    """One build holds more at one site, surely; another site differs by chance; sides in time."""
    rnd = random.Random(7)
    stacks = {1: ["main", "grown", "malloc"], 2: ["main", "same", "malloc"], 3: ["main", "gone", "malloc"]}
    rows = []
    for host in range(20):
        for dump in range(4):
            new = host % 2
            common = dict(host=f"h{host}", version=f"1.4{1 + new}", pid=host, ts=NOW - 3600 * dump - 60)
            rows.append(row(stack=1, space=10 << 20 if not new else 30 << 20, objects=10, variance=(10 << 20) * 4096.0, **common))
            rows.append(row(stack=2, space=(1 << 20) + rnd.randint(-9000, 9000), objects=1, variance=(1 << 20) * 4096.0, **common))
            if not new:
                rows.append(row(stack=3, space=5 << 20, objects=1, variance=(1 << 20) * 4096.0, **common))
    rows += [row(stack=1, space=20 << 20, host="h0", pid=0, ts=NOW - 9 * DAY)]
    with store(box) as server:
        fill(box, server, rows, stacks)
        have = ask(box, "diff", "--service", "checkout", "--a", "version=1.41", "--b", "version=1.42", "--since", "2d",
                   "--all")
        by = {r["function"]: r for r in have["rows"]}
        hw.equal((by["grown"]["a"], by["grown"]["b"], by["grown"]["significant"]), (10 << 20, 30 << 20, True), "grown")
        hw.equal((by["gone"]["status"], by["gone"]["b"]), ("gone", 0), "gone")
        # 40 dumps of 10 processes on each side, each dump's variance the same.
        close(by["grown"]["error"], 2 * math.sqrt(2 * (10 << 20) * 4096.0 / 10), 10, "errors add up")
        hw.equal(by["same"]["significant"], abs(by["same"]["change"]) > by["same"]["error"], "same")
        text = fleet(box, "diff", "--a", "version=1.41", "--b", "version=1.42", "--since", "2d").stdout.decode()
        hw.true("version=1.42  10 hosts, 10 processes, 40" in text, text)
        have = ask(box, "diff", "--host", "h0", "--since", "20d", "--a", "until=5d", "--b", "since=2d")
        by = {r["function"]: r for r in have["rows"]}
        hw.equal((by["grown"]["a"], by["grown"]["b"]), (20 << 20, 10 << 20), "A and B in time")
        fleet(box, "diff", "--a", "version=1.41", "--b", "version=1.42", "--since", "2d", "--fail-above", "10%", check=3)
        fleet(box, "diff", "--a", "version=1.41", "--b", "version=9", check=5)
        fleet(box, "diff", check=2)


def leaks(box):
    """Twelve days: one site grows, one does not, one is asked for and freed all the time."""
    stacks = {1: ["main", "leaky", "malloc"], 2: ["main", "flat", "malloc"], 3: ["main", "churn", "malloc"]}
    rows = []
    for day in range(12):
        for host in range(5):
            common = dict(host=f"h{host}", pid=1, ts=TODAY - DAY * (12 - day) + 3600 + host)
            rows.append(row(stack=1, space=(day + 1) << 20, objects=(day + 1) * 64, alloc_space=1 << 20,
                            alloc_objects=64, variance=0.0, interval=1, **common))
            rows.append(row(stack=2, space=9 << 20, objects=9, interval=1, **common))
            rows.append(row(stack=3, space=8 << 20, objects=9, alloc_space=1 << 30, alloc_objects=999, interval=1, **common))
    with store(box) as server:
        fill(box, server, rows, stacks)
        have = ask(box, "leaks", "--service", "checkout")
        by = {r["function"]: r for r in have["rows"]}
        hw.equal(len(have["seconds"]), 12, "days")
        hw.equal(by["leaky"]["verdict"], "likely leak", f"{by['leaky']}")
        hw.equal(by["leaky"]["history"], [(d + 1) << 20 for d in range(12)], "its curve")
        hw.equal([by[f]["verdict"] for f in ("flat", "churn")], ["start-up", "churn"], "the others")
        fleet(box, "leaks", "--fail-above", "1M", check=3)
        hw.true(b"leaky" in fleet(box, "leaks").stdout, "text")


def deviating(box):
    """One host of thirty holds twice as much."""
    rnd = random.Random(3)
    rows = [row(host=f"h{h:02}", pid=p, ts=NOW - 3600 * d - 60, space=(200 << 20 if h == 17 else 100 << 20) + rnd.randint(-1 << 20, 1 << 20),
                objects=1000, variance=1e12) for h in range(30) for p in range(2) for d in range(3)]
    with store(box) as server:
        fill(box, server, rows, {1: ["main", "work", "malloc"]})
        have = ask(box, "hosts", "--since", "3d", "--top", "0")
        means = {}
        for r in rows:
            means.setdefault(r["host"], []).append(r["space"])
        means = {h: statistics.mean(v) for h, v in means.items()}
        hw.equal({r["host"] for r in have["rows"] if r["deviates"]}, {"h17"}, "who deviates")
        hw.equal(have["rows"][0]["host"], "h17", "first")
        close(have["median"], statistics.median(means.values()), 1, "median")
        for r in have["rows"]:
            close(r["value"], means[r["host"]], 1, r["host"])
        close(have["rows"][0]["error"], 2 * math.sqrt(6e12 / 6 / 2), 1, "its error")
        text = fleet(box, "hosts", "--since", "3d").stdout.decode()
        hw.true("--a 'host!=h17' --b 'host=h17'" in text and "1 deviates" in text, text)


def hostile(box):
    """Labels are anybody's text: each names its own rows and nothing else happens."""
    rows = [row(service=s, host=f"h{i}", labels={"pod": s}, space=(i + 1) << 10, objects=1) for i, s in enumerate(HOSTILE)]
    with store(box) as server:
        fill(box, server, rows, {1: ["main", "work\x1b[31m", "malloc"]})
        count = server.ask("SELECT count() FROM samples", database="profiles")
        for i, s in enumerate(HOSTILE):
            for words in (["--service", s], ["-l", f"pod={s}"], ["--since", "1d", "-l", f"service={s}"]):
                have = ask(box, "top", *words)
                hw.equal((have["total"], have["dumps"]), ((i + 1) << 10, 1), f"{words}")
        values = {w["value"] for w in ask(box, "labels", "service")["values"]}
        hw.equal(values, set(HOSTILE), "values")
        hw.true(b"\x1b" not in fleet(box, "top").stdout + fleet(box, "labels", "pod").stdout, "no control bytes")
        for name in ("a'b", "v[1]", "1x", "labels.k", "a) OR (1"):
            fleet(box, "top", "-l", f"{name}=x", check=2)
            fleet(box, "labels", name, check=1)
        r = fleet(box, "top", "-l", "service~(", check=1)
        hw.true(b"answered" in r.stderr, f"a regex that is none: {r.stderr}")
        hw.equal(server.ask("SELECT count() FROM samples", database="profiles"), count, "rows after all that")


def not_there(box):
    """No store, a wrong one, an empty one: named, with what to do."""
    r = fleet(box, "top", check=2)
    hw.true(b"which store?" in r.stderr and b"HEAPWISE_STORE" in r.stderr, f"{r.stderr}")
    r = fleet(box, "top", "--store", "pyroscope://localhost", check=2)
    hw.true(b"not asked" in r.stderr, f"{r.stderr}")
    dead = f"clickhouse://127.0.0.1:{clickhouse.free_port()}/profiles"
    r = fleet(box, "top", "--store", dead, check=1)
    hw.true(dead.encode() in r.stderr and b"hint:" in r.stderr, f"{r.stderr}")
    fleet(box, "top", "--to", dead, check=1)
    fleet(box, "tops", "--store", dead, check=2)
    fleet(box, "top", "more", "--store", dead, check=2)
    for words in (["top", "-f", "x"], ["flame", "--json"], ["hosts", "-a", "x=1"], ["leaks", "-m", "objects"]):
        r = fleet(box, *words, "--store", dead, check=2)
        hw.true(b"takes no --" in r.stderr, f"{words}: {r.stderr}")
    with store(box) as server:
        r = fleet(box, "top", check=1)  # no such tables
        hw.true(b"--init-schema" in r.stderr, f"{r.stderr}")
        fill(box, server, [row()], {})
        r = fleet(box, "top", "--service", "nobody", check=5)
        hw.true(b"service=nobody" in r.stderr and b"fleet labels" in r.stderr, f"{r.stderr}")
        hw.true(b"no frames" in fleet(box, "top", "-m", "objects").stderr, "callstacks without frames are told")
        server.p.send_signal(19)  # SIGSTOP: it hangs
        p = box.start([hw.tool("heapwise"), "fleet", "top"])
        hw.wait_for(lambda: any("socket:" in os.readlink(f) for f in glob.glob(f"/proc/{p.pid}/fd/*") if os.path.islink(f)), "its connection")
        p.terminate()
        p.communicate(timeout=hw.CLOCK)
        server.p.send_signal(18)


if __name__ == "__main__":
    hw.main({"truth": truth, "differences": differences, "leaks": leaks, "deviating": deviating, "hostile": hostile,
             "not-there": not_there})
