// What is looked at: the trace, the process or several as one, and its name.
import { timeline } from '../app/answers';
import { base, safe } from '../app/format';
import { status } from '../app/server';
import { place } from '../app/state';
import { chosen, together } from '../app/together';
import type { Timeline, Trace, Tracks } from '../app/types';
import { type Answer, useAnswer } from './answer';

export const currentTrace = (): Trace | null =>
  status.value?.traces.find((t) => t.id === place.value.trace) ?? null;

export function useTimeline(): Answer<Timeline> {
  const id = place.value.trace;
  return useAnswer(`timeline ${id}`, () => timeline(id));
}

/** The process that is looked at: the URL's, or the one that allocated most; sum: several as one. */
export function tracksOf(t: Timeline | null, sum = false): Tracks | null {
  const parts = t ? chosen(t) : [];
  return sum && parts.length > 1 ? together(parts) : (parts[0] ?? null);
}
/** What is shown when no heap is chosen: unlike heaps are never added up. */
export const heapsWord = (t: Tracks): string => {
  const summed = t.heaps.filter((h) => h.summed);
  return summed.length === t.heaps.length
    ? 'all heaps'
    : summed.length === 1
      ? safe(summed[0].heap)
      : 'all native heaps';
};

/** The name of what is looked at. */
export const nameOfTracks = (t: Tracks): string => {
  const one = (x: Tracks) => `${safe(base(x.name)) || '?'} (${x.pid})`;
  return t.parts
    ? `${t.parts.length} processes: ${t.parts.slice(0, 3).map(one).join(', ')}${t.parts.length > 3 ? ' …' : ''}`
    : one(t);
};

/** What pages about a native heap profile get. */
export interface ProfileProps {
  tracks: Tracks;
  all: Timeline;
  trace: Trace;
}
