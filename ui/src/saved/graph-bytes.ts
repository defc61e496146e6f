// The bytes of a graph (doc/design/pages.md), as the server writes them.

const MAGIC = 0x31474648;
const HEADER = 72;
export const SIDES = 16;

export interface Head {
  unfiltered: number;
  ts: number;
  interval: number;
  sides: boolean;
}
export interface Box {
  parent: number;
  name: string;
  module: string;
  flags: number;
  self: number;
  cum: number;
  samples: number;
  err: number;
  a?: number;
  b?: number;
}

export function endsOf(parent: Int32Array): Uint32Array {
  const end = Uint32Array.from(parent, (_, i) => i + 1);
  for (let i = parent.length - 1; i > 0; i--) end[parent[i]] = Math.max(end[parent[i]], end[i]);
  return end;
}

export function depthsOf(parent: Int32Array): Uint16Array {
  const depth = new Uint16Array(parent.length);
  for (let i = 1; i < parent.length; i++) depth[i] = depth[parent[i]] + 1;
  return depth;
}

/** The texts that a graph names, numbered anew: "all" stays the first. */
export function textsOf<T>(name: T[], module: T[], text: (of: T) => string) {
  const number = new Map<T, number>();
  const of = (id: T) => {
    let k = number.get(id);
    if (k === undefined) number.set(id, (k = number.size));
    return k;
  };
  const names = Uint32Array.from(name, of);
  const modules = Uint32Array.from(module, of);
  const utf8 = new TextEncoder();
  const parts = [...number.keys()].map((id) => utf8.encode(text(id)));
  const begins = new Uint32Array(parts.length + 1);
  parts.forEach((p, i) => (begins[i + 1] = begins[i] + p.length));
  const bytes = new Uint8Array(begins[parts.length]);
  parts.forEach((p, i) => bytes.set(p, begins[i]));
  return { names, modules, begins, bytes };
}

/** Arrays one after the other, each on a multiple of 8 bytes behind the head. */
export function joined(
  arrays: ArrayBufferView[],
  [flags, n, nTexts, deepest]: number[],
  figures: number[],
): ArrayBuffer {
  const round = (n: number) => Math.ceil(n / 8) * 8;
  const size = arrays.reduce((sum, a) => sum + round(a.byteLength), HEADER);
  const out = new Uint8Array(size);
  let at = HEADER;
  for (const a of arrays) {
    out.set(new Uint8Array(a.buffer, a.byteOffset, a.byteLength), at);
    at += round(a.byteLength);
  }
  const head = new DataView(out.buffer);
  [MAGIC, 2, flags, n, nTexts, 1, deepest, 0].forEach((v, i) => head.setUint32(4 * i, v, true));
  figures.forEach((v, i) => head.setFloat64(32 + 8 * i, v, true));
  return out.buffer;
}

/** Boxes in preorder. */
export function graphBytes(boxes: Box[], { unfiltered, ts, interval, sides }: Head): ArrayBuffer {
  const parent = Int32Array.from(boxes, (b) => b.parent);
  const numbers = (of: (b: Box) => number) => Float64Array.from(boxes, of);
  const depth = depthsOf(parent);
  const t = textsOf(
    boxes.map((b) => b.name),
    boxes.map((b) => b.module),
    (text) => text,
  );
  const arrays = [
    parent,
    endsOf(parent),
    depth,
    t.names,
    t.modules,
    Uint8Array.from(boxes, (b) => b.flags),
    numbers((b) => b.self),
    numbers((b) => b.cum),
    Uint32Array.from(boxes, (b) => Math.max(0, b.samples)),
    numbers((b) => b.err),
    ...(sides ? [numbers((b) => b.a ?? 0), numbers((b) => b.b ?? 0)] : []),
    t.begins,
    t.bytes,
  ];
  const deepest = depth.reduce((a, d) => Math.max(a, d), 0);
  return joined(
    arrays,
    [sides ? SIDES : 0, boxes.length, t.begins.length - 1, deepest],
    [boxes[0]?.cum ?? 0, unfiltered, boxes[0]?.err ?? 0, ts, interval],
  );
}
