// Comparisons of any two moments, made of their graphs as views/findings/diff makes them of callstacks.
// Paths of functions stand for callstacks: an error may differ a little from the server's, which knows their
// samples.
import { base } from '../app/format';
import type { Graph } from '../graph/graph';
import { type Box, graphBytes } from './graph-bytes';
import { filtersOf, narrowed, type Program } from './narrow';
import { type Fn, Functions, stacksOf } from './stacks';

/** One side: its graph in the metric, and how many samples ever came to each path. */
export interface Side {
  graph: Graph;
  came: Graph | null; // in the metric of all allocations
  seconds: number;
}

interface Value {
  a: number;
  b: number;
  samplesA: number;
  samplesB: number;
  a2: number; // squares of errors
  b2: number;
  change2: number;
}
const nothing = (): Value => ({ a: 0, b: 0, samplesA: 0, samplesB: 0, a2: 0, b2: 0, change2: 0 });
function addTo(to: Value, v: Value): void {
  for (const k of Object.keys(to) as (keyof Value)[]) to[k] += v[k];
}

export interface Node {
  fn: number; // -1: the root
  parent: Node | null;
  self: Value;
  total: Value;
  width: number;
  ownWidth: number;
  cameA: number;
  cameB: number;
  children: Map<number, Node>;
}
const nodeOf = (fn: number, parent: Node | null): Node => ({
  fn,
  parent,
  self: nothing(),
  total: nothing(),
  width: 0,
  ownWidth: 0,
  cameA: 0,
  cameB: 0,
  children: new Map(),
});

/** libfoo-1.2.so.3 is libfoo.so, too. */
const stem = (path: string) => {
  const name = base(path);
  const so = /^(.*?)\.so(?:\.|$)/s.exec(name);
  return so ? `${so[1].replace(/(.)-[\d.]+$/s, '$1')}.so` : name;
};

export interface Question {
  metric: string;
  mode: string;
  byName: boolean;
  sameRun: boolean; // two dumps of one process, forwards in time
  filters: string[];
  program: Program | null;
}

export interface Compared {
  root: Node;
  fns: Fn[];
  scaleA: number;
  scaleB: number;
  q: Question;
}

/** What changed of a path: samples that stayed are the same on both sides. */
function changeOf(n: Node): number {
  const { samplesA, samplesB, a2, b2 } = n.self;
  const went = n.cameB - n.cameA - (samplesB - samplesA);
  const each = Math.max(samplesA > 0 ? a2 / samplesA : 0, samplesB > 0 ? b2 / samplesB : 0);
  const wentOld = Math.min(Math.max(went, 0), samplesA);
  const came = Math.max(samplesB - (samplesA - wentOld), 0);
  return Math.min(a2 + b2, each * (wentOld + came));
}

/** Nodes, parents first. */
export function nodesOf(root: Node): Node[] {
  const all = [root];
  for (let i = 0; i < all.length; i++) all.push(...all[i].children.values());
  return all;
}

function sumUp(root: Node, scale: (v: Value) => [number, number], change: boolean): void {
  const all = nodesOf(root);
  for (const n of all) {
    n.self.change2 = change ? changeOf(n) : n.self.a2 + n.self.b2;
    n.total = { ...n.self };
    const [a, b] = scale(n.self);
    n.ownWidth = n.width = Math.max(0, a, b);
  }
  for (const n of all.reverse())
    if (n.parent) {
      addTo(n.parent.total, n.total);
      n.parent.width += n.width;
    }
}

/** A path's node, made where it is not there. */
function descend(root: Node, path: number[]): Node {
  let at = root;
  for (const fn of path) {
    let next = at.children.get(fn);
    if (!next) at.children.set(fn, (next = nodeOf(fn, at)));
    at = next;
  }
  return at;
}

function fill(root: Node, fns: Functions, side: Side, which: 'A' | 'B', q: Question): void {
  const key = (name: string, module: string) => (q.byName ? name : `${name}\0${stem(module)}`);
  const stacks = stacksOf(side.graph, fns, key);
  const came = side.came ? stacksOf(side.came, fns, key) : [];
  const filters = filtersOf(q.filters, fns.all, q.program);
  for (const s of stacks) {
    const path = narrowed(filters, s.path)?.path;
    if (!path) continue;
    const v = descend(root, path).self;
    v[which === 'A' ? 'a' : 'b'] += s.value;
    v[which === 'A' ? 'samplesA' : 'samplesB'] += s.samples;
    v[which === 'A' ? 'a2' : 'b2'] += s.e2;
  }
  for (const s of came) {
    const path = narrowed(filters, s.path)?.path;
    if (path) descend(root, path)[which === 'A' ? 'cameA' : 'cameB'] += s.samples;
  }
}

export function compare(a: Side, b: Side, q: Question): Compared {
  const fns = new Functions();
  const root = nodeOf(-1, null);
  fill(root, fns, b, 'B', q); // its module names are shown
  fill(root, fns, a, 'A', q);
  const live = q.metric === 'space' || q.metric === 'objects';
  sumUp(root, (v) => [v.a, v.b], live && q.sameRun);
  const by = (x: number) => (x > 0 ? 1 / x : 0);
  const [scaleA, scaleB] =
    q.mode === 'share'
      ? [by(root.total.a), by(root.total.b)]
      : q.mode === 'rate'
        ? [by(a.seconds), by(b.seconds)]
        : [1, 1];
  if (scaleA !== 1 || scaleB !== 1) sumUp(root, (v) => [v.a * scaleA, v.b * scaleB], live && q.sameRun);
  return { root, fns: fns.all, scaleA, scaleB, q };
}

const errorOf = (c: Compared, v: Value): number => {
  if (c.scaleA !== c.scaleB) return Math.sqrt(v.a2 * c.scaleA ** 2 + v.b2 * c.scaleB ** 2);
  const live = c.q.metric === 'space' || c.q.metric === 'objects';
  if (v.a2 === Infinity || v.b2 === Infinity) return Infinity;
  const e2 = live ? v.change2 : c.q.sameRun ? Math.max(v.b2 - v.a2, 0) : v.a2 + v.b2;
  return c.scaleA * Math.sqrt(e2);
};

export type Figures = [number, number, number, number, boolean, number, number];
export function figuresOf(c: Compared, v: Value): Figures {
  const [a, b] = [v.a * c.scaleA, v.b * c.scaleB];
  const error = errorOf(c, v);
  return [a, b, b - a, error, Math.abs(b - a) > error, v.samplesA, v.samplesB];
}

const ONLY_A = 16;
const ONLY_B = 32;

export function comparedBytes(c: Compared, ts: number, interval: number): ArrayBuffer {
  const boxes: Box[] = [];
  const put = (n: Node, parent: number) => {
    const v = n.total;
    const fn = n.fn < 0 ? { name: 'all', module: 'all' } : c.fns[n.fn];
    const [a, b, , err] = figuresOf(c, v);
    const flags = (b <= 0 && a > 0 ? ONLY_A : 0) | (a <= 0 && b > 0 ? ONLY_B : 0);
    const { name } = fn;
    const module = base(fn.module);
    const [self, cum, samples] = [n.ownWidth, n.width, v.samplesA + v.samplesB];
    return boxes.push({ parent, name, module, flags, self, cum, samples, err, a, b }) - 1;
  };
  const sorted = (n: Node) =>
    [...n.children.values()].filter((x) => x.width > 0).sort((x, y) => y.width - x.width);
  const open = [{ place: put(c.root, -1), rest: sorted(c.root) }];
  while (open.length) {
    const { place, rest } = open[open.length - 1];
    const n = rest.shift();
    if (n) open.push({ place: put(n, place), rest: sorted(n) });
    else open.pop();
  }
  return graphBytes(boxes, { unfiltered: boxes[0].cum, ts, interval, sides: true });
}

const MOST_CALLERS = 3;

function callersOf(c: Compared, node: Node | undefined): string[] {
  const out: string[] = [];
  let of = node?.fn ?? -1;
  for (let at = node; at && at.fn >= 0 && out.length < MOST_CALLERS; at = at.parent ?? undefined) {
    if (at.fn === of) continue; // itself, and recursion
    out.push(c.fns[at.fn].name);
    of = at.fn;
  }
  return out;
}

/** Functions: of themselves, or with what they call, each once a stack. */
export function rowsOf(c: Compared, total: boolean): [string, string, ...Figures, string[]][] {
  const values = new Map<number, Value>();
  const largest = new Map<number, Node>();
  const by = (n: Node) => Math.abs(figuresOf(c, total ? n.total : n.self)[2]);
  const isInner = (n: Node) => {
    for (let at = n.parent; at; at = at.parent) if (at.fn === n.fn) return true;
    return false;
  };
  for (const n of nodesOf(c.root).slice(1)) {
    const best = largest.get(n.fn);
    if (by(n) > (best ? by(best) : 0)) largest.set(n.fn, n);
    const v = values.get(n.fn) ?? nothing();
    values.set(n.fn, v);
    if (!total) addTo(v, n.self);
    else if (!isInner(n)) addTo(v, n.total);
  }
  return [...values]
    .map(([fn, v]): [string, string, ...Figures, string[]] => [
      c.fns[fn].name,
      base(c.fns[fn].module),
      ...figuresOf(c, v),
      callersOf(c, largest.get(fn)),
    ])
    .filter((r) => r[4] !== 0);
}
