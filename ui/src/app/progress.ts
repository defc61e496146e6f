// How much of a trace has been loaded.
import { bytes, percent } from './format';
import type { Trace } from './types';

/** In words. */
export function howFar(t: Trace): string {
  const read = t.read ?? 0;
  if (t.stage === 'naming') return 'names of its frames are looked up';
  if (t.stage === 'summing') return 'its dumps are added up';
  const speed = t.seconds > 0.2 && read ? `, ${bytes(read / t.seconds)}/s` : '';
  return t.bytes
    ? `${percent(Math.min(read, t.bytes), t.bytes)} read: ${bytes(read)} of ${bytes(t.bytes)}${speed}`
    : `being read, ${t.seconds.toFixed(0)} s`;
}
