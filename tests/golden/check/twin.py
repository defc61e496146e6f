#!/usr/bin/env python3
"""twin.py HEAPWISE PROTO_DIR TESTS_DIR: traces spoiled at random, judged by `heapwise check` and by the tests' own reader.

The reader (tests/e2e/lib/trace.py) shares no line with the checker and keeps everything in dictionaries. What it finds, the
checker must find; for rules that both know completely, the other way round, too.
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

HEAPWISE, PROTO, TESTS = os.path.abspath(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
sys.path.insert(0, str(TESTS / "e2e"))
from lib.proto import varint  # noqa: E402
from lib.trace import Trace  # noqa: E402

SEEDS = ["golden/check/profile/good.txt", "golden/check/profile/callsite-twice.txt", "golden/trace/native/profile.txt",
         "golden/trace/native/checkpoint.txt"]
ROUNDS = 100  # of each seed
# A word of the reader's problem -> the rule; True: the reader finds all that the rule means.
RULES = {"missing_packet": ("dump-index", True), "more freed": ("sample-freed", True), "non_finalized": ("dump-unfinished", True),
         "are one": ("callsite-twice", True), "invalid_callstack_id 0": ("iid-zero", False), "invalid_callstack_id": ("iid-undefined", False),
         "invalid_frame_id 0": ("iid-zero", False), "invalid_frame_id": ("iid-undefined", False), "invalid_mapping_id": ("iid-undefined", False),
         "invalid_string_id": ("iid-undefined", False), "defined twice": ("iid-redefined", False),
         "empty_callstack": ("callstack-empty", False), "no snapshot": ("clock-undefined", False),
         "interned data without": ("state-not-cleared", False)}


def put(v):
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def parts(b):
    """-> [[number, wire, value]] of a message"""
    out, i = [], 0
    while i < len(b):
        key, i = varint(b, i)
        if key & 7 == 0:
            v, i = varint(b, i)
        elif key & 7 == 1:
            v, i = b[i:i + 8], i + 8
        elif key & 7 == 5:
            v, i = b[i:i + 4], i + 4
        else:
            n, i = varint(b, i)
            v, i = b[i:i + n], i + n
        out.append([key >> 3, key & 7, v])
    return out


def joined(fields):
    out = b""
    for number, wire, v in fields:
        out += put(number << 3 | wire) + (put(v) if wire == 0 else put(len(v)) + v if wire == 2 else v)
    return out


# Messages below a packet: profile_packet, its dumps and samples; interned data, its mappings, frames, callstacks.
INSIDE = {(): (37, 12), (37,): (5,), (37, 5): (2,), (12,): (5, 6, 7, 19)}
# Not changed: the packet's time, sequence and flags; a dump's process and times.
KEPT = {(): {8, 10, 13, 58}, (37, 5): {1, 9, 15}}


def numbers(fields, path=()):
    """The places of the numbers that may be changed."""
    return [i for i, (number, wire, _) in enumerate(fields) if wire == 0 and number not in KEPT.get(path, ())]


def spoil(packets, rng):
    """One change to one packet, or to the order of packets."""
    how = rng.randrange(4)
    if how == 0 and len(packets) > 2:
        packets.pop(rng.randrange(len(packets)))
        return
    i = rng.randrange(len(packets))
    path, stack = (), [parts(packets[i])]
    trail = []
    while rng.random() < 0.8:
        at = [k for k, f in enumerate(stack[-1]) if f[1] == 2 and f[0] in INSIDE.get(path, ())]
        if not at:
            break
        k = rng.choice(at)
        trail.append(k)
        path += (stack[-1][k][0],)
        stack.append(parts(stack[-1][k][2]))
    inner = stack[-1]
    choices = numbers(inner, path)
    if how == 2 and path == (37,):
        inner[:] = [f for f in inner if f[0] != 6] + [[6, 0, 1]]  # continued
    elif how == 2 and path == (12, 7):
        inner[:] = [f for f in inner if f[0] != 2]  # no frames
    elif how == 1 and path and inner and inner[0][1] == 0:
        inner.pop(rng.randrange(len(inner)))
    elif choices:
        k = rng.choice(choices)
        inner[k][2] = max(0, inner[k][2] + rng.choice((-1, 1, 5, -3)))
    while trail:
        body = joined(stack.pop())
        stack[-1][trail.pop()][2] = body
    packets[i] = joined(stack[0])


def rules_found(path):
    ran = subprocess.run([HEAPWISE, "check", "--json", str(path)], stdout=subprocess.PIPE)
    return {r["rule"] for r in json.loads(ran.stdout)["files"][0]["rules"]}


def compare(path):
    problems, found = Trace(path).problems, rules_found(path)
    wrong = []
    unresolved = found & {"iid-undefined", "iid-zero"}  # the reader leaves such samples out, the checker does not compare them
    for word, (rule, complete) in RULES.items():
        seen = [p for p in problems if word in p and (p == word or p not in RULES)]
        if seen and rule not in found and not (rule == "callsite-twice" and unresolved):
            wrong.append(f"{rule} was not found, but: {seen[0]}")
        if complete and rule in found and not seen and not unresolved:
            wrong.append(f"only the checker found {rule}")
    return wrong, found


def main():
    if not shutil.which("protoc"):
        print("no protoc")
        return 77
    rng, n_bad, hit = random.Random(20260923), 0, set()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace"
        for seed in SEEDS:
            text = (TESTS / seed).read_bytes()
            data = subprocess.run(["protoc", f"-I{PROTO}", "--encode=perfetto.protos.Trace", "trace.proto", "heapwise.proto",
                                   "art.proto"], input=text, stdout=subprocess.PIPE, check=True).stdout
            for round_ in range(ROUNDS):
                packets = [v for _, _, v in parts(data)]
                for _ in range(rng.randrange(0, 4)):
                    spoil(packets, rng)
                path.write_bytes(joined([1, 2, p] for p in packets))
                wrong, found = compare(path)
                hit |= found
                if wrong:
                    n_bad += 1
                    if os.environ.get("KEEP"):
                        shutil.copy(path, f"{os.environ['KEEP']}/{pathlib.Path(seed).stem}.{round_}")
                    print(f"{seed} round {round_}: {wrong}")
    missing = {rule for rule, _ in RULES.values()} - hit - {"state-not-cleared"}
    if missing:
        print(f"never met: {missing}")
    print(f"{n_bad} of {len(SEEDS) * ROUNDS} judged otherwise; rules met: {sorted(hit)}")
    return 1 if n_bad or missing else 0


sys.exit(main())
