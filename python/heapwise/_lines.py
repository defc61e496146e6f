"""What a trace says about Python's lines.

A block belongs to the line that ran when it was allocated: the innermost Python function of its stack, whatever native
code that called. What no Python function asked for (the interpreter's start, threads of libraries) is "native code".
"""
from __future__ import annotations

import csv
import io
import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from ._tools import output, show_size

# One statement, as each would load the trace again. Frees are negative rows; mappings contain the heaps.
_QUERY = """
select 'a' kind, a.ts a, a.callsite_id b, sum(a.size) c, sum(a.count) d, '' e
  from heap_profile_allocation a join process p using (upid)
  where a.heap_name not like 'mmap.%%' and p.pid = %s group by a.ts, a.callsite_id
union all select 'c', id, parent_id, frame_id, 0, '' from stack_profile_callsite
union all select 'f', f.id, s.line_number, f.name, 0, s.source_file
  from stack_profile_frame f join stack_profile_mapping m on f.mapping = m.id
  left join stack_profile_symbol s on s.symbol_set_id = f.symbol_set_id where m.name in ('/[python]', '[python]')
"""
_LARGEST = "(select pid from process join heap_profile_allocation using (upid) where size > 0 group by upid order by sum(size) desc limit 1)"


@dataclass
class Line:
    """One line of the program, and what it allocated. callers: the lines that led there most, nearest first."""

    function: str
    file: str
    number: int
    n_bytes: int
    n_blocks: int
    callers: List[str] = field(default_factory=list)

    def __str__(self) -> str:
        here = os.getcwd() + os.sep
        file = self.file[len(here):] if self.file.startswith(here) else self.file
        where = "  (%s:%d)" % (file, self.number) if self.file else ""
        return "%10s  %s%s%s" % (show_size(self.n_bytes), self.function, "".join(" < " + c for c in self.callers[:3]), where)


@dataclass
class Memory:
    """peak, end: bytes that were held at most and at the end, of those allocated meanwhile; with their lines, largest first."""

    peak: int = 0
    end: int = 0
    at_peak: List[Line] = field(default_factory=list)
    at_end: List[Line] = field(default_factory=list)

    def report(self, at_peak: bool = True, top: int = 20) -> str:
        lines = self.at_peak if at_peak else self.at_end
        shown = [str(line) for line in lines[:top]]
        rest = sum(line.n_bytes for line in lines[top:])
        if rest:
            shown.append("%10s  in %d more lines" % (show_size(rest), len(lines) - top))
        return "\n".join(shown)


_Frame = Tuple[str, str, int]  # function, file, line
_NATIVE: _Frame = ("native code", "", 0)


def _number(text: str) -> int:
    return int(text) if text and text != "[NULL]" else -1


class _Stacks:
    def __init__(self) -> None:
        self.parents: Dict[int, Tuple[int, int]] = {}
        self.frames: Dict[int, _Frame] = {}

    def of(self, callsite: int) -> List[_Frame]:
        """Python's frames, innermost first."""
        found = []
        while callsite in self.parents:
            callsite, frame = self.parents[callsite]
            if frame in self.frames:
                found.append(self.frames[frame])
        return found


_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_RUNNERS = ("/_pytest/", "/pluggy/", _OURS)


def _shown_callers(frames: List[_Frame]) -> List[str]:
    """Up to whatever ran the test."""
    names = []
    for function, file, _ in frames:
        if any(part in file for part in _RUNNERS):
            break
        names.append(function)
    return names


def _without_imports(frames: List[_Frame]) -> List[_Frame]:
    """What the import system allocates belongs to the line that imports."""
    kept = [f for f in frames if not f[1].startswith("<frozen importlib")]
    return kept or frames


def _lines(held: Dict[int, List[int]], stacks: _Stacks) -> List[Line]:
    lines: Dict[_Frame, Line] = {}
    most: Dict[_Frame, int] = {}
    for callsite, (size, count) in held.items():
        if size == 0 and count == 0:
            continue
        frames = _without_imports(stacks.of(callsite))
        at = frames[0] if frames else _NATIVE
        line = lines.setdefault(at, Line(at[0], at[1], at[2], 0, 0))
        line.n_bytes += size
        line.n_blocks += count
        if size > most.get(at, -1):
            most[at] = size
            line.callers = _shown_callers(frames[1:])
    return sorted(lines.values(), key=lambda line: (-line.n_bytes, line.file, line.number))


def read_rows(text: str) -> Memory:
    stacks = _Stacks()
    changes: Dict[int, List[Tuple[int, int, int]]] = defaultdict(list)
    csv.field_size_limit(1 << 30)
    rows = csv.reader(io.StringIO(text))
    next(rows, None)
    for kind, a, b, c, d, e in rows:
        if kind == "a":
            changes[int(a)].append((_number(b), int(c), int(d)))
        elif kind == "c":
            stacks.parents[int(a)] = (_number(b), _number(c))
        else:
            stacks.frames[int(a)] = (c, "" if e == "[NULL]" else e, max(_number(b), 0))
    held: Dict[int, List[int]] = defaultdict(lambda: [0, 0])
    peak, at_peak, now = 0, dict(held), 0
    is_ours: Dict[int, bool] = {}  # what this package itself allocates while it begins and ends a recording
    for ts in sorted(changes):
        for callsite, size, count in changes[ts]:
            if callsite not in is_ours:
                is_ours[callsite] = any(f[1].startswith(_OURS) for f in stacks.of(callsite)[:1])
            if is_ours[callsite]:
                continue
            held[callsite][0] += size
            held[callsite][1] += count
            now += size
        if now > peak:
            peak, at_peak = now, {k: list(v) for k, v in held.items()}
    return Memory(peak, now, _lines(at_peak, stacks), _lines(held, stacks))


def read_trace(path: str, pid: Optional[int] = None) -> Memory:
    """pid: of one process; default: of the one that allocated most."""
    return read_rows(output(["query", path, _QUERY % (_LARGEST if pid is None else int(pid))]))
