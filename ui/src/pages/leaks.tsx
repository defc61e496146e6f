// Leaks: what grew from dump to dump, which of it is one, and why the server thinks so.
import { useState } from 'preact/hooks';
import { question } from '../app/answers';
import {
  besides,
  bytes,
  certainty,
  clock,
  count,
  duration,
  error,
  exact,
  isRough,
  percent,
  safe,
} from '../app/format';
import { filtered } from '../app/selection';
import { go, href, place } from '../app/state';
import { ns } from '../app/times';
import type { Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { callersApart, callersTo } from '../parts/callers';
import { FilterBar } from '../parts/filters';
import type { ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { figureSql, sqlHref } from '../parts/show-sql';
import { Spark } from '../parts/spark';
import { type Column, Head, Scroll } from '../parts/table';
import { Busy, Figure } from '../parts/words';

interface Row {
  verdict: string;
  name: string;
  module: string;
  rest: boolean;
  path: string[];
  slope: number;
  slope_low: number;
  slope_high: number;
  slope_interval: number;
  tau: number;
  p: number;
  grown: number;
  rises: number;
  freed_ratio: number;
  survival: number;
  survival_most: number;
  space: number;
  error: number | null;
  objects: number;
  alloc_space: number;
  samples: number;
  history: number[];
}
interface Leaks {
  interval: number;
  space: number;
  error: number | null;
  grown: number;
  likely: number;
  n_likely: number;
  n_rows: number;
  suppressed_rows: number;
  suppressed_space: number;
  moments: number[];
  rows: Row[];
}

const VERDICTS: Record<string, { glyph: string; tone: string; means: string }> = {
  'likely leak': {
    glyph: '▲',
    tone: 'leak',
    means: 'rises steadily, and next to nothing of it is ever freed',
  },
  growing: { glyph: '△', tone: 'grow', means: 'surely rises, but something speaks against a leak' },
  'cache-like': { glyph: '◧', tone: 'calm', means: 'grew, then stayed as it was in the last third' },
  'start-up': { glyph: '▬', tone: 'calm', means: 'flat after the first tenth of the recording' },
  churn: { glyph: '↻', tone: 'calm', means: 'much is allocated and freed, what is held stays the same' },
  'no trend': { glyph: '–', tone: 'calm', means: 'neither surely rising nor flat' },
};

const rate = (v: number) => `${v > 0 ? '+' : ''}${bytes(v)}/s`;
const change = (v: number) => `${v > 0 ? '+' : ''}${bytes(v)}`;
const few = (r: Row) => r.samples < 10 && r.error !== 0;
const rough = (r: Row) => isRough(r.samples, r.error, r.space);

/** The rule that fired, in words. */
function reason(r: Row, l: Leaks): string {
  const n = l.moments.length;
  const p = r.p < 0.001 ? 'p < 0.001' : `p = ${r.p.toFixed(3)}`;
  const rose = `It held more than before in ${r.rises} of ${n - 1} intervals (τ ${r.tau.toFixed(2)}, ${p}) and rises by ${bytes(r.slope_low)} to ${bytes(r.slope_high)} a second`;
  const freed = `${r.freed_ratio > 0 ? percent(r.freed_ratio, 1) : 'none'} of what it asked for was freed`;
  switch (r.verdict) {
    case 'likely leak':
      return `${rose}; ${freed}.`;
    case 'growing': {
      const against = [
        r.tau <= 0.7 && `it does not rise steadily (τ at most 0.7)`,
        r.p >= 0.05 && 'so few dumps could look so by chance (p not below 0.05)',
        r.freed_ratio >= 0.05 && `${freed}`,
        few(r) && `only ${r.samples} samples are behind it`,
      ].filter(Boolean);
      return `${rose}. Not called a leak${against.length ? `: ${against.join(', ')}` : ''}.`;
    }
    case 'cache-like':
      return `It grew and was flat in the last third of the recording: within the sampling error it has not changed since.`;
    case 'start-up':
      return `It has been flat since the first tenth of the recording.`;
    case 'churn':
      return `What it holds is flat, but it asked for ${(r.alloc_space / Math.max(1, r.space)).toFixed(0)} times as much: ${bytes(r.alloc_space)}.`;
    case 'no trend':
      return `Its slope lies between ${rate(r.slope_low)} and ${rate(r.slope_high)}: that is neither surely a rise nor flat.`;
    default:
      return `A verdict needs four dumps; there ${n === 1 ? 'is one' : `are ${n}`}. Record with a dump every few seconds: heapwise record -c 5s.`;
  }
}

/** apart: the callers that it takes to tell the row from others of the same name. */
function Site({ r, tracks, apart }: { r: Row; tracks: Tracks; apart: number }) {
  if (!r.name)
    return (
      <>
        <b>everything else</b> <span class="dim">too small to be judged one by one</span>
      </>
    );
  const callers = r.path.slice(0, -1).reverse();
  return (
    <>
      <b>{safe(r.name)}</b>{' '}
      <span class="dim">
        {safe(besides(r.module, tracks))}
        {r.rest ? ' · what is left beside the rows below it' : ''}
      </span>
      {callers.length > 0 && <div class="callers dim">{callersTo(callers, apart).map(safe).join(' ‹ ')}</div>}
    </>
  );
}

function Facts({ r, l }: { r: Row; l: Leaks }) {
  const judged = l.moments.length >= 4;
  return (
    <dl class="facts">
      {judged && (
        <div>
          <dt>Growth</dt>
          <dd>
            {rate(r.slope)} <span class="dim">{change(r.slope_interval)} an interval</span>
          </dd>
        </div>
      )}
      {judged && (
        <div>
          <dt>95 % interval</dt>
          <dd>
            {rate(r.slope_low)} … {rate(r.slope_high)}
          </dd>
        </div>
      )}
      <div>
        <dt>Live</dt>
        <dd>
          {bytes(r.space)} {certainty(r.error, r.space, l.interval)}{' '}
          <span class="dim">
            {exact(r.space)} B in {count(r.objects)}
          </span>
        </dd>
      </div>
      <div>
        <dt>Ever allocated</dt>
        <dd>{bytes(r.alloc_space)}</dd>
      </div>
    </dl>
  );
}

/** Where one goes on from a row. */
function Ways({ r, l, upid }: { r: Row; l: Leaks; upid: number }) {
  const [first, last] = [l.moments[0], l.moments[l.moments.length - 1]];
  const where = {
    page: 'flame',
    upid,
    heap: '',
    at: ns(last),
    max: false,
    metric: 'space' as const,
    invert: false,
    frames: 'site' as const,
    filters: [] as string[],
    zoom: r.path.join('\u001f'),
    search: '',
  };
  const known = place.value.known.split('\n').filter(Boolean);
  return (
    <p class="bar">
      <a class="button" href={href(where)}>
        Flamegraph from here
      </a>
      {first !== last && (
        <a class="button" href={href({ ...where, from: ns(first) })}>
          Only what grew
        </a>
      )}
      {r.name && (
        <a class="button" href={href({ ...where, page: 'functions', fn: r.name, zoom: '' })}>
          Callers and callees
        </a>
      )}
      {r.name && (
        <button type="button" onClick={() => go({ known: [...known, `leak:^${r.name}$`].join('\n') })}>
          I know this one
        </button>
      )}
    </p>
  );
}

function Details({ r, l, tracks }: { r: Row; l: Leaks; tracks: Tracks }) {
  return (
    <div class="details">
      <p>
        {reason(r, l)}
        {r.survival >= 0 &&
          ` Of what it allocated before the last third, ${r.survival_most > r.survival + 0.005 ? 'at least ' : ''}${percent(r.survival, 1)} still lives.`}
      </p>
      <Facts r={r} l={l} />
      <p class="path dim">{r.path.length ? r.path.map(safe).join(' › ') : 'all stacks'}</p>
      <Ways r={r} l={l} upid={tracks.upid} />
      <details class="asTable">
        <summary>The curve as a table</summary>
        <table class="top">
          <Head columns={['Time', ['Live', 'num']]} />
          <tbody>
            {l.moments.map((ts, i) => (
              <tr>
                <td>{clock(ts - tracks.start)}</td>
                <td class="num">{bytes(r.history[i])}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </div>
  );
}

function Known({ l }: { l: Leaks | null }) {
  const known = place.value.known;
  const [text, setText] = useState(known);
  const [shown, setShown] = useState(known);
  if (shown !== known) {
    setShown(known);
    setText(known);
  }
  return (
    <details class="known" open={known !== ''}>
      <summary>
        Known leaks
        {known && l
          ? `: ${l.suppressed_rows} ${l.suppressed_rows === 1 ? 'row' : 'rows'} left out, ${bytes(l.suppressed_space)} live (in the totals)`
          : ''}
      </summary>
      <label>
        Rows with a matching function or module in their stack are left out; lines as LeakSanitizer takes them
        <textarea
          rows={3}
          spellcheck={false}
          placeholder="leak:function_name"
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
        />
      </label>
      <p class="bar">
        <button type="button" disabled={text === known} onClick={() => go({ known: text.trim() })}>
          Apply
        </button>
        {known && (
          <button type="button" onClick={() => go({ known: '' })}>
            Show them again
          </button>
        )}
      </p>
    </details>
  );
}

/** Which dumps are not compared, and why; '' = all are. */
function leftOut(l: Leaks, tracks: Tracks): string {
  const last = l.moments[l.moments.length - 1];
  const peaks = tracks.moments.filter((m) => m.for_peak).length;
  const end = tracks.moments.filter((m) => !m.for_peak && m.ts > last).length;
  if (!peaks && !end) return '';
  const why = [
    peaks > 0 &&
      `${count(peaks)} made only because the heap was larger than ever before (they would look like growth)`,
    end > 0 &&
      `${end === 1 ? 'the last one' : `the last ${count(end)}`}, made while the program was freeing its memory before it exited`,
  ].filter(Boolean);
  return `${count(l.moments.length)} of ${count(tracks.moments.length)} dumps are compared. Left out: ${why.join('; and ')}. So the last dump here, at ${clock(last - tracks.start)}, need not be the end of the recording.`;
}

const keyOf = (r: Row) => r.path.join('\u001f') || '*';

function RowPair({ r, l, tracks, apart }: { r: Row; l: Leaks; tracks: Tracks; apart: number }) {
  const v = VERDICTS[r.verdict] ?? { glyph: '·', tone: 'calm', means: 'fewer than four dumps' };
  const on = place.value.open === keyOf(r);
  const judged = l.moments.length >= 4;
  return (
    <>
      <tr class={`${rough(r) ? 'few' : ''} ${on ? 'on' : ''}`} key={keyOf(r)}>
        <td>
          <button
            type="button"
            class={`verdict ${v.tone}`}
            aria-expanded={on}
            title={v.means}
            onClick={() => go({ open: on ? '' : keyOf(r) }, true)}>
            <i aria-hidden="true">{v.glyph}</i>
            {r.verdict}
          </button>
        </td>
        <td class="num" title={judged ? `between ${rate(r.slope_low)} and ${rate(r.slope_high)}` : ''}>
          {judged ? rate(r.slope) : '–'}
        </td>
        <td class="num wide">{change(r.grown)}</td>
        <td class="num" title={`${exact(r.space)} B`}>
          {rough(r) ? '≈ ' : ''}
          {bytes(r.space)}
          <span class="pm">{error(r.error, r.space)}</span>
        </td>
        <td class="num wide">{percent(r.freed_ratio, 1)}</td>
        <td class="num wide">{count(r.samples)}</td>
        <td>
          <Spark values={r.history} tone={v.tone} />
        </td>
        <td class="site">
          <Site r={r} tracks={tracks} apart={apart} />
        </td>
      </tr>
      {on && (
        <tr class="open">
          <td colSpan={8}>
            <Details r={r} l={l} tracks={tracks} />
          </td>
        </tr>
      )}
    </>
  );
}

const COLUMNS: Column[] = [
  'Verdict',
  ['Growth', 'num'],
  ['Since the first', 'num wide'],
  ['Live', 'num'],
  ['Freed', 'num wide', 'freed bytes of allocated bytes'],
  ['Samples', 'num wide', 'recorded allocations behind the live bytes'],
  'Trend',
  'Where',
];

/** Up and down lead from verdict to verdict. */
function onKey(e: KeyboardEvent): void {
  if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return;
  const list = [...(e.currentTarget as Element).querySelectorAll<HTMLElement>('.verdict')];
  const next = list[list.indexOf(document.activeElement as HTMLElement) + (e.key === 'ArrowDown' ? 1 : -1)];
  if (!next) return;
  e.preventDefault();
  next.focus();
}

function Figures({ l, tracks }: { l: Leaks; tracks: Tracks }) {
  const n = l.moments.length;
  const id = tracks.upid + 1;
  return (
    <div class="figures">
      <Figure
        label="Likely leaks"
        value={change(l.likely)}
        note={`${count(l.n_likely)} ${l.n_likely === 1 ? 'place' : 'places'}`}
        sql={sqlHref(
          `select sum(grown) as grown, count(*) as places\nfrom heapwise_leaks(${id})\nwhere verdict = 'likely leak'`,
        )}
      />
      <Figure
        label="Growth in all"
        value={change(l.grown)}
        note={`${n} dumps over ${duration(l.moments[n - 1] - l.moments[0])}`}
        sql={sqlHref(
          `select verdict, demangle(name) as name, map_name, slope, slope_low, slope_high, tau, p, grown, freed_ratio, space, space_error, samples, is_rest\nfrom heapwise_leaks(${id})`,
        )}
      />
      <Figure
        label="Live at the last dump"
        value={bytes(l.space)}
        note={certainty(l.error, l.space, l.interval)}
        sql={sqlHref(figureSql(tracks, { at: ns(l.moments[n - 1]) }, 'space'))}
      />
    </div>
  );
}

function Found({ l, tracks, onMore }: { l: Leaks; tracks: Tracks; onMore(): void }) {
  const n = l.moments.length;
  const out = leftOut(l, tracks);
  const apart = callersApart(l.rows.map((r) => r.path));
  return (
    <>
      <Figures l={l} tracks={tracks} />
      {out && <p class="statement left-out">{out}</p>}
      {n < 4 && (
        <p class="banner note" role="status">
          {n === 1 ? 'One dump' : `${n} dumps`}: growth takes two, a verdict four. Record with a dump every
          few seconds: <code>heapwise record -c 5s -- …</code>
        </p>
      )}
      <Scroll label="What grew">
        <table class="top leaks">
          <Head columns={COLUMNS} />
          <tbody onKeyDown={onKey}>
            {l.rows.map((r, i) => (
              <RowPair r={r} l={l} tracks={tracks} apart={apart[i]} />
            ))}
          </tbody>
        </table>
      </Scroll>
      {l.rows.length < l.n_rows && (
        <p>
          <button type="button" onClick={onMore}>
            {count(l.n_rows - l.rows.length)} more rows
          </button>
        </p>
      )}
      {l.rows.length === 0 && (
        <p class="empty">
          {l.suppressed_rows ? 'Every row is among the known ones.' : 'Nothing is live at the last dump.'}
        </p>
      )}
    </>
  );
}

export function LeaksPage({ tracks, all }: ProfileProps) {
  const p = place.value;
  const [limit, setLimit] = useState(100);
  const query = new URLSearchParams({
    upid: String(tracks.upid),
    limit: String(limit),
    ...(p.known ? { known: p.known } : {}),
    ...filtered(),
  }).toString();
  const answer = useAnswer(`leaks ${p.trace}?${query}`, () => question<Leaks>(p.trace, 'leaks', query));
  const l = answer.value;
  return (
    <div class="findings" aria-busy={answer.busy}>
      {all.processes.length > 1 && <SelectionBar tracks={tracks} all={all} />}
      <FilterBar problem={answer.error} always />
      {!l && answer.busy && <Busy what="Comparing dumps" />}
      {l && l.moments.length > 0 && <Found l={l} tracks={tracks} onMore={() => setLimit(limit + 400)} />}
      {l && l.moments.length === 0 && (
        <p class="empty">
          No dump of this process can be compared: growth takes at least two.
          <br />
          Record with <code>heapwise record -c 5s -- …</code>
        </p>
      )}
      <Known l={l} />
    </div>
  );
}
