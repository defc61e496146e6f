// Sizes and lifetimes: how large allocations are, how long they stay, and who makes them.
import { question } from '../app/answers';
import {
  amount,
  besides,
  bytes,
  count,
  isBytes,
  isLive,
  isTemporary,
  type Metric,
  METRICS,
  percent,
  round,
  safe,
  TEMPORARY,
} from '../app/format';
import { filtered, selection } from '../app/selection';
import { go, href, place } from '../app/state';
import type { Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { MetricChoice, MetricNote } from '../parts/choice';
import { FilterBar } from '../parts/filters';
import type { ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { Share } from '../parts/share';
import { quote, sqlHref } from '../parts/show-sql';
import { type Column, Head, Scroll, SqlLink } from '../parts/table';
import { Busy, Failed } from '../parts/words';
import { type Bar, type BarRange, Histogram } from './histogram';

type Value = [
  allocObjects: number,
  allocSpace: number,
  objects: number,
  space: number,
  temporaryObjects: number,
  temporarySpace: number,
];
interface Sizes {
  classes: [cls: number, upTo: number, ...Value, exact: number][];
  total: number;
  rows: number;
  functions: [name: string, module: string, ...Value][];
}
interface Lifetimes {
  step: number;
  dumps: number;
  buckets: [from: number, bytes: number][];
  rows: number;
  functions: [
    name: string,
    module: string,
    allocSpace: number,
    allocObjects: number,
    space: number,
    stay: number,
    least: number,
    most: number,
  ][];
}

const VALUE = {
  alloc_objects: 0,
  alloc_space: 1,
  objects: 2,
  space: 3,
  temporary_objects: 4,
  temporary_space: 5,
};

function seconds(s: number): string {
  if (s < 1e-3) return `${(s * 1e6).toFixed(s < 1e-5 ? 1 : 0)} µs`;
  if (s < 1) return `${(s * 1e3).toFixed(s < 1e-2 ? 1 : 0)} ms`;
  if (s < 120) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  return s < 7200 ? `${(s / 60).toFixed(0)} min` : `${(s / 3600).toFixed(0)} h`;
}

const labelOf = (m: Metric) => [...METRICS, ...TEMPORARY].find((x) => x.id === m)!.label;

/** A bar for each power of two from the smallest to the largest. */
function barsOf(s: Sizes, m: Metric): Bar[] {
  const by = new Map(s.classes.map((c) => [c[0], c]));
  const bars: Bar[] = [];
  for (let c = s.classes[0]?.[0] ?? 0; c <= (s.classes[s.classes.length - 1]?.[0] ?? -1); c++) {
    const v = (by.get(c)?.slice(2, 8) ?? [0, 0, 0, 0, 0, 0]) as Value;
    const [size, number, kind] = isTemporary(m)
      ? [v[5], v[4], 'temporary ']
      : isLive(m)
        ? [v[3], v[2], 'live ']
        : [v[1], v[0], ''];
    bars.push({
      id: c,
      label: round(2 ** c),
      value: v[VALUE[m]],
      words: `${bytes(size)} in ${count(number)} ${kind}allocations above half this size`,
    });
  }
  return bars;
}

function sizesSql(upid: number): string {
  const p = place.value;
  return `select up_to, sum(${p.metric}) as ${p.metric}, sum(exact_objects) as exact_objects\nfrom heapwise_sizes(${upid + 1}${/^\d+$/.test(p.at) ? `, ${p.at}` : ''})${p.heap ? `\nwhere heap_name = ${quote(p.heap)}` : ''}\ngroup by up_to order by up_to`;
}

function Askers({ s, tracks }: { s: Sizes; tracks: Tracks }) {
  const m = place.value.metric;
  const average = (v: Value) => (v[0] > 0 ? bytes(v[1] / v[0]) : v[2] > 0 ? bytes(v[3] / v[2]) : '–');
  return (
    <Scroll label="Functions that asked for these sizes">
      <table class="top by-function">
        <Head
          columns={[
            'Function that asked',
            [labelOf(m), 'num'],
            'Share',
            ['Live count', 'num'],
            ['Total count', 'num wide'],
            ['Average', 'num'],
          ]}
        />
        <tbody>
          {s.functions.map(([name, module, ...v]) => (
            <tr>
              <td class="site">
                <a href={href({ page: 'functions', fn: name })}>{safe(name)}</a>{' '}
                <span class="dim">{safe(besides(module, tracks))}</span>
              </td>
              <td class="num">{amount(v[VALUE[m]], m)}</td>
              <td>
                <Share part={v[VALUE[m]]} whole={s.total} />
              </td>
              <td class="num">{count(v[2])}</td>
              <td class="num wide">{count(v[0])}</td>
              <td class="num">{average(v)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {s.rows > s.functions.length && (
        <p class="statement">
          The first {s.functions.length} of {count(s.rows)}
        </p>
      )}
    </Scroll>
  );
}

function RangeWords({ range }: { range: BarRange | null }) {
  if (!range)
    return <p class="statement">Click a bar, or drag over several, to see who asks for these sizes.</p>;
  return (
    <p class="statement">
      Allocations of {range[0] === 0 ? '' : `more than ${round(2 ** (range[0] - 1))} and `}up to{' '}
      {round(2 ** range[1])}{' '}
      <button type="button" onClick={() => go({ sizes: '' })}>
        All sizes
      </button>
    </p>
  );
}

function SizesPart({ tracks }: { tracks: Tracks }) {
  const p = place.value;
  const q = new URLSearchParams(selection.value);
  q.set('metric', p.metric);
  const m = /^(\d+)-(\d+)$/.exec(p.sizes);
  const range: BarRange | null = m ? [Number(m[1]), Number(m[2])] : null;
  if (range) {
    q.set('low', String(range[0]));
    q.set('high', String(range[1]));
  }
  const query = q.toString();
  const answer = useAnswer(`sizes ${p.trace}?${query}`, () => question<Sizes>(p.trace, 'sizes', query));
  const s = answer.value;
  if (!s) return answer.error ? <Failed text={answer.error} /> : <Busy what="Sorting by size" />;
  const bars = barsOf(s, p.metric);
  return (
    <section aria-busy={answer.busy}>
      <h2>
        How large{' '}
        <span class="dim">
          {labelOf(p.metric).toLowerCase()} by size of the allocation; each bar holds sizes up to its label
        </span>{' '}
        <SqlLink to={sqlHref(sizesSql(tracks.upid))} />
      </h2>
      {bars.length === 0 ? (
        <p class="empty">Nothing had been allocated by this moment.</p>
      ) : (
        <Histogram
          label="Sizes of allocations"
          tone="by-size"
          counts={!isBytes(p.metric)}
          bars={bars}
          range={range}
          onRange={(r) => go({ sizes: r ? `${r[0]}-${r[1]}` : '' }, true)}
        />
      )}
      <RangeWords range={range} />
      {s.functions.length === 0 && bars.length > 0 && (
        <p class="empty">
          Nothing of these sizes{' '}
          {isLive(p.metric)
            ? 'is live'
            : isTemporary(p.metric)
              ? 'was freed within a second'
              : 'was allocated'}
          .
        </p>
      )}
      {s.functions.length > 0 && <Askers s={s} tracks={tracks} />}
    </section>
  );
}

/** At least, at most of what was freed within a step. */
function Temporary({ least, most, space }: { least: number; most: number; space: number }) {
  const words =
    Math.abs(most - least) < 0.005 * space
      ? percent(most, space)
      : `${percent(least, space)} to ${percent(most, space)}`;
  return (
    <span class="share range">
      <u style={{ width: `${(100 * most) / space}%` }} />
      <i style={{ width: `${(100 * least) / space}%` }} />
      <b>{words}</b>
    </span>
  );
}

function Stays({ l, tracks }: { l: Lifetimes; tracks: Tracks }) {
  const columns: Column[] = [
    'Function that asked',
    ['Asked for', 'num'],
    ['Allocations', 'num wide'],
    ['Live', 'num'],
    ['Mean stay', 'num', 'area below the curve of live bytes, divided by the bytes asked for'],
    ['Temporary', '', `freed within ${seconds(l.step)}: at least, at most`],
  ];
  return (
    <Scroll label="How long allocations stay">
      <table class="top by-function">
        <Head columns={columns} />
        <tbody>
          {l.functions.map(([name, module, space, objects, live, stay, least, most]) => (
            <tr>
              <td class="site">
                <a href={href({ page: 'functions', fn: name, metric: 'alloc_space' })}>{safe(name)}</a>{' '}
                <span class="dim">{safe(besides(module, tracks))}</span>
              </td>
              <td class="num">{bytes(space)}</td>
              <td class="num wide">{count(objects)}</td>
              <td class="num">{bytes(live)}</td>
              <td class="num">
                {live > 0 ? '≥ ' : ''}
                {seconds(stay)}
              </td>
              <td>
                <Temporary least={least} most={most} space={space} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {l.rows > l.functions.length && (
        <p class="statement">
          The first {l.functions.length} of {count(l.rows)}
        </p>
      )}
    </Scroll>
  );
}

function Lived({ l, tracks }: { l: Lifetimes; tracks: Tracks }) {
  const shown = l.buckets.map(([from, value], id) => ({
    id,
    label: seconds(from),
    value,
    words: `${bytes(value)} with a mean stay from here on`,
  }));
  const first = shown.findIndex((b) => b.value > 0);
  const last = shown.findLastIndex((b) => b.value > 0);
  if (first < 0) return <p class="empty">Nothing was allocated.</p>;
  if (l.dumps < 2)
    return (
      <p class="empty">
        One dump does not tell how long anything stayed. Record with <code>heapwise record -c 1s -- …</code>
      </p>
    );
  return (
    <>
      <Histogram
        label="Mean stay of allocations"
        tone="by-stay"
        bars={shown.slice(Math.max(0, first - 1), last + 2)}
        range={null}
      />
      <p class="statement">
        A dump came every {seconds(l.step)}: shorter stays show as a share that came and went between two
        dumps. The mean of what still lives counts up to the last dump.
      </p>
      <Stays l={l} tracks={tracks} />
    </>
  );
}

function LifetimesPart({ tracks }: { tracks: Tracks }) {
  const { upid } = tracks;
  const p = place.value;
  const q = new URLSearchParams({
    upid: String(upid),
    ...(p.heap ? { heap: p.heap } : {}),
    ...filtered(),
  }).toString();
  const answer = useAnswer(`lifetimes ${p.trace}?${q}`, () => question<Lifetimes>(p.trace, 'lifetimes', q));
  const l = answer.value;
  if (!l) return answer.error ? <Failed text={answer.error} /> : <Busy what="Following allocations" />;
  const sql = `select demangle(name) as name, map_name, alloc_space, alloc_objects, space, stay, temporary_least, temporary_most\nfrom heapwise_lifetimes(${upid + 1})`;
  return (
    <section aria-busy={answer.busy}>
      <h2>
        How long{' '}
        <span class="dim">
          bytes asked for, by the mean stay of what the function allocates, over the whole recording
        </span>{' '}
        <SqlLink to={sqlHref(sql)} />
      </h2>
      <Lived l={l} tracks={tracks} />
    </section>
  );
}

export function SizesPage({ tracks, all }: ProfileProps) {
  const p = place.value;
  return (
    <div class="findings">
      <SelectionBar tracks={tracks} all={all} />
      <div class="bar">
        <MetricChoice tracks={tracks} />
        <span class="dim">
          {[
            !isBytes(p.metric) && tracks.interval > 1 && 'counts are estimates',
            tracks.interval > 1 &&
              `below ${round(tracks.interval)} sizes are sampled, and stand at the average of their stack in a dump`,
          ]
            .filter(Boolean)
            .join(' · ')}
        </span>
      </div>
      <MetricNote />
      <FilterBar problem="" />
      <SizesPart tracks={tracks} />
      <LifetimesPart tracks={tracks} />
      <p class="statement">
        Traces hold sums by call stack and dump: the growth of single blocks by realloc, and alignments that
        were asked for, are not in them.
      </p>
    </div>
  );
}
