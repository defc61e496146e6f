// Queries that give the numbers that pages show, for the same selection (sql/profile_views.c).
import { base, isLive, isTemporary } from '../app/format';
import { go, href, place } from '../app/state';
import { ns } from '../app/times';
import type { Tracks } from '../app/types';
import type { Place } from '../app/url/place';
import { type Graph, path } from '../graph/graph';

/** A name as SQL has it: there a program is called by its file. */
const inSql = (t: Tracks, name: string) =>
  t.program && t.program_file && name.startsWith(`${t.program}+0x`)
    ? base(t.program_file) + name.slice(t.program.length)
    : name;

export const quote = (text: string) => `'${text.replace(/'/g, "''")}'`;

export interface Asked {
  heap?: string;
  at?: string;
  max?: boolean;
  from?: string;
  filters?: string[];
  frames?: Place['frames'];
  collapse?: boolean;
}

/** The arguments of heapwise_tree and heapwise_functions for what the page's selection means. */
export function selectionArgs(t: Tracks, s: Asked = place.value, ...options: string[]): string {
  const end = t.moments[t.moments.length - 1] ?? t.peak;
  const m = s.at === 'peak' ? t.peak : s.at ? { ts: s.at, max: s.max } : end;
  const words = [
    ...(m?.max ? ['max'] : []),
    ...(s.frames === 'all' ? ['all-frames'] : []),
    ...(s.collapse ? ['collapse'] : []),
    ...options,
  ];
  const args = [
    String(t.upid + 1),
    m ? (typeof m.ts === 'string' ? m.ts : ns(m.ts)) : 'null',
    s.from ? s.from : 'null',
    s.heap ? quote(s.heap) : 'null',
    s.filters?.length ? quote(s.filters.join('\n')) : 'null',
    words.length ? quote(words.join(' ')) : 'null',
  ];
  while (args[args.length - 1] === 'null') args.pop();
  return args.join(', ');
}

/** A table function over what is selected: one process, or all of several. */
const from = (table: string, t: Tracks, s: Asked = place.value, ...options: string[]) =>
  t.parts
    ? `(${t.parts.map((x) => `select ${x.pid} as pid, * from ${table}(${selectionArgs({ ...t, upid: x.upid }, s, ...options)})`).join('\n  union all ')})`
    : `${table}(${selectionArgs(t, s, ...options)})`;

const hasPivot = (s: Asked) => !!s.filters?.some((f) => /^!?P:/.test(f));

export const figureSql = (t: Tracks, s: Asked, column: string) =>
  `-- one figure: the root of the selection's tree\nselect ${column}, space_error\nfrom heapwise_tree(${selectionArgs(t, s)})\nwhere id = 0`;

export const treeSql = (t: Tracks, invert: boolean) =>
  `select ${t.parts ? 'pid, ' : ''}id, parent_id, depth, demangle(name) as name, map_name,\n  self_${place.value.metric} as self, ${place.value.metric} as value\nfrom ${from('heapwise_tree', t, place.value, ...(invert && !hasPivot(place.value) ? ['invert'] : []))}\nwhere ${place.value.metric} > 0\norder by ${t.parts ? 'pid, ' : ''}id`;

/** A graph in groups: of heaps a tree for each; of modules what each box below the root holds, which is
 * what its
 *  functions asked for themselves. */
export function graphSql(t: Tracks, invert: boolean, group: string): string {
  const m = place.value.metric;
  const p = place.value;
  if (group === 'module' && !hasPivot(p))
    return `-- the boxes below the root, by the module of the function that asked\nselect ifnull(nullif(map_name, ''), 'unknown') as module, sum(self_${m}) as value\nfrom ${from('heapwise_tree', t)}\nwhere self_${m} > 0\ngroup by 1 order by 2 desc`;
  if (group === 'heap' && !hasPivot(p)) {
    const heaps = [
      ...new Set(
        (t.parts ?? [t]).flatMap((x) =>
          x.heaps.filter((h) => (p.heap ? h.heap === p.heap : h.summed)).map((h) => h.heap),
        ),
      ),
    ];
    const one = (heap: string) =>
      `select ${quote(heap)} as heap, * from ${from('heapwise_tree', t, { ...p, heap }, ...(invert ? ['invert'] : []))}`;
    return `select heap, ${t.parts ? 'pid, ' : ''}id, parent_id, depth, demangle(name) as name, map_name,\n  self_${m} as self, ${m} as value\nfrom (${heaps.map(one).join('\n  union all ')})\nwhere ${m} > 0\norder by heap, ${t.parts ? 'pid, ' : ''}id`;
  }
  return treeSql(t, invert);
}

export function functionsSql(t: Tracks, match: string): string {
  const m = place.value.metric;
  const [column, order] = (place.value.sort || 'self desc').split(' ');
  const by: Record<string, string> = {
    name: 'name',
    module: 'map_name',
    self: 'self',
    total: 'total',
    count: 'count',
  };
  const n = isTemporary(m) ? 'temporary_objects' : isLive(m) ? 'objects' : 'alloc_objects';
  const figures = t.parts
    ? `sum(self_${m}) as self, sum(${m}) as total,\n  sum(${n}) as count`
    : `self_${m} as self, ${m} as total,\n  ${n} as count, space_error`;
  return `select demangle(name) as name, map_name, ${figures}\nfrom ${from('heapwise_functions', t)}\nwhere ${m} > 0${match ? ` and demangle(name) like ${quote(`%${inSql(t, match)}%`)}` : ''}\n${t.parts ? 'group by 1, 2, source_file\n' : ''}order by ${by[column] ?? 'self'} ${order === 'asc' ? 'asc' : 'desc'}`;
}

export const functionSql = (t: Tracks, name: string) =>
  `select ${t.parts ? 'pid, ' : ''}demangle(name) as name, map_name, self_${place.value.metric} as self, ${place.value.metric} as total,\n  space, objects, alloc_space, alloc_objects, space_error\nfrom ${from('heapwise_functions', t)}\nwhere demangle(name) = ${quote(inSql(t, name))} or name = ${quote(inSql(t, name))}`;

/** One node: its stack from the root, each with its figures. */
export function nodeSql(t: Tracks, g: Graph, node: number): string {
  const m = place.value.metric;
  const options = place.value.invert && !hasPivot(place.value) ? ['invert'] : [];
  const whole = path(g, node);
  const heap = place.value.group === 'heap' ? whole.shift() : ''; // a box of its own below the root
  const names = whole.map((n, i) => `(${i + 1}, ${quote(inSql(t, n))})`).join(',\n  ');
  return `-- the stack of one box, from the root\nwith recursive\n tree as materialized (\n  select *, iif(name is null or name = '', name, demangle(name)) as shown\n  from heapwise_tree(${selectionArgs(t, heap ? { ...place.value, heap } : place.value, ...options)})),\n stack(step, shown) as (values\n  ${names}),\n at(id, step) as (\n  select id, 0 from tree where parent_id is null\n  union all\n  select tree.id, at.step + 1 from at\n  join stack on stack.step = at.step + 1\n  join tree on tree.parent_id = at.id and tree.shown = stack.shown)\nselect tree.id, tree.depth, tree.shown as name, tree.map_name, tree.self_${m} as self, tree.${m} as value, tree.samples, tree.space_error\nfrom at join tree using (id) order by depth`;
}

export const sqlHref = (sql: string) => href({ page: 'query', sql });
export const showSql = (sql: string) => go({ page: 'query', sql });
