// The flamegraph of a managed heap: classes by shortest path from a root, or by dominator.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { save } from '../app/api';
import { Flame, type Look, stackText } from '../graph/flame';
import { amount, count, exact, fit, percent, safe } from '../app/format';
import { find, type Graph, MERGED, moduleOf, nameOf, path, search } from '../graph/graph';
import { classHref, type HeapDump, heapFlame, type HeapMetric, HEAP_METRICS, isSize, params, where } from './heap-api';
import { explain, Working } from './heap-parts';
import { Choice, Failed, isTyping, type Item, Menu, useAnswer } from '../parts/parts';
import { quote, showSql } from '../parts/show-sql';
import { go, href, place } from '../app/state';
import { ns } from '../app/times';

export const NATIVE = 2, MANAGED = 128;
const SEPARATOR = '\u001f';

/** "[native] a.Bitmap [ROOT_JNI_GLOBAL]" is of the class a.Bitmap. */
export const classOfNode = (name: string) => name.replace(/^\[native\] /, '').replace(/ \[ROOT_[A-Z_]+\]$/, '');

function hash(s: string): number {
  let h = 2166136261;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
  return h >>> 0;
}

/** Greens to violets by package, a little lightness by class; memory outside of the heap is warm. */
export function managedFill(g: Graph, node: number, dark: boolean): string {
  const name = classOfNode(nameOf(g, node));
  const step = (hash(name) >>> 8) % 10;
  if (g.flags[node] & NATIVE) return dark ? `hsl(32 42% ${30 + step * 0.5}%)` : `hsl(32 78% ${76 + step * 0.5}%)`;
  const pack = name.replace(/[.$][^.]*$/, '');
  const hue = 140 + (hash(pack) % 150);
  return dark ? `hsl(${hue} 34% ${30 + step}%)` : `hsl(${hue} 52% ${75 + step}%)`;
}

export function managedLook(g: Graph, m: HeapMetric): Look {
  const unit = isSize(m) ? 'space' : 'objects';
  return {
    fill: (node, dark) => managedFill(g, node, dark),
    mark: () => '',
    hatched: (node) => (g.flags[node] & NATIVE) !== 0,
    say: (node) => `${safe(nameOf(g, node))}, ${amount(g.cum[node], unit)}, ${percent(g.cum[node], g.total)} of all, self ${amount(g.self[node], unit)}, ${count(g.samples[node])} objects`,
    tip: (node) => {
      const raw = node > 0 && !(g.flags[node] & MERGED) ? moduleOf(g, node) : '';
      const why = explain(nameOf(g, node));
      return (
        <>
          {raw && <div class="dim">recorded as {safe(raw)}</div>}
          {g.flags[node] & NATIVE ? <div class="dim">memory outside of the heap that this class registered: counts as one object</div> : null}
          {why && <div class="dim">{why}</div>}
          <dl>
            <dt>total</dt><dd>{amount(g.cum[node], unit)} <span class="dim">{exact(g.cum[node])}{isSize(m) && ' B'}</span></dd>
            <dt>share</dt><dd>{percent(g.cum[node], g.total)} of all{g.parent[node] > 0 && `, ${percent(g.cum[node], g.cum[g.parent[node]])} of what is above`}</dd>
            <dt>self</dt><dd>{amount(g.self[node], unit)}</dd>
            <dt>objects</dt><dd>{exact(g.samples[node])}</dd>
          </dl>
        </>
      );
    },
  };
}

export function treeSql(d: HeapDump, m: HeapMetric): string {
  const value = isSize(m) ? 'size' : 'count';
  if (m.startsWith('object'))
    return `select id, parent_id, depth, name, ${value} as value, cumulative_${value}\nfrom experimental_flamegraph(${ns(d.ts)}, ${d.upid + 1}, 'graph')`;
  return `include perfetto module android.memory.heap_graph.dominator_class_tree;\nselect id, parent_id, name, root_type, self_${value} as value\nfrom _heap_graph_dominator_class_tree\nwhere upid = ${d.upid + 1} and graph_sample_ts = ${ns(d.ts)}`;
}

export function HeapFlame({ dump, object, height }: { dump: HeapDump; object?: number; height?: number }) {
  const p = place.value;
  const m = (p.heapmetric || 'object_size') as HeapMetric;
  const unit = isSize(m) ? 'space' : 'objects';
  const query = params({ ...where(dump), metric: m, collapse: p.collapse ? 1 : undefined, object });
  const answer = useAnswer(`heap flame ${p.trace}?${query}`, () => heapFlame(p.trace, 'flame', query));
  const [menu, setMenu] = useState<{ node: number; x: number; y: number } | null>(null);
  const g = answer.value;
  const look = useMemo(() => (g ? managedLook(g, m) : undefined), [g]);
  const zoom = useMemo(() => (g && p.zoom ? find(g, p.zoom.split(SEPARATOR)) : 0), [g, p.zoom]);
  const found = useMemo(() => (g ? search(g, p.search) : null), [g, p.search]);
  const onZoom = (node: number) => g && node < g.n && go({ zoom: path(g, node).join(SEPARATOR) });
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || isTyping(e)) return;
      const next = HEAP_METRICS['1234'.indexOf(e.key)];
      if (e.key.length === 1 && next && '1234'.includes(e.key)) go({ heapmetric: next.id, zoom: '' });
      else if (e.key === 'c' || e.key === 'C') go({ collapse: !place.peek().collapse, zoom: '' });
      else if (e.key === '/') document.getElementById('search')?.focus();
      else return;
      e.preventDefault();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
  const items = (node: number): (Item | null)[] => {
    if (!g) return [];
    const name = classOfNode(nameOf(g, node));
    const copy = (text: string) => void navigator.clipboard?.writeText(text);
    const zoomIn = { label: 'Zoom in', key: '↵', act: () => onZoom(node) };
    const paths = { label: node === 0 ? 'Reference paths by class' : 'Reference paths to this class', act: () => go({ tab: 'paths', cls: node === 0 ? '' : name, search: '' }) };
    if (node === 0) return [zoomIn, paths, { label: 'Copy link to this view', act: () => copy(location.href) }];
    if (g.flags[node] & MERGED) return [zoomIn];
    return [
      zoomIn, paths,
      { label: 'Objects of this class', act: () => (location.hash = classHref(name)) },
      { label: 'This class among all', act: () => go({ tab: 'classes', match: name }) },
      { label: 'All boxes of this class', act: () => go({ search: name }, true) },
      { label: 'Find in another dump: differences', act: () => go({ tab: 'diff', match: name }) },
      null,
      { label: 'SQL for this class', act: () => showSql(`select * from heap_graph_class where ifnull(deobfuscated_name, name) = ${quote(name)}`) },
      { label: 'Copy name', act: () => copy(name) },
      { label: 'Copy path', act: () => copy(stackText(g, node)) },
      { label: 'Copy link to this view', act: () => copy(location.href) },
    ];
  };
  const crumbs: number[] = [];
  if (g) for (let i = zoom; i > 0; i = g.parent[i]) crumbs.unshift(i);
  return (
    <div class="explorer" aria-busy={answer.busy}>
      <div class="bar">
        <Choice label="Metric" value={m} options={HEAP_METRICS} onChange={(heapmetric) => go({ heapmetric, zoom: '' })} />
        <button type="button" aria-pressed={p.collapse} class="toggle" title="an object below one of its own class stands in the same box: chains and trees become one (C)" onClick={() => go({ collapse: !p.collapse, zoom: '' })}>Collapse chains</button>
        <button type="button" aria-pressed={p.bottom} class="toggle" title="the root stands at the bottom" onClick={() => go({ bottom: !p.bottom }, true)}>Root below</button>
        <span class="grow" />
        <input id="search" type="search" aria-label="Search" placeholder="Search  (/)" value={p.search} onInput={(e) => go({ search: e.currentTarget.value }, true)}
          onKeyDown={(e) => (e.key === 'Enter' || e.key === 'Escape') && document.querySelector<HTMLElement>('.flame canvas')?.focus()} />
        <button type="button" onClick={() => document.querySelector<HTMLCanvasElement>('.flame canvas')?.toBlob((b) => b && save(b, 'managed-heap.png'))}>PNG</button>
        {object === undefined && <button type="button" title="the query that gives these numbers" onClick={() => showSql(treeSql(dump, m))}>SQL</button>}
      </div>
      {g && (
        <div class="line">
          <nav class="crumbs" aria-label="Zoom">
            <button type="button" disabled={zoom === 0} onClick={() => go({ zoom: '' })}>all</button>
            {crumbs.slice(-5).map((c) => <><span aria-hidden="true">›</span><button type="button" disabled={c === zoom} title={safe(nameOf(g, c))} onClick={() => onZoom(c)}>{fit(safe(nameOf(g, c)), 40)}</button></>)}
          </nav>
          <span class="grow" />
          {found && p.search && <span class="match">{found.nodes.length} matches, {amount(found.sum, unit)} ({percent(found.sum, g.total)})</span>}
        </div>
      )}
      {answer.busy && !g && <Working what="Drawing" />}
      {answer.error && <Failed text={answer.error} />}
      {g && g.total <= 0 && <p class="empty">No root leads to any object of this dump.</p>}
      {g && g.total > 0 && (
        <>
          <Flame graph={g} metric={unit} zoom={zoom} up={p.bottom} searchText={p.search} height={height} look={look} label={`Managed heap, ${amount(g.total, unit)}`}
            onZoom={onZoom} onMenu={(node, x, y) => setMenu({ node, x, y })} />
          <p class="statement">{m.startsWith('object') ? 'Every reachable object once, on its shortest path from a root' : 'Every object below the one that alone keeps it alive'} · process {dump.pid} {safe(dump.name)} · {amount(g.total, unit)}{object !== undefined && ' below this object'}</p>
        </>
      )}
      {menu && g && menu.node < g.n && <Menu title={fit(safe(nameOf(g, menu.node)), 60)} x={menu.x} y={menu.y} onClose={() => setMenu(null)} items={items(menu.node)} />}
    </div>
  );
}

export { href };
