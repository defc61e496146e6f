#!/usr/bin/env python3
"""The truth of numbers: 26 functions that know what they allocated, exact and sampled."""
import json
import math
import os
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw
from lib.pprof import Pprof

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZES = dict(zip(LETTERS, (16, 24, 40, 56, 64, 72, 100, 144, 192, 250, 333, 400, 512, 640, 777, 1024, 1300, 2000,
                           3072, 4096, 5000, 8192, 12345, 33333, 100000, 1000000)))
INTERVAL = 4096
SEEDS = 60 if os.environ.get("HW_LONG") else 12
WHAT = ("bytes", "allocations", "live bytes", "live objects")


def pprof_of(box, trace, name, *options):
    out = box.path(name)
    box.run([hw.tool("heapwise"), "convert", "-t", "pprof", *options, trace, out], check=0)
    p = Pprof(out)
    return {f"fn_{c}": [p.of(f"fn_{c}")[k] for k in ("alloc_space", "alloc_objects", "space", "objects")]
            for c in LETTERS}


def exact(threads):
    """Interval 1: bytes and numbers, allocated and live, in the trace and in both kinds of pprof."""
    def case(box):
        argv = [hw.target("truth"), "0.05", str(threads)]
        plain = box.run(argv)
        r = hw.record(box, argv)
        want = hw.expectations(plain.stdout)
        hw.equal(r.target_stdout, plain.stdout, "output")
        hw.exact(hw.sound(r.trace).last(), want, f"{threads} threads")
        hw.equal(pprof_of(box, r.trace, "e.pb.gz"), want, "pprof")
        hw.equal(pprof_of(box, r.trace, "r.pb.gz", "--raw-counts"), want, "pprof --raw-counts")
    return case


def constructors(box):
    """Interval 1: what a library's constructor allocates, which runs before the client's, on a thread
    of its own as well; what it puts into the environment is there."""
    argv = [hw.target("constructor")]
    plain = box.run(argv)
    r = hw.record(box, argv)
    hw.equal(r.target_stdout, plain.stdout, "output")
    hw.exact(hw.sound(r.trace).last(), hw.expectations(plain.stdout))


def variance(f, want):
    """Of one run's four figures: below the interval a Poisson process over bytes, else exact."""
    s = SIZES[f[-1]]
    if s >= INTERVAL:
        return [0, 0, 0, 0]
    return [INTERVAL * want[0], INTERVAL * want[1] / s, INTERVAL * want[2], INTERVAL * want[3] / s]


def unbiased(threads):
    """4 KiB: over many seeds each function's mean is the truth, within its standard error, in the trace
    and through pprof; --raw-counts is the number of samples and nothing else."""
    def case(box):
        argv = [hw.target("truth"), "0.1", str(threads)]
        want = hw.expectations(box.run(argv).stdout)
        sums = {f: [0.0] * 4 for f in want}
        for seed in range(1, SEEDS + 1):
            r = hw.record(box, argv, "--seed", str(seed), interval=INTERVAL, trace=f"{seed}.trace")
            d = hw.sound(r.trace).last()
            raw = {f: [0] * 4 for f in want}
            est = {f: [0.0] * 4 for f in want}
            for s in d.samples:
                for f in set(s.stack) & want.keys():
                    for k, v in enumerate((s.alloc, s.est_allocs, s.alloc - s.freed, s.est_allocs - s.est_frees)):
                        est[f][k] += v
                    for k, v in enumerate((s.alloc, s.allocs, s.alloc - s.freed, s.allocs - s.frees)):
                        raw[f][k] += v
            if seed == 1:
                hw.equal(pprof_of(box, r.trace, "r.pb.gz", "--raw-counts"), raw, "pprof --raw-counts")
            shown = pprof_of(box, r.trace, "e.pb.gz")
            for f in want:
                for k in range(4):
                    hw.true(abs(shown[f][k] - est[f][k]) <= 4, f"pprof {f} {WHAT[k]}: {shown[f][k]}, trace {est[f][k]}")
                    sums[f][k] += shown[f][k]
        worst, total = 0, [[0.0, 0.0, 0.0] for _ in WHAT]  # error, variance, truth
        for f in want:
            var = variance(f, want[f])
            for k in range(4):
                error, se = sums[f][k] / SEEDS - want[f][k], math.sqrt(var[k] / SEEDS)
                total[k] = [t + x for t, x in zip(total[k], (error, var[k] / SEEDS, want[f][k]))]
                hw.true(abs(error) <= 4.5 * se + 0.5, f"{f} {WHAT[k]}: off by {error:.1f}, standard error {se:.1f}")
                worst = max(worst, abs(error) / se if se else 0)
        for k, (error, var, truth) in enumerate(total):
            se = math.sqrt(var)
            print(f"  {WHAT[k]}: bias {100 * error / truth:+.3f} %, standard error {100 * se / truth:.3f} %")
            hw.true(abs(error) <= 4 * se + 1, f"{WHAT[k]}: off by {error:.1f}, standard error {se:.1f}")
        print(f"  {SEEDS} seeds; the farthest of 104 figures is {worst:.2f} standard errors off")
    return case


METRICS = ("alloc_space", "alloc_objects", "space", "objects")


def cover(box):
    """4 KiB: the errors that the report states hold the truth in 95 % of the figures, of single
    functions with ten samples and of the whole program, whose sizes are mixed."""
    argv = [hw.target("truth"), "0.1"]
    want = hw.expectations(box.run(argv).stdout)
    whole = [sum(w[k] for w in want.values()) for k in range(4)]
    held, n = [[0, 0], [0, 0]], [0, 0]
    for seed in range(1, SEEDS + 1):
        r = hw.record(box, argv, "--seed", str(seed), interval=INTERVAL, trace=f"{seed}.trace")
        report = json.loads(box.run([hw.tool("heapwise"), "report", "--json", "--top", "0", r.trace], check=0).stdout)
        sites = {s["function"]: s for s in report["sites"]}
        for f in want.keys() & sites.keys():
            for k, m in enumerate(METRICS):
                s, size = sites[f], SIZES[f[-1]]
                value, error = s[m], s[f"{m}_error"]
                if size >= INTERVAL:
                    hw.equal((value, error), (want[f][k], 0), f"{f} {m}, exact")
                elif s["alloc_samples" if k < 2 else "samples"] >= 10:
                    held[0][k % 2] += abs(value - want[f][k]) <= error + 1
                    n[0] += k % 2
        for k, m in enumerate(METRICS):
            at = report["end"]
            held[1][k % 2] += abs(at[m] - whole[k]) <= at[f"{m}_error"] + 1
            n[1] += k % 2
    for what, ok, all_ in zip(("functions", "whole program"), held, n):
        for unit, one in zip(("bytes", "counts"), ok):
            print(f"  {unit} of {what}: {one} of {all_} intervals hold the truth")
            # A function's four figures are one sample: as if there were half as many.
            noise = 2.5 * math.sqrt(0.954 * 0.046 / (all_ / 2))
            hw.true(one / all_ >= 0.954 - 0.02 - noise, f"{unit} of {what}: {one} of {all_}")


CASES = {"exact": exact(0), "exact-threads": exact(4), "unbiased": unbiased(0), "unbiased-threads": unbiased(3),
         "cover": cover, "constructors": constructors}

if __name__ == "__main__":
    hw.main(CASES)
