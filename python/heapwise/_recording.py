"""Recording this process, for a part of its life.

`heapwise attach` does not record its own parents, so it is started through a shell that ends at once. The shell's
other half waits for a word, so that this process can first permit it to trace (Yama lets descendants be traced only).
It joins at an allocation of this process, and Python's objects a moment later, when the recorder has found the
interpreter: the table of allocators says when (doc/design/python.md, "Objects").
"""
from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import sys
import sysconfig
# By their own names: a test may replace those of the modules while it is recorded.
from os import getpid, kill, read
from subprocess import PIPE, Popen
from time import monotonic
from typing import Iterator, List, Optional, Tuple

from ._tools import program

_HEAPS = "libc.malloc,python.alloc"
_LONGEST_WAIT = 60.0  # seconds, of a busy machine
_PR_SET_PTRACER = 0x59616D61
# 3: what runs in the background has nothing to read from 0. The recorder's own shell says its number, before it says more.
_START = """exec 3<&0
{ read go <&3 || exit; exec 3<&-; /bin/sh -c 'echo $$; exec "$@" >&2' sh "$@"; echo "exit $?"; } & echo $!"""


class NotRecorded(RuntimeError):
    """The recording did not begin, or its figures are not complete. The message is one line."""


class _Allocators(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]


def _allocator(domain: int) -> Tuple[Optional[int], Optional[int]]:
    """The function and its context."""
    try:
        table = _Allocators()
        ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(table))
        return table.malloc, table.ctx
    except (AttributeError, ValueError):  # another interpreter
        return None, None


_RAW, _OBJECTS = 0, 2
_pymalloc = _allocator(_OBJECTS)[0]  # as long as nobody records


def objects_note() -> Optional[str]:
    """Why Python's small objects are not in the figures; None: they are."""
    if _pymalloc == _allocator(_RAW)[0]:  # they are malloc's
        return None
    if _allocator(_OBJECTS)[1]:
        return "objects of up to 512 bytes are not counted with PYTHONMALLOC=debug, -X dev or a tracemalloc that runs"
    if (sys.implementation.name != "cpython" or not (3, 8) <= sys.version_info[:2] <= (3, 13)
            or sysconfig.get_config_var("Py_GIL_DISABLED")):
        return "objects of up to 512 bytes are not counted in this Python; PYTHONMALLOC=malloc in the environment counts them"
    return None


def _permit(pid: int) -> None:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as f:
            if f.read().strip() != "1":
                return
    except OSError:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def _reason(text: str) -> str:
    """The first message among what the recorder said."""
    for line in text.splitlines():
        if line.startswith(("heapwise:", "error:", "sh:")):
            return line[10:] if line.startswith("heapwise: ") else line
    return text.strip().splitlines()[-1] if text.strip() else "the recorder ended without a word"


class Recording:
    """What this process allocates between start() and stop(), in a trace."""

    def __init__(self, path: str, interval: int = 1, heaps: str = _HEAPS, with_symbols: bool = False) -> None:
        self.path = os.path.abspath(path)
        self.interval = interval
        self.heaps = heaps
        self.with_symbols = with_symbols  # files and lines of native code, too
        self._owner = 0
        self._pid = 0
        self._said = ""
        self._out: Optional[int] = None

    def start(self) -> None:
        try:
            tool = program()
        except FileNotFoundError as e:
            raise NotRecorded(str(e)) from None
        command = [tool, "attach", "--interval", str(self.interval), "--heap", self.heaps, "--no-report",
                   *([] if self.with_symbols else ["--no-symbolize"]), "--force", "-o", self.path, str(getpid())]
        self._owner = getpid()
        try:
            self._begin(command)
        except BaseException:  # also a time limit's, or Ctrl-C: no recorder stays behind
            with contextlib.suppress(NotRecorded):
                self._end()
            raise

    def _begin(self, command: List[str]) -> None:
        self._out, theirs = os.pipe()
        try:
            shell = Popen(["/bin/sh", "-c", _START, "sh", *command], stdin=PIPE, stdout=theirs, stderr=theirs,
                          start_new_session=True, cwd="/")
        finally:
            os.close(theirs)
        assert shell.stdin is not None
        with contextlib.suppress(BrokenPipeError), shell.stdin as gate:
            shell.wait()
            _permit(int(self._line()))
            gate.write(b"go\n")
        self._pid = int(self._line() or 0)
        self._wait_until_it_records()

    def _read(self, wait: float) -> bool:
        """Reads what is there. False: the recorder has ended."""
        if self._out is None:
            return False
        poll = select.poll()  # not select(): it has no descriptors from 1024 on
        poll.register(self._out, select.POLLIN)
        if not poll.poll(wait * 1000):
            return True
        new = read(self._out, 65536)
        self._said += new.decode("utf-8", "replace")
        if not new:
            os.close(self._out)
            self._out = None
        return bool(new)

    def _line(self) -> str:
        deadline = monotonic() + _LONGEST_WAIT
        while "\n" not in self._said:
            if not self._read(1.0) or monotonic() > deadline:
                raise NotRecorded(_reason(self._said))
        line, _, self._said = self._said.partition("\n")
        return line

    def _is_joined(self) -> bool:
        if "python.alloc" in self.heaps.split(",") and objects_note() is None and _pymalloc != _allocator(_RAW)[0]:
            return _allocator(_OBJECTS)[0] != _pymalloc
        with open("/proc/self/maps", "rb") as f:
            return b"memfd:heapwise-ring" in f.read()

    def _wait_until_it_records(self) -> None:
        deadline = monotonic() + _LONGEST_WAIT
        while not self._is_joined():
            bytearray(600)  # malloc's: it joins at one
            if not self._read(0.002):
                raise NotRecorded(_reason(self._said))
            if monotonic() > deadline:
                raise NotRecorded("the recorder did not begin within %.0f s" % _LONGEST_WAIT)

    def _end(self) -> None:
        if self._out is not None and self._pid > 0:
            with contextlib.suppress(ProcessLookupError):
                kill(self._pid, signal.SIGTERM)
        deadline = monotonic() + _LONGEST_WAIT
        while self._read(1.0):
            if monotonic() > deadline:
                raise NotRecorded("the recorder did not end within %.0f s" % _LONGEST_WAIT)

    def is_ours(self) -> bool:
        """Not of a child that a fork made meanwhile: it is not recorded, and must not end what records its parent."""
        return self._owner == getpid()

    def stop(self) -> None:
        """Ends it; the trace is complete then. In a forked child: nothing."""
        if not self.is_ours():
            return
        self._end()
        if "exit 0\n" not in self._said:
            raise NotRecorded(_reason(self._said.replace("attaching to", "")))

    def __enter__(self) -> "Recording":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextlib.contextmanager
def record(path: str, interval: int = 4096, collect: bool = True) -> Iterator[Recording]:
    """Records what the block, or as a decorator the function, allocates into the trace `path`.

    interval: mean bytes between two samples; 1: each allocation. collect: unreachable objects are freed before it ends.
    """
    recording = Recording(path, interval)
    recording.start()
    try:
        yield recording
    finally:
        if collect:
            gc.collect()
        recording.stop()
