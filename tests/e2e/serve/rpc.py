#!/usr/bin/env python3
"""The trace processor's RPC, asked by a client that knows only proto/rpc.proto (through protoc) and the
wire format: HTTP endpoints, WebSocket, pipes, who may ask, limits, clients that leave."""
import base64
import contextlib
import hashlib
import http.client
import io
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import arrow, hw
from lib.proto import fields, ints, message, one, text

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROTO = ROOT / "proto"
APPEND, FINALIZE, QUERY, METRIC, DESCRIPTORS, RESTORE = 1, 2, 3, 5, 6, 7
METATRACE_ON, METATRACE_READ, STATUS, RESET, REGISTER, SUMMARY, STATEMENT, EXPORT = 8, 9, 10, 11, 13, 15, 20, 21


def protoc(kind, what, data, proto="rpc.proto"):
    if not shutil.which("protoc"):
        raise hw.Skip("no protoc")
    r = subprocess.run(["protoc", f"-I{PROTO}", f"--{kind}=perfetto.protos.{what}", proto], input=data,
                       capture_output=True)
    hw.equal(r.returncode, 0, f"protoc {what}: {r.stderr[:300]!r}")
    return r.stdout


def encode(what, words):
    return protoc("encode", what, words.encode())


def varint(v):
    v &= (1 << 64) - 1
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def field(no, v):
    """A field with an int, bytes or text."""
    if isinstance(v, int):
        return varint(no << 3) + varint(v)
    v = v.encode() if isinstance(v, str) else v
    return varint(no << 3 | 2) + varint(len(v)) + v


def trace(box, name="profile"):
    [src] = (ROOT / "tests/golden/trace").glob(f"*/{name}.txt")
    r = subprocess.run(["protoc", f"-I{PROTO}", "--encode=perfetto.protos.Trace", "trace.proto",
                        "heapwise.proto", "art.proto"], stdin=open(src), capture_output=True)
    hw.equal(r.returncode, 0, "encoding the trace")
    path = box.path(name + ".trace")
    open(path, "wb").write(r.stdout)
    return path


class Result:
    """QueryResult messages, joined."""

    def __init__(self, data):
        m = message(data)
        self.names = [n.decode() for n in m[1]]
        self.error = text(m, 2)
        self.batches = [message(b) for b in m[3]]
        self.statements, self.with_output = one(m, 4), one(m, 5)
        self.last = text(m, 6)
        self.cells = []
        for b in self.batches:
            numbers = iter(ints(b[2]))
            doubles = iter(struct.unpack(f"<{len(one(b, 3, b'')) // 8}d", one(b, 3, b"")))
            strings = iter(bytes(one(b, 5, b"")).decode().split("\0"))
            blobs = iter(b[4])
            for kind in ints(b[1]):
                self.cells.append(None if kind == 1 else self.signed(next(numbers)) if kind == 2 else
                                  next(doubles) if kind == 3 else next(strings) if kind == 4 else
                                  bytes(next(blobs)))
        ends = [one(b, 6) for b in self.batches]
        hw.equal(ends, [0] * (len(ends) - 1) + [1], "only the last batch is the last one")

    @staticmethod
    def signed(v):
        return v - (1 << 64) if v >> 63 else v

    def rows(self):
        n = len(self.names)
        return [tuple(self.cells[i:i + n]) for i in range(0, len(self.cells), n)]


class Server:
    def __init__(self, box, *args, form=("server", "http", "--port", "0"), limits=()):
        self.p = box.start([hw.tool("trace_processor_shell"), *form, *args, *limits])
        line = self.p.stderr.readline().decode()
        m = re.search(r"http://\S+:(\d+)\. It takes no token", line)
        hw.true(m, f"the first line: {line!r}")
        self.port = int(m[1])

    def ask(self, path, body=None, headers=None, method=None, host=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=hw.CLOCK)
        h = dict(headers or {})
        if host:
            h["Host"] = host
        c.request(method or ("GET" if body is None else "POST"), path, body, h)
        r = c.getresponse()
        data = r.read()
        c.close()
        return r, data

    def get(self, path, body=None):
        r, data = self.ask(path, body)
        hw.equal(r.status, 200, path)
        hw.equal(r.headers["Content-Type"], "application/x-protobuf", path)
        return data

    def query(self, sql):
        return Result(self.get("/query", field(1, sql)))

    def stop(self):
        self.p.send_signal(signal.SIGTERM)
        hw.equal(self.p.wait(hw.CLOCK), 0, "exit of the server")


class WebSocket:
    def __init__(self, port, headers=""):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=hw.CLOCK)
        key = base64.b64encode(os.urandom(16)).decode()
        self.s.sendall((f"GET /websocket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
                        f"Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                        f"Sec-WebSocket-Version: 13\r\n{headers}\r\n").encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            c = self.s.recv(1)
            if not c:
                break
            head += c
        self.status = int(head.split()[1])
        self.head = head.decode()
        if self.status == 101:
            want = base64.b64encode(hashlib.sha1(
                (key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
            hw.true(f"Sec-WebSocket-Accept: {want}" in self.head, self.head)

    def frame(self, data, opcode=2, fin=True, mask=b"\x01\x02\x03\x04"):
        n = len(data)
        size = bytes([128 | n]) if n < 126 else bytes([128 | 126]) + struct.pack(">H", n) if n < 65536 \
            else bytes([128 | 127]) + struct.pack(">Q", n)
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.s.sendall(bytes([(128 if fin else 0) | opcode]) + size + mask + masked)

    def exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.s.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def receive(self):
        a, b = self.exactly(2)
        n = b & 127
        if n >= 126:
            n = int.from_bytes(self.exactly(2 if n == 126 else 8), "big")
        return a & 15, self.exactly(n)


def request(seq, method, args=b""):
    return field(1, field(1, seq) + field(2, method) + args)


def answers(data):
    """The messages of a stream."""
    return [message(m) for no, m in fields(data) if no == 1]


def endpoints(box):
    """Each endpoint gives the message that belongs to it, as protoc reads it."""
    s = Server(box, trace(box))
    status = protoc("decode", "StatusResult", s.get("/status")).decode()
    hw.true("profile.trace" in status and "api_version: 14" in status, status)
    shown = protoc("decode", "QueryResult", s.get("/query", encode(
        "QueryArgs", 'sql_query: "select 1 as a, 2.5 as b, null as c, \'x\' as d, x\'0102\' as e"'))).decode()
    for line in ['column_names: "a"', "cells: CELL_VARINT", "cells: CELL_FLOAT64", "cells: CELL_NULL",
                 "cells: CELL_STRING", "cells: CELL_BLOB", "varint_cells: 1", "float64_cells: 2.5",
                 r'blob_cells: "\001\002"', r'string_cells: "x\000"', "is_last_batch: true"]:
        hw.true(line in shown, f"{line} in\n{shown}")
    r = s.query("select 7; select pid, name from process where pid > 0 order by pid;  -- end\n")
    hw.equal((r.names, r.statements, r.with_output), (["pid", "name"], 2, 2), "last statement")
    hw.equal(r.last, "select pid, name from process where pid > 0 order by pid", "its text")
    hw.equal([x[0] for x in r.rows()], [7, 8, 9, 10, 11], "pids")
    r = s.query("create table t as select 5 as x")
    hw.equal((r.error, r.cells, r.names), ("", [], []), "no columns")
    hw.equal(s.query("select x from t").cells, [5], "the next request sees the table")
    s.get("/restore_initial_tables", b"")
    hw.true("no such table: t" in s.query("select x from t").error, "restore forgets it")
    hw.equal(s.query("").error, "No valid SQL to run", "an empty script")
    hw.true("not authorized" in s.query("attach 'x.db' as y").error, "the authorizer")
    r = s.query("select -1, 9223372036854775807, -9223372036854775807 - 1, 'a' || char(0) || 'b', cast(x'ff' as text)")
    hw.equal(r.cells, [-1, (1 << 63) - 1, -1 << 63, "a", "\ufffd"], "limits of cells")
    metric = protoc("decode", "ComputeMetricResult", s.get("/compute_metric", encode(
        "ComputeMetricArgs", 'metric_names: "unsymbolized_frames" format: TEXTPROTO'))).decode()
    hw.true("metrics_as_prototext" in metric and "unsymbolized_frames {" in metric, metric)
    metric = protoc("decode", "ComputeMetricResult", s.get("/compute_metric", encode(
        "ComputeMetricArgs", 'metric_names: "nonsense"'))).decode()
    hw.true("error:" in metric and "nonsense" in metric, metric)
    summary = protoc("decode", "TraceSummaryResult", s.get("/trace_summary", b"")).decode()
    hw.true("not supported" in summary, summary)
    sqlite = message(s.get("/export", b""))[1][0]
    hw.true(bytes(sqlite).startswith(b"SQLite format 3\0"), "the exported database")
    tar = b"".join(message(s.get("/export", encode("ExportArgs", "format: FORMAT_ARROW_TAR")))[1])
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        names, rows = arrow.read(archive.extractfile("process.arrow").read())
    hw.true("pid" in names and len(rows) > 1, f"{names}: {rows}")
    raw = message(s.get("/export", encode("ExportArgs", "format: FORMAT_PERFETTO")))[1][0]
    hw.equal(bytes(raw), open(box.path("profile.trace"), "rb").read(), "the exported trace")
    r, body = s.ask("/")
    hw.true(b"/websocket" in body and r.status == 200, "help")
    s.stop()


def load(box):
    """A trace in pieces, then another one: /parse, /notify_eof."""
    s = Server(box)
    hw.equal(text(message(s.get("/status")), 1), "", "no trace")
    hw.equal(s.query("select count(*) from heap_profile").cells, [0], "an empty trace has tables")
    data = open(trace(box), "rb").read()
    for i in range(0, len(data), 100):
        m = message(s.get("/parse", data[i:i + 100]))
        hw.equal((one(m, 1), text(m, 2)), (min(i + 100, len(data)), ""), "bytes so far")
    s.get("/notify_eof", b"")
    n = s.query("select count(*) from heap_profile_allocation").cells[0]
    hw.equal(n, 10, "rows")
    s.get("/parse", open(trace(box, "symbols"), "rb").read())
    s.get("/notify_eof", b"")
    other = s.query("select count(*) from stack_profile_symbol").cells[0]
    hw.true(other > 0, "data after the end is another trace")
    s.get("/parse", b"this is no trace")
    hw.true("no known format" in text(message(s.get("/notify_eof", b"")), 1), "its error")
    s.stop()


def pipe(box):
    """/rpc: the stream of messages in POSTs of one connection."""
    s = Server(box, trace(box))
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=hw.CLOCK)

    def post(data):
        c.request("POST", "/rpc", data)
        return answers(c.getresponse().read())
    hw.equal(one(post(request(0, STATUS))[0], 3), STATUS, "status")
    stream = request(1, QUERY, field(103, field(1, "select 4")))
    hw.equal(post(stream[:4]), [], "half a message")
    m = post(stream[4:])[0]
    hw.equal((one(m, 1), Result(m[203][0]).cells), (1, [4]), "the other half")
    hw.true("does not follow" in text(post(request(9, STATUS))[0], 5), "a lost message")
    s.stop()


def profile(box):
    """EXPERIMENTAL_PROFILE gives pprof files that protoc reads, with the stacks and sums of the tables."""
    s = Server(box, trace(box))
    r = s.query("select callsite_id, sum(size), sum(count) from heap_profile_allocation group by 1 order by 1")
    want = sorted((a, b) for _, a, b in r.rows())
    blob = s.query("select experimental_profile(cat_stacks('root', stack_from_stack_profile_callsite(callsite_id, 1), "
                   "'leaf'), 'space', 'bytes', size, 'objects', 'count', count) from heap_profile_allocation").cells[0]
    m = message(blob)
    strings = [bytes(b).decode() for b in m[6]]
    hw.equal(strings[0], "", "the first string")
    hw.equal([(strings[one(message(t), 1)], strings[one(message(t), 2)]) for t in m[1]],
             [("space", "bytes"), ("objects", "count")], "types")
    samples = [message(x) for x in m[2]]
    got = sorted(tuple(Result.signed(v) for v in ints(x[2])) for x in samples)
    hw.equal(got, want, "values of the stacks")
    names = {one(message(f), 1): strings[one(message(f), 2)] for f in m[5]}
    lines = {one(message(x), 1): [names[one(message(k), 1)] for k in message(x)[4]] for x in m[4]}
    for x in samples:
        stack = [lines[i] for i in ints(x[1])]
        hw.equal((stack[0], stack[-1]), (["leaf"], ["root"]), "leaf first")
    shown = protoc_profile(blob)
    hw.true('"main"' in shown and '"_Z3foov"' in shown, shown)
    s.stop()


def protoc_profile(blob):
    r = subprocess.run(["protoc", f"-I{PROTO}", "--decode=perftools.profiles.Profile", "pprof.proto"], input=blob,
                       capture_output=True)
    hw.equal(r.returncode, 0, "protoc of the profile")
    return r.stdout.decode()


def batches(box):
    """Large results come in batches of whole rows, and are complete."""
    s = Server(box)
    n = 200_000
    sql = (f"with recursive c(i) as (select 0 union all select i + 1 from c where i + 1 < {n}) "
           "select i, 'row ' || i as t, i / 2.0 as d, i * 3 as e, null as f from c")
    start = time.monotonic()
    r = s.query(sql)
    took = time.monotonic() - start
    hw.equal(len(r.cells), 5 * n, "cells")
    hw.equal(r.cells[5 * 123456:5 * 123456 + 5], [123456, "row 123456", 61728.0, 370368, None], "a row")
    for b in r.batches:
        cells = len(bytes(one(b, 1, b"")))
        hw.true(cells <= 50000 and cells % 5 == 0, f"{cells} cells in a batch")
        payload = sum(len(bytes(one(b, k, b""))) for k in (2, 3, 5))
        hw.true(payload < 160 << 10, f"{payload} bytes in a batch")
    hw.true(len(r.batches) >= 20, f"{len(r.batches)} batches")
    print(f"  {n} rows in {took:.2f} s")
    s.stop()


def checks(box):
    """Host, Origin, methods, sizes."""
    s = Server(box, "--additional-cors-origins", "https://a.example,https://b.example")

    def status(path="/status", **kw):
        r, _ = s.ask(path, **kw)
        return r.status, r.headers["Access-Control-Allow-Origin"]
    hw.equal(status(), (200, None), "without an origin")
    for origin in ("https://ui.perfetto.dev", "http://localhost:10000", "http://127.0.0.1:10000",
                   "https://b.example", f"http://127.0.0.1:{s.port}"):
        hw.equal(status(headers={"Origin": origin}), (200, origin), origin)
    for origin in ("https://evil.example", "null", "https://ui.perfetto.dev.evil.example",
                   "http://ui.perfetto.dev", f"http://127.0.0.1:{s.port + 1}"):
        hw.equal(status(headers={"Origin": origin}), (403, None), origin)
    for host in ("evil.example", f"evil.example:{s.port}", "", "[::1", "127.0.0.1.evil.example"):
        hw.equal(status(host=host or " ")[0], 403, f"host {host!r}")
    for host in ("localhost", f"localhost:{s.port}", "[::1]:1", "192.168.0.1"):
        hw.equal(status(host=host)[0], 200, f"host {host!r}")
    r, _ = s.ask("/query", method="OPTIONS", headers={
        "Origin": "https://ui.perfetto.dev", "Access-Control-Request-Private-Network": "true"})
    hw.equal((r.status, r.headers["Access-Control-Allow-Private-Network"]), (204, "true"), "preflight")
    hw.equal(s.ask("/query", method="OPTIONS", headers={"Origin": "https://evil.example"})[0].status, 403,
             "a foreign preflight")
    hw.equal(s.ask("/nothing")[0].status, 404, "an unknown path")
    hw.equal(s.ask("/query")[0].status, 405, "GET of a query")
    hw.equal(s.ask("/query", b"", {"Content-Length": str(1 << 40)})[0].status, 413, "a huge body")
    hw.equal(s.ask("/query", b"\xff\xff\xff")[0].status, 200, "broken arguments")
    hw.true("broken" in Result(s.ask("/query", b"\xff\xff\xff")[1]).error, "their error")
    hw.equal(s.ask("/compute_metric", b"\xff")[0].status, 400, "broken arguments")
    ws = WebSocket(s.port, "Origin: https://evil.example\r\n")
    hw.equal(ws.status, 403, "a foreign WebSocket")
    hw.equal(WebSocket(s.port, "Origin: https://ui.perfetto.dev\r\n").status, 101, "ours")
    hw.equal(s.ask("/websocket")[0].status, 400, "no upgrade asked for")
    s.stop()


def websocket(box):
    """The byte pipe in frames: in pieces, several messages a frame, sequence numbers, control frames."""
    s = Server(box, trace(box), form=("-D", "--http-port", "0"))
    ws = WebSocket(s.port)
    stream = request(0, STATUS) + request(1, QUERY, field(103, field(1, "select 1 as a")))
    ws.frame(stream[:5], fin=False)
    ws.frame(b"hello", opcode=9)
    ws.frame(stream[5:], opcode=0)
    hw.equal(ws.receive(), (10, b"hello"), "pong between the fragments")
    got = answers(ws.receive()[1]) + answers(ws.receive()[1])
    hw.equal([(one(m, 1, 0), one(m, 3)) for m in got], [(0, STATUS), (1, QUERY)], "answers")
    hw.equal(Result(got[1][203][0]).cells, [1], "cells")
    ws.frame(request(2, 999))
    m = answers(ws.receive()[1])[0]
    hw.equal((one(m, 1), one(m, 4), one(m, 3)), (2, 999, 0), "an unknown method")
    for byte in request(3, STATEMENT, field(115, field(1, "select 1; ; select 2 as b;") + field(2, 9))):
        ws.frame(bytes([byte]))
    m = message(answers(ws.receive()[1])[0][219][0])
    hw.equal((one(m, 2), one(m, 3), Result(m[1][0]).cells), (26, 1, [2]), "one statement of a script")
    ws.frame(request(4, STATEMENT, field(115, field(1, "select 1;  ") + field(2, 9))))
    m = message(answers(ws.receive()[1])[0][219][0])
    hw.equal((one(m, 2), one(m, 3)), (11, 0), "nothing left")
    module = field(1, "m.sql") + field(2, "create perfetto table mine as select 3 as z")
    ws.frame(request(5, REGISTER, field(108, field(1, "pack") + field(2, field(1, "pack.m") + module[7:]))))
    m = answers(ws.receive()[1])[0]
    hw.equal((one(m, 3), text(message(m[211][0]), 1)), (REGISTER, ""), "a package")
    ws.frame(request(6, QUERY, field(103, field(1, "include perfetto module pack.m; select z from mine"))))
    hw.equal(Result(answers(ws.receive()[1])[0][203][0]).cells, [3], "its table")
    ws.frame(request(7, RESTORE))
    hw.equal(one(answers(ws.receive()[1])[0], 3), RESTORE, "restore")
    ws.frame(request(8, EXPORT, field(116, field(1, 1))))
    data = b""
    while True:
        m = message(answers(ws.receive()[1])[0][220][0])
        data += one(m, 1, b"")
        if one(m, 3):
            break
    hw.true(data.startswith(b"SQLite format 3\0"), "export in pieces")
    other = WebSocket(s.port)
    other.frame(request(0, STATUS))
    hw.equal(one(answers(other.receive()[1])[0], 1, 0), 0, "another client has numbers of its own")
    ws.frame(request(20, STATUS))
    hw.true("does not follow" in text(answers(ws.receive()[1])[0], 5), "a lost message")
    hw.equal(ws.receive()[0], 8, "and the pipe is closed")
    for bad, code in ((b"\x82\x01x", 1002), (b"\xf2\x80abcd", 1002), (b"\x83\x80abcd", 1002),
                      (b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xffabcd", 1009), (b"\x81\x81\0\0\0\0\xff", 1007),
                      (b"\x80\x80abcd", 1002), (b"\x09\x80abcd", 1002)):
        w = WebSocket(s.port)
        w.s.sendall(bad)
        kind, data = w.receive()
        hw.equal((kind, int.from_bytes(data, "big")), (8, code), f"{bad!r}")
    s.stop()  # with sockets open


def stdio(box):
    """server stdio and --stdiod: answers to a file of requests."""
    path = trace(box)
    ask = b"".join([request(0, STATUS), request(1, RESET), request(2, APPEND, field(101, open(path, "rb").read())),
                    request(3, FINALIZE), request(4, QUERY, field(103, field(1, "select count(*) from heap_profile"))),
                    request(5, METATRACE_READ), request(6, METATRACE_ON),
                    request(7, QUERY, field(103, field(1, "select 'seen'"))), request(8, METATRACE_READ),
                    request(9, SUMMARY), request(10, 17), request(11, DESCRIPTORS)])
    for form in (["server", "stdio"], ["--stdiod"]):
        r = box.run([hw.tool("trace_processor_shell"), *form, path], stdin=ask, check=0)
        got = answers(r.stdout)
        hw.equal([one(m, 1, 0) for m in got], list(range(len(got))), "numbers")
        hw.equal([one(m, 3, 0) for m in got], [10, 11, 1, 2, 3, 9, 8, 3, 9, 15, 0, 6], "methods")
        hw.equal(Result(got[4][203][0]).cells, [7], "dumps of the appended trace")
        hw.true("not enabled" in text(message(got[5][209][0]), 2), "no metatrace yet")
        shown = protoc("decode", "Trace", bytes(one(message(got[8][209][0]), 1)), "trace.proto").decode()
        hw.true("TYPE_SLICE_BEGIN" in shown and "select 'seen'" in shown.replace("\\'", "'"), shown)
        hw.equal(one(got[10], 4), 17, "summarizers are no methods of ours")
        metrics_by_descriptors(box, path, message(got[11][206][0])[1])
    for bad in (b"\x12\x00", b"\x0a\xff\xff\xff\xff\xff\x7f", field(1, b"\xff\xff"), b"GET / HTTP/1.1\r\n"):
        r = box.run([hw.tool("trace_processor_shell"), "--stdiod"], stdin=bad)
        hw.equal(r.returncode, 1, f"{bad!r}")
        hw.true(text(answers(r.stdout)[0], 5) != "", "and says so to the client")


def metrics_by_descriptors(box, path, descriptors):
    """protoc reads a metric with nothing but the descriptors we give."""
    # FileDescriptorSet { file { name, package, message_type... } }
    file = field(1, "metrics.proto") + field(2, "perfetto.protos") + b"".join(field(4, bytes(d)) for d in descriptors)
    open(box.path("set"), "wb").write(field(1, file))
    r = box.run([hw.tool("trace_processor_shell"), "--stdiod", path], check=0, stdin=request(
        0, METRIC, field(105, field(1, "unsymbolized_frames") + field(1, "heap_profile_callsites"))))
    metric = bytes(message(answers(r.stdout)[0][205][0])[1][0])
    shown = subprocess.run(["protoc", "--descriptor_set_in=" + box.path("set"),
                            "--decode=perfetto.protos.TraceMetrics"], input=metric, capture_output=True)
    hw.equal(shown.returncode, 0, shown.stderr[-500:])
    hw.true(b"unsymbolized_frames {" in shown.stdout and b"heap_profile_callsites {" in shown.stdout and
            not re.search(rb"^\s*\d+:", shown.stdout, re.M), shown.stdout[:500])


def unix(box):
    """server unix: a socket of the user's own, found and ended by its name."""
    env = {"XDG_RUNTIME_DIR": box.path("run")}
    os.mkdir(box.path("run"), 0o700)
    tp = hw.tool("trace_processor_shell")
    r = box.run([tp, "server", "unix", "--daemonize", "--name", "t", trace(box)], env=env, check=0)
    pid = int(r.stdout)
    path = box.path("run/heapwise/trace-processor-t.sock")
    hw.equal(os.stat(path).st_mode & 0o777, 0o600, "mode of the socket")
    with socket.socket(socket.AF_UNIX) as c:
        c.connect(path)
        c.sendall(request(0, STATUS) + request(1, QUERY, field(103, field(1, "select 1"))))
        data = b""
        while len(answers_or_none(data)) < 2:
            data += c.recv(65536)
    hw.equal(one(answers(data)[0], 3), STATUS, "status")
    r = box.run([tp, "server", "unix", "--name", "t"], env=env)
    hw.true(r.returncode == 1 and b"is already running" in r.stderr, r.stderr)
    c = socket.socket(socket.AF_UNIX)
    c.connect(path)
    c.sendall(request(0, QUERY, field(103, field(1, ENDLESS))))
    hw.works(pid)
    box.run([tp, "server", "kill", "--name", "t"], env=env, check=0)
    c.close()
    hw.true(not os.path.exists(f"/proc/{pid}") or
            open(f"/proc/{pid}/stat").read().split(")")[1].split()[0] == "Z", "it ended")
    hw.true(not os.path.exists(path), "and took its socket away")
    r = box.run([tp, "server", "kill", "--name", "t"], env=env)
    hw.true(r.returncode == 1 and b"no server 't' is running" in r.stderr, r.stderr)
    start = time.monotonic()
    box.run([tp, "server", "unix", "--idle-timeout", "1", "--idle-start", "--path", box.path("s")], env=env,
            check=0)
    hw.true(0.9 < time.monotonic() - start < 8, "idle from the start")
    r = box.run([tp, "server", "http", "--port", "0", "--idle-timeout", "1", "--idle-start"], env=env, check=0)


def answers_or_none(data):
    try:
        return answers(data)
    except (ValueError, IndexError):
        return []


def same_as_sqlite(tar, sqlite):
    """Every table of the archive, cell by cell."""
    db = sqlite3.connect(sqlite)
    db.text_factory = lambda raw: raw.decode(errors="replace")
    n_cells = 0
    with tarfile.open(tar) as archive:
        members = archive.getmembers()
        for m in members:
            names, rows = arrow.read(archive.extractfile(m).read())
            cursor = db.execute('select %s from "%s"' % (",".join(f'"{n}"' for n in names), m.name[:-len(".arrow")]))
            hw.equal(rows, cursor.fetchall(), m.name)
            n_cells += len(rows) * len(names)
    hw.true(len(members) > 20 and n_cells > 500, f"{len(members)} tables, {n_cells} cells")


def shell(box):
    """The classic command's other words and flags: each works, or says why it cannot."""
    tp, t = hw.tool("trace_processor_shell"), trace(box)

    def run(*args, status=0, out=None, err=None, stdin=None):
        r = box.run([tp, *args], stdin=stdin)
        hw.equal(r.returncode, status, f"{args}: {r.stderr[-400:]!r}")
        for want, have in ((out, r.stdout.decode()), (err, r.stderr.decode())):
            hw.true(want is None or want in have, f"{args}: {want!r} not in {have[-500:]!r}")
        return r.stdout.decode()
    text_form = run("convert", "text", t)
    box.run([tp, "convert", "text", t, "t.txt"], check=0)
    run("util", "text_to_binary", "t.txt", "back.trace")
    hw.equal(run("convert", "text", "back.trace"), text_form, "there and back")
    hw.equal(open(box.path("t.txt")).read(), text_form, "convert text")
    run("util", "merge", t, status=1, err="cannot be woven")
    run("util", "nonsense", status=1, err="unknown tool")
    run("bundle", t, "b.tar", err="Wrote b.tar")
    run("export", "perfetto", "-o", "x.trace", t)
    hw.equal(open(box.path("x.trace"), "rb").read(), open(t, "rb").read(), "export perfetto")
    run("export", "sqlite", "-o", "x.sqlite", t)
    hw.true(open(box.path("x.sqlite"), "rb").read(15) == b"SQLite format 3", "export sqlite")
    run("export", "arrow_tar", "-o", "x.tar", t)
    same_as_sqlite(box.path("x.tar"), box.path("x.sqlite"))
    run("export", "arrow_tar", "-o", "/nonexistent/x.tar", t, status=1, err="cannot create")
    for flag in ("--full-sort", "--no-ftrace-raw", "--crop-track-events", "--analyze-trace-proto-content", "--dev",
                 "--extra-checks", "--dev-flag=a=b", "--metric-extension=a@b"):
        run(flag, "-Q", "select 5", t, out="5", err=f"{flag.split('=')[0]} has no effect: ")
    for words in (["--summary"], ["--summary-spec", "x"], ["--summary-metrics-v2", "a"], ["summarize"]):
        run(*words, t, status=1, err="not supported")
    os.makedirs(box.path("pack/sub"))
    open(box.path("pack/sub/m.sql"), "w").write("create perfetto table q as select 42 as a;")
    open(box.path("pack/bad.sql"), "w").write("selekt 1")
    ask = "include perfetto module pack.sub.m; select * from q"
    run("--add-sql-package", "pack", "-Q", ask, t, out="42")
    run("--add-sql-package", "pack", "-Q", "include perfetto module pack.sub.*; select * from q", t, out="42")
    run("--add-sql-package", "pack@other", "-Q", ask, t, status=1, err="unknown module 'pack.sub.m'")
    run("--add-sql-package", "pack@android", "-Q", ask, t, status=1, err="--override-sql-package")
    run("--override-sql-package", "pack@android", "-Q", "include perfetto module android.sub.m; select * from q", t, out="42")
    run("--add-sql-package", "pack", "-Q", "include perfetto module pack.bad", t, status=1, err="module pack.bad: near")
    run("--add-sql-package", "nowhere", "-Q", "select 1", t, status=1, err="nowhere")
    intervals = "include perfetto module android.memory.heap_profile.intervals"
    os.makedirs(box.path("lib"))
    shutil.copytree(box.path("pack/sub"), box.path("lib/mine"))
    run("-Q", intervals, t)
    run("--override-stdlib", "lib", "-Q", intervals, t, status=1, err="unknown module")
    run("--override-stdlib", "lib", "-Q", "include perfetto module mine.m; select * from q", t, out="42")
    run("-m", "meta", "-Q", "select 'what'", t)
    shown = protoc("decode", "Trace", open(box.path("meta"), "rb").read(), "trace.proto").decode()
    hw.equal(shown.count("TYPE_SLICE_BEGIN"), 2, "spans of loading and of the query")
    hw.equal(shown.count("TYPE_SLICE_END"), 2, "and their ends")
    hw.equal(run("-Q", "select 1 as a, 'x\"y' as b, null as c, 1.5 as d, x'00' as e; select 2 as f", t),
             '"a","b","c","d","e"\n1,"x"y","[NULL]",1.500000,"<raw bytes>"\n\n"f"\n2\n', "CSV")
    run("-Q", " -- nothing", t, status=1, err="No valid SQL to run")
    run("-Q", "select 1;\nselect nonsense", t, status=1, err="^")
    out = run("interactive", t, stdin=b"select 7 as seven;\n.read nowhere\n.width 10\n.reset\n.load-metrics-sql\n"
              b".run-metrics unsymbolized_frames\n.dump d.sqlite\nselect nonsense;\n.help\n.q\n")
    hw.true("seven" in out and ".dump FILE" in out and "unsymbolized_frames {" in out, out)
    hw.true(os.path.exists(box.path("d.sqlite")), "the dumped database")


ENDLESS = "with recursive c(i) as (select 0 union all select i + 1 from c) select max(i) from c"


def limits(box):
    """Time and memory of queries; a client that leaves ends its query and no other's."""
    s = Server(box, limits=("--query-timeout", "500ms", "--query-memory", "64M"))
    start = time.monotonic()
    hw.true("took too long" in s.query(ENDLESS).error, "an endless query")
    hw.true(time.monotonic() - start < 5, "ends in time")
    hw.true("memory" in s.query("create table t as with recursive c(i) as (select 0 union all select i + 1 "
                                "from c where i < 100) select randomblob(4000000) as b from c").error, "memory")
    r = s.query("with recursive c(i) as (select 0 union all select i + 1 from c) "
                "select hex(zeroblob(1000000)) from c")
    hw.true("too large" in r.error and len(r.cells) >= 10, f"{r.error} {len(r.cells)}")
    hw.equal(s.query("select 1").cells, [1], "and goes on")
    s.stop()
    s = Server(box, limits=("--query-timeout", "60s"))
    c = socket.create_connection(("127.0.0.1", s.port))
    body = field(1, ENDLESS)
    c.sendall(f"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    hw.works(s.p.pid)
    start = time.monotonic()
    c.close()
    hw.equal(s.query("select 2").cells, [2], "the next one")
    hw.true(time.monotonic() - start < 5, "need not wait for it")
    ws = WebSocket(s.port)
    ws.frame(request(0, QUERY, field(103, field(1, ENDLESS))))
    hw.works(s.p.pid)
    start = time.monotonic()
    ws.s.close()
    hw.equal(s.query("select 3").cells, [3], "after a WebSocket that left")
    hw.true(time.monotonic() - start < 5, "its query ended")
    ws = WebSocket(s.port)
    ws.frame(request(0, QUERY, field(103, field(1, ENDLESS))))
    stalled = socket.create_connection(("127.0.0.1", s.port))
    body = field(1, "with recursive c(i) as (select 0 union all select i + 1 from c) select i, hex(i) from c")
    stalled.sendall(f"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    hw.works(s.p.pid)
    s.stop()  # while one reads nothing


def several(box):
    """Many clients at once, each gets its own answers."""
    import threading
    s = Server(box, trace(box))
    wrong = []

    def client(k):
        for i in range(20):
            cells = s.query(f"select {k * 1000 + i}, count(*) from process").cells
            if cells != [k * 1000 + i, 6]:
                wrong.append(cells)
    threads = [threading.Thread(target=client, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    hw.equal(wrong, [], "answers")
    s.stop()


def sites(box):
    """Nothing that a page of another site makes a browser send changes anything; programs ask as ever."""
    s = Server(box, trace(box))
    s.query("create table t as select 5 as x")
    browsers = ({"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, {"Accept-Language": "en"},
                {"Referer": "http://evil.example/"}, {"Origin": "http://evil.example"}, {"Origin": "null"})
    for path in ("/notify_eof", "/restore_initial_tables", "/enable_metatrace", "/disable_and_read_metatrace", "/export", "/parse", "/query", "/rpc"):
        for headers in browsers:
            hw.true(s.ask(path, headers=headers)[0].status in (403, 405), f"GET {path} {headers}")
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            hw.equal(s.ask(path, b"", {"Content-Type": kind})[0].status, 415, f"POST {path} {kind}")
        hw.equal(s.ask(path, b"", {"Origin": "http://evil.example"})[0].status, 403, path)
        hw.equal(s.ask(path, b"", {"Sec-Fetch-Site": "cross-site"})[0].status, 403, path)
        hw.equal(s.ask(path, b"", host="evil.example")[0].status, 403, path)
    hw.equal(s.ask("/restore_initial_tables")[0].status, 405, "a program's GET, too")
    hw.equal(s.query("select x from t").cells, [5], "nothing was changed")
    for path in ("/notify_eof", "/enable_metatrace", "/disable_and_read_metatrace"):
        hw.equal(s.ask(path)[0].status, 200, f"GET {path} of Perfetto's Python client")
    page = {"Origin": "https://ui.perfetto.dev", "Sec-Fetch-Site": "cross-site", "User-Agent": "Mozilla/5.0", "Content-Type": "application/x-protobuf"}
    hw.equal(s.ask("/restore_initial_tables", b"", page)[0].status, 200, "the page that may")
    s.stop()


def memory(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read())[1]) << 10


def frames(box):
    """Hostile frames: each ends its own connection with the right code, or is answered; no memory, no thread is lost."""
    s = Server(box, trace(box))
    opened = WebSocket(s.port)

    def closed(w, *codes):
        while True:
            kind, data = w.receive()
            if kind == 8:
                hw.true(int.from_bytes(data[:2], "big") in codes, f"{data} of {codes}")
                hw.equal(w.s.recv(1), b"", "then it is closed, not reset")
                return
    huge = b"\x82\xff" + struct.pack(">Q", 1 << 63) + b"abcd"
    for data, code in ((huge + b"x" * 100000, 1009), (b"\x82\xff" + struct.pack(">Q", 300 << 20) + b"abcd" + b"y" * 500000, 1009),
                       (b"\x82\x05hello" + b"z" * 300000, 1002), (b"\x89\xfe\x00\x7e" + b"abcd" + b"p" * 126, 1002), (b"\x88\xff" + b"\0" * 300, 1002),
                       (b"\x09\x80abcd", 1002), (b"\x80\x80abcd" * 1000, 1002), (b"\x02\x80abcd" + b"\x82\x80abcd", 1002),
                       (b"\x02\x80abcd" + b"\x01\x80abcd", 1002), (b"\x8b\x80abcd", 1002), (b"\xc2\x80abcd", 1002), (b"\x88\x81abcd\0", 1002),
                       (b"\x88\x82\0\0\0\0\x03\xed", 1002)):
        w = WebSocket(s.port)
        w.s.sendall(data)
        closed(w, code)
    before = memory(s.p.pid)
    # Fragments without an end, empty and of a byte; pings between them are answered.
    w = WebSocket(s.port)
    w.s.sendall(b"\x02\x80abcd")
    for _ in range(20):
        w.s.sendall(b"\x00\x80abcd" * 5000 + b"\x00\x81abcdx" * 100)
        w.frame(b"still?", opcode=9)
        hw.equal(w.receive(), (10, b"still?"), "between fragments")
    w.s.close()
    # Pings by one who never reads: it is the socket that fills, not our memory.
    w = WebSocket(s.port)
    w.s.settimeout(1)
    with contextlib.suppress(TimeoutError):
        for _ in range(2000):
            w.s.sendall((b"\x89\xfdabcd" + b"p" * 125) * 100)
    hw.equal(s.query("select 1").cells, [1], "others are answered meanwhile")
    hw.true(memory(s.p.pid) - before < 48 << 20, f"{memory(s.p.pid) - before} bytes more")
    # Large messages that never end, of many: together they may hold half a gigabyte.
    ws, late = [], 0
    chunk = b"\0" * (1 << 20)
    for _ in range(5):
        w = WebSocket(s.port)
        ws.append(w)
        w.s.sendall(b"\x82\xff" + struct.pack(">Q", 250 << 20) + b"abcd")
        with contextlib.suppress(OSError):
            for _ in range(130):
                w.s.sendall(chunk)
        w.s.settimeout(2)
        try:
            late += w.receive() == (8, (1013).to_bytes(2, "big"))
        except (OSError, EOFError):
            pass
    hw.true(late >= 1, "the one that is too much is told to come later")
    hw.true(memory(s.p.pid) < (1200 << 20), f"{memory(s.p.pid) >> 20} MiB")
    for w in ws:
        w.s.close()
    opened.frame(request(0, STATUS))
    hw.equal(one(answers(opened.receive()[1])[0], 3), STATUS, "the first one is still there")
    hw.wait_for(lambda: memory(s.p.pid) - before < 200 << 20, f"memory is given back: {memory(s.p.pid) - before}")
    hw.wait_for(lambda: len(os.listdir(f"/proc/{s.p.pid}/task")) < 8, "threads, too")
    s.stop()


if __name__ == "__main__":
    hw.main({"endpoints": endpoints, "load": load, "pipe": pipe, "profile": profile, "batches": batches, "checks": checks,
             "websocket": websocket, "stdio": stdio, "shell": shell, "unix": unix, "limits": limits, "several": several,
             "sites": sites, "frames": frames})
