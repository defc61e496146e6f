// Several processes viewed as one: their sum, moment by moment.
import { place } from './state';
import type { Figures, Moment, Timeline, Tracks } from './types';

/** Processes of the URL's selection, the first one first. */
export function chosen(all: Timeline): Tracks[] {
  const p = place.value;
  const first = all.processes.find((x) => x.upid === p.upid) ?? all.processes[0];
  const more = p.with.split(',').filter(Boolean).map(Number);
  return first ? [first, ...all.processes.filter((x) => x !== first && more.includes(x.upid))] : [];
}

const TEMPORARY_IDS = ['temporary_space', 'temporary_objects'] as const;
const METRICS = ['space', 'objects', 'alloc_space', 'alloc_objects'] as const;

/** Sums add variances. */
const ofBoth = (a: number | null, b: number | null) =>
  a === null || b === null ? Infinity : Math.hypot(a, b);

function add(to: Figures, m: Figures): void {
  for (const k of METRICS) to[k] += m[k];
  for (const k of TEMPORARY_IDS) if (m[k] !== undefined) to[k] = (to[k] ?? 0) + m[k];
  to.samples += m.samples;
  to.alloc_samples += m.alloc_samples;
  to.error = ofBoth(to.error, m.error);
  to.errors = to.errors.map((e, i) => ofBoth(e, m.errors[i])) as Figures['errors'];
}

/** Between its dumps a process holds what it held at the last; before its first, nothing. */
function moments(parts: Tracks[]): Moment[] {
  const times = [...new Set(parts.flatMap((t) => t.moments.filter((m) => !m.max).map((m) => m.ts)))].sort(
    (a, b) => a - b,
  );
  const next = parts.map(() => 0);
  return times.map((ts) => {
    const sum: Moment = {
      ts,
      max: false,
      space: 0,
      objects: 0,
      alloc_space: 0,
      alloc_objects: 0,
      error: 0,
      errors: [0, 0, 0, 0],
      samples: 0,
      alloc_samples: 0,
    };
    parts.forEach((t, i) => {
      while (next[i] < t.moments.length && t.moments[next[i]].ts <= ts) next[i]++;
      if (next[i] > 0) add(sum, t.moments[next[i] - 1]);
    });
    return sum;
  });
}

let last = { parts: [] as Tracks[], sum: null as Tracks | null };

/** What pages see in place of one process. The server adds up the same way (pages_select.c). */
export function together(parts: Tracks[]): Tracks {
  if (last.sum && parts.length === last.parts.length && parts.every((t, i) => t === last.parts[i]))
    return last.sum;
  const all = parts.flatMap((t) => t.heaps);
  const heaps = [...new Set(all.map((h) => h.heap))];
  const sum: Tracks = {
    ...parts[0],
    name: parts.map((t) => t.name).join(', '),
    program: parts.every((t) => t.program === parts[0].program) ? parts[0].program : undefined,
    parts,
    peak: undefined,
    moments: moments(parts),
    n_dumps: parts.reduce((n, t) => n + t.n_dumps, 0),
    start: Math.min(...parts.map((t) => t.start)),
    interval: Math.max(...parts.map((t) => t.interval)),
    heaps: heaps.map((heap) => ({ ...all.find((h) => h.heap === heap)!, dumps: [] })),
  };
  last = { parts, sum };
  return sum;
}
