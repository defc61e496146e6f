// Sizes and lifetimes: how large allocations are, how long they stay, and who makes them.
import { useRef } from 'preact/hooks';
import { question, type Tracks } from '../app/api';
import { amount, besides, bytes, count, isBytes, METRICS, percent, safe } from '../app/format';
import { Busy, Failed, FilterBar, MetricChoice, type ProfileProps, SelectionBar, useAnswer } from '../parts/parts';
import { quote, sqlHref } from '../parts/show-sql';
import { filtered, go, href, place, selection } from '../app/state';

type Value = [allocObjects: number, allocSpace: number, objects: number, space: number];
interface Sizes { classes: [cls: number, upTo: number, ...Value, exact: number][]; total: number; rows: number; functions: [name: string, module: string, ...Value][] }
interface Lifetimes {
  step: number; dumps: number; buckets: [from: number, bytes: number][]; rows: number;
  functions: [name: string, module: string, allocSpace: number, allocObjects: number, space: number, stay: number, least: number, most: number][];
}

interface Bar { id: number; label: string; value: number; words: string }

/** Bars to pick a range of: by dragging, with Shift, or by keys. */
function Histogram({ bars, range, label, tone, onRange }: { bars: Bar[]; range: [number, number] | null; label: string; tone: string; onRange?(r: [number, number] | null): void }) {
  const most = Math.max(1, ...bars.map((b) => b.value));
  const from = useRef<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const pick = (id: number, extend: boolean) => {
    if (!onRange) return;
    if (extend && range) onRange([Math.min(range[0], id), Math.max(range[1], id)]);
    else onRange(range && range[0] === id && range[1] === id ? null : [id, id]);
  };
  return (
    <div class={`histogram ${tone}`} role="group" aria-label={label} ref={box} onPointerUp={() => (from.current = null)} onPointerLeave={() => (from.current = null)}
      onKeyDown={(e) => {
        const all = [...box.current!.querySelectorAll('button')];
        const at = all.indexOf(document.activeElement as HTMLButtonElement);
        const next = e.key === 'ArrowRight' ? at + 1 : e.key === 'ArrowLeft' ? at - 1 : -1;
        if (e.key === 'Escape') onRange?.(null);
        else if (next >= 0 && next < all.length) {
          all[next].focus();
          if (e.shiftKey) pick(bars[next].id, true);
        } else return;
        e.preventDefault();
      }}>
      {bars.map((b, i) => {
        const on = range !== null && b.id >= range[0] && b.id <= range[1];
        return (
          <button type="button" tabIndex={i === 0 ? 0 : -1} aria-pressed={onRange ? on : undefined} aria-label={`${b.label}: ${b.words}`} title={`${b.label}: ${b.words}`} class={range && !on ? 'out' : ''}
            onClick={(e) => e.detail === 0 && pick(b.id, e.shiftKey)}
            onPointerDown={(e) => { if (e.button !== 0) return; from.current = b.id; pick(b.id, e.shiftKey); }}
            onPointerEnter={() => from.current !== null && from.current !== b.id && onRange?.([Math.min(from.current, b.id), Math.max(from.current, b.id)])}>
            <span class="bar-area"><i style={{ height: `${b.value > 0 ? Math.max(1.5, (100 * b.value) / most) : 0}%` }} /></span><em>{b.label}</em></button>
        );
      })}
    </div>
  );
}

const VALUE = { alloc_objects: 0, alloc_space: 1, objects: 2, space: 3 };

/** Powers of two without decimals. */
const whole = (v: number) => bytes(v).replace(/\.0+ /, ' ');

function seconds(s: number): string {
  if (s < 1e-3) return `${(s * 1e6).toFixed(s < 1e-5 ? 1 : 0)} µs`;
  if (s < 1) return `${(s * 1e3).toFixed(s < 1e-2 ? 1 : 0)} ms`;
  if (s < 120) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  return s < 7200 ? `${(s / 60).toFixed(0)} min` : `${(s / 3600).toFixed(0)} h`;
}

const Share = ({ part, whole }: { part: number; whole: number }) => (
  <span class="share"><i style={{ width: `${whole > 0 ? Math.min(100, (100 * part) / whole) : 0}%` }} /><b>{percent(part, whole)}</b></span>
);

function SizesPart({ tracks }: { tracks: Tracks }) {
  const { upid } = tracks;
  const p = place.value;
  const q = new URLSearchParams(selection.value);
  const m = /^(\d+)-(\d+)$/.exec(p.sizes);
  const range: [number, number] | null = m ? [Number(m[1]), Number(m[2])] : null;
  if (range) {
    q.set('low', String(range[0]));
    q.set('high', String(range[1]));
  }
  const query = q.toString();
  const answer = useAnswer(`sizes ${p.trace}?${query}`, () => question<Sizes>(p.trace, 'sizes', query));
  const s = answer.value;
  if (!s) return answer.error ? <Failed text={answer.error} /> : <Busy what="Sorting by size" />;
  const k = VALUE[p.metric];
  const value = (v: Value) => v[k];
  const by = new Map(s.classes.map((c) => [c[0], c]));
  const low = s.classes[0]?.[0] ?? 0;
  const bars: Bar[] = [];
  for (let c = low; c <= (s.classes[s.classes.length - 1]?.[0] ?? -1); c++) {
    const row = by.get(c);
    const v = row ? (row.slice(2, 6) as Value) : ([0, 0, 0, 0] as Value);
    const live = p.metric === 'space' || p.metric === 'objects';
    bars.push({ id: c, label: whole(2 ** c), value: value(v), words: `${bytes(live ? v[3] : v[1])} in ${count(live ? v[2] : v[0])} ${live ? 'live' : ''} allocations above half this size` });
  }
  const words = METRICS.find((x) => x.id === p.metric)!.label.toLowerCase();
  return (
    <section aria-busy={answer.busy}>
      <h2>How large <span class="dim">{words} by size of the allocation; each bar holds sizes up to its label</span> <a class="dim small" href={sqlHref(`select up_to, sum(${p.metric}) as ${p.metric}, sum(exact_objects) as exact_objects\nfrom heapwise_sizes(${upid + 1}${/^\d+$/.test(p.at) ? `, ${p.at}` : ''})${p.heap ? `\nwhere heap_name = ${quote(p.heap)}` : ''}\ngroup by up_to order by up_to`)}>SQL</a></h2>
      {bars.length === 0 ? <p class="empty">Nothing was allocated up to here.</p> : (
        <Histogram label="Sizes of allocations" tone="by-size" bars={bars} range={range} onRange={(r) => go({ sizes: r ? `${r[0]}-${r[1]}` : '' }, true)} />
      )}
      <p class="statement">{range ? <>Allocations of {range[0] === 0 ? '' : `more than ${whole(2 ** (range[0] - 1))} and `}up to {whole(2 ** range[1])} <button type="button" onClick={() => go({ sizes: '' })}>All sizes</button></> : 'Click a bar, or drag over several, to see who asks for these sizes.'}</p>
      {s.functions.length === 0 && bars.length > 0 && <p class="empty">Nothing of these sizes {p.metric === 'space' || p.metric === 'objects' ? 'is live' : 'was allocated'}.</p>}
      {s.functions.length > 0 && (
        <div class="scroll"><table class="top by-function"><thead><tr><th scope="col">Function that asked</th><th scope="col" class="num">{METRICS.find((x) => x.id === p.metric)!.label}</th><th scope="col">Share</th><th scope="col" class="num">Live count</th><th scope="col" class="num wide">Total count</th><th scope="col" class="num">Average</th></tr></thead>
          <tbody>{s.functions.map(([name, module, ...v]) => (
            <tr><td class="site"><a href={href({ page: 'functions', fn: name })}>{safe(name)}</a> <span class="dim">{safe(besides(module, tracks))}</span></td>
              <td class="num">{amount(value(v), p.metric)}</td><td><Share part={value(v)} whole={s.total} /></td>
              <td class="num">{count(v[2])}</td><td class="num wide">{count(v[0])}</td><td class="num">{v[0] > 0 ? bytes(v[1] / v[0]) : v[2] > 0 ? bytes(v[3] / v[2]) : '–'}</td></tr>
          ))}</tbody></table>
          {s.rows > s.functions.length && <p class="statement">The first {s.functions.length} of {count(s.rows)}</p>}</div>
      )}
    </section>
  );
}

function LifetimesPart({ tracks }: { tracks: Tracks }) {
  const { upid } = tracks;
  const p = place.value;
  const q = new URLSearchParams({ upid: String(upid), ...(p.heap ? { heap: p.heap } : {}), ...filtered() }).toString();
  const answer = useAnswer(`lifetimes ${p.trace}?${q}`, () => question<Lifetimes>(p.trace, 'lifetimes', q));
  const l = answer.value;
  if (!l) return answer.error ? <Failed text={answer.error} /> : <Busy what="Following allocations" />;
  const shown = l.buckets.map(([from, value], id) => ({ id, label: seconds(from), value, words: `${bytes(value)} with a mean stay from here on` }));
  const first = shown.findIndex((b) => b.value > 0);
  const last = shown.findLastIndex((b) => b.value > 0);
  return (
    <section aria-busy={answer.busy}>
      <h2>How long <span class="dim">bytes asked for, by the mean stay of what the function allocates, over the whole recording</span> <a class="dim small" href={sqlHref(`select demangle(name) as name, map_name, alloc_space, alloc_objects, space, stay, temporary_least, temporary_most\nfrom heapwise_lifetimes(${upid + 1})`)}>SQL</a></h2>
      {first < 0 ? <p class="empty">Nothing was allocated.</p> : l.dumps < 2
        ? <p class="empty">One dump does not tell how long anything stayed. Record with <code>heapwise record -c 1s -- …</code></p>
        : (
          <>
            <Histogram label="Mean stay of allocations" tone="by-stay" bars={shown.slice(Math.max(0, first - 1), last + 2)} range={null} />
            <p class="statement">A dump came every {seconds(l.step)}: shorter stays show as a share that came and went between two dumps. The mean of what still lives counts up to the last dump.</p>
            <div class="scroll"><table class="top by-function"><thead><tr><th scope="col">Function that asked</th><th scope="col" class="num">Asked for</th><th scope="col" class="num wide">Allocations</th><th scope="col" class="num">Live</th><th scope="col" class="num" title="area below the curve of live bytes, divided by the bytes asked for">Mean stay</th><th scope="col" title={`freed within ${seconds(l.step)}: at least, at most`}>Temporary</th></tr></thead>
              <tbody>{l.functions.map(([name, module, space, objects, live, stay, least, most]) => (
                <tr><td class="site"><a href={href({ page: 'functions', fn: name, metric: 'alloc_space' })}>{safe(name)}</a> <span class="dim">{safe(besides(module, tracks))}</span></td>
                  <td class="num">{bytes(space)}</td><td class="num wide">{count(objects)}</td><td class="num">{bytes(live)}</td><td class="num">{live > 0 ? '≥ ' : ''}{seconds(stay)}</td>
                  <td><span class="share range"><u style={{ width: `${(100 * most) / space}%` }} /><i style={{ width: `${(100 * least) / space}%` }} /><b>{Math.abs(most - least) < 0.005 * space ? percent(most, space) : `${percent(least, space)} to ${percent(most, space)}`}</b></span></td></tr>
              ))}</tbody></table>
              {l.rows > l.functions.length && <p class="statement">The first {l.functions.length} of {count(l.rows)}</p>}</div>
          </>
        )}
    </section>
  );
}

export function SizesPage({ tracks, all }: ProfileProps) {
  const p = place.value;
  return (
    <div class="findings">
      <SelectionBar tracks={tracks} all={all} />
      <div class="bar"><MetricChoice /><span class="dim">{[!isBytes(p.metric) && tracks.interval > 1 && 'counts are estimates', tracks.interval > 1 && `below ${whole(tracks.interval)} sizes are sampled, and stand at the average of their stack in a dump`].filter(Boolean).join(' · ')}</span></div>
      <FilterBar problem="" />
      <SizesPart tracks={tracks} />
      <LifetimesPart tracks={tracks} />
      <p class="statement">Traces hold sums by call stack and dump: the growth of single blocks by realloc, and alignments that were asked for, are not in them.</p>
    </div>
  );
}
