"""What the package does without a recorder."""
import os
import pathlib
import resource
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import heapwise
from heapwise import _lines, _recording, _tools, notebook

HEAD = '"kind","a","b","c","d","e"\n'
# Callsites: 0 main, 1 main > build, 2 main > build > malloc (native), 3 a thread without Python, 4 this package.
STACKS = '''"c",0,"[NULL]",10,0,""
"c",1,0,11,0,""
"c",2,1,12,0,""
"c",3,"[NULL]",12,0,""
"c",4,0,13,0,""
"c",5,1,14,0,""
"f",10,7,"main",0,"/a/app.py"
"f",11,3,"build, ""all""",0,"/a/app.py"
"f",13,1,"stop",0,"%s/_recording.py"
"f",14,99,"load",0,"<frozen importlib._bootstrap>"
''' % os.path.dirname(heapwise.__file__)


class Sizes(unittest.TestCase):
    def test_units(self):
        for text, want in (("24 MB", 24_000_000), ("24 MiB", 24 << 20), ("24M", 24 << 20), ("1.5 KiB", 1536), ("500", 500),
                           ("0.5g", 1 << 29), ("7 B", 7), ("2kb", 2000)):
            self.assertEqual(_tools.parse_size(text), want, text)
        for text in ("", "MB", "24 XB", "-1", "1e6", "24 MB 3"):
            with self.assertRaisesRegex(ValueError, "is no size"):
                _tools.parse_size(text)

    def test_shown(self):
        for n, want in ((0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (24_000_000, "22.9 MiB"), (1 << 40, "1.00 TiB"), (1023 << 10, "1.00 MiB")):
            self.assertEqual(_tools.show_size(n), want)


class Rows(unittest.TestCase):
    def test_peak_and_end(self):
        memory = _lines.read_rows(HEAD + '''"a",100,2,4000,2,""
"a",100,3,500,1,""
"a",300,2,-4000,-2,""
"a",300,0,70,1,""
"a",200,1,1000,5,""
''' + STACKS)
        self.assertEqual((memory.peak, memory.end), (5500, 1570))
        self.assertEqual([(x.function, x.number, x.n_bytes, x.n_blocks, x.callers) for x in memory.at_peak],
                         [('build, "all"', 3, 5000, 7, ["main"]), ("native code", 0, 500, 1, [])])
        self.assertEqual([(x.function, x.n_bytes) for x in memory.at_end], [('build, "all"', 1000), ("native code", 500), ("main", 70)])
        self.assertIn("in 2 more lines", memory.report(at_peak=False, top=1))

    def test_ours_and_imports(self):
        memory = _lines.read_rows(HEAD + '"a",1,4,900,1,""\n"a",1,5,30,1,""\n' + STACKS)
        self.assertEqual([(x.function, x.number, x.n_bytes) for x in memory.at_end], [('build, "all"', 3, 30)])

    def test_nothing(self):
        self.assertEqual(_lines.read_rows(HEAD).peak, 0)


class Absent(unittest.TestCase):
    def setUp(self):
        self.old = os.environ.copy()
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(self.old)))

    def recorder(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "heapwise"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        os.environ["HEAPWISE"] = str(path)

    def test_a_refusal_is_one_line(self):
        self.recorder('echo "heapwise: process 1 is never profiled [EPERM]" >&2; echo "hint: no" >&2; exit 77\n')
        with self.assertRaises(heapwise.NotRecorded) as e:
            heapwise.Recording("/nowhere/x").start()
        self.assertEqual(str(e.exception), "process 1 is never profiled [EPERM]")

    def test_a_recorder_that_is_not_there(self):
        os.environ["HEAPWISE"] = "/nowhere/heapwise"
        with self.assertRaisesRegex(heapwise.NotRecorded, "/nowhere/heapwise"):
            heapwise.Recording("/nowhere/x").start()

    def test_what_a_test_replaced(self):
        """Modules' functions, PATH and the folder; and descriptors from 1024 on."""
        self.recorder('echo "heapwise: no" >&2; exit 1\n')
        there = pathlib.Path(os.environ["HEAPWISE"])
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(str(there.parent.parent))
        os.environ["HEAPWISE"] = there.parent.name + "/heapwise"
        os.environ["PATH"] = "/nowhere"
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], min(limits[1], 2000)), limits[1]))
        number = 0
        while number < 1024:
            number = os.open("/dev/null", os.O_RDONLY)
            self.addCleanup(os.close, number)
        with mock.patch("subprocess.Popen") as other, mock.patch("time.monotonic", side_effect=ValueError):
            with self.assertRaises(heapwise.NotRecorded) as e:
                heapwise.Recording("/nowhere/x").start()
            other.assert_not_called()
        self.assertEqual(str(e.exception), "no")

    def test_an_interrupted_start_leaves_no_recorder(self):
        self.recorder("exec sleep 1000\n")
        recording = heapwise.Recording("/nowhere/x")
        with mock.patch.object(recording, "_wait_until_it_records", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                recording.start()
        self.assertIsNone(recording._out)  # it has ended

    def test_the_recorder_waits_and_is_no_child(self):
        """Until it may trace; and its parents are not its ancestors (see _recording.py)."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.recorder('echo go >>%s/order; echo "heapwise: $PPID" >&2; exit 1\n' % folder.name)
        permitted = []

        def permit(pid):
            permitted.append(pid)
            with open(folder.name + "/order", "a", encoding="ascii") as f:
                f.write("permit\n")

        old, _recording._permit = _recording._permit, permit
        self.addCleanup(setattr, _recording, "_permit", old)
        for _ in range(20):
            with self.assertRaises(heapwise.NotRecorded) as e:
                heapwise.Recording("/nowhere/x").start()
            self.assertEqual(str(e.exception), str(permitted[-1]))  # the recorder's parent is what was permitted
        order = pathlib.Path(folder.name, "order").read_text(encoding="ascii").split()
        self.assertEqual(order, ["permit", "go"] * 20)


class Magic(unittest.TestCase):
    def test_options(self):
        self.assertEqual(notebook._options().parse_args(["--interval", "5"]).interval, 5)
        with self.assertRaisesRegex(ValueError, "unrecognized"):
            notebook._options().parse_args(["--what"])


if __name__ == "__main__":
    unittest.main()
