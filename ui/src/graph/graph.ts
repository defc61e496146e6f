// The binary flamegraph (doc/design/pages.md) as typed arrays over the answer's bytes: no copy.

export const MERGED = 1, ALLOCATOR = 2, STD = 4, UNNAMED = 8, ONLY_A = 16, ONLY_B = 32, GROUP = 64;
const HAS_SIDES = 16; // of the header

export interface Graph {
  n: number;
  total: number;
  unfiltered: number;
  error: number;
  ts: number;
  interval: number;
  maxDepth: number;
  parent: Int32Array;
  end: Uint32Array;
  depth: Uint16Array;
  name: Uint32Array;
  module: Uint32Array;
  flags: Uint8Array;
  self: Float64Array;
  cum: Float64Array;
  samples: Uint32Array;
  err: Float32Array;
  /** Of a difference: figures of both sides; cum and self are widths, err is that of the change. */
  a?: Float64Array;
  b?: Float64Array;
  nStrings: number;
  decodeMs: number;
  string(i: number): string;
  /** Where each node begins, in units of the metric from the left. */
  begin: Float64Array;
}

export class BrokenGraph extends Error {}

const HEADER = 72;

export function decode(buffer: ArrayBuffer): Graph {
  const started = performance.now();
  if (buffer.byteLength < HEADER) throw new BrokenGraph('the graph ends too early');
  const v = new DataView(buffer);
  if (v.getUint32(0, true) !== 0x31474648 || v.getUint32(4, true) !== 1)
    throw new BrokenGraph('this page and the server are of different versions: reload the page');
  const n = v.getUint32(12, true);
  const nStrings = v.getUint32(16, true);
  let at = HEADER;
  const take = (count: number, width: number): number => {
    const from = at;
    at = from + Math.ceil((count * width) / 8) * 8;
    if (at > buffer.byteLength) throw new BrokenGraph('the graph ends too early');
    return from;
  };
  const parent = new Int32Array(buffer, take(n, 4), n);
  const end = new Uint32Array(buffer, take(n, 4), n);
  const depth = new Uint16Array(buffer, take(n, 2), n);
  const name = new Uint32Array(buffer, take(n, 4), n);
  const module = new Uint32Array(buffer, take(n, 4), n);
  const flags = new Uint8Array(buffer, take(n, 1), n);
  const self = new Float64Array(buffer, take(n, 8), n);
  const cum = new Float64Array(buffer, take(n, 8), n);
  const samples = new Uint32Array(buffer, take(n, 4), n);
  const err = new Float32Array(buffer, take(n, 4), n);
  const sides = (v.getUint32(8, true) & HAS_SIDES) !== 0;
  const a = sides ? new Float64Array(buffer, take(n, 8), n) : undefined;
  const b = sides ? new Float64Array(buffer, take(n, 8), n) : undefined;
  const begins = new Uint32Array(buffer, take(nStrings + 1, 4), nStrings + 1);
  const texts = new Uint8Array(buffer, at);
  const cache: (string | undefined)[] = new Array(nStrings);
  const utf8 = new TextDecoder();
  const begin = new Float64Array(n);
  const next = new Float64Array(n); // where the next child of a node begins
  for (let i = 0; i < n; i++) {
    const p = parent[i];
    if (i === 0 ? p !== -1 : p < 0 || p >= i) throw new BrokenGraph('a node stands before its parent');
    if (end[i] <= i || end[i] > n || name[i] >= nStrings || module[i] >= nStrings)
      throw new BrokenGraph('a node points outside');
    begin[i] = i === 0 ? 0 : next[p];
    if (i > 0) next[p] += cum[i];
    next[i] = begin[i];
  }
  return {
    n, nStrings, decodeMs: performance.now() - started, parent, end, depth, name, module, flags, self, cum, samples, err, a, b, begin,
    total: v.getFloat64(32, true),
    unfiltered: v.getFloat64(40, true),
    error: v.getFloat64(48, true),
    ts: v.getFloat64(56, true),
    interval: v.getFloat64(64, true),
    maxDepth: v.getUint32(24, true),
    string(i) {
      return (cache[i] ??= utf8.decode(texts.subarray(begins[i], begins[i + 1])));
    },
  };
}

export interface TreeRow { id: string | number | null; parent: string | number | null; name: string; value: number }

/** A graph of rows that name their parents; value is what each holds itself. */
export function fromRows(rows: TreeRow[]): Graph {
  const started = performance.now();
  const place = new Map(rows.map((r, i) => [r.id, i]));
  if (place.size !== rows.length) throw new BrokenGraph('the same id stands in two rows');
  const children: number[][] = rows.map(() => []);
  const roots: number[] = [];
  rows.forEach((r, i) => {
    const p = r.parent === null ? undefined : place.get(r.parent);
    if (p === undefined) roots.push(i);
    else children[p].push(i);
  });
  // Parents before children, then sums from the end.
  const order = [...roots];
  for (let k = 0; k < order.length; k++) order.push(...children[order[k]]);
  if (order.length !== rows.length) throw new BrokenGraph('the rows go round in a circle: no root leads to some of them');
  const sums = rows.map((r) => Math.max(0, r.value));
  for (let k = order.length - 1; k >= 0; k--) for (const c of children[order[k]]) sums[order[k]] += sums[c];
  const bigFirst = (list: number[]) => list.filter((i) => sums[i] > 0).sort((a, b) => sums[b] - sums[a]);
  const single = roots.length === 1 && !rows[roots[0]].name;
  const top = bigFirst(single ? children[roots[0]] : roots);
  const names = new Map<string, number>([['all', 0], ['', 1]]);
  const texts = ['all', ''];
  const [parent, end, depth, name, self, cum, begin]: number[][] = [[-1], [0], [0], [0], [single ? Math.max(0, rows[roots[0]].value) : 0], [0], [0]];
  cum[0] = self[0] + top.reduce((a, i) => a + sums[i], 0);
  const open: { row: number; under: number }[] = top.map((row) => ({ row, under: 0 })).reverse();
  const next = [0];
  while (open.length) {
    const { row, under } = open.pop()!;
    const at = parent.length;
    let text = names.get(rows[row].name);
    if (text === undefined) {
      names.set(rows[row].name, (text = texts.length));
      texts.push(rows[row].name);
    }
    parent.push(under);
    end.push(at + 1);
    depth.push(depth[under] + 1);
    name.push(text);
    self.push(Math.max(0, rows[row].value));
    cum.push(sums[row]);
    begin.push(next[under]);
    next[at] = begin[at];
    next[under] += sums[row];
    for (const c of bigFirst(children[row]).reverse()) open.push({ row: c, under: at });
  }
  const n = parent.length;
  for (let i = n - 1; i > 0; i--) end[parent[i]] = Math.max(end[parent[i]], end[i]);
  end[0] = n;
  return {
    n, nStrings: texts.length, decodeMs: performance.now() - started, parent: Int32Array.from(parent), end: Uint32Array.from(end), depth: Uint16Array.from(depth.map((d) => Math.min(d, 65535))),
    name: Uint32Array.from(name), module: new Uint32Array(n).fill(1), flags: new Uint8Array(n), self: Float64Array.from(self), cum: Float64Array.from(cum), samples: new Uint32Array(n),
    err: new Float32Array(n), begin: Float64Array.from(begin), total: cum[0], unfiltered: cum[0], error: 0, ts: 0, interval: 1, maxDepth: depth.reduce((a, b) => Math.max(a, b), 0),
    string: (i) => texts[i],
  };
}

export const nameOf = (g: Graph, i: number) => g.string(g.name[i]);
export const moduleOf = (g: Graph, i: number) => (i === 0 ? '' : g.string(g.module[i]));

/** Names from below the root down to the node. */
export function path(g: Graph, i: number): string[] {
  const out: string[] = [];
  for (; i > 0; i = g.parent[i]) out.push(nameOf(g, i));
  return out.reverse();
}

/** The node at the end of a path of names; 0 when it is not there. */
export function find(g: Graph, names: string[]): number {
  let at = 0;
  for (const name of names) {
    let child = at + 1;
    while (child < g.end[at] && nameOf(g, child) !== name) child = g.end[child];
    if (child >= g.end[at]) return 0;
    at = child;
  }
  return at;
}

export interface Matches { node: Uint8Array; nodes: number[]; sum: number }

/** Nodes whose name has the text (or /regex/), and their share with each stack counted once. */
export function search(g: Graph, text: string): Matches | null {
  if (!text) return null;
  const re = /^\/(.*)\/(i?)$/s.exec(text);
  let test: (s: string) => boolean;
  try {
    const r = re ? new RegExp(re[1], re[2]) : null;
    const low = text.toLowerCase();
    test = r ? (s) => r.test(s) : (s) => s.toLowerCase().includes(low);
  } catch {
    return null;
  }
  const hit = new Uint8Array(g.nStrings);
  for (let i = 0; i < g.nStrings; i++) hit[i] = test(g.string(i)) ? 1 : 0;
  const node = new Uint8Array(g.n);
  const nodes: number[] = [];
  let sum = 0;
  let until = 0;
  for (let i = 1; i < g.n; i++) {
    if (!hit[g.name[i]] || g.flags[i] & MERGED) continue;
    node[i] = 1;
    nodes.push(i);
    if (i >= until) {
      sum += g.cum[i];
      until = g.end[i];
    }
  }
  return { node, nodes, sum };
}
