#!/usr/bin/env python3
"""gen.py NODES [SHAPE]: folded stacks whose tree has about NODES nodes, on standard output.

SHAPE: mix (default; trees of real programs: wide above, chains below, sizes over five decades),
deep (a few very long stacks), comb (one column a leaf)."""
import random
import sys


def mix(n, r):
    names = ["ns%d::Class%d::method_%d" % (i % 40, i % 700, i) for i in range(20000)]
    made = 0
    prefixes = [["main"]]
    while made < n:
        stack = list(r.choice(prefixes))
        for _ in range(r.randint(1, 14)):
            stack.append(names[int(len(names) * r.random() ** 2)])
            made += 1
        if len(stack) < 90 and (len(prefixes) < 3000 or r.random() < 0.2):
            at = len(prefixes) if len(prefixes) < 3000 else r.randrange(3000)
            prefixes[at:at + 1] = [stack]
        print(";".join(stack), int(16 * 10 ** (5 * r.random())))


def deep(n, r):
    for k in range(max(1, n // 200)):
        print(";".join(["main"] + ["level%d_%d" % (k, i) for i in range(200)]), r.randint(1, 10**6))


def comb(n, r):
    for k in range(n):
        print("main;leaf%d %d" % (k, r.randint(1, 10**4)))


{"mix": mix, "deep": deep, "comb": comb}[sys.argv[2] if len(sys.argv) > 2 else "mix"](
    int(sys.argv[1]), random.Random(1))
