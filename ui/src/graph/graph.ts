// The binary flamegraph (doc/design/pages.md) as typed arrays over the answer's bytes: no copy.

export const MERGED = 1,
  ALLOCATOR = 2,
  STD = 4,
  UNNAMED = 8,
  ONLY_A = 16,
  ONLY_B = 32,
  GROUP = 64,
  OWN = 128;
const HAS_SIDES = 16; // of the header
const HAS_SHOWN = 32;

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
  /** Errors whose squares add up: what is left of a graph has the sum of them. */
  err: Float64Array;
  /** Of counts: errors to show, with one more sample (doc/design/estimates.md); they do not add up. */
  shown?: Float32Array;
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

/** Arrays follow each other, each on a multiple of 8 bytes. */
class Arrays {
  constructor(
    readonly buffer: ArrayBuffer,
    private at: number,
  ) {}

  private take(n: number, width: number): number {
    const from = this.at;
    this.at = from + Math.ceil((n * width) / 8) * 8;
    if (this.at > this.buffer.byteLength) throw new BrokenGraph('the graph ends too early');
    return from;
  }
  i32 = (n: number) => new Int32Array(this.buffer, this.take(n, 4), n);
  u32 = (n: number) => new Uint32Array(this.buffer, this.take(n, 4), n);
  u16 = (n: number) => new Uint16Array(this.buffer, this.take(n, 2), n);
  u8 = (n: number) => new Uint8Array(this.buffer, this.take(n, 1), n);
  f32 = (n: number) => new Float32Array(this.buffer, this.take(n, 4), n);
  f64 = (n: number) => new Float64Array(this.buffer, this.take(n, 8), n);
  rest = () => new Uint8Array(this.buffer, this.at);
}

type Nodes = Pick<Graph, 'parent' | 'end' | 'name' | 'module' | 'cum'>;

/** Where each node begins; refuses what points outside or stands before its parent. */
function beginsOf({ parent, end, name, module, cum }: Nodes, n: number, nStrings: number): Float64Array {
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
  return begin;
}

/** Strings, each decoded when it is asked for. */
function stringsOf(begins: Uint32Array, texts: Uint8Array): (i: number) => string {
  const cache: (string | undefined)[] = new Array(begins.length - 1);
  const utf8 = new TextDecoder();
  return (i) => (cache[i] ??= utf8.decode(texts.subarray(begins[i], begins[i + 1])));
}

export function decode(buffer: ArrayBuffer): Graph {
  const started = performance.now();
  if (buffer.byteLength < HEADER) throw new BrokenGraph('the graph ends too early');
  const v = new DataView(buffer);
  if (v.getUint32(0, true) !== 0x31474648 || v.getUint32(4, true) !== 2)
    throw new BrokenGraph('this page and the server are of different versions: reload the page');
  const n = v.getUint32(12, true);
  const nStrings = v.getUint32(16, true);
  const sides = (v.getUint32(8, true) & HAS_SIDES) !== 0;
  const r = new Arrays(buffer, HEADER);
  const nodes = {
    parent: r.i32(n),
    end: r.u32(n),
    depth: r.u16(n),
    name: r.u32(n),
    module: r.u32(n),
    flags: r.u8(n),
    self: r.f64(n),
    cum: r.f64(n),
    samples: r.u32(n),
    err: r.f64(n),
    shown: (v.getUint32(8, true) & HAS_SHOWN) !== 0 ? r.f32(n) : undefined,
    a: sides ? r.f64(n) : undefined,
    b: sides ? r.f64(n) : undefined,
  };
  const begins = r.u32(nStrings + 1);
  const string = stringsOf(begins, r.rest());
  const begin = beginsOf(nodes, n, nStrings);
  return {
    n,
    nStrings,
    ...nodes,
    begin,
    string,
    decodeMs: performance.now() - started,
    total: v.getFloat64(32, true),
    unfiltered: v.getFloat64(40, true),
    error: v.getFloat64(48, true),
    ts: v.getFloat64(56, true),
    interval: v.getFloat64(64, true),
    maxDepth: v.getUint32(24, true),
  };
}

/** The error to show beside a node's figure. */
export const errorOf = (g: Graph, i: number): number => (g.shown ?? g.err)[i];

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

export interface Matches {
  node: Uint8Array;
  nodes: number[];
  sum: number;
}

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
