"""cases.py SCRIPT... - prints the cases of each, a line `SCRIPT CASE` for each

Meson asks for them. One interpreter loads all scripts: one each would take most of the time in which Meson configures.
"""
import contextlib
import io
import runpy
import sys

for script in sys.argv[1:]:
    sys.argv = [script, "--list"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        runpy.run_path(script, run_name="__main__")
    for case in said.getvalue().split():
        print(script, case)
