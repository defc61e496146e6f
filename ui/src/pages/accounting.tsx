// Accounting: what the program asked for, what its allocator holds, what the kernel counts.
import { useState } from 'preact/hooks';
import { question } from '../app/answers';
import { bytes, certainty, clock, count, duration, error, exact, percent } from '../app/format';
import { selection } from '../app/selection';
import { href, place } from '../app/state';
import { ns } from '../app/times';
import type { Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import type { ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { figureSql, sqlHref } from '../parts/show-sql';
import { type Column, Head, Scroll } from '../parts/table';
import { Busy, Failed, Figure } from '../parts/words';
import { Chart } from '../timeline/chart';
import { Ruler } from '../timeline/ruler';
import { GUTTER } from '../timeline/view';
import { type Arenas, ArenaTable } from './accounting-arenas';
import { OwnersOverTime } from './accounting-parts';

type Step = { name: string; total: boolean; begin: number; end: number; bytes: number; at: number };
type Point = [ts: number, ...bytes: (number | null)[]];
interface Accounting {
  ts: number;
  steps: Step[];
  lines: string[];
  now: Record<string, { bytes: number; at: number }>;
  error: number | null;
  fragmentation: number | null;
  points: Point[];
  kinds: Record<string, [n: number, size: number, rss: number, swap: number]> | null;
  kinds_at?: number;
  notes: string[];
  account: Account | null;
  arenas?: Arenas | null; // pages that were saved before there were any have none
}

type Bytes = { rss: number; pss: number; swap: number };
type Entry = [name: string, rss: number, pss: number, swap: number, size: number, mappings: number];
type Part = Bytes & { name: string; what: string; entries: Entry[] };
interface Account extends Bytes {
  at: number;
  requested: number;
  untouched: number;
  page_tables: number | null;
  parts: Part[];
}

const STEPS: Record<string, [label: string, source: string, hint: string]> = {
  requested: ['Live in the profile', 'samples', 'what the program asked for and has not freed'],
  overhead: [
    'Headers, rounding, and what is not in the profile',
    '',
    'headers and rounding of every block; blocks made before profiling began, or by heaps that were not recorded. Less than nothing: the sampling error, or memory of another allocator',
  ],
  in_use: [
    'Allocator: in use',
    'malloc_info',
    'all blocks it has given out; small ones in thread caches count as given out',
  ],
  caches: ['Free lists, top padding', '', 'free memory that the allocator keeps'],
  mapped: ['Allocator: mapped', 'malloc_info', 'what it got from the kernel'],
  untouched: [
    'Never touched or swapped out; less: other anonymous memory',
    '',
    'mapped pages that were never written to are not resident; stacks and mappings of the program are resident but not the allocator’s',
  ],
  anonymous: [
    'Anonymous memory, resident',
    'kernel',
    'heap, large blocks, stacks: memory without a file behind it',
  ],
  rest: ['Code, files, shared memory', '', 'programs and libraries, mapped files, shared memory'],
  resident: ['Process, resident', 'kernel', 'what top shows as RES'],
  gap: ['In between: the trace has no figures', '', 'record with --malloc-info and --smaps to split this'],
};

const KINDS: Record<string, string> = {
  heap: 'Heap (brk)',
  anonymous: 'Anonymous: large blocks, arenas, thread stacks',
  stack: 'Main stack',
  files: 'Programs, libraries, files',
  shared: 'Shared memory',
  profiler: 'The profiler’s own buffers',
  other: 'Other',
};

const NOTES: Record<string, string> = {
  not_returned:
    'Freed memory is not returned to the system: what lives is flat, what the allocator has mapped grows. Look at fragmentation and at short-lived allocations between long-lived ones.',
  outside:
    'The growth is outside the heap: what the allocator has in use is flat, resident memory grows. Look at mapped files, stacks, shared memory and memory that the program maps itself.',
  untouched:
    'Less is resident than the allocator has mapped: part of it was never touched, or is swapped out.',
};

const LINES: [line: string, label: string, colour: string][] = [
  ['resident', 'Resident', '--blue'],
  ['mapped', 'Allocator: mapped', '--violet'],
  ['in_use', 'Allocator: in use', '--green'],
  ['requested', 'Live in the profile', '--accent'],
];

/** What a step is called, by its sign, and by what else is shown. */
function stepWords(s: Step, a: Accounting, label: string): string {
  if (s.name === 'gap' && a.account) return 'In between: by owner, in the next table';
  if (s.name === 'untouched') return s.bytes < 0 ? 'Never touched, or swapped out' : 'Other anonymous memory';
  return s.name === 'overhead' && s.bytes < 0 ? 'Read at another time, or the sampling error' : label;
}

function StepRow({ s, a, start, most }: { s: Step; a: Accounting; start: number; most: number }) {
  const [label, source, hint] = STEPS[s.name] ?? [s.name, '', ''];
  const words = stepWords(s, a, label);
  const away = s.at - a.ts;
  const when = Math.abs(away) > 1e7 ? ` (${duration(Math.abs(away))} ${away > 0 ? 'later' : 'earlier'})` : '';
  const low = Math.min(s.begin, s.end);
  return (
    <tr class={s.total ? 'total' : ''} title={hint}>
      <td>{s.total ? <b>{words}</b> : <span class="step">{words}</span>}</td>
      <td class="num" title={`${exact(s.bytes)} B`}>
        {s.total ? '' : s.bytes < 0 ? '' : '+'}
        {bytes(s.bytes)}
        <span class="pm">{s.name === 'requested' ? error(a.error, s.bytes) : ''}</span>
      </td>
      <td>
        <span class="fall">
          {s.end !== s.begin && (
            <i
              class={s.total ? `of-${s.name}` : s.bytes < 0 ? 'less' : 'more'}
              style={{
                left: `${(100 * low) / most}%`,
                width: `${(100 * Math.abs(s.end - s.begin)) / most}%`,
              }}
            />
          )}
        </span>
      </td>
      <td class="wide dim">
        {source}
        {source && s.name !== 'requested' ? ` at ${clock(s.at - start)}${when}` : ''}
      </td>
    </tr>
  );
}

function Waterfall({ a, start }: { a: Accounting; start: number }) {
  const most = Math.max(1, ...a.steps.flatMap((s) => [s.begin, s.end]));
  return (
    <table class="top waterfall">
      <thead>
        <tr>
          <th scope="col">Step</th>
          <th scope="col" class="num">
            Bytes
          </th>
          <th scope="col">
            <span class="sr">Bar</span>
          </th>
          <th scope="col" class="wide">
            Source
          </th>
        </tr>
      </thead>
      <tbody>
        {a.steps.map((s) => (
          <StepRow s={s} a={a} start={start} most={most} />
        ))}
      </tbody>
    </table>
  );
}

const has = (a: Accounting, line: string) => a.now[line] !== undefined;

function Figures({ a, tracks }: { a: Accounting; tracks: Tracks }) {
  const p = place.value;
  const { requested, in_use, mapped, resident, swapped } = a.now;
  const steps = sqlHref(`select * from heapwise_accounting(${tracks.upid + 1}, ${ns(a.ts)})`);
  const shows = (part: { bytes: number }) => `the profile shows ${percent(requested.bytes, part.bytes)}`;
  return (
    <div class="figures">
      <Figure
        label="Live in the profile"
        value={bytes(requested.bytes)}
        note={certainty(a.error, requested.bytes, tracks.interval)}
        to={href({ page: 'flame', metric: 'space' })}
        sql={sqlHref(figureSql(tracks, { at: p.at, max: p.max }, 'space'))}
      />
      {in_use && (
        <Figure label="Allocator: in use" sql={steps} value={bytes(in_use.bytes)} note={shows(in_use)} />
      )}
      {a.fragmentation !== null && (
        <Figure
          label="Kept free by the allocator"
          sql={steps}
          value={bytes(mapped.bytes - in_use.bytes)}
          note={`${percent(a.fragmentation, 1)} of what it has mapped`}
        />
      )}
      {resident && (
        <Figure label="Resident" sql={steps} value={bytes(resident.bytes)} note={shows(resident)} />
      )}
      {swapped && swapped.bytes > 0 && <Figure label="Swapped out" value={bytes(swapped.bytes)} />}
    </div>
  );
}

function OverTime({ a, tracks, shown }: { a: Accounting; tracks: Tracks; shown: typeof LINES }) {
  const column = (line: string) => a.lines.indexOf(line) + 1;
  const lines = shown.map(([line, label, colour]) => ({
    label,
    colour,
    step: false,
    points: a.points
      .filter((x) => x[column(line)] !== null)
      .map((x) => [x[0], x[column(line)]] as [number, number]),
  }));
  const first = a.points[0]?.[0] ?? 0;
  const view = { from: first, to: Math.max(a.points[a.points.length - 1]?.[0] ?? 1, first + 1e6) };
  return (
    <section>
      <h2>Over time</h2>
      <div class="over">
        <Ruler view={view} zero={tracks.start} />
        <div class="track" style={{ gridTemplateColumns: `${GUTTER}px minmax(0, 1fr)` }}>
          <ul class="legend column">
            {shown.map(([, label, colour]) => (
              <li>
                <i style={{ background: `var(${colour})` }} />
                {label}
              </li>
            ))}
          </ul>
          <Chart
            lines={lines}
            view={view}
            height={180}
            label={`Over time: ${lines.map((l) => `${l.label} ends at ${bytes(l.points[l.points.length - 1]?.[1] ?? 0)}`).join(', ')}`}
          />
        </div>
      </div>
      <details>
        <summary>As a table</summary>
        <Scroll label="Lines over time">
          <table class="top">
            <Head columns={['Time', ...shown.map(([, label]): Column => [label, 'num'])]} />
            <tbody>
              {a.points.map((x) => (
                <tr>
                  <td>{clock(x[0] - tracks.start)}</td>
                  {shown.map(([line]) => (
                    <td class="num">{x[column(line)] === null ? '–' : bytes(x[column(line)]!)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </details>
    </section>
  );
}

function Mappings({ kinds, at }: { kinds: NonNullable<Accounting['kinds']>; at: number }) {
  return (
    <section>
      <h2>
        Mappings <span class="dim">at {clock(at)}</span>
      </h2>
      <Scroll label="Mappings by kind">
        <table class="top kinds">
          <Head
            columns={['Kind', ['Mappings', 'num'], ['Size', 'num'], ['Resident', 'num'], ['Swapped', 'num']]}
          />
          <tbody>
            {Object.entries(kinds)
              .filter(([, k]) => k[0] > 0)
              .map(([name, [n, size, rss, swap]]) => (
                <tr>
                  <td>{KINDS[name] ?? name}</td>
                  <td class="num">{count(n)}</td>
                  <td class="num">{bytes(size)}</td>
                  <td class="num">{bytes(rss)}</td>
                  <td class="num">{bytes(swap)}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function PartRow({ part, of, open, toggle }: { part: Part; of: Account; open: boolean; toggle: () => void }) {
  const share = (v: number) => `${(100 * Math.max(0, v)) / Math.max(1, of.rss)}%`;
  const swapped = of.swap > 0;
  return (
    <>
      <tr class={part.name === 'unexplained' ? 'total' : ''} title={part.what}>
        <td>
          {part.entries.length > 0 ? (
            <button type="button" class="plain" aria-expanded={open} onClick={toggle}>
              {part.name}
            </button>
          ) : (
            part.name
          )}
        </td>
        <td class="num" title={`${exact(part.rss)} B`}>
          {bytes(part.rss)}
        </td>
        <td>
          <span class="fall">
            {part.rss > 0 && <i class="more" style={{ left: '0%', width: share(part.rss) }} />}
          </span>
        </td>
        <td class="num">{bytes(part.pss)}</td>
        {swapped && <td class="num">{bytes(part.swap)}</td>}
        <td class="wide dim">{part.what}</td>
      </tr>
      {open &&
        part.entries.map(([name, rss, pss, swap, , n]) => (
          <tr class="mapping">
            <td>
              <span class="step">{name}</span>
            </td>
            <td class="num">{bytes(rss)}</td>
            <td />
            <td class="num">{bytes(pss)}</td>
            {swapped && <td class="num">{bytes(swap)}</td>}
            <td class="wide dim">{n > 1 ? `${count(n)} mappings` : ''}</td>
          </tr>
        ))}
    </>
  );
}

const shownPart = (p: Part) => p.name === 'unexplained' || p.rss !== 0 || p.swap !== 0;

function Owners({ account, tracks }: { account: Account; tracks: Tracks }) {
  const [open, setOpen] = useState<string | null>(null);
  const columns: Column[] = ['Whose', ['Resident', 'num'], 'Share', ['Proportional', 'num']];
  if (account.swap > 0) columns.push(['Swapped', 'num']);
  return (
    <section>
      <h2>
        All memory, by owner{' '}
        <span class="dim">
          {bytes(account.rss)} resident at {clock(account.at - tracks.start)}
        </span>
      </h2>
      <Scroll label="All memory, by owner">
        <table class="top owners">
          <Head columns={[...columns, 'What it is']} />
          <tbody>
            {account.parts.filter(shownPart).map((part) => (
              <PartRow
                part={part}
                of={account}
                open={open === part.name}
                toggle={() => setOpen(open === part.name ? null : part.name)}
              />
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="dim">
        Live: {bytes(account.requested)} requested
        {account.untouched >= 1024 && `, ${bytes(account.untouched)} of it never written to`}.
        {account.page_tables !== null && ` Not resident: page tables ${bytes(account.page_tables)}.`}
      </p>
    </section>
  );
}

const SEES: [memory: string, profile: boolean, malloc_info: boolean, resident: boolean][] = [
  ['allocated while it was profiled', true, true, true],
  ['allocated before profiling began', false, true, true],
  ['headers and rounding', false, true, true],
  ['thread caches', false, true, true],
  ['fragmentation', false, false, true],
  ['allocated, never touched', true, true, false],
  ['swapped out', true, true, false],
];

function Sources() {
  return (
    <section>
      <h2>What each source sees</h2>
      <Scroll label="What each source sees">
        <table class="top sees">
          <Head columns={['Memory', 'Profile', 'malloc_info', 'Resident']} />
          <tbody>
            {SEES.map(([what, ...sees]) => (
              <tr>
                <td>{what}</td>
                {sees.map((s) => (
                  <td>
                    {s ? '✓' : <span class="dim">–</span>}
                    <span class="sr">{s ? 'yes' : 'no'}</span>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

const freeOf = (account: Account) =>
  account.parts.find((part) => part.name === 'free inside the allocator')?.rss ?? 0;

const NothingElse = () => (
  <div class="empty">
    <p>
      The trace has no figures of the allocator or the kernel, so there is nothing to compare the profile
      with.
    </p>
    <p>
      Record with <code>heapwise record --malloc-info 1s --smaps 5s -- …</code>
    </p>
  </div>
);

export function AccountingPage({ tracks, all }: ProfileProps) {
  const p = place.value;
  const query = new URLSearchParams(selection.value);
  query.delete('filters');
  query.set('upid', String(tracks.upid));
  const text = query.toString();
  const answer = useAnswer(`accounting ${p.trace}?${text}`, () =>
    question<Accounting>(p.trace, 'accounting', text),
  );
  const a = answer.value;
  if (!a)
    return (
      <>
        <SelectionBar tracks={tracks} all={all} />
        {answer.error ? <Failed text={answer.error} /> : <Busy what="Adding up" />}
      </>
    );
  const shown = LINES.filter(([line]) => has(a, line));
  const alone = shown.length === 1;
  return (
    <div class="findings" aria-busy={answer.busy}>
      <SelectionBar tracks={tracks} all={all} />
      {answer.error && <Failed text={answer.error} />}
      <Figures a={a} tracks={tracks} />
      {a.notes.map((n) => (
        <p class="banner note" role="status">
          {NOTES[n] ?? n}
        </p>
      ))}
      {alone ? (
        <NothingElse />
      ) : (
        <Scroll label="Steps">
          <Waterfall a={a} start={tracks.start} />
        </Scroll>
      )}
      {a.account && <Owners account={a.account} tracks={tracks} />}
      {a.arenas && <ArenaTable arenas={a.arenas} tracks={tracks} />}
      {a.account && <OwnersOverTime tracks={tracks} query={text} free={freeOf(a.account)} />}
      {!alone && a.points.length > 1 && <OverTime a={a} tracks={tracks} shown={shown} />}
      {a.kinds && <Mappings kinds={a.kinds} at={a.kinds_at! - tracks.start} />}
      <Sources />
    </div>
  );
}
