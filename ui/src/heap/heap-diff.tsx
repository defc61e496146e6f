// Two dumps of managed heaps side by side: classes that changed, and both trees as one.
import { useMemo } from 'preact/hooks';
import { amount, base, bytes, count, percent, safe } from '../app/format';
import { status } from '../app/server';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import { GraphSearch } from '../graph/crumbs';
import { changeFill } from '../graph/diff-fill';
import type { Look } from '../graph/draw';
import { Flame, stackText } from '../graph/flame';
import { type Graph, type Matches, MERGED, nameOf, ONLY_A, ONLY_B } from '../graph/graph';
import { useFrameMenu, useZoom } from '../graph/zoomed';
import { useAnswer } from '../parts/answer';
import type { Cell, GridColumn } from '../parts/cells';
import type { Item } from '../parts/menu';
import { Failed } from '../parts/words';
import {
  classHref,
  type HeapDump,
  type HeapDumps,
  heapFlame,
  type HeapMetric,
  heapQuestion,
  isSize,
  params,
  type Sum,
  where,
} from './heap-api';
import { CollapseChains, HeapMetricChoice } from './heap-bars';
import { countColumn, dumpTime, type Rows, ServerTable, sizeColumn, Working } from './heap-parts';
import { classOfNode } from './managed-look';

interface Side {
  trace: number;
  file: string;
  dump: HeapDump;
  all: HeapDump[];
}
const written = (s: Side) => `${s.trace}.${s.dump.upid}.${ns(s.dump.ts)}`;
const words = (s: Side, here: number, several: boolean) =>
  `${s.trace === here ? '' : `${safe(base(s.file))} · `}${several || s.trace !== here ? `${safe(base(s.dump.name)) || 'pid'} ${s.dump.pid} · ` : ''}${dumpTime(s.dump, s.all)} · ${count(s.dump.objects)} objects`;

/** Every dump of every open trace that has any. */
function useSides() {
  const traces = status.value?.traces.filter((t) => t.state === 'ready' && t.heap_graphs) ?? [];
  return useAnswer(`heap sides ${traces.map((t) => t.id)}`, async () => {
    const all = await Promise.all(traces.map((t) => heapQuestion<HeapDumps>(t.id, 'dumps', '')));
    return all.flatMap((d, i) =>
      d.dumps.map((dump): Side => ({ trace: traces[i].id, file: traces[i].name, dump, all: d.dumps })),
    );
  });
}

/** The one that the URL names; else the first dump of the process, else any other. */
function baseOf(sides: Side[], dump: HeapDump, trace: number): Side | null {
  const p = place.value;
  const named = sides.find(
    (s) =>
      written(s) === p.against ||
      (ns(s.dump.ts) === p.against && s.trace === trace && s.dump.upid === dump.upid),
  );
  const others = sides.filter((s) => s.trace !== trace || s.dump.upid !== dump.upid || s.dump.ts !== dump.ts);
  const mine = others.filter((s) => s.trace === trace && s.dump.upid === dump.upid);
  return (
    (named && others.includes(named) ? named : null) ??
    mine.filter((s) => s.dump.ts < dump.ts)[0] ??
    mine[0] ??
    others[0] ??
    null
  );
}

const signed = (v: number, show: (x: number) => string) => `${v > 0 ? '+' : ''}${show(v)}`;

function lookOf(g: Graph, unit: 'space' | 'objects'): Look {
  const a = g.a!,
    b = g.b!;
  const show = (v: number) => amount(v, unit);
  const delta = (i: number) => b[i] - a[i];
  const relative = (i: number) =>
    a[i] > 0 ? `${delta(i) >= 0 ? '+' : '−'}${percent(Math.abs(delta(i)), a[i])}` : 'new';
  return {
    fill: (i, dark) => changeFill(delta(i), Math.max(a[i], b[i]), dark),
    mark: (i) => (delta(i) === 0 ? '' : delta(i) > 0 ? '▲ ' : '▼ '),
    hatched: (i) => (g.flags[i] & (ONLY_A | ONLY_B)) !== 0,
    say: (i) => `${safe(nameOf(g, i))}: ${show(a[i])} before, ${show(b[i])} after, ${signed(delta(i), show)}`,
    tip: (i) => (
      <dl>
        <dt>before</dt>
        <dd>{show(a[i])}</dd>
        <dt>after</dt>
        <dd>{show(b[i])}</dd>
        <dt>change</dt>
        <dd>
          <b>{signed(delta(i), show)}</b> {relative(i)}
        </dd>
        {g.flags[i] & ONLY_A ? (
          <>
            <dt>path</dt>
            <dd>gone</dd>
          </>
        ) : g.flags[i] & ONLY_B ? (
          <>
            <dt>path</dt>
            <dd>new</dd>
          </>
        ) : null}
      </dl>
    ),
  };
}

function itemsOf(g: Graph, node: number, onZoom: (node: number) => void): (Item | null)[] {
  const zoomIn = { label: 'Zoom in', key: '↵', act: () => onZoom(node) };
  if (node === 0 || g.flags[node] & MERGED) return [zoomIn];
  const name = classOfNode(nameOf(g, node));
  return [
    zoomIn,
    { label: 'Objects of this class', act: () => void (location.hash = classHref(name)) },
    { label: 'All boxes of this class', act: () => go({ search: name }, true) },
    null,
    { label: 'Copy name', act: () => void navigator.clipboard?.writeText(name) },
    { label: 'Copy path', act: () => void navigator.clipboard?.writeText(stackText(g, node)) },
  ];
}

const LEGEND = (
  <ul class="legend">
    <li>
      <i class="grew" />▲ grew
    </li>
    <li>
      <i class="shrank" />▼ shrank
    </li>
    <li>
      <i class="same" />
      as before
    </li>
    <li>
      <i class="lone" />
      in one of them only
    </li>
    <li class="dim">as wide as its larger side</li>
  </ul>
);

function GraphBar({ m, zoom, found }: { m: HeapMetric; zoom: number; found: Matches | null }) {
  const p = place.value;
  return (
    <div class="bar">
      <HeapMetricChoice m={m} />
      <CollapseChains />
      <button type="button" disabled={zoom === 0} onClick={() => go({ zoom: '' })}>
        Whole
      </button>
      <span class="grow" />
      {found && p.search && <span class="match">{found.nodes.length} matches</span>}
      <GraphSearch placeholder="Search" />
    </div>
  );
}

function DiffGraph({ query, dump }: { query: Record<string, string | number | undefined>; dump: HeapDump }) {
  const p = place.value;
  const m = (p.heapmetric || 'object_size') as HeapMetric;
  const unit = isSize(m) ? 'space' : 'objects';
  const q = params({ ...where(dump), ...query, metric: m, collapse: p.collapse ? 1 : undefined });
  const answer = useAnswer(`heap diff flame ${p.trace}?${q}`, () => heapFlame(p.trace, 'diff-flame', q));
  const g = answer.value;
  const look = useMemo(() => (g ? lookOf(g, unit) : undefined), [g]);
  const { zoom, found, onZoom } = useZoom(g);
  const { onMenu, menu } = useFrameMenu(g, (node) => itemsOf(g!, node, onZoom));
  return (
    <div class="explorer" aria-busy={answer.busy}>
      <GraphBar m={m} zoom={zoom} found={found} />
      {answer.busy && !g && <Working what="Comparing" />}
      {answer.error && <Failed text={answer.error} />}
      {g && g.total > 0 && (
        <Flame
          graph={g}
          metric={unit}
          zoom={zoom}
          searchText={p.search}
          look={look}
          height={360}
          label="Both heaps as one"
          onZoom={onZoom}
          onMenu={onMenu}
        />
      )}
      {LEGEND}
      {menu}
    </div>
  );
}

const sideSql = (d: HeapDump) =>
  `select ifnull(c.deobfuscated_name, c.name) as name, count(*) as n, sum(max(self_size, 0) + native_size) as bytes\n  from heap_graph_object o join heap_graph_class c on c.id = o.type_id where upid = ${d.upid + 1} and graph_sample_ts = ${ns(d.ts)} and reachable group by 1`;

const ARROWS: Record<number, string> = { 1: '▲ ', [-1]: '▼ ', 0: '' };
const TONES: Record<number, string> = { 1: 'grew', [-1]: 'shrank', 0: '' };

const COLUMNS: GridColumn[] = [
  {
    name: 'Class',
    hint: 'its objects now: click',
    numeric: false,
    width: 340,
    show: (v) => safe(String(v)),
    link: (v, r) => (Number(r[2]) > 0 ? classHref(String(v)) : ''),
  },
  sizeColumn('Before', 'reachable bytes, native memory included'),
  sizeColumn('After', 'reachable bytes, native memory included'),
  {
    ...sizeColumn('Change', 'of the bytes', 104),
    draw: (v) => (
      <span class={TONES[Math.sign(Number(v))]}>
        {ARROWS[Math.sign(Number(v))]}
        {signed(Number(v), bytes)}
      </span>
    ),
  },
  countColumn('Count before', 'reachable objects', 116),
  countColumn('Count after', 'reachable objects', 108),
  { ...countColumn('Change of count', 'of the objects', 140), show: (v) => signed(Number(v), count) },
  { name: 'Only', hint: 'in one of the dumps only', numeric: false, width: 60 },
];
const cells = (r: Cell[]): Cell[] => [
  r[0],
  r[3],
  r[4],
  Number(r[4]) - Number(r[3]),
  r[1],
  r[2],
  Number(r[2]) - Number(r[1]),
  !Number(r[1]) ? 'new' : !Number(r[2]) ? 'gone' : '',
];

function SidesBar({ list, a, b, dump }: { list: Side[]; a: Side; b: Side | undefined; dump: HeapDump }) {
  const trace = place.value.trace;
  const several = new Set(list.map((x) => x.dump.upid)).size > 1;
  return (
    <div class="sides">
      <label>
        Before{' '}
        <select
          aria-label="Dump before"
          value={written(a)}
          onChange={(e) => go({ against: e.currentTarget.value, zoom: '' })}>
          {list
            .filter((s) => s !== b)
            .map((s) => (
              <option value={written(s)}>{words(s, trace, several)}</option>
            ))}
        </select>
      </label>
      {a.trace === trace && a.dump.upid === dump.upid && (
        <button
          type="button"
          class="swap"
          title="Swap both"
          aria-label="Swap both"
          onClick={() => go({ graph: ns(a.dump.ts), against: b ? written(b) : '', zoom: '' })}>
          ⇄
        </button>
      )}
      <span>
        After: {dumpTime(dump, b?.all ?? [dump])} <span class="dim">the dump chosen above</span>
      </span>
    </div>
  );
}

function SumWords({ r }: { r: Rows }) {
  const [x, y] = [r.before as Sum, r.after as Sum];
  const [u, v] = [x.size + x.native, y.size + y.native];
  return (
    <>
      {bytes(u)} before, {bytes(v)} after: {signed(v - u, bytes)}, {signed(y.count - x.count, count)} objects
    </>
  );
}

const changesSql = (a: HeapDump, b: HeapDump) =>
  `with a as (${sideSql(a)}),\n b as (${sideSql(b)})\nselect name, sum(before) as before, sum(after) as after, sum(after) - sum(before) as change\nfrom (select name, bytes as before, 0 as after from a union all select name, 0, bytes from b)\ngroup by 1 having change <> 0 order by change desc`;

export function DiffTab({ dump }: { dump: HeapDump }) {
  const p = place.value;
  const sides = useSides();
  const list = sides.value ?? [];
  const a = baseOf(list, dump, p.trace);
  if (!sides.value)
    return sides.error ? <Failed text={sides.error} /> : <Working what="Looking for other dumps" />;
  if (!a)
    return (
      <div class="empty">
        <p>There is no other dump to compare with.</p>
        <p class="dim">
          <code>heapwise java dump -c 10s -d 5m PID</code> makes one every ten seconds; a second trace can be
          opened beside this one.
        </p>
      </div>
    );
  const other = a.trace !== p.trace;
  const query = { ...where(a.dump, 'a_'), a_trace: other ? a.trace : undefined };
  const b = list.find((s) => s.trace === p.trace && s.dump.upid === dump.upid && s.dump.ts === dump.ts);
  return (
    <>
      <SidesBar list={list} a={a} b={b} dump={dump} />
      <DiffGraph query={query} dump={dump} />
      <section class="heap-changes">
        <ServerTable
          dump={dump}
          name="diff"
          query={{ ...query, match: p.match }}
          cells={cells}
          columns={COLUMNS}
          sorts={['name', 'before', 'after', 'change', '', '', 'count']}
          begin={{ column: 3, down: true }}
          label="Classes that changed"
          height={340}
          sql={other ? undefined : changesSql(a.dump, dump)}
          say={(r) => <SumWords r={r} />}
          empty={p.match ? `No class with '${p.match}' in its name changed.` : 'No class changed.'}>
          <input
            type="search"
            aria-label="Find classes"
            placeholder="Find classes"
            value={p.match}
            onInput={(e) => go({ match: e.currentTarget.value }, true)}
          />
        </ServerTable>
      </section>
    </>
  );
}
