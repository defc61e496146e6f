"""Protobuf wire format without a schema: enough to read traces and pprof files, independently of the product."""
import collections


def varint(b, i):
    r = s = 0
    while True:
        c = b[i]
        i += 1
        r |= (c & 127) << s
        if c < 128:
            return r & (1 << 64) - 1, i
        s += 7
        if s > 63:
            raise ValueError("varint too long")


def fields(b):
    """-> (number, value): int for varints and fixed, bytes for the rest."""
    i, n = 0, len(b)
    while i < n:
        key, i = b[i], i + 1
        if key > 127:  # most are of one byte, and a call for each would take half the time
            key, i = varint(b, i - 1)
        no, wire = key >> 3, key & 7
        if wire == 0:
            v, i = b[i], i + 1
            if v > 127:
                v, i = varint(b, i - 1)
        elif wire == 1:
            v, i = int.from_bytes(b[i:i + 8], "little"), i + 8
        elif wire == 2:
            size, i = varint(b, i)
            if i + size > n:
                raise ValueError(f"field {no} of {size} bytes ends {i + size - n} bytes too late")
            v, i = b[i:i + size], i + size
        elif wire == 5:
            v, i = int.from_bytes(b[i:i + 4], "little"), i + 4
        else:
            raise ValueError(f"wire type {wire} of field {no}")
        yield no, v


def message(b):
    """-> {number: [values]}"""
    m = collections.defaultdict(list)
    for no, v in fields(b):
        m[no].append(v)
    return m


def ints(values):
    """A repeated integer, packed or not."""
    out = []
    for v in values:
        if isinstance(v, int):
            out.append(v)
        else:
            i = 0
            while i < len(v):
                x, i = varint(v, i)
                out.append(x)
    return out


def one(m, no, default=0):
    return m[no][-1] if no in m and m[no] else default


def text(m, no):
    return bytes(one(m, no, b"")).decode(errors="replace")
