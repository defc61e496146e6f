#!/usr/bin/env python3
"""The trace processor's server as a page in a browser uses it: preflight, status, one WebSocket with numbered messages, results in
batches. Every row is compared with what `heapwise query` prints of the same statements.

The statements are those of golden tests (tests/golden/sql/front_end and others), a message each; tables and modules that one
makes are there for the next.
"""
import pathlib
import sqlite3
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.proto import message, one, text
from rpc import APPEND, FINALIZE, QUERY, RESET, RESTORE, ROOT, STATUS, Result, Server, WebSocket, answers, field, request, trace

PAGE = "https://ui.perfetto.dev"
HTTPD = ("--httpd", "--http-port", "0")
SQL = ROOT / "tests/golden/sql"
# What is asked of which trace.
OF_NATIVE = ["front_end/front_end_native", "frames/stack_modules", "symbols/symbols"]
OF_GRAPH = ["front_end/front_end_graph", "graph/heap_graph_paths", "graph/heap_graph_hashes"]
OF_SMAPS = ["front_end/front_end_smaps", "process/system"]
LARGE = ("with recursive c(i) as (select 0 union all select i + 1 from c where i < 60000) "
         "select i, 'row ' || i as t, i / 4.0 as d, nullif(i % 3, 0) as n from c;")


def statements(script):
    """Each with its semicolon and the comments before it."""
    out, now = [], ""
    for line in script.splitlines(keepends=True):
        now += line
        if sqlite3.complete_statement(now):
            out.append(now)
            now = ""
    return out


def shown(result):
    """As `heapwise query` prints a result."""
    hw.equal(result.error, "", "error")
    if not result.names:
        return []

    def cell(v):
        if v is None:
            return '"[NULL]"'
        if isinstance(v, bytes):
            return '"<raw bytes>"'
        return f'"{v}"' if isinstance(v, str) else f"{v:f}" if isinstance(v, float) else str(v)
    return [",".join(f'"{n}"' for n in result.names), *(",".join(map(cell, r)) for r in result.rows())]


def printed(box, path, script):
    """What `heapwise query` prints, without the empty lines between results."""
    open(box.path("script.sql"), "w").write(script)
    out = box.run([hw.tool("heapwise"), "query", "-f", box.path("script.sql"), path], check=0).stdout.decode()
    return [line for line in out.split("\n") if line]


class Page:
    """A page's connection: messages out are numbered, so are those that come back."""

    def __init__(self, s):
        self.ws = WebSocket(s.port, f"Origin: {PAGE}\r\nSec-Fetch-Site: cross-site\r\nUser-Agent: Mozilla/5.0\r\n")
        hw.equal(self.ws.status, 101, "upgrade")
        self.sent = self.got = 0
        self.waiting = []

    def send(self, method, args=b"", pieces=1):
        data = request(self.sent, method, args)
        self.sent += 1
        at = [len(data) * i // pieces for i in range(pieces + 1)]
        for a, b in zip(at, at[1:]):
            self.ws.frame(data[a:b])

    def receive(self, method):
        while not self.waiting:
            kind, data = self.ws.receive()
            hw.equal(kind, 2, "a frame of bytes")
            self.waiting += answers(data)
        m = self.waiting.pop(0)
        hw.equal((one(m, 1, 0), one(m, 3), text(m, 5)), (self.got, method, ""), "number, method and error of an answer")
        self.got += 1
        return m

    def ask(self, method, args=b""):
        self.send(method, args)
        return self.receive(method)

    def result(self):
        """A result's batches are messages of their own, up to the one that says it is the last."""
        data, n = b"", 0
        while True:
            part = bytes(one(self.receive(QUERY), 203))
            data, n = data + part, n + 1
            batches = message(part)[3]
            if not batches or one(message(batches[-1]), 6):
                return Result(data), n

    def query(self, sql):
        self.send(QUERY, field(103, field(1, sql)))
        return self.result()[0]


def first_steps(s, name):
    """What a page does before it shows anything: may it ask, who answers, with which trace?"""
    r, _ = s.ask("/status", method="OPTIONS", headers={
        "Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type",
        "Access-Control-Request-Private-Network": "true"})
    hw.equal((r.status, r.headers["Access-Control-Allow-Origin"]), (204, PAGE), "preflight")
    allowed = {w.strip().lower() for k in ("Access-Control-Allow-Headers", "Access-Control-Allow-Methods") for w in (r.headers[k] or "").split(",")}
    hw.true({"content-type", "post"} <= allowed, f"allowed: {allowed}")
    r, data = s.ask("/status", b"", {"Origin": PAGE, "Content-Type": "application/x-protobuf", "Sec-Fetch-Site": "cross-site"})
    hw.equal((r.status, r.headers["Access-Control-Allow-Origin"]), (200, PAGE), "status")
    hw.true(name in text(message(data), 1), f"the trace: {message(data)}")
    page = Page(s)
    status = message(one(page.ask(STATUS), 210))
    hw.equal(status, message(data), "status on the socket")
    page.ask(RESTORE)
    return page


def compare(box, name, scripts):
    path = trace(box, name)
    s = Server(box, path, form=HTTPD)
    page = first_steps(s, name)
    n = 0
    for script in scripts:
        sql = (SQL / (script + ".sql")).read_text()
        hw.true("\n-- each" not in sql, f"{script} is one script")
        want, have = printed(box, path, sql), []
        for statement in statements(sql):
            have += shown(page.query(statement))
        hw.equal(have, want, script)
        hw.true(len(want) > 2, f"{script} asks something")
        page.ask(RESTORE)  # the next script makes tables of its own
        n += len(want)
    # The same by requests of their own, as other clients ask: the last statement's rows are the answer.
    for script in scripts[:1]:
        statement = statements((SQL / (script + ".sql")).read_text())[1]
        hw.equal(shown(s.query(statement)), printed(box, path, statement), "by HTTP")
    page.send(QUERY, field(103, field(1, LARGE)))
    result, batches = page.result()
    hw.true(batches > 3, f"{batches} messages")
    hw.equal(shown(result), printed(box, path, LARGE), "a large result on the socket")
    hw.equal(shown(s.query(LARGE)), printed(box, path, LARGE), "a large result by HTTP")
    hw.equal(page.query("select nonsense").error.count("no such column: nonsense"), 1, "an error leaves the connection")
    hw.equal(page.query("select 1 as a").cells, [1], "as it was")
    print(f"  {n} lines")
    s.stop()


def native(box):
    """Heap profiles, symbols, flamegraphs."""
    compare(box, "symbols", OF_NATIVE)


def graph(box):
    """Graphs of managed heaps, their trees and hashes."""
    compare(box, "heap_graph_paths", OF_GRAPH)


def smaps(box):
    """Memory maps."""
    compare(box, "system", OF_SMAPS)


def opened(box):
    """A trace that the page has sends piece by piece, without waiting; then another; then a restart of the first tables."""
    s = Server(box, form=HTTPD)
    page = Page(s)
    page.ask(STATUS)
    for name, script in (("profile", "front_end/allocation_lists"), ("heap_graph_paths", "front_end/front_end_graph")):
        path = trace(box, name)
        data = open(path, "rb").read()
        page.ask(RESET)
        at = [len(data) * i // 3 for i in range(4)]
        for a, b in zip(at, at[1:]):
            page.send(APPEND, field(101, data[a:b]), pieces=2)
        page.send(FINALIZE)
        for _ in range(3):
            hw.equal(text(message(one(page.receive(APPEND), 201)), 2), "", "piece")
        page.receive(FINALIZE)
        sql = (SQL / (script + ".sql")).read_text()
        have = [line for statement in statements(sql) for line in shown(page.query(statement))]
        hw.equal(have, printed(box, path, sql), script)
    page.query("create perfetto table mine as select 5 as x")
    hw.equal(page.query("select x from mine").cells, [5], "a table")
    page.ask(RESTORE)
    hw.true("no such table: mine" in page.query("select x from mine").error, "is gone")
    # The same by requests: /parse, /notify_eof, /restore_initial_tables.
    path = trace(box, "system")
    other = Server(box, form=HTTPD)
    data = open(path, "rb").read()
    for i in range(0, len(data), 300):
        r, _ = other.ask("/parse", data[i:i + 300], {"Origin": PAGE, "Content-Type": "application/octet-stream"})
        hw.equal(r.status, 200, "parse")
    r, _ = other.ask("/notify_eof", b"", {"Origin": PAGE, "Content-Type": "application/x-protobuf"})
    hw.equal(r.status, 200, "notify_eof")
    for statement in statements((SQL / "front_end/front_end_smaps.sql").read_text()):
        hw.equal(shown(other.query(statement)), printed(box, path, statement), statement)
    other.stop()
    s.stop()


if __name__ == "__main__":
    hw.main({"native": native, "graph": graph, "smaps": smaps, "opened": opened})
