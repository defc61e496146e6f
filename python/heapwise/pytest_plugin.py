"""Limits of what a test allocates: @pytest.mark.limit_memory("24 MB"), @pytest.mark.limit_leaks("1 MB"), --heapwise.

Each marked test, with --heapwise every test, is a recording of its own, of every allocation of this process between the
test's begin and end (without fixtures of wider scope): malloc's blocks and Python's objects. So a test's figures do not
depend on what ran before it. Under xdist each worker records itself. Processes that a test starts are not counted.
"""
from __future__ import annotations

import functools
import gc
import json
import os
import re
import tempfile
import zlib
from typing import Any, Callable, Dict, Generator, List, Optional

import pytest

from ._lines import Memory, read_trace
from ._recording import NotRecorded, Recording, objects_note
from ._tools import keep_program, parse_size, show_size

_KEY = "heapwise"
_LINES = 5
_MARKS = {"limit_memory": "the test fails if it holds more than this ('24 MB') at any moment",
          "limit_leaks": "the test fails if more than this ('1 MB') of what it allocated is left at its end"}


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("heapwise")
    group.addoption("--heapwise", action="store_true", help="record the memory of every test and show the biggest")
    group.addoption("--heapwise-top", type=int, default=10, metavar="N", help="rows of that report (default 10)")
    group.addoption("--heapwise-traces", metavar="DIR", help="keep the trace of each recorded test there, for heapwise ui")
    parser.addini("heapwise_required", "a limit that cannot be checked fails its test", type="bool", default=False)


def pytest_configure(config: Any) -> None:
    keep_program()
    if config.getoption("heapwise_traces"):  # a test may go to another folder
        folder = os.path.join(str(config.invocation_params.dir), config.getoption("heapwise_traces"))
        try:
            os.makedirs(folder, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as e:
            raise pytest.UsageError("--heapwise-traces: %s" % e) from None
        config.option.heapwise_traces = folder
    for name, text in _MARKS.items():
        config.addinivalue_line("markers", "%s(size): %s" % (name, text))


def _limit(item: Any, name: str) -> Optional[int]:
    mark = item.get_closest_marker(name)
    if mark is None:
        return None
    if len(mark.args) != 1 or mark.kwargs:
        raise pytest.UsageError("%s: %s takes one size, like %s('24 MB')" % (item.nodeid, name, name))
    try:
        return parse_size(mark.args[0])
    except ValueError as e:
        raise pytest.UsageError("%s: %s: %s" % (item.nodeid, name, e)) from None


def pytest_collection_modifyitems(items: List[Any]) -> None:
    for item in items:
        for name in _MARKS:
            _limit(item, name)


def _complaint(what: str, n_bytes: int, limit: int, memory: Memory, at_peak: bool) -> str:
    return "%s %s (%d bytes), the limit is %s (%d bytes); the largest lines:\n%s" % (
        what, show_size(n_bytes), n_bytes, show_size(limit), limit, memory.report(at_peak, _LINES))


def _trace_path(item: Any, folder: str) -> str:
    """[a/b] and [a_b] are two tests."""
    name = re.sub(r"[^\w.-]+", "_", item.nodeid, flags=re.ASCII)[-150:]
    return os.path.join(folder, "%s.%08x.trace" % (name, zlib.crc32(item.nodeid.encode("utf-8", "replace"))))


def _unchecked(item: Any, has_limit: bool, reason: str) -> None:
    item.user_properties.append((_KEY, json.dumps({"unchecked": reason, "limit": has_limit})))
    if has_limit and item.config.getini("heapwise_required"):
        pytest.fail("the limit was not checked: %s" % reason, pytrace=False)


def _check(item: Any, memory: Memory) -> None:
    complaints = []
    limit = _limit(item, "limit_memory")
    if limit is not None and memory.peak > limit:
        complaints.append(_complaint("the test held", memory.peak, limit, memory, at_peak=True))
    limit = _limit(item, "limit_leaks")
    if limit is not None and memory.end > limit:
        complaints.append(_complaint("the test left", memory.end, limit, memory, at_peak=False))
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


def _run(item: Any, run: Callable[[], None], has_limit: bool, folder: str) -> None:
    recording = Recording(_trace_path(item, folder))
    gc.collect()
    reason = None
    try:
        recording.start()
    except NotRecorded as e:
        reason = str(e)
    if reason:
        _unchecked(item, has_limit, reason)
        run()
        return
    failed = True  # its traceback holds what it held: nothing to check
    try:
        run()
        failed = bool(getattr(item, "_excinfo", None))  # unittest's do not raise
        gc.collect()
    finally:
        memory = None
        try:
            if recording.is_ours():
                recording.stop()
                memory = read_trace(recording.path, os.getpid())
        except (NotRecorded, RuntimeError) as e:
            if not failed:
                _unchecked(item, has_limit, str(e).splitlines()[0])
    if memory is None:
        return
    figures: Dict[str, Any] = {"peak": memory.peak, "end": memory.end}
    if memory.at_peak:
        figures["line"] = str(memory.at_peak[0]).strip()
    item.user_properties.append((_KEY, json.dumps(figures)))
    if not failed:
        _check(item, memory)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Generator[None, None, None]:
    has_limit = any(_limit(item, name) is not None for name in _MARKS)
    if not has_limit and not item.config.getoption("heapwise"):
        yield
        return
    keep = item.config.getoption("heapwise_traces")
    with tempfile.TemporaryDirectory(prefix="heapwise-") as scratch:
        item.runtest = functools.partial(_run, item, item.runtest, has_limit, keep or scratch)
        yield
        del item.runtest


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    rows, reasons, n_unchecked = [], set(), 0
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for key, text in report.user_properties:
                figures = json.loads(text) if key == _KEY else {}
                if "unchecked" in figures:
                    reasons.add(figures["unchecked"])
                    n_unchecked += figures["limit"]
                elif figures:
                    rows.append((figures["peak"], figures["end"], report.nodeid, figures.get("line", "")))
    if reasons:
        what = "%d memory limits were not checked" % n_unchecked if n_unchecked else "memory was not recorded"
        terminalreporter.write_line("heapwise: %s: %s" % (what, "; ".join(sorted(reasons))), yellow=True)
    note = objects_note()
    if rows and note:
        terminalreporter.write_line("heapwise: " + note, yellow=True)
    if not config.getoption("heapwise") or not rows:
        return
    rows.sort(key=lambda row: (-row[0], row[2]))
    terminalreporter.section("heapwise: memory by test")
    terminalreporter.write_line("%10s %10s  %s" % ("PEAK", "LEFT", "TEST  (largest line at the peak)"))
    for peak, end, test, line in rows[: config.getoption("heapwise_top")]:
        terminalreporter.write_line("%10s %10s  %s  (%s)" % (show_size(peak), show_size(end), test, line))
