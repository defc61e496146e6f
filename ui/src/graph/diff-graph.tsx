// The graphs of a comparison: both sides merged into one, or beside each other.
import { useMemo, useState } from 'preact/hooks';
import { exactly } from '../app/filters';
import { amount, fit, growth, isUnknown, safe } from '../app/format';
import { ask, isSaved } from '../app/server';
import type { Side } from '../app/sides';
import { go, place } from '../app/state';
import { useAnswer } from '../parts/answer';
import { addFilter } from '../parts/filters';
import { type Item, Menu } from '../parts/menu';
import { Busy, Failed } from '../parts/words';
import { change, figure, plusMinus } from './diff-figures';
import { changeFill } from './diff-fill';
import type { Look } from './draw';
import { Flame } from './flame';
import { decode, find, type Graph, MERGED, nameOf, ONLY_A, ONLY_B, path } from './graph';
import { flame, smallFlame } from './graphs';

function lookOf(g: Graph): Look {
  const a = g.a!,
    b = g.b!;
  const delta = (i: number) => b[i] - a[i];
  const sure = (i: number) => Math.abs(delta(i)) > g.err[i];
  const isNoise = (i: number) => !sure(i) && !isUnknown(g.err[i]);
  return {
    fill(i, dark) {
      return changeFill(sure(i) ? delta(i) : 0, Math.max(a[i], b[i]), dark);
    },
    mark: (i) => (!sure(i) || delta(i) === 0 ? '' : delta(i) > 0 ? '▲ ' : '▼ '),
    hatched: (i) => (g.flags[i] & (ONLY_A | ONLY_B)) !== 0,
    say: (i) =>
      `${safe(nameOf(g, i))}: ${figure(a[i])} before, ${figure(b[i])} after, ${change(delta(i))}${isNoise(i) ? ', within the sampling error' : ''}`,
    tip: (i) => (
      <dl>
        <dt>A</dt>
        <dd>{figure(a[i])}</dd>
        <dt>B</dt>
        <dd>{figure(b[i])}</dd>
        <dt>change</dt>
        <dd>
          <b>{change(delta(i))}</b> {plusMinus(g.err[i])} {growth(a[i], b[i])}
        </dd>
        <dt />
        <dd class="dim">
          {g.flags[i] & ONLY_A
            ? 'only in A'
            : g.flags[i] & ONLY_B
              ? 'only in B'
              : delta(i) === 0
                ? 'unchanged'
                : isNoise(i)
                  ? 'within the sampling error'
                  : ''}
        </dd>
      </dl>
    ),
  };
}

const SEPARATOR = '\u001f';
const graphs = new Map<string, Promise<Graph>>();

function diffGraph(trace: number, query: string): Promise<Graph> {
  const key = `${trace}?${query}`;
  let g = graphs.get(key);
  if (!g) {
    graphs.clear();
    g = ask(`/api/v1/traces/${trace}/diff?${query}`).then(async (r) => decode(await r.arrayBuffer()));
    g.catch(() => graphs.delete(key));
    graphs.set(key, g);
  }
  return g;
}

const LEGEND = (
  <ul class="legend" aria-label="Colours">
    <li>
      <i class="grew" />▲ grew
    </li>
    <li>
      <i class="shrank" />▼ shrank
    </li>
    <li>
      <i class="same" />
      unchanged, or within the sampling error
    </li>
    <li>
      <i class="lone" />
      on one side only
    </li>
    <li class="dim">a stack is as wide as its larger side</li>
  </ul>
);

/** The name by which a frame can be filtered; '' = it has none. */
const nameIn = (g: Graph, node: number) =>
  node > 0 && node < g.n && !(g.flags[node] & MERGED) ? nameOf(g, node) : '';

function onKey(g: Graph, key: string, node: number): boolean {
  const filter = { k: 'SS', h: 'HF' }[key.toLowerCase()];
  const name = nameIn(g, node);
  if (filter && name) addFilter(`${filter}:${exactly(name)}`);
  return !!filter;
}

function itemsOf(g: Graph, node: number, onZoom: (node: number) => void): (Item | null)[] {
  const name = nameIn(g, node);
  const zoomIn = { label: 'Zoom in', key: '↵', act: () => onZoom(node) };
  if (!name) return [zoomIn];
  return [
    zoomIn,
    { label: 'Keep stacks with this', key: 'K', act: () => addFilter(`SS:${exactly(name)}`) },
    { label: 'Hide stacks with this', act: () => addFilter(`HS:${exactly(name)}`) },
    { label: 'Merge into its caller', key: 'H', act: () => addFilter(`HF:${exactly(name)}`) },
    null,
    ...(isSaved()
      ? []
      : [{ label: 'In B: callers and callees', act: () => go({ page: 'functions', fn: name, zoom: '' }) }]),
    { label: 'Copy name', act: () => void navigator.clipboard?.writeText(name) },
  ];
}

export function Union({ query }: { query: string }) {
  const p = place.value;
  const answer = useAnswer(`diff ${p.trace}?${query}`, () => diffGraph(p.trace, query));
  const [menu, setMenu] = useState<{ node: number; x: number; y: number } | null>(null);
  const g = answer.value;
  const look = useMemo(() => (g ? lookOf(g) : undefined), [g, p.mode, p.metric]);
  const zoom = useMemo(() => (g && p.zoom ? find(g, p.zoom.split(SEPARATOR)) : 0), [g, p.zoom]);
  if (!g)
    return answer.busy ? (
      <Busy what="Comparing" />
    ) : answer.error && !p.filters.length ? (
      <Failed text={answer.error} />
    ) : null;
  if (g.total <= 0)
    return (
      <p class="empty">
        {p.filters.length ? 'The filters leave nothing on either side.' : 'Nothing is live on either side.'}
      </p>
    );
  const onZoom = (node: number) => node < g.n && go({ zoom: path(g, node).join(SEPARATOR) });
  return (
    <>
      <Flame
        graph={g}
        metric={p.metric}
        zoom={zoom}
        look={look}
        searchText={p.search}
        height={320}
        label="Difference, A and B merged"
        onZoom={onZoom}
        onMenu={(node, x, y) => setMenu({ node, x, y })}
        onKey={(key, node) => onKey(g, key, node)}
      />
      {LEGEND}
      {menu && (
        <Menu
          title={fit(safe(nameOf(g, menu.node)), 60)}
          x={menu.x}
          y={menu.y}
          onClose={() => setMenu(null)}
          items={itemsOf(g, menu.node, onZoom)}
        />
      )}
    </>
  );
}

/** Two graphs that are zoomed and pointed at together. */
export function SideBySide({ a, aQuery, bQuery }: { a: Side; aQuery: string; bQuery: string }) {
  const p = place.value;
  const left = useAnswer(`${a.trace}?${aQuery}`, () => smallFlame(a.trace, aQuery));
  const right = useAnswer(`${p.trace}?${bQuery}`, () => flame(p.trace, bQuery));
  const [hover, setHover] = useState<{ side: number; names: string[] } | null>(null);
  const names = p.zoom ? p.zoom.split(SEPARATOR) : [];
  return (
    <div class="beside">
      {[left, right].map((answer, k) => {
        const g = answer.value;
        return (
          <section aria-label={k ? 'B' : 'A'}>
            <h2>
              {k ? 'B' : 'A'} {g ? amount(g.total, p.metric) : ''}
            </h2>
            {answer.error && <Failed text={answer.error} />}
            {g && g.total > 0 ? (
              <Flame
                graph={g}
                metric={p.metric}
                zoom={find(g, names)}
                height={320}
                label={`${k ? 'B' : 'A'}, ${amount(g.total, p.metric)}`}
                searchText={p.search}
                outlined={hover && hover.side !== k ? find(g, hover.names) : 0}
                onHover={(node) =>
                  setHover(node > 0 && node < g.n ? { side: k, names: path(g, node) } : null)
                }
                onZoom={(node) => go({ zoom: path(g, node).join(SEPARATOR) })}
              />
            ) : g ? (
              <p class="empty">Nothing is live here.</p>
            ) : (
              <Busy what="Drawing" />
            )}
          </section>
        );
      })}
    </div>
  );
}
