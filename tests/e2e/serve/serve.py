#!/usr/bin/env python3
"""heapwise serve and record --open: where it listens, whom it answers, what it may record."""
import contextlib
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

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
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


def address(box, said):
    """The whole address, by the file that a server without a terminal names."""
    if at := re.search(rb"address is in '(.+)'", said):
        return open(at[1]).read().strip()
    at = re.search(rb"token in '(.+)': (\S+#token=)\.\.\.", said)
    return at[2].decode() + open(box.path(at[1].decode())).read().strip()


class Served:
    def __init__(self, box, *args, command=("serve",), **kw):
        self.p = box.start([hw.tool("heapwise"), *command, *args], **kw)
        self.said = b""
        while b"Ctrl-C ends" not in self.said:
            line = self.p.stderr.readline()
            if not line:
                raise hw.Failure(f"serve ended: {hw.tail(self.said)}")
            self.said += line
        self.url = address(box, self.said)
        self.scheme, self.host, self.port, self.token = re.match(r"(https?)://(.*):(\d+)/#token=([\w-]+)$", self.url).groups()
        self.port = int(self.port)

    def ask(self, method, path, body=b"", to="127.0.0.1", token=None, **headers):
        """-> (status, body); headers: Host, Origin…"""
        if self.scheme == "https":
            context = ssl._create_unverified_context()
            c = http.client.HTTPSConnection(to, self.port, timeout=hw.CLOCK, context=context)
        else:
            c = http.client.HTTPConnection(to, self.port, timeout=hw.CLOCK)
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
        hw.equal(self.p.wait(hw.CLOCK), 0, "the server's exit")


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
    t.port, t.token = re.search(r":(\d+)/#token=(\w+)", address(box, said)).groups()
    t.port = int(t.port)
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
    hw.equal(p.wait(hw.CLOCK), 0, "his server's exit")


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
                       (["--listen", "1.2.3.4:x"], "not a port"), (["--listen", "[::1"], "lacks"), (["--cert", "x"], "belong together"),
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
    hw.equal(p.p.wait(hw.CLOCK), 3, "the program's status")


def pipes(box):
    """A pipe named in a request is refused at once; one on the command line is read; neither keeps the server from ending."""
    os.mkfifo(box.path("pipe"))
    s = Served(box)
    for path in (box.path("pipe"), "/dev/zero", "/"):
        status, text = s.ask("POST", f"/api/v1/traces?path={path}", token=s.token)
        hw.equal(status, 400, f"{path}: {text}")
        hw.true(b"--traces DIR" in text and path.encode() in text, f"{path}: {text}")
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
    events = http.client.HTTPConnection("127.0.0.1", s.port, timeout=hw.CLOCK)
    events.request("GET", f"/api/v1/events?token={s.token}")
    stream = events.getresponse()

    def told():
        while not (line := stream.readline()).startswith(b"data: {"):
            hw.true(line, "the events go on")
        return [t["id"] for t in json.loads(line[6:])["traces"]]
    hw.equal(told(), [1, 2], "the first event")
    query = http.client.HTTPConnection("127.0.0.1", s.port, timeout=hw.CLOCK)
    start = time.monotonic()
    query.request("POST", f"/api/v1/query?trace=1&token={s.token}", ENDLESS)
    hw.works(s.p.pid)
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
    query = http.client.HTTPConnection("127.0.0.1", s.port, timeout=hw.CLOCK)
    query.request("POST", f"/api/v1/query?trace=1&token={s.token}", ENDLESS)
    hw.works(s.p.pid)
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
    hw.equal(p.wait(hw.CLOCK), 128 + signal.SIGTERM, "ends with it")


def quiet(box):
    """No token in what a log keeps: a file of the user's alone has it, and a terminal."""
    s = Served(box)
    where = re.search(rb"address is in '(.+)'", s.said)[1].decode()
    hw.equal(os.stat(where).st_mode & 0o777, 0o600, "the file's mode")
    hw.equal(os.stat(os.path.dirname(where)).st_mode & 0o777, 0o700, "its directory's")
    hw.equal(open(where).read(), s.url + "\n", "the whole address")
    s.stop()
    s.said += s.p.stderr.read() + s.p.stdout.read()
    hw.true(s.token.encode() not in s.said, f"the token was said: {s.said}")
    hw.true(not os.path.exists(os.path.dirname(where)), "the file is gone with its server")
    for text in ("x" * 32, "aZ09-_" * 10):
        with open(box.path("kept"), "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(text + "\n")
        s = Served(box, "--token-file", "kept")
        hw.equal(s.token, text, "a token of one's own")
        hw.equal(s.ask("GET", "/api/v1/status", token=text)[0], 200, "it opens")
        hw.equal(s.ask("GET", f"/api/v1/status?token={text}")[0], 200, "in the address, too")
        hw.true(text.encode() not in s.said and b"'kept'" in s.said, f"{s.said}")
        s.stop()
    with open(box.path("kept"), "w") as f:
        f.write("a" * 40 + "%\n")
    r = box.run([hw.tool("heapwise"), "serve", "--token-file", "kept"], check=None)
    hw.true(r.returncode == 1 and b"letters, digits, - or _" in r.stderr, f"{r.returncode} {r.stderr}")
    master, slave = os.openpty()
    p = box.start([hw.tool("heapwise"), "serve"], stdout=slave, stderr=slave)
    os.close(slave)
    said = b""
    while b"Ctrl-C ends" not in said:
        said += os.read(master, 1000)
    hw.true(re.search(rb"http://127.0.0.1:\d+/#token=[0-9a-f]{48}\r", said), f"on a terminal: {said}")
    p.send_signal(signal.SIGINT)
    hw.equal(p.wait(hw.CLOCK), 0, "its exit")
    os.close(master)


def named(box):
    """Files that a request names: below --traces and those of the command line; no links, no devices, and nothing told of what lies elsewhere."""
    for d in ("in/sub", "out"):
        os.makedirs(box.path(d))
    for name in ("in/good", "in/sub/good", "out/good", "mine"):
        with open(box.path(name), "w") as f:
            f.write("main;f 1\nmain;g 2\n")
    for name in ("in/secret", "out/secret"):
        with open(box.path(name), "w") as f:
            f.write("root:$6$hash:19000:0:99999:7:::\n")
    os.symlink("../out/secret", box.path("in/link"))
    os.symlink("../out", box.path("in/dir"))
    os.symlink("good", box.path("in/near"))
    os.mkfifo(box.path("in/pipe"))
    s = Served(box, "--traces", "in", "mine")
    post = lambda path: s.ask("POST", f"/api/v1/traces?path={path}", token=s.token)
    state = lambda i: next(t for t in s.json("GET", "/api/v1/status")["traces"] if t["id"] == i)
    hw.wait_for(lambda: state(1)["state"] == "ready", "the one of the command line")
    for path in ("/etc/shadow", "/proc/self/environ", "/dev/zero", "out/secret", box.path("out/good"), box.path("in/link"), box.path("in/dir/good"),
                 box.path("in/near"), box.path("in/../out/good"), "../out/good", "..", ".", "in", "", box.path("in/pipe"), box.path("in/none"), box.path("in"),
                 box.path("inn"), "..%2fout%2fgood", box.path("in/..%2f..%2fout/good"), "/%2e%2e/etc/passwd", "good%00", "/proc/self/fd/3",
                 f"/proc/{s.p.pid}/root/etc/passwd"):
        status, text = post(path)
        if path == "good%00":  # the library ends the value there
            hw.equal(status, 200, "as if nothing stood behind")
            continue
        hw.equal(status, 400, f"{path}: {text}")
        hw.true(b"root:" not in text and b"No such" not in text and b"denied" not in text, f"{path}: {text}")
    for path in (box.path("in/good"), box.path("in/sub/good"), "good", "sub/good", box.path("mine"), state(1)["path"]):
        status, text = post(path)
        hw.equal(status, 200, f"{path}: {text}")
        i = json.loads(text)["id"]
        hw.wait_for(lambda: state(i)["state"] != "loading", "it is read")
        hw.equal(state(i)["state"], "ready", path)
        hw.true(os.path.samefile(state(i)["path"], box.path("mine" if "mine" in path else "in/" + ("sub/good" if "sub" in path else "good"))), f"{state(i)}")
    i = json.loads(post("secret")[1])["id"]
    hw.wait_for(lambda: state(i)["state"] == "failed", "no trace")
    told = json.dumps(state(i)) + s.ask("GET", f"/api/v1/traces/{i}/timeline", token=s.token)[1].decode()
    for leak in ("root", "hash", "72 6f", "726f"):
        hw.true(leak not in told, f"{leak} in {told}")
    # What was sent is its sender's: he may be told.
    sent = json.loads(s.ask("POST", "/api/v1/traces?name=x", b"root:$6", token=s.token)[1])["id"]
    hw.wait_for(lambda: state(sent)["state"] == "failed", "nor this")
    hw.true("72 6f" in state(sent)["error"], f"{state(sent)}")
    again = lambda dirs: s.ask("POST", f"/api/v1/traces?again=1&symbols={dirs}", token=s.token)
    for dirs in ("/", "/root", box.path("out"), box.path("in/dir"), "out", box.path("in") + "%0a/etc"):
        status, text = again(dirs)
        hw.true(status == 400 and b"--symbols DIR" in text, f"symbols {dirs}: {status} {text}")
    hw.equal(again(box.path("in/sub"))[0], 200, "symbols beside the traces")
    s.stop()
    r = box.run([hw.tool("heapwise"), "serve", "--traces", "nowhere"], check=None)
    hw.true(r.returncode == 1 and b"nowhere" in r.stderr, f"{r.stderr}")


def tls_floor(box):
    """TLS 1.2 and 1.3 with forward secrecy; nothing older, no key exchange by the key itself."""
    hw.need("openssl")
    box.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key.pem",
             "-out", "cert.pem"], check=0)
    s = Served(box, "--cert", "cert.pem", "--key", "key.pem")

    def talks(*how):
        r = box.run(["openssl", "s_client", "-connect", f"127.0.0.1:{s.port}", *how], check=None)
        return r.returncode == 0 and b"Cipher is (NONE)" not in r.stdout
    hw.true(talks("-tls1_3"), "TLS 1.3")
    hw.true(talks("-tls1_2"), "TLS 1.2")
    any_cipher = ("-cipher", "ALL:@SECLEVEL=0")
    for how in (("-tls1", *any_cipher), ("-tls1_1", *any_cipher), ("-tls1_2", "-cipher", "kRSA:@SECLEVEL=0"), ("-tls1_2", "-cipher", "AES128-GCM-SHA256"),
                ("-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA"), ("-tls1_2", "-cipher", "3DES:@SECLEVEL=0"), ("-tls1_2", "-cipher", "NULL:aNULL:@SECLEVEL=0")):
        hw.true(not talks(*how), f"{how} is refused")
    s.stop()


OTHER = 65534


def client(s, uid=0, source="127.0.0.1", timeout=hw.CLOCK):
    """A connection of that user: on one machine that is who a client is."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=timeout, source_address=(source, 0))
    os.seteuid(uid or os.getuid())
    try:
        c.connect()
    finally:
        os.seteuid(os.getuid())
    return c


def query(s, sql, uid=0):
    """A connection on which a query of that user's was sent."""
    c = client(s, uid)
    c.request("POST", f"/api/v1/query?trace=1&token={s.token}", sql)
    return c


def fair(box):
    """Two hundred long queries of one client: another one's are answered at once, and the first one's beyond its share are refused in words."""
    if os.getuid() != 0:
        raise hw.Skip("needs root: to be another user")
    with open(box.path("a"), "w") as f:
        f.write("main;f 1\nmain;g 2\n")
    s = Served(box, "--no-open", "--query-timeout", "60s", box.path("a"), command=("ui",))
    hw.wait_for(lambda: s.json("GET", "/api/v1/status")["traces"][0]["state"] == "ready", "it is read")
    many = []
    for _ in range(200):
        try:
            many.append(query(s, ENDLESS))
        except OSError:
            break  # refused by then
    hw.true(len(many) > 100, f"{len(many)} connections")
    hw.works(s.p.pid)
    for _ in range(3):  # milliseconds; a loaded machine takes seconds, and the line in front would be of hours
        start = time.monotonic()
        c = query(s, "select 7", OTHER)
        hw.equal(json.loads(c.getresponse().read())["results"][0]["rows"], [[7]], "another client's query")
        hw.true(time.monotonic() - start < 15, f"it waited {time.monotonic() - start} s")
        c.close()
        start = time.monotonic()
        c = client(s, OTHER)
        c.request("GET", f"/api/v1/traces/1/timeline?token={s.token}")
        hw.equal(c.getresponse().status, 200, "another client's graph")
        hw.true(time.monotonic() - start < 15, f"it waited {time.monotonic() - start} s")
        c.close()
    # Which of them run or wait is nobody's promise; how many do is. The rest has its answer by now.
    said = {c: b"" for c in many if c.sock}
    for c in said:
        c.sock.setblocking(False)

    def answered():
        for c in said:
            with contextlib.suppress(OSError):
                said[c] += c.sock.recv(65536)
        return sum(b"are already waiting" in text for text in said.values()), sum(b"too many connections" in text for text in said.values())
    # A connection refused before its body came may lose the words to a reset.
    hw.wait_for(lambda: (n := answered())[0] >= 50 and n[1] >= 30, f"refused in words: {answered()} of {len(said)}")
    hw.true(answered()[0] <= 128 - 65, f"one runs, 64 wait: {answered()}")
    threads = len(os.listdir(f"/proc/{s.p.pid}/task"))
    hw.true(threads < 400, f"{threads} threads")
    for c in many:
        c.close()
    hw.wait_for(lambda: len(os.listdir(f"/proc/{s.p.pid}/task")) < 20, "the queries of those who left end")
    start = time.monotonic()
    hw.equal(json.loads(query(s, "select 8").getresponse().read())["results"][0]["rows"], [[8]], "the first client again")
    hw.true(time.monotonic() - start < 5, "at once")
    s.stop()


def own_tables(box):
    """What a client makes stays its own, for its next query."""
    if os.getuid() != 0:
        raise hw.Skip("needs root: to be other users")
    with open(box.path("a"), "w") as f:
        f.write("main;f 1\nmain;g 2\n")
    s = Served(box, "--no-open", box.path("a"), command=("ui",))
    hw.wait_for(lambda: s.json("GET", "/api/v1/status")["traces"][0]["state"] == "ready", "it is read")
    ask = lambda sql, k: json.loads(query(s, sql, 60000 + k).getresponse().read())
    for k in (1, 2):
        hw.equal(ask(f"create table mine as select {k} as x; select x from mine", k)["error"], None, "made")
    for k in (1, 2):
        hw.equal(ask("select x from mine", k)["results"][0]["rows"], [[k]], "found")
    hw.true("no such table" in ask("select x from mine", 3)["error"], "no one else's")
    for k in range(4, 12):
        hw.equal(ask(f"select {k}", k)["results"][0]["rows"], [[k]], "more clients than connections")
    s.stop()


def uploads(box):
    """A limit, and room on the disk: told in words, nothing is left of what was refused."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise hw.Skip("needs root and unshare")
    os.mkdir(box.path("small"))
    with open(box.path("run"), "w") as f:
        f.write(f"mount -t tmpfs -o size=32m small {box.path('small')} && TMPDIR={box.path('small')} exec {hw.tool('heapwise')} serve --max-upload 40M\n")
    p = box.start(["unshare", "-m", "sh", box.path("run")])
    s = Served.__new__(Served)
    s.p, s.said = p, b""
    while b"Ctrl-C ends" not in s.said:
        line = p.stderr.readline()
        if not line:
            raise hw.Skip(f"no mount namespace: {s.said}")
        s.said += line
    s.scheme = "http"
    s.url = address(box, s.said)
    s.port, s.token = re.search(r":(\d+)/#token=(\w+)", s.url).groups()
    s.port = int(s.port)

    def left():
        st = os.statvfs(f"/proc/{p.pid}/root{box.path('small')}")
        return st.f_bavail * st.f_frsize

    def send(n, chunked=False, stop_at=None):
        c = socket.create_connection(("127.0.0.1", s.port), timeout=hw.CLOCK)
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {n}"
        c.sendall(f"POST /api/v1/traces?name=x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {s.token}\r\n{length}\r\n\r\n".encode())
        piece, sent = b"x" * 65536, 0
        try:
            while sent < (stop_at or n):
                c.sendall(b"10000\r\n" + piece + b"\r\n" if chunked else piece)
                sent += len(piece)
            if chunked:
                c.sendall(b"0\r\n\r\n")
        except OSError:
            pass  # it answered already
        if stop_at:
            return c
        data = b""
        with c:
            while b"\r\n\r\n" not in data or not data.split(b"\r\n\r\n", 1)[1]:
                data += (more := c.recv(4096))
                if not more:
                    break
        return int(data.split()[1]), data.split(b"\r\n\r\n", 1)[1].decode()
    all_of_it = left()
    for n, chunked, status, words in ((64 << 20, False, 413, "--max-upload"), (64 << 20, True, 413, "--max-upload"), (36 << 20, False, 507, "MiB left"),
                                      (36 << 20, True, 507, "MiB left")):
        if (n, chunked) == (64 << 20, True):
            status, words = 507, "MiB left"  # the disk is smaller than the limit
        have = send(n, chunked)
        hw.true(have[0] == status and words in have[1], f"{n} {chunked}: {have}")
        hw.wait_for(lambda: left() == all_of_it, f"nothing is left of it: {left()} of {all_of_it}")
    half = send(8 << 20, stop_at=4 << 20)
    hw.wait_for(lambda: left() < all_of_it - (3 << 20), "half of one is there")
    half.close()
    hw.wait_for(lambda: left() == all_of_it, "it went with its sender")
    hw.equal(send(1 << 20)[0], 200, "a small one")
    p.send_signal(signal.SIGINT)
    hw.equal(p.wait(hw.CLOCK), 0, "its exit")


def hostile(box):
    """Headers, chunks, paths and readers of the worst kind against a server that goes on answering."""
    with open(box.path("a"), "w") as f:
        f.write("main;f 1\nmain;g 2\n")
    s = Served(box, "--no-open", box.path("a"), command=("ui",))
    hw.wait_for(lambda: s.json("GET", "/api/v1/status")["traces"][0]["state"] == "ready", "it is read")
    auth = f"Host: localhost\r\nAuthorization: Bearer {s.token}\r\n".encode()
    threads = lambda: len(os.listdir(f"/proc/{s.p.pid}/task"))
    memory = lambda: int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{s.p.pid}/status").read())[1]) << 10
    before = memory()

    def raw(data, limit=5):
        """-> all that comes back until the end, or until nothing comes."""
        c = socket.create_connection(("127.0.0.1", s.port), timeout=limit)
        out = b""
        with c:
            try:
                c.sendall(data)
                while more := c.recv(65536):
                    out += more
                    if b"\r\n\r\n" in out:
                        c.settimeout(0.3)
            except OSError:
                pass
        return out

    def fine():
        start = time.monotonic()
        hw.equal(s.ask("GET", "/api/v1/status", token=s.token)[0], 200, "it answers")
        hw.true(time.monotonic() - start < 3, "soon")
    get = b"GET /api/v1/status HTTP/1.1\r\n" + auth
    for data in (get + b"X: " + b"y" * (1 << 20) + b"\r\n\r\n", get + b"".join(b"X%d: y\r\n" % i for i in range(20000)) + b"\r\n", b"GET /" + b"a" * 300000 + b" HTTP/1.1\r\n",
                 b"\0" * 100000, b"GET", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", b"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example\r\n\r\n"):
        answer = raw(data, 1)
        hw.true(answer == b"" or answer.startswith(b"HTTP/1.") and (b" 4" in answer[:12] or b" 5" in answer[:12] or answer[9:12] == b"200"), f"{data[:40]}: {answer[:80]}")
    fine()
    post = b"POST /api/v1/query?trace=1 HTTP/1.1\r\n" + auth
    for body in (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx", b"Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n",
                 b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcdefgh\r\n0\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n1;" + b"e" * 200000 + b"\r\nx\r\n",
                 b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", b"Content-Length: -1\r\n\r\n", b"Content-Length: 99999999999999999999999\r\n\r\n",
                 b"Content-Length: 1x\r\n\r\n", b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", b"Content-Length: 4194305\r\n\r\n"):
        answer = raw(post + body, 1)
        hw.true(b"rows" not in answer, f"{body[:60]}: {answer[:200]}")
    fine()
    # What a proxy in front may read otherwise than we do: refused, and nothing behind it is taken for a request.
    behind = b"GET /api/v1/status HTTP/1.1\r\n" + auth + b"\r\n"
    for headers in (b"Content-Length: 8\r\nContent-Length: 0\r\n", b"Content-Length: 8\r\nContent-Length: 8\r\n", b"Content-Length: 8\r\nTransfer-Encoding: chunked\r\n",
                    b"Transfer-Encoding : chunked\r\n", b"Content-Length : 8\r\n", b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
                    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 8\r\nHost: localhost\r\n",
                    b"Content-Length: 8, 8\r\n", b"Content-Length: +8\r\n"):
        answer = raw(post + headers + b"\r\n" + (b"0\r\n\r\n" if b"chunked" in headers else b"select 1") + behind, 2)
        hw.true(answer.startswith(b"HTTP/1.1 400 ") and b" 200 " not in answer, f"{headers}: {answer[:300]}")
    fine()
    for host in (b"[::1].evil.example", b"[::1]x", b"[::1]:80:90", b"localhost:80.evil.example", b"localhost:-1", b"127.0.0.1:8O"):
        hw.true(b" 403 " in raw(b"GET /api/v1/status HTTP/1.1\r\n" + auth.replace(b"localhost", host) + b"\r\n", 2)[:20], f"{host}")
    for path in ("/assets/../../etc/passwd", "/assets/%2e%2e/%2e%2e/etc/passwd", "/assets/..%2f..%2fetc%2fpasswd", "/assets/%252e%252e/etc/passwd", "/assets/\\..\\etc\\passwd",
                 "//etc/passwd", "/assets/%00", "/assets//etc/passwd", "/assets/%c0%ae%c0%ae/etc/passwd", "/api/v1/traces/1/../../../../etc/passwd", "/api/v1/traces/1%2f/timeline",
                 "/api/v1/memory-internals/file/1/../../../etc/passwd", "/api/v1/memory-internals/file/%2fetc%2fpasswd", "/api/v1/live/..%2f..%2f1/flame", "/api/v1/live/self/flame",
                 "/api/v1/export/..%2f..%2fetc%2fpasswd?trace=1", "/api/v1/traces/1/source?file=/etc/passwd", "/api/v1/traces/1/source?file=..%2f..%2fetc%2fpasswd"):
        answer = raw(b"GET " + path.encode() + b" HTTP/1.1\r\nConnection: close\r\n" + auth + b"\r\n", 2)
        hw.true(b"root:" not in answer and answer[9:10] == b"4", f"{path}: {answer[:100]}")
    for name in ("..%2fout.trace", "%2ftmp%2fout.trace", "a%00.trace", "a%0a.trace", ".out.trace", "out"):
        hw.equal(s.ask("POST", f"/api/v1/traces/1/save?name={name}", token=s.token)[0], 400, name)
    for key in ("..%2fx", "a/b", "%2fetc", "A", "a%0ab"):
        hw.equal(s.ask("POST", f"/api/v1/kept?key={key}", b"x", token=s.token)[0], 400, key)
    # Slow headers of many, half bodies of the token's owner, events that nobody reads.
    slow = [socket.create_connection(("127.0.0.1", s.port), timeout=5) for _ in range(150)]
    for c in slow:
        c.sendall(b"GET / HTTP/1.1\r\nX")
    for c in slow[:60]:
        c.sendall(b": y\r\n")
    fine()
    bodies = [socket.create_connection(("127.0.0.1", s.port), timeout=5) for _ in range(40)]
    for c in bodies:
        c.sendall(post + b"Content-Length: 4000000\r\n\r\n" + b"x" * 100000)
    events = [socket.create_connection(("127.0.0.1", s.port), timeout=5) for _ in range(40)]
    for c in events:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(b"GET /api/v1/events HTTP/1.1\r\n" + auth + b"\r\n")
    for i in range(20):
        i = s.json("POST", f"/api/v1/traces?path={box.path('a')}")["id"]
        hw.equal(s.ask("DELETE", f"/api/v1/traces/{i}", token=s.token)[0], 204, "closed")
        if i % 5 == 0:
            fine()
    hw.true(threads() < 300, f"{threads()} threads")
    hw.true(memory() - before < 200 << 20, f"{memory() - before} bytes more")
    for c in slow + bodies + events:
        c.close()
    hw.wait_for(lambda: threads() < 12, f"threads end: {threads()}")
    # Without the token one answer a connection, however many are asked for: else who asks without end keeps others out.
    open_page = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    hw.equal(raw(3 * open_page, 2).count(b"HTTP/1.1 200 "), 1, "answers without a token")
    hw.equal(raw(behind + 2 * open_page, 2).count(b"HTTP/1.1 200 "), 3, "answers behind one with the token")
    # More connections of one client than it may have: refused in words, and the rest still works.
    kept, refused = [], 0
    for i in range(160):  # from however many addresses of this machine
        c = client(s, source=f"127.0.{i % 8}.{2 + i}")
        c.request("GET", "/api/v1/status", headers={"Authorization": f"Bearer {s.token}"})
        r = c.getresponse()
        refused += r.status == 503 and b"too many connections" in r.read()
        r.read()
        kept.append(c)
    hw.equal((refused, len(kept)), (32, 160), "half of 256 is one client's share")
    if os.getuid() == 0:
        other = client(s, OTHER)
        other.request("GET", "/api/v1/status", headers={"Authorization": f"Bearer {s.token}"})
        hw.equal(other.getresponse().status, 200, "another one's")
        kept.append(other)
    for c in kept:
        c.close()
    s.stop()


def recorded_here(box):
    """-> a trace of a program of this machine, whose modules have paths and build ids."""
    box.run([hw.tool("heapwise"), "record", "--exact", "--no-report", "-o", box.path("t.trace"), "--", hw.target("steps")], check=0)
    return box.path("t.trace")


def open_trace(s, path=None, data=None):
    i = (s.json("POST", f"/api/v1/traces?path={path}") if path else json.loads(s.ask("POST", "/api/v1/traces?name=x", data, token=s.token)[1]))["id"]
    hw.wait_for(lambda: all(t["state"] == "ready" for t in s.json("GET", "/api/v1/status")["traces"] if t["id"] == i), "it is read")
    return i


def helpers(box):
    """A disassembler or symbolizer that never ends is gone with whoever started it, also when that one is killed."""
    trace = recorded_here(box)
    os.mkdir(box.path("bin"))
    for name in ("objdump", "slow-symbolizer"):
        with open(box.path(f"bin/{name}"), "w") as f:
            f.write(f"#!/bin/sh\necho $$ >{box.path(name)}.pid.new\nmv {box.path(name)}.pid.new {box.path(name)}.pid\nexec sleep 300\n")
        os.chmod(box.path(f"bin/{name}"), 0o755)

    def ends_with(p, name):
        hw.wait_for(lambda: os.path.exists(box.path(f"{name}.pid")), f"{name} is started")
        pid = int(open(box.path(f"{name}.pid")).read())
        hw.true(os.path.exists(f"/proc/{pid}"), f"{name} runs")
        p.kill()
        p.wait(hw.CLOCK)
        try:
            hw.wait_for(lambda: not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().split()[2] == "Z", f"{name} is gone, too")
        except hw.Failure:
            os.kill(pid, signal.SIGKILL)
            raise
    box.env["PATH"] = box.path("bin") + ":" + box.env["PATH"]
    s = Served(box, "--no-open", trace, command=("ui",))
    hw.wait_for(lambda: s.json("GET", "/api/v1/status")["traces"][0]["state"] == "ready", "it is read")
    c = socket.create_connection(("127.0.0.1", s.port))
    c.sendall(f"GET /api/v1/traces/1/code?fn=main HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {s.token}\r\n\r\n".encode())
    ends_with(s.p, "objdump")
    c.close()
    ends_with(box.start([hw.tool("heapwise"), "report", "--symbolizer", box.path("bin/slow-symbolizer"), "--symbols", os.path.dirname(hw.target("steps")), trace]),
              "slow-symbolizer")


def sent_paths(box):
    """A trace that somebody sent, or laid into a directory, makes a server for others look at no path that it names."""
    trace = recorded_here(box)
    os.mkdir(box.path("in"))
    shutil.copy(trace, box.path("in/laid.trace"))
    own = hw.target("steps")
    if os.geteuid() == 0:
        s = Served(box, "--traces", box.path("in"), trace)
    else:
        s = Served(box, "--traces", box.path("in"), "--listen", "0.0.0.0", trace)

    def looked(i):
        places, n = [], 0
        while True:
            status, text = s.ask("GET", f"/api/v1/traces/{i}/binaries?mapping={n}", token=s.token)
            if status != 200:
                return places
            places += json.loads(text)
            n += 1
    given = open_trace(s, path=trace)
    hw.true([own, "fits"] in [p[:2] for p in looked(given)], "of a trace that the owner named, the path is looked at")
    hw.equal(s.ask("GET", f"/api/v1/traces/{given}/code?fn=main", token=s.token)[0], 200, "and its code is shown")
    for what, i in (("sent", open_trace(s, data=open(trace, "rb").read())), ("laid", open_trace(s, path=box.path("in/laid.trace")))):
        places = [p[0] for p in looked(i)]
        hw.true(all(p.startswith("/usr/lib/debug/.build-id/") for p in places), f"{what}: {places}")
        status, text = s.ask("GET", f"/api/v1/traces/{i}/code?fn=main", token=s.token)
        hw.true(status == 400 and b"--symbols" in text, f"{what}: {status} {text[:200]}")
    s.stop()
    s = Served(box, "--symbols", os.path.dirname(own), *(() if os.geteuid() == 0 else ("--listen", "0.0.0.0")))
    i = open_trace(s, data=open(trace, "rb").read())
    hw.equal(s.ask("GET", f"/api/v1/traces/{i}/code?fn=main", token=s.token)[0], 200, "below --symbols it is found")
    s.stop()
    s = Served(box, "--no-open", command=("ui",))
    i = open_trace(s, data=open(trace, "rb").read())
    hw.true([own, "fits"] in [p[:2] for p in looked(i)], "its own user's server looks where he may look")
    s.stop()


def commands(box):
    """A server of root's starts programs from the page only when it was told so."""
    if os.geteuid() != 0:
        raise hw.Skip("needs root")
    for options, allowed in (((), False), (("--allow-commands",), True)):
        s = Served(box, *options)
        plan = s.json("POST", "/api/v1/record/plan", {"words": ["record", "--", "true"]})
        hw.equal(plan["commands"], allowed, f"{options}: {plan}")
        started = s.ask("POST", "/api/v1/record/start", b'{"words":["record","--","touch","made"]}', token=s.token)
        hw.equal(started[0] == 200, allowed, f"{options}: {started}")
        if allowed:
            hw.wait_for(lambda: os.path.exists(box.path("made")), "it ran")
        else:
            hw.true(not os.path.exists(box.path("made")), "nothing ran")
        s.stop()


if __name__ == "__main__":
    hw.main({"other-user": other_user, "listen": listen, "wrong-words": wrong_words, "tls": tls, "open": open_after, "duration": duration,
             "pipes": pipes, "closing": closing, "quiet": quiet, "named": named, "tls-floor": tls_floor, "fair": fair,
             "own-tables": own_tables, "uploads": uploads, "hostile": hostile, "helpers": helpers, "sent-paths": sent_paths,
             "commands": commands})
