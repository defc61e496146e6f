// What is in the trace and who holds the memory, at a glance.
import { functions, query as ask, question } from '../app/answers';
import {
  amount,
  base,
  besides,
  bytes,
  certainty,
  isUnknown,
  clock,
  count,
  duration,
  exact,
  isRough,
  percent,
  safe,
} from '../app/format';
import { href, place } from '../app/state';
import { dumpBefore, dumpsOf, ns } from '../app/times';
import type { FunctionRow, Moment, Trace, Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { Callers } from '../parts/callers';
import type { ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { type Asked, figureSql, selectionArgs, sqlHref } from '../parts/show-sql';
import { Head, Scroll, SqlLink } from '../parts/table';
import { Failed, Figure } from '../parts/words';
import { Chart } from '../timeline/chart';
import { Ruler } from '../timeline/ruler';
import { liveBand, liveLine } from '../timeline/moments';
import { wholeView } from '../timeline/view';

function rssAt(t: Tracks, ts: number): number | null {
  const rss = t.counters['mem.rss'];
  if (!rss?.length) return null;
  return rss.reduce((a, b) => (Math.abs(b[0] - ts) < Math.abs(a[0] - ts) ? b : a))[1];
}

const UNNAMED = `select count(*) as frames, coalesce(sum(coalesce(nullif(f.deobfuscated_name, ''), nullif(f.name, '')) is null and f.symbol_set_id is null), 0) as unnamed\nfrom stack_profile_frame f`;

/** A heap that nothing is added to: a JVM's objects beside its malloc. */
function Beside({ heap: { heap, lives, dumps } }: { heap: Tracks['heaps'][number] }) {
  const d = dumps[dumps.length - 1];
  const all = `${bytes(d.alloc_space)} allocated`;
  return (
    <Figure
      label={`Not in these figures: ${safe(heap)}`}
      value={lives ? bytes(d.space) : all}
      note={lives ? `live · ${all}` : 'managed objects; what became of them is not known'}
      to={href({
        page: 'flame',
        heap,
        at: '',
        max: false,
        from: '',
        metric: lives ? 'space' : 'alloc_space',
        zoom: '',
      })}
    />
  );
}

/** Why something that one looks for may not be here. */
function Missing({ trace }: { trace: Trace }) {
  const a = useAnswer(
    `missing ${trace.id}`,
    async () => (await ask(trace.id, UNNAMED)).results[0]?.rows[0] ?? null,
  );
  const losses = trace.losses ?? [];
  const [frames, unnamed] = [Number(a.value?.[0] ?? 0), Number(a.value?.[1] ?? 0)];
  const n = place.value.filters.length;
  return (
    <details class="missing">
      <summary>Why is something missing?</summary>
      <ul>
        <li>
          {losses.length ? (
            <>
              {count(losses.length)} {losses.length === 1 ? 'thing was' : 'things were'} lost or less precise.
            </>
          ) : (
            'Nothing was lost while recording.'
          )}{' '}
          <a href={href({ page: 'info' })}>Info</a>
        </li>
        {a.value && (
          <li>
            {unnamed ? (
              <>
                {percent(unnamed, frames)} of {count(frames)} frames have no function name.
              </>
            ) : (
              `All ${count(frames)} frames have a function name.`
            )}{' '}
            <a href={href({ page: 'symbols' })}>Symbols</a> <a href={sqlHref(UNNAMED)}>SQL</a>
          </li>
        )}
        <li>
          What was allocated before the profile of this process began is not in it: it counts as resident
          only. <a href={href({ page: 'accounting' })}>Accounting</a>
        </li>
        {n > 0 && (
          <li>
            {count(n)} {n === 1 ? 'filter narrows' : 'filters narrow'} graphs and tables, not this page.{' '}
            <a href={href({ filters: [] })}>Take away</a>
          </li>
        )}
      </ul>
    </details>
  );
}

/** What the page is about: the end, or the peak where everything was freed at the end. */
function momentsOf(tracks: Tracks) {
  const moments = tracks.moments;
  const last = moments[moments.length - 1] ?? tracks.peak!;
  const shown = tracks.cleaned_up && tracks.peak ? tracks.peak : last;
  const atPeak = shown === tracks.peak && tracks.cleaned_up;
  const before = dumpBefore(moments, tracks.start);
  const where = {
    upid: tracks.upid,
    at: atPeak ? 'peak' : ns(last.ts),
    max: !atPeak && last.max,
    from: '',
    metric: 'space' as const,
  };
  return { last, shown, atPeak, before, where };
}

type Shown = ReturnType<typeof momentsOf>;
interface FigureProps {
  tracks: Tracks;
  m: Shown;
  trace: number;
}

const sqlOf = (tracks: Tracks, { where }: Shown, column: string, more: Asked = {}) =>
  sqlHref(figureSql(tracks, { at: where.at, max: where.max, ...more }, column));
const endOf = (last: Moment) => ({ at: ns(last.ts), max: last.max });

function LiveFigures({ tracks, m }: FigureProps) {
  const { shown, last, where } = m;
  const { interval, peak } = tracks;
  const end = endOf(last);
  return (
    <>
      <Figure
        label={m.atPeak ? 'Live at the peak' : 'Live at the end'}
        value={bytes(shown.space)}
        note={`${certainty(shown.error, shown.space, interval)} · ${exact(shown.space)} B`}
        to={href({ page: 'flame', ...where, zoom: '' })}
        sql={sqlOf(tracks, m, 'space')}
      />
      <Figure
        label="Allocations live"
        value={count(shown.objects)}
        note={
          shown.objects > 0
            ? `${certainty(shown.errors[1], shown.objects, interval)} · ${bytes(shown.space / shown.objects)} each`
            : ''
        }
        to={href({ page: 'flame', ...where, metric: 'objects', zoom: '' })}
        sql={sqlOf(tracks, m, 'objects')}
      />
      <Figure
        label="Allocated in total"
        value={bytes(last.alloc_space)}
        note={`${certainty(last.errors[2], last.alloc_space, interval)} · ${count(last.alloc_objects)} allocations`}
        to={href({ page: 'flame', ...where, ...end, metric: 'alloc_space', zoom: '' })}
        sql={sqlOf(tracks, m, 'alloc_space', end)}
      />
      {peak && (
        <Figure
          label="Peak"
          value={bytes(peak.space)}
          note={`${certainty(peak.error, peak.space, interval)} · at ${clock(peak.ts - tracks.start)}`}
          to={href({ page: 'flame', ...where, at: 'peak', max: false, zoom: '' })}
          sql={sqlOf(tracks, m, 'space', { at: 'peak' })}
        />
      )}
    </>
  );
}

/** Since the dump before, with its error. */
function SinceFigure({ tracks, m: { last, before, where }, trace }: FigureProps) {
  const sides = before
    ? new URLSearchParams({
        upid: String(tracks.upid),
        a_upid: String(tracks.upid),
        at: ns(last.ts),
        a_at: ns(before.ts),
        ...(last.max ? { max: '1' } : {}),
        ...(before.max ? { a_max: '1' } : {}),
        limit: '0',
      }).toString()
    : '';
  const since = useAnswer(`since ${trace}?${sides}`, () =>
    sides ? question<{ total: (number | null)[] }>(trace, 'table/diff', sides) : Promise.resolve(null),
  );
  if (!before) return null;
  const err = since.value?.total[3];
  const sure =
    err === undefined
      ? ''
      : `${isUnknown(err) ? 'error unknown' : err && err > 0 ? `±${bytes(err)}` : certainty(0, 0, tracks.interval)} · `;
  const sql = `select (select space from heapwise_tree(${selectionArgs(tracks, endOf(last))}) where id = 0)\n  - (select space from heapwise_tree(${selectionArgs(tracks, endOf(before))}) where id = 0) as growth`;
  return (
    <Figure
      label="Since last dump"
      value={`${last.space >= before.space ? '+' : ''}${bytes(last.space - before.space)}`}
      note={`${sure}in ${duration(last.ts - before.ts)}`}
      to={href({ page: 'flame', ...where, ...endOf(last), from: ns(before.ts), zoom: '' })}
      sql={sqlHref(sql)}
    />
  );
}

/** From four dumps on there are verdicts. */
function LeakFigure({ tracks, trace }: FigureProps) {
  const enough = dumpsOf(tracks.moments) > 3;
  const leaks = useAnswer(`leaks of ${trace} ${tracks.upid} ${enough}`, () =>
    enough
      ? question<{ likely: number; n_likely: number }>(
          trace,
          'leaks',
          new URLSearchParams({ upid: String(tracks.upid), limit: '1' }).toString(),
        )
      : Promise.resolve(null),
  ).value;
  if (!leaks || leaks.n_likely <= 0) return null;
  return (
    <Figure
      label="Likely leaks"
      value={`+${bytes(leaks.likely)}`}
      note={`in ${count(leaks.n_likely)} ${leaks.n_likely === 1 ? 'place' : 'places'}`}
      to={href({ page: 'leaks', upid: tracks.upid })}
      sql={sqlHref(
        `select sum(grown) as grown, count(*) as places\nfrom heapwise_leaks(${tracks.upid + 1})\nwhere verdict = 'likely leak'`,
      )}
    />
  );
}

function ResidentFigure({ tracks, m: { shown } }: FigureProps) {
  const rss = rssAt(tracks, shown.ts);
  if (rss === null) return null;
  return (
    <Figure
      label="Resident"
      value={bytes(rss)}
      note={
        shown.space <= rss ? `${percent(shown.space, rss)} of it explained` : 'not all that lives was touched'
      }
      sql={sqlHref(
        `select c.ts, c.value\nfrom counter c join process_counter_track t on t.id = c.track_id\nwhere t.name = 'mem.rss' and t.upid = ${tracks.upid + 1}\norder by abs(c.ts - ${ns(shown.ts)}) limit 1`,
      )}
    />
  );
}

function Holder({
  r,
  tracks,
  where,
  total,
}: {
  r: FunctionRow;
  tracks: Tracks;
  where: Shown['where'];
  total: number;
}) {
  const rough = isRough(r[8], r[7], r[2]);
  return (
    <tr>
      <td class="num">{amount(r[2], 'space')}</td>
      <td class="num dim" title={`${count(r[8])} samples`}>
        {rough ? '≈ ' : ''}
        {certainty(r[7], r[2], tracks.interval)}
      </td>
      <td>
        <span class={`share ${rough ? 'rough' : ''}`}>
          <i style={{ width: `${(100 * r[2]) / Math.max(1, total)}%` }} />
          <b>{percent(r[2], total)}</b>
        </span>
      </td>
      <td class="num">{count(r[9])}</td>
      <td>
        <a href={href({ page: 'functions', fn: r[0], ...where })}>{safe(r[0])}</a>
        <Callers list={r[10]} /> <span class="dim">{safe(besides(r[1], tracks))}</span>
      </td>
    </tr>
  );
}

function Holders({ tracks, m: { where }, trace }: FigureProps) {
  const query = new URLSearchParams({
    upid: String(tracks.upid),
    at: where.at,
    ...(where.max ? { max: '1' } : {}),
    metric: 'space',
    sort: 'self',
    callers: '1',
    limit: '12',
  }).toString();
  const top = useAnswer(`${trace}?${query}`, () => functions(trace, query));
  const sql = `select demangle(name) as name, map_name, self_space as self, self_objects as objects\nfrom heapwise_functions(${selectionArgs(tracks, where)})\nwhere self_space > 0\norder by self desc limit 12`;
  return (
    <>
      <h2>
        Who holds it <SqlLink to={sqlHref(sql)} />
      </h2>
      {top.error && <Failed text={top.error} />}
      {top.value && (
        <Scroll label="Who holds it">
          <table class="top">
            <Head
              columns={[['Live', 'num'], ['Error', 'num'], 'Share', ['Count', 'num'], 'Function that asked']}
            />
            <tbody>
              {top.value.data
                .filter((r) => r[2] > 0)
                .map((r) => (
                  <Holder r={r} tracks={tracks} where={where} total={top.value!.total} />
                ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </>
  );
}

function Title({ tracks, last }: { tracks: Tracks; last: Moment }) {
  const how =
    tracks.interval > 0
      ? `one sample every ${bytes(tracks.interval)}${tracks.interval === 1 ? ' (exact)' : ''}`
      : 'how it was sampled is not known';
  return (
    <h1>
      {safe(base(tracks.name)) || 'unknown'}{' '}
      <span class="dim">
        pid {tracks.pid} · {tracks.n_dumps} {tracks.n_dumps === 1 ? 'dump' : 'dumps'} over{' '}
        {duration(last.ts - tracks.start)} · {how}
      </span>
    </h1>
  );
}

export function OverviewPage({ tracks, all, trace }: ProfileProps) {
  const m = momentsOf(tracks);
  const props = { tracks, m, trace: trace.id };
  const view = wholeView({ ...all, processes: [tracks] });
  return (
    <div class="overview">
      {all.processes.length > 1 && <SelectionBar tracks={tracks} all={all} />}
      <Title tracks={tracks} last={m.last} />
      <div class="figures">
        <LiveFigures {...props} />
        <SinceFigure {...props} />
        <LeakFigure {...props} />
        {tracks.heaps
          .filter((h) => !h.summed && h.dumps.length > 0)
          .map((h) => (
            <Beside heap={h} />
          ))}
        <ResidentFigure {...props} />
      </div>
      {tracks.moments.length > 1 && (
        <a class="card" href={href({ page: 'timeline' })} title="open the timeline">
          <Ruler view={view} zero={tracks.start} />
          <Chart
            lines={[liveLine(tracks)]}
            band={liveBand(tracks)}
            view={view}
            height={120}
            label="Live heap over time"
          />
        </a>
      )}
      <Missing trace={trace} />
      <Holders {...props} />
    </div>
  );
}
