// What the server prepares for an interval whose ends may be dragged (pages.md: `stable=1`) takes it a
// second for a trace of a GB. So it is asked for as soon as an interval stands, not by the first move.
import { ask } from '../app/server';

/** An order that no selection changes; what is too small to see is left out. */
export const STABLE = '&stable=1&min_share=0.0005';
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
