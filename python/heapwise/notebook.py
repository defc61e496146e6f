"""%%heapwise in IPython and Jupyter: what a cell's lines hold, and its flamegraph.

    %%heapwise [--interval BYTES] [--end] [--top N] [--page] [--keep FILE]
"""
from __future__ import annotations

import argparse
import gc
import html
import os
import shlex
import tempfile
from typing import Any

from ._lines import read_trace
from ._recording import NotRecorded, Recording, objects_note
from ._tools import output, show_size


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ValueError("%s\n%s" % (message, self.format_usage().strip()))


def _options() -> _Options:
    options = _Options(prog="%%heapwise", add_help=False)
    options.add_argument("--interval", type=int, default=1)
    options.add_argument("--end", action="store_true")
    options.add_argument("--top", type=int, default=10)
    options.add_argument("--page", action="store_true")
    options.add_argument("--keep", metavar="FILE")
    return options


class _Picture:
    """What Jupyter shows; a terminal shows nothing of it."""

    def __init__(self, source: str) -> None:
        self._source = source

    def _repr_html_(self) -> str:
        return self._source

    def __repr__(self) -> str:
        return ""


def _picture(trace: str, options: argparse.Namespace, folder: str) -> _Picture:
    path = os.path.join(folder, "shown")
    output(["convert", "-t", "page", trace, path] if options.page else
           ["convert", "-t", "svg", *([] if options.end else ["--peak"]), trace, path])
    with open(path, encoding="utf-8") as f:
        source = f.read()
    style = "width:100%;height:40em;border:0"
    return _Picture('<iframe style="%s" srcdoc="%s"></iframe>' % (style, html.escape(source)))


def run_cell(shell: Any, line: str, cell: str, show: Any) -> None:
    try:
        options = _options().parse_args(shlex.split(line))
    except ValueError as e:
        print("heapwise: %s" % e)
        return
    with tempfile.TemporaryDirectory(prefix="heapwise-") as folder:
        recording = Recording(options.keep or os.path.join(folder, "cell.trace"), options.interval, with_symbols=True)
        gc.collect()
        try:
            recording.start()
        except NotRecorded as e:
            print("heapwise: the cell was not run: %s" % e)
            return
        try:
            shell.run_cell(cell)  # shows the cell's own exceptions
            gc.collect()
        finally:
            recording.stop()
        memory = read_trace(recording.path, os.getpid())
        print("peak %s   at the end %s   by Python's lines, %s:" % (
            show_size(memory.peak), show_size(memory.end), "at the end" if options.end else "at the peak"))
        print(memory.report(not options.end, options.top))
        note = objects_note()
        if note:
            print("note: " + note)
        show(_picture(recording.path, options, folder))


def load(shell: Any) -> None:
    from IPython.display import display

    def heapwise(line: str, cell: str) -> None:
        run_cell(shell, line, cell, display)

    shell.register_magic_function(heapwise, magic_kind="cell", magic_name="heapwise")
