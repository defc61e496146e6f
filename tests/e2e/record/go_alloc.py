#!/usr/bin/env python3
"""Go's own samples of its allocations as the heap go.alloc: compared, stack by stack, with the profile that the same
program writes (runtime/pprof) when it changes nothing any more."""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

# Small and large objects, an inlined function, a deep stack, a map; a third of the large ones is freed.
PROGRAM = r"""
package main

CGO
import (
	"fmt"
	"os"
	"runtime"
	PPROF
	"strconv"
)

type node struct {
	next *node
	b    [40]byte
}

var keep [][]byte
var list *node
var m = map[string]int{}

func small(n int) {
	for i := 0; i < n; i++ {
		list = &node{next: list}
	}
}

func grow(n int) []byte { return inlined(n) }

func inlined(n int) []byte { return make([]byte, n) }

func deep(n int) {
	if n > 0 {
		deep(n - 1)
		return
	}
	keep = append(keep, make([]byte, 1<<20))
}

func main() {
	if len(os.Args) > 2 {
		runtime.MemProfileRate, _ = strconv.Atoi(os.Args[2])
	}
	small(100000)
	for i := 0; i < 300; i++ {
		keep = append(keep, grow(100000+i))
	}
	for i := 0; i < 20000; i++ {
		m["key"+strconv.Itoa(i)] = i
	}
	deep(50)
	for i := range keep {
		if i%3 == 0 {
			keep[i] = nil
		}
	}
	runtime.GC()
	f, _ := os.Create(os.Args[1])
	WRITE
	f.Close()
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
}
"""


# What is in memory goes up and down.
GIVES_BACK = r"""
package main

CGO
import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	PPROF
	"time"
)

type builder struct{ keep [][]byte }

func (b *builder) grow(n int) {
	for i := 0; i < n; i++ {
		b.keep = append(b.keep, make([]byte, 1<<20))
		for k := range b.keep[i] {
			b.keep[i][k] = 1
		}
	}
}

func work() {
	b := &builder{}
	for {
		b.grow(10)
		time.Sleep(150 * time.Millisecond)
		b.keep = nil
		debug.FreeOSMemory()
		time.Sleep(150 * time.Millisecond)
	}
}

func main() {
	forever := &builder{}
	forever.grow(5)
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	go work()
	f, _ := os.Create(os.Args[1])
	WRITE
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	f.Close()
	runtime.KeepAlive(forever)
}
"""


def build(box, name, *options, cgo=False, profiles=True, program=PROGRAM):
    hw.need("go", *(["cc"] if cgo else []))
    text = program.replace("CGO", 'import "C"' if cgo else "").replace("PPROF", '"runtime/pprof"' if profiles else "")
    with open(box.path(name + ".go"), "w") as f:
        f.write(text.replace("WRITE", 'pprof.Lookup("heap").WriteTo(f, 0)' if profiles else ""))
    env = {"GO111MODULE": "off", "GOFLAGS": "", "GOCACHE": box.path("cache"), "CGO_ENABLED": "1" if cgo else "0"}
    r = box.run(["go", "build", *options, "-o", box.path(name), box.path(name + ".go")], check=None, env=env, timeout=4 * hw.CLOCK)
    if r.returncode:
        raise hw.Skip(f"go cannot build: {hw.tail(r.stderr)}")
    return box.path(name)


def samples(box, path):
    """Go's pprof -raw, by stack: objects and bytes that were allocated, and those in use."""
    raw = box.run(["go", "tool", "pprof", "-raw", path], check=0).stdout.decode()
    head, rest = raw.split("Samples:\n", 1)
    told, rest = rest.split("Locations\n", 1)
    places, at = {}, None
    for line in rest.split("Mappings\n")[0].splitlines():
        new = re.match(r"\s+(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(.*)$", line)
        at = new[1] if new else at
        frame = re.match(r"(\S.*?) (\S+?):(\d+)(?::\d+)?(?: s=\d+)?$", (new[2] if new else line).strip())
        places.setdefault(at, []).append((frame[1], frame[2], int(frame[3])) if frame else (line.strip(), "", 0))
    out = {}
    for values, stack in re.findall(r"^\s+([-\d ]+): ([\d ]+)$", told, re.M):
        key = tuple(f for i in stack.split() for f in places[i])
        out[key] = [a + int(b) for a, b in zip(out.get(key, [0] * 4), values.split())]
    return out


def same_as_its_own(box, trace, own):
    box.run([hw.tool("heapwise"), "convert", "--heap", "go.alloc", "-t", "pprof", trace, box.path("ours.pb.gz")], check=0)
    want, have = samples(box, own), samples(box, box.path("ours.pb.gz"))
    hw.true(len(want) >= 4 and any("main.inlined" == s[0][0] and s[1][0].startswith("main.") for s in want), f"{want}")
    for stack in set(want) | set(have):
        hw.equal(have.get(stack), want.get(stack), f"{stack[:4]}")


def record(box, argv, trace):
    """Until what the program did is in the trace: readings rest by the clock."""
    for pause in (1, 5, 20):
        p = box.start([hw.tool("heapwise"), "record", "-c", "300ms", "--no-report", "-f", "-o", trace, "--", *argv],
                      stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        hw.equal(p.stdout.readline(), b"ready\n", "the program")
        ready = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        time.sleep(pause)
        said = p.communicate(b"", timeout=hw.CLOCK)[1].decode()
        hw.equal(p.returncode, 0, said)
        r = box.run([hw.tool("heapwise"), "query", trace, "select max(ts) as newest from counter c join process_counter_track t on c.track_id = t.id "
                     "where t.name = 'go.heap.in_use'"], check=0)
        newest = int(r.stdout.split()[1].strip(b'"') or 0)
        if newest > ready:
            return said
    raise hw.Failure(f"nothing was read of what it had at the end: {said}")


def closes(box, trace):
    """The account adds up, and what Go allocates is a part of Go's heap, not one more."""
    said = json.loads(box.run([hw.tool("heapwise"), "account", "--json", trace], check=0).stdout)
    parts = sum(p["rss_bytes"] for p in said["parts"])
    hw.true(abs(parts - said["rss_bytes"]) <= 4096, f"{parts} of {said['rss_bytes']}")
    hw.true(all(p["rss_bytes"] == 0 for p in said["parts"] if p["name"] == "live"), f"{said['parts']}")


def static(box):
    """A static program, which our library cannot be in, started by the command."""
    program, trace = build(box, "static"), box.path("out.trace")
    said = record(box, [program, box.path("own.pb")], trace)
    hw.true("heap go.alloc" in said and "[go]" not in said, said)
    same_as_its_own(box, trace, box.path("own.pb"))
    closes(box, trace)
    report = box.run([hw.tool("heapwise"), "report", trace], check=0, env={"COLUMNS": "140"}).stdout.decode()
    hw.true("main.inlined < main.grow" in report, report)
    hw.sound(trace)


def stripped(box):
    """Without symbols, at another rate; libc in the same program."""
    program, trace = build(box, "stripped", "-ldflags=-s -w", cgo=True), box.path("out.trace")
    said = record(box, [program, box.path("own.pb"), "20000"], trace)
    hw.true("one in 20000 bytes" in said, said)
    same_as_its_own(box, trace, box.path("own.pb"))


def each(box):
    """With each allocation sampled; HW_LONG: and with code that lies anywhere (Go compiles its library anew for it)."""
    options = ["-buildmode=pie"] if os.environ.get("HW_LONG") else []
    program, trace = build(box, "each", *options, cgo=bool(options)), box.path("out.trace")
    record(box, [program, box.path("own.pb"), "1"], trace)
    same_as_its_own(box, trace, box.path("own.pb"))


def attached(box):
    """A static program that runs already, and runs on."""
    program, trace = build(box, "attached"), box.path("out.trace")
    p = box.start([program, box.path("own.pb")], stdin=subprocess.PIPE)
    hw.equal(p.stdout.readline(), b"ready\n", "the program")
    for seconds in 1, 5, 20:
        r = box.run([hw.tool("heapwise"), "attach", str(p.pid), "-f", "-d", f"{seconds}s", "-o", trace], check=None, timeout=hw.CLOCK)
        if r.returncode == 0:
            break
    hw.equal(r.returncode, 0, hw.tail(r.stderr))
    hw.true(b"heap go.alloc" in r.stderr, hw.tail(r.stderr))
    same_as_its_own(box, trace, box.path("own.pb"))
    closes(box, trace)
    p.communicate(b"", timeout=hw.CLOCK)
    hw.equal(p.returncode, 0, "the program")


def off(box):
    """A program in which nothing can write such a profile takes no samples, which is said."""
    program, trace = build(box, "off", profiles=False), box.path("out.trace")
    said = record(box, [program, box.path("own.pb")], trace)
    hw.true("it takes no samples (runtime.MemProfileRate is 0" in said, said)


def one_end(box):
    """C and Go, of which C has nothing: a recording that ends before the program has one dump of Go's heap, the last, and
    shows that heap."""
    program, trace = build(box, "gives", cgo=True, program=GIVES_BACK), box.path("out.trace")
    p = box.start([hw.tool("heapwise"), "record", "-d", "600ms", "--no-report", "-f", "-o", trace, "--", program, box.path("own.pb")],
                  stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in p.stderr:
        if b"The recording is complete" in line:
            break
    p.communicate(b"", timeout=hw.CLOCK)
    hw.sound(trace)
    r = box.run([hw.tool("heapwise"), "query", trace, "select count(distinct ts) as n from heap_profile_allocation where heap_name = 'go.alloc'"],
                check=0)
    hw.equal(r.stdout.split()[1].strip(b'"'), b"1", "dumps")
    for command in "report", "tree":
        shown = box.run([hw.tool("heapwise"), command, trace], check=0).stdout.decode()
        hw.true("main.(*builder).grow" in shown, shown)
        hw.true(command == "tree" or "these figures are of go.alloc" in " ".join(shown.split()), shown)


if __name__ == "__main__":
    hw.main({"static": static, "stripped": stripped, "each": each, "attached": attached, "off": off, "one_end": one_end})
