#!/usr/bin/env python3
"""tools/run-tests: what counts as passed, and in which order tests run."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("run_tests", str(ROOT / "tools/run-tests"))
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
loader.exec_module(run_tests)
from test_pool import Pool, Test


class Quiet:
    terminal = True
    said = ()

    def say(self, text):
        self.said += (text,)

    def status(self, text):
        pass

    def end(self):
        pass


def shell(name, text, **kw):
    return Test(name, ["sh", "-c", text], "/", timeout=30, **kw)


class Results(unittest.TestCase):
    def setUp(self):
        self.tally = run_tests.Tally(Quiet())
        self.tally.may_flake, self.tally.may_skip, self.tally.strict = [], [], True

    def tell(self, name, text):
        self.tally.done(shell(name, text).run())

    def test_results(self):
        self.tell("good", "exit 0")
        self.tell("bad", "echo why; exit 3")
        self.tell("crashed", "kill -SEGV $$")
        self.tell("sanitizer", "echo ERROR: AddressSanitizer: oops; exit 1")
        self.assertEqual(self.tally.failures, ["crashed", "sanitizer"])
        self.tally.repeat()
        self.assertEqual(self.tally.failures, ["crashed", "sanitizer", "bad"])
        self.assertEqual(self.tally.line(), "1 passed, 3 failed")

    def flaky(self):
        with tempfile.TemporaryDirectory() as d:
            self.tell("unsteady", f"mkdir {d}/was-here && exit 1; exit 0")
            self.tally.repeat()

    def test_flaky_is_a_failure(self):
        self.flaky()
        self.assertEqual((self.tally.passed, self.tally.failures), (0, ["unsteady"]))
        self.assertIn("flaky", self.tally.screen.said[-1])

    def test_flaky_with_a_reason(self):
        self.tally.may_flake = [["unst*", "it is known"]]
        self.flaky()
        self.assertEqual((self.tally.passed, self.tally.failures), (1, []))

    def test_skip_needs_a_reason(self):
        self.tell("skipped", "echo no oracle; exit 77")
        self.assertEqual(self.tally.line(), "0 passed, 1 failed")

    def test_skip_with_a_reason(self):
        self.tally.may_skip = [["skip*", "no ora*", "there is none"]]
        self.tell("skipped", "echo no oracle; exit 77")
        self.assertEqual(self.tally.line(), "0 passed, 0 failed, 1 skipped")

    def test_skip_where_nobody_promised(self):
        self.tally.strict = False
        self.tell("skipped", "echo no oracle; exit 77")
        self.assertEqual(self.tally.line(), "0 passed, 0 failed, 1 skipped")

    def test_parts_need_reasons(self):
        for said in ("ok 3 has a case # skip no go", "[  SKIPPED ] test_case", "ok 1 - case # SKIP", "﹣ case (0.1ms) # SKIP"):
            self.tell("parts", f"echo '{said}'")
            self.assertEqual(len(self.tally.failures), 1, said)
            self.tally.failures.clear()
        self.tell("parts", "echo '[  SKIPPED ] 1 test(s), listed below:'; echo 'ok 4 no skip in it'")
        self.assertEqual(self.tally.line(), "1 passed, 0 failed")

    def test_parts_with_reasons(self):
        self.tally.may_skip = [["parts:has*", "no go", "there is none"]]
        self.tell("parts", "echo 'ok 3 has a case # skip no go'")
        self.assertEqual(self.tally.line(), "1 passed, 0 failed")

    def test_hung(self):
        t = Test("hung", ["sleep", "30"], "/", timeout=0.2).run()
        self.assertIn("hung", t.result)

    def test_cpu(self):
        t = shell("busy", "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done").run()
        self.assertTrue(0.01 < t.cpu < 30, t.cpu)

    def test_lists(self):
        self.assertEqual(run_tests.rows_of("tests/flaky.txt", 2), [r for r in run_tests.rows_of("tests/flaky.txt", 2) if all(r)])
        self.assertTrue(run_tests.rows_of("tests/skips.txt", 3))


class Order(unittest.TestCase):
    def run_pool(self, tests, workers):
        done = []
        pool = Pool(workers, Quiet(), lambda t: done.append(t.name))
        pool.add(tests)
        pool.close()
        with contextlib.redirect_stdout(io.StringIO()):
            pool.wait(lambda: 0)
        return done

    def test_longest_first(self):
        done = self.run_pool([shell("a", ":", weight=1), shell("b", ":", weight=3), shell("c", ":", weight=2)], 1)
        self.assertEqual(done, ["b", "c", "a"])

    def test_more_while_processors_idle(self):
        with tempfile.TemporaryDirectory() as d:
            both = [shell(n, f"touch {d}/{n}; until [ -e {d}/a ] && [ -e {d}/b ]; do sleep 0.05; done") for n in "ab"]
            done = []
            pool = Pool(1, Quiet(), lambda t: done.append(t.result), most=2)
            pool.processors.idle = lambda: 1.0
            pool.add(both)
            pool.close()
            pool.wait(lambda: 0)
        self.assertEqual(done, ["ok", "ok"])
        pool.processors.idle, pool.looked = lambda: 0.0, 0
        pool.adapt()
        self.assertEqual(pool.room, 1)

    def test_alone(self):
        with tempfile.TemporaryDirectory() as d:
            beside = [shell(f"t{i}", f"touch {d}/{i}; sleep 0.2; rm {d}/{i}") for i in range(4)]
            alone = shell("alone", f"rmdir {d}; mkdir {d}", alone=True)
            done = self.run_pool([alone, *beside], 3)
        self.assertEqual((len(done), done[-1], alone.result), (5, "alone", "ok"))

    def test_one_of_a_group_at_a_time(self):
        with tempfile.TemporaryDirectory() as d:
            tests = [shell(f"t{i}", f"mkdir {d}/in || exit 1; sleep 0.2; rmdir {d}/in", group="one") for i in range(3)]
            tests += [shell("other", f"until [ -e {d}/in ]; do sleep 0.02; done", weight=-1)]
            done = self.run_pool(tests, 3)
        self.assertEqual((len(done), {t.result for t in tests}), (4, {"ok"}))


if __name__ == "__main__":
    unittest.main()
