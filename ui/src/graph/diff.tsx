// Diff: two dumps, processes or traces side by side. The server matches functions, takes the
// difference and says what of it is more than sampling noise.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ask, flame, openFile, question, refresh, smallFlame, status, timeline, type Timeline } from '../app/api';
import { changeFill } from './diff-fill';
import { Flame, type Look } from './flame';
import { amount, base, bytes, clock, count, fit, isBytes, percent, safe, certainty } from '../app/format';
import { decode, find, type Graph, MERGED, nameOf, ONLY_A, ONLY_B, path } from './graph';
import { addFilter, Busy, Choice, exactly, Failed, Figure, FilterBar, heapsWord, isTyping, Menu, MetricChoice, type ProfileProps, useAnswer } from '../parts/parts';
import { showSql } from '../parts/show-sql';
import { asPlace, baseOf, now, type Side, written } from '../app/sides';
import { go, place, selection } from '../app/state';
import { ns } from '../app/times';

// ---- sides ----

function SidePicker({ letter, side, onPick }: { letter: 'A' | 'B'; side: Side; onPick(s: Side): void }) {
  const traces = (status.value?.traces ?? []).filter((t) => t.state === 'ready');
  const answer = useAnswer<Timeline>(`timeline ${side.trace}`, () => timeline(side.trace));
  const all = answer.value?.processes ?? [];
  const t = all.find((x) => x.upid === side.upid) ?? all[0];
  const moments = t?.moments ?? [];
  const index = side.at === 'peak' ? -1 : side.at ? moments.findIndex((m) => ns(m.ts) === side.at && m.max === side.max) : moments.length - 1;
  const words = { A: 'Baseline', B: 'Compared' }[letter];
  return (
    <fieldset class={`side-picker side-${letter}`}>
      <legend><b>{letter}</b> {words}</legend>
      {traces.length > 1 && (
        <label>Trace <select value={String(side.trace)} onChange={(e) => onPick({ trace: Number(e.currentTarget.value), upid: null, heap: '', at: '', max: false, from: '' })}>
          {traces.map((x) => <option value={String(x.id)}>{fit(safe(base(x.name)), 40)}</option>)}
        </select></label>
      )}
      {all.length > 1 && t && (
        <label>Process <select value={String(t.upid)} onChange={(e) => onPick({ ...side, upid: Number(e.currentTarget.value), heap: '', at: '', max: false, from: '' })}>
          {all.map((x) => <option value={String(x.upid)}>{safe(base(x.name)) || '?'} ({x.pid})</option>)}
        </select></label>
      )}
      {t && t.heaps.length > 1 && (
        <label>Heap <select value={side.heap} onChange={(e) => onPick({ ...side, heap: e.currentTarget.value })}>
          <option value="">{heapsWord(t)}</option>
          {t.heaps.map((h) => <option value={h.heap}>{safe(h.heap)}</option>)}
        </select></label>
      )}
      {t && (
        <label>At <select aria-label={`Moment of ${letter}`} value={side.at === 'peak' ? 'peak' : String(index)} onChange={(e) => {
          const v = e.currentTarget.value;
          onPick(v === 'peak' ? { ...side, at: 'peak', max: false, from: '' } : { ...side, at: ns(moments[Number(v)].ts), max: moments[Number(v)].max });
        }}>
          {t.peak && <option value="peak">the peak, {bytes(t.peak.space)}</option>}
          {moments.map((m, i) => <option value={String(i)}>{clock(m.ts - t.start)} · {bytes(m.space)}{i === moments.length - 1 ? ' (end)' : ''}</option>)}
        </select></label>
      )}
      {t && moments.length > 1 && (
        <label>Since <select aria-label={`Begin of ${letter}`} value={side.from} onChange={(e) => onPick({ ...side, from: e.currentTarget.value })}>
          <option value="">the start</option>
          {moments.map((m) => <option value={ns(m.ts)}>{clock(m.ts - t.start)}</option>)}
        </select></label>
      )}
    </fieldset>
  );
}

function OpenOther() {
  const input = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState('');
  return (
    <>
      <button type="button" onClick={() => input.current!.click()}>Compare with a file</button>
      <input ref={input} type="file" hidden aria-label="File to compare with" onChange={(e) => {
        const file = e.currentTarget.files?.[0];
        if (!file) return;
        setProblem('');
        openFile(file).then(async (id) => {
          for (let i = 0; i < 600; i++) {
            await refresh();
            const t = status.peek()?.traces.find((x) => x.id === id);
            if (t?.state === 'failed') return setProblem(t.error ?? 'cannot be read');
            if (t?.state === 'ready') return go({ base: written({ trace: id, upid: null, heap: '', at: '', max: false, from: '' }) });
            await new Promise((ok) => setTimeout(ok, 100));
          }
        }).catch((x: Error) => setProblem(x.message));
      }} />
      {problem && <span class="bad" role="alert">{safe(problem)}</span>}
    </>
  );
}

// ---- figures ----

type Figures = [a: number, b: number, change: number, error: number, significant: boolean, samplesA: number, samplesB: number];
type Row = [name: string, module: string, ...Figures];
interface SideInfo { trace: number; file: string; upid: number; pid: number; name: string; program?: string; ts: number; interval: number; seconds: number }
interface Table { a: SideInfo; b: SideInfo; same_run: boolean; total: Figures; rows: number; hidden: number; data: Row[] }

function figure(v: number): string {
  const p = place.value;
  if (p.mode === 'share') return `${(100 * v).toFixed(Math.abs(v) < 0.0995 ? 2 : 1)} %`;
  return amount(v, p.metric) + (p.mode === 'rate' ? '/s' : '');
}
const sideWords = (s: SideInfo) => `${safe(base(s.file))}${s.name ? ` · ${safe(base(s.name))} (${s.pid})` : ''}`;
const points = (v: number) => (place.value.mode === 'share' ? `${(100 * Math.abs(v)).toFixed(Math.abs(v) < 0.0995 ? 2 : 1)} points` : figure(Math.abs(v)));
const change = (v: number) => `${v > 0 ? '+' : v < 0 ? '−' : ''}${points(v)}`;
const relative = (a: number, b: number) => (a > 0 ? `${b >= a ? '+' : '−'}${percent(Math.abs(b - a), a)}` : '');
const plusMinus = (e: number) => (e > 0 ? `±${points(e)}` : '');

function status2(a: number, b: number): string {
  return a <= 0 && b > 0 ? 'new' : b <= 0 && a > 0 ? 'gone' : b > a ? 'grew' : b < a ? 'shrank' : 'same';
}

// ---- the graph ----

function lookOf(g: Graph): Look {
  const a = g.a!, b = g.b!;
  const delta = (i: number) => b[i] - a[i];
  const sure = (i: number) => Math.abs(delta(i)) > g.err[i];
  return {
    fill(i, dark) {
      return changeFill(sure(i) ? delta(i) : 0, Math.max(a[i], b[i]), dark);
    },
    mark: (i) => (!sure(i) || delta(i) === 0 ? '' : delta(i) > 0 ? '▲ ' : '▼ '),
    hatched: (i) => (g.flags[i] & (ONLY_A | ONLY_B)) !== 0,
    say: (i) => `${safe(nameOf(g, i))}: ${figure(a[i])} before, ${figure(b[i])} after, ${change(delta(i))}${sure(i) ? '' : ', within the sampling error'}`,
    tip: (i) => (
      <dl>
        <dt>A</dt><dd>{figure(a[i])}</dd>
        <dt>B</dt><dd>{figure(b[i])}</dd>
        <dt>change</dt><dd><b>{change(delta(i))}</b> {plusMinus(g.err[i])} {relative(a[i], b[i])}</dd>
        <dt /><dd class="dim">{g.flags[i] & ONLY_A ? 'only in A' : g.flags[i] & ONLY_B ? 'only in B' : delta(i) === 0 ? 'unchanged' : sure(i) ? '' : 'within the sampling error'}</dd>
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

function Union({ query }: { query: string }) {
  const p = place.value;
  const answer = useAnswer(`diff ${p.trace}?${query}`, () => diffGraph(p.trace, query));
  const [menu, setMenu] = useState<{ node: number; x: number; y: number } | null>(null);
  const g = answer.value;
  const look = useMemo(() => (g ? lookOf(g) : undefined), [g, p.mode, p.metric]);
  const zoom = useMemo(() => (g && p.zoom ? find(g, p.zoom.split(SEPARATOR)) : 0), [g, p.zoom]);
  if (!g) return answer.busy ? <Busy what="Comparing" /> : answer.error && !p.filters.length ? <Failed text={answer.error} /> : null;
  if (g.total <= 0) return <p class="empty">{p.filters.length ? 'The filters leave nothing on either side.' : 'Nothing is live on either side.'}</p>;
  const onZoom = (node: number) => node < g.n && go({ zoom: path(g, node).join(SEPARATOR) });
  const name = menu && menu.node > 0 && menu.node < g.n && !(g.flags[menu.node] & MERGED) ? nameOf(g, menu.node) : '';
  return (
    <>
      <Flame graph={g} metric={p.metric} zoom={zoom} look={look} searchText={p.search} height={320} label="Difference, A and B merged" onZoom={onZoom} onMenu={(node, x, y) => setMenu({ node, x, y })}
        onKey={(key, node) => {
          const text = node > 0 && !(g.flags[node] & MERGED) ? exactly(nameOf(g, node)) : '';
          if (key === 'k' || key === 'K') text && addFilter(`SS:${text}`);
          else if (key === 'h' || key === 'H') text && addFilter(`HF:${text}`);
          else return false;
          return true;
        }} />
      <ul class="legend" aria-label="Colours">
        <li><i class="grew" />▲ grew</li><li><i class="shrank" />▼ shrank</li><li><i class="same" />unchanged, or within the sampling error</li><li><i class="lone" />on one side only</li>
        <li class="dim">a stack is as wide as its larger side</li>
      </ul>
      {menu && <Menu title={fit(safe(nameOf(g, menu.node)), 60)} x={menu.x} y={menu.y} onClose={() => setMenu(null)} items={[
        { label: 'Zoom in', key: '↵', act: () => onZoom(menu.node) },
        ...(name ? [
          { label: 'Keep stacks with this', key: 'K', act: () => addFilter(`SS:${exactly(name)}`) },
          { label: 'Hide stacks with this', act: () => addFilter(`HS:${exactly(name)}`) },
          { label: 'Merge into its caller', key: 'H', act: () => addFilter(`HF:${exactly(name)}`) },
          null,
          { label: 'In B: callers and callees', act: () => go({ page: 'functions', fn: name, zoom: '' }) },
          { label: 'Copy name', act: () => void navigator.clipboard?.writeText(name) },
        ] : []),
      ]} />}
    </>
  );
}

/** Two graphs that are zoomed and pointed at together. */
function SideBySide({ a, aQuery, bQuery }: { a: Side; aQuery: string; bQuery: string }) {
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
            <h2>{k ? 'B' : 'A'} {g ? amount(g.total, p.metric) : ''}</h2>
            {answer.error && <Failed text={answer.error} />}
            {g && g.total > 0 ? <Flame graph={g} metric={p.metric} zoom={find(g, names)} height={320} label={`${k ? 'B' : 'A'}, ${amount(g.total, p.metric)}`} searchText={p.search}
              outlined={hover && hover.side !== k ? find(g, hover.names) : 0} onHover={(node) => setHover(node > 0 && node < g.n ? { side: k, names: path(g, node) } : null)}
              onZoom={(node) => go({ zoom: path(g, node).join(SEPARATOR) })} />
              : g ? <p class="empty">Nothing is live here.</p> : <Busy what="Drawing" />}
          </section>
        );
      })}
    </div>
  );
}

// ---- the table ----

const COLUMNS: [id: string, label: string, hint: string][] = [
  ['name', 'Function', 'matched by its name and the stem of its module'], ['a', 'A', 'baseline'], ['b', 'B', 'compared'],
  ['change', 'Change', 'B less A, with two standard errors of the change'], ['percent', 'Relative', 'the change as a share of A'],
];

function Rows({ table, busy, onMore }: { table: Table; busy: boolean; onMore(): void }) {
  const p = place.value;
  const [sort, order] = (p.sort || 'change desc').split(' ');
  return (
    <div class="scroll" aria-busy={busy}>
      <table class="top diff">
        <thead><tr>
          {COLUMNS.map(([id, label, hint]) => (
            <th scope="col" class={id === 'name' ? '' : 'num'} aria-sort={sort === id ? (order === 'asc' ? 'ascending' : 'descending') : 'none'}>
              <button type="button" class="plain" title={hint} onClick={() => go({ sort: `${id} ${sort === id && order === 'desc' ? 'asc' : sort === id ? 'desc' : id === 'name' ? 'asc' : 'desc'}` }, true)}>{label}{sort === id ? (order === 'asc' ? ' ▲' : ' ▼') : ''}</button></th>
          ))}
          <th scope="col">Verdict</th>
        </tr></thead>
        <tbody>{table.data.map(([name, module, a, b, by, err, sure, na, nb]) => (
          <tr class={sure ? '' : 'few'}>
            <td class="site"><button type="button" class="plain" title="Keep stacks with this" onClick={() => addFilter(`SS:${exactly(name)}`)}>{safe(name)}</button> <span class="dim">{safe([table.a.program, table.b.program].includes(module) ? '' : module)}</span></td>
            <td class="num" title={`${count(na)} samples`}>{a > 0 ? figure(a) : '–'}</td>
            <td class="num" title={`${count(nb)} samples`}>{b > 0 ? figure(b) : '–'}</td>
            <td class={`num ${by > 0 ? 'grew' : 'shrank'}`}><b>{by > 0 ? '▲' : '▼'} {change(by)}</b><span class="pm">{plusMinus(err)}</span></td>
            <td class="num">{relative(a, b) || '–'}</td>
            <td>{status2(a, b)}{sure ? '' : <span class="dim"> · within the error</span>}</td>
          </tr>
        ))}</tbody>
      </table>
      {table.data.length < table.rows && <p><button type="button" onClick={onMore}>{count(table.rows - table.data.length)} more rows</button></p>}
    </div>
  );
}

// ---- the page ----

const PAGE = 100;

export function DiffPage({ tracks, all }: ProfileProps) {
  const p = place.value;
  const a = baseOf(p, tracks);
  const b: Side = { ...now(p), upid: tracks.upid };
  const swap = () => go({ ...asPlace(a), base: written(b), zoom: '' });
  const [limit, setLimit] = useState(PAGE);
  const aOwn = new URLSearchParams(written(a));
  const query = new URLSearchParams(selection.value);
  query.set('upid', String(tracks.upid));
  const bQuery = query.toString();
  const aFlame = new URLSearchParams(bQuery);
  for (const k of ['upid', 'heap', 'at', 'max', 'from']) {
    aFlame.delete(k);
    if (aOwn.get(k)) aFlame.set(k, aOwn.get(k)!);
  }
  for (const [k, v] of aOwn) query.set(`a_${k}`, v);
  if (p.mode) query.set('mode', p.mode);
  if (p.key) query.set('key', p.key);
  const graphQuery = query.toString();
  const [sort, order] = (p.sort || 'change desc').split(' ');
  query.set('sort', sort);
  query.set('order', order);
  if (p.by) query.set('by', p.by);
  if (p.all) query.set('all', '1');
  if (p.match) query.set('match', p.match);
  query.set('limit', String(limit));
  const tableQuery = query.toString();
  const answer = useAnswer(`table/diff ${p.trace}?${tableQuery}`, () => question<Table>(p.trace, 'table/diff', tableQuery));
  const t = answer.value;
  useEffect(() => setLimit(PAGE), [graphQuery]);
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || isTyping(e)) return;
      const m = (['space', 'objects', 'alloc_space', 'alloc_objects'] as const)['1234'.indexOf(e.key)];
      if (e.key === 'x' || e.key === 'X') swap();
      else if (m && e.key.length === 1) go({ metric: m });
      else return;
      e.preventDefault();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  });
  const pick = (s: Side) => go({ base: written(s), zoom: '' });
  // What the SQL function of it can say, too.
  const plain = t && t.a.trace === t.b.trace && !p.mode && !p.key && !p.filters.length && !a.from && !b.from && !a.heap && !b.heap && !a.max && !b.max && p.frames === 'site';
  const same = t && t.total[2] === 0 && t.rows === 0 && t.hidden === 0;
  return (
    <div class="findings" aria-busy={answer.busy}>
      <div class="sides">
        <SidePicker letter="A" side={a} onPick={pick} />
        <button type="button" class="swap" title="Swap A and B (X)" aria-label="Swap A and B" onClick={swap}>⇄</button>
        <SidePicker letter="B" side={b} onPick={(s) => go({ ...asPlace(s), base: written(a), zoom: '' })} />
        <OpenOther />
      </div>
      {t && (
        <div class="figures">
          <Figure label="A" value={figure(t.total[0])} note={sideWords(t.a)} />
          <Figure label="B" value={figure(t.total[1])} note={sideWords(t.b)} />
          <Figure label="Change" value={change(t.total[2])} note={`${plusMinus(t.total[3]) || certainty(0, 0, Math.min(t.a.interval, t.b.interval))} · ${t.total[2] === 0 ? 'no change' : t.total[4] ? `${relative(t.total[0], t.total[1])}` : 'within the sampling error'}`} />
        </div>
      )}
      <div class="bar">
        <MetricChoice />
        <Choice label="Figures" value={p.mode as '' | 'share' | 'rate'} onChange={(mode) => go({ mode })} options={[{ id: '', label: 'As they are' }, { id: 'share', label: 'Shares', hint: 'each side as a share of its total: what changed beside a change of size' }, { id: 'rate', label: 'Per second', hint: 'each side divided by its length' }]} />
        <Choice label="Match by" value={p.key as '' | 'name'} onChange={(key) => go({ key })} options={[{ id: '', label: 'Function and module' }, { id: 'name', label: 'Function', hint: 'also where it moved to another module' }]} />
        <Choice label="Frames" value={p.frames} onChange={(frames) => go({ frames, zoom: '' })} options={[{ id: 'site', label: 'Your code' }, { id: 'all', label: 'All frames' }]} />
        <Choice label="Layout" value={p.open as '' | 'sides'} onChange={(open) => go({ open })} options={[{ id: '', label: 'Merged' }, { id: 'sides', label: 'Side by side' }]} />
        {p.zoom && <button type="button" onClick={() => go({ zoom: '' })}>Zoom out</button>}
        {plain && <button type="button" title="the query that gives these rows" onClick={() => showSql(`select demangle(name) as name, map_name, a, b, change, error, significant\nfrom heapwise_diff(${t!.a.upid + 1}, ${ns(t!.a.ts)}, ${t!.b.upid + 1}, ${ns(t!.b.ts)}, '${p.metric}')\norder by abs(change) desc`)}>SQL</button>}
      </div>
      <FilterBar problem={answer.error} />
      {same && <p class="banner note" role="status">Both sides hold the same{t.a.trace === t.b.trace && t.a.upid === t.b.upid && t.a.ts === t.b.ts ? ': they are the same dump' : ''}.</p>}
      {t && (p.open === 'sides' ? <SideBySide a={a} aQuery={aFlame.toString()} bQuery={bQuery} /> : <Union query={graphQuery} />)}
      {answer.error && !t && <Failed text={answer.error} />}
      <div class="bar">
        <Choice label="Rows by" value={p.by as '' | 'total'} onChange={(by) => go({ by })} options={[{ id: '', label: 'Self', hint: 'what a function asked for itself' }, { id: 'total', label: 'Total', hint: 'with all it calls' }]} />
        <label class="tick"><input type="checkbox" checked={!p.all} onChange={(e) => go({ all: e.currentTarget.checked ? '' : '1' })} /> hide what may be sampling noise{t && !p.all && t.hidden ? ` (${count(t.hidden)} ${t.hidden === 1 ? 'row' : 'rows'})` : ''}</label>
        <span class="grow" />
        <input type="search" aria-label="Find functions" placeholder="Find functions" value={p.match} onInput={(e) => go({ match: e.currentTarget.value }, true)} />
      </div>
      {t && t.data.length > 0 && <Rows table={t} busy={answer.busy} onMore={() => setLimit(limit + 5 * PAGE)} />}
      {t && t.data.length === 0 && !same && <p class="empty">{p.match ? 'No changed function matches.' : t.hidden ? `All ${count(t.hidden)} changes are within the sampling error.` : 'No function changed.'}</p>}
      {t && <p class="statement">{t.same_run ? 'Two dumps of one process: what lives in both is the same sample in both and has no error in the change.' : 'Two recordings: the errors of both sides add up.'}{t.a.interval > 0 && t.b.interval > 0 ? '' : ' How one side was sampled is not known: its error is in no figure.'}{isBytes(p.metric) ? '' : ' Counts are estimates.'} {all.processes.length > 1 || (status.value?.traces.length ?? 0) > 1 ? '' : 'Ctrl-click two diamonds of the timeline to choose both sides.'}</p>}
    </div>
  );
}
