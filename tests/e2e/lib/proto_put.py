"""Writes protobuf wire format: messages that none of our programs would write."""


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def number(field, n):
    return varint(field << 3) + varint(n)


def data(field, b):
    b = b.encode() if isinstance(b, str) else b
    return varint(field << 3 | 2) + varint(len(b)) + b


def packet(*fields):
    """One packet of a trace."""
    return data(1, b"".join(fields))
