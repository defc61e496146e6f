"""Where the programs are, sizes as text."""
from __future__ import annotations

import os
import re
import shutil
from subprocess import DEVNULL, PIPE, Popen
from typing import List, Optional

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _UNITS[_letter] = _UNITS[_letter + "ib"] = 1024**_power
    _UNITS[_letter + "b"] = 1000**_power


_kept: Optional[str] = None


def program() -> str:
    found = _kept or os.environ.get("HEAPWISE") or shutil.which("heapwise")
    beside = os.path.abspath(os.path.join(__file__, "../../../../../bin/heapwise"))  # of PREFIX/share/heapwise/python/heapwise
    if not found and os.access(beside, os.X_OK):
        found = beside
    if not found:
        raise FileNotFoundError("heapwise is not installed: no such program in PATH, and HEAPWISE does not name it")
    return os.path.abspath(found) if "/" in found else found  # it starts in another folder


def keep_program() -> None:
    """From now on it is this one, whatever becomes of the environment and the current folder."""
    global _kept
    try:
        _kept = program()
    except FileNotFoundError:
        pass


def output(arguments: List[str]) -> str:
    """What a command of heapwise prints. RuntimeError with its message if it fails."""
    with Popen([program(), *arguments], stdin=DEVNULL, stdout=PIPE, stderr=PIPE, encoding="utf-8", errors="replace") as p:
        said, errors = p.communicate()
    if p.returncode:
        raise RuntimeError(errors.strip() or "heapwise %s: status %d" % (arguments[0], p.returncode))
    return said


def parse_size(text: str) -> int:
    """Bytes, as heapwise reads them: K, M, G and KiB, MiB, GiB by 1024, KB, MB, GB by 1000."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]*)\s*", str(text))
    if not match or match.group(2).lower() not in _UNITS:
        raise ValueError("'%s' is no size; write it like '24 MB', '24 MiB' or '500K'" % text)
    return int(float(match.group(1)) * _UNITS[match.group(2).lower()])


def show_size(n_bytes: int) -> str:
    if n_bytes < 1024:
        return "%d B" % n_bytes
    value = float(n_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 999.5 or unit == "TiB":
            break
    return "%.*f %s" % (2 if value < 9.995 else 1 if value < 99.95 else 0, value, unit)
