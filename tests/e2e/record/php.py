#!/usr/bin/env python3
"""PHP's functions in native stacks: every stack of a known block is compared, function by function and line by
line, with what the engine itself says of it (debug_backtrace)."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from python import noted, stacks

INTERVAL = 1000  # larger blocks are counted exactly

APP = r'''<?php
namespace App;
$keep = $told = [];
$last = 300000;

function size() { global $last; return $last += 48; }
function where($n) { global $told; $told[] = [$n, debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS)]; }
function leaf() { global $keep; $n = size(); $keep[] = str_repeat("x", $n); where($n); }
function deep($k) { return $k ? deep($k - 1) : leaf(); }

trait Shared { function shared() { leaf(); } }
abstract class Base {
    function __construct() { leaf(); }
    abstract function go();
    static function fixed() { return array_map(function ($x) { leaf(); return $x; }, [1, 2]); }
}
class Thing extends Base implements \Countable, \IteratorAggregate, \JsonSerializable {
    use Shared;
    function __construct() {
        parent::__construct();
        leaf();
    }
    function go() { return fn($x) => leaf(); }
    function __call($name, $args) { leaf(); }
    static function __callStatic($name, $args) { leaf(); }
    function __get($name) { leaf(); return 1; }
    function __destruct() { leaf(); }
    function __toString(): string { leaf(); return "x"; }
    function count(): int { leaf(); return 3; }
    function getIterator(): \Iterator { leaf(); yield 1; leaf(); }
    function jsonSerialize(): mixed { leaf(); return 1; }
    function __invoke($x) { leaf(); }
}

function generator($n)
{
    for ($i = 0; $i < $n; $i++) {
        leaf();
        $got = yield $i;
        if ($got)
            leaf();
    }
    return 5;
}

function fails()
{
    try {
        throw new \Exception("x");
    } catch (\Exception $e) {
        leaf();
    } finally {
        leaf();
    }
}

function thrower($x)
{
    leaf();
    throw new \RuntimeException("through C");
}

function größe_日本() { leaf(); }

function lines()
{
    leaf(
    );
    if (true
        && leaf() === null)
        leaf();
    return [
        1 => leaf(),
        2 =>
            leaf(),
    ];
}

// Functions that come and go at the same addresses.
function made()
{
    for ($i = 0; $i < 100; $i++) {
        $f = eval(str_repeat("\n", $i % 5) . "return function() { \\App\\leaf(); };");
        $f();
        unset($f);
    }
}

function callbacks()
{
    $a = [3, 1, 2];
    usort($a, function ($x, $y) { leaf(); return $x <=> $y; });
    array_walk($a, 'App\deep');
    call_user_func_array([new Thing, 'go'], [])(1);
    preg_replace_callback('/b/', fn($m) => leaf() ?? "c", "ab");
    iterator_apply($it = new \ArrayIterator([1, 2]), fn() => leaf() ?? true);
    try {
        array_map('App\thrower', [1]);
    } catch (\RuntimeException $e) {
        leaf();
    }
    $sorted = new class extends \SplMinHeap { protected function compare($a, $b): int { leaf(); return $a <=> $b; } };
    $sorted->insert(1);
    $sorted->insert(2);
    ob_start(function ($s) { leaf(); return $s; });
    echo "";
    ob_end_flush();
    register_shutdown_function(fn() => null);
}

function all_of_it()
{
    leaf();
    deep(40);
    $t = new Thing;
    $t->shared();
    $t->missing(1);
    Thing::missing(2);
    $t->nothing;
    Thing::fixed();
    ($t->go())(1);
    count($t);
    foreach ($t as $x)
        leaf();
    json_encode($t);
    "$t";
    $t(1);
    unset($t);
    foreach (generator(3) as $x)
        leaf();
    $g = generator(2);
    $g->current();
    $g->send(1);
    fails();
    größe_日本();
    lines();
    made();
    callbacks();
    include __DIR__ . "/loaded.php";
}

if (in_array("wait", $argv)) {
    echo "ready\n";
    for (;;) {
        $r = [STDIN]; $w = $e = null;
        $joins = str_repeat("z", 50000); // it joins at an allocation
        if (stream_select($r, $w, $e, 0, 10000))
            break;
    }
    fgets(STDIN);
}
all_of_it();
file_put_contents(getenv("TOLD"), json_encode($told));
echo "done\n";
if (in_array("wait", $argv))
    fgets(STDIN);
'''

LOADED = "<?php\n\n\\App\\leaf();\nfunction at_load() {\n    \\App\\leaf();\n}\nat_load();\n"


def interpreter():
    found = [p for p in os.environ.get("HW_PHPS", "").split(":") if p] or [shutil.which("php8.2")]
    if not found[0] or os.uname().machine != "x86_64":
        raise hw.Skip("no PHP of 8.2 on x86-64")
    return found[0]


def prepared(box):
    app = box.dir / "app.php"
    app.write_text(APP)
    (box.dir / "loaded.php").write_text(LOADED)
    return app


def by_engine(trace):
    """debug_backtrace() says where each function was called; a frame is where its own code is. Root first."""
    out = []
    for i, called in enumerate(trace):
        if "file" not in called:
            continue  # by a function of C
        inside = trace[i + 1] if i + 1 < len(trace) else {"function": "{main}"}
        name = inside["function"]
        if name in ("include", "eval"):
            name = "{main}"
        elif "class" in inside:
            name = inside["class"] + "::" + name
        out.append((name, called["file"], called["line"]))
    return tuple(reversed(out))


def compare(box, trace, told):
    """Bytes and number of the blocks of each stack of PHP, exactly."""
    want, have = {}, {}
    for n, stack in told:
        row = want.setdefault(by_engine(stack), [0, 0])
        row[0] += n + 25 + 7 & ~7  # a string's head, and a NUL
        row[1] += 1
    for size, n, php, names in stacks(box, trace, "/[php]"):
        if php and php[-1][0] == "App\\leaf" and size // n > 300_000:
            row = have.setdefault(tuple(php), [0, 0])
            row[0] += size
            row[1] += n
    wrong = [(k, v, have.get(k)) for k, v in want.items() if have.get(k) != v]
    other = [k for k in have if k not in want]
    hw.true(not wrong and not other, f"{len(wrong)} of {len(want)} stacks differ, {len(other)} are others; the first:\n  "
            f"{wrong[:1]}\n  {other[:1]}")
    print(f"  {len(told)} blocks, {len(want)} stacks, all as the engine says")


def environment(box):
    return {"TOLD": box.path("told.json"), "USE_ZEND_ALLOC": "0"}


def exact(box):
    r = hw.record(box, [interpreter(), "-n", prepared(box)], env=environment(box), trace="app.trace", timeout=200, interval=INTERVAL)
    hw.true(b"done" in r.target_stdout, f"the program's output: {hw.tail(r.target_stdout)} {hw.tail(r.stderr)}")
    hw.sound(r.trace)
    compare(box, r.trace, json.load(open(box.path("told.json"))))


def attached(box):
    env = environment(box)
    p = box.start([interpreter(), "-n", prepared(box), "wait"], env=env, stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "the program")
    trace = box.path("attached.trace")
    a = box.start([hw.tool("heapwise"), "attach", "-i", str(INTERVAL), "-o", trace, str(p.pid)])
    hw.wait_for(lambda: re.search("memfd:.*ring", pathlib.Path(f"/proc/{p.pid}/maps").read_text()), "the program to join")
    p.stdin.write(b"\n")
    p.stdin.flush()
    hw.equal(p.stdout.readline(), b"done\n", "the program")
    p.stdin.write(b"\n")
    p.stdin.flush()
    p.wait(hw.CLOCK)
    hw.equal(a.wait(hw.CLOCK), 0, "heapwise attach")
    compare(box, trace, json.load(open(env["TOLD"])))


LARGE = """<?php
function load($n) { return str_repeat("x", $n); }
class Cache {
    public $all = [];
    function fill() {
        foreach ([3000000, 4000000] as $n)
            $this->all[] = load($n);
    }
    function small() {
        for ($i = 0; $i < 100000; $i++)
            $this->all[] = "value of some length $i";
    }
}
$c = new Cache;
$c->fill();
$c->small();
echo "done\n";
"""


def chunks(box):
    """With the engine's own heap, as it is: who needed a chunk of it, or a value that is larger than one."""
    (box.dir / "large.php").write_text(LARGE)
    r = hw.record(box, [interpreter(), "-n", "large.php"], trace="large.trace", env={"USE_ZEND_ALLOC": "1"})
    hw.equal(r.target_stdout, b"done\n", hw.tail(r.stderr))
    hw.true(b"in chunks of 2 MiB from mmap" in b" ".join(r.stderr.split()), f"the report: {r.stderr}")
    found = {}
    for size, n, php, _ in stacks(box, r.trace, "/[php]"):
        site = tuple((name, line) for name, _, line in php)
        found[site] = found.get(site, 0) + size
    fill = found.get((("{main}", 15), ("Cache::fill", 7), ("load", 2)), 0)
    small = sum(size for site, size in found.items() if site[-1:] and site[-1][0] == "Cache::small")
    hw.true(7_000_000 <= fill < 20_000_000, f"fill: {fill} of {found}")  # some are mapped again, larger, to be aligned
    hw.true(small >= 3 * 2097152, f"small: {small} of {found}")


def switched_off(box):
    r = hw.record(box, [interpreter(), "-n", prepared(box)], "--no-managed-frames", env=environment(box), interval=INTERVAL)
    hw.true(not any(php for _, _, php, _ in stacks(box, r.trace, "/[php]")), "no PHP frames")


# What a file can say, by a program of that name. 20991231: a version that nobody knows. 20220829: that of a row, but
# whatever else is read is not PHP's: random words, the program's own, and pages that cannot be read.
FAKE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
uint64_t executor_globals[225];
static const char id[] = "\0API" API ",NTS";
const char *volatile the_id = id;
__attribute__((noinline)) void *execute_ex(size_t n)
{
    void *volatile p = malloc(n);
    return p;
}
static uint64_t words[4096];
static uint64_t next(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}
int main(void)
{
    char *closed = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (closed == MAP_FAILED || mprotect(closed + 4096, 4096, PROT_NONE))
        return 1;
    for (int i = 0; i < 3000; i++) {
        uint64_t seen[] = {0, 2, 8, 0x20006, UINT64_MAX, (uintptr_t)closed + 4088, (uintptr_t)closed + 4096, (uintptr_t)&words,
                           (uintptr_t)words + next() % sizeof words / 8 * 8, (uintptr_t)words + next() % sizeof words, next()};
        for (int k = 0; k < 4096; k++)
            words[k] = seen[next() % (i % 3 ? 9 : 11)];
        uint64_t *frame = words + 64, *function = words + 512;
        executor_globals[61] = i % 4 ? (uintptr_t)frame : seen[next() % 11];
        if (i % 4) { /* a function's frame, and from there on anything */
            frame[3] = (uintptr_t)function;
            frame[5] = 0x20000;
            function[0] = 2;
        }
        free(execute_ex(5000 + i));
    }
    puts("done");
    return 0;
}
"""


def fake(box, api):
    interpreter()
    hw.need("cc")
    (box.dir / "fake.c").write_text(FAKE)
    os.makedirs(box.dir / str(api))
    exe = box.path(f"{api}/php")
    box.run(["cc", "-O1", "-fno-optimize-sibling-calls", f'-DAPI="{api}"', "-rdynamic", "-o", exe, box.dir / "fake.c"], check=0)
    r = hw.record(box, [exe], trace=f"{api}.trace", interval=1)
    hw.equal(r.target_stdout, b"done\n", f"output; {r.stderr}")
    return r


def other(box):
    """A PHP of another version: said while recording, and later by what reads the trace."""
    r = fake(box, 20991231)
    hw.true(b"this PHP show only the engine" in r.stderr, hw.tail(r.stderr))
    noted(box, r.trace, b"this PHP show only the engine")


def lying(box):
    """A file that says 8.2 and a memory that is not: nothing is read that cannot be."""
    r = fake(box, 20220829)
    noted(box, r.trace, b"samples of PHP show the interpreter's own functions only")


CASES = {"exact": exact, "attached": attached, "chunks": chunks, "switched-off": switched_off, "other-version": other, "lying": lying}

if __name__ == "__main__":
    hw.main(CASES)
