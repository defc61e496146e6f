#!/usr/bin/env python3
"""What Java frames cost: CPU time of one JVM's work, recorded with native frames only and with Java frames, in turn.

    HW_BUILD=build python3 bench/java/stacks.py [ROUNDS]

Each round of the work allocates 300 KB natively (zlib, Unsafe) at 20 Java frames. Bar: 10 % at 512 KiB."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ.get("HW_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
PROGRAM = r"""
import java.util.zip.Deflater;
public class Native {
    static sun.misc.Unsafe u;
    static long cpu() { return ((com.sun.management.OperatingSystemMXBean)
        java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime(); }
    static double work() {
        Deflater d = new Deflater(); d.deflate(new byte[10]); d.end();
        u.freeMemory(u.allocateMemory(40000));
        double x = 3;
        for (int i = 0; i < 2000; i++) x = Math.sqrt(x + i);
        return x; }
    static double deep(int n) { return n > 0 ? deep(n - 1) : work(); }
    public static void main(String[] a) throws Exception {
        java.lang.reflect.Field f = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        f.setAccessible(true);
        u = (sun.misc.Unsafe) f.get(null);
        Thread.sleep(1000);
        for (int i = 0; i < 3000; i++) deep(20);
        long before = cpu();
        for (int i = 0; i < 60000; i++) deep(20);
        System.out.println("cpu_us " + (cpu() - before) / 1000);
    }
}
"""
WAYS = {"plain": None, "native": ["--no-managed-frames"], "mixed": []}


def run(folder, options):
    argv = ["java", "-Xmx256m", "-cp", folder, "Native"]
    if options is not None:
        argv = [str(BUILD / "src/cli/heapwise"), "record", "-q", "-i", "512k", "-f", "-o", f"{folder}/x.trace", *options,
                "--", *argv]
    out = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode()
    return int(re.search(r"cpu_us (\d+)", out)[1])


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    times = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "Native.java").write_text(PROGRAM)
        subprocess.run(["javac", "-d", folder, f"{folder}/Native.java"], check=True, stderr=subprocess.DEVNULL)
        for _ in range(rounds):
            for way, options in WAYS.items():
                times[way].append(run(folder, options))
    for way, t in times.items():
        print(f"{way:8} {statistics.median(t) / 1000:8.0f} ms of CPU")
    ratio = statistics.median(m / n for m, n in zip(times["mixed"], times["native"]))
    print(f"mixed over native {100 * (ratio - 1):+.1f} %")


main()
