#!/usr/bin/env python3
"""heapwise serve and record --open: where it listens, whom it answers, what it may record."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from lib import hw

NOBODY = 65534
# Every route of src/server/pages.c but the page's own files.
ROUTES = [("GET", p) for p in ("/api/v1/status", "/api/v1/events", "/api/v1/processes", "/api/v1/live", "/api/v1/live/1/events",
                               "/api/v1/live/1/flame", "/api/v1/kept", "/api/v1/fleet/labels", "/api/v1/fleet/hosts", "/api/v1/traces/1/timeline", "/api/v1/traces/1/flame",
                               "/api/v1/export/pprof?trace=1")] + \
         [("POST", p) for p in ("/api/v1/fleet/profile", "/api/v1/traces?path=/etc/passwd", "/api/v1/query?trace=1", "/api/v1/kept?key=x", "/api/v1/record/plan", "/api/v1/record/start",
                                "/api/v1/record/stop?id=1", "/api/v1/record/dump?id=1", "/api/v1/record/discard?id=1",
                                "/api/v1/record/mark?id=1",
                                "/api/v1/record/end?id=1")] + \
         [("DELETE", "/api/v1/traces/1")]


class Served:
    def __init__(self, box, *args, command=("serve",), **kw):
        self.p = box.start([hw.tool("heapwise"), *command, *args], **kw)
        self.said = b""
        while b"Ctrl-C ends" not in self.said:
            line = self.p.stderr.readline()
            if not line:
                raise hw.Failure(f"serve ended: {hw.tail(self.said)}")
            self.said += line
        self.url = re.search(rb"https?://\S+", self.said)[0].decode()
        self.scheme, self.host, self.port, self.token = re.match(r"(https?)://(.*):(\d+)/#token=(\w+)", self.url).groups()
        self.port = int(self.port)

    def ask(self, method, path, body=b"", to="127.0.0.1", token=None, **headers):
        """-> (status, body); headers: Host, Origin…"""
        if self.scheme == "https":
            context = ssl._create_unverified_context()
            c = http.client.HTTPSConnection(to, self.port, timeout=10, context=context)
        else:
            c = http.client.HTTPConnection(to, self.port, timeout=10)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        c.request(method, path, body if method == "POST" else None, {k.replace("_", "-"): v for k, v in headers.items()})
        r = c.getresponse()
        text = b"" if "events" in path and r.status == 200 else r.read()
        c.close()
        return r.status, text

    def json(self, method, path, body=None, **kw):
        status, text = self.ask(method, path, json.dumps(body).encode() if body else b"", token=self.token, **kw)
        hw.equal(status, 200, f"{path}: {text}")
        return json.loads(text)

    def stop(self):
        self.p.send_signal(signal.SIGINT)
        hw.equal(self.p.wait(30), 0, "the server's exit")


def guards(s):
    """Nobody gets anywhere without the token, from another site, by another name."""
    for method, path in ROUTES:
        hw.equal(s.ask(method, path)[0], 403, f"{path} without a token")
        hw.equal(s.ask(method, path, token="0" * 48)[0], 403, f"{path} with another token")
        hw.equal(s.ask(method, path, token=s.token, Origin="http://evil.example")[0], 403, f"{path} from another site")
        hw.equal(s.ask(method, path, token=s.token, Origin="null")[0], 403, f"{path} from a file")
        hw.equal(s.ask(method, path, token=s.token, Host="evil.example")[0], 403, f"{path} by another name")
        upgrade = dict(Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Version="13", Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA==")
        hw.equal(s.ask(method, path, **upgrade)[0], 403, f"{path} as a socket")
    for path in ("/websocket", "/rpc", "/api/v1/none"):
        hw.true(s.ask("GET", path)[0] in (403, 404), f"{path} is not there")
    hw.equal(s.ask("GET", "/")[0], 200, "the page itself")


def other_user(box):
    """Another user of this machine reaches loopback, and finds every door shut; ours is no key to his processes."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise hw.Skip("needs root and setpriv")
    s = Served(box)
    guards(s)
    code = ("import http.client,sys\nc=http.client.HTTPConnection('127.0.0.1',%d)\n"
            "for m,p in %r:\n c.request(m,p,b'' if m=='POST' else None); r=c.getresponse(); r.read(); assert r.status==403,(p,r.status)\nprint('shut')" % (s.port, ROUTES))
    stranger = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    out = box.run([*stranger, sys.executable if os.access(sys.executable, os.X_OK) else "python3", "-c", code], check=None)
    if b"Permission denied" not in out.stderr:
        hw.equal(out.stdout.strip(), b"shut", f"another user's requests: {out.stderr}")
    # His view of our token: not in the command line, not in a file he can read.
    for entry in ("cmdline", "environ"):
        text = open(f"/proc/{s.p.pid}/{entry}", "rb").read()
        hw.true(s.token.encode() not in text, f"the token is not in {entry}")
    s.stop()
    # A server of his records his processes only.
    os.chmod(box.dir, 0o777)
    p = box.start([*stranger, hw.tool("heapwise"), "serve"])
    said = b""
    while b"Ctrl-C ends" not in said:
        line = p.stderr.readline()
        if not line:
            raise hw.Skip("another user cannot run the build")
        said += line
    t = Served.__new__(Served)
    t.p, t.scheme = p, "http"
    t.port, t.token = int(re.search(rb":(\d+)/#", said)[1]), re.search(rb"token=(\w+)", said)[1].decode()
    mine = box.start(["sleep", "60"])
    rows = {r["pid"]: r for r in t.json("GET", "/api/v1/processes")}
    hw.true(not rows[mine.pid]["eligible"] and rows[mine.pid]["code"] == "not-yours", f"{rows[mine.pid]}")
    hw.true(rows[mine.pid]["remedy"], "a remedy")
    plan = t.json("POST", "/api/v1/record/plan", {"words": ["attach", str(mine.pid)]})
    hw.true(not plan["ready"] and any(c["code"] == "not-yours" for c in plan["checks"]), f"{plan}")
    status, text = t.ask("POST", "/api/v1/record/start", json.dumps({"words": ["attach", str(mine.pid)]}).encode(), token=t.token)
    hw.equal(status, 400, f"a start on another user's process: {text}")
    hw.equal(t.ask("GET", f"/api/v1/live/{mine.pid}/flame", token=t.token)[0], 404, "a look at it")
    mine.kill()
    p.send_signal(signal.SIGINT)
    hw.equal(p.wait(20), 0, "his server's exit")


def listen(box):
    """All addresses: the host's own name and addresses are good names, others are not; no programs unless allowed."""
    s = Served(box, "--listen", "0.0.0.0:0", "--host", "profiles.example")
    hw.true(b"not encrypted" in s.said and b"ssh -L" in s.said, f"the warning: {s.said}")
    guards(s)
    for name in ("127.0.0.1", "localhost", "10.1.2.3", "[::1]", "profiles.example", socket.gethostname()):
        host = f"{name}:{s.port}"
        hw.equal(s.ask("GET", "/api/v1/status", token=s.token, Host=host)[0], 200, f"called {name}")
        hw.equal(s.ask("GET", "/api/v1/status", token=s.token, Host=host, Origin=f"http://{host}")[0], 200, f"its own page, called {name}")
        hw.equal(s.ask("GET", "/api/v1/status", token=s.token, Host=host, Origin=f"https://{host}")[0], 403, f"another scheme, called {name}")
    plan = s.json("POST", "/api/v1/record/plan", {"words": ["record", "--", "true"]})
    hw.true(not plan["ready"] and not plan["commands"], f"no programs: {plan}")
    hw.equal(s.ask("POST", "/api/v1/record/start", b'{"words":["record","--","touch","here"]}', token=s.token)[0], 400, "a program")
    hw.true(not os.path.exists(box.path("here")), "nothing ran")
    s.stop()
    s = Served(box, "--listen", "127.0.0.1")
    hw.true(b"not encrypted" not in s.said, "loopback needs no warning")
    s.stop()
    s = Served(box, "--listen", "0.0.0.0", "--allow-commands")
    hw.true(b"start programs" in s.said, "the warning says more")
    i = s.json("POST", "/api/v1/record/start", {"words": ["record", "--", "touch", "there"]})["id"]
    hw.equal(i, 1, "the recording's number")
    hw.wait_for(lambda: os.path.exists(box.path("there")), "the program ran")
    s.stop()


def wrong_words(box):
    for args, text in ((["--listen", "nowhere.invalid"], "nowhere.invalid"), (["--listen", ":80"], "needs an address"),
                       (["--listen", "1.2.3.4:x"], "no port"), (["--listen", "[::1"], "lacks"), (["--cert", "x"], "belong together"),
                       (["--cert", "/nonexistent", "--key", "/nonexistent"], "cannot open")):
        r = box.run([hw.tool("heapwise"), "serve", *args], check=None)
        hw.true(r.returncode in (1, 2) and text in r.stderr.decode(), f"{args}: {r.returncode} {r.stderr}")


def tls(box):
    hw.need("openssl")
    box.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key.pem",
             "-out", "cert.pem"], check=0)
    s = Served(box, "--listen", "0.0.0.0", "--cert", "cert.pem", "--key", "key.pem")
    hw.equal(s.scheme, "https", "the address")
    hw.true(b"not encrypted" not in s.said, "no warning")
    guards(s)
    hw.equal(s.ask("GET", "/api/v1/status", token=s.token, Origin=f"https://127.0.0.1:{s.port}")[0], 200, "its own page")
    hw.equal(s.ask("GET", "/api/v1/status", token=s.token, Origin=f"http://127.0.0.1:{s.port}")[0], 403, "an unencrypted page")
    plain = socket.create_connection(("127.0.0.1", s.port), 5)
    plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    plain.settimeout(5)
    try:
        hw.true(b"HTTP/1.1 200" not in plain.recv(100), "no answer without encryption")
    except (ConnectionError, TimeoutError):
        pass
    s.stop()
    with open(box.path("bad.pem"), "w") as f:
        f.write("no key\n")
    r = box.run([hw.tool("heapwise"), "serve", "--cert", "cert.pem", "--key", "bad.pem"], check=None)
    hw.true(r.returncode == 1 and b"do not fit" in r.stderr, f"{r.stderr}")


def open_after(box):
    """record --open: the pages with the trace, then the program's own status."""
    env = {**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}
    for key in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        env.pop(key)
    p = Served(box, "record", "--open", "-q", "-i", "1", "-o", "open.trace", "--", "sh", "-c", "ls / >/dev/null; exit 3", command=(), env=env)
    hw.wait_for(lambda: p.json("GET", "/api/v1/status")["traces"][0]["state"] == "ready", "the trace is read")
    p.p.send_signal(signal.SIGINT)
    hw.equal(p.p.wait(20), 3, "the program's status")


def pipes(box):
    """A pipe named in a request is refused at once; one on the command line is read; neither keeps the server from ending."""
    os.mkfifo(box.path("pipe"))
    s = Served(box)
    for path in (box.path("pipe"), "/dev/zero", "/"):
        status, text = s.ask("POST", f"/api/v1/traces?path={path}", token=s.token)
        hw.equal(status, 400, f"{path}: {text}")
        hw.true(b"not a regular file" in text and path.encode() in text, f"{path}: {text}")
    hw.equal(s.json("GET", "/api/v1/status")["traces"], [], "nothing is being read")
    s.stop()
    s = Served(box, "--no-open", box.path("pipe"), command=("ui",))
    hw.equal(s.json("GET", "/api/v1/status")["traces"][0]["state"], "loading", "it waits for a writer")
    start = time.monotonic()
    s.stop()
    hw.true(time.monotonic() - start < 10, "ended though its reader waits")
    s = Served(box, "--no-open", box.path("pipe"), command=("ui",))
    with open(box.path("pipe"), "w") as f:
        f.write("main;f 1\nmain;g 2\n")
    hw.wait_for(lambda: s.json("GET", "/api/v1/status")["traces"][0]["state"] == "ready", "the pipe is read")
    s.stop()


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"


def closing(box):
    """DELETE closes a trace: an event tells, its number is not used again, a query that runs on it ends in peace."""
    for name in "ab":
        with open(box.path(name), "w") as f:
            f.write("main;f 1\nmain;g 2\n")
    s = Served(box, "--no-open", "--query-timeout", "2s", box.path("a"), box.path("b"), command=("ui",))
    traces = lambda: s.json("GET", "/api/v1/status")["traces"]
    hw.wait_for(lambda: all(t["state"] == "ready" for t in traces()), "both are read")
    events = http.client.HTTPConnection("127.0.0.1", s.port, timeout=10)
    events.request("GET", f"/api/v1/events?token={s.token}")
    stream = events.getresponse()

    def told():
        while not (line := stream.readline()).startswith(b"data: {"):
            hw.true(line, "the events go on")
        return [t["id"] for t in json.loads(line[6:])["traces"]]
    hw.equal(told(), [1, 2], "the first event")
    query = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20)
    start = time.monotonic()
    query.request("POST", f"/api/v1/query?trace=1&token={s.token}", ENDLESS)
    time.sleep(0.3)
    hw.equal(s.ask("DELETE", "/api/v1/traces/1/", token=s.token)[0], 404, "more than a number")
    hw.equal(s.ask("DELETE", "/api/v1/traces/1", token=s.token)[0], 204, "while a query runs")
    hw.equal([t["id"] for t in traces()], [2], "the list")
    hw.equal(told(), [2], "the event")
    for method, path in (("DELETE", "/api/v1/traces/1"), ("DELETE", "/api/v1/traces/9"), ("DELETE", "/api/v1/traces/"),
                         ("GET", "/api/v1/traces/1/timeline"), ("GET", "/api/v1/export/folded?trace=1")):
        hw.equal(s.ask(method, path, token=s.token)[0], 404, f"{method} {path}")
    answer = json.loads(query.getresponse().read())
    hw.true("took too long" in answer["error"], f"an endless query: {answer}")
    hw.true(time.monotonic() - start < 8, "its limit ends it")
    hw.equal(s.ask("GET", "/api/v1/traces/2/timeline", token=s.token)[0], 200, "the other one")
    hw.equal(s.json("POST", f"/api/v1/traces?path={box.path('a')}")["id"], 3, "a new number")
    for i in range(70):
        i = s.json("POST", f"/api/v1/traces?path={box.path('a')}")["id"]
        hw.equal(s.ask("DELETE", f"/api/v1/traces/{i}", token=s.token)[0], 204, "closed, maybe while it is read")
    hw.equal([t["id"] for t in traces()], [2, 3], "the list at the end")
    # An asker that leaves ends its query: the next one need not wait for it.
    s.stop()
    s = Served(box, "--no-open", "--query-timeout", "60s", box.path("a"), command=("ui",))
    hw.wait_for(lambda: traces()[0]["state"] == "ready", "it is read")
    query = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20)
    query.request("POST", f"/api/v1/query?trace=1&token={s.token}", ENDLESS)
    time.sleep(0.3)
    query.close()
    start = time.monotonic()
    hw.equal(json.loads(s.ask("POST", "/api/v1/query?trace=1", b"select 7", token=s.token)[1])["results"][0]["rows"], [[7]], "the next one")
    hw.true(time.monotonic() - start < 5, "it did not wait")
    s.stop()


def duration(box):
    """record -d: says that the recording is over, that it waits, for whom, and how to end it."""
    p = box.start([hw.tool("heapwise"), "record", "-d", "300ms", "-o", "d.trace", "--", "sleep", "60"])
    said = b""
    start = time.monotonic()
    while b"to end it from elsewhere" not in said:
        line = p.stderr.readline()
        hw.true(line, f"said before the end: {hw.tail(said)}")
        said += line
    hw.true(time.monotonic() - start < 40, "said at once, not at the program's end")
    pid = int(re.search(rb"kill (\d+)", said)[1])
    hw.true(b"waits for its end" in said and f"pid {pid}".encode() in said, f"{said}")
    os.kill(pid, signal.SIGTERM)
    hw.equal(p.wait(10), 128 + signal.SIGTERM, "ends with it")


if __name__ == "__main__":
    hw.main({"other-user": other_user, "listen": listen, "wrong-words": wrong_words, "tls": tls, "open": open_after, "duration": duration,
             "pipes": pipes, "closing": closing})
