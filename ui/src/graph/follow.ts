// The graph follows a dragged handle, one question at a time. The place moves with the graph that came, so
// that all that is said of a moment is of the graph that is drawn, and a step is drawn once. Where the hand
// is meanwhile only the timeline shows. The next question is on its way before the answer is drawn.
import { batch, signal } from '@preact/signals';
import { scrubbing, selectionAt } from '../app/selection';
import { ask } from '../app/server';
import { go, place } from '../app/state';
import { changed, type Place } from '../app/url/place';
import { why } from '../parts/answer';
import type { Graph } from './graph';
import { freshFlame } from './graphs';

/** An order that no selection changes; what is too small to see is left out. */
export const STABLE = '&stable=1&min_share=0.0005';

export const hasPivot = (p: Place) => p.filters.some((f) => /^!?P:/.test(f));
export const groupOf = (p: Place) => p.group || (p.with ? 'process' : '');

/** The graph of the last step; null: there was no drag, or the graph at rest is there. */
export const followed = signal<{ graph: Graph | null; error: string } | null>(null);

let wanted: Partial<Place> | null = null;
let isAsking = false;
let drags = 0; // that came to an end

/** As a place in a drag asks for its graph. */
function queryAt(p: Place): string {
  const group = groupOf(p);
  return selectionAt(p) + (group ? `&group=${group}` : '') + STABLE;
}

async function step(change: Partial<Place>): Promise<void> {
  const drag = drags;
  const to = changed(place.peek(), change);
  const query = queryAt(to);
  isAsking = true;
  const came = await freshFlame(to.trace, query).then(
    (graph) => ({ graph, error: '' }),
    (e: Error) => ({ graph: null, error: why(e) }),
  );
  isAsking = false;
  const now = changed(place.peek(), change);
  const isSame = now.trace === to.trace && queryAt(now) === query; // a key may have changed the metric
  if (drag === drags && !isSame) wanted ??= change;
  next();
  if (drag !== drags || !isSame) return;
  batch(() => {
    go(change, true);
    followed.value = came;
  });
}

function next(): void {
  if (!wanted || isAsking) return;
  const change = wanted;
  wanted = null;
  void step(change);
}

/** The handle is held, and moved here. */
export function follow(change: Partial<Place>): void {
  scrubbing.value = true;
  wanted = change;
  next();
}

/** It was let go. */
export function rest(change: Partial<Place>): void {
  wanted = null;
  drags++;
  batch(() => {
    scrubbing.value = false;
    go(change);
  });
}

// What the server prepares for an interval whose ends may be dragged (pages.md: `stable=1`) takes it a
// second for a trace of a GB. So it is asked for as soon as an interval stands, not by the first move.

const LASTS_MS = 50_000; // the server drops what nobody used for a minute
let warm = { key: '', until: 0 };
let stop = new AbortController();

/** The server keeps one for each selection but its times and metric. */
function keyOf(trace: number, query: string): string {
  const q = new URLSearchParams(query);
  for (const moves of ['at', 'from', 'metric']) q.delete(moves);
  return `${trace}?${q}`;
}

/** Only what has such a form at the server: one process, no pivot, no filter on heaps. */
export const canScrub = (query: string): boolean => {
  const q = new URLSearchParams(query);
  return (
    q.has('from') &&
    !['with', 'group', 'max', 'invert'].some((x) => q.has(x)) &&
    !/^!?(P|H):/m.test(q.get('filters') ?? '')
  );
};

export function warmUp(trace: number, query: string): void {
  const key = keyOf(trace, query);
  if (!canScrub(query) || (warm.key === key && Date.now() < warm.until)) return;
  stop.abort(); // another selection: nobody will drag the one before
  stop = new AbortController();
  warm = { key, until: Date.now() + LASTS_MS };
  ask(`/api/v1/traces/${trace}/flame?${query}${STABLE}`, { signal: stop.signal })
    .then((r) => r.arrayBuffer())
    .catch(() => {
      if (warm.key === key) warm = { key: '', until: 0 }; // the first move asks again
    });
}
