// Graphs of a saved page: what was left out of their bytes (src/server/api/saved/graph_pack.h) is computed
// again, and they become those that the server would have sent.

const SIDES = 16;
const HEADER = 72;

/** Reads numbers of seven bits a byte, and arrays. */
class Cursor {
  private at = 0;
  private readonly view: DataView;

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  u8(): number {
    if (this.at >= this.bytes.length) throw new RangeError('a graph of this file ends too early');
    return this.bytes[this.at++];
  }
  u32(): number {
    this.at += 4;
    return this.view.getUint32(this.at - 4, true);
  }
  f64(): number {
    this.at += 8;
    return this.view.getFloat64(this.at - 8, true);
  }
  /** Beyond 32 bits shifts do not reach, so places are multiplied. */
  uint(): number {
    let v = 0;
    for (let place = 1; ; place *= 128) {
      const b = this.u8();
      v += (b & 127) * place;
      if (b < 128) return v;
    }
  }
  int(): number {
    const v = this.uint();
    return v % 2 ? -(v + 1) / 2 : v / 2;
  }
}

const many = <T>(n: number, next: () => T): T[] => Array.from({ length: n }, next);

/** Children's figures are part of their parents'. */
function addUp(rest: Float64Array, parent: Int32Array): Float64Array {
  for (let i = parent.length - 1; i > 0; i--) rest[parent[i]] += rest[i];
  return rest;
}

function errorsOf(c: Cursor, n: number, same: Uint8Array): Float32Array {
  const bits = new Uint32Array(n);
  const kept = many(n, () => 0)
    .map((_, i) => i)
    .filter((i) => !same[i]);
  for (let shift = 24; shift >= 0; shift -= 8) for (const i of kept) bits[i] |= c.u8() << shift;
  for (let i = n - 2; i >= 0; i--) if (same[i]) bits[i] = bits[i + 1];
  return new Float32Array(bits.buffer);
}

function endsOf(parent: Int32Array): Uint32Array {
  const end = Uint32Array.from(parent, (_, i) => i + 1);
  for (let i = parent.length - 1; i > 0; i--) end[parent[i]] = Math.max(end[parent[i]], end[i]);
  return end;
}

function depthsOf(parent: Int32Array): Uint16Array {
  const depth = new Uint16Array(parent.length);
  for (let i = 1; i < parent.length; i++) depth[i] = depth[parent[i]] + 1;
  return depth;
}

/** The texts that a graph names, numbered anew: "all" stays the first. */
function textsOf(name: number[], module: number[], texts: string[]) {
  const number = new Map<number, number>();
  const of = (id: number) => {
    let k = number.get(id);
    if (k === undefined) number.set(id, (k = number.size));
    return k;
  };
  const names = Uint32Array.from(name, of);
  const modules = Uint32Array.from(module, of);
  const utf8 = new TextEncoder();
  const parts = [...number.keys()].map((id) => utf8.encode(texts[id] ?? ''));
  const begins = new Uint32Array(parts.length + 1);
  parts.forEach((p, i) => (begins[i + 1] = begins[i] + p.length));
  const bytes = new Uint8Array(begins[parts.length]);
  parts.forEach((p, i) => bytes.set(p, begins[i]));
  return { names, modules, begins, bytes };
}

/** Arrays one after the other, each on a multiple of 8 bytes behind the head. */
function joined(arrays: ArrayBufferView[]): ArrayBuffer {
  const round = (n: number) => Math.ceil(n / 8) * 8;
  const size = arrays.reduce((n, a) => n + round(a.byteLength), HEADER);
  const out = new Uint8Array(size);
  let at = HEADER;
  for (const a of arrays) {
    out.set(new Uint8Array(a.buffer, a.byteOffset, a.byteLength), at);
    at += round(a.byteLength);
  }
  return out.buffer;
}

function sidesOf(c: Cursor, n: number, parent: Int32Array): Float64Array[] {
  const plain = c.u8() === 1;
  return [0, 1].map(() => {
    const rest = Float64Array.from(many(n, () => (plain ? c.f64() : c.int())));
    return plain ? rest : addUp(rest, parent);
  });
}

export function unpackGraph(packed: Uint8Array, texts: string[]): ArrayBuffer {
  const c = new Cursor(packed);
  const [flags, n, deepest] = [c.u32(), c.u32(), c.u32()];
  const figures = many(5, () => c.f64());
  const parent = Int32Array.from(many(n, () => c.uint()).map((d, i) => (i ? i - d : -1)));
  const [name, module] = [many(n, () => c.uint()), many(n, () => c.uint())];
  const [nodes, same] = [many(n, () => c.u8()), many(n, () => c.u8())].map((v) => Uint8Array.from(v));
  const plain = c.u8() === 1;
  const self = Float64Array.from(many(n, () => (plain ? c.f64() : c.uint())));
  const samples = addUp(Float64Array.from(many(n, () => c.int())), parent);
  const sides = flags & SIDES ? sidesOf(c, n, parent) : [];
  const errors = errorsOf(c, n, same);
  const t = textsOf(name, module, texts);
  const buffer = joined([
    parent,
    endsOf(parent),
    depthsOf(parent),
    t.names,
    t.modules,
    nodes,
    self,
    addUp(self.slice(), parent),
    Uint32Array.from(samples),
    errors,
    ...sides,
    t.begins,
    t.bytes,
  ]);
  const head = new DataView(buffer);
  [0x31474648, 1, flags, n, t.begins.length - 1, 1, deepest, 0].forEach((v, i) =>
    head.setUint32(4 * i, v, true),
  );
  figures.forEach((v, i) => head.setFloat64(32 + 8 * i, v, true));
  return buffer;
}
