// Live: one process that is being recorded, now and over the last minutes. Looks come as events; what
// is kept of them (curves, a baseline) is kept here.
import { useEffect, useRef, useState } from 'preact/hooks';
import {
  base,
  bytes,
  count,
  duration,
  error,
  exact,
  type Metric,
  METRICS,
  TEMPORARY,
  percent,
  safe,
} from '../app/format';
import { usePolled } from '../app/polled';
import { ask, recordings, status } from '../app/server';
import { href, place } from '../app/state';
import type { Recording } from '../app/types';
import { fresh } from '../app/url/place';
import { Flame } from '../graph/flame';
import { decode, find, type Graph, path } from '../graph/graph';
import { useAnswer } from '../parts/answer';
import { Choice } from '../parts/choice';
import { useKeys } from '../parts/keys';
import { Busy, Failed, Figure } from '../parts/words';
import { Chart, type Line } from '../timeline/chart';
import { width } from '../timeline/moments';
import { Growers, type Order } from './growers';
import { change, KEPT_S, type Look, type Point, rates, type Seen, useLooks, type Watched } from './looks';
import { MarkForm } from './mark';

function LiveFlame({ pid, seq, temporary }: { pid: number; seq: number; temporary: boolean }) {
  const [metric, setMetric] = useState<Metric>('space');
  const [zoom, setZoom] = useState<string[]>([]);
  const answer = useAnswer(`${pid} ${seq} ${metric}`, async () => ({
    g: decode(await (await ask(`/api/v1/live/${pid}/flame?metric=${metric}`)).arrayBuffer()),
    metric,
  }));
  const [shown, setShown] = useState<{ g: Graph; metric: Metric } | null>(null);
  useEffect(() => {
    if (answer.value) setShown(answer.value);
  }, [answer.value]);
  const node = shown ? find(shown.g, zoom) : 0;
  return (
    <section>
      <div class="bar">
        <h2>Where it was asked for</h2>
        <span class="grow" />
        <Choice
          label="Metric"
          value={metric}
          options={temporary ? [...METRICS, ...TEMPORARY] : METRICS}
          onChange={(m: Metric) => setMetric(m)}
        />
      </div>
      {zoom.length > 0 && shown && (
        <div class="bar">
          <button type="button" onClick={() => setZoom([])}>
            Whole process
          </button>
          <span class="dim">{safe(zoom[zoom.length - 1])}</span>
        </div>
      )}
      {!shown && answer.error && <Failed text={answer.error} />}
      {shown && (
        <Flame
          graph={shown.g}
          metric={shown.metric}
          zoom={node}
          label="Heap now"
          height={420}
          onZoom={(n) => setZoom(path(shown.g, n))}
        />
      )}
    </section>
  );
}

/** Space, D and B. */
function useWatchKeys(acts: Record<string, () => void>): void {
  const now = useRef(acts);
  now.current = acts;
  useKeys((e) => {
    if (e.key === ' ' && e.target instanceof HTMLElement && /^(BUTTON|A|SUMMARY)$/.test(e.target.tagName))
      return false;
    const act = now.current[e.key.toLowerCase()];
    act?.();
    return !!act;
  }, []);
}

const Ended = ({ trace }: { trace: number }) => (
  <a href={href({ ...fresh, page: 'overview', trace })}>Open what was recorded</a>
);

function Over({ over, ended }: { over: string; ended: Recording | undefined }) {
  return (
    <div class="empty">
      <p>{safe(over)}.</p>
      <p>
        <a class="button" href={href({ page: 'record' })}>
          Record it
        </a>{' '}
        {ended && (
          <a class="button" href={href({ ...fresh, page: 'overview', trace: ended.trace })}>
            Open what was recorded
          </a>
        )}
      </p>
    </div>
  );
}

/** What is wrong with what is shown. */
function Troubles({
  look,
  over,
  lost,
  ended,
}: {
  look: Look;
  over: string;
  lost: number;
  ended: Recording | undefined;
}) {
  return (
    <>
      {lost > 0 && !over && (
        <p class="banner bad" role="alert">
          Reconnecting, last data {Math.round(lost)} s ago.
        </p>
      )}
      {over && (
        <p class="banner note" role="status">
          This is the last look: {safe(over)}. {ended && <Ended trace={ended.trace} />}
        </p>
      )}
      {look.lost > 0 && (
        <p class="banner bad" role="status">
          {count(look.lost)} samples are lost ({percent(look.lost, look.lost + look.samples)}): the buffer was
          full. Figures are too small.
        </p>
      )}
    </>
  );
}

function Figures({ look, seen }: { look: Look; seen: Seen }) {
  const rate = rates(seen.points);
  const grown = look.space - (seen.baseline?.space ?? 0);
  return (
    <div class="figures">
      <Figure
        label="Live"
        value={bytes(look.space)}
        note={`${error(look.error, look.space) || 'exact'} · ${exact(look.space)} B`}
      />
      <Figure
        label="Since the baseline"
        value={grown ? change(grown) : '0'}
        note={`${rate.space >= 0 ? '+' : ''}${bytes(rate.space)}/s now`}
      />
      <Figure
        label="Asked for"
        value={`${bytes(rate.alloc)}/s`}
        note={`${count(rate.allocs)} allocations a second`}
      />
      <Figure
        label="Allocations live"
        value={count(look.objects)}
        note={look.objects ? `${bytes(look.space / look.objects)} each` : ''}
      />
      <Figure label="Most seen" value={bytes(seen.peak)} note="while this page looked" />
      <Figure
        label="Resident"
        value={look.rss ? bytes(look.rss) : '–'}
        note={look.rss > look.space ? `${percent(look.space, look.rss)} of it explained` : ' '}
      />
    </div>
  );
}

function Curve({ look, points, paused }: { look: Look; points: Point[]; paused: boolean }) {
  const first = points[0].at;
  const last = points[points.length - 1].at;
  const view = { from: Math.max(first, last - KEPT_S) * 1e9, to: Math.max(last, first + 10) * 1e9 };
  const span = duration((last - first) * 1e9);
  const line = (label: string, colour: string, of: (p: Point) => number): Line => ({
    label,
    colour,
    step: false,
    points: points.map((p) => [p.at * 1e9, of(p)]),
  });
  return (
    <>
      <div class="card">
        <Chart
          height={150}
          view={view}
          label={`Live heap ${bytes(look.space)} and resident memory ${bytes(look.rss)} over the last ${span}`}
          lines={[line('resident', '--blue', (p) => p.rss), line('live heap', '--accent', (p) => p.space)]}
          band={points.map((p) => ({ ts: p.at * 1e9, value: p.space, error: width(p.error) }))}
        />
      </div>
      <p class="keyline">
        <i style={{ background: 'var(--accent)' }} />
        live heap <i style={{ background: 'var(--blue)' }} />
        resident{' '}
        <span class="dim">
          · last {span}
          {paused ? ' · paused' : ''}
        </span>
      </p>
    </>
  );
}

function Title({ look, pid, on }: { look: Look; pid: number; on: boolean }) {
  return (
    <h1>
      <span class={`dot ${on ? '' : 'off'}`} aria-hidden="true" />
      {safe(base(look.name))}{' '}
      <span class="dim">
        pid {pid} · one sample every {bytes(look.interval)}
        {look.interval === 1 ? ' (exact)' : ''}
      </span>
    </h1>
  );
}

function Watch({ pid }: { pid: number }) {
  const [paused, setPaused] = useState(false);
  const [order, setOrder] = useState<Order>('growth');
  const [said, setSaid] = useState('');
  const { seen, over, lost, rebase } = useLooks(pid, paused);
  const mine = recordings.value.find((r) => r.state === 'running' && r.targets.some((t) => t.pid === pid));
  const ended = recordings.value.find((r) => r.trace && r.targets.some((t) => t.pid === pid));
  const dump = () =>
    mine &&
    ask(`/api/v1/record/dump?id=${mine.id}`, { method: 'POST', body: '' }).then(
      () => setSaid('A dump was asked for.'),
      (e: Error) => setSaid(e.message),
    );
  const baseline = () => {
    rebase();
    setSaid('Growth is counted from now.');
  };
  useWatchKeys({ ' ': () => setPaused(!paused), d: () => void dump(), b: baseline });
  const look = seen.look;
  if (!look) return over ? <Over over={over} ended={ended} /> : <Busy what="Loading the process" />;
  return (
    <div class="overview livepage">
      <Troubles look={look} over={over} lost={lost} ended={ended} />
      <div class="bar">
        <Title look={look} pid={pid} on={!paused && !over && !lost} />
        <span class="grow" />
        <button
          type="button"
          aria-pressed={paused}
          title="Space"
          onClick={() => setPaused(!paused)}
          disabled={!!over}>
          {paused ? 'Go on' : 'Pause'}
        </button>
        <button type="button" title="B: growth is counted from now" onClick={baseline}>
          Set baseline
        </button>
        {mine && (
          <button type="button" title="D" onClick={() => void dump()}>
            Dump now
          </button>
        )}
        {mine && <MarkForm id={mine.id} made={mine.marks} />}
        {mine && (
          <a class="button" href={href({ page: 'record' })}>
            The recording
          </a>
        )}
      </div>
      <p class="sr" role="status">
        {paused ? 'Paused' : said}
      </p>
      <Figures look={look} seen={seen} />
      <Curve look={look} points={seen.points} paused={paused} />
      <Growers seen={seen} order={order} onOrder={setOrder} />
      <LiveFlame pid={pid} seq={look.seq} temporary={look.temporary} />
    </div>
  );
}

function Choose() {
  const list = usePolled<Watched[]>('/api/v1/live', 2000);
  const known = list.value;
  if (!known) return list.error ? <Failed text={list.error} /> : <Busy what="Asking the recorders" />;
  if (!known.length)
    return (
      <div class="empty">
        <p>No process is being recorded now.</p>
        <p>
          <a class="button" href={href({ page: 'record' })}>
            Record one
          </a>
        </p>
        <p class="dim">
          Recordings started in a terminal appear here too: <code>heapwise attach PID</code>
        </p>
      </div>
    );
  return (
    <div class="home">
      <h1>Being recorded</h1>
      <ul class="list">
        {known.map((w) => (
          <li>
            <a href={href({ page: 'live', arg: String(w.pid) })}>
              <b>{safe(base(w.name))}</b>{' '}
              <span class="dim">
                pid {w.pid} · recording {safe(w.recording)} · {duration(w.seconds * 1e9)} · {count(w.samples)}{' '}
                samples
              </span>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function LivePage() {
  const arg = place.value.arg;
  if (status.value && !status.value.records)
    return <p class="empty">This server records nothing: it only shows traces.</p>;
  return arg ? <Watch pid={Number(arg)} key={arg} /> : <Choose />;
}
