// Redirects an address without a page, or with a trace that is not open, to a valid one.
import { effect, signal } from '@preact/signals';
import { status } from './server';
import { go, place } from './state';
import type { Trace } from './types';
import { defaultFilters } from './url/place';

/** The trace in the address and the one shown, if they differ. */
export const strayed = signal<{ wanted: number; shown: number; page: string } | null>(null);

/** A trace without a native profile begins with its managed heap. */
const entryOf = (t: Trace | undefined) =>
  t?.state === 'ready' && !t.processes?.length && t.heap_graphs ? 'heap' : 'overview';

export function followEntry(): void {
  effect(() => {
    const traces = status.value?.traces ?? [];
    const p = place.value;
    if (!traces.length) return;
    const first = traces.find((t) => t.id === p.trace) ?? traces[0];
    if (p.page === '' && first.state !== 'loading')
      go(
        {
          page: entryOf(first),
          trace: p.trace || traces[0].id,
          filters: p.filters.length ? p.filters : defaultFilters(),
        },
        true,
      );
    else if (!traces.some((t) => t.id === p.trace)) {
      if (p.trace && p.page !== 'home')
        strayed.value = { wanted: p.trace, shown: traces[0].id, page: p.page };
      go({ trace: traces[0].id }, true);
    }
  });
}
