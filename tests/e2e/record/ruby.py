#!/usr/bin/env python3
"""Ruby's methods and blocks in native stacks: every stack of a known block is compared, label by label and
line by line, with what the interpreter itself says of it (caller_locations)."""
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

# Each block has a size of its own. Methods that are written in C are in Ruby's list, too, but not in ours: they
# have native frames. So the program defines none by such a name.
NATIVE = ("map each times new require load instance_eval class_eval eval instance_exec define_method sort_by inject call "
          "public_send send next resume tap then catch each_object sort! loop fork pass yield yield_self each_with_index step each_slice "
          "sleep select join take each_entry lazy raise sort each_char gsub synchronize").split()

APP = r'''# encoding: utf-8
require "json"
require "fiber"
$keep, $told, $last = [], [], 200_000

def size
  $last += 48
end

def leaf
  n = size; $keep << ("x" * n); where(n)
end

def where(n)
  $told << [n, caller_locations(1).map { |l| [l.label, l.path, l.lineno] }]
end

def deep(k)
  k > 0 ? deep(k - 1) : leaf
end

class Thing
  def initialize
    leaf
  end

  def <=>(other)
    leaf
    0
  end

  def method_missing(name, *args)
    leaf
  end

  def respond_to_missing?(*)
    true
  end

  define_method(:defined_by_block) { |x| leaf }
  attr_accessor :x

  class << self
    def fixed
      [1, 2].map { leaf }
    end
  end
  alias_method :aliased, :defined_by_block
end

class Other < Thing
  def initialize
    super
    leaf
  end
end

def größe_日本
  leaf
end

def yields
  yield 1
  yield 2
end

def fails
  begin
    raise "x"
  rescue
    leaf
  ensure
    leaf
  end
end

def fibers
  f = Fiber.new do
    leaf
    Fiber.yield 1
    deep(3)
  end
  f.resume
  leaf
  f.resume
  e = Enumerator.new { |y| leaf; y << 1; leaf; y << 2 }
  e.next
  e.next
end

# Code that comes and goes at the same addresses.
def made
  150.times do |i|
    text = "\n" * (i % 5) + "def made#{i % 7}\n  n = size; $keep << ('y' * n); where(n)\nend\nmade#{i % 7}"
    eval(text, TOPLEVEL_BINDING, "(made #{i % 11})")
    GC.start if i % 50 == 49
  end
end

LONG = 400
eval("def long(x)\n" + (0...LONG).map { |i| "  x = x + #{i}; leaf if x % 10_000 < #{i % 7}\n" }.join + "  leaf\nend\n", binding, "(long)", 1)

def callbacks
  [3, 1, 2].sort_by { |x| leaf; x }
  [1, 2, 3].inject { |a, b| leaf; b }
  [Thing.new, Thing.new].sort
  [1].each(&method(:one))
  "ab".gsub(/b/) { leaf; "c" }
  { a: 1 }.each { |k, v| leaf }
  5.then { leaf }
  catch(:done) { leaf; throw :done }
  Object.new.instance_eval { leaf }
  Thing.class_eval { leaf }
  lambda { |x| leaf }.call(1)
  proc { leaf }.()
  1.step(3, 2) { leaf }
end

def one(x)
  leaf
end

def all_of_it
  leaf
  deep(40)
  t = Other.new
  t.missing(1)
  t.defined_by_block(1)
  t.aliased(2)
  Thing.fixed
  yields { leaf }
  yields do |x|
    deep(x)
  end
  größe_日本
  fails
  fibers
  callbacks
  long(1)
  long(5_000)
  made
end

if $0 == __FILE__
  require "socket" # its Init has a frame without instructions
  if ARGV.include?("wait")
    puts "ready"
    $stdout.flush
    "z" * 50_000 until IO.select([$stdin], nil, nil, 0.01) # it joins at an allocation
    $stdin.gets
  end
  all_of_it
  Thread.new { all_of_it }.join
  load(File.join(__dir__, "loaded.rb"))
  if ARGV.include?("compact") && GC.respond_to?(:compact)
    GC.compact
    all_of_it
    GC.verify_compaction_references(toward: :empty, double_heap: true)
    all_of_it
  end
  File.write(ENV["TOLD"], $told.to_json)
  puts "done"
  $stdout.flush
  $stdin.gets if ARGV.include?("wait")
end
'''

LOADED = "def at_load\n  leaf\nend\nat_load\n[1].each { leaf }\n"


def interpreter():
    found = [p for p in os.environ.get("HW_RUBIES", "").split(":") if p] or [shutil.which("ruby3.1")]
    if not found[0] or os.uname().machine != "x86_64":
        raise hw.Skip("no Ruby of 3.1 on x86-64")
    return found[0]


def prepared(box):
    app = box.dir / "app.rb"
    app.write_text(APP)
    (box.dir / "loaded.rb").write_text(LOADED)
    return app


def compare(box, trace, told):
    """Bytes and number of the blocks of each stack of Ruby, exactly."""
    want, have = {}, {}
    for n, stack in told:
        ruby = tuple((label, path, line) for label, path, line in reversed(stack)
                     if label not in NATIVE or (path or "").startswith("<internal:"))
        row = want.setdefault(ruby, [0, 0])
        row[0] += n + 1
        row[1] += 1
    for size, n, ruby, names in stacks(box, trace, "/[ruby]"):
        if "rb_str_times" in names and size // n > 200_000:
            row = have.setdefault(tuple(ruby), [0, 0])
            row[0] += size
            row[1] += n
    wrong = [(k, v, have.get(k)) for k, v in want.items() if have.get(k) != v]
    other = [k for k in have if k not in want]
    hw.true(not wrong and not other, f"{len(wrong)} of {len(want)} stacks differ, {len(other)} are others; the first:\n  "
            f"{wrong[:1]}\n  {other[:1]}")
    print(f"  {len(told)} blocks, {len(want)} stacks, all as the interpreter says")


def record_with(box, argv, *options, env=None, trace="app.trace"):
    told = box.path("told.json")
    r = hw.record(box, argv, *options, env={"TOLD": told, "LC_ALL": "C.UTF-8", **(env or {})}, trace=trace, timeout=200, interval=INTERVAL)
    hw.true(b"done" in r.target_stdout, f"the program's output: {hw.tail(r.target_stdout)} {hw.tail(r.stderr)}")
    hw.sound(r.trace)
    return r, json.load(open(told))


def exact(box):
    """Also after sequences and their strings have moved, twice."""
    r, told = record_with(box, [interpreter(), prepared(box), "compact"])
    compare(box, r.trace, told)


def attached(box):
    app = prepared(box)
    told = box.path("told.json")
    p = box.start([interpreter(), app, "wait"], env={"TOLD": told, "LC_ALL": "C.UTF-8"}, stdin=subprocess.PIPE)
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
    compare(box, trace, json.load(open(told)))


def switched_off(box):
    r, told = record_with(box, [interpreter(), prepared(box)], "--no-managed-frames")
    hw.true(not any(ruby for _, _, ruby, _ in stacks(box, r.trace, "/[ruby]")), "no Ruby frames")


# What a file can say, by a program of that name. 77: a version that nobody knows. 1: that of a row, but whatever else
# is read is not Ruby's: random words, the program's own, and pages that cannot be read.
FAKE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int ruby_api_version[3] = {3, MINOR, 0};
void *ruby_current_vm_ptr;
__thread void *ruby_current_ec;
__asm__(".globl rb_during_gc\n.type rb_during_gc, @function\nrb_during_gc:\n"
        "movq 0x450(%rax), %rax\nmovzbl 0x10(%rax), %eax\nshrb $5, %al\nret\n.size rb_during_gc, . - rb_during_gc\n");
__attribute__((noinline)) void *rb_vm_exec(size_t n)
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
        uint64_t seen[] = {0, 8, 4095, UINT64_MAX, (uintptr_t)closed + 4088, (uintptr_t)closed + 4096, (uintptr_t)&words, 1ull << 47,
                           (uintptr_t)words + next() % sizeof words / 8 * 8, (uintptr_t)words + next() % sizeof words, next()};
        for (int k = 0; k < 4096; k++)
            words[k] = seen[next() % (i % 3 ? 9 : 11)];
        uint64_t *ec = words + 64, *thread = words + 512, *vm = words + 1024;
        ruby_current_ec = i % 4 ? (void *)ec : (void *)(uintptr_t)seen[next() % 11];
        if (i % 4) { /* a thread's context, and from there on anything */
            ruby_current_vm_ptr = vm;
            ec[6] = (uintptr_t)thread;
            thread[5] = (uintptr_t)ec;
            thread[4] = (uintptr_t)vm;
            thread[21] = 0;
            vm[138] = (uintptr_t)(words + 3000);
            words[3002] = 0;
            if (i % 2) { /* frames of anything */
                ec[0] = (uintptr_t)(words + 2000);
                ec[1] = 80;
                ec[2] = (uintptr_t)(words + 2000 + 8 * (next() % 10));
            }
        }
        free(rb_vm_exec(5000 + i));
    }
    puts("done");
    return 0;
}
"""


def fake(box, minor):
    interpreter()
    hw.need("cc")
    (box.dir / "fake.c").write_text(FAKE)
    os.makedirs(box.dir / str(minor))
    exe = box.path(f"{minor}/ruby")
    box.run(["cc", "-O1", "-fno-optimize-sibling-calls", f"-DMINOR={minor}", "-rdynamic", "-o", exe, box.dir / "fake.c"], check=0)
    r = hw.record(box, [exe], trace=f"{minor}.trace", interval=1)
    hw.equal(r.target_stdout, b"done\n", f"output; {r.stderr}")
    hw.true(not any(ruby for _, _, ruby, _ in stacks(box, r.trace, "/[ruby]")), "no Ruby frames")
    return r


def other(box):
    """A Ruby of another version: said while recording, and later by what reads the trace."""
    r = fake(box, 77)
    hw.true(b"this Ruby (3.77) show only the interpreter" in r.stderr, hw.tail(r.stderr))
    noted(box, r.trace, b"this Ruby (3.77) show only the interpreter")


def lying(box):
    """A file that says 3.1 and a memory that is not: nothing is read that cannot be, and the stacks are native."""
    r = fake(box, 1)
    noted(box, r.trace, b"samples of Ruby show the interpreter's own functions only")


CASES = {"exact": exact, "attached": attached, "switched-off": switched_off, "other-version": other, "lying": lying}

if __name__ == "__main__":
    hw.main(CASES)
