// What tracks say of a process: its curve, its dumps, counters, and what happened to it. Pure.
import { clock, isUnknown, safe } from '../app/format';
import type { Dump, Tracks } from '../app/types';
import type { Line } from './chart';
import type { View } from './view';

const FLAGS: [number, string][] = [
  [2, 'rejected'],
  [4, 'disconnected'],
  [8, 'buffer overran'],
  [16, 'buffer corrupted'],
  [32, 'hit a limit'],
  [64, 'at maximum'],
  [128, 'checkpoint'],
];
export const LOSSY = 8 | 16 | 32;
export const flagWords = (flags: number) =>
  FLAGS.filter(([bit]) => flags & bit)
    .map(([, word]) => word)
    .join(', ');

/** Made once for each object: who draws it sees that it is the same. */
function oncePer<K extends object, V>(make: (of: K) => V): (of: K) => V {
  const made = new WeakMap<K, V>();
  return (of) => {
    if (!made.has(of)) made.set(of, make(of));
    return made.get(of)!;
  };
}

export const liveLine = oncePer((t: Tracks): Line => ({
  label: 'live heap',
  colour: '--accent',
  step: true,
  points: t.moments.map((m) => [m.ts, m.space] as [number, number]),
}));
/** Of the band around a line: none where the error is unknown. */
export const width = (err: number | null): number => (err === null || isUnknown(err) ? 0 : err);
export const liveBand = oncePer((t: Tracks) =>
  t.moments.map((m) => ({ ts: m.ts, value: m.space, error: width(m.error) })),
);

/** A counter; of the allocator with its blocks of their own mmap, as the accounting has it. */
export function counter(t: Pick<Tracks, 'counters'>, name: string): [number, number][] {
  if (name === 'swapped too') return swapped(t);
  const own = t.counters[name] ?? [];
  const more = name.startsWith('malloc_info.') ? new Map(t.counters['malloc_info.mmap']) : null;
  return more?.size ? own.map(([ts, v]) => [ts, v + (more.get(ts) ?? 0)]) : own;
}

/** Swap on top of what is resident: an area above the other. Both are read at the same time. */
function swapped(t: Pick<Tracks, 'counters'>): [number, number][] {
  const swap = t.counters['mem.swap'] ?? [];
  if (!swap.some((x) => x[1] > 0)) return [];
  const resident = new Map(t.counters['mem.rss']);
  return swap.filter(([ts]) => resident.has(ts)).map(([ts, v]) => [ts, v + resident.get(ts)!]);
}

/** The most that was resident; without counters, the most that was live. */
export const size = (t: Tracks): number =>
  Math.max(
    0,
    ...(t.counters['mem.rss']?.length
      ? t.counters['mem.rss'].map((x) => x[1])
      : [t.peak?.space ?? 0, ...t.moments.map((m) => m.space)]),
  );

/** Whether the profile has everything from the process's first allocation on. */
export function since(t: Tracks): string {
  const first = t.heaps
    .flatMap((h) => h.dumps)
    .reduce((a: Dump | null, d) => (!a || d.start < a.start ? d : a), null);
  if (!first) return '';
  if (first.flags & 1) return 'from start';
  const late = t.began > 0 && first.start > t.began ? first.start - t.began : 0;
  return `attached${late ? ` +${late < 60e9 ? `${(late / 1e9).toFixed(1)} s` : clock(late)}` : ''}`;
}

export const COUNTERS: { label: string; lines: [name: string, label: string, colour: string][] }[] = [
  {
    label: 'Resident',
    lines: [
      ['swapped too', 'with what is swapped', '--violet'],
      ['mem.rss', 'resident', '--blue'],
      ['mem.smaps.pss', 'proportional', '--green'],
    ],
  },
  {
    label: 'Allocator',
    lines: [
      ['malloc_info.arena', 'mapped', '--blue'],
      ['malloc_info.in_use', 'in use', '--green'],
    ],
  },
];

export interface Mark {
  dumps: Dump[];
  x: number;
}

/** Dumps nearer than this are one diamond with a count: on a phone it is met by a finger. */
const apart = (width: number) => (width < 400 ? 22 : 10);

export function marksOf(dumps: Dump[], view: View, width: number): Mark[] {
  const out: Mark[] = [];
  for (const d of dumps) {
    const x = (d.ts - view.from) / (view.to - view.from);
    if (x < 0 || x > 1) continue;
    const last = out[out.length - 1];
    if (last && (x - last.x) * width < apart(width)) last.dumps.push(d);
    else out.push({ dumps: [d], x });
  }
  return out;
}

/** Snaps a time to the nearest moment of the process. */
export function snap(t: Tracks, ts: number): number {
  let best = t.start;
  for (const m of t.moments) if (Math.abs(m.ts - ts) < Math.abs(best - ts)) best = m.ts;
  return best;
}

export interface Event {
  ts: number;
  words: string;
  bad?: boolean;
}

/** Moments that are no dump by the clock: beginnings, dumps that something asked for, losses, the end. */
export function events(t: Tracks): Event[] {
  const out: Event[] = [
    {
      ts: t.start,
      words:
        since(t) === 'from start'
          ? 'the program started, and its profile'
          : `the profile begins: ${since(t)}`,
    },
  ];
  const said = new Set<string>();
  const say = (ts: number, words: string, bad = false) => {
    if (!said.has(`${ts} ${words}`)) out.push({ ts, words, bad });
    said.add(`${ts} ${words}`);
  };
  for (const d of t.heaps.flatMap((h) => h.dumps)) {
    if (d.trigger && !/^(continuous|final|exit|peak|checkpoint)$/.test(d.trigger))
      say(d.ts, `dump: ${safe(d.trigger)}`);
    const lost = flagWords(d.flags & (LOSSY | 2));
    if (lost) say(d.ts, lost, true);
    if (d.lost) say(d.ts, `${d.lost} samples lost before this dump`, true);
    if (d.trigger === 'exit') say(d.ts, 'the process ended');
  }
  return out.sort((a, b) => a.ts - b.ts);
}

/** Counters that the trace has, with the lines that are not all 0. */
export const countersOf = (t: Pick<Tracks, 'counters'>) =>
  COUNTERS.map((c) => ({
    ...c,
    lines: c.lines.filter(([name]) => counter(t, name).some((x) => x[1] > 0)),
  })).filter((c) => c.lines.length);
