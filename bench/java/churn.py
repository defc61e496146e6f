#!/usr/bin/env python3
"""What a churn profile costs: CPU time of one JVM's work, alone and with samples of its objects, in turn.

    HW_BUILD=build python3 bench/java/churn.py [ROUNDS] [INTERVAL]

The program makes small objects and lets go of them, as a server does between two requests, 30 frames deep: some 1 GB/s.
Counted is what the whole JVM takes, user and system, its collector's and our threads included, after its start.
Bar: 3 % at 512 KiB."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ.get("HW_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
PROGRAM = r"""
import java.util.*;
public class Churn {
    static long cpu() { return ((com.sun.management.OperatingSystemMXBean)
        java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime(); }
    static int sink;
    static void work(int i) {
        Map<Integer, String> m = new HashMap<>();
        for (int k = 0; k < 20; k++) m.put(k * i, "value " + k);
        byte[] b = new byte[2000];
        for (int k = 0; k < b.length; k++) b[k] = (byte) (k ^ i);
        int h = 0;
        for (Map.Entry<Integer, String> e : m.entrySet()) h = 31 * h + e.getValue().hashCode() + b[e.getKey() & 1023];
        sink += h; }
    static void deep(int n, int i) { if (n > 0) deep(n - 1, i); else work(i); }
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 200000; i++) deep(30, i);
        Thread.sleep(1500);
        for (int i = 0; i < 200000; i++) deep(30, i);
        long before = cpu();
        for (int i = 0; i < 1500000; i++) deep(30, i);
        System.out.println("cpu_us " + (cpu() - before) / 1000);
    }
}
"""
# Where only objects are asked for, malloc is sampled at 64 KiB, so that the library comes in; nothing of it is shown.
WAYS = {"plain": None, "churn": ["--heap", "com.android.art"]}


def run(folder, options, interval):
    argv = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", folder, "Churn"]
    if options is not None:
        argv = [str(BUILD / "src/cli/heapwise"), "record", "-q", "-i", interval, "-f", "-o", f"{folder}/x.trace",
                "--no-symbolize", *options, "--", *argv]
    out = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode()
    return int(re.search(r"cpu_us (\d+)", out)[1])


def samples(folder):
    p = subprocess.run([str(BUILD / "src/cli/heapwise"), "query", f"{folder}/x.trace",
                        "select sum(count), sum(size) from heap_profile_allocation where heap_name = 'com.android.art' and size > 0"],
                       stdout=subprocess.PIPE, check=True)
    return p.stdout.decode().splitlines()[1]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    interval = sys.argv[2] if len(sys.argv) > 2 else "512k"
    times = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "Churn.java").write_text(PROGRAM)
        subprocess.run(["javac", "-d", folder, f"{folder}/Churn.java"], check=True, stderr=subprocess.DEVNULL)
        for i in range(rounds):
            for way, options in list(WAYS.items())[:: -1 if i % 2 else 1]:  # who comes first alternates, too
                times[way].append(run(folder, options, interval))
        counted = samples(folder)
    for way, t in times.items():
        print(f"{way:8} {statistics.median(t) / 1000:8.0f} ms of CPU, {min(t) / 1000:.0f} to {max(t) / 1000:.0f}")
    ratios = sorted(c / p for c, p in zip(times["churn"], times["plain"]))
    n = len(ratios)
    print(f"churn over plain {100 * (statistics.median(ratios) - 1):+.1f} % (pairs: {100 * (ratios[n // 4] - 1):+.1f} to "
          f"{100 * (ratios[3 * n // 4] - 1):+.1f} in the middle half); of the fastest ones "
          f"{100 * (min(times['churn']) / min(times['plain']) - 1):+.1f} %")
    print(f"samples' count and bytes: {counted}")


main()
