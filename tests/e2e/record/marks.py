#!/usr/bin/env python3
"""What a program says of its allocations: scopes and types, exact, in the JSON that others read."""
import collections
import csv
import gzip
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

ROUNDS = 30
# tests/targets/runtime/marks.c: scopes, type -> count, bytes; of one round
DOCUMENT = {
    (("Document", "Parser", "ParseAuthorStyleSheet"), "StringImpl"): (3, 300),
    (("Document", "Parser", "ParseAuthorStyleSheet"), "Node"): (2, 128),
    (("Document", "Parser", "ParseHTML"), "Node"): (5, 320),
    (("Document", "Parser", "ParseHTML"), "[unknown]"): (1, 48),
    (("Document",) + ("Layout",) * 1, "LayoutBox"): (1, 80),
    (("Document",) + ("Layout",) * 2, "LayoutBox"): (1, 80),
    (("Document",) + ("Layout",) * 3, "LayoutBox"): (1, 80),
    (("Document",) + ("Layout",) * 4, "LayoutBox"): (1, 80),
}
SCOPES = {name for scopes, _ in DOCUMENT for name in scopes} | {"Worker", "Level", "Lost"}


def rows(path):
    """heaps_v2 of the last dump, maps of all: [(stack, type, count, size)], root first."""
    data = open(path, "rb").read()
    trace = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    strings, nodes, types, last = {}, {}, {}, None
    for e in trace["traceEvents"]:
        heaps = e["ph"] == "v" and e["args"]["dumps"].get("heaps_v2")
        if heaps:
            strings.update((s["id"], s["string"]) for s in heaps["maps"]["strings"])
            nodes.update((n["id"], (n["name_sid"], n.get("parent"))) for n in heaps["maps"]["nodes"])
            types.update((t["id"], t["name_sid"]) for t in heaps["maps"]["types"])
            last = heaps["allocators"]["malloc"]

    def stack(n):
        found = []
        while n is not None:
            found.append(strings[nodes[n][0]])
            n = nodes[n][1]
        return tuple(reversed(found))
    return [(stack(n), strings[types[t]], c, s)
            for n, t, c, s in zip(last["nodes"], last["types"], last["counts"], last["sizes"])]


def record(box, *options, program="marks", args=(str(ROUNDS),), name="dump.json"):
    r = box.run([hw.tool("heapwise"), "record", "-i", "1", "-f", "-o", box.path("t.trace"), "--memory-infra",
                 box.path(name), *options, "--", program if "/" in str(program) else hw.target(program), *args],
                check=0)
    return rows(box.path(name)), r


def by_scopes(found):
    sums = collections.defaultdict(lambda: (0, 0))
    for stack, kind, count, size in found:
        key = tuple(f for f in stack if f in SCOPES), kind
        sums[key] = sums[key][0] + count, sums[key][1] + size
    return {k: v for k, v in sums.items() if k[0]}


def wanted(keep=lambda name: True):
    sums = collections.defaultdict(lambda: (0, 0))
    for (scopes, kind), (count, size) in DOCUMENT.items():
        key = tuple(s for s in scopes if keep(s)), kind
        sums[key] = sums[key][0] + count * ROUNDS, sums[key][1] + size * ROUNDS
    return {k: v for k, v in sums.items() if k[0]}


def total(found):
    return sum(r[2] for r in found), sum(r[3] for r in found)


def pseudo(box):
    """Thread, scopes and types, and nothing native."""
    found, _ = record(box, "--stack-mode", "pseudo")
    got = by_scopes(found)
    for key in [k for k in got if k[0][0] in ("Worker", "Lost")]:  # little of them is above the threshold
        got.pop(key)
    hw.equal(got, wanted(), "scopes and types")
    roots = {stack[0] for stack, _, _, _ in found}
    hw.true(all(r.startswith("[Thread: ") or r == "<other>" for r in roots), roots)
    frames = {f for stack, _, _, _ in found for f in stack[1:]}
    hw.true(frames <= SCOPES | {"<other>"}, frames)
    hw.equal([stack[1:] for stack, kind, _, _ in found if kind == "Fresh"], [()], "scopes of a thread that ended")


def mixed(box):
    """Each scope directly inside the function that began it; native frames as without scopes."""
    found, _ = record(box)
    hw.equal({k: v for k, v in by_scopes(found).items() if k[0][0] == "Document"}, wanted(), "scopes and types")
    inside = {"Document": "document", "Parser": "parse", "ParseAuthorStyleSheet": "parse_sheet",
              "ParseHTML": "parse_html", "Layout": "layout"}
    for stack, _, _, _ in found:
        for i, f in enumerate(stack):
            if f in inside:
                hw.equal(stack[i - 1], inside[f], f"what {f} is in: {stack}")
    native, _ = record(box, "--stack-mode", "native", name="native.json")
    hw.equal(total(found), total(native), "sum")
    bare = collections.Counter()
    for stack, kind, count, _ in (r for r in found if "document" in r[0]):  # the rest has <other> elsewhere
        bare[tuple(f for f in stack if f not in SCOPES), kind] += count
    hw.equal(bare, collections.Counter({(s, k): c for s, k, c, _ in native if "document" in s}), "native frames")


LIBRARY = """
#include <heapwise/heap_profile.h>
#include <stdlib.h>
void *plug(void) { HEAPWISE_TRACE_EVENT("lib", "Plugin"); return HEAPWISE_TYPED(PlugType, malloc(7000)); }
"""
LOADER = r"""
#include <dlfcn.h>
#include <heapwise/heap_profile.h>
#include <stdio.h>
#include <stdlib.h>
void *volatile keep[100];
int main(int argc, char **argv)
{
    int n = 0 * argc;
    keep[n++] = malloc(10);
    void *(*plug)(void) = (void *(*)(void))dlsym(dlopen(argv[1], RTLD_NOW), "plug");
    HEAPWISE_TRACE_EVENT("m", "Main");
    keep[n++] = plug();
    keep[n++] = HEAPWISE_TYPED(Mine, malloc(8000));
    return 0;
}
"""


def found_by_notes(box):
    """Stripped, at fixed addresses, and in a library loaded later."""
    hw.need("gcc", "strip")
    lib, exe = box.path("lib.so"), box.path("a.out")
    pathlib.Path(box.path("lib.c")).write_text(LIBRARY)
    pathlib.Path(box.path("a.c")).write_text(LOADER)
    inc = str(hw.ROOT / "include")
    box.run(["gcc", "-O2", "-fPIC", "-shared", "-I", inc, "-o", lib, box.path("lib.c")], check=0)
    want = {("Main", "Plugin", "PlugType", 7000), ("Main", "Mine", 8000)}

    def got(found):
        return {stack[1:] + (kind, size) for stack, kind, _, size in found if kind != "[unknown]"}
    for how in ("-pie", "-no-pie"):
        box.run(["gcc", "-O2", "-fPIE" if how == "-pie" else "-fno-pie", how, "-I", inc, "-o", exe, box.path("a.c"), "-ldl"],
                check=0)
        box.run(["strip", exe, lib], check=0)
        hw.equal(got(record(box, "--stack-mode", "pseudo", program=exe, args=(lib,))[0]), want, how)


def categories(box):
    found, _ = record(box, "--stack-mode", "pseudo", "--scopes", "pag*,layout")
    hw.equal({k for k in by_scopes(found) if not {"Worker", "Lost"} & set(k[0])},
             set(wanted(lambda s: s in ("Document", "Layout"))), "scopes of two categories")


def off(box):
    """Without being asked for there are neither, and the stacks are those of the functions."""
    box.run([hw.tool("heapwise"), "record", "-i", "1", "-f", "-o", box.path("t.trace"), "--", hw.target("marks")],
            check=0)
    r = box.run([hw.tool("heapwise"), "query", box.path("t.trace"),
                 "select count(*) from stack_profile_frame where name in ('Document', 'Node')"], check=0)
    hw.true(b"0" in r.stdout.split(), r.stdout)
    hw.equal(box.run([hw.target("marks")], check=0).stdout, b"kept 19\n", "without us")


def gz_and_types(box):
    """Packed, and the types' bytes, in either order, as `heapwise infra` shows them."""
    found, _ = record(box, name="dump.json.gz")
    kinds = collections.Counter()
    for _, kind, _, size in found:
        kinds[kind] += size
    r = box.run([hw.tool("heapwise"), "infra", box.path("dump.json.gz"), "--heap", "malloc", "--by",
                 "type"], check=0)
    shown = {w[-1]: int(w[0]) for w in (line.split() for line in r.stdout.decode().splitlines()[1:])
             if w[-1] in kinds}
    hw.equal(shown, dict(kinds), "types")
    hw.equal((kinds["Node"], kinds["StringImpl"], kinds["LayoutBox"]),
             (7 * 64 * ROUNDS + 64, 300 * ROUNDS, 320 * ROUNDS), "bytes of each type")


CPP = r"""
#include <cstdlib>
#include <string>
#include <vector>
#include "heapwise/heap_profile.h"
struct Sheet { HEAPWISE_TYPED_NEW(Sheet) char bytes[2000]; };
template <class A, class B> struct Pair { A a; B b; char bytes[3000]; };
void *volatile keep[64]; int n;
static void thrown() {
    try { HEAPWISE_TRACE_EVENT("cc", "Thrown"); throw 1; } catch (int) {}
}
int main() {
    HEAPWISE_TRACE_EVENT("cc", "Main");
    thrown();
    for (int i = 0; i < 4; i++) keep[n++] = new Sheet;
    auto *v = new std::vector<Pair<int, char>, heapwise::typed_allocator<Pair<int, char>>>(1);
    keep[n++] = v;
    keep[n++] = HEAPWISE_TYPED(Raw, malloc(5000));
    keep[n++] = HEAPWISE_TYPED(Other, malloc(6000));
    return 0;
}
"""


def cpp(box):
    """C++11 with both compilers: RAII, exceptions, names by the compiler; a list of types to keep."""
    src = pathlib.Path(box.path("a.cc"))
    src.write_text(CPP)
    for compiler in ("g++", "clang++"):
        hw.need(compiler)
        for std, extra in (("c++11", ()), ("c++17", ('-DHEAPWISE_TYPES="Raw,Sheet"',))):
            box.run([compiler, f"-std={std}", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-no-pie" if extra else "-fPIE",
                     *extra, "-I", str(hw.ROOT / "include"), "-o", box.path("a.out"), str(src)], check=0)
            found, _ = record(box, "--stack-mode", "pseudo", program=box.path("a.out"), args=())
            got = {(kind, count, size) for stack, kind, count, size in found if kind != "[unknown]"}
            pair = {x for x in got if x[0].startswith("Pair<int, char>") or x[0].startswith("Pair<int,char>")}
            hw.true(len(pair) == 1 and list(pair)[0][1:] == (1, 3008), f"{compiler} {std}: {got}")
            want = {("Sheet", 4, 8000), ("Raw", 1, 5000)} | (set() if extra else {("Other", 1, 6000)})
            hw.equal(got - pair, want, f"{compiler} {std}")
            hw.true(all("Thrown" not in stack for stack, *_ in found), "a scope left by an exception has ended")


def c99(box):
    """The header alone, as old and as strict as promised, linked with nothing."""
    src = pathlib.Path(box.path("a.c"))
    src.write_text('#include "heapwise/heap_profile.h"\n#include <stdlib.h>\n'
                   'int main(void) { HEAPWISE_TRACE_EVENT("a", "b"); HEAPWISE_TYPE_SCOPE("T");\n'
                   'void *p = HEAPWISE_TYPED(struct s, malloc(10)); free(p); return 0; }\n')
    for compiler in ("gcc", "clang"):
        for options in (["-O2"], ["-O0", "-static"], ["-DHEAPWISE_NO_MARKS"], ["-DHEAPWISE_NO_TYPES"]):
            box.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", *options, "-I",
                     str(hw.ROOT / "include"), "-o", box.path("a.out"), str(src)], check=0)
            box.run([box.path("a.out")], check=0)


NESTED = """#include <stdlib.h>
#include "heapwise/heap_profile.h"
static void *kept[8];
static int n;
__attribute__((noinline)) static void down(int depth)
{
    HEAPWISE_TRACE_EVENT("deep", "Inner");
    if (depth > 1)
        down(depth - 1);
    else
        kept[n++] = malloc(7000);
}
int main(void)
{
    HEAPWISE_TYPE_SCOPE("Around");
    kept[n++] = malloc(300);
    {
        HEAPWISE_TYPE_SCOPE("Inside");
        kept[n++] = malloc(400);
        kept[n++] = HEAPWISE_TYPED(Itself, malloc(500));
        kept[n++] = malloc(400);
    }
    kept[n++] = malloc(300);
    HEAPWISE_TRACE_EVENT("deep", "Outer");
    down(200);
    return kept[n - 1] == NULL;
}
"""


def nested(box):
    """The innermost type counts; of more scopes than are kept, the outermost ones stay."""
    hw.need("gcc")
    pathlib.Path(box.path("a.c")).write_text(NESTED)
    box.run(["gcc", "-O1", "-I", str(hw.ROOT / "include"), "-o", box.path("a.out"), box.path("a.c")], check=0)
    found, _ = record(box, "--stack-mode", "pseudo", program=box.path("a.out"), args=())
    hw.equal(sorted((kind, count, size) for path, kind, count, size in found if "Outer" not in path),
             [("Around", 2, 600), ("Inside", 2, 800), ("Itself", 1, 500)], "types")
    (path, kind, count, size), = [row for row in found if "Outer" in row[0]]
    hw.equal((path[1:], kind, count, size), (("Outer",) + ("Inner",) * 127, "Around", 1, 7000), "scopes")


def query(box, trace, sql):
    r = box.run([hw.tool("heapwise"), "query", trace, sql], check=0)
    value = lambda cell: None if cell == "[NULL]" else int(cell) if cell.lstrip("-").isdigit() else cell
    return [tuple(map(value, row)) for row in list(csv.reader(r.stdout.decode().splitlines()))[1:]]


SLICES = """select s.name, s.category, (select name from slice p where p.id = s.parent_id), t.name, count(*), min(s.dur)
  from slice s join thread_track k on k.id = s.track_id join thread t using (utid) group by 1, 2, 3, 4"""


def slices(box):
    """Scopes as slices: every one, in its thread and inside the one around it."""
    trace = box.path("t.trace")
    box.run([hw.tool("heapwise"), "record", "-q", "-f", "-o", trace, "--slices", "--", hw.target("marks"), str(ROUNDS)], check=0)
    rows = {(name, category, parent, thread): (n, shortest) for name, category, parent, thread, n, shortest in query(box, trace, SLICES)}
    want = {("Document", "page", None): 1, ("Parser", "parser", "Document"): 1, ("ParseAuthorStyleSheet", "parser", "Parser"): 1,
            ("ParseHTML", "parser", "Parser"): 1, ("Layout", "layout", "Document"): 1, ("Layout", "layout", "Layout"): 3,
            ("Level", "deep", None): 1, ("Level", "deep", "Level"): 300}
    want = {k + ("t_marks",): n * ROUNDS for k, n in want.items()}
    want.update({("Lost", "page", None, "t_marks"): 1, ("Worker", "page", None, "t_marks"): 1})
    hw.equal({k: n for k, (n, _) in rows.items()}, want, "scopes")
    hw.equal({k[0] for k, (_, shortest) in rows.items() if shortest < 0}, {"Lost"}, "scopes that did not end")
    hw.equal(query(box, trace, "select count(distinct utid) from thread_track"), [(3,)], "threads")
    # A scope lies inside of the one around it, and one after the other.
    hw.equal(query(box, trace, """select count(*) from slice s join slice p on p.id = s.parent_id
      where s.ts < p.ts or (p.dur >= 0 and s.ts + s.dur > p.ts + p.dur) or s.depth != p.depth + 1"""), [(0,)], "not inside")
    hw.equal(query(box, trace, "select count(*) from stats where value and (name like '%slice%' or name like 'misplaced%')"), [(0,)], "losses")
    box.run([hw.tool("heapwise"), "record", "-q", "-f", "-o", trace, "--slices", "--scopes", "lay*", "--", hw.target("marks")], check=0)
    hw.equal(query(box, trace, "select name, depth, count(*) from slice group by 1, 2"), [("Layout", d, 1) for d in range(4)], "one category")
    r = box.run([hw.tool("heapwise"), "query", trace, "select count(*) from stack_profile_frame where name = 'Layout'"], check=0)
    hw.true(b"\n0\n" in r.stdout, "slices alone change no stack")


JUMP = r"""
#include <heapwise/heap_profile.h>
#include <setjmp.h>
#include <stdlib.h>
static jmp_buf out;
static void inner(void) { HEAPWISE_TRACE_EVENT("j", "B"); longjmp(out, 1); }
static void after(void) { HEAPWISE_TRACE_EVENT("j", "C"); free(malloc(10)); }
static void outer(void) { HEAPWISE_TRACE_EVENT("j", "A"); if (!setjmp(out)) inner(); after(); }
int main(int argc, char **argv)
{
    void *volatile first = malloc(100);
    free(first);
    outer();
    outer();
    for (int n = argc > 1 ? atoi(argv[1]) : 0; n > 0; n--) { HEAPWISE_TRACE_EVENT("many", "Short"); }
    return 0;
}
"""


def slices_lost(box):
    """A scope left by longjmp ends with the one around it; far too many of them: each one is there, or counted."""
    hw.need("gcc")
    src, exe, trace = box.path("a.c"), box.path("a.out"), box.path("t.trace")
    pathlib.Path(src).write_text(JUMP)
    box.run(["gcc", "-O2", "-I", str(hw.ROOT / "include"), "-o", exe, src], check=0)
    n = 400000
    box.run([hw.tool("heapwise"), "record", "-q", "-f", "-i", "1", "-o", trace, "--shmem-size", "64K", "--slices", "--", exe, str(n)], check=0)
    hw.equal(query(box, trace, "select name, depth, count(*), min(dur) >= 0 from slice where category = 'j' group by 1"),
             [("A", 0, 2, 1), ("B", 1, 2, 1), ("C", 2, 2, 1)], "left by longjmp: it lasts until the scope around it ends")
    there = query(box, trace, "select count(*) from slice where name = 'Short'")[0][0]
    lost = query(box, trace, "select coalesce(sum(value), 0) from stats where name = 'heapprofd_lost_slices'")[0][0]
    hw.true(there < n, f"all {n} fitted into 64 KiB?")
    hw.true(n <= there + lost <= n + there, f"{there} there, {lost} lost, of {n}")
    hw.equal(query(box, trace, "select count(*) from slice where name = 'Short' and depth > 0"), [(0,)], "an end that was lost is made up for")
    hw.true(query(box, trace, "select count(*) from slice where dur < 0")[0][0] <= 1, "only the last one's end can be missing")
    hw.equal(query(box, trace, "select count(*) from stats where value and name in ('misplaced_end_event', 'heapprofd_buffer_overran')"), [(0,)],
             "ends without beginning, or samples that had to wait for slices")


REST = r"""
#include <heapwise/heap_profile.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static sem_t begun;
static void *sleeps(void *arg)
{
    HEAPWISE_TRACE_EVENT("r", "Asleep");
    { HEAPWISE_TRACE_EVENT("r", "Short"); }
    sem_post(&begun);
    pause();
    return arg;
}
static void *ends(void *arg)
{
    HEAPWISE_TRACE_EVENT("r", "Ended");
    return arg;
}
int main(void)
{
    pthread_t a, b;
    void *volatile first = malloc(100);
    free(first);
    pthread_create(&a, NULL, sleeps, NULL);
    pthread_create(&b, NULL, ends, NULL);
    pthread_join(b, NULL);
    while (sem_wait(&begun) != 0)
        ;
    puts("ready");
    fflush(stdout);
    pause();
}
"""


def slices_of_sleepers(box):
    """What a thread has begun is in the file, also when it never runs again: at a dump, and when the program is killed."""
    hw.need("gcc")
    src, exe, trace = box.path("a.c"), box.path("a.out"), box.path("t.trace")
    pathlib.Path(src).write_text(REST)
    box.run(["gcc", "-O2", "-pthread", "-I", str(hw.ROOT / "include"), "-o", exe, src], check=0)
    p = box.start([hw.tool("heapwise"), "record", "-q", "-f", "-i", "1", "-c", "200ms", "-o", trace, "--slices", "--", exe])
    hw.equal(p.stdout.readline(), b"ready\n", "the program")
    children = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children")
    pid = next(int(c) for c in children.read_text().split()
               if os.path.realpath(f"/proc/{c}/exe") == os.path.realpath(exe))
    seen = "select name, count(*), min(dur) >= 0, max(depth) from slice group by 1"
    time.sleep(0.7)  # what is tested: some dumps, each of which reads what has not been sent
    os.kill(pid, 9)
    p.communicate(timeout=hw.CLOCK)
    hw.equal(query(box, trace, seen), [("Asleep", 1, 0, 0), ("Ended", 1, 1, 0), ("Short", 1, 1, 1)], "slices: once each")
    hw.equal(query(box, trace, "select count(*) from stats where value and name like '%slice%'"), [(0,)], "losses")


FORKS = r"""
#include <heapwise/heap_profile.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile block;
static void some(const char *name, int n)
{
    for (; n > 0; n--) {
        if (*name == 'P') { HEAPWISE_TRACE_EVENT("f", "Parent"); free(block = malloc(10)); }
        else { HEAPWISE_TRACE_EVENT("f", "Child"); free(block = malloc(10)); }
    }
}
int main(void)
{
    free(block = malloc(100));
    some("P", 5);
    pid_t pid = fork();
    if (pid == 0) {
        free(block = malloc(100)); /* the child joins the session */
        some("C", 7);
        return 0;
    }
    waitpid(pid, NULL, 0);
    some("P", 5);
    printf("%d\n", (int)pid);
}
"""


def slices_of_a_child(box):
    """A forked child's scopes are its own: in its process and its thread, none of them in what the parent has not sent yet."""
    hw.need("gcc")
    src, exe = box.path("a.c"), box.path("a.out")
    pathlib.Path(src).write_text(FORKS)
    box.run(["gcc", "-O2", "-I", str(hw.ROOT / "include"), "-o", exe, src], check=0)
    r = hw.record(box, [exe], "-q", "--follow-fork", "--slices")
    child = int(r.target_stdout)
    hw.equal(query(box, r.trace, f"""select s.name, p.pid = {child}, t.tid = {child}, count(*), min(s.dur) >= 0 from slice s
             join thread_track k on k.id = s.track_id join thread t using (utid) join process p using (upid) group by 1, 2, 3 order by 1"""),
             [("Child", 1, 1, 7, 1), ("Parent", 0, 0, 10, 1)], "scopes")


NEW = r"""
#include <map>
#include <memory>
#include <string>
#include <vector>
namespace app {
struct Node { explicit Node(int v); int v; char bytes[1060]; };
__attribute__((noinline)) Node::Node(int x) : v(x) {}
template <class T> struct Box { explicit Box(T x) : v(x), bytes() {} T v; char bytes[2000]; };
}
struct Small { explicit Small(int x) : v(x), w() {} int v; long w[150]; };
struct Pod { char bytes[1300]; };
struct Base { virtual ~Base() {} int x = 1; };
struct Derived : Base { explicit Derived(int z) : y(z), bytes() {} int y; char bytes[1400]; };
struct Text { explicit Text(const std::string &s) : n(s.size()), bytes() {} size_t n; char bytes[1500]; }; // of an argument that is made first
struct TwinA { explicit TwinA(int x); int v; char bytes[1596]; };
struct TwinB { explicit TwinB(const TwinA &a); int v; char bytes[1596]; };
__attribute__((noinline)) TwinA::TwinA(int x) : v(x), bytes() {}
__attribute__((noinline)) TwinB::TwinB(const TwinA &a) : v(a.v), bytes() {}
void *volatile keep[100];
int n;
int main(int argc, char **)
{
    for (int i = 0; i < 3; i++)
        keep[n++] = new app::Node(argc);
    keep[n++] = new app::Box<double>(argc);
    keep[n++] = new Small(argc);
    keep[n++] = new Pod;
    keep[n++] = new Derived(argc);
    keep[n++] = new Text(std::string("short"));
    keep[n++] = new TwinB(TwinA(argc));
    keep[n++] = std::make_unique<Small>(argc).release();
    auto *v = new std::vector<Pod>;
    v->reserve(3);
    keep[n++] = v;
    auto *m = new std::map<int, Small>;
    m->emplace(1, argc);
    keep[n++] = m;
    return 0;
}
"""


def new_types(box):
    """Types of plain C++, by debug info, with both compilers; those that cannot be told are not guessed."""
    src = pathlib.Path(box.path("a.cc"))
    src.write_text(NEW)
    told = {"app::Node": (3, 3192), "Derived": (1, 1416), "Small": (2, 2416), "Text": (1, 1512), "Pod": (1, 3900),
            "app::Box<double>": (1, 2008)}
    for compiler in ("g++", "clang++"):
        hw.need(compiler)
        for optimize in ("-O0", "-O2"):
            box.run([compiler, "-std=c++17", "-g", optimize, "-o", box.path("a.out"), str(src)], check=0)
            found, _ = record(box, program=box.path("a.out"), args=())
            got = {kind: (count, size) for kind, count, size in
                   ((k, sum(r[2] for r in found if r[1] == k), sum(r[3] for r in found if r[1] == k)) for k in {r[1] for r in found})}
            rest = got.pop("[unknown]", (0, 0))
            node = [k for k in got if "Rb_tree_node" in k or "__tree_node" in k]
            for k in [k for k in got if k.startswith(("std::vector<", "std::map<"))]:
                hw.equal(got.pop(k)[0], 1, k)  # the containers themselves
            hw.equal([got.pop(k)[0] for k in node], [1], f"{compiler} {optimize}: node of a map: {got}")
            for wrong in set(got) - set(told) - {"<other>"}:
                hw.true(False, f"{compiler} {optimize}: {wrong} {got[wrong]}")
            for kind in set(got) & set(told):
                hw.equal(got[kind], told[kind], f"{compiler} {optimize}: {kind}")
            missing = set(told) - set(got)
            # Where nothing of a constructor is left in the debug info nothing is said.
            hw.true(optimize == "-O2" or not missing, f"{compiler} {optimize}: {missing} not found")
            hw.true({"app::Node", "Pod"} <= set(got), f"{compiler} {optimize}: {sorted(got)}")
            hw.true(rest[1] >= 1300 + 1600, f"{compiler} {optimize}: {rest}")
            print(f"  {compiler} {optimize}: {len(got)} of {len(told)} types, missing {sorted(missing)}")


# What LLVM from 21 on writes at call sites, which the compilers here are too old for.
SITE = """
  .text
  .globl main
  .type main, @function
main:
.Lbegin:
  .cfi_startproc
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  mov $4000, %edi
  call _Znwm@PLT
.Lreturn:
  mov %rax, keep(%rip)
  xor %eax, %eax
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
.Lend:
  .size main, . - main
  .local keep
  .comm keep, 8, 8
  .section .debug_abbrev, "", @progbits
  .uleb128 1; .uleb128 0x11; .byte 1                   /* unit: name, low, high */
  .uleb128 3; .uleb128 8; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .byte 0, 0
  .uleb128 2; .uleb128 0x2e; .byte 1                   /* function: the same */
  .uleb128 3; .uleb128 8; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .byte 0, 0
  .uleb128 3; .uleb128 0x48; .byte 0                   /* call site: return address, type */
  .uleb128 0x7d; .uleb128 1; .uleb128 0x3e0e; .uleb128 0x13; .byte 0, 0
  .uleb128 4; .uleb128 0x39; .byte 1                   /* namespace: name */
  .uleb128 3; .uleb128 8; .byte 0, 0
  .uleb128 5; .uleb128 0x16; .byte 0                   /* typedef: name */
  .uleb128 3; .uleb128 8; .byte 0, 0
  .byte 0
  .section .debug_info, "", @progbits
.Linfo:
  .long .Lend_info - .Lstart_info
.Lstart_info:
  .short 4
  .long 0
  .byte 8
  .uleb128 1; .asciz "site.cc"; .quad .Lbegin; .long .Lend - .Lbegin
  .uleb128 2; .asciz "main"; .quad .Lbegin; .long .Lend - .Lbegin
  .uleb128 3; .quad .Lreturn; .long .Ltype - .Linfo
  .byte 0
  .uleb128 4; .asciz "app"
.Ltype:
  .uleb128 5; .asciz "Told"
  .byte 0, 0
.Lend_info:
  .section .note.GNU-stack, "", @progbits
"""


def new_types_by_site(box):
    """The compiler's own word for what a call of operator new allocates."""
    hw.need("g++")
    pathlib.Path(box.path("a.s")).write_text(SITE)
    box.run(["g++", "-o", box.path("a.out"), box.path("a.s")], check=0)
    found, _ = record(box, program=box.path("a.out"), args=())
    hw.equal([(kind, count, size) for _, kind, count, size in found if kind != "[unknown]"], [("app::Told", 1, 4000)], "types")


def wrong(box):
    r = box.run([hw.tool("heapwise"), "record", "--stack-mode", "both", "--", "true"])
    hw.true(r.returncode != 0 and b"native-with-thread-names" in r.stderr, r.stderr)
    box.run([hw.tool("heapwise"), "record", "--memory-infra", box.path("empty.json"), "-o", box.path("empty"), "--", "true"], check=0)
    with open(box.path("empty.json")) as f:  # an empty profile is written, too
        hw.true("traceEvents" in json.load(f), "the members of an empty profile's file")
    r = box.run([hw.tool("heapwise"), "record", "--memory-infra", "/nowhere/x", "-o", box.path("t"), "--",
                 hw.target("marks")])
    hw.true(r.returncode != 0 and b"/nowhere/x" in r.stderr, r.stderr)


CASES = {k.replace("_", "-"): v for k, v in list(globals().items())
         if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in
         ("rows", "record", "by_scopes", "wanted", "total", "query")}

if __name__ == "__main__":
    hw.main(CASES)
