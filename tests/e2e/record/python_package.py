#!/usr/bin/env python3
"""The Python package: limits in pytest, a recorded span, run, the magic. Figures are exact to what Python itself adds."""
import os
import pathlib
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Debian's: other interpreters have no pytest.
PYTHON = "/usr/bin/python3"

LIMITS = '''
import pytest, unittest
kept = []
def build(n):
    return [bytearray(600) for _ in range(n)]     # malloc's
def small(n):
    return [bytes(400) + bytes([i % 256]) for i in range(n)]
@pytest.mark.limit_memory("1 MB")
def test_below():
    bytearray(990_000)
@pytest.mark.limit_memory("1 MB")
def test_above():
    bytearray(1_000_000)
@pytest.mark.limit_memory("1 MB")
def test_apart():
    bytearray(900_000)
    small(2000)                                   # Python's objects: 900 kB, too, but later
@pytest.mark.limit_memory("1.5 MB")
def test_together():
    a = bytearray(500_000)
    b = small(2000)
@pytest.mark.limit_leaks("100 KB")
def test_leak():
    kept.append(build(200))
@pytest.mark.limit_leaks("100 KB")
def test_no_leak():
    kept.append(build(100))
    cycle = [bytearray(900_000)]
    cycle.append(cycle)
class Old(unittest.TestCase):
    @pytest.mark.limit_memory("1 MB")
    def test_old(self):
        bytearray(1_100_000)
'''


def python(box, *argv, check=0, **env):
    env = {"PYTHONPATH": str(ROOT / "python"), "HEAPWISE": str(hw.tool("heapwise")), **env}
    return box.run([PYTHON, "-B", *argv], check=check, env=env).stdout.decode()


def run_pytest(box, text, *options, check=1, **env):
    pathlib.Path(box.path("test_it.py")).write_text(text, encoding="utf-8")
    return python(box, "-m", "pytest", "-p", "heapwise.pytest_plugin", "-p", "no:cacheprovider", "-rA", *options, "test_it.py", check=check, **env)


def limits(box):
    said = run_pytest(box, LIMITS, "--heapwise", "--heapwise-top", "3", "--heapwise-traces", "kept")
    for test, passes in (("test_below", True), ("test_above", False), ("test_apart", True), ("test_together", True), ("test_leak", False),
                         ("test_no_leak", True), ("Old::test_old", False)):
        hw.true(("PASSED" if passes else "FAILED") + " test_it.py::" + test in said, test + "\n" + said)
    hw.true("build.<locals>.<listcomp> < build < test_leak" in said, "the line and its callers\n" + said)
    hw.true("the test held 1.05 MiB" in said, "the limit's message\n" + said)
    hw.true("LEFT" in said and "test_it.py::test_together" in said.split("LEFT")[1][:120], "the biggest first\n" + said)
    hw.equal(len(os.listdir(box.path("kept"))), 7, "traces that were kept")


def unchecked(box):
    """Without a recorder tests run, and one line says what was not checked; or they fail, if the project wants it."""
    text = LIMITS.split("@pytest.mark.limit_memory(\"1 MB\")\ndef test_apart")[0]
    said = run_pytest(box, text, check=0, HEAPWISE="/nowhere/heapwise")
    hw.true("heapwise: 2 memory limits were not checked: " in said and "/nowhere/heapwise" in said, said)
    said = run_pytest(box, text, "-o", "heapwise_required=true", HEAPWISE="/nowhere/heapwise")
    hw.equal(said.count("the limit was not checked: "), 2, said)
    said = run_pytest(box, "import pytest\n@pytest.mark.limit_memory('much')\ndef test_a(): pass\n", check=4)


FIXTURES = '''
import os, pytest
from unittest import mock
@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("HEAPWISE")
    with mock.patch("subprocess.Popen") as p:
        yield p
@pytest.mark.parametrize("name", ["a/b", "a_b"])
@pytest.mark.limit_memory("1 MB")
def test_elsewhere(elsewhere, name):
    assert os.listdir() == []
    bytearray(900_000)
    elsewhere.assert_not_called()
'''


def fixtures(box):
    """What fixtures change before a test is not in the recorder's way, and the test finds its folder as it was."""
    said = run_pytest(box, FIXTURES, "--heapwise-traces", "kept", "-o", "heapwise_required=true", check=0)
    hw.true("2 passed" in said and "not checked" not in said, said)
    hw.equal(len(os.listdir(box.path("kept"))), 2, "a trace for each")
    for no_folder in ("test_it.py", "/proc"):  # a file; not writable for root either
        run_pytest(box, FIXTURES, "--heapwise-traces", no_folder, check=4)


FORKED = '''
import heapwise, os, sys
with heapwise.record(sys.argv[1], interval=1):
    child = os.fork()
    if not child:
        sys.exit(3)
    status = os.waitpid(child, 0)[1]
    bytearray(2_000_000)
print(status >> 8, heapwise.read_trace(sys.argv[1]).peak // 1_000_000)
'''


def forked(box):
    """A child that leaves the block does not end the recording of its parent."""
    pathlib.Path(box.path("forked.py")).write_text(FORKED, encoding="utf-8")
    hw.equal(python(box, "forked.py", box.path("x.trace")), "3 2\n", "the child's status, MB at the peak")


SPAN = '''
import heapwise, sys
kept = []
@heapwise.record(sys.argv[1], interval=1)
def work():
    kept.append([bytearray(1000) for _ in range(300)])
    bytearray(2_000_000)
before = bytearray(3_000_000)
for _ in range(2):
    work()
    memory = heapwise.read_trace(sys.argv[1])
    print(memory.peak // 1000, memory.end // 1000, memory.at_end[0].function, memory.at_end[0].n_blocks)
'''


def span(box):
    pathlib.Path(box.path("span.py")).write_text(SPAN, encoding="utf-8")
    for line in python(box, "span.py", box.path("span.trace")).splitlines():
        peak, end, function, blocks = line.split()
        hw.true(2317 <= int(peak) <= 2325 and 317 <= int(end) <= 325, line)
        hw.equal((function, int(blocks) // 100), ("work.<locals>.<listcomp>", 6), "the line")


def run(box):
    pathlib.Path(box.path("s.py")).write_text("import sys\nx = [bytearray(1000) for _ in range(int(sys.argv[1]))]\nsys.exit(5)\n", encoding="utf-8")
    said = python(box, "-m", "heapwise", "run", "--interval", "1", "-o", box.path("x.trace"), "s.py", "3000", check=5)
    first = said.splitlines()[1]
    hw.true("s.py:2)" in first and "<listcomp>" in first and "MiB" in first, said)
    hw.equal(python(box, "-m", "heapwise", "report", box.path("x.trace")).splitlines()[1], first, "the same of the trace")


MAGIC = '''
import heapwise.notebook as n
class Shell:
    def run_cell(self, cell): exec(cell, globals())
shown = []
n.run_cell(Shell(), "", "x = [bytearray(1000) for _ in range(3000)]", shown.append)
n.run_cell(Shell(), "--page --end", "y = bytearray(5000000)", shown.append)
print([x._repr_html_()[:7] for x in shown], "&lt;svg" in shown[0]._repr_html_(), len(shown[1]._repr_html_()) > 100000)
'''


def magic(box):
    pathlib.Path(box.path("m.py")).write_text(MAGIC, encoding="utf-8")
    said = python(box, "m.py")
    hw.true("<listcomp> < <module>" in said and "['<iframe', '<iframe'] True True" in said, said)


CASES = {"limits": limits, "unchecked": unchecked, "fixtures": fixtures, "forked": forked, "span": span, "run": run, "magic": magic}

if __name__ == "__main__":
    hw.main(CASES)
