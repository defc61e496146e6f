// The selection as request parameters.
import { computed, signal } from '@preact/signals';
import { place } from './state';
import type { Place } from './url/place';

/** Bottom-up trees are an order of magnitude larger: what is below a ten-thousandth is merged. */
export const INVERTED = '&invert=1&min_share=0.0001';

/** An interval is being dragged: boxes keep their order. */
export const scrubbing = signal(false);

/** Filters and what they see, for questions that have no whole selection. */
export function filtered(): Record<string, string> {
  const p = place.value;
  return p.filters.length
    ? { filters: p.filters.join('\n'), ...(p.frames === 'all' ? { frames: 'all' } : {}) }
    : {};
}

/** The data of a graph or table at a place. */
export function selectionAt(p: Place): string {
  const q = new URLSearchParams();
  if (p.upid !== null) q.set('upid', String(p.upid));
  if (p.with) q.set('with', p.with);
  if (p.heap) q.set('heap', p.heap);
  if (p.at) q.set('at', p.at);
  if (p.max) q.set('max', '1');
  if (p.from) q.set('from', p.from);
  q.set('metric', p.metric);
  if (p.frames === 'all') q.set('frames', 'all');
  if (p.collapse) q.set('collapse', '1');
  if (p.filters.length) q.set('filters', p.filters.join('\n'));
  return q.toString();
}

export const selection = computed(() => selectionAt(place.value));
