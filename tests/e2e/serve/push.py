#!/usr/bin/env python3
"""
Profiles to stores: what arrives, what is there after a cut, a kill, a day without the store.

ClickHouse is Debian's, run on loopback; the other stores are an HTTP server of the test's own, whose
requests protoc decodes by the definitions in lib/stores.
"""
import base64
import collections
import csv
import io
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import clickhouse as server
from lib import hw
from lib.pprof import Pprof
from lib.store import Fake, Proxy

SECRET = "p@ss w\u00f6rd"
DEFINITIONS = pathlib.Path(__file__).resolve().parent.parent / "lib" / "stores"


def day(box, dumps=12, stacks=150, changed=40, name="day.trace"):
    """A trace of as many dumps, a minute from one to the next."""
    generator = hw.BUILD / "bench/load/load"
    if not generator.exists():
        raise hw.Skip("bench/load is not built")
    box.run([generator, "day", box.path(name), dumps, stacks, changed], check=0)
    return box.path(name)


def query(box, file, sql):
    r = box.run([hw.tool("heapwise"), "query", file, sql], check=0)
    return [tuple(row) for row in list(csv.reader(io.StringIO(r.stdout.decode())))[1:]]


def push(box, url, *args, check=0, **kw):
    return box.run([hw.tool("heapwise"), "push", "-v", "--to", url, *args], check=check, **kw)


def truth(box, file):
    """By dump: bytes held, bytes asked for since the dump before (SQL over the same file)."""
    changes = query(box, file, "select ts, sum(size), sum(max(size, 0)) from heap_profile_allocation group by ts order by ts")
    held, out = 0, []
    for _, change, asked in changes:
        held += int(change)
        out.append((held, int(asked)))
    return out


METRICS = ("space", "objects", "alloc_space", "alloc_objects")


def stored(store, where="1"):
    rows = store.ask("select toUnixTimestamp(ts) as t, sum(space), sum(alloc_space) from samples "
                     f"where {where} group by t order by t FORMAT TSV")
    return [(int(s), int(a)) for _, s, a in rows]


class Store:
    """ClickHouse of this box's own. ask: rows of texts."""

    def __init__(self, box):
        if not server.installed():
            raise hw.Skip("clickhouse-server is not installed")
        self.server = server.Server(box.path("clickhouse"), users={"secret": SECRET})
        box.children.append(self.server.p)
        self.port, self.url = self.server.port, self.server.url("profiles", user="default")

    def ask(self, sql, database="profiles"):
        return [line.split("\t") for line in self.server.ask(sql, database=database).splitlines()]


def start(box):
    store = Store(box)
    push(box, store.url, "--init-schema")
    return store


def clickhouse(box):
    """Rows are what SQL says of the file; pushed again nothing is added; labels and frames arrive whole."""
    store = start(box)
    push(box, store.url, "--init-schema")  # they are there: fine
    file = day(box)
    said = push(box, store.url, "--service", "check'out\\", "--version", "1.41", "--host", "node-7", "--label", "pod=a'b\\",
                "--label", "2nd-zone=x", file).stderr.decode()
    want = truth(box, file)
    hw.equal(stored(store), want, "bytes by dump")
    n = int(store.ask("select count() from samples")[0][0])
    hw.true(f"{n} rows sent, 0 were there" in said, said)
    hw.equal(store.ask("select distinct service, host, version, build_id, pid, heap, labels.k, labels.v from samples"),
             [["check\\'out\\\\", "node-7", "1.41", "3031323334353637383930313233343536373839", "4711", "libc.malloc",
               "['pod','_2nd_zone']", "['a\\'b\\\\','x']"]], "labels")
    twice = push(box, store.url, "--service", "check'out\\", "--host", "node-7", file).stderr.decode()
    hw.true(f"0 rows sent, {n} were there" in twice, twice)
    hw.equal(stored(store), want, "bytes by dump, pushed twice")
    # Every stack a sample names is there, once, with arrays of one length; the frames are the file's.
    hw.equal(store.ask("select count() from samples where stack not in (select hash from stacks)"), [["0"]], "orphans")
    hw.equal(store.ask("select count() from stacks where length(frames) != length(modules) or "
                       "length(frames) != length(files) or length(frames) != length(lines)"), [["0"]], "arrays")
    leaf = "select f.name, sum(size) from heap_profile_allocation a join stack_profile_callsite c on a.callsite_id = c.id " \
           "join stack_profile_frame f on c.frame_id = f.id group by 1 order by 2 desc, 1 limit 10"
    mine = store.ask("select frames[-1] as leaf, sum(space) as s from (select stack, space from samples where ts = "
                     "(select max(ts) from samples)) any inner join (select hash as stack, frames from stacks) using stack "
                     "group by leaf order by s desc, leaf limit 10")
    hw.equal([tuple(r) for r in mine], query(box, file, leaf), "leaves at the last dump")
    # Another user, whose password has a space and an umlaut.
    secret = f"clickhouse://secret@127.0.0.1:{store.port}/profiles"
    r = push(box, secret, file, check=1, env={"HEAPWISE_STORE_PASSWORD": "wrong"})
    hw.true(b"401" in r.stderr and b"wrong" not in r.stderr, r.stderr.decode())
    push(box, secret, file, env={"HEAPWISE_STORE_PASSWORD": SECRET})


def recorded(box):
    """A real program: build id of the executable as readelf says it, the time as the clock said it."""
    hw.need("readelf")
    store = start(box)
    before = time.time()
    hw.record(box, [hw.target("truth"), "1"], trace="t.trace")
    push(box, store.url, box.path("t.trace"))
    rows = store.ask("select service, build_id, toUnixTimestamp(max(ts)), `interval`, sum(space), sum(variance) from samples "
                     "where ts = (select max(ts) from samples) group by service, build_id, `interval`")
    hw.equal(len(rows), 1, f"rows {rows}")
    service, build_id, at, interval, space, variance = rows[0]
    notes = box.run(["readelf", "-n", hw.target("truth")]).stdout.decode()
    hw.equal(service, "t_truth", "service")
    hw.equal(build_id, re.search(r"Build ID: (\w+)", notes).group(1), "build id")
    hw.true(before - 2 <= int(at) <= time.time() + 2, f"time {at}, now {time.time()}")
    hw.equal((interval, variance), ("1", "0"), "exact")
    (held,), = query(box, box.path("t.trace"), "select sum(size) from heap_profile_allocation")
    hw.equal(space, held, "bytes held")


def older(box):
    """Tables from before the variances of all figures: a push says so and goes on; --init-schema adds what they lack."""
    store = Store(box)
    names = ["variance_objects", "variance_alloc_space", "variance_alloc_objects"]
    for s in push(box, store.url, "--init-schema", "--dry-run").stdout.decode().split(";\n"):
        if s.strip():  # as the tables were: the columns that came later are the last
            store.ask(re.sub(r", variance_objects .*(\) ENGINE)", r"\1", s.strip()), database="default")
    hw.record(box, [hw.target("truth"), "1"], "-i", "4096", trace="t.trace")
    said = push(box, store.url, box.path("t.trace")).stderr.decode()
    hw.true("are older" in said and "--init-schema adds the columns" in said, said)
    sums = "select sum(space), sum(variance), count() from samples"
    before = store.ask(sums)
    hw.true(float(before[0][1]) > 0, f"rows {before}")
    r = box.run([hw.tool("heapwise"), "fleet", "top", "--store", store.url, "-m", "objects"], check=1)
    hw.true(b"--init-schema" in r.stderr and b"adds columns" in r.stderr, r.stderr.decode())
    said = push(box, store.url, "--init-schema").stderr.decode()
    hw.true(all(f"column {n} " in said for n in names), said)
    hw.equal("added" in push(box, store.url, "--init-schema").stderr.decode(), False, "twice")
    # What is there keeps its figures, and has errors from them.
    hw.equal(store.ask(sums), before, "rows from before")
    for metric in METRICS:
        have = json.loads(box.run([hw.tool("heapwise"), "fleet", "top", "--store", store.url, "-m", metric, "--json"]).stdout)
        hw.true(0 < have["error"] < have["total"], f"{metric}: total {have['total']}, error {have['error']}")
    store.ask("drop table samples")
    push(box, store.url, "--init-schema")
    said = push(box, store.url, box.path("t.trace")).stderr.decode()
    hw.equal("older" in said, False, "the columns are there")
    want = json.loads(box.run([hw.tool("heapwise"), "report", "--json", "--top", "1", box.path("t.trace")]).stdout)
    for metric in METRICS:
        have = json.loads(box.run([hw.tool("heapwise"), "fleet", "top", "--store", store.url, "-m", metric, "--json"]).stdout)
        error = want["end"][f"{metric}_error"]
        hw.true(error > 0 and abs(have["error"] - error) <= error / 100, f"{metric}: fleet {have['error']}, report {error}")


def cut(box):
    """Requests cut anywhere, also behind a whole row, and answers that never arrive: each row is there once all the same."""
    store = start(box)
    file = day(box)
    chance, inserts, partly = random.Random(7), collections.Counter(), []

    def plan(head):
        line = head.split("\r\n")[0]
        table = re.search(r"INSERT%20INTO%20(\w+)", line)
        if not table:
            return None
        inserts[table[1]] += 1
        size = int(re.search(r"(?i)content-length: (\d+)", head)[1])
        if table[1] == "stacks":
            return {1: ("up", chance.randrange(1, size))}.get(inserts["stacks"])
        if inserts["samples"] == 2:
            partly.append(int(store.ask("select count() from samples")[0][0]))
        # All rows are of one length here: a third of them ends at a row's end.
        return {1: ("up", size // 3), 2: "reply"}.get(inserts["samples"])

    proxy = Proxy(store.port, plan)
    r = push(box, f"clickhouse://default@127.0.0.1:{proxy.port}/profiles", "--spool", box.path("spool"), file)
    hw.true(proxy.cuts >= 3, f"{proxy.cuts} cuts in {inserts}: {r.stderr.decode()}")
    print(f"  of a body cut behind a row the server kept {partly} rows")
    hw.equal(stored(store), truth(box, file), "bytes by dump")
    hw.equal(store.ask("select count() from samples"), store.ask("select uniqExact(ts, stack) from samples"), "rows, keys")
    proxy.close()


def killed(box):
    """Killed at any moment while it spools and sends, again and again: in the end each row is there once."""
    store = start(box)
    file = day(box, dumps=60, stacks=2000)
    chance = random.Random(11)
    down = f"clickhouse://default@127.0.0.1:{store.port}/profiles"
    nobody = "clickhouse://default@127.0.0.1:1/profiles"
    rounds = 40 if os.environ.get("HW_LONG") else 8
    for i in range(rounds):
        url = nobody if i % 2 else down
        p = box.start([hw.tool("heapwise"), "push", "-q", "--to", url, "--spool", box.path("spool"), "--retry-for", "0", file])
        try:
            p.wait(chance.uniform(0.02, 0.8))
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
    push(box, store.url, "--spool", box.path("spool"))
    push(box, store.url, "--spool", box.path("spool"), file)
    hw.equal(stored(store), truth(box, file), "bytes by dump")
    hw.equal(store.ask("select count() from samples"), store.ask("select uniqExact(ts, stack) from samples"), "rows, keys")
    hw.equal([f for f in os.listdir(box.path("spool")) if f.endswith(".push") or f == "half"], [], "left in the spool")


def cluster(box):
    """The server parses the statements for a cluster: what it lacks is ZooKeeper, not grammar."""
    store = Store(box)
    r = push(box, store.url, "--init-schema", "--cluster", "pair", "--dry-run")
    statements = [s for s in r.stdout.decode().split(";\n") if s.strip()]
    hw.equal(len(statements), 5, "statements")
    store.ask("create database profiles", database="default")
    for s in statements[1:]:
        alone = s.replace("ON CLUSTER `pair` ", "")
        hw.true(alone != s, s)
        try:
            store.ask(alone)
        except RuntimeError as e:
            hw.true("ZooKeeper" in str(e) and "Syntax error" not in str(e), e)
            hw.true("Replicated" in s, e)
    # Distributed tables are made without it, and lead to the tables of one machine.
    made = {r[0]: r[1] for r in store.ask("select name, engine from system.tables where database = 'profiles'")}
    hw.equal(made, {"stacks": "Distributed", "samples": "Distributed"}, "tables")
    one = [s for s in push(box, store.url, "--init-schema", "--dry-run").stdout.decode().split(";\n") if "TABLE" in s]
    for s in one:
        store.ask(re.sub(r"`profiles`\.(\w+)", r"`profiles`.\1_local", s))
    file = day(box)
    push(box, store.url, file)
    hw.equal(stored(store), truth(box, file), "bytes by dump, through the cluster's tables")
    for bad in ("a`b", "x y", "1; drop"):
        push(box, store.url, "--init-schema", "--cluster", bad, "--dry-run", check=1)


def down(box):
    """No store: what is to be sent waits in the spool, bounded; when it is back all of it arrives, oldest first."""
    file = day(box, dumps=8, stacks=50)
    nobody = "ingest://127.0.0.1:1"
    began = time.monotonic()
    r = push(box, nobody, "--spool", box.path("spool"), "--retry-for", "0", file, check=4)
    hw.true(b"8 requests" in r.stderr and b"wait in" in r.stderr, r.stderr.decode())
    hw.true(time.monotonic() - began < 20, "a store that is down holds nobody up")
    r = push(box, nobody, "--spool", box.path("one"), "--retry-for", "0", day(box, dumps=1, stacks=5), check=4)
    hw.true(b"1 request (" in r.stderr and b") waits in" in r.stderr and b"sends it" in r.stderr, r.stderr.decode())
    hw.equal(push(box, nobody, "--retry-for", "0", file, check=1).returncode, 1, "without a spool it fails")
    fake = Fake()
    push(box, f"ingest://127.0.0.1:{fake.port}", "--spool", box.path("spool"))
    times = [int(re.search(r"until=(\d+)", s[1]).group(1)) for s in fake.bodies()]
    hw.equal(len(times), 8, "requests")
    hw.equal(times, sorted(times), "order")
    push(box, f"ingest://127.0.0.1:{fake.port}", "--spool", box.path("spool"))
    hw.equal(len(fake.seen), 8, "nothing is sent twice")
    # Another kind of store cannot take them.
    push(box, nobody, "--spool", box.path("spool"), "--retry-for", "0", file, check=4)
    r = push(box, f"parca://127.0.0.1:{fake.port}", "--spool", box.path("spool"), check=1)
    hw.true(b"kind ingest" in r.stderr, r.stderr.decode())
    fake.close()


def impatient(box):
    """A store that answers slowly is not waited for beyond --retry-for; a head that is too long is a failed attempt."""
    file = day(box, dumps=1, stacks=5)
    slow = Fake([503, ("slow", 3 * hw.CLOCK, 200)])
    began = time.monotonic()
    push(box, f"ingest://127.0.0.1:{slow.port}", "--retry-for", "2s", file, check=1)
    hw.true(time.monotonic() - began < hw.CLOCK, f"it took {time.monotonic() - began} s")
    slow.close()
    fake = Fake([(200, {"X": "x" * 200000}), 200])
    r = push(box, f"ingest://127.0.0.1:{fake.port}", "--spool", box.path("spool"), "--retry-for", "0", file, check=4)
    hw.true(b"head is too long" in r.stderr and b"waits in" in r.stderr, r.stderr.decode())
    fake.close()


def bounded(box):
    """A spool that is full drops its oldest and says how many; a full disk as well; one push at a time has it."""
    file = day(box, dumps=40, stacks=400)
    nobody = "ingest://127.0.0.1:1"
    r = push(box, nobody, "--spool", box.path("spool"), "--spool-size", "300K", "--retry-for", "0", file, check=4)
    size = sum(p.stat().st_size for p in pathlib.Path(box.path("spool")).glob("*.push"))
    left = len(list(pathlib.Path(box.path("spool")).glob("*.push")))
    hw.true(size <= 300 * 1024 and left > 2, f"{size} bytes in {left} files")
    dropped = int(re.search(r"(\d+) requests were dropped", r.stderr.decode()).group(1))
    hw.equal(dropped + left, 40, "dropped and waiting")
    fake = Fake()
    push(box, f"ingest://127.0.0.1:{fake.port}", "--spool", box.path("spool"))
    until = [int(re.search(r"until=(\d+)", s[1]).group(1)) for s in fake.bodies()]
    hw.equal(len(until), left, "sent")
    hw.true(max(until) - min(until) == 60 * (left - 1), "the newest are kept")
    p = box.start([hw.tool("heapwise"), "push", "--to", nobody, "--spool", box.path("spool"), "--retry-for", "30s", file])
    hw.wait_for(lambda: any(pathlib.Path(box.path("spool")).glob("*.push")), "a spool in use")
    r = push(box, nobody, "--spool", box.path("spool"), file, check=75)
    hw.true(b"another push uses" in r.stderr, r.stderr.decode())
    p.send_signal(signal.SIGINT)
    p.wait(hw.CLOCK)
    # Strangers' files in the spool: no entry, no harm.
    spool = pathlib.Path(box.path("other"))
    spool.mkdir()
    (spool / "000000000001-0123456789abcdef.push").write_bytes(b"hwpush1\nnot gzip")
    (spool / "000000000002-0123456789abcdef.push").write_bytes(b"")
    (spool / "readme").write_text("mine")
    r = push(box, f"ingest://127.0.0.1:{fake.port}", "--spool", spool, check=4)
    hw.true(b"2 requests were dropped" in r.stderr, r.stderr.decode())
    hw.true((spool / "readme").exists(), "a stranger's file")
    fake.close()
    disk = box.path("disk")
    os.mkdir(disk)
    script = f"mount -t tmpfs -o size=200k none {disk} && exec {hw.tool('heapwise')} push -v --to {nobody} " \
             f"--spool {disk}/spool --retry-for 0 {file}"
    r = box.run(["unshare", "-rm", "sh", "-c", script])
    if b"mount:" in r.stderr or b"unshare" in r.stderr:
        print("  no tmpfs of one's own here: a full disk was not tried")
        return
    hw.equal(r.returncode, 4, r.stderr.decode())
    hw.true(b"were dropped" in r.stderr, r.stderr.decode())

def busy(box):
    """429 with a wish, 500, 408: again. 400, 401, 404 and a redirection: final, said once. Cut: again. Slow: waited for."""
    file = day(box, dumps=3, stacks=20)
    fake = Fake([(429, {"Retry-After": "2"}), 500, "cut", ("slow", 0.5, 200), 408, 200])
    push(box, f"ingest://127.0.0.1:{fake.port}", file)
    hw.equal([s[0] for s in fake.seen], [429, 500, 200, 408, 200, 200], "answers")
    hw.true(fake.seen[1][4] - fake.seen[0][4] >= 1.9, "the store's wish")
    hw.equal(fake.seen[0][3], fake.seen[2][3], "the same request again")
    fake.close()
    for status in (400, 401, 404, (302, {"Location": "http://127.0.0.1:1/"})):
        fake = Fake([status, 200])
        r = push(box, f"ingest://127.0.0.1:{fake.port}", "--spool", box.path(f"spool{fake.port}"), file, check=1)
        hw.equal(len(fake.seen), 3, f"requests after {status}")
        hw.equal(r.stderr.count(b"refused for good"), 1, r.stderr.decode())
        hw.true(b"because the test says so" in r.stderr, r.stderr.decode())
        fake.close()
    fake = Fake([400])
    r = push(box, f"ingest://127.0.0.1:{fake.port}", file, check=1)
    hw.equal((len(fake.seen), r.stderr.count(b"refused for good")), (3, 1), "said once")
    fake.close()


def protoc(box, how, body):
    """how: "decode" or "encode", the file, the message."""
    hw.need("protoc")
    what, file, message = how
    return box.run(["protoc", f"-I{DEFINITIONS}", f"--{what}={message}", file], stdin=body, check=0).stdout


def pprof_of(box, raw):
    pathlib.Path(box.path("one.pb.gz")).write_bytes(raw)
    return Pprof(box.path("one.pb.gz"))


def numbers(box, raw):
    """What a pprof file says in all, by column."""
    p = pprof_of(box, raw)
    hw.equal(p.types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"], "columns")
    return {t: sum(values[t] for _, values in p.samples) for t in p.types}


def labels_wanted(service):
    return {"__name__": "memory", service: "shop", "host": "node-7", "pid": "4711", "heap": "libc.malloc",
            "build_id": "3031323334353637383930313233343536373839", "version": "2.0", "interval": "4096", "pod": "a"}


LABELS = ["--service", "shop", "--host", "node-7", "--version", "2.0", "--label", "pod=a"]


def check_numbers(box, file, raws):
    got = [numbers(box, raw) for raw in raws]
    hw.equal([(n["inuse_space"], n["alloc_space"]) for n in got], truth(box, file), "bytes held and asked for")


def pyroscope(box):
    """PushRequest as protoc reads it; the same profile has the same id."""
    file = day(box, dumps=5, stacks=40)
    fake = Fake()
    url = f"pyroscope://u:s%40crt@127.0.0.1:{fake.port}"
    push(box, url, *LABELS, "--tenant", "team", file)
    push(box, url, *LABELS, file)
    (_, path, headers, body, _), (_, _, _, again, _) = fake.seen
    hw.equal(path, "/push.v1.PusherService/Push", "path")
    hw.equal(headers["Content-Type"], "application/proto", "type")
    hw.equal(headers["X-Scope-OrgID"], "team", "tenant")
    hw.equal(headers["Authorization"], "Basic " + base64.b64encode(b"u:s@crt").decode(), "credentials")
    hw.equal(body, again, "the same push")
    text = protoc(box, ("decode", "push.proto", "push.v1.PushRequest"), body).decode()
    hw.true(not re.search(r"^\s*\d+:", text, re.M), "fields that the definition does not know")
    series = text.split("series {")[1:]
    hw.equal(len(series), 5, "series")
    for s in series:
        # What was asked for is that since the dump before: it must not be taken for a total there.
        hw.equal(dict(re.findall(r'name: "(.*?)"\s+value: "(.*?)"', s)), {**labels_wanted("service_name"), "__delta__": "false"}, "labels")
    ids = re.findall(r'ID: "([0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})"', text)
    hw.equal(len(set(ids)), 5, "ids")
    check_numbers(box, file, [unescape(r) for r in re.findall(r'raw_profile: "(.*)"', text)])
    fake.close()


def unescape(text):
    """Bytes of a string as protoc prints it."""
    return re.sub(r'\\([0-7]{1,3}|.)', lambda m: chr(int(m[1], 8)) if m[1][0].isdigit() else
                  {"n": "\n", "r": "\r", "t": "\t"}.get(m[1], m[1]), text).encode("latin-1")


def ingest(box):
    """The older form: labels in the URL, profile and columns as parts of a form, one request a dump."""
    file = day(box, dumps=5, stacks=40)
    fake = Fake()
    push(box, f"ingest://127.0.0.1:{fake.port}", *LABELS, "--label", 'bad={"x",y}', file, env={"HEAPWISE_STORE_TOKEN": "t0k"})
    raws = []
    for _, path, headers, body, _ in fake.seen:
        url = urllib.parse.urlsplit(path)
        q = dict(urllib.parse.parse_qsl(url.query))
        name, inner = re.fullmatch(r"(.*?)\{(.*)\}", q["name"]).groups()
        want = labels_wanted("service_name")
        hw.equal((url.path, name, q["format"]), ("/ingest", want.pop("service_name"), "pprof"), "request")
        want.pop("__name__")
        hw.equal(dict(kv.split("=") for kv in inner.split(",")), {**want, "bad": "__x__y_"}, "labels")
        hw.true(0 < int(q["until"]) - int(q["from"]) <= 60 or path == fake.seen[0][1], "from and until")
        hw.equal(headers["Authorization"], "Bearer t0k", "credentials")
        boundary = re.fullmatch(r"multipart/form-data; boundary=([0-9a-f-]+)", headers["Content-Type"])[1].encode()
        first, second = re.fullmatch(rb"--%b\r\n(.*)\r\n--%b\r\n(.*)\r\n--%b--\r\n" % ((boundary,) * 3), body, re.S).groups()
        (one, raw), (two, columns) = first.split(b"\r\n\r\n", 1), second.split(b"\r\n\r\n", 1)
        hw.true(b'name="profile"' in one and b'name="sample_type_config"' in two, "parts")
        hw.equal({name: (c["aggregation"], c["cumulative"]) for name, c in json.loads(columns).items()},
                 {**dict.fromkeys(("alloc_objects", "alloc_space"), ("sum", False)), **dict.fromkeys(("inuse_objects", "inuse_space"), ("average", False))},
                 "columns")
        raws.append(raw)
    check_numbers(box, file, raws)
    fake.close()


def parca(box):
    """WriteRaw's JSON, which the definition takes as it is: encoded by protoc's own reader of field names."""
    file = day(box, dumps=5, stacks=40)
    fake = Fake()
    push(box, f"parca://127.0.0.1:{fake.port}/base", *LABELS, file)
    (_, path, headers, body, _), = fake.seen
    hw.equal((path, headers["Content-Type"]), ("/base/profiles/writeraw", "application/json"), "request")
    said = json.loads(body)
    hw.equal(set(said), {"series", "normalized"}, "members")
    text = "normalized: true\n"
    for s in said["series"]:
        hw.equal({x["name"]: x["value"] for x in s["labels"]["labels"]}, labels_wanted("service"), "labels")
        names = "".join(f'labels {{ name: {json.dumps(x["name"])} value: {json.dumps(x["value"])} }} ' for x in s["labels"]["labels"])
        text += f"series {{ labels {{ {names} }} samples {{ raw_profile: \"x\" }} }}\n"
    protoc(box, ("encode", "parca.proto", "parca.profilestore.v1alpha1.WriteRawRequest"), text.encode())
    got = []
    for s in said["series"]:
        held, asked = (pprof_of(box, base64.b64decode(x["rawProfile"])) for x in s["samples"])
        # All columns of a profile with a duration count as differences.
        hw.equal((held.types, asked.types), (["inuse_objects", "inuse_space"], ["alloc_objects", "alloc_space"]), "columns")
        hw.equal((held.duration_ns, asked.duration_ns > 0), (0, True), "duration")
        got.append((sum(v["inuse_space"] for _, v in held.samples), sum(v["alloc_space"] for _, v in asked.samples)))
    hw.equal(got, truth(box, file), "bytes held and asked for")
    fake.close()


def otlp(box):
    """OpenTelemetry's tables as protoc reads them: indices lead to rows, the figures are the file's."""
    file = day(box, dumps=4, stacks=40)
    fake = Fake()
    url = f"otlp://127.0.0.1:{fake.port}"
    r = push(box, url, *LABELS, file, check=77)
    hw.true(b"--alpha" in r.stderr, r.stderr.decode())
    push(box, url, "--alpha", *LABELS, file)
    hw.equal(len(fake.seen), 4, "requests")
    got = []
    for _, path, headers, body, _ in fake.seen:
        hw.equal((path, headers["Content-Type"]), ("/v1development/profiles", "application/x-protobuf"), "request")
        text = protoc(box, ("decode", "otlp.proto", "opentelemetry.ExportProfilesServiceRequest"), body).decode()
        hw.true(not re.search(r"^\s*\d+:", text, re.M), "fields that the definition does not know")
        attributes = dict(re.findall(r'key: "(.*?)"\s+value \{\s+string_value: "(.*?)"', text))
        hw.equal(attributes, {"service.name": "shop", "host.name": "node-7", "process.pid": "4711", "heapwise.heap": "libc.malloc",
                              "process.executable.build_id.gnu": "3031323334353637383930313233343536373839",
                              "service.version": "2.0", "heapwise.interval": "4096", "pod": "a"}, "attributes")
        strings = re.findall(r'^  string_table: "(.*)"', text, re.M)
        hw.equal(strings[0], "", "string 0")
        stacks = text.count("\n  stack_table {")
        locations = text.count("\n  location_table {")
        used = [int(i) for i in re.findall(r"location_indices: (\d+)", text)]
        hw.true(0 < min(used) and max(used) < locations, f"locations {min(used)}..{max(used)} of {locations}")
        columns = {}
        for profile in text.split("    profiles {")[1:]:
            kind = strings[int(re.search(r"type_strindex: (\d+)", profile)[1])]
            samples = re.findall(r"stack_index: (\d+)\s+values: (-?\d+)", profile)
            hw.true(all(0 < int(s) < stacks for s, _ in samples), "stack indices")
            columns[kind] = sum(int(v) for _, v in samples)
        got.append((columns["inuse_space"], columns["alloc_space"]))
        names = [strings[int(i)] for i in re.findall(r"name_strindex: (\d+)", text)]
        hw.true(any("handle_request" in n for n in names), names[:5])
    hw.equal(got, truth(box, file), "bytes held and asked for")
    fake.close()


def tls(box):
    """Over TLS the other side must prove who it is; CURL_CA_BUNDLE names whom to believe."""
    hw.need("openssl")
    key = box.path("key.pem")
    box.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost", "-keyout", key, "-out", box.path("cert.pem")], check=0)
    with open(key, "a") as f:
        f.write(pathlib.Path(box.path("cert.pem")).read_text())
    fake, file = Fake(tls=key), day(box, dumps=1, stacks=5)
    url = f"ingest+https://localhost:{fake.port}"
    r = push(box, url, "--retry-for", "0", file, check=1)
    hw.true(b"certificate" in r.stderr and not fake.seen, r.stderr.decode())
    push(box, url, file, env={"CURL_CA_BUNDLE": box.path("cert.pem")})
    hw.equal(len(fake.bodies()), 1, "requests")
    r = push(box, f"ingest+https://127.0.0.1:{fake.port}", "--retry-for", "0", file, check=1,
             env={"CURL_CA_BUNDLE": box.path("cert.pem")})
    hw.equal(len(fake.bodies()), 1, "requests to another name than the certificate's")
    fake.close()


def watch(box):
    """Files that come into a directory are sent once each, with their labels, also over a kill and a store that is down."""
    came, spool = pathlib.Path(box.path("came")), box.path("spool")
    came.mkdir()
    fake = Fake()

    def put(name, label=None):
        made = day(box, dumps=1, stacks=5, name="made")
        if label:
            (came / (name + ".labels")).write_text(f"# of the recorder\n{label}\n")
        shutil.copy(made, came / (name + ".part"))
        os.rename(came / (name + ".part"), came / name)

    def begin(port):
        return box.start([hw.tool("heapwise"), "push", "-v", "--to", f"ingest://127.0.0.1:{port}", "--spool", spool,
                          "--watch", came, "--label", "all=1", "--service", "s"])

    def names():
        return [urllib.parse.parse_qs(s[1].split("?")[1])["name"][0] for s in fake.bodies()]

    (came / ".hidden").write_text("x")
    (came / "half.part").write_text("x")
    (came / "broken").write_text("no profile")
    # Who writes there may not lead us to files that only we may read, nor hold us up.
    shutil.copy(day(box, dumps=1, stacks=5, name="made"), box.path("elsewhere"))
    os.symlink(box.path("elsewhere"), came / "0link")
    pathlib.Path(box.path("secret")).write_text("PASSWORD=hunter2\n")
    put("a")
    os.symlink(box.path("secret"), came / "a.labels")
    p = begin(fake.port)
    hw.wait_for(lambda: len(names()) == 1, "the file that was there")
    hw.true("hunter2" not in names()[0], names()[0])
    os.killpg(p.pid, signal.SIGKILL)
    p.communicate()
    for f in ("a", "a.labels", "0link"):
        os.unlink(came / f)
    fake.seen.clear()
    os.mkfifo(came / "a.labels.part")
    os.rename(came / "a.labels.part", came / "c.labels")
    put("a", "service=other")
    p = begin(fake.port)
    hw.wait_for(lambda: len(names()) == 1, "a file")
    put("b", "pod=7")
    hw.wait_for(lambda: len(names()) == 2, "a file that came")
    hw.wait_for(lambda: b"\tb\n" in pathlib.Path(spool, "taken").read_bytes(), "it is kept in mind")
    os.killpg(p.pid, signal.SIGKILL)
    p.communicate()
    put("c")
    p = begin(fake.port)
    hw.wait_for(lambda: len(names()) == 3, "a file that came meanwhile")
    hw.wait_for(lambda: b"\tc\n" in pathlib.Path(spool, "taken").read_bytes(), "it is kept in mind")
    p.send_signal(signal.SIGTERM)
    _, said = p.communicate(timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, said.decode())
    hw.true(b"'broken'" not in said, "said once, before the kill: " + said.decode())
    first, second, third = names()
    hw.true(first.startswith("other{") and "all=1" in first and "pod" not in first, first)
    hw.true(second.startswith("s{") and "pod=7" in second, second)
    hw.true("pod" not in third, third)
    p = begin(1)  # nobody is there
    put("d")
    put("e")
    hw.wait_for(lambda: len(list(pathlib.Path(spool).glob("*.push"))) == 2, "two wait")
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=hw.CLOCK)
    p = begin(fake.port)
    hw.wait_for(lambda: len(names()) == 5, "what waited is sent")
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=hw.CLOCK)
    hw.equal(sorted(f for f in os.listdir(came)),
             [".hidden", "a", "a.labels", "b", "b.labels", "broken", "c", "c.labels", "d", "e", "half.part"], "the directory")
    fake.close()


def watch_stopped(box):
    """Stopped while the store has not answered yet: what is under way waits for the next run, which does not take the file again besides."""
    came, spool = pathlib.Path(box.path("came")), pathlib.Path(box.path("spool"))
    came.mkdir()
    fake = Fake([("slow", 2, 200), 200])
    shutil.copy(day(box, dumps=1, stacks=5, name="made"), came / "f")

    def begin():
        return box.start([hw.tool("heapwise"), "push", "--to", f"ingest://127.0.0.1:{fake.port}", "--spool", spool, "--watch", came])

    def end(p):
        p.send_signal(signal.SIGTERM)
        hw.equal((p.communicate(timeout=hw.CLOCK), p.returncode)[1], 0, "its end")
    p = begin()
    hw.wait_for(lambda: fake.at == 1, "the request")
    end(p)
    hw.equal(len(list(spool.glob("*.push"))), 1, "requests that wait")
    p = begin()
    hw.wait_for(lambda: not list(spool.glob("*.push")) and len(fake.bodies()) >= 2, "what waited is sent")
    hw.quiet(1.5)  # it looks for new files meanwhile
    end(p)
    hw.equal(len(fake.bodies()), 2, "requests, of which the first was not answered")
    fake.close()


def dry_run(box):
    """Requests are printed and none is sent; secrets are not printed."""
    file = day(box, dumps=2, stacks=10)
    fake = Fake()
    for form in ("clickhouse", "pyroscope", "ingest", "parca"):
        url = f"{form}://user:s3cret@127.0.0.1:{fake.port}/x"
        out = push(box, url, "--dry-run", file).stdout.decode()
        hw.true("POST http://127.0.0.1" in out and "s3cret" not in out, out)
        hw.true(form == "clickhouse" or "Authorization: (not shown)" in out, out)
    hw.equal(fake.seen, [], "requests")
    fake.close()


def wrong(box):
    """What is no store, no file, no profile is said."""
    file = day(box, dumps=1, stacks=5)
    for url in ("nope", "bogus://x", "clickhouse://", "clickhouse://a b", "clickhouse://h:99999999", "clickhouse://h/a`b",
                "ingest+ftp://h", "clickhouse://[::1", "clickhouse://h:"):
        push(box, url, file, check=1)
    push(box, "ingest://127.0.0.1:1", check=2)
    r = push(box, "ingest://127.0.0.1:1", "/nonexistent", check=1)
    hw.true(b"/nonexistent" in r.stderr, r.stderr.decode())
    push(box, "ingest://127.0.0.1:1", "--label", "novalue", file, check=1)


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and
         k not in ("day", "query", "push", "truth", "stored", "start", "protoc", "Store", "numbers", "labels_wanted", "check_numbers",
                   "unescape", "pprof_of")}

if __name__ == "__main__":
    hw.main(CASES)
