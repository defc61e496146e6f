"""Real programs with endless input (lib/feed.py), by group; a short run uses the first ones of each group."""
import os
import pathlib
import re
import shutil
import signal
import sys

from lib.feed import Program

LINES = "".join(f"line {i * 7919 % 1000} of {i}\n" for i in range(400)).encode()
NUMBERS = "".join(f"{i * 7919 % 1000} {i}\n" for i in range(400)).encode()
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable

SUM_PY = """import os, signal, sys
signal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 1000, 7); signal.signal(signal.SIGUSR1, signal.SIG_IGN)
n, words = 0, {}
for line in sys.stdin:
    for w in line.split(): words[w] = words.get(w, 0) + 1
    n += len(line); keep = [bytearray(200) for i in range(5)]
print(n, len(words), signal.getitimer(signal.ITIMER_REAL)[1], sorted(words.items())[:5], os.getcwd())
os.system('umask; ulimit -a; trap; pwd'); sys.exit(5)"""
SUM_JS = """const {Worker} = require('worker_threads'); let open = 2; const sums = [0, 0]; let text = '';
const code = "const {parentPort, workerData} = require('worker_threads'); let s = 0; parentPort.on('message', m => { if (m === null) {"
  + "parentPort.postMessage(s); parentPort.close(); } else { s += m.map(x => x + 'a').join('').length; } });";
const all = [0, 1].map(i => { const w = new Worker(code, {eval: true});
  w.on('message', s => sums[i] = s); w.on('exit', () => { if (--open === 0) console.log(sums.reduce((a, b) => a + b), process.cwd()); }); return w; });
let n = 0; process.stdin.on('data', d => { text += d; const l = text.split('\\n'); text = l.pop(); for (const x of l) all[n++ % 2].postMessage(x.split(' ')); });
process.stdin.on('end', () => all.forEach(w => w.postMessage(null)));"""
SUM_JAVA = """import java.io.*; import java.util.*; import java.util.concurrent.*;
public class Sum { public static void main(String[] a) throws Exception {
  ExecutorService pool = Executors.newFixedThreadPool(3); BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
  ConcurrentHashMap<String, Long> words = new ConcurrentHashMap<>(); List<Future<?>> all = new ArrayList<>(); String l;
  while ((l = in.readLine()) != null) { final String line = l; all.add(pool.submit(() -> { for (String w : line.split(" ")) words.merge(w, 1L, Long::sum); }));
    if (all.size() > 1000) { for (Future<?> f : all) f.get(); all.clear(); } }
  for (Future<?> f : all) f.get(); pool.shutdown(); long n = 0; for (long v : words.values()) n += v;
  System.out.println(words.size() + " words, " + n + " " + new TreeMap<>(words).firstKey()); System.exit(4); } }"""
SUM_GO = """package main
import ("bufio"; "fmt"; "os"; "strings"; "time")
func main() { time.AfterFunc(time.Hour, func() {}) // makes its descriptors for waiting at once
 in := bufio.NewScanner(os.Stdin); words := map[string]int{}; n := 0
 for in.Scan() { for _, w := range strings.Fields(in.Text()) { words[w]++; n++ } }
 fmt.Println(len(words), n); os.Exit(6) }"""
SUM_CGO = SUM_GO.replace("package main\n", """package main
// #include <stdlib.h>
// #include <string.h>
// static long half(long n) { char *p = malloc(n + 1); memset(p, 1, n + 1); n = p[n] * n / 2; free(p); return n; }
import "C"
""").replace("n++ }", "n += int(C.half(C.long(len(w)))) }")
GO = {"GO111MODULE": "off"}
SITE = {"nginx": "daemon off; master_process off; pid {box}/{tag}.nginx; error_log stderr; events {{}}\nhttp {{ access_log off; "
                 "client_body_temp_path {box}; proxy_temp_path {box}; fastcgi_temp_path {box}; uwsgi_temp_path {box}; scgi_temp_path {box};\n"
                 "server {{ listen 127.0.0.1:{port}; keepalive_requests 1000000; root {box}/in; }} }}\n",
        "lighttpd": 'server.document-root = "{box}/in"\nserver.port = {port}\nserver.bind = "127.0.0.1"\nserver.max-keep-alive-requests = 1000000\n'}


def site(kind):
    def prepare(box, tag, port):
        pathlib.Path(box.path(f"{tag}.conf")).write_text(SITE[kind].format(box=box.dir, tag=tag, port=port))
    return prepare


def no_date(out):
    return re.sub(rb"(Date|ETag|Last-Modified): [^\r]*\r\n", b"", out)


def repository(box, tag, port):
    if not os.path.exists(box.path("repo")):
        box.run(["git", "init", "-q", box.path("repo")], check=0)
        box.run(["sh", "-c", "cd repo && cp -r ../in . && git add . && git -c user.name=a -c user.email=a@b commit -qm a"], check=0)


def compiled(kind, text, *argv):
    def prepare(box, tag, port):
        if not os.path.exists(box.path("built." + kind)):
            os.makedirs(box.path("built." + kind))
            name = text[0]
            pathlib.Path(box.path(f"built.{kind}/{name}")).write_text(text[1])
            box.run(["sh", "-c", f'cd built.{kind} && "$@"', "sh", *argv, name], check=0, timeout=120,
                    env=GO)
    return prepare


def cluster(box, tag, port):
    """Makes a copy of one data directory for each run."""
    bin_ = "/usr/lib/postgresql/15/bin"
    os.chmod(box.dir, 0o755)
    as_ = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    if not os.path.exists(box.path("pg/new")):
        os.makedirs(box.path("pg"))
        shutil.chown(box.path("pg"), "postgres", "postgres")
        box.run([*as_, bin_ + "/initdb", "-N", "-A", "trust", "-D", box.path("pg/new")], check=0, timeout=120)
    shutil.rmtree(box.path("pg/" + tag), ignore_errors=True)
    box.run(["cp", "-a", box.path("pg/new"), box.path("pg/" + tag)], check=0)


FED = {
    "text": {
        "sort": Program(["sort"], LINES), "awk": Program(["awk", "{s+=$2; a[$2]=a[$2] $1} END {print s, length(a)}"], LINES, exe="awk"),
        "grep": Program(["grep", "-E", "-c", "7|of 1.*3"], LINES), "sed": Program(["sed", "s/line\\(.*\\)of/row\\1 /"], LINES),
        "perl": Program(["perl", "-ne", "$n += length; $h{$_}++ for split; END { print $n, scalar keys %h; exit 2 }"], LINES),
        "dd": Program(["dd", "bs=70", "status=none"], LINES), "jq": Program(["jq", "-c", "{b: (.a|add), c: (.a|map(tostring))}"],
                                                                        b'{"a":[' + b",".join(b"%d" % i for i in range(300)) + b"]}\n"),
        "bc": Program(["bc", "-q"], b"2^300 % 7919 + 3\n" * 20), "xmllint": Program(["xmllint", "--format", "-"], LINES.replace(b"line", b"<b>x</b>"),
                                                                               head=b"<a>", tail=b"</a>\n"),
        "clickhouse-compressor": Program(["clickhouse-compressor"], LINES, exe="clickhouse"),
    },
    "packed": {
        "xz": Program(["xz", "-c"], LINES), "zstd": Program(["zstd", "-qc"], LINES), "gzip": Program(["gzip", "-nc"], LINES),
        "bzip2": Program(["bzip2", "-c"], LINES), "openssl": Program(["openssl", "enc", "-aes-256-cbc", "-K", "11" * 32, "-iv", "22" * 16], LINES),
        "tar": Program(["tar", "-cf", "-", "--mtime=@0", "-T", "-"], b"in/text\nin/json\n", needs=("tar",), pace=0.01),
        "find": Program(["find", "-files0-from", "-", "-name", "*t*", "-size", "+1k"], b"in\0/usr/share/perl\0"),
        "git": Program(["git", "-C", "repo", "cat-file", "--batch"], b"HEAD:in/text\nHEAD:in/json\nHEAD\n", prepare=repository,
                       masks=lambda out: re.sub(rb"^(author|committer|[0-9a-f]{40} commit).*$", b"", out, flags=re.M)),
    },
    "languages": {
        "python3": Program([PYTHON, "-c", SUM_PY], LINES), "node": Program(["node", "-e", SUM_JS], LINES, pool=True),
        "bash": Program(["bash", "-c", "while read -r a b; do n=$((n+b)); x=\"$a $b\"; done; echo $n $x; umask; ulimit -a; trap; exit 3"],
                        NUMBERS),
        "java": Program(["java", "-Xmx200m", "-cp", "built.java", "Sum"], LINES, pool=True, prepare=compiled("java", ("Sum.java", SUM_JAVA), "javac"),
                        needs=("javac",), jvm=True),
        "go": Program(["{box}/built.go/sum"], LINES, pool=True, refused=True, needs=("go",), exe="sum",
                      prepare=compiled("go", ("sum.go", SUM_GO), "go", "build", "-o", "sum")),
        "cgo": Program(["{box}/built.cgo/sum"], LINES, pool=True, needs=("go", "gcc"), exe="sum",
                       prepare=compiled("cgo", ("sum.go", SUM_CGO), "go", "build", "-o", "sum")),
        "tclsh": Program(["tclsh"], b"incr n 7; set l [lsort [list a c b $n]]\n" * 30, head=b"set n 0\n", tail=b"puts \"$n $l\"; exit 4\n",
                         exe="tclsh"),
        "gdb": Program(["gdb", "-q", "-nx"], b"print 6*7\nset $a = 5\nprint $a * 3\n", pace=0.01),
        "sqlite3": Program(["sqlite3", ":memory:"], b"insert into t select value, hex(value*7919) from generate_series(1,50);\n",
                           head=b"create table t(a, b); create index x on t(b);\n", tail=b"select count(*), sum(a), sum(length(b)) from t;\n"),
        "qemu": Program(["qemu-x86_64", "/usr/bin/sort"], LINES, exe="qemu", pool=True),
        "valgrind": Program(["valgrind", "-q", "sort"], LINES, exe="memcheck", pool=True, refused=True, pace=0.01),
        "postgres": Program(["/usr/lib/postgresql/15/bin/postgres", "--single", "-D", "{box}/pg/{tag}", "postgres"],
                            b"insert into t select i, md5(i::text) from generate_series(1, 20) i;\nselect count(*), sum(a) from t where b like '%3%';\n",
                            head=b"create table t(a int, b text);\n", user="postgres", pool=True, prepare=cluster, pace=0.02,
                            masks=lambda out: re.sub(rb"^.*(UTC|LOG:).*$", b"", out.replace(b"\t", b" "), flags=re.M)),
    },
    "servers": {
        "redis": Program(["redis-server", "--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning",
                          "--jemalloc-bg-thread", "no"],  # which comes some time after the start
                         b"INCR n\r\nLPUSH l abcdefgh\r\nLTRIM l 0 99\r\nLRANGE l 0 3\r\nHSET h a 1 b 2\r\nHGETALL h\r\nAPPEND s xxxxxxxx\r\n" * 20,
                         tail=b"DEBUG DIGEST\r\nQUIT\r\n", way="talk", end=signal.SIGTERM, needs=("redis-server",), exe="redis",
                         masks=lambda out: re.sub(rb"^\d+:.*$", b"", out, flags=re.M)),
        "curl": Program(["curl", "-sN", "http://127.0.0.1:{port}/"], LINES, head=b"HTTP/1.0 200 OK\r\n\r\n", way="serve"),
        "nginx": Program(["/usr/sbin/nginx", "-c", "{box}/{tag}.conf"], b"GET /text HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n",
                         tail=b"GET /json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", way="talk", end=signal.SIGTERM, prepare=site("nginx"),
                         masks=no_date, pace=0.005),
        "lighttpd": Program(["/usr/sbin/lighttpd", "-D", "-f", "{box}/{tag}.conf"], b"GET /text HTTP/1.1\r\nHost: a\r\n\r\n",
                            tail=b"GET /json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", way="talk", end=signal.SIGINT, prepare=site("lighttpd"),
                            masks=lambda out: re.sub(rb"(?m)^.*\(server\.c.*$", b"", no_date(out)), pace=0.005),
    },
}


def sources(box, tag, port):
    """Makes something to build."""
    if os.path.exists(box.path("src")):
        return
    os.mkdir(box.path("src"))
    lines = [f"static int f{i}(int n, const char *s) {{ int a[{i % 9 + 3}] = {{n}}; for (int k = 1; k < {i % 9 + 3}; k++) a[k] = a[k - 1] * {i} + s[k]; "
             f"return a[{i % 9 + 2}] > {i} ? a[1] : n; }}" for i in range(400)]
    text = "\n".join(lines) + "\nint sum(int n, const char *s) { int r = 0;\n" + "\n".join(f"r += f{i}(n, s);" for i in range(400)) + "\nreturn r; }\n"
    pathlib.Path(box.path("src/a.c")).write_text(text)
    box.run(["gcc", "-O1", "-g", "-c", "src/a.c", "-o", "src/a.o"], check=0)
    pathlib.Path(box.path("src/Makefile")).write_text("N = $(shell seq 1 40)\nall: $(N)\n$(N):\n\t@echo $@ $(words $(foreach i,$(shell seq 1 400),$(i)x$@))\n")
    pathlib.Path(box.path("src/build.ninja")).write_text("rule say\n command = echo $in $out\n description = $out\n" +
                                                         "".join(f"build o{i}: say{' o' + str(i - 1) if i % 5 else ''}\n" for i in range(60)))
    pathlib.Path(box.path("src/a.go")).write_text(SUM_GO)
    pathlib.Path(box.path("src/a.html")).write_text("<body><script>let s = [], n = 0; for (let i = 0; i < 600000; i++) { s.push('x' + i % 977); n += s[i].length; }"
                                                    "document.body.append(n + ' ' + s.filter(x => x.endsWith('7')).length);</script>")


def tool_of_gcc(name):
    out = os.popen(f"gcc -print-prog-name={name} 2>/dev/null").read().strip()
    return shutil.which(out) or name


def no_times(out):
    return re.sub(rb"(?m)^\[\d+:\d+:\d+/.*\n|0x[0-9a-f]+|/tmp/\S+|[\d.]+ ?s\b", b"", out)


BUILDS = {
    "ninja": Program(["ninja", "-C", "src", "-v", "-j1"], b"", prepare=sources),
    "cc1": Program([tool_of_gcc("cc1"), "-quiet", "-O1", "src/a.c", "-o", "-"], b"", prepare=sources, needs=("gcc",)),
    "as": Program(["sh", "-c", "gcc -O1 -S src/a.c -o src/a.s && as src/a.s -o src/b.o && sha256sum src/b.o"], b"", prepare=sources, needs=("gcc",)),
    "ld": Program(["sh", "-c", "ld -r --whole-archive $(gcc -print-file-name=libstdc++.a) src/a.o -o src/l.o && sha256sum src/l.o"], b"", prepare=sources,
                  needs=("gcc",)),
    "objdump": Program(["objdump", "-d", "--no-show-raw-insn", "/usr/bin/gdb"], b"", masks=lambda out: str(hash(out)).encode() + b" %d" % len(out)),
    "make": Program(["make", "-C", "src"], b"", prepare=sources),
    "go-build": Program(["go", "build", "-a", "-p", "1", "-gcflags=-l=4", "-o", "/dev/null", "src/a.go"], b"", prepare=sources, needs=("go",), env=GO),
    "gofmt": Program(["gofmt", "src/a.go"], b"", prepare=sources),
    "chromium": Program(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir={box}/chromium", "--dump-dom", "file://{box}/src/a.html"], b"",
                        prepare=sources, masks=lambda out: b"" if b"<body>" not in out else out),
}
