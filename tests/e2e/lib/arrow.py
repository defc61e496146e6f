"""Reads Arrow files as trace_processor_shell export arrow_tar writes them: int64, float64 and utf8 columns."""
import struct


class Table:
    """A flatbuffer's table."""

    def __init__(self, b, at):
        self.b, self.at = b, at
        self.vtable = at - struct.unpack_from("<i", b, at)[0]

    def offset(self, field):
        n = struct.unpack_from("<H", self.b, self.vtable)[0]
        off = struct.unpack_from("<H", self.b, self.vtable + 4 + 2 * field)[0] if 4 + 2 * field < n else 0
        return self.at + off if off else None

    def get(self, field, form):
        at = self.offset(field)
        if at is None:
            return 0
        size = struct.calcsize("<" + form)
        assert at % size == 0, "not aligned"
        return struct.unpack_from("<" + form, self.b, at)[0]

    def ref(self, field):
        at = self.offset(field)
        return at + struct.unpack_from("<I", self.b, at)[0]

    def table(self, field):
        return Table(self.b, self.ref(field))

    def text(self, field):
        at = self.ref(field)
        n = struct.unpack_from("<I", self.b, at)[0]
        return self.b[at + 4:at + 4 + n].decode()

    def tables(self, field):
        at = self.ref(field)
        n = struct.unpack_from("<I", self.b, at)[0]
        refs = [at + 4 + 4 * i for i in range(n)]
        return [Table(self.b, r + struct.unpack_from("<I", self.b, r)[0]) for r in refs]

    def structs(self, field, form):
        at = self.ref(field)
        n = struct.unpack_from("<I", self.b, at)[0]
        assert n == 0 or (at + 4) % 8 == 0, "not aligned"
        size = struct.calcsize("<" + form)
        return [struct.unpack_from("<" + form, self.b, at + 4 + size * i) for i in range(n)]


def root(b):
    return Table(b, struct.unpack_from("<I", b, 0)[0])


def columns(schema):
    return [(f.text(0), {2: "q", 3: "d", 5: "s"}[f.get(2, "B")]) for f in schema.tables(1)]


def column(form, n, buffers):
    valid, *rest = buffers
    present = [valid[i >> 3] >> (i & 7) & 1 for i in range(n)]
    if form == "s":
        ends = struct.unpack(f"<{n + 1}i", rest[0])
        cells = [rest[1][ends[i]:ends[i + 1]].decode() for i in range(n)]
    else:
        cells = struct.unpack(f"<{n}{form}", rest[0])
    return [c if p else None for c, p in zip(cells, present)]


def read(b):
    """-> (names, rows), from the file's bytes."""
    assert b[:8] == b"ARROW1\0\0" and b[-6:] == b"ARROW1", "magic"
    n = struct.unpack("<I", b[-10:-6])[0]
    footer = root(b[-10 - n:-10])
    cols = columns(footer.table(1))
    # the schema at the start of the file is the same
    mark, size = struct.unpack_from("<II", b, 8)
    message = root(b[16:16 + size])
    assert mark == 0xffffffff and message.get(0, "h") == 4 and message.get(1, "B") == 1
    assert columns(message.table(2)) == cols, "two schemas"
    rows = []
    for at, metadata, _, body in footer.structs(3, "qiiq"):
        assert at % 8 == 0 and metadata % 8 == 0 and body % 8 == 0, "not aligned"
        mark, size = struct.unpack_from("<II", b, at)
        message = root(b[at + 8:at + metadata])
        assert mark == 0xffffffff and size + 8 == metadata and message.get(3, "q") == body
        batch = message.table(2)
        start, length = at + metadata, batch.get(0, "q")
        spans = iter(batch.structs(2, "qq"))
        data = []
        for (name, form), (n_cells, n_null) in zip(cols, batch.structs(1, "qq")):
            picked = [next(spans) for _ in range(3 if form == "s" else 2)]
            data.append(column(form, length, [b[start + o:start + o + k] for o, k in picked]))
            assert n_cells == length and n_null == data[-1].count(None), name
        rows += zip(*data)
    return [name for name, _ in cols], rows
