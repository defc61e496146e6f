#!/usr/bin/env python3
"""Allocations that were freed again within a second, by function, against what the program knows of them."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import rooms
from lib import hw

FUNCTIONS = ("fn_at_once", "fn_handed", "fn_moved", "fn_late", "fn_kept")


def by_function(dump):
    return {n: (sum(s.temporary for s in dump.samples if n in s.stack),
                sum(s.temporary_count for s in dump.samples if n in s.stack)) for n in FUNCTIONS}


def lives(text):
    """-> {function: ((bytes, count) at least, at most)}"""
    lines = [line.split() for line in text.decode().splitlines() if line.startswith("TEMPORARY")]
    want = {n: ((int(a), int(b)), (int(c), int(d))) for _, n, a, b, c, d in lines}
    return {**want, "fn_kept": ((0, 0), (0, 0))}


def exact(box):
    """To the byte, by function; of what lived about a second, for as long as the machine let a thread wait, between."""
    r = hw.record(box, [hw.target("temporary")], interval=1)
    d = hw.sound(r.trace).last()
    hw.exact(d, hw.expectations(r.target_stdout), "temporary")
    hw.true(d.has_temporary, "the dump says that it knows")
    have, want = by_function(d), lives(r.target_stdout)
    for n, (least, most) in want.items():
        print(f"  {n}: {have[n]}, in truth {least}" + ("" if least == most else f" to {most}"))
        hw.true(all(a <= x <= b for a, x, b in zip(least, have[n], most)), f"{n}: {have[n]}, not {least} to {most}")
    hw.equal((have["fn_late"], have["fn_kept"]), ((0, 0), (0, 0)), "freed late, never")
    hw.true(have["fn_at_once"][1] > 0, "freed at once")


if __name__ == "__main__":
    hw.main({"exact": exact})
