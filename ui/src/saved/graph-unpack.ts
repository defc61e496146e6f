// Graphs of a saved page: what was left out of their bytes (src/server/api/saved/graph_pack.h) is computed
// again, and they become those that the server would have sent.

import { depthsOf, endsOf, joined, SIDES, textsOf } from './graph-bytes';

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

/** The square roots of shares that add up, or errors of which each stands for itself. */
function errorsOf(c: Cursor, n: number, parent: Int32Array): Float64Array {
  if (c.u8() === 0) {
    const bits = new Uint32Array(n);
    for (let shift = 24; shift >= 0; shift -= 8) for (let i = 0; i < n; i++) bits[i] |= c.u8() << shift;
    return addUp(Float64Array.from(new Float32Array(bits.buffer)), parent).map(Math.sqrt);
  }
  const same = many(n, () => c.u8());
  const kept = [...same.keys()].filter((i) => !same[i]);
  const bytes = new Uint8Array(8 * n); // little endian, as in the graph
  for (let byte = 7; byte >= 0; byte--) for (const i of kept) bytes[8 * i + byte] = c.u8();
  const errors = new Float64Array(bytes.buffer);
  for (let i = n - 2; i >= 0; i--) if (same[i]) errors[i] = errors[i + 1];
  return errors;
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
  const nodes = Uint8Array.from(many(n, () => c.u8()));
  const plain = c.u8() === 1;
  const self = Float64Array.from(many(n, () => (plain ? c.f64() : c.uint())));
  const samples = addUp(Float64Array.from(many(n, () => c.int())), parent);
  const sides = flags & SIDES ? sidesOf(c, n, parent) : [];
  const errors = errorsOf(c, n, parent);
  const t = textsOf(name, module, (id) => texts[id] ?? '');
  const arrays = [
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
  ];
  return joined(arrays, [flags, n, t.begins.length - 1, deepest], figures);
}
