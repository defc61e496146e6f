#!/usr/bin/env python3
"""Real programs, recorded: they end as without us and the report shows what one who knows them expects."""
import os
import pathlib
import shutil
import socket
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.javac import javac


def functions(dump, key="alloc"):
    """-> {function: value} of everything on a stack, each stack once a function."""
    r = {}
    for s in dump.samples:
        for f in set(s.stack):
            r[f] = r.get(f, 0) + getattr(s, key)
    return r


def share(dump, *names):
    total = dump.total("alloc")
    part = sum(s.alloc for s in dump.samples if set(names) & set(s.stack))
    return part / total if total else 0


BEGINS = {"_start", "__libc_start_main", "__libc_start_call_main", "__libc_start_main_impl", "clone", "clone3",
          "__clone3", "__GI___clone3", "start_thread", "_dl_start", "_dl_start_user"}


def complete(dump, bar=0.9):
    """The share of bytes whose stack begins where a process or thread begins. Stripped programs have
    no name for _start, so the one above it may say so."""
    total = dump.total("alloc")
    good = sum(s.alloc for s in dump.samples if BEGINS & set(s.stack[:2]))
    print(f"  {len(dump.samples)} callstacks, {dump.heap_samples} samples, whole stacks {100 * good / max(total, 1):.1f} %")
    hw.true(good >= bar * total, f"only {good} of {total} bytes have whole stacks; others begin in "
            + str(sorted({tuple(s.stack[:3]) for s in dump.samples if not BEGINS & set(s.stack[:2])})[:10]))


def both(box, argv, interval=4096, timeout=120, env=None):
    plain = box.run(argv, env=env, timeout=timeout)
    r = hw.record(box, argv, interval=interval, timeout=timeout, env=env or {}, trace=f"{interval}.trace")
    hw.equal(r.target_stdout, plain.stdout, "output")
    hw.equal(r.returncode, plain.returncode, f"exit status: {hw.tail(r.stderr)}")
    t = hw.sound(r.trace)
    d = t.last()
    hw.true(d and d.samples, f"empty profile: {hw.tail(r.stderr)}")
    return r, t, d


def sqlite3(box):
    hw.need("sqlite3")
    sql = ("create table t(a integer primary key, b text);"
           "with recursive n(i) as (select 1 union all select i+1 from n where i<30000)"
           " insert into t select i, hex(i*7919) from n;"
           "create index x on t(b); select count(*), sum(length(b)) from t where b like '%3%';")
    r, t, d = both(box, ["sqlite3", ":memory:", sql])
    complete(d)
    hw.true(share(d, "main", "__libc_start_main", "__libc_start_main_impl") > 0.5, "bytes below main")


def sqlite3_exact(box):
    """Interval 1 and 4096 tell the same story."""
    hw.need("sqlite3")
    sql = "with recursive n(i) as (select 1 union all select i+1 from n where i<50000) select sum(length(hex(i))) from n;"
    _, _, one = both(box, ["sqlite3", ":memory:", sql], interval=1)
    _, _, est = both(box, ["sqlite3", ":memory:", sql], interval=4096)
    a, b = one.total("alloc"), est.total("alloc")
    print(f"  {a} bytes counted, {b} estimated")
    hw.true(abs(b / a - 1) < 0.2, f"estimate {b} of {a}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def redis(box):
    hw.need("redis-server", "redis-benchmark", "redis-cli")
    port = free_port()
    p = box.start([hw.tool("heapwise"), "record", "-o", box.path("redis.trace"), "--", "redis-server", "--port",
                   str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"],
                  stdout=open(box.path("out"), "wb"), stderr=open(box.path("err"), "wb"))
    cli = ["redis-cli", "-p", str(port)]
    hw.wait_for(lambda: box.run([*cli, "ping"]).stdout == b"PONG\n", "redis to answer")
    box.run(["redis-benchmark", "-p", str(port), "-q", "-n", "40000", "-r", "20000", "-d", "200", "-t",
             "set,lpush,hset"], check=0, timeout=120)
    used = int([l for l in box.run([*cli, "info", "memory"]).stdout.decode().split("\r\n")
                if l.startswith("used_memory:")][0].split(":")[1])
    box.run([*cli, "shutdown", "nosave"])
    p.wait(hw.CLOCK)
    hw.equal(p.returncode, 0, hw.tail(open(box.path("err"), "rb").read()))
    t = hw.sound(box.path("redis.trace"))
    d = t.last()
    live = sum(s.alloc - s.freed for s in d.samples)
    print(f"  live {live}, redis says {used}")
    hw.true(0.7 * used < live < 1.3 * used, f"live {live}, redis says {used}")
    complete(d)


def python3(box):
    code = "x=[dict(a=i, b=str(i)*20) for i in range(20000)]; print(len(x))"
    py = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    r, t, d = both(box, [py, "-c", code])
    r2 = hw.record(box, [py, "-c", code], "--python-allocators", trace="p.trace", interval=4096)
    hw.equal(r2.target_stdout, r.target_stdout, "output with --python-allocators")
    d2 = hw.sound(r2.trace).last()
    hw.true(d2.total("alloc") > d.total("alloc"), "--python-allocators shows more")
    complete(d2)


def jq(box):
    hw.need("jq")
    data = box.path("in.json")
    pathlib.Path(data).write_text("[" + ",".join(f'{{"id":{i},"name":"n{i}"}}' for i in range(20000)) + "]")
    r, t, d = both(box, ["jq", "[.[] | select(.id % 3 == 0) | .name] | length", data])
    complete(d)


def gxx(box):
    hw.need("g++")
    src = box.path("a.cc")
    pathlib.Path(src).write_text("#include <map>\n#include <string>\n#include <regex>\n"
                                 "int main(){std::map<std::string,int> m;m[\"a\"]=1;return std::regex_match(\"a\",std::regex(\"a\"))-1;}\n")
    cc1plus = box.run(["g++", "-print-prog-name=cc1plus"]).stdout.decode().strip()
    r, t, d = both(box, [cc1plus, "-quiet", "-O1", src, "-o", box.path("a.s")])
    complete(d)
    # The driver itself: its children are other programs.
    r = hw.record(box, ["g++", "-c", src, "-o", box.path("a.o")], trace="g.trace", interval=4096, timeout=120)
    hw.equal(r.returncode, 0, f"g++ under record: {hw.tail(r.stderr)}")
    hw.true(os.path.exists(box.path("a.o")), "a.o")


def node(box):
    hw.need("node")
    r, t, d = both(box, ["node", "-e", "let a=[];for(let i=0;i<200;i++)a.push(Buffer.alloc(100000,i));"
                         "console.log(a.length, JSON.stringify(a.slice(0,2)).length)"])
    live = sum(s.alloc for s in d.samples)
    hw.true(live > 15e6, f"{live} bytes; 200 buffers of 100,000 were allocated")


def java(box):
    hw.need("java", "javac")
    src = box.dir / "T.java"
    src.write_text("import java.util.zip.*; public class T { public static void main(String[] a) throws Exception {"
                   "byte[] b=new byte[1<<20], o=new byte[1<<20]; long n=0;"
                   "for(int i=0;i<50;i++){Deflater d=new Deflater(); d.setInput(b); d.finish(); n+=d.deflate(o); d.end();}"
                   "System.out.println(n);} }")
    javac(box, src)
    r, t, d = both(box, ["java", "-Xshare:auto", "-Xmx64m", "-cp", box.dir, "T"], timeout=180)
    hw.true(share(d, "deflateInit2_", "deflateInit_", "Java_java_util_zip_Deflater_init") > 0.001,
            "zlib's memory is there")


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in
         ("functions", "share", "complete", "both", "free_port")}

if __name__ == "__main__":
    hw.main(CASES)
