// A graph of rows that name their parents: what a query gives, drawn as the server's graphs are. Pure.
import { BrokenGraph, type Graph } from './graph';

/** value: what the row holds itself. */
export interface TreeRow {
  id: string | number | null;
  parent: string | number | null;
  name: string;
  value: number;
}

interface Links {
  roots: number[];
  children: number[][];
  sums: number[];
}

/** Who is whose child, and what each holds with all below it. */
function link(rows: TreeRow[]): Links {
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
  if (order.length !== rows.length)
    throw new BrokenGraph('the rows go round in a circle: no root leads to some of them');
  const sums = rows.map((r) => Math.max(0, r.value));
  for (let k = order.length - 1; k >= 0; k--) for (const c of children[order[k]]) sums[order[k]] += sums[c];
  return { roots, children, sums };
}

/** Texts by number, each once. */
class Texts {
  readonly list = ['all', ''];
  private readonly known = new Map<string, number>([
    ['all', 0],
    ['', 1],
  ]);

  number(text: string): number {
    let i = this.known.get(text);
    if (i === undefined) {
      this.known.set(text, (i = this.list.length));
      this.list.push(text);
    }
    return i;
  }
}

/** The nodes in preorder, the largest of siblings first; the first is the root of all. */
function preorder(rows: TreeRow[], { roots, children, sums }: Links, texts: Texts) {
  const bigFirst = (list: number[]) => list.filter((i) => sums[i] > 0).sort((a, b) => sums[b] - sums[a]);
  const single = roots.length === 1 && !rows[roots[0]].name;
  const top = bigFirst(single ? children[roots[0]] : roots);
  const out = {
    parent: [-1],
    end: [0],
    depth: [0],
    name: [0],
    self: [single ? Math.max(0, rows[roots[0]].value) : 0],
    cum: [0],
    begin: [0],
  };
  out.cum[0] = out.self[0] + top.reduce((a, i) => a + sums[i], 0);
  const open: { row: number; under: number }[] = top.map((row) => ({ row, under: 0 })).reverse();
  const next = [0]; // where the next child of a node begins
  while (open.length) {
    const { row, under } = open.pop()!;
    const at = out.parent.length;
    out.parent.push(under);
    out.end.push(at + 1);
    out.depth.push(out.depth[under] + 1);
    out.name.push(texts.number(rows[row].name));
    out.self.push(Math.max(0, rows[row].value));
    out.cum.push(sums[row]);
    out.begin.push(next[under]);
    next[at] = out.begin[at];
    next[under] += sums[row];
    for (const c of bigFirst(children[row]).reverse()) open.push({ row: c, under: at });
  }
  const n = out.parent.length;
  for (let i = n - 1; i > 0; i--) out.end[out.parent[i]] = Math.max(out.end[out.parent[i]], out.end[i]);
  out.end[0] = n;
  return out;
}

export function fromRows(rows: TreeRow[]): Graph {
  const started = performance.now();
  const texts = new Texts();
  const o = preorder(rows, link(rows), texts);
  const n = o.parent.length;
  return {
    n,
    nStrings: texts.list.length,
    decodeMs: performance.now() - started,
    string: (i) => texts.list[i],
    parent: Int32Array.from(o.parent),
    end: Uint32Array.from(o.end),
    depth: Uint16Array.from(o.depth.map((d) => Math.min(d, 65535))),
    name: Uint32Array.from(o.name),
    module: new Uint32Array(n).fill(1),
    flags: new Uint8Array(n),
    self: Float64Array.from(o.self),
    cum: Float64Array.from(o.cum),
    samples: new Uint32Array(n),
    err: new Float64Array(n),
    begin: Float64Array.from(o.begin),
    total: o.cum[0],
    unfiltered: o.cum[0],
    error: 0,
    ts: 0,
    interval: 1,
    maxDepth: o.depth.reduce((a, b) => Math.max(a, b), 0),
  };
}
