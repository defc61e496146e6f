#!/usr/bin/env python3
"""windows.py HEAPWISE: traces in random order, judged by `heapwise check` and by a reader that sorts in windows, packet by packet.

The reader is the reference engine's way, written down plainly: it keeps all packets; when buffers were read and two flushes have ended since
the last time, it hands on, oldest first, those that stand before the window's begin, up to the first that does not. What is older than the
newest that it has handed on, it drops.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

HEAPWISE = os.path.abspath(sys.argv[1])
ROUNDS, PACKETS = 60, 120
FLUSHED, READ = 3, 4  # TracingServiceEvent


def put(v):
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def field(no, v):
    return put(no << 3) + put(v) if isinstance(v, int) else put(no << 3 | 2) + put(len(v)) + v


def packet(ts, no, data):
    return field(1, field(8, ts) + field(10, 1) + field(no, data))


def dropped(packets):
    """-> numbers of packets that are dropped; were all that stood before a window handed on each time?"""
    kept, lost, begin, newest, flushes, whole = [], set(), 0, 0, 0, True

    def hand_on(limit):
        nonlocal newest, kept
        kept.sort()
        n = 0
        for ts, i in kept:
            if i >= limit:
                break
            n += 1
            if ts < newest:
                lost.add(i)
            newest = max(newest, ts)
        kept = kept[n:]
        return all(i >= limit for _, i in kept)
    for i, (kind, ts) in enumerate(packets):
        if kind == "stats":
            kept.append((ts, i))
        flushes += kind == "flush"
        if kind == "read" and flushes >= 2:
            whole &= hand_on(begin)
            begin, flushes = i + 1, 0
    hand_on(len(packets) + 1)
    return lost, whole


def main():
    n_found = n_equal = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace")
        for seed in range(ROUNDS):
            rng = random.Random(seed)
            late, packets = rng.choice((0, 3, 30, 300)), []
            for now in range(1000, 1000 + PACKETS):
                kind = rng.choices(("stats", "flush", "read"), (8, 3, 2))[0]
                packets.append((kind, max(1, now - rng.randrange(late + 1)) if kind == "stats" else now))
            with open(path, "wb") as f:
                for kind, ts in packets:
                    f.write(packet(ts, 9, field(1, field(1, 7) + field(3, 1))) if kind == "stats"
                            else packet(ts, 69, field(FLUSHED if kind == "flush" else READ, 1)))
            r = subprocess.run([HEAPWISE, "check", "--json", "--max-each", "1000", path], stdout=subprocess.PIPE, check=True)
            rules = json.loads(r.stdout)["files"][0]["rules"]
            found = {x["packet"] - 1 for rule in rules if rule["rule"] == "time-order" for x in rule["findings"]}
            want, whole = dropped(packets)
            if not found <= want or whole and found != want:
                sys.exit(f"seed {seed}: found {sorted(found)}, dropped {sorted(want)}, {'all' if whole else 'not all'} handed on")
            n_found += len(found)
            n_equal += found == want
    print(f"{n_found} late packets, the same in {n_equal} of {ROUNDS} traces")
    if n_found < 20 or n_equal < ROUNDS / 2:
        sys.exit("too few")


main()
