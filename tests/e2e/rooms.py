"""Scripts use each other's parts from all sub-folders: they are on the path."""
import pathlib
import sys

sys.path[1:1] = [str(p) for p in sorted(pathlib.Path(__file__).resolve().parent.iterdir()) if p.is_dir() and p.name != "lib"]
