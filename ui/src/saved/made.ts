// Graphs that the file does not hold, made of those that it does: filtered, grouped, bottom-up, around a
// pivot.
import { ALLOCATOR, type Graph, OWN, STD } from '../graph/graph';
import { filtersOf, hasPivot, narrowed, type Program } from './narrow';
import { type Fn, Functions, type Stack, stacksOf } from './stacks';
import { Tree, treesBytes } from './tree';

/** What a graph is made by; the rest of a question says of what. */
export const MADE_BY = ['filters', 'group', 'invert', 'collapse', 'part'];

const ownerOf = (fn: Fn | undefined) =>
  fn && fn.flags & OWN ? 'your code' : fn && fn.flags & (STD | ALLOCATOR) ? 'runtime' : 'libraries';

/** The group of a stack, by the function that asked; null: there are none. */
function grouping(group: string, fns: Fn[]): ((s: Stack) => string | null) | null {
  const asked = (s: Stack): Fn | undefined => fns[s.path[s.path.length - 1]];
  if (!group) return () => null;
  if (group === 'owner') return (s) => ownerOf(asked(s));
  if (group === 'module') return (s) => asked(s)?.module || 'unknown';
  return null;
}

/** null: it takes more than this graph. */
export function flameOf(g: Graph, q: URLSearchParams, program: Program | null): ArrayBuffer | null {
  const fns = new Functions();
  const stacks = stacksOf(g, fns);
  const groupOf = grouping(q.get('group') ?? '', fns.all);
  if (!groupOf) return null;
  const filters = filtersOf((q.get('filters') ?? '').split('\n'), fns.all, program);
  const pivot = hasPivot(filters);
  const callers = q.get('part') === 'callers';
  const up = (q.get('invert') === '1' && !pivot) || callers;
  const trees = new Map<string | null, Tree>();
  for (const s of stacks) {
    const group = groupOf(s);
    const tree = trees.get(group) ?? new Tree();
    trees.set(group, tree);
    const n = narrowed(filters, s.path);
    if (!n) continue;
    const path = callers ? n.path.slice(0, n.pivot + 1) : pivot ? n.path.slice(n.pivot) : n.path;
    tree.add(up ? [...path].reverse() : path, s, q.get('collapse') === '1');
  }
  if (!trees.size) trees.set(null, new Tree());
  const share = Number(q.get('min_share') ?? 0) || 0;
  return treesBytes(trees, fns.all, share, { unfiltered: g.total, ts: g.ts, interval: g.interval });
}
