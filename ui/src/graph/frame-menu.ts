// What can be done with a frame of the flamegraph.
import { exactly } from '../app/filters';
import { amount, error, percent, safe } from '../app/format';
import { isSaved } from '../app/server';
import { go, place } from '../app/state';
import type { Tracks } from '../app/types';
import { addFilter } from '../parts/filters';
import type { Item } from '../parts/menu';
import { nodeSql, showSql } from '../parts/show-sql';
import { stackText } from './flame';
import { errorOf, type Graph, GROUP, MERGED, moduleOf, nameOf } from './graph';
import { toSource } from './source-of';

const copy = (text: string) => void navigator.clipboard?.writeText(text);

/** A box that stands for a heap or a process of a grouped graph; null: it is none. */
function groupItems(t: Tracks, g: Graph, node: number, zoomIn: Item): Item[] | null {
  if (!(g.flags[node] & GROUP)) return null;
  const name = nameOf(g, node);
  if (place.peek().group === 'heap')
    return [
      zoomIn,
      { label: 'Keep this heap', act: () => addFilter(`H:${exactly(name)}`) },
      { label: 'Hide this heap', act: () => addFilter(`!H:${exactly(name)}`) },
    ];
  const only = t.parts?.find((x) => `${x.name} (${x.pid})` === name);
  return only
    ? [zoomIn, { label: 'Only this process', act: () => go({ upid: only.upid, with: '', zoom: '' }) }]
    : null;
}

/** Filters that keep, hide and merge. */
function filterItems(name: string, module: string): (Item | null)[] {
  return [
    { label: 'Show from here', act: () => addFilter(`SFF:${exactly(name)}`) },
    { label: 'Pivot: callers and callees', key: 'P', act: () => addFilter(`P:${exactly(name)}`) },
    null,
    { label: 'Keep stacks with this', key: 'K', act: () => addFilter(`SS:${exactly(name)}`) },
    { label: 'Hide stacks with this', act: () => addFilter(`HS:${exactly(name)}`) },
    { label: 'Merge into its caller', key: 'H', act: () => addFilter(`HF:${exactly(name)}`) },
    ...(module
      ? [
          { label: 'Keep stacks in this module', act: () => addFilter(`M:${exactly(module)}`) },
          { label: 'Hide stacks in this module', act: () => addFilter(`!M:${exactly(module)}`) },
        ]
      : []),
  ];
}

export function menuItems(t: Tracks, g: Graph, node: number, onZoom: (n: number) => void): (Item | null)[] {
  const name = nameOf(g, node);
  const zoomIn = { label: 'Zoom in', key: '↵', act: () => onZoom(node) };
  const group = groupItems(t, g, node, zoomIn);
  if (group) return group;
  if (node === 0 || g.flags[node] & (MERGED | GROUP)) return [zoomIn];
  const copies = [
    { label: 'Copy name', act: () => copy(name) },
    { label: 'Copy stack', act: () => copy(stackText(g, node)) },
    { label: 'Copy stack with figures (Markdown)', act: () => copy(markdown(g, node)) },
  ];
  const elsewhere = (page: string) => () =>
    go({ page, filters: [...place.peek().filters.filter((f) => !/^!?P:/.test(f)), `SS:${exactly(name)}`] });
  const common = [
    zoomIn,
    ...filterItems(name, moduleOf(g, node)),
    null,
    { label: 'Find in another dump: differences', act: elsewhere('diff') },
  ];
  if (isSaved()) return [...common, null, ...copies];
  return [
    ...common,
    { label: 'Allocation sizes here', act: elsewhere('sizes') },
    { label: 'Source', act: () => void toSource(name) },
    { label: 'Instructions', act: () => go({ page: 'source', view: 'code', fn: name }) },
    ...(/^(module|owner)$/.test(place.peek().group) || t.parts
      ? []
      : [{ label: 'SQL for this stack', act: () => showSql(nodeSql(t, g, node)) }]),
    { label: 'Functions: callers and callees', act: () => go({ page: 'functions', fn: name, zoom: '' }) },
    null,
    ...copies,
    { label: 'Copy link to this view', act: () => copy(location.href) },
  ];
}

/** The stack as a table, root first. */
function markdown(g: Graph, node: number): string {
  const m = place.peek().metric;
  const rows: string[] = [];
  for (let i = node; i > 0; i = g.parent[i])
    rows.unshift(
      `| ${safe(nameOf(g, i)).replace(/\|/g, '\\|')} | ${amount(g.cum[i], m)} ${error(errorOf(g, i), g.cum[i])} | ${percent(g.cum[i], g.total)} | ${amount(g.self[i], m)} |`,
    );
  return `| function | total | share | self |\n|---|--:|--:|--:|\n${rows.join('\n')}\n`;
}
