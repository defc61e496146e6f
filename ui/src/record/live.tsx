// Live: one process that is being recorded, now and over the last minutes. Looks come as events; what
// is kept of them (curves, a baseline) is kept here.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ask, recordings, status } from '../app/api';
import { Flame } from '../graph/flame';
import { base, besides, bytes, count, duration, error, exact, METRICS, type Metric, percent, safe } from '../app/format';
import { decode, find, type Graph, path } from '../graph/graph';
import { Spark } from '../pages/leaks';
import { MarkForm } from './mark';
import { Busy, Choice, Failed, Figure, isTyping, useAnswer } from '../parts/parts';
import { fresh, href, place, token } from '../app/state';
import { usePolled } from '../app/polled';
import { Chart } from '../timeline/timeline';

type Row = [name: string, module: string, space: number, objects: number, alloc_space: number, alloc_objects: number, error: number, samples: number];
interface Look {
  seq: number; seconds: number; name: string; program?: string; rss: number; samples: number; lost: number; interval: number;
  space: number; objects: number; alloc_space: number; alloc_objects: number; error: number; rows: Row[];
}
interface Watched { pid: number; name: string; recording: string; samples: number; seconds: number }

const KEPT_S = 300;
const SPARK = 40;
const key = (r: Row) => `${r[0]}\u0000${r[1]}`;
const change = (v: number) => `${v > 0 ? '+' : ''}${bytes(v)}`;

interface Point { at: number; space: number; rss: number; error: number; alloc: number; allocs: number }
interface Seen {
  look: Look | null; before: Look | null; baseline: Look | null;
  points: Point[]; curves: Map<string, number[]>; peak: number;
}
const nothing = (): Seen => ({ look: null, before: null, baseline: null, points: [], curves: new Map(), peak: 0 });

/** Adds a look; the clock is the page's own, as the server's begins anew with each connection. */
function add(s: Seen, l: Look): Seen {
  const at = performance.now() / 1000;
  const curves = new Map<string, number[]>();
  for (const r of l.rows) curves.set(key(r), [...(s.curves.get(key(r)) ?? []), r[2]].slice(-SPARK));
  return {
    look: l, before: s.look, baseline: s.baseline ?? l, peak: Math.max(s.peak, l.space), curves,
    points: [...s.points, { at, space: l.space, rss: l.rss, error: l.error, alloc: l.alloc_space, allocs: l.alloc_objects }].filter((p) => p.at > at - KEPT_S),
  };
}

/** What comes of the connection: looks, how long ago the last one was, why it is over. */
function useLooks(pid: number, paused: boolean): { seen: Seen; over: string; lost: number; rebase(): void } {
  const [seen, setSeen] = useState<Seen>(nothing);
  const [over, setOver] = useState('');
  const [broken, setBroken] = useState(0);
  const [, beat] = useState(0);
  useEffect(() => {
    setSeen(nothing());
    setOver('');
  }, [pid]);
  useEffect(() => {
    if (paused || over) return;
    const events = new EventSource(`/api/v1/live/${pid}/events?every=1000&token=${token.peek()}`);
    events.addEventListener('look', (e) => {
      setBroken(0);
      setSeen((s) => add(s, JSON.parse((e as MessageEvent<string>).data)));
    });
    events.addEventListener('over', (e) => {
      events.close();
      setOver(JSON.parse((e as MessageEvent<string>).data).text);
    });
    events.onerror = () => setBroken((b) => b || performance.now());
    return () => events.close();
  }, [pid, paused, over]);
  useEffect(() => {
    if (!broken) return;
    const timer = setInterval(() => beat((b) => b + 1), 1000);
    return () => clearInterval(timer);
  }, [broken]);
  const last = seen.points[seen.points.length - 1];
  return {
    seen, over, lost: broken ? Math.max(0, performance.now() / 1000 - (last?.at ?? broken / 1000)) : 0,
    rebase: () => setSeen((s) => ({ ...s, baseline: s.look })),
  };
}

/** Per second over the last few looks. */
function rates(points: Point[]): { alloc: number; allocs: number; space: number } {
  const last = points[points.length - 1];
  const first = points.find((p) => p.at > (last?.at ?? 0) - 6) ?? last;
  const t = last && first ? last.at - first.at : 0;
  return t > 0 ? { alloc: (last.alloc - first.alloc) / t, allocs: (last.allocs - first.allocs) / t, space: (last.space - first.space) / t } : { alloc: 0, allocs: 0, space: 0 };
}

type Sort = 'growth' | 'live' | 'rate';

function Growers({ seen, sort, onSort }: { seen: Seen; sort: Sort; onSort(s: Sort): void }) {
  const look = seen.look!;
  const seconds = seen.before ? Math.max(0.2, look.seconds - seen.before.seconds) : 1;
  const was = useMemo(() => new Map((seen.baseline?.rows ?? []).map((r) => [key(r), r])), [seen.baseline]);
  const before = useMemo(() => new Map((seen.before?.rows ?? []).map((r) => [key(r), r])), [seen.before]);
  const rows = look.rows.map((r) => ({
    r, growth: r[2] - (was.get(key(r))?.[2] ?? 0), rate: before.has(key(r)) ? Math.max(0, (r[4] - before.get(key(r))![4]) / seconds) : 0,
  }));
  rows.sort((a, b) => (sort === 'growth' ? b.growth - a.growth : sort === 'rate' ? b.rate - a.rate : 0) || b.r[2] - a.r[2]);
  return (
    <>
      <div class="bar"><h2>Who holds it</h2><span class="grow" />
        <Choice label="Order" value={sort} onChange={onSort} options={[{ id: 'growth', label: 'Growth', hint: 'since the baseline' }, { id: 'live', label: 'Live' }, { id: 'rate', label: 'Rate', hint: 'bytes asked for in a second' }]} /></div>
      <div class="scroll"><table class="top growers"><thead><tr><th scope="col" class="num">Growth</th><th scope="col" class="num">Live</th><th scope="col" class="num">Count</th><th scope="col" class="num">Asked for</th><th scope="col">Last {SPARK} s</th><th scope="col">Function that asked</th></tr></thead>
        <tbody>{rows.filter((x) => x.r[2] || x.growth || x.rate).slice(0, 25).map(({ r, growth, rate }) => (
          <tr key={key(r)}><td class={`num ${growth > 0 ? 'up' : growth < 0 ? 'down' : 'dim'}`}>{growth ? change(growth) : '0'}</td>
            <td class="num" title={`${exact(r[2])} B`}>{r[7] > 0 && r[7] < 10 && r[6] > 0 ? '≈ ' : ''}{bytes(r[2])} <span class="pm">{error(r[6], r[2])}</span></td>
            <td class="num">{count(r[3])}</td><td class="num">{rate ? `${bytes(rate)}/s` : '–'}</td>
            <td><Spark values={seen.curves.get(key(r)) ?? []} tone={growth > 0 ? 'grow' : ''} /></td>
            <td>{safe(r[0])} <span class="dim">{safe(besides(r[1], look))}</span></td></tr>
        ))}</tbody></table></div>
    </>
  );
}

function LiveFlame({ pid, seq }: { pid: number; seq: number }) {
  const [metric, setMetric] = useState<Metric>('space');
  const [zoom, setZoom] = useState<string[]>([]);
  const answer = useAnswer(`${pid} ${seq} ${metric}`, async () => ({ g: decode(await (await ask(`/api/v1/live/${pid}/flame?metric=${metric}`)).arrayBuffer()), metric }));
  const [shown, setShown] = useState<{ g: Graph; metric: Metric } | null>(null);
  useEffect(() => { if (answer.value) setShown(answer.value); }, [answer.value]);
  const node = shown ? find(shown.g, zoom) : 0;
  return (
    <section>
      <div class="bar"><h2>Where it was asked for</h2><span class="grow" /><Choice label="Metric" value={metric} options={METRICS} onChange={(m: Metric) => setMetric(m)} /></div>
      {zoom.length > 0 && shown && <div class="bar"><button type="button" onClick={() => setZoom([])}>Whole process</button><span class="dim">{safe(zoom[zoom.length - 1])}</span></div>}
      {!shown && answer.error && <Failed text={answer.error} />}
      {shown && <Flame graph={shown.g} metric={shown.metric} zoom={node} label="Heap now" height={420} onZoom={(n) => setZoom(path(shown.g, n))} />}
    </section>
  );
}

function Watch({ pid }: { pid: number }) {
  const [paused, setPaused] = useState(false);
  const [sort, setSort] = useState<Sort>('growth');
  const [said, setSaid] = useState('');
  const { seen, over, lost, rebase } = useLooks(pid, paused);
  const mine = recordings.value.find((r) => r.state === 'running' && r.targets.some((t) => t.pid === pid));
  const ended = recordings.value.find((r) => r.trace && r.targets.some((t) => t.pid === pid));
  const dump = () => mine && ask(`/api/v1/record/dump?id=${mine.id}`, { method: 'POST', body: '' }).then(() => setSaid('A dump was asked for.'), (e: Error) => setSaid(e.message));
  const acts = useRef<Record<string, () => void>>({});
  acts.current = { ' ': () => setPaused(!paused), d: () => void dump(), b: () => { rebase(); setSaid('Growth is counted from now.'); } };
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || isTyping(e) || (e.key === ' ' && e.target instanceof HTMLElement && /^(BUTTON|A|SUMMARY)$/.test(e.target.tagName))) return;
      const act = acts.current[e.key.toLowerCase()];
      if (!act) return;
      e.preventDefault();
      act();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  const look = seen.look;
  if (!look)
    return over ? (
      <div class="empty"><p>{safe(over)}.</p><p><a class="button" href={href({ page: 'record' })}>Record it</a> {ended && <a class="button" href={href({ ...fresh, page: 'overview', trace: ended.trace })}>Open what was recorded</a>}</p></div>
    ) : <Busy what="Looking at the process" />;
  const rate = rates(seen.points);
  const first = seen.points[0].at;
  const last = seen.points[seen.points.length - 1].at;
  const view = { from: Math.max(first, last - KEPT_S) * 1e9, to: Math.max(last, first + 10) * 1e9 };
  const grown = look.space - (seen.baseline?.space ?? 0);
  return (
    <div class="overview livepage">
      {lost > 0 && !over && <p class="banner bad" role="alert">Reconnecting, last data {Math.round(lost)} s ago.</p>}
      {over && <p class="banner note" role="status">This is the last look: {safe(over)}. {ended && <a href={href({ ...fresh, page: 'overview', trace: ended.trace })}>Open what was recorded</a>}</p>}
      {look.lost > 0 && <p class="banner bad" role="status">{count(look.lost)} samples are lost ({percent(look.lost, look.lost + look.samples)}): the buffer was full. Figures are too small.</p>}
      <div class="bar"><h1><span class={`dot ${paused || over || lost ? 'off' : ''}`} aria-hidden="true" />{safe(base(look.name))} <span class="dim">pid {pid} · one sample every {bytes(look.interval)}{look.interval === 1 ? ' (exact)' : ''}</span></h1><span class="grow" />
        <button type="button" aria-pressed={paused} title="Space" onClick={() => setPaused(!paused)} disabled={!!over}>{paused ? 'Go on' : 'Pause'}</button>
        <button type="button" title="B: growth is counted from now" onClick={acts.current.b}>Set baseline</button>
        {mine && <button type="button" title="D" onClick={() => void dump()}>Dump now</button>}
        {mine && <MarkForm id={mine.id} made={mine.marks} />}
        {mine && <a class="button" href={href({ page: 'record' })}>The recording</a>}</div>
      <p class="sr" role="status">{paused ? 'Paused' : said}</p>
      <div class="figures">
        <Figure label="Live" value={bytes(look.space)} note={`${error(look.error, look.space) || 'exact'} · ${exact(look.space)} B`} />
        <Figure label="Since the baseline" value={grown ? change(grown) : '0'} note={`${rate.space >= 0 ? '+' : ''}${bytes(rate.space)}/s now`} />
        <Figure label="Asked for" value={`${bytes(rate.alloc)}/s`} note={`${count(rate.allocs)} allocations a second`} />
        <Figure label="Allocations live" value={count(look.objects)} note={look.objects ? `${bytes(look.space / look.objects)} each` : ''} />
        <Figure label="Most seen" value={bytes(seen.peak)} note="while this page looked" />
        <Figure label="Resident" value={look.rss ? bytes(look.rss) : '–'} note={look.rss > look.space ? `${percent(look.space, look.rss)} of it explained` : ' '} />
      </div>
      <div class="card"><Chart height={150} view={view} label={`Live heap ${bytes(look.space)} and resident memory ${bytes(look.rss)} over the last ${duration((last - first) * 1e9)}`}
        lines={[{ label: 'resident', colour: '--blue', step: false, points: seen.points.map((p) => [p.at * 1e9, p.rss] as [number, number]) }, { label: 'live heap', colour: '--accent', step: false, points: seen.points.map((p) => [p.at * 1e9, p.space] as [number, number]) }]}
        band={seen.points.map((p) => ({ ts: p.at * 1e9, value: p.space, error: p.error }))} /></div>
      <p class="keyline"><i style={{ background: 'var(--accent)' }} />live heap <i style={{ background: 'var(--blue)' }} />resident <span class="dim">· last {duration((last - first) * 1e9)}{paused ? ' · paused' : ''}</span></p>
      <Growers seen={seen} sort={sort} onSort={setSort} />
      <LiveFlame pid={pid} seq={look.seq} />
    </div>
  );
}

function Choose() {
  const list = usePolled<Watched[]>('/api/v1/live', 2000);
  const known = list.value;
  if (!known) return list.error ? <Failed text={list.error} /> : <Busy what="Asking the recorders" />;
  if (!known.length)
    return <div class="empty"><p>No process is being recorded now.</p><p><a class="button" href={href({ page: 'record' })}>Record one</a></p><p class="dim">Recordings that a terminal began show here, too: <code>heapwise attach PID</code></p></div>;
  return (
    <div class="home"><h1>Being recorded</h1>
      <ul class="list">{known.map((w) => <li><a href={href({ page: 'live', arg: String(w.pid) })}><b>{safe(base(w.name))}</b> <span class="dim">pid {w.pid} · recording {safe(w.recording)} · {duration(w.seconds * 1e9)} · {count(w.samples)} samples</span></a></li>)}</ul></div>
  );
}

export function LivePage() {
  const arg = place.value.arg;
  if (status.value && !status.value.records) return <p class="empty">This server records nothing: it only shows traces.</p>;
  return arg ? <Watch pid={Number(arg)} key={arg} /> : <Choose />;
}
