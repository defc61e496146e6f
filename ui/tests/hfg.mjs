// Writes a graph as the server does (doc/design/pages.md): the twin of decode().

export const SMALL = {
  parent: [-1, 0, 1, 0],
  end: [4, 3, 3, 4],
  depth: [0, 1, 2, 1],
  name: [0, 1, 2, 3],
  module: [4, 4, 5, 4],
  flags: [0, 0, 0, 0],
  self: [0, 20, 50, 30],
  cum: [100, 70, 50, 30],
  samples: [10, 7, 5, 3],
  err: [3, 2, 2, 1],
  strings: ['all', 'main', 'malloc_it', 'other', '', 'libx.so'],
  total: 100,
  unfiltered: 120,
  error: 3,
  ts: 17,
  interval: 4096,
};

export function encode(g) {
  const texts = g.strings.map((s) => new TextEncoder().encode(s));
  const begins = [0];
  for (const t of texts) begins.push(begins.at(-1) + t.length);
  const pack = (Kind, values) => new Uint8Array(Kind.from(values).buffer);
  const parts = [
    pack(Int32Array, g.parent),
    pack(Uint32Array, g.end),
    pack(Uint16Array, g.depth),
    pack(Uint32Array, g.name),
    pack(Uint32Array, g.module),
    pack(Uint8Array, g.flags),
    pack(Float64Array, g.self),
    pack(Float64Array, g.cum),
    pack(Uint32Array, g.samples),
    pack(Float64Array, g.err),
    ...(g.shown ? [pack(Float32Array, g.shown)] : []),
    ...(g.a ? [pack(Float64Array, g.a), pack(Float64Array, g.b)] : []),
    pack(Uint32Array, begins),
  ];
  const round = (n) => Math.ceil(n / 8) * 8;
  const size = parts.reduce((n, p) => n + round(p.length), 72);
  const out = new Uint8Array(size + begins.at(-1));
  const v = new DataView(out.buffer);
  v.setUint32(0, 0x31474648, true);
  v.setUint32(4, 2, true);
  v.setUint32(8, (g.a ? 16 : 0) + (g.shown ? 32 : 0), true);
  v.setUint32(12, g.parent.length, true);
  v.setUint32(16, g.strings.length, true);
  v.setUint32(24, Math.max(...g.depth), true);
  [g.total, g.unfiltered, g.error, g.ts, g.interval].forEach((x, i) => v.setFloat64(32 + 8 * i, x, true));
  let at = 72;
  for (const p of parts) {
    out.set(p, at);
    at += round(p.length);
  }
  for (const t of texts) {
    out.set(t, at);
    at += t.length;
  }
  return out.buffer;
}
