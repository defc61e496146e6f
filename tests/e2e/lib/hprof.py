"""Checks Java heap dumps strictly: all that strict readers (VisualVM, Eclipse MAT) demand.

Written from the published description of the format, independently of the product's reader and writer.
"""
import struct

SIZES = {2: 8, 4: 1, 5: 2, 6: 4, 7: 8, 8: 1, 9: 2, 10: 4, 11: 8}
LETTERS = {4: "Z", 5: "C", 6: "F", 7: "D", 8: "B", 9: "S", 10: "I", 11: "J"}
ROOTS = {0x01: 8, 0x02: 8, 0x03: 8, 0x04: 4, 0x05: 0, 0x06: 4, 0x07: 0, 0x08: 8, 0xff: 0}  # bytes after the id
KNOWN = {0x01, 0x02, 0x04, 0x05, 0x0a, 0x0b, 0x0c, 0x1c, 0x2c}


class Class:
    __slots__ = ("super", "refs", "size", "fields", "names", "loader", "statics", "n")

    def __init__(self):
        self.n = 0


class Dump:
    def __init__(self, path):
        self.data = open(path, "rb").read()
        self.faults, self.texts, self.names, self.classes, self.objects = [], {}, {}, {}, {}
        self.roots, self.serials, self.stacks, self.frames = [], set(), set(), set()
        self.used_stacks, self.used_frames, self.refs, self.instances = set(), set(), [], []
        self.primitive_arrays = {}  # type by array
        self.read()
        self.check()

    def fault(self, what):
        if len(self.faults) < 50:
            self.faults.append(what)

    def need(self, yes, what):
        if not yes:
            self.fault(what)

    # ---- records ----

    def read(self):
        d = self.data
        end = d.find(b"\0")
        self.need(d[:end] in (b"JAVA PROFILE 1.0.1", b"JAVA PROFILE 1.0.2"), f"magic {d[:20]}")
        size, at = struct.unpack_from(">I", d, end + 1)[0], end + 13
        self.need(size == 8, f"ids of {size} bytes")
        ended = False
        while at < len(d):
            self.need(not ended, f"a record behind the end, at {at}")
            if at + 9 > len(d):
                return self.fault("a record's head is cut")
            tag, _, n = struct.unpack_from(">BII", d, at)
            at += 9
            self.need(tag in KNOWN, f"record 0x{tag:02x} at {at - 9}")
            if at + n > len(d):
                return self.fault(f"record 0x{tag:02x} of {n} bytes at {at - 9} ends behind the file")
            if tag in (0x0c, 0x1c):
                self.need(n > 0, f"an empty segment at {at - 9}")
                self.segment(at, at + n)
            elif tag == 0x01:
                self.need(n >= 8, "a text shorter than its id")
                self.text(struct.unpack_from(">Q", d, at)[0], d[at + 8:at + n])
            elif tag == 0x02:
                self.need(n == 24, f"a class loaded in {n} bytes")
                self.load(*struct.unpack_from(">IQIQ", d, at))
            elif tag == 0x04:
                self.need(n == 40, f"a frame of {n} bytes")
                frame, method, sign, file, serial, _ = struct.unpack_from(">QQQQIi", d, at)
                self.frames.add(frame)
                for t in (method, sign, file):
                    self.need(t == 0 or t in self.texts, f"frame {frame}: text {t}")
                self.need(serial == 0 or serial in self.serials, f"frame {frame}: class {serial}")
            elif tag == 0x05:
                serial, _, k = struct.unpack_from(">III", d, at)
                self.need(n == 12 + 8 * k, f"a stack of {k} frames in {n} bytes")
                self.need(serial and serial not in self.stacks, f"stack {serial} twice")
                self.stacks.add(serial)
                self.used_frames.update(struct.unpack_from(f">{k}Q", d, at + 12))
            elif tag == 0x2c:
                self.need(n == 0, "an end with bytes")
                ended = True
            at += n
        self.need(ended, "no end of the dump")

    def text(self, number, value):
        self.need(number and number not in self.texts, f"text {number} twice or without a number")
        self.texts[number] = value

    def load(self, serial, number, stack, name):
        self.need(serial and serial not in self.serials, f"class serial {serial} twice or 0")
        self.need(number and number not in self.names, f"class {number} loaded twice")
        self.need(name in self.texts, f"class {number}: name {name} is not there yet")
        self.serials.add(serial)
        self.used_stacks.add(stack)
        self.names[number] = self.texts.get(name, b"?").decode(errors="replace")

    # ---- the dump ----

    def segment(self, at, end):
        d, start = self.data, at
        while at < end:
            tag = d[at]
            here, at = at, at + 1
            if tag in ROOTS:
                number = struct.unpack_from(">Q", d, at)[0]
                self.roots.append((tag, number))
                at += 8 + ROOTS[tag]
            elif tag == 0x20:
                at = self.class_dump(at)
            elif tag == 0x21:
                number, stack, kind, n = struct.unpack_from(">QIQI", d, at)
                self.object(number, stack, kind)
                self.instances.append((number, kind, at + 24, n))
                at += 24 + n
            elif tag == 0x22:
                number, stack, n, kind = struct.unpack_from(">QIIQ", d, at)
                self.object(number, stack, kind)
                self.need(self.names.get(kind, "").startswith("["), f"array {number} of class {self.names.get(kind)}")
                at += 24 + 8 * n
                if at <= end:
                    self.refs.append((number, f"array {number}", struct.unpack_from(f">{n}Q", d, at - 8 * n)))
            elif tag == 0x23:
                number, stack, n, kind = struct.unpack_from(">QIIB", d, at)
                if kind not in LETTERS:
                    return self.fault(f"array {number} of type {kind}")
                self.object(number, stack, None)
                self.primitive_arrays[number] = kind
                at += 17 + n * SIZES[kind]
            else:
                return self.fault(f"0x{tag:02x} at {here} in the segment at {start}")
        self.need(at == end, f"the segment at {start} ends at {at}, not at {end}")

    def object(self, number, stack, kind):
        self.need(number and number not in self.objects, f"object {number} twice or 0")
        self.need(kind is None or kind in self.classes, f"object {number}: its class {kind} is not there yet")
        self.objects[number] = kind
        self.used_stacks.add(stack)
        if kind in self.classes:
            self.classes[kind].n += 1

    def class_dump(self, at):
        d, c = self.data, Class()
        number, stack, c.super, loader, signers, domain, r1, r2, c.size, n = struct.unpack_from(">QIQQQQQQIH", d, at)
        at, c.loader = at + 66, loader
        self.need(n == 0, f"class {number} has {n} constants")
        self.need(r1 == r2 == 0, f"class {number}: reserved words are used")
        self.need(number in self.names, f"class {number} was never loaded")
        self.need(number not in self.classes, f"class {number} twice")
        self.used_stacks.add(stack)
        self.refs.append((number, f"class {number}", (loader, signers, domain)))
        self.refs.append((number, f"superclass of {number}", (c.super,)))
        (n,), at = struct.unpack_from(">H", d, at), at + 2
        for _ in range(n):
            name, kind = struct.unpack_from(">QB", d, at)
            self.need(name in self.texts and kind in SIZES, f"class {number}: static {name} of type {kind}")
            if kind == 2:
                self.refs.append((number, f"static of {self.names.get(number)}", struct.unpack_from(">Q", d, at + 9)))
            at += 9 + SIZES.get(kind, 0)
        (n,), at, c.fields, c.names = struct.unpack_from(">H", d, at), at + 2, [], []
        for _ in range(n):
            name, kind = struct.unpack_from(">QB", d, at)
            self.need(name in self.texts and kind in SIZES, f"class {number}: field {name} of type {kind}")
            c.fields.append(kind)
            c.names.append(name)
            at += 9
        self.classes[number] = c
        return at

    # ---- checks ----

    def chain(self, kind):
        """Field types of an instance, its own class's first."""
        found, seen = [], set()
        while kind in self.classes and kind not in seen:
            seen.add(kind)
            found += self.classes[kind].fields
            kind = self.classes[kind].super
        return found

    def check(self):
        by_name = {name: number for number, name in self.names.items()}
        for name in ("java/lang/Object", "java/lang/Class"):
            self.need(by_name.get(name) in self.classes, f"no {name}")
        for number, name in self.names.items():
            self.need(number in self.classes, f"{name} was loaded and has no dump")
        for number, c in self.classes.items():
            name = self.names.get(number)
            is_top = name == "java/lang/Object"
            self.need((c.super == 0) == is_top, f"{name}: superclass {c.super}")
            self.need(is_top or c.super in self.classes, f"{name}: its superclass {c.super} is not there")
            self.need(number not in self.objects, f"{name} is a class and an object")
            self.need(len(set(self.walk(number))) == len(self.walk(number)), f"{name}: a circle of superclasses")
            if c.n and not name.startswith("["):
                self.need(c.size == sum(SIZES[k] for k in self.chain(number)), f"{name}: size {c.size}, fields differ")
        for kind in set(self.primitive_arrays.values()):
            self.need("[" + LETTERS[kind] in by_name, f"no class [{LETTERS[kind]}")
        offsets = {}
        for number, kind, at, n in self.instances:
            if kind not in offsets:
                types, place, refs = self.chain(kind), 0, []
                for k in types:
                    refs += [place] if k == 2 else []
                    place += SIZES[k]
                offsets[kind] = place, refs
            place, refs = offsets[kind]
            self.need(n == place, f"instance {number} of {self.names.get(kind)} has {n} bytes, not {place}")
            if n == place:
                self.refs.append((number, f"instance of {self.names.get(kind)}",
                                  [struct.unpack_from(">Q", self.data, at + r)[0] for r in refs]))
        there = self.objects.keys() | self.classes.keys() | {0}
        for _, what, numbers in self.refs:
            for number in numbers:
                self.need(number in there, f"{what} refers to {number}, which is not there")
        for tag, number in self.roots:
            self.need(number and number in there, f"root 0x{tag:02x} {number} is not there")
        self.need(self.roots, "no roots")
        for serial in self.used_stacks - {0}:
            self.need(serial in self.stacks, f"stack {serial} is not there")
        self.need(self.used_frames <= self.frames, "a stack with a frame that is not there")

    def weak(self, kind):
        """Where the referent is in an instance's bytes, of classes whose objects do not keep it alive; None."""
        place, found, is_weak = 0, None, False
        for k in self.walk(kind):
            name = self.names.get(k)
            is_weak |= name in ("java/lang/ref/WeakReference", "java/lang/ref/PhantomReference", "java/lang/ref/FinalReference")
            for what, name_id in zip(self.classes[k].fields, self.classes[k].names):
                if name == "java/lang/ref/Reference" and self.texts[name_id] == b"referent":
                    found = place
                place += SIZES[what]
        return found if is_weak else None

    def reachable(self, with_classes=True):
        """Objects and class objects that are reached from the roots as a JVM reaches them: an instance holds its class, a
        class its loader, superclass, protection domain and static fields; weak referents are not followed. The boot loader's
        classes of arrays need nobody to hold them."""
        below, weak, referents = {}, {}, {}
        for number, kind, at, _ in self.instances:
            if kind not in weak:
                weak[kind] = self.weak(kind)
            if weak[kind] is not None:
                referents[number] = struct.unpack_from(">Q", self.data, at + weak[kind])[0]
        for owner, _, numbers in self.refs:
            kept = list(numbers)
            if owner in referents:
                kept.remove(referents[owner])
            below.setdefault(owner, []).extend(kept)
        for number, kind in self.objects.items():
            if kind is not None and with_classes and (self.classes[kind].loader or not self.names[kind].startswith("[")):
                below.setdefault(number, []).append(kind)
        seen, todo = {0}, [n for _, n in self.roots]
        while todo:
            n = todo.pop()
            if n not in seen:
                seen.add(n)
                todo += below.get(n, ())
        return seen & (self.objects.keys() | self.classes.keys())

    def retained(self, number):
        """How many objects are unreachable without this one, including itself."""
        below = {}
        for owner, _, numbers in self.refs:
            below.setdefault(owner, []).extend(numbers)

        def reach(without):
            seen, todo = {0, without}, [n for _, n in self.roots]
            while todo:
                n = todo.pop()
                if n not in seen:
                    seen.add(n)
                    todo += below.get(n, ())
            return len(seen)

        return reach(0) + 1 - (reach(number) - 1)

    def walk(self, kind):
        found = []
        while kind in self.classes and len(found) <= len(self.classes):
            found.append(kind)
            kind = self.classes[kind].super
        return found


def faults(path):
    return Dump(path).faults
