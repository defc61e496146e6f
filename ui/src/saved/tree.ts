// Stacks merged into a tree, and the tree as the bytes that the server would send. Pure.
import { GROUP, MERGED } from '../graph/graph';
import { type Box, graphBytes, type Head } from './graph-bytes';
import type { Fn, Stack } from './stacks';

interface Node {
  fn: number; // -1: the root
  self: number;
  cum: number;
  samples: number;
  e2: number;
  children: Map<number, Node>;
}
const nodeOf = (fn: number): Node => ({ fn, self: 0, cum: 0, samples: 0, e2: 0, children: new Map() });

export class Tree {
  readonly root = nodeOf(-1);

  /** collapse: a function that calls itself is one node. */
  add(path: number[], s: Stack, collapse: boolean): void {
    let at = this.root;
    const count = (n: Node) => {
      n.cum += s.value;
      n.samples += s.samples;
      n.e2 += s.e2;
    };
    count(at);
    for (const fn of path) {
      if (collapse && at.fn === fn) continue;
      let next = at.children.get(fn);
      if (!next) at.children.set(fn, (next = nodeOf(fn)));
      at = next;
      count(at);
    }
    at.self += s.value;
  }
}

/** Largest first; of equal ones the function that was met first. */
const byTotal = (a: Node, b: Node) => b.cum - a.cum || a.fn - b.fn;

/** What is smaller than `least` as one box. */
function small(nodes: Node[], parent: number): Box {
  const sum = (of: (n: Node) => number) => nodes.reduce((x, n) => x + of(n), 0);
  const cum = sum((n) => n.cum);
  return {
    parent,
    name: nodes.length === 1 ? '(1 small one)' : `(${nodes.length} small ones)`,
    module: 'all',
    flags: MERGED,
    self: cum,
    cum,
    samples: sum((n) => n.samples),
    err: Math.sqrt(sum((n) => n.e2)),
  };
}

export class Writer {
  readonly boxes: Box[] = [];

  constructor(
    private readonly fns: Fn[],
    private readonly least: number,
  ) {}

  private box(n: Node, parent: number, name: string, module: string, flags: number): number {
    const { self, cum, samples } = n;
    return this.boxes.push({ parent, name, module, flags, self, cum, samples, err: Math.sqrt(n.e2) }) - 1;
  }

  /** A tree, below a box of its group or as the whole. */
  put(tree: Tree, group: string | null): void {
    const top =
      group === null ? this.box(tree.root, -1, 'all', 'all', 0) : this.box(tree.root, 0, group, 'all', GROUP);
    // Without recursion: stacks may be thousands of frames deep.
    const open = [{ place: top, rest: this.children(tree.root) }];
    while (open.length) {
      const { place, rest } = open[open.length - 1];
      const n = rest.shift();
      if (!n) open.pop();
      else if (Array.isArray(n)) this.boxes.push(small(n, place));
      else {
        const fn = this.fns[n.fn];
        open.push({ place: this.box(n, place, fn.name, fn.module, fn.flags), rest: this.children(n) });
      }
    }
  }

  private children(n: Node): (Node | Node[])[] {
    const all = [...n.children.values()].filter((c) => c.cum > 0).sort(byTotal);
    const few = all.filter((c) => c.cum < this.least);
    if (!few.length) return all;
    const large: (Node | Node[])[] = all.filter((c) => c.cum >= this.least);
    const sum = few.reduce((a, c) => a + c.cum, 0);
    const at = large.findIndex((c) => (c as Node).cum < sum);
    large.splice(at < 0 ? large.length : at, 0, few);
    return large;
  }
}

/** Trees by the name of their group, the largest first; one without a name is the whole. */
export function treesBytes(
  trees: Map<string | null, Tree>,
  fns: Fn[],
  share: number,
  head: Omit<Head, 'sides'>,
) {
  const all = [...trees].sort(([a, x], [b, y]) => byTotal(x.root, y.root) || (a! < b! ? -1 : 1));
  const total = all.reduce((a, [, t]) => a + t.root.cum, 0);
  const writer = new Writer(fns, total * share);
  if (!trees.has(null)) {
    const sum = (of: (n: Node) => number) => all.reduce((x, [, t]) => x + of(t.root), 0);
    const [samples, e2] = [sum((n) => n.samples), sum((n) => n.e2)];
    writer.boxes.push({
      parent: -1,
      name: 'all',
      module: 'all',
      flags: 0,
      self: 0,
      cum: total,
      samples,
      err: Math.sqrt(e2),
    });
  }
  for (const [group, tree] of all) if (group === null || tree.root.cum > 0) writer.put(tree, group);
  return graphBytes(writer.boxes, { ...head, sides: false });
}
