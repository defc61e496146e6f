// What a comparison's base is, as text in the URL: side B is the selection itself.
import { status } from './server';
import { go, place } from './state';
import { ns } from './times';
import type { Tracks } from './types';
import type { Place } from './url/place';

export interface Side {
  trace: number;
  upid: number | null;
  heap: string;
  at: string;
  max: boolean;
  from: string;
}

export const written = (s: Side): string => {
  const q = new URLSearchParams({ trace: String(s.trace) });
  if (s.upid !== null) q.set('upid', String(s.upid));
  if (s.heap) q.set('heap', s.heap);
  if (s.at) q.set('at', s.at);
  if (s.max) q.set('max', '1');
  if (s.from) q.set('from', s.from);
  return q.toString();
};

function read(text: string): Side {
  const q = new URLSearchParams(text);
  const upid = q.get('upid');
  return {
    trace: Number(q.get('trace')) || 0,
    upid: upid !== null && /^\d+$/.test(upid) ? Number(upid) : null,
    heap: q.get('heap') ?? '',
    at: q.get('at') ?? '',
    max: q.get('max') === '1',
    from: q.get('from') ?? '',
  };
}

export const now = (p: Place): Side => ({
  trace: p.trace,
  upid: p.upid,
  heap: p.heap,
  at: p.at,
  max: p.max,
  from: p.from,
});
export const asPlace = (s: Side): Partial<Place> => ({
  trace: s.trace,
  upid: s.upid,
  heap: s.heap,
  at: s.at,
  max: s.max,
  from: s.from,
});

/** The base that the URL names, else the first dump, else the end of another trace. */
export function baseOf(p: Place, tracks: Tracks): Side {
  if (p.base) {
    const s = read(p.base);
    if (status.value?.traces.some((t) => t.id === s.trace)) return s;
  }
  const other = status.value?.traces.find(
    (t) => t.id !== p.trace && t.state === 'ready' && t.processes?.length,
  );
  const first = tracks.moments.find((m) => !m.for_peak) ?? tracks.moments[0];
  if (tracks.moments.length < 2 && other)
    return { trace: other.id, upid: null, heap: '', at: '', max: false, from: '' };
  return {
    trace: p.trace,
    upid: tracks.upid,
    heap: p.heap,
    at: first ? ns(first.ts) : '',
    max: first?.max ?? false,
    from: '',
  };
}

/** A diamond clicked with Ctrl: it is compared with what is selected. */
export function compareWith(tracks: Tracks, heap: string, ts: number, max: boolean): void {
  const p = place.peek();
  const side: Side = { trace: p.trace, upid: tracks.upid, heap, at: ns(ts), max, from: '' };
  const earlier = p.at === '' || p.at === 'peak' || Number(p.at) >= ts;
  if (earlier) go({ page: 'diff', base: written(side), zoom: '' });
  else go({ page: 'diff', base: written(now(p)), ...asPlace(side), zoom: '' });
}
