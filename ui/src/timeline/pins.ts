// Tracks that stay on top: in the address as "process.track", or "process" for all of its tracks.
import { go, place } from '../app/state';

const list = () => place.value.pins.split(',').filter(Boolean);

export const hasPins = () => place.value.pins !== '';
export const isPinned = (upid: number, track = '') => {
  const pins = list();
  return pins.includes(String(upid)) || (track !== '' && pins.includes(`${upid}.${track}`));
};

/** Pins a track or all of a process, or lets it go; `all`: the tracks of the process. */
export function togglePin(upid: number, all: string[], track = ''): void {
  const others = list().filter((x) => x !== String(upid) && !x.startsWith(`${upid}.`));
  const mine = all.filter((x) => isPinned(upid, x));
  const next = track === '' ? [] : mine.includes(track) ? mine.filter((x) => x !== track) : [...mine, track];
  const whole = track === '' ? !isPinned(upid) : next.length === all.length;
  go({ pins: [...others, ...(whole ? [String(upid)] : next.map((x) => `${upid}.${x}`))].join(',') });
}

/** Processes with a pinned track, in the order in which they were pinned. */
export const pinnedProcesses = (): number[] => [...new Set(list().map((x) => Number.parseInt(x, 10)))];
