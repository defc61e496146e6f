// Functions with their callers and callees, and the call tree: rows are drawn only where one looks.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { flame, type FunctionRow, functions, smallFlame, type Tracks } from '../app/api';
import { toSource } from './explore';
import { Flame } from './flame';
import { amount, base, besides, bytes, count, error, fit, isBytes, isRough, percent, safe, certainty } from '../app/format';
import { type Graph, MERGED, moduleOf, nameOf } from './graph';
import { type Cell, Grid, type GridColumn, RowsMenu, type Sort, toMarkdown } from '../parts/grid';
import { addFilter, Busy, Choice, ExportButton, exactly, Failed, FilterBar, type Item, Menu, MetricChoice, useAnswer } from '../parts/parts';
import { functionSql, functionsSql, showSql, treeSql } from '../parts/show-sql';
import { go, INVERTED, place, selection } from '../app/state';

export const ROW = 26;
const PAGE = 200;

export function useWindow(rows: number) {
  const ref = useRef<HTMLDivElement>(null);
  const [range, set] = useState({ first: 0, n: 60 });
  const look = () => {
    const el = ref.current;
    if (!el) return;
    const first = Math.max(0, Math.floor(el.scrollTop / ROW) - 8);
    const n = Math.ceil(el.clientHeight / ROW) + 16;
    set((r) => (r.first === first && r.n === n ? r : { first, n }));
  };
  useEffect(look, [rows]);
  useEffect(() => {
    addEventListener('resize', look);
    return () => removeEventListener('resize', look);
  }, []);
  return { ref, look, first: range.first, last: Math.min(rows, range.first + range.n) };
}

const Share = ({ part, whole, rough }: { part: number; whole: number; rough?: boolean }) => (
  <span class={`share ${rough ? 'rough' : ''}`}><i style={{ width: `${whole > 0 ? Math.min(100, (100 * part) / whole) : 0}%` }} /><b>{percent(part, whole)}</b></span>
);

// ---- functions ----

/** Rows of the table: what is shown, and behind it samples, error and samples of self. */
const cells = (r: FunctionRow): Cell[] => [r[0], r[1], r[2], r[3], r[5], r[4], r[4] ? r[3] / r[4] : null, r[6], r[7], r[8]];
const SORTS = ['name', 'module', 'self', 'total', 'error', 'count', 'average'];
const MOST = 100_000;

function columnsOf(tracks: Tracks, total: number, onMenu: (row: Cell[], x: number, y: number) => void): GridColumn[] {
  const m = place.value.metric;
  const n = (v: Cell) => Number(v);
  return [
    { name: 'Function', hint: 'the function, as its symbol says', numeric: false, width: 210, draw: (v, row) => (
      <span class="with-menu"><span>{safe(String(v))}</span><button type="button" tabIndex={-1} aria-haspopup="menu" aria-label={`Menu of ${safe(String(v))}`} onClick={(e) => { e.stopPropagation(); const r = e.currentTarget.getBoundingClientRect(); onMenu(row, r.left, r.bottom); }}>⋯</button></span>) },
    { name: 'Module', hint: 'the file it is in; the program by the name it was started with', numeric: false, width: 114, show: (v) => safe(base(String(v))) },
    { name: 'Self', hint: 'what it asked for itself', numeric: true, width: 126, tip: (v, r) => certainty(n(r[8]), n(v), tracks.interval), draw: (v) => <>{amount(n(v), m)} <small class="dim">{percent(n(v), total)}</small></> },
    { name: 'Total', hint: 'what it and all it calls asked for; recursion counts once', numeric: true, width: 150, draw: (v, r) => <><Share part={n(v)} whole={total} rough={isRough(n(r[7]), n(r[4]))} /> {amount(n(v), m)}</> },
    { name: 'Error', hint: 'the true total is within, with 95 % probability; ≈: fewer than ten samples', numeric: true, width: 92, tip: (_, r) => `${count(n(r[7]))} samples`, show: (v, r) => `${isRough(n(r[7]), n(v)) ? '≈ ' : ''}${certainty(n(v), n(r[3]), tracks.interval)}` },
    { name: 'Count', hint: 'allocations behind the total', numeric: true, width: 82, show: (v) => count(n(v)) },
    { name: 'Each', hint: 'total by count', numeric: true, width: 84, draw: (v) => (isBytes(m) && v !== null ? bytes(n(v)) : '') },
  ];
}

export function FunctionsPage({ tracks }: { tracks: Tracks }) {
  const p = place.value;
  const [match, setMatch] = useState('');
  const [sort, order] = (p.sort || 'self desc').split(' ');
  const query = `${selection.value}&sort=${sort}&order=${order}&match=${encodeURIComponent(match)}`;
  const [pages, setPages] = useState(1);
  const [all, setAll] = useState(false);
  const [menu, setMenu] = useState<{ row: Cell[]; x: number; y: number } | null>(null);
  const limit = all ? MOST : pages * PAGE;
  const answer = useAnswer(`${p.trace}?${query}&limit=${limit}`, () => functions(p.trace, `${query}&limit=${limit}`));
  const there = answer.value?.rows ?? 0;
  const rows = useMemo(() => (answer.value?.data ?? []).map(cells), [answer.value]);
  const total = answer.value?.total ?? 0;
  useEffect(() => setPages(1), [query]);
  const live = p.metric === 'space' || p.metric === 'objects';
  const columns = useMemo(() => columnsOf(tracks, total, (row, x, y) => setMenu({ row, x, y })), [tracks, total, p.metric]);
  const sorting = useMemo(() => [{ column: Math.max(0, SORTS.indexOf(sort)), down: order !== 'asc' }], []);
  const onSort = (by: Sort[]): boolean => {
    setAll(all || by.length > 1); // the server knows one order; more are made of all rows here
    if (by.length < 2) go({ sort: by.length ? `${SORTS[by[0].column]} ${by[0].down ? 'desc' : 'asc'}` : '' }, true);
    return by.length < 2;
  };
  const items = (row: Cell[]): (Item | null)[] => {
    const name = String(row[0]);
    const kept = p.filters.filter((f) => !/^!?(P|SFF):/.test(f));
    const to = (page: string, filter: string) => () => go({ page, filters: [...kept, `${filter}:${exactly(name)}`], zoom: '' });
    return [
      { label: 'Flamegraph from here', act: to('flame', 'SFF') },
      { label: 'Flamegraph of stacks with it', act: to('flame', 'SS') },
      { label: 'Pivot: callers and callees', act: to('flame', 'P') },
      null,
      { label: 'Hide stacks with this', act: () => addFilter(`HS:${exactly(name)}`) },
      { label: 'Merge into its caller', act: () => addFilter(`HF:${exactly(name)}`) },
      ...(row[1] ? [{ label: 'Keep stacks in this module', act: () => addFilter(`M:${exactly(String(row[1]))}`) }] : []),
      null,
      { label: 'Callers and callees beside', act: () => go({ fn: name }) },
      { label: 'Allocation sizes here', act: to('sizes', 'SS') },
      { label: 'Source', act: () => void toSource(name) },
      { label: 'Instructions', act: () => go({ page: 'source', view: 'code', fn: name }) },
      { label: 'SQL for this function', act: () => showSql(functionSql(tracks, name)) },
      null,
      { label: 'Copy name', act: () => void navigator.clipboard?.writeText(name) },
      { label: 'Copy row as Markdown', act: () => void navigator.clipboard?.writeText(toMarkdown(columns, [row.slice(0, columns.length)])) },
    ];
  };
  return (
    <div class="split">
      <div class="column">
        <div class="bar"><MetricChoice /><span class="grow" />
          <input type="search" aria-label="Find functions" placeholder="Find functions" value={match} onInput={(e) => setMatch(e.currentTarget.value)} />
          <RowsMenu columns={columns} rows={rows} name="functions" load={async () => (await functions(p.trace, `${query}&limit=${MOST}`)).data.map(cells)} />
          <ExportButton /><button type="button" title="the query that gives these numbers" onClick={() => showSql(functionsSql(tracks, match))}>SQL</button></div>
        <FilterBar problem={answer.error} />
        {answer.value && <Grid columns={columns} rows={rows} label="Functions" sort={sorting} total={there} onSort={onSort} onFilter={() => setAll(true)}
          onEnd={() => { if (rows.length < there && !answer.busy && !all) setPages(pages + 1); }}
          isOn={(r) => r[0] === (p.fn || rows[0]?.[0])} onRow={(r) => go({ fn: String(r[0]) }, true)} onMenu={(row, x, y) => setMenu({ row, x, y })}
          empty={`No function ${match ? 'matches' : 'has anything here'}.`} />}
        {answer.busy && !answer.value && <Busy what="Summing up" />}
        <p class="statement">{count(there)} functions · {amount(total, p.metric)} {live ? 'live' : 'allocated'} in all{all && there > MOST ? ` · conditions look at the first ${count(MOST)}` : ''}</p>
      </div>
      <Sandwich name={p.fn || String(rows[0]?.[0] ?? '')} />
      {menu && <Menu title={fit(safe(String(menu.row[0])), 60)} x={menu.x} y={menu.y} items={items(menu.row)} onClose={() => setMenu(null)} />}
    </div>
  );
}

function Sandwich({ name }: { name: string }) {
  const p = place.value;
  const q = new URLSearchParams(selection.value);
  const filters = p.filters.filter((f) => !/^!?(P|SFF):/.test(f));
  q.set('filters', [...filters, `P:${exactly(name)}`].join('\n'));
  const query = q.toString();
  const callees = useAnswer(`${p.trace}?${query}`, () => (name ? smallFlame(p.trace, query) : Promise.resolve(null)));
  const callers = useAnswer(`${p.trace}?${query}&part=callers`, () => (name ? smallFlame(p.trace, `${query}&part=callers`) : Promise.resolve(null)));
  if (!name) return null;
  const height = (g: Graph) => Math.min(320, (g.maxDepth + 1) * 20);
  return (
    <aside class="column sandwich" aria-label={`Callers and callees of ${safe(name)}`}>
      <h2 title={safe(name)}>{fit(safe(name), 60)}</h2>
      {callers.error && <Failed text={callers.error} />}
      <h3>Called by</h3>
      {callers.value && callers.value.total > 0 && <Graphlet graph={callers.value} height={height(callers.value)} up label={`Callers of ${safe(name)}`} />}
      <h3>Calls and allocates</h3>
      {callees.value && callees.value.total > 0 && <Graphlet graph={callees.value} height={height(callees.value)} label={`Callees of ${safe(name)}`} />}
      <div class="bar">
        <button type="button" onClick={() => go({ page: 'flame', filters: [...filters, `P:${exactly(name)}`], zoom: '' })}>Open as pivot</button>
        <button type="button" onClick={() => go({ page: 'flame', filters: [...filters, `SS:${exactly(name)}`], zoom: '' })}>Stacks with it</button>
      </div>
    </aside>
  );
}

function Graphlet({ graph, height, up, label }: { graph: Graph; height: number; up?: boolean; label: string }) {
  const [zoom, setZoom] = useState(0);
  useEffect(() => setZoom(0), [graph]);
  return <Flame graph={graph} metric={place.value.metric} zoom={zoom < graph.n ? zoom : 0} up={up} height={height} label={label} onZoom={setZoom}
    onMenu={(node) => node > 0 && !(graph.flags[node] & MERGED) && zoom === node && go({ fn: nameOf(graph, node) })} />;
}

// ---- call tree ----

export function TreePage({ tracks }: { tracks: Tracks }) {
  const p = place.value;
  const pivot = p.filters.some((f) => /^!?P:/.test(f));
  const query = selection.value + (p.invert && !pivot ? INVERTED : '');
  const answer = useAnswer(`${p.trace}?${query}`, () => flame(p.trace, query));
  const g = answer.value;
  return (
    <div class="column">
      <div class="bar"><MetricChoice />
        <Choice label="Direction" value={p.invert ? 'up' : 'down'} onChange={(v) => go({ invert: v === 'up', zoom: '' })} options={[{ id: 'down', label: 'Top-down' }, { id: 'up', label: 'Bottom-up' }]} />
        <Choice label="Frames" value={p.frames} onChange={(frames) => go({ frames, zoom: '' })} options={[{ id: 'site', label: 'Your code' }, { id: 'all', label: 'All frames' }]} />
        <span class="grow" /><ExportButton /><button type="button" title="the query that gives these numbers" onClick={() => showSql(treeSql(tracks, p.invert))}>SQL</button></div>
      <FilterBar problem={answer.error} />
      {answer.busy && !g && <Busy what="Summing up" />}
      {g && g.total > 0 ? <Tree tracks={tracks} g={g} /> : g && <p class="empty">Nothing is here.</p>}
    </div>
  );
}

/** Opens a node, and on as long as there is one child that holds nearly all. */
function openFrom(g: Graph, node: number, open: Set<number>): void {
  for (let at = node; ; ) {
    open.add(at);
    const child = at + 1;
    if (child >= g.end[at] || g.cum[child] < 0.9 * g.cum[at]) return;
    at = child;
  }
}

function Tree({ g, tracks }: { g: Graph; tracks: Tracks }) {
  const p = place.value;
  const [open, setOpen] = useState(new Set<number>());
  const [at, setAt] = useState(1);
  useEffect(() => {
    const first = new Set<number>();
    openFrom(g, 0, first);
    setOpen(first);
    setAt(1);
  }, [g]);
  const rows = useMemo(() => {
    const out: number[] = [];
    for (let i = 1; i < g.n; ) {
      out.push(i);
      i = open.has(i) ? i + 1 : g.end[i];
    }
    return out;
  }, [g, open]);
  const w = useWindow(rows.length);
  const toggle = (node: number, want?: boolean) => {
    const next = new Set(open);
    if (want ?? !next.has(node)) openFrom(g, node, next);
    else next.delete(node);
    setOpen(next);
  };
  const show = (index: number) => {
    const i = Math.max(0, Math.min(rows.length - 1, index));
    setAt(rows[i]);
    const el = w.ref.current!;
    if (i * ROW < el.scrollTop) el.scrollTop = i * ROW;
    else if ((i + 1) * ROW > el.scrollTop + el.clientHeight) el.scrollTop = (i + 1) * ROW - el.clientHeight;
  };
  const leaf = (i: number) => g.end[i] === i + 1;
  return (
    <div class="table tree">
      <div class="row head" aria-hidden="true"><span class="c-total num">Total</span><span class="c-error num">Error</span><span class="c-share">Share</span><span class="c-self num">Self</span><span class="c-name">Function</span></div>
      <div class="rows" role="tree" aria-label="Call tree" tabIndex={0} aria-activedescendant={`node-${at}`} ref={w.ref} onScroll={w.look} onKeyDown={(e) => {
        const i = rows.indexOf(at);
        const acts: Record<string, () => void> = {
          ArrowDown: () => show(i + 1),
          ArrowUp: () => show(i - 1),
          PageDown: () => show(i + 15),
          PageUp: () => show(i - 15),
          Home: () => show(0),
          End: () => show(rows.length - 1),
          ArrowRight: () => (leaf(at) ? undefined : open.has(at) ? show(i + 1) : toggle(at, true)),
          ArrowLeft: () => (open.has(at) && !leaf(at) ? toggle(at, false) : g.parent[at] > 0 && show(rows.indexOf(g.parent[at]))),
          Enter: () => go({ page: 'functions', fn: nameOf(g, at) }),
          ' ': () => toggle(at),
        };
        const act = acts[e.key];
        if (!act || e.ctrlKey || e.altKey || e.metaKey) return;
        e.preventDefault();
        act();
      }}>
        <div role="presentation" style={{ height: `${rows.length * ROW}px` }}>
          {rows.slice(w.first, w.last).map((i, k) => (
            <div role="treeitem" id={`node-${i}`} aria-level={g.depth[i]} aria-selected={i === at} aria-expanded={leaf(i) ? undefined : open.has(i)}
              class={`row ${i === at ? 'on' : ''}`} style={{ top: `${(w.first + k) * ROW}px` }} onClick={() => { setAt(i); toggle(i); }}
              onDblClick={() => go({ page: 'functions', fn: nameOf(g, i) })} title={`${safe(nameOf(g, i))}\n${safe(moduleOf(g, i))}`}>
              <span class="c-total num">{amount(g.cum[i], p.metric)}</span>
              <span class="c-error num dim" title={`${count(g.samples[i])} samples`}>{isRough(g.samples[i], g.err[i]) ? '≈ ' : ''}{error(g.err[i], g.cum[i])}</span>
              <span class="c-share"><Share part={g.cum[i]} whole={g.total} rough={isRough(g.samples[i], g.err[i])} /></span>
              <span class="c-self num dim">{g.self[i] ? amount(g.self[i], p.metric) : ''}</span>
              <span class="c-name" style={{ paddingLeft: `${Math.min(40, g.depth[i] - 1) * 12}px` }}><i class="twist" aria-hidden="true">{leaf(i) ? '·' : open.has(i) ? '▾' : '▸'}</i>{safe(nameOf(g, i))} <span class="dim">{g.flags[i] & MERGED ? '' : safe(besides(moduleOf(g, i), tracks))}</span></span>
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
