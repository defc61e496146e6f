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

function errorsOf(c: Cursor, n: number, same: Uint8Array): Float32Array {
  const bits = new Uint32Array(n);
  const kept = many(n, () => 0)
    .map((_, i) => i)
    .filter((i) => !same[i]);
  for (let shift = 24; shift >= 0; shift -= 8) for (const i of kept) bits[i] |= c.u8() << shift;
  for (let i = n - 2; i >= 0; i--) if (same[i]) bits[i] = bits[i + 1];
  return new Float32Array(bits.buffer);
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
