"""heapwise for Python: which lines hold a program's memory.

    python3 -m heapwise run script.py ARGUMENT...     # or -m MODULE
    with heapwise.record("span.trace"): ...           # a part of a program, while it runs
    @pytest.mark.limit_memory("24 MB")                # pytest_plugin.py
    %load_ext heapwise                                # notebook.py

The programs of heapwise do the work; $HEAPWISE or $PATH says where they are.
"""
from __future__ import annotations

from typing import Any

from ._lines import Line, Memory, read_trace
from ._recording import NotRecorded, Recording, record

__all__ = ["Line", "Memory", "NotRecorded", "Recording", "load_ipython_extension", "read_trace", "record"]
__version__ = "0.1.0"


def load_ipython_extension(shell: Any) -> None:
    from .notebook import load

    load(shell)
