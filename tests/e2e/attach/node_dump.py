#!/usr/bin/env python3
"""Heap snapshots of running Node.js programs: what is in them, what is left behind, who is not asked."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from namespaces import below, need_unshare
from runtimes import Twin, rows

# Keeps what the test counts, and answers each line of its input.
HELD = """
class Session { constructor(i) { this.id = i; this.data = new Array(10).fill(i + 0.5); } }
class Cache { constructor() { this.all = []; } }
globalThis.cache = new Cache();
for (let i = 0; i < 10000; i++) cache.all.push(new Session(i));
require('readline').createInterface({ input: process.stdin })
    .on('line', (l) => console.log(l, cache.all.length)).on('close', () => process.exit(0));
console.log('ready');
"""


class Node:
    """A program under Node.js, ready; of no port that others have."""

    def __init__(self, box, script, *options, before=(), name="app.js"):
        hw.need("node")
        self.box, self.script = box, box.dir / name
        self.script.write_text(script)
        options = options or ("--inspect-port=0",)
        self.err = open(box.path("node.err"), "w")
        self.p = box.start([*before, "node", *options, name], stdin=subprocess.PIPE, stderr=self.err)
        hw.equal(self.p.stdout.readline(), b"ready\n", f"first line of {script}; {self.said()}")
        self.pid = below(self.p.pid, "node") if before else self.p.pid

    def said(self):
        return pathlib.Path(self.box.path("node.err")).read_text()

    def works(self):
        self.p.stdin.write(b"hello\n")
        self.p.stdin.flush()
        hw.equal(self.p.stdout.readline().split()[0], b"hello", "its answer")

    def listens(self):
        """Ports on which this very process listens."""
        own = set()
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                own.add(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
            except OSError:
                pass
        lines = [line.split() for line in open(f"/proc/{self.pid}/net/tcp").readlines()[1:]]
        return [int(f[1].split(":")[1], 16) for f in lines if f[3] == "0A" and f"socket:[{f[9]}]" in own]

    def caught(self):
        return int(hw.status(self.pid, "SigCgt"), 16) >> (signal.SIGUSR1 - 1) & 1


def dump(box, what, *options, file="out.heapsnapshot", timeout=hw.CLOCK, **kw):
    r = box.run([hw.tool("heapwise"), "node", "dump", "-o", box.path(file), "-f", *options, str(what)], check=None, timeout=timeout, **kw)
    return r.returncode, r.stderr.decode()


def refused(box, what, words, *options, status=None, **kw):
    code, text = dump(box, what, *options, **kw)
    hw.true(code not in (0, None) and (status is None or code == status) and words in text, f"exit {code}, wanted '{words}': {text}")
    hw.equal([f.name for f in box.dir.glob("out.heapsnapshot*")], [], "files that are left")


def running(box):
    """Objects, sizes and retained sizes of a running program, which runs on with its port closed; twice."""
    node = Node(box, HELD, name=f"app.{os.getpid()}.js")
    for what in node.pid, node.script.name:
        code, text = dump(box, what)
        hw.equal(code, 0, text)
        hw.true("every user of this machine can reach" in text, text)
        hw.equal(node.listens(), [], "ports that are open")
        node.works()
        hw.true(node.caught(), "SIGUSR1 still opens the inspector")
        twin = Twin(box.path("out.heapsnapshot"))
        of = [i for i, c in enumerate(twin.name) if c == "Session"]
        hw.equal(len(of), 10000, "sessions in the snapshot")
        cache = twin.name.index("Cache")
        (n, size), = rows(box, box.path("out.heapsnapshot"), "select count(*), sum(o.self_size) from heap_graph_object o "
                          "join heap_graph_class c on o.type_id = c.id where c.name = 'Session'")
        hw.equal((int(n), int(size)), (10000, sum(twin.size[i] for i in of)), "sessions")
        (retained,), = rows(box, box.path("out.heapsnapshot"), "include perfetto module android.memory.heap_graph.dominator_tree; "
                            "select d.dominated_size_bytes from heap_graph_dominator_tree d join heap_graph_object o using (id) "
                            "join heap_graph_class c on o.type_id = c.id where c.name = 'Cache'")
        hw.equal(int(retained), twin.retained(cache), "retained by the cache")
        hw.true(int(retained) > 10000 * 10 * 8, f"it holds the numbers of its sessions: {retained}")
    hw.equal(node.said().count("Debugger listening"), 2, "what Node.js says of it")


def already_open(box):
    """An inspector that was open before stays open, and is found by the program's own arguments."""
    hw.need("node")
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    node = Node(box, HELD, f"--inspect={port}")
    code, text = dump(box, node.pid)
    hw.equal(code, 0, text)
    hw.equal(node.listens(), [port], "ports that are open")
    hw.equal(node.said().count("Debugger listening"), 1, "inspectors opened")
    hw.true(Twin(box.path("out.heapsnapshot")).name.count("Session") == 10000, "sessions")
    node.works()


def open_elsewhere(box):
    """One at a port that only the user knows."""
    node = Node(box, "require('inspector').open(0);\n" + HELD, "--inspect-port=0")
    port, = node.listens()
    refused(box, node.pid, "--port", "--timeout", "1s")
    code, text = dump(box, node.pid, "--port", str(port))
    hw.equal(code, 0, text)
    hw.equal(node.listens(), [port], "ports that are open")


def not_node(box):
    """SIGUSR1 ends a program that does not handle it: none is sent to what is no Node.js, whatever its name and signals."""
    shutil.copy(shutil.which("sleep"), box.path("node"))
    sleeper = box.start([box.path("node"), "1000"])
    hw.wait_for(lambda: hw.status(sleeper.pid, "Name") == "node", "the sleeper")
    refused(box, sleeper.pid, "is not Node.js", status=77)
    handler = box.start([sys.executable, "-c", """import signal, sys
signal.signal(signal.SIGUSR1, lambda *a: sys.exit(3))
print('ready', flush=True)
signal.pause()"""])
    handler.stdout.readline()
    refused(box, handler.pid, "is not Node.js", status=77)
    hw.equal((sleeper.poll(), handler.poll()), (None, None), "both live on")


def not_handled(box):
    """A program that has handled SIGUSR1 itself, and no longer does: the signal would end it."""
    node = Node(box, "const f = () => 0; process.on('SIGUSR1', f); process.off('SIGUSR1', f);\n" + HELD)
    hw.true(not node.caught(), "this Node.js restores no handler of its own")
    refused(box, node.pid, "does not handle SIGUSR1", status=77)
    node.works()


def handled_itself(box):
    """A handler of the program's own takes the signal: a reason after the time-out, and no file."""
    node = Node(box, "process.on('SIGUSR1', () => 0);\n" + HELD)
    refused(box, node.pid, "it handles SIGUSR1 itself", "--timeout", "1s")
    node.works()


def is_stopped(box):
    """A stopped process cannot answer."""
    node = Node(box, HELD)
    os.kill(node.pid, signal.SIGSTOP)
    hw.stopped(node.pid)
    refused(box, node.pid, "is stopped", status=1)
    os.kill(node.pid, signal.SIGCONT)
    node.works()


def stranger(box):
    """Another process listens where the inspector is expected: it is never talked to, the program never disturbed."""
    hw.need("node")
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        node = Node(box, HELD, f"--inspect-port={port}")
        refused(box, node.pid, f"port {port}, where process", status=1)
        free = Node(box, HELD, "--inspect-port=0", name="free.js")
        refused(box, free.pid, f"port {port}, where process", "--port", str(port))
        s.settimeout(0)
        try:
            hw.true(False, f"a connection came: {s.accept()}")
        except BlockingIOError:
            pass
        hw.equal(node.said(), "", "what Node.js says")
        node.works()


def of_another(box):
    """Another user's process: the kernel's rules, before anything is sent."""
    if os.geteuid() != 0:
        raise hw.Skip("not root: processes of other users")
    node = Node(box, HELD)
    tool = shutil.copy(hw.tool("heapwise"), box.path("heapwise-copy"))
    box.dir.chmod(0o755)
    r = subprocess.run([tool, "node", "dump", "-o", "-", str(node.pid)], user=65534, group=65534, extra_groups=[], cwd="/", capture_output=True,
                       timeout=hw.CLOCK)
    hw.true(r.returncode == 77 and r.stdout == b"", f"exit {r.returncode}: {r.stderr.decode()}")
    hw.equal(node.said(), "", "what Node.js says")
    node.works()


def other_network(box):
    """In a network namespace of its own, where the port is another one."""
    need_unshare(box, ["-n"])
    node = Node(box, HELD, before=["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"])
    code, text = dump(box, node.pid)
    hw.equal(code, 0, text)
    hw.equal(node.listens(), [], "ports that are open")
    hw.equal(Twin(box.path("out.heapsnapshot")).name.count("Session"), 10000, "sessions")
    node.works()


def interrupted(box):
    """Ctrl-C in the middle: no file, and the inspector is closed again."""
    node = Node(box, HELD.replace("10000", "150000"))
    p = box.start([hw.tool("heapwise"), "node", "dump", "-o", box.path("out.heapsnapshot"), str(node.pid)])
    hw.wait_for(lambda: "Debugger attached" in node.said(), "the connection")
    p.send_signal(signal.SIGINT)
    p.wait(hw.CLOCK)
    hw.equal(p.returncode, 130, p.stderr.read().decode())
    hw.equal([f.name for f in box.dir.glob("out.heapsnapshot*")], [], "files that are left")
    hw.equal(node.listens(), [], "ports that are open")
    node.works()


def ends(box):
    """A program that is ended in the middle, as by the kernel for want of memory."""
    node = Node(box, HELD.replace("10000", "150000"))
    p = box.start([hw.tool("heapwise"), "node", "dump", "-o", box.path("out.heapsnapshot"), str(node.pid)])
    hw.wait_for(lambda: "Debugger attached" in node.said(), "the connection")
    os.kill(node.pid, signal.SIGKILL)
    p.wait(hw.CLOCK)
    text = p.stderr.read().decode()
    hw.true(p.returncode == 1 and f"process {node.pid} ended during" in text and "still open" not in text, f"exit {p.returncode}: {text}")
    hw.equal([f.name for f in box.dir.glob("out.heapsnapshot*")], [], "files that are left")


def stays_open(box):
    """A program that does not let its inspector be closed: the snapshot is there, and the command says that it is open."""
    node = Node(box, "process._debugEnd = () => 0;\n" + HELD)
    code, text = dump(box, node.pid, "--timeout", "5s")
    hw.true(code == 4 and "is still open at port %d" % node.listens()[0] in text, f"exit {code}: {text}")
    hw.equal(Twin(box.path("out.heapsnapshot")).name.count("Session"), 10000, "sessions")
    node.works()


# Answers as an inspector at ports of the program's own, and lies: at each in another way.
LIARS = """
const net = require('net'), crypto = require('crypto'), ports = {};
const frame = (text, first = 0x81) => { const b = Buffer.from(text), n = b.length;
    const h = n < 126 ? Buffer.from([first, n]) : n < 65536 ? Buffer.from([first, 126, n >> 8, n & 255])
        : Buffer.from([first, 127, 0, 0, 0, 0, n >>> 24, n >> 16 & 255, n >> 8 & 255, n & 255]);
    return Buffer.concat([h, b]); };
const chunk = (text) => frame(JSON.stringify({ method: 'HeapProfiler.addHeapSnapshotChunk', params: { chunk: text } }));
const done = (id, more = { result: {} }) => frame(JSON.stringify({ id, ...more }));
const list = (s, text) => s.end(`HTTP/1.0 200 OK\\r\\nContent-Length: ${text.length}\\r\\n\\r\\n${text}`);
const flood = (s, bytes) => { const go = () => { while (s.writable && s.write(bytes)); if (s.writable) s.once('drain', go); }; go(); };
function commands(b, say) { /* short ones: masked, one of the two short heads */
    for (let at = 0; at < b.length;) {
        let n = b[at + 1] & 127, head = 2;
        if (n == 126) { n = b.readUInt16BE(at + 2); head = 4; }
        const mask = b.subarray(at + head, at + head + 4), text = Buffer.alloc(n);
        for (let i = 0; i < n; i++) text[i] = b[at + head + 4 + i] ^ mask[i % 4];
        at += head + 4 + n;
        let m; try { m = JSON.parse(text); } catch (e) { continue; }
        say(m.id, m.method);
    }
}
function liar(name, lie) {
    const l = { get: (s) => list(s, '[{"id": "abc", "type": "node"}]'), take: (s, id) => s.write(done(id)),
                accept: (k) => crypto.createHash('sha1').update(k + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64'), ...lie };
    const server = net.createServer((s) => { s.on('error', () => 0); let upgraded = false; s.on('data', (b) => {
        if (upgraded) return commands(b, (id, m) => m == 'HeapProfiler.takeHeapSnapshot' ? l.take(s, id) : s.write(done(id)));
        const key = /Sec-WebSocket-Key: (\\S+)/.exec(b.toString());
        if (!key) return l.get(s);
        upgraded = true;
        s.write(`HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ${l.accept(key[1])}\\r\\n\\r\\n`);
    }); });
    server.listen(0, '127.0.0.1', () => { ports[name] = server.address().port;
        if (Object.keys(ports).length == NUMBER) console.log('ready\\n' + JSON.stringify(ports)); });
}
"""

HABITS = {  # what it does, words of the message
    "no-list": ("get: (s) => s.end('hello')", "the connection was closed"),
    "not-found": ("get: (s) => s.end('HTTP/1.0 404 No\\r\\n\\r\\n')", "does not answer as an inspector"),
    "html": ("get: (s) => list(s, '<html>')", "does not answer as an inspector"),
    "deep": ("get: (s) => list(s, '['.repeat(500000))", "does not answer as an inspector"),
    "odd-id": ("get: (s) => list(s, '[{\"id\": \"a b\\\\r\\\\nHost: x\", \"type\": \"node\"}]')", "does not answer as an inspector"),
    "long-head": ("get: (s) => flood(s, 'HTTP/1.0 200 OK' + 'x'.repeat(70000))", "its head has more than"),
    "long-body": ("get: (s) => s.write('HTTP/1.0 200 OK\\r\\nContent-Length: 99999999999\\r\\n\\r\\n')", "more than"),
    "endless-body": ("get: (s) => flood(s, 'HTTP/1.0 200 OK\\r\\n\\r\\n' + 'x'.repeat(70000))", "more than"),
    "odd-length": ("get: (s) => s.write('HTTP/1.0 200 OK\\r\\nContent-Length: -1\\r\\n\\r\\n')", "its length is no number"),
    "cut-list": ("get: (s) => s.end('HTTP/1.0 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\n[]')", "cut off"),
    "silent-list": ("get: (s) => 0", "no progress for 0.4 s"),
    "wrong-key": ("accept: (k) => 'x'", "refuses a WebSocket"),
    "silent": ("take: (s) => 0", "no progress for 0.4 s"),
    "pings": ("take: (s) => flood(s, frame('x', 0x89))", "no progress for 0.4 s"),
    "empty-chunks": ("take: (s) => flood(s, chunk(''))", "no progress for 0.4 s"),
    "other-events": ("take: (s) => flood(s, frame('{\"method\": \"x\"}'))", "no progress for 0.4 s"),
    "huge-frame": ("take: (s) => s.write(Buffer.from([0x81, 127, 127, 255, 255, 255, 255, 255, 255, 255]))", "a message of more than"),
    "many-fragments": ("take: (s) => { s.write(frame('x', 1)); flood(s, frame('x'.repeat(60000), 0)); }", "a message of more than"),
    "masked": ("take: (s) => s.write(Buffer.from([0x81, 0x80, 1, 2, 3, 4]))", "break the rules"),
    "no-text": ("take: (s) => s.write(frame('\\xff'.repeat(3), 0x82))", "no progress for 0.4 s"),
    "no-json": ("take: (s) => s.write(frame('{\"id\": '))", "no JSON object"),
    "deep-json": ("take: (s) => s.write(frame('{\"a\":'.repeat(200000)))", "no JSON object"),
    "no-snapshot": ("take: (s, id) => { s.write(chunk('<html>')); s.write(done(id)); }", "no heap snapshot"),
    "number": ("take: (s, id) => s.write(frame(JSON.stringify({ method: 'HeapProfiler.addHeapSnapshotChunk', params: { chunk: 7 } })))", "is no text"),
    "nothing": ("take: (s, id) => s.write(done(id))", "cut off"),
    "cut": ("take: (s, id) => { s.write(chunk('{\"snapshot\":{')); s.write(done(id)); }", "cut off"),
    "leaves": ("take: (s, id) => { s.write(chunk('{\"snapshot\":{')); s.destroy(); }", "the connection was closed"),
    "closes": ("take: (s, id) => s.write(frame('', 0x88))", "the connection was closed"),
    "refuses": ("take: (s, id) => s.write(done(id, { error: { message: 'not \\u001b[31mtoday\\u202e' + 'x'.repeat(5000) } }))", "it refuses: not \\x1b[31mtoday"),
}


def hostile(box):
    """A program that plays inspector: an error for each lie, no file, no waiting."""
    script = LIARS.replace("NUMBER", str(len(HABITS))) + "".join(f"liar('{name}', {{ {lie} }});\n" for name, (lie, _) in HABITS.items())
    node = Node(box, script)
    ports = json.loads(node.p.stdout.readline())
    for name, (_, words) in HABITS.items():
        code, text = dump(box, node.pid, "--port", str(ports[name]), "--timeout", "400ms" if "no progress" in words else "60s")
        hw.true(code == 1 and words in text, f"{name}: exit {code}, wanted '{words}': {text}")
        hw.true(all(c.isprintable() or c == "\n" for c in text), f"{name}: {text!r}")
        hw.equal([f.name for f in box.dir.glob("out.heapsnapshot*")], [], f"{name}: files that are left")
        hw.equal(node.p.poll(), None, f"{name}: the program lives")


def hints(box):
    """A recording of malloc's heap says where the objects are."""
    hw.need("node")
    box.run([hw.tool("heapwise"), "record", "-q", "--no-report", "-o", box.path("n.trace"), "--", "node", "-e", "0"], check=0)
    r = box.run([hw.tool("heapwise"), "report", box.path("n.trace")], check=0)
    hw.true(b"heapwise node dump" in r.stdout + r.stderr, r.stdout.decode())


def to_output(box):
    """A default name, a name that exists, standard output."""
    node = Node(box, HELD)
    r = box.run([hw.tool("heapwise"), "node", "dump", "-q", str(node.pid)], check=0)
    hw.equal((r.stdout, r.stderr), (b"", b""), "words of -q")
    file, = box.dir.glob("heap.*")
    hw.equal(file.name, f"heap.node.{node.pid}.heapsnapshot", "default name")
    r = box.run([hw.tool("heapwise"), "node", "dump", "-o", file, str(node.pid)], check=None)
    hw.true(r.returncode == 1 and b"--force" in r.stderr, r.stderr.decode())
    hw.equal(node.said().count("Debugger listening"), 1, "inspectors opened")
    r = box.run([hw.tool("heapwise"), "node", "dump", "-o", "-", str(node.pid)], check=0)
    hw.true("snapshot" in json.loads(r.stdout), "standard output")


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in ("Node", "dump", "refused")}

if __name__ == "__main__":
    hw.main(CASES)
