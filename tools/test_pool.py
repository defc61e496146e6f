"""
test_pool - runs tests in parallel and shows its progress

Why:     Meson's own runner writes nothing to a log until its end, runs one build directory at a time and starts tests in the
         order of their definition. Here tests of several builds share the processors, the longest start first, and tests
         can be added while others run.
Shapes:  a Test comes from Meson's introspection, or is a check of ours. A Pool runs `workers` at a time, and up to `most`
         while processors idle, as many tests are waiting; the longest that may run is next. Tests with `alone` run when
         nothing else does; tests with the same `group` run one at a time, in parallel to others. Results are passed to one
         function, called by one thread at a time.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

SKIP = 77
LOG_EVERY = 10  # seconds, without a terminal
LOOK_EVERY = 0.5  # seconds, at the processors: most tests take about a second
MIN_TIMEOUT = 300  # seconds: a test's own limit is for one that runs alone on an idle machine


class Test:
    def __init__(self, name, argv, cwd, env=None, timeout=None, weight=0, alone=False, group=None):
        self.name, self.argv, self.cwd, self.env = name, argv, cwd, env or {}
        self.timeout, self.weight, self.alone, self.group = timeout, weight, alone, group
        self.result, self.output, self.returncode = None, "", None
        self.seconds = self.cpu = 0.0  # wall-clock; processors' time, without processes that outlive the test or have left it

    def run(self):
        """Sets result: ok, skip, or the failure."""
        start = time.monotonic()
        with tempfile.TemporaryFile() as out:  # no pipe: processes that a test leaves behind may hold it open
            try:
                p = subprocess.Popen(self.argv, cwd=self.cwd, env={**os.environ, **self.env}, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT, start_new_session=True)
                self.result = self.wait(p)
                self.returncode = p.returncode
            except OSError as e:
                self.result, self.returncode = f"{self.argv[0]}: {e}", 127
            out.seek(0)
            self.output = out.read().decode(errors="replace")
        self.seconds = time.monotonic() - start
        return self

    def wait(self, p):
        hung = threading.Event()

        def kill():
            hung.set()
            os.killpg(p.pid, signal.SIGKILL)

        late = threading.Timer(self.timeout, kill) if self.timeout else None
        if late:
            late.start()
        os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)  # keep its pid until the timer can no longer kill it
        if late:
            late.cancel()
            late.join()
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = code = os.waitstatus_to_exitcode(status)
        self.cpu = used.ru_utime + used.ru_stime
        if hung.is_set():
            return f"hung for {self.timeout:.0f} s"
        if code < 0:
            return f"killed by signal {-code}"
        return {0: "ok", SKIP: "skip"}.get(code, f"exit {code}")


class Screen:
    """A status line on a terminal; a line now and then in a log."""

    def __init__(self):
        self.terminal = sys.stdout.isatty()
        self.told = time.monotonic()
        self.lock = threading.Lock()

    def say(self, text):
        with self.lock:
            print(("\r\033[K" if self.terminal else "") + text, flush=True)

    def status(self, text):
        with self.lock:
            if self.terminal:
                room = os.get_terminal_size().columns - 1
                print("\r\033[K" + text[:room], end="", flush=True)
            elif time.monotonic() - self.told >= LOG_EVERY:
                self.told = time.monotonic()
                print(text, flush=True)

    def end(self):
        if self.terminal:
            print("\r\033[K", end="", flush=True)


class Processors:
    """The share of time since the last call that tests may take, 0..1: idle, or of builds, which yield to them."""

    def __init__(self):
        self.before = self.times()

    def times(self):
        try:
            with open("/proc/stat") as f:
                t = [int(x) for x in f.readline().split()[1:9]]
        except (OSError, ValueError):
            t = [0] * 8
        return t[3] + t[4] + (0 if os.nice(0) else t[1]), sum(t)

    def idle(self):
        (idle, total), (idle_before, total_before) = now, _ = self.times(), self.before
        self.before = now
        return (idle - idle_before) / (total - total_before) if total > total_before else 0.0


class Pool:
    """done(test) is called with each result."""

    def __init__(self, workers, screen, done, most=0):
        self.screen, self.done = screen, done
        self.workers, self.most, self.room = workers, max(workers, most), workers
        self.processors, self.looked = Processors(), time.monotonic()
        self.change = threading.Condition()
        self.waiting, self.running = [], {}  # running: test -> start time
        self.finished = self.total = 0
        self.open, self.note = True, ""
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(self.most)]
        for t in self.threads:
            t.start()

    def add(self, tests):
        with self.change:
            self.waiting += tests
            self.waiting.sort(key=lambda t: (t.alone, -t.weight))
            self.total += len(tests)
            self.change.notify_all()

    def close(self):
        """No more tests will be added."""
        with self.change:
            self.open = False
            self.change.notify_all()

    def next(self):
        """With the lock held: a test that may run now, or None."""
        if not self.waiting or len(self.running) >= self.room or any(t.alone for t in self.running):
            return None
        groups = {t.group for t in self.running if t.group}
        test = next((t for t in self.waiting if t.group not in groups), None)
        if not test or test.alone and (self.running or self.open):
            return None
        self.waiting.remove(test)
        return test

    def adapt(self):
        """With the lock held, now and then: allows more tests by as many processors as idle, one less if hardly any does."""
        if time.monotonic() - self.looked < LOOK_EVERY:
            return
        self.looked, idle = time.monotonic(), self.processors.idle()
        if idle > 0.1:
            self.room = min(self.room + max(1, round(idle * (os.cpu_count() or 1))), self.most)
            self.change.notify_all()
        elif idle < 0.03:
            self.room = max(self.room - 1, self.workers)

    def work(self):
        while True:
            with self.change:
                while not (test := self.next()):
                    if not self.open and not self.waiting:
                        return
                    self.change.wait()
                self.running[test] = time.monotonic()
            test.run()
            with self.change:
                del self.running[test]
                self.finished += 1
                self.done(test)
                self.change.notify_all()

    def wait(self, failed):
        """Waits until everything is done and shows progress. failed(): number of failures so far."""
        while any(t.is_alive() for t in self.threads):
            with self.change:
                self.adapt()
                now = time.monotonic()
                names = [f"{t.name} ({now - since:.0f} s)" for t, since in sorted(self.running.items(), key=lambda i: i[1])]
                count = f"[{self.finished}/{self.total}{'+' if self.open else ''}, {failed()} failed]"
            self.screen.status(" ".join(filter(None, [count, self.note, ", ".join(names)])))
            time.sleep(0.2)
        self.screen.end()


def of_meson(introspected, build, label="", env=None, factor=1, seconds=None):
    """A Test from a row of `meson introspect --tests`. seconds: {name: duration of an earlier run}."""
    name = label + introspected["name"]
    env = {**introspected["env"], **(env or {})}
    if not label and "MALLOC_PERTURB_" not in os.environ:
        env.setdefault("MALLOC_PERTURB_", str(random.randint(1, 255)))
    timeout = max(introspected["timeout"] * factor, MIN_TIMEOUT) if introspected["timeout"] > 0 else None
    group = next((s for s in (s.split(":")[-1] for s in introspected["suite"]) if s.startswith("one-")), None)
    return Test(name, introspected["cmd"], introspected["workdir"] or build, env, timeout,
                (seconds or {}).get(name, introspected["priority"]), not introspected["is_parallel"] and not group, group)
