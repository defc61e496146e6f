// All memory of a process as one: native heaps by callstack, the managed heap by dominators with what it
// registered outside, other mappings, and what none of them explains.
import { useMemo } from 'preact/hooks';
import { amount, base, bytes, exact, percent, safe } from '../app/format';
import { hash } from '../app/hash';
import { go, href, place } from '../app/state';
import { ns } from '../app/times';
import { GraphSearch, Matched } from '../graph/crumbs';
import type { Look } from '../graph/draw';
import { Flame } from '../graph/flame';
import { type Graph, GROUP, MERGED, moduleOf, nameOf } from '../graph/graph';
import { useFrameMenu, useZoom } from '../graph/zoomed';
import { useAnswer } from '../parts/answer';
import type { Item } from '../parts/menu';
import { sqlHref } from '../parts/show-sql';
import { Head, Scroll } from '../parts/table';
import { Failed } from '../parts/words';
import { classHref, type HeapDump, heapFlame, heapQuestion, params, where } from './heap-api';
import { CollapseChains } from './heap-bars';
import { explain, Working } from './heap-parts';
import { classOfNode, MANAGED, managedFill, NATIVE } from './managed-look';

const TWICE = 4; // of flags: counted in a native heap, too

type Kind = 'native' | 'managed' | 'mapping' | 'unexplained';
interface Whole {
  ts: number;
  native_at: number | null;
  mappings_at: number | null;
  resident: number | null;
  swapped: number;
  registered: number;
  linked: number;
  unlinked: number;
  over: number;
  parts: [Kind, string, number][];
}

const KIND_WORDS: Record<Kind, string> = {
  native: 'native heap, by call stack',
  managed: 'managed heap, by dominators',
  mapping: 'mappings',
  unexplained: 'resident and swapped without all of these',
};

const HUES: Record<Kind, [hue: number, saturation: number]> = {
  native: [18, 62],
  managed: [165, 44],
  mapping: [222, 16],
  unexplained: [0, 0],
};

/** Each kind of memory has hues of its own: native red to yellow, managed green to violet, the rest grey. */
function fillOf(g: Graph, node: number, dark: boolean, kind: Kind | undefined): string {
  if (g.flags[node] & GROUP) {
    const [hue, sat] = HUES[kind ?? 'unexplained'];
    return dark ? `hsl(${hue} ${sat * 0.6}% 32%)` : `hsl(${hue} ${sat}% 80%)`;
  }
  if (g.flags[node] & MANAGED) return managedFill(g, node, dark);
  const step = hash(nameOf(g, node)) % 10;
  const hue = hash(base(moduleOf(g, node))) % 56;
  return dark ? `hsl(${hue} 36% ${30 + step}%)` : `hsl(${hue} 66% ${75 + step}%)`;
}

function Tip({ g, i, kinds }: { g: Graph; i: number; kinds: Map<string, Kind> }) {
  const managed = g.flags[i] & MANAGED;
  const kind = g.flags[i] & GROUP ? kinds.get(nameOf(g, i)) : undefined;
  return (
    <>
      {kind && <div class="dim">{KIND_WORDS[kind]}</div>}
      {managed && g.flags[i] & NATIVE ? (
        <div class="dim">
          memory outside of the heap that this class registered
          {g.flags[i] & TWICE ? ': possibly counted twice, in a native heap too' : ''}
        </div>
      ) : null}
      {managed && moduleOf(g, i) && <div class="dim">recorded as {safe(moduleOf(g, i))}</div>}
      {managed && explain(nameOf(g, i)) && <div class="dim">{explain(nameOf(g, i))}</div>}
      {!managed && moduleOf(g, i) && <div class="dim">{safe(moduleOf(g, i))}</div>}
      <dl>
        <dt>total</dt>
        <dd>
          {bytes(g.cum[i])} <span class="dim">{exact(g.cum[i])} B</span>
        </dd>
        <dt>share</dt>
        <dd>{percent(g.cum[i], g.total)} of all</dd>
        <dt>self</dt>
        <dd>{bytes(g.self[i])}</dd>
      </dl>
    </>
  );
}

function lookOf(g: Graph, kinds: Map<string, Kind>): Look {
  return {
    fill: (node, dark) => fillOf(g, node, dark, kinds.get(nameOf(g, node))),
    mark: () => '',
    hatched: (i) =>
      g.flags[i] & MANAGED && g.flags[i] & NATIVE ? true : kinds.get(nameOf(g, i)) === 'unexplained',
    say: (i) =>
      `${safe(nameOf(g, i))}, ${bytes(g.cum[i])}, ${percent(g.cum[i], g.total)} of all${g.flags[i] & TWICE ? ', possibly counted twice' : ''}`,
    tip: (i) => <Tip g={g} i={i} kinds={kinds} />,
  };
}

function itemsOf(
  g: Graph,
  node: number,
  w: Whole,
  kind: Kind | undefined,
  upid: number,
  onZoom: (node: number) => void,
): (Item | null)[] {
  const name = nameOf(g, node);
  const zoomIn = { label: 'Zoom in', key: '↵', act: () => onZoom(node) };
  const copy = { label: 'Copy name', act: () => void navigator.clipboard?.writeText(name) };
  if (node === 0 || g.flags[node] & MERGED) return [zoomIn];
  if (g.flags[node] & GROUP) {
    const own = {
      label: 'Its own flamegraph',
      act: () =>
        go({
          page: 'flame',
          upid,
          heap: name,
          at: w.native_at === null ? '' : ns(w.native_at),
          from: '',
          zoom: '',
        }),
    };
    return [zoomIn, ...(kind === 'native' ? [own] : []), copy];
  }
  if (g.flags[node] & MANAGED)
    return [
      zoomIn,
      { label: 'Objects of this class', act: () => void (location.hash = classHref(classOfNode(name))) },
      copy,
    ];
  return [
    zoomIn,
    {
      label: 'Functions: callers and callees',
      act: () => go({ page: 'functions', upid, fn: name, zoom: '' }),
    },
    copy,
  ];
}

/** What the figures lack. */
function Notes({ w }: { w: Whole }) {
  return (
    <>
      {w.native_at === null && (
        <p class="banner note">
          No native heap profile of this process is in the trace: what it allocated by itself is in "not
          explained". Both in one: <code>heapwise record</code> or a configuration with both data sources.
        </p>
      )}
      {w.resident === null && (
        <p class="banner note">
          The trace does not say how much of the process is resident, so what is not explained is not known:{' '}
          <code>java_hprof</code> with <code>dump_smaps</code>, or <code>--smaps</code>.
        </p>
      )}
      {w.unlinked > 0 && (
        <p class="banner note">
          {bytes(w.unlinked)} registered by objects could not be found among the native samples: possibly
          counted twice.
          {w.linked > 0 && ` ${bytes(w.linked)} were found, and stand under their objects only.`}
        </p>
      )}
      {w.over > 0 && (
        <p class="banner note">
          The parts are {bytes(w.over)} more than is resident and swapped: allocated, but never touched.
        </p>
      )}
    </>
  );
}

function Parts({ w, whole }: { w: Whole; whole: number }) {
  return (
    <Scroll label="Parts of the process">
      <table class="top heap-groups">
        <Head columns={['Part', 'What it is', ['Bytes', 'num'], 'Share']} />
        <tbody>
          {w.parts.map(([kind, name, v]) => (
            <tr>
              <td>{v > 0 ? <a href={href({ zoom: name })}>{safe(name)}</a> : safe(name)}</td>
              <td class="dim">{KIND_WORDS[kind]}</td>
              <td class="num" title={`${exact(v)} B`}>
                {bytes(v)}
              </td>
              <td>
                <span class="share">
                  <i style={{ width: `${(100 * v) / Math.max(1, whole)}%` }} />
                  <b>{percent(v, whole)}</b>
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** How far from the graph another figure was read. */
const apart = (at: number, ts: number) => `${at >= ts ? '+' : '−'}${(Math.abs(at - ts) / 1e9).toFixed(1)} s`;

function Statement({ w, whole, dump }: { w: Whole; whole: number; dump: HeapDump }) {
  const sql = `select t.name, c.ts, c.value from counter c join process_counter_track t on t.id = c.track_id\nwhere t.upid = ${dump.upid + 1} and t.name like 'mem.%' order by abs(c.ts - ${ns(dump.ts)}) limit 20`;
  return (
    <p class="statement">
      {bytes(whole)} in all
      {w.resident !== null && (
        <>
          {' '}
          · {bytes(w.resident)} resident{w.swapped > 0 && `, ${bytes(w.swapped)} swapped`}
        </>
      )}{' '}
      · beside the heap graph{w.native_at !== null && `: native profile ${apart(w.native_at, w.ts)}`}
      {w.mappings_at !== null && `, mappings ${apart(w.mappings_at, w.ts)}`} · <a href={sqlHref(sql)}>SQL</a>
    </p>
  );
}

export function WholeTab({ dump }: { dump: HeapDump }) {
  const p = place.value;
  const q = params({ ...where(dump), collapse: p.collapse ? 1 : undefined });
  const a = useAnswer(`heap whole ${p.trace}?${q}`, () => heapQuestion<Whole>(p.trace, 'whole', q));
  const graph = useAnswer(`heap whole flame ${p.trace}?${q}`, () => heapFlame(p.trace, 'whole-flame', q));
  const w = a.value;
  const g = graph.value;
  const kinds = useMemo(() => new Map(w?.parts.map(([kind, name]) => [name, kind] as const) ?? []), [w]);
  const look = useMemo(() => (g ? lookOf(g, kinds) : undefined), [g, kinds]);
  const { zoom, found, onZoom } = useZoom(g);
  const { onMenu, menu } = useFrameMenu(g, (node) =>
    itemsOf(g!, node, w!, kinds.get(nameOf(g!, node)), dump.upid, onZoom),
  );
  if (a.error || graph.error) return <Failed text={a.error || graph.error} />;
  if (!w || !g) return <Working what="Putting it together" />;
  const whole = w.parts.reduce((s, x) => s + x[2], 0);
  return (
    <div class="explorer" aria-busy={graph.busy}>
      <div class="bar">
        <CollapseChains />
        <button type="button" disabled={zoom === 0} onClick={() => go({ zoom: '' })}>
          Whole
        </button>
        <span class="grow" />
        <Matched found={found} graph={g} metric="space" />
        <GraphSearch placeholder="Search" />
      </div>
      <Flame
        graph={g}
        metric="space"
        zoom={zoom}
        searchText={p.search}
        look={look}
        height={460}
        label={`Whole process, ${amount(g.total, 'space')}`}
        onZoom={onZoom}
        onMenu={onMenu}
      />
      <Notes w={w} />
      <Parts w={w} whole={whole} />
      <Statement w={w} whole={whole} dump={dump} />
      {menu}
    </div>
  );
}
