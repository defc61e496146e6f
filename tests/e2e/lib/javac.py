"""Java programs of tests: compiled once for a build directory, as javac takes longer than most of what is tested with its classes."""
import contextlib
import hashlib
import os
import pathlib
import shutil
import tempfile

from lib import hw

# The compiler runs for a second: with its optimizing compiler and a parallel collector it takes half as much again of the processors.
JAVAC = ["javac", "-J-XX:+IgnoreUnrecognizedVMOptions", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]


def tag(box):
    """What a class of this box alone has in its name."""
    return "".join(c for c in box.dir.name if c.isalnum())


def javac(box, *sources, to=None, options=()):
    """Compiles these files into a folder, the box's by default."""
    to, sources = pathlib.Path(to or box.dir), [pathlib.Path(s) for s in sources]

    def compile_into(folder):
        box.run([*JAVAC, *options, "-d", folder, *sources], check=0, timeout=2 * hw.CLOCK)

    if any(tag(box) in s.name for s in sources):  # nobody else has the same
        return compile_into(to)
    what = [os.path.realpath(shutil.which("javac")), *options, *(text for s in sources for text in (s.name, s.read_text()))]
    kept = hw.BUILD / "classes" / hashlib.sha256("\0".join(what).encode()).hexdigest()
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        new = tempfile.mkdtemp(dir=kept.parent)
        compile_into(new)
        with contextlib.suppress(OSError):  # another test was quicker
            os.rename(new, kept)
        shutil.rmtree(new, ignore_errors=True)
    for file in kept.rglob("*.class"):
        copy = to / file.relative_to(kept)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
