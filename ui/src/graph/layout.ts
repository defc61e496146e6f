// Where the boxes of a flamegraph stand. Nodes come in preorder with the end of each subtree, so what is
// outside the view or too narrow is skipped with everything below it. Pure.
import type { Graph } from './graph';

export const ROW = 20;
const MIN_WIDTH = 3; // narrower ones are drawn as one grey box with their neighbours

/** merged: how many nodes stand in it, 0 = it is one of its own. */
export interface Box {
  node: number;
  x: number;
  w: number;
  y: number;
  merged: number;
}

/** What of the graph is seen: below which node, in how many px, from which px of its height on. */
export interface Pane {
  zoom: number;
  width: number;
  height: number;
  top: number;
  up: boolean;
}

/** A stretch of the graph, in units of the metric from its left. */
export interface Stretch {
  from: number;
  span: number;
}

export const stretchOf = (g: Graph, node: number): Stretch => ({ from: g.begin[node], span: g.cum[node] });

/** What is seen between two zooms, t from 0 to 1: what both have in common keeps its place. */
export function between(a: Stretch, b: Stretch, t: number): Stretch {
  if (t <= 0 || !(a.span > 0)) return a;
  if (t >= 1 || !(b.span > 0)) return b;
  const span = a.span * Math.pow(b.span / a.span, t);
  const part = a.span === b.span ? t : (span - a.span) / (b.span - a.span);
  return { from: a.from + (b.from - a.from) * part, span };
}

/** Neighbours that are too narrow, one unfinished box a row. */
class Narrow {
  private readonly open = new Map<number, Box & { parent: number }>();
  constructor(private readonly finish: (row: number, box: Box) => void) {}

  add(row: number, node: number, parent: number, x: number, w: number): void {
    const last = this.open.get(row);
    if (last && x - (last.x + last.w) < 0.5 && last.parent === parent) {
      last.w = x + w - last.x;
      last.merged++;
      return;
    }
    if (last && last.w >= 0.5) this.finish(row, last);
    this.open.set(row, { node, x, w, y: 0, parent, merged: 1 });
  }

  end(deepest: number): void {
    for (const [row, b] of this.open) if (b.w >= 0.5 && row <= deepest) this.finish(row, b);
  }
}

/** The boxes that can be seen; those above the zoomed node, over the whole width, come first. */
export function layout(g: Graph, { zoom, width, height, top, up }: Pane): Box[] {
  const boxes: Box[] = [];
  const scale = g.cum[zoom] > 0 ? width / g.cum[zoom] : 0;
  const origin = g.begin[zoom];
  const level = (d: number) => (up ? height - (d + 1) * ROW + top : d * ROW - top);
  for (let i = zoom; i >= 0; i = g.parent[i])
    boxes.push({ node: i, x: 0, w: width, y: level(g.depth[i]), merged: 0 });
  const deepest = Math.floor((height + top) / ROW);
  const first = Math.floor(top / ROW);
  const narrow = new Narrow((row, b) =>
    boxes.push({ node: b.node, x: b.x, w: b.w, y: level(row), merged: b.merged }),
  );
  for (let i = zoom + 1; i < g.end[zoom];) {
    const w = g.cum[i] * scale;
    const d = g.depth[i];
    const x = (g.begin[i] - origin) * scale;
    if (w < MIN_WIDTH) {
      narrow.add(d, i, g.parent[i], x, w);
      i = g.end[i];
    } else if (d > deepest) {
      i = g.end[g.parent[i]]; // its siblings are as deep
    } else {
      if (d >= first - 1) boxes.push({ node: i, x, w, y: level(d), merged: 0 });
      i++;
    }
  }
  narrow.end(deepest);
  return boxes;
}

/** The boxes of a stretch, whatever nodes it cuts: a zoom on its way. */
export function layoutStretch(g: Graph, { from, span }: Stretch, pane: Omit<Pane, 'zoom'>): Box[] {
  const { width, height, top, up } = pane;
  const boxes: Box[] = [];
  const scale = span > 0 ? width / span : 0;
  const level = (d: number) => (up ? height - (d + 1) * ROW + top : d * ROW - top);
  const deepest = Math.floor((height + top) / ROW);
  const narrow = new Narrow((row, b) =>
    boxes.push({ node: b.node, x: b.x, w: b.w, y: level(row), merged: b.merged }),
  );
  for (let i = 0; i < g.n;) {
    const x = (g.begin[i] - from) * scale;
    const w = g.cum[i] * scale;
    const d = g.depth[i];
    if (i > 0 && x >= width) {
      i = g.end[g.parent[i]]; // its siblings are further to the right
    } else if (x + w <= 0) {
      i = g.end[i];
    } else if (w < MIN_WIDTH) {
      narrow.add(d, i, g.parent[i], x, w);
      i = g.end[i];
    } else if (d > deepest) {
      i = i > 0 ? g.end[g.parent[i]] : g.n;
    } else {
      const left = Math.max(0, x);
      boxes.push({ node: i, x: left, w: Math.min(width, x + w) - left, y: level(d), merged: 0 });
      i++;
    }
  }
  narrow.end(deepest);
  return boxes;
}

/** The deepest row in which anything is drawn: what is narrower than a box hides all below it. */
export function deepestDrawn(g: Graph, root: number, width: number): number {
  const scale = g.cum[root] > 0 ? width / g.cum[root] : 0;
  let deepest = g.depth[root];
  for (let i = root + 1; i < g.end[root];) {
    if (g.depth[i] > deepest) deepest = g.depth[i];
    i = g.cum[i] * scale < MIN_WIDTH ? g.end[i] : i + 1;
  }
  return deepest;
}
