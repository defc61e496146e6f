#!/usr/bin/env python3
"""How long a heap graph stops its JVM, as the JVM's own log of safepoints says, against jcmd's dump in the same run.

    HW_BUILD=build python3 bench/java/run.py [JAVA]

250 MB live in 9 M objects and a thread that allocates on. Bar: 25 ms at the safepoint (the way there excluded), 12 bytes
of trace an object."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ.get("HW_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
ROUNDS = 5
PROGRAM = r"""
import java.util.*;
public class Held {
    static final Map<Integer, List<String>> map = new HashMap<>();
    static volatile Object sink;
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 900000; i++) {
            List<String> l = new ArrayList<>(4);
            for (int k = 0; k < 3; k++) l.add("value " + i + " " + k);
            map.put(i, l);
        }
        System.gc();
        Thread t = new Thread(() -> { for (;;) { sink = new byte[200]; Thread.onSpinWait(); } });
        t.setDaemon(true); t.start();
        System.out.println("ready"); System.out.flush();
        System.in.read();
    }
}
"""


def pauses(log, since):
    """-> [(operation, ms)] of the log's lines behind `since`."""
    text = log.read_text()[since:]
    return [(m[1], int(m[2]) / 1e6) for m in re.finditer(r'Safepoint "(\w+)".*?At safepoint:\s*(\d+) ns', text)]



def main():
    java = sys.argv[1] if len(sys.argv) > 1 else "java"
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        (d / "Held.java").write_text(PROGRAM)
        subprocess.run(["javac", "--release", "11", "-Xlint:-options", "-d", d, d / "Held.java"], check=True)
        log = d / "safepoints"
        p = subprocess.Popen([java, "-Xmx512m", f"-Xlog:safepoint:file={log}", "-cp", d, "Held"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            p.stdout.readline()
            worst, theirs = 0.0, 0.0
            for i in range(ROUNDS):
                at = len(log.read_text())
                r = subprocess.run([BUILD / "src/cli/heapwise", "java", "dump", "-f", "-o", d / "t.trace", str(p.pid)],
                                   stderr=subprocess.PIPE, text=True, check=True)
                ours = [ms for op, ms in pauses(log, at) if op == "HeapWalkOperation"]
                at = len(log.read_text())
                subprocess.run(["jcmd", str(p.pid), "GC.heap_dump", "-all", d / f"{i}.hprof"], check=True,
                               stdout=subprocess.DEVNULL)
                dump = [ms for op, ms in pauses(log, at) if "Dump" in op]
                (d / f"{i}.hprof").unlink()
                print(f"  ours {' + '.join(f'{ms:.1f}' for ms in ours)} ms   jcmd {sum(dump):.0f} ms")
                worst, theirs = max(worst, sum(ours)), max(theirs, sum(dump))
            print("  " + r.stderr.splitlines()[0])
            n = subprocess.run([BUILD / "src/cli/heapwise", "query", d / "t.trace",
                                "select count(*), sum(self_size) from heap_graph_object"], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.splitlines()[1].split(",")
            size = (d / "t.trace").stat().st_size
            print(f"worst: ours {worst:.1f} ms, jcmd {theirs:.0f} ms; {int(n[0]) / 1e6:.2f} M objects, {int(n[1]) / 1e6:.0f} MB,"
                  f" {size / int(n[0]):.1f} bytes of trace an object")
            return 0 if worst <= 25 and size <= 12 * int(n[0]) else 1
        finally:
            p.kill()
            p.wait()


if __name__ == "__main__":
    sys.exit(main())
