#!/usr/bin/env python3
"""rules.py RULES.DEF CHECK.MD FOLDER: each rule stands in the page as it is, and has a trace that breaks it."""
import pathlib
import re
import sys

NO_CASE = {"compressed-cut", "compressed-unsupported"}  # check.md says why

rules = re.findall(r'^X\(\w+, "([\w-]+)", (\w+), "(.*)"\)$', pathlib.Path(sys.argv[1]).read_text(), re.M)
page = re.findall(r"^\| `([\w-]+)` \| (\w+) \| (.*) \|$", pathlib.Path(sys.argv[2]).read_text(), re.M)
cases = {p.stem for p in pathlib.Path(sys.argv[3]).glob("*/*.txt")}
want = [(name, severity.lower(), summary) for name, severity, summary in rules]
for row in want + page:
    if row not in want or row not in page:
        sys.exit(f"only in one of the two lists: {row}")
missing = {name for name, _, _ in rules} - cases - NO_CASE
sys.exit(f"without a trace that breaks it: {missing}" if missing else 0)
