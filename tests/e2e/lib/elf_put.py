"""Writes ELF files: one code segment at 0x1000, a build id, and the sections that a test wants."""
import struct
import zlib

BUILD_ID = bytes(range(1, 21))
COMPRESSED = 0x800
SYMTAB, STRTAB, PROGBITS = 2, 3, 1


class Section:
    def __init__(self, name, data, kind=PROGBITS, flags=0, link="", size=None, entry=0):
        self.name, self.data, self.kind, self.flags = name, data, kind, flags
        self.link, self.size, self.entry = link, len(data) if size is None else size, entry


def compressed(name, data, size, kind=PROGBITS, link="", entry=0):
    """A section that claims to unpack to `size` bytes."""
    return Section(name, struct.pack("<IIQQ", 1, 0, size, 1) + data, kind, COMPRESSED, link, entry=entry)


def deflated_zeros(n_mib):
    c = zlib.compressobj(9)
    return b"".join(c.compress(bytes(1 << 20)) for _ in range(n_mib)) + c.flush()


def symbols(names):
    """.symtab and .strtab: functions of 16 bytes from 0x1000 on."""
    table, text = bytes(24), b"\0"
    for i, name in enumerate(names):
        table += struct.pack("<IBBHQQ", len(text), 0x12, 0, 1, 0x1000 + 16 * i, 16)
        text += name + b"\0"
    return [Section(".symtab", table, SYMTAB, link=".strtab", entry=24), Section(".strtab", text, STRTAB)]


def write(path, sections, hole=0):
    """hole: how many bytes the file is larger than its contents."""
    note = struct.pack("<III", 4, len(BUILD_ID), 3) + b"GNU\0" + BUILD_ID
    sections = [Section(".text", b"\x90" * 4096), *sections]
    names, at = b"\0", {}
    for s in sections:
        at[s.name] = len(names)
        names += s.name.encode() + b"\0"
    at[".shstrtab"] = len(names)
    sections = [*sections, Section(".shstrtab", names + b".shstrtab\0", STRTAB)]
    index = {s.name: i + 1 for i, s in enumerate(sections)}
    body, headers = b"", bytes(64)
    base = 64 + 2 * 56 + len(note)
    body = bytes(4096 - base)
    for s in sections:
        headers += struct.pack("<IIQQQQIIQQ", at[s.name], s.kind, s.flags | (6 if s.name == ".text" else 0),
                               0x1000 if s.name == ".text" else 0, base + len(body), s.size, index.get(s.link, 0), 1,
                               1, s.entry)
        body += s.data
    with open(path, "wb") as f:
        f.write(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0x1000, 64, base + len(body) + hole,
                                                           0, 64, 56, 2, 64, len(sections) + 1, len(sections)))
        f.write(struct.pack("<IIQQQQQQ", 1, 5, 0x1000, 0x1000, 0x1000, 4096, 4096, 4096))
        f.write(struct.pack("<IIQQQQQQ", 4, 4, 64 + 2 * 56, 0, 0, len(note), len(note), 4))
        f.write(note + body)
        f.seek(hole, 1)
        f.write(headers)
    return path


# ---- DWARF ----

def uleb(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def abbrev(code, tag, children, *attributes):
    return uleb(code) + uleb(tag) + bytes([children]) + b"".join(uleb(a) + uleb(f) for a, f in attributes) + b"\0\0"


def debug_info(entries):
    """One unit of DWARF 4."""
    body = struct.pack("<HIB", 4, 0, 8) + entries
    return struct.pack("<I", len(body)) + body


def line_table(program):
    head = bytes([1, 1, 1, 0xfb, 14, 13]) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + b"\0" + b"a.c\0\0\0\0\0"
    body = struct.pack("<HI", 4, len(head)) + head + program
    return struct.pack("<I", len(body)) + body
