"""Reads a pprof file (gzip or not), independently of the product."""
import gzip

from lib.proto import fields, ints, message, one


def signed(x):
    return x - (1 << 64) if x >> 63 else x


class Pprof:
    def __init__(self, path):
        raw = open(path, "rb").read()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        m = message(raw)
        strings = [bytes(s).decode(errors="replace") for s in m[6]]
        self.types = [strings[one(message(t), 1)] for t in m[1]]
        self.period = one(m, 12)
        self.duration_ns = one(m, 10, 0)
        self.comments = dict(strings[i].removeprefix("heapwise.").split("=", 1) for i in ints(m.get(13, [])))
        self.mapping_files = [strings[one(message(x), 5, 0)] for x in m.get(3, [])]
        functions = {}
        for f in m[5]:
            fm = message(f)
            functions[one(fm, 1)] = strings[one(fm, 2)]
        locations = {}
        for l in m[4]:
            lm = message(l)
            locations[one(lm, 1)] = [functions[one(message(x), 1)] for x in lm[4]]
        self.samples = []  # ([function names, leaf first], {type: value})
        for s in m[2]:
            sm = message(s)
            names = [n for l in ints(sm[1]) for n in locations[l]]
            values = [signed(v) for v in ints(sm[2])]
            self.samples.append((names, dict(zip(self.types, values))))

    def of(self, name):
        """-> {type: sum} over samples whose stack contains the function."""
        r = dict.fromkeys(self.types, 0)
        for names, values in self.samples:
            if name in names:
                for k, v in values.items():
                    r[k] += v
        return r
