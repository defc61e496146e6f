"""python3 -m heapwise run|report: what a script's lines hold."""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import List, Optional

from ._lines import read_trace
from ._recording import objects_note
from ._tools import program, show_size


def _report(path: str, at_peak: bool, top: int) -> None:
    memory = read_trace(path)
    print("peak %s   at the end %s   by Python's lines, %s:" % (
        show_size(memory.peak), show_size(memory.end), "at the peak" if at_peak else "at the end"))
    print(memory.report(at_peak, top or sys.maxsize))


def _run(arguments: argparse.Namespace) -> int:
    command: List[str] = arguments.command
    if arguments.module:
        command = ["-m", arguments.module, *command]
    if not command:
        sys.exit("heapwise: run what? python3 -m heapwise run script.py, or -m MODULE")
    name = arguments.module or os.path.splitext(os.path.basename(command[0]))[0]
    path = arguments.output or "heap.%s.%d.trace" % (name, os.getpid())
    status = subprocess.call([program(), "record", "--no-report", "--force", "--interval", str(arguments.interval), "-o", path,
                              "--", sys.executable, *command])
    if not os.path.exists(path):
        return status
    _report(path, not arguments.end, arguments.top)
    note = objects_note()
    if note:
        print("note: " + note)
    return status


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m heapwise", description="Which lines hold a Python program's memory.")
    words = parser.add_subparsers(dest="word", required=True)
    shown = argparse.ArgumentParser(add_help=False)
    shown.add_argument("--end", action="store_true", help="what is held at the end; default: at the peak")
    shown.add_argument("--top", type=int, default=20, metavar="N", help="lines; 0: all (default 20)")
    run = words.add_parser("run", parents=[shown], help="run a script or module and record it",
                           usage="%(prog)s [OPTIONS] SCRIPT|-m MODULE [ARGUMENT...]")
    run.add_argument("-o", "--output", metavar="FILE", help="trace to write (heap.NAME.PID.trace)")
    run.add_argument("-i", "--interval", default="4096", metavar="BYTES", help="mean bytes between two samples; 1: each allocation (default 4096)")
    run.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python3 -m does")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGUMENT...]", help="the script and what it gets")
    report = words.add_parser("report", parents=[shown], help="by line, of a trace")
    report.add_argument("trace")
    arguments = parser.parse_args(argv)
    try:
        if arguments.word == "run":
            return _run(arguments)
        _report(arguments.trace, not arguments.end, arguments.top)
    except (FileNotFoundError, RuntimeError) as e:
        print("heapwise: %s" % str(e).replace("heapwise: ", "", 1), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
