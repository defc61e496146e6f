"""
An independent reader of traces, written from the published format alone.

Trace(path).dumps: all complete dumps of a process and heap in file order. .problems: what a strict
reader would count as an error (gaps in the index, unknown ids, no clock snapshot, decreasing values).
"""
import zlib

from lib.proto import fields, ints, message, one, text

INTERNED = {5: "function", 16: "build_id", 17: "path"}


class Sample:
    __slots__ = ("stack", "alloc", "freed", "allocs", "frees", "max", "max_count", "est_allocs",
                 "est_frees", "idle", "temporary", "temporary_count")


class Dump:
    def __init__(self, header):
        self.pid = one(header, 1)
        self.from_startup = bool(one(header, 3))
        self.rejected = bool(one(header, 4))
        self.disconnected = bool(one(header, 6))
        self.overran = bool(one(header, 7))
        self.corrupted = bool(one(header, 8))
        self.ts = one(header, 9)
        self.guardrail = bool(one(header, 10))
        self.heap = text(header, 11)
        self.interval = one(header, 12)
        self.orig_interval = one(header, 13)
        self.client_error = one(header, 14)
        self.start_ts = one(header, 15)
        self.checkpoint = bool(one(header, 1000))
        self.trigger = text(header, 1001)
        self.lost = one(header, 1002)
        self.has_temporary = bool(one(header, 1008))
        stats = message(one(header, 5, b""))
        self.unwinding_errors = one(stats, 1)
        self.heap_samples = one(stats, 2)
        self.samples = []

    def total(self, key):
        return sum(getattr(s, key) for s in self.samples)

    def flags(self):
        return [f for f in ("rejected", "disconnected", "overran", "corrupted", "guardrail")
                if getattr(self, f)]

    def by_function(self, names):
        """-> {name: [alloc_bytes, allocs, live_bytes, live_objects]} of stacks that contain it."""
        r = {n: [0, 0, 0, 0] for n in names}
        for s in self.samples:
            for n in set(s.stack) & r.keys():
                r[n][0] += s.alloc
                r[n][1] += s.allocs
                r[n][2] += s.alloc - s.freed
                r[n][3] += s.allocs - s.frees
        return r


class Sequence:
    def __init__(self):
        self.clear()
        self.index = None
        self.held = []  # (header, samples) until the packet without `continued`

    def clear(self):
        self.strings = {5: {}, 16: {}, 17: {}}
        self.frames, self.callstacks, self.mappings = {}, {}, {}
        self.sound_stacks = {}  # (pid, heap, callstack): names, where nothing was wrong


class Trace:
    def __init__(self, path):
        self.problems, self.dumps, self.clocks = [], [], set()
        self.process_names, self.uuid, self.config, self.packets = {}, None, None, 0
        self.sequences = {}
        self.provenance = None  # {sequence: producer}
        self.names = {}
        self.sites, self.as_frames = {}, {}  # how other readers distinguish callstacks
        self.symbols = {}  # (path, build id) -> {rel_pc: [names]}
        data = open(path, "rb").read()
        self.size = len(data)
        self.truncated = False
        pending = []
        self.read(data, pending)
        for seq, header, samples in pending:
            self.resolve(seq, header, samples)
        for seq in self.sequences.values():
            if seq.held:
                self.problems.append("non_finalized_profile")
                for header, samples in seq.held:
                    self.resolve(seq, header, samples)
        if self.provenance is not None:  # appended symbols are on no sequence
            for seq in self.sequences.keys() - self.provenance.keys() - {0, 1}:
                self.problems.append(f"sequence {seq} is not in the provenance")
        if any(d.ts for d in self.dumps) and not {4, 6} <= self.clocks:
            self.problems.append("no snapshot with clocks 4 and 6: every dump would be dropped")

    def read(self, data, pending):
        try:
            for no, body in fields(data):
                if no == 1:
                    self.packet(body, pending)
                else:
                    self.problems.append(f"field {no} at top level")
        except (ValueError, IndexError):
            self.truncated = True

    def packet(self, body, pending):
        self.packets += 1
        p = message(body)
        if 50 in p:
            self.read(zlib.decompress(p[50][0]), pending)
            return
        if 6 in p:
            self.clocks |= {one(message(c), 1) for c in message(p[6][0])[1]}
        if 2 in p:
            for proc in message(p[2][0])[1]:
                m = message(proc)
                self.process_names[one(m, 1)] = [bytes(c).decode(errors="replace") for c in m[3]]
        if 124 in p:
            self.provenance = {one(message(s), 1): one(message(s), 2)
                               for b in message(p[124][0])[2] for s in message(b)[1]}
        if 89 in p:
            self.uuid = p[89][0]
        if 33 in p:
            self.config = p[33][0]
        if 61 in p:
            self.module_symbols(message(p[61][0]))
        seq_id = one(p, 10)
        seq = self.sequences.setdefault(seq_id, Sequence())
        if one(p, 13) & 1 or one(p, 41):
            seq.clear()
        if one(p, 42):
            self.problems.append("previous_packet_dropped")
        if 12 in p:
            if not seq_id:
                self.problems.append("interned data without a sequence")
            self.intern(seq, message(p[12][0]))
        if 37 in p:
            self.profile(seq, message(p[37][0]), pending)

    def module_symbols(self, m):
        table = self.symbols.setdefault((text(m, 1), bytes(one(m, 2, b""))), {})
        for a in m[3]:
            am = message(a)
            table[one(am, 1)] = [text(message(l), 1) for l in am[2]]

    def intern(self, seq, m):
        for no in INTERNED:
            for e in m[no]:
                em = message(e)
                iid, s = one(em, 1), bytes(one(em, 2, b""))
                if seq.strings[no].get(iid, s) != s:
                    self.problems.append(f"iid {iid} of field {no} defined twice")
                seq.strings[no][iid] = s
        for e in m[19]:
            em = message(e)
            seq.mappings[one(em, 1)] = em
        for e in m[6]:
            em = message(e)
            seq.frames[one(em, 1)] = em
        for e in m[7]:
            em = message(e)
            seq.callstacks[one(em, 1)] = ints(em[2])

    def profile(self, seq, m, pending):
        dumps = [message(d) for d in m[5]]
        if any(one(d, 4) for d in dumps):
            for d in dumps:
                self.dumps.append(Dump(d))
            return
        index = one(m, 7)
        if index != (0 if seq.index is None else seq.index + 1):
            self.problems.append(f"missing_packet: index {index} after {seq.index}")
        seq.index = index
        for d in dumps:
            seq.held.append((d, d[2]))
        if not one(m, 6):
            pending.extend((seq, header, samples) for header, samples in seq.held)
            seq.held = []

    def name_of(self, seq, frame):
        mapping = seq.mappings.get(one(frame, 3))
        if one(frame, 3) and mapping is None:
            self.problems.append("invalid_mapping_id")
        if mapping is not None:
            for p in ints(mapping[7]):
                if p not in seq.strings[17]:
                    self.problems.append("invalid_string_id of a path")
            path = "/" + "/".join(seq.strings[17].get(p, b"").decode(errors="replace")
                                  for p in ints(mapping[7]))
            build_id = seq.strings[16].get(one(mapping, 2), b"")
            table = self.symbols.get((path.replace("//", "/", 1), build_id), {})
            if one(frame, 4) in table:
                return table[one(frame, 4)]
        fid = one(frame, 2)
        if fid not in seq.strings[5]:
            if fid:
                self.problems.append("invalid_string_id of a function")
            return [""]
        return [seq.strings[5][fid].decode(errors="replace")]

    def frame_of(self, seq, f):
        """What identifies a frame for the published engine: in a mapping address and name, else name, file and line."""
        frame = seq.frames.get(f, {})
        name, m = seq.strings[5].get(one(frame, 2), b""), seq.mappings.get(one(frame, 3)) if one(frame, 3) else None
        if m is None:
            return name, one(frame, 5), one(frame, 6)
        strings = [seq.strings[16].get(one(m, 2), b"")] + [seq.strings[17].get(p, b"") for p in ints(m[7])]
        return (*strings, *(one(m, n) for n in (3, 4, 5, 6, 8))), one(frame, 4), name

    def check_distinct(self, seq, d, iid, frames):
        """Finds two callstacks of a heap that are the same to the engine: it rejects the second one's values."""
        for f in frames:
            if (id(seq.frames), f) not in self.as_frames:
                self.as_frames[id(seq.frames), f] = self.frame_of(seq, f)
        site = d.pid, d.heap, tuple(self.as_frames[id(seq.frames), f] for f in frames)
        if self.sites.setdefault(site, (id(seq), iid))[0] == id(seq) and self.sites[site][1] != iid:
            self.problems.append(f"callstacks {self.sites[site][1]} and {iid} of pid {d.pid} are one: {site[2][-1]}")

    def stack_of(self, seq, d, iid):
        """The names of a callstack's functions; None if there is none with this number."""
        frames = seq.callstacks.get(iid)
        if frames is None:
            self.problems.append(f"invalid_callstack_id {iid}")
            return None
        if not frames:
            self.problems.append("empty_callstack")
        self.check_distinct(seq, d, iid, frames)
        stack = []
        for f in frames:
            if f not in seq.frames:
                self.problems.append(f"invalid_frame_id {f}")
                continue
            key = (id(seq.frames), f)
            if key not in self.names:
                self.names[key] = list(reversed(self.name_of(seq, seq.frames[f])))
            stack += self.names[key]
        return stack

    def resolve(self, seq, header, samples):
        d = Dump(header)
        same = next((x for x in reversed(self.dumps)
                     if (x.pid, x.heap, x.ts, x.trigger) == (d.pid, d.heap, d.ts, d.trigger)), None)
        target = same if same is not None else d
        for raw in samples:
            m = message(raw)
            s = Sample()
            key = d.pid, d.heap, one(m, 1)
            s.stack = seq.sound_stacks.get(key)
            if s.stack is None:
                wrong = len(self.problems)
                s.stack = self.stack_of(seq, d, one(m, 1))
                if s.stack is None:
                    continue
                if len(self.problems) == wrong:
                    seq.sound_stacks[key] = s.stack
            s.alloc, s.freed = one(m, 2), one(m, 3)
            s.allocs, s.frees = one(m, 5), one(m, 6)
            s.max, s.max_count = one(m, 8), one(m, 9)
            s.est_allocs, s.est_frees, s.idle = one(m, 1000), one(m, 1001), one(m, 1003)
            s.temporary, s.temporary_count = one(m, 1010), one(m, 1011)
            if s.temporary > s.freed or (s.temporary and not d.has_temporary):
                self.problems.append(f"freed within a second: {s.temporary} of {s.freed}, known: {d.has_temporary}")
            if s.freed > s.alloc or s.frees > s.allocs:
                self.problems.append(f"more freed than allocated: {s.freed} of {s.alloc}")
            target.samples.append(s)
        if same is None:
            self.dumps.append(d)

    def of(self, pid=None, heap="libc.malloc"):
        return [d for d in self.dumps if pid in (None, d.pid) and d.heap == heap and not d.rejected]

    def last(self, pid=None, heap="libc.malloc"):
        """The last dump; a checkpoint only if there is nothing later."""
        dumps = self.of(pid, heap)
        return dumps[-1] if dumps else None
