// The flamegraph of a managed heap: classes by shortest path from a root, or by dominator.
import { useMemo } from 'preact/hooks';
import { save } from '../app/files';
import { amount, safe } from '../app/format';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import { Crumbs, GraphSearch, Matched } from '../graph/crumbs';
import { Flame, stackText } from '../graph/flame';
import { type Graph, MERGED, nameOf } from '../graph/graph';
import { useFrameMenu, useZoom } from '../graph/zoomed';
import { useAnswer } from '../parts/answer';
import { digit, useKeys } from '../parts/keys';
import type { Item } from '../parts/menu';
import { quote, showSql } from '../parts/show-sql';
import { Failed } from '../parts/words';
import {
  classHref,
  HEAP_METRICS,
  type HeapDump,
  heapFlame,
  type HeapMetric,
  isSize,
  params,
  where,
} from './heap-api';
import { CollapseChains, HeapMetricChoice } from './heap-bars';
import { Working } from './heap-parts';
import { classOfNode, managedLook } from './managed-look';

export function treeSql(d: HeapDump, m: HeapMetric): string {
  const value = isSize(m) ? 'size' : 'count';
  if (m.startsWith('object'))
    return `select id, parent_id, depth, name, ${value} as value, cumulative_${value}\nfrom experimental_flamegraph(${ns(d.ts)}, ${d.upid + 1}, 'graph')`;
  return `include perfetto module android.memory.heap_graph.dominator_class_tree;\nselect id, parent_id, name, root_type, self_${value} as value\nfrom _heap_graph_dominator_class_tree\nwhere upid = ${d.upid + 1} and graph_sample_ts = ${ns(d.ts)}`;
}

const copy = (text: string) => void navigator.clipboard?.writeText(text);

function itemsOf(g: Graph, node: number, onZoom: (node: number) => void): (Item | null)[] {
  const name = classOfNode(nameOf(g, node));
  const zoomIn = { label: 'Zoom in', key: '↵', act: () => onZoom(node) };
  const paths = {
    label: node === 0 ? 'Reference paths by class' : 'Reference paths to this class',
    act: () => go({ tab: 'paths', cls: node === 0 ? '' : name, search: '' }),
  };
  if (node === 0) return [zoomIn, paths, { label: 'Copy link to this view', act: () => copy(location.href) }];
  if (g.flags[node] & MERGED) return [zoomIn];
  return [
    zoomIn,
    paths,
    { label: 'Objects of this class', act: () => void (location.hash = classHref(name)) },
    { label: 'This class among all', act: () => go({ tab: 'classes', match: name }) },
    { label: 'All boxes of this class', act: () => go({ search: name }, true) },
    { label: 'Find in another dump: differences', act: () => go({ tab: 'diff', match: name }) },
    null,
    {
      label: 'SQL for this class',
      act: () =>
        showSql(`select * from heap_graph_class where ifnull(deobfuscated_name, name) = ${quote(name)}`),
    },
    { label: 'Copy name', act: () => copy(name) },
    { label: 'Copy path', act: () => copy(stackText(g, node)) },
    { label: 'Copy link to this view', act: () => copy(location.href) },
  ];
}

function Bar({ m, sql }: { m: HeapMetric; sql: string }) {
  const p = place.value;
  const png = () =>
    document
      .querySelector<HTMLCanvasElement>('.flame canvas')
      ?.toBlob((b) => b && save(b, 'managed-heap.png'));
  return (
    <div class="bar">
      <HeapMetricChoice m={m} />
      <CollapseChains shortcut=" (C)" />
      <button
        type="button"
        aria-pressed={p.bottom}
        class="toggle"
        title="root at the bottom"
        onClick={() => go({ bottom: !p.bottom }, true)}>
        Root below
      </button>
      <span class="grow" />
      <GraphSearch />
      <button type="button" onClick={png}>
        PNG
      </button>
      {sql && (
        <button type="button" title="the query that gives these numbers" onClick={() => showSql(sql)}>
          SQL
        </button>
      )}
    </div>
  );
}

function useHeapKeys(): void {
  useKeys((e) => {
    const next = digit(e, HEAP_METRICS);
    if (next) go({ heapmetric: next.id, zoom: '' });
    else if (e.key === 'c' || e.key === 'C') go({ collapse: !place.peek().collapse, zoom: '' });
    else if (e.key === '/') document.getElementById('search')?.focus();
    else return false;
    return true;
  }, []);
}

export function HeapFlame({ dump, object, height }: { dump: HeapDump; object?: number; height?: number }) {
  const p = place.value;
  const m = (p.heapmetric || 'object_size') as HeapMetric;
  const unit = isSize(m) ? 'space' : 'objects';
  const query = params({ ...where(dump), metric: m, collapse: p.collapse ? 1 : undefined, object });
  const answer = useAnswer(`heap flame ${p.trace}?${query}`, () => heapFlame(p.trace, 'flame', query));
  const g = answer.value;
  const look = useMemo(() => (g ? managedLook(g, m) : undefined), [g]);
  const { zoom, found, onZoom } = useZoom(g);
  const { onMenu, menu } = useFrameMenu(g, (node) => (g ? itemsOf(g, node, onZoom) : []));
  useHeapKeys();
  return (
    <div class="explorer" aria-busy={answer.busy}>
      <Bar m={m} sql={object === undefined ? treeSql(dump, m) : ''} />
      {g && (
        <div class="line">
          <Crumbs graph={g} zoom={zoom} onZoom={onZoom} width={40} />
          <span class="grow" />
          <Matched found={found} graph={g} metric={unit} />
        </div>
      )}
      {answer.busy && !g && <Working what="Drawing" />}
      {answer.error && <Failed text={answer.error} />}
      {g && g.total <= 0 && <p class="empty">No root leads to any object of this dump.</p>}
      {g && g.total > 0 && (
        <>
          <Flame
            graph={g}
            metric={unit}
            zoom={zoom}
            up={p.bottom}
            searchText={p.search}
            height={height}
            look={look}
            label={`Managed heap, ${amount(g.total, unit)}`}
            onZoom={onZoom}
            onMenu={onMenu}
          />
          <p class="statement">
            {m.startsWith('object')
              ? 'Every reachable object once, on its shortest path from a root'
              : 'Every object below the one that alone keeps it alive'}{' '}
            · process {dump.pid} {safe(dump.name)} · {amount(g.total, unit)}
            {object !== undefined && ' below this object'}
          </p>
        </>
      )}
      {menu}
    </div>
  );
}
