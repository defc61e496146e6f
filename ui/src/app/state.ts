// The current location: read by all components, changed only by `go`. The back and forward
// buttons step through it.
import { signal } from '@preact/signals';
import { takeToken } from './token';
import { changed, format, parse, type Place } from './url/place';

export const place = signal<Place>(parse(location.hash));

/** Browsers refuse to write the address more often than some 200 times in half a minute (Firefox: in ten
 * seconds), and each time costs them more than a step of a drag. */
const WRITES_MS = 250;
let written = -WRITES_MS;
let late = 0; // timer: the address is behind the place
let behind = ''; // the address then: with another one somebody else went on, and its event is to come

function write(): void {
  clearTimeout(late);
  late = 0;
  if (location.hash !== behind) return;
  written = performance.now();
  history.replaceState(null, '', format(place.peek()));
}

function arrived(): void {
  clearTimeout(late);
  late = 0;
  takeToken();
  place.value = parse(location.hash);
}
addEventListener('hashchange', arrived);
addEventListener('popstate', arrived);

/** Navigates; replace: without a history entry (typing, dragging). */
export function go(change: Partial<Place>, replace = false): void {
  const next = changed(place.peek(), change);
  const hash = format(next);
  if (hash === (late ? format(place.peek()) : location.hash)) {
    if (late && !replace) write(); // a drag came to its end
    return;
  }
  takeToken(); // its event may be still to come: the address would be written over
  if (late && !replace) write(); // where Back leads to
  if (!replace) history.pushState(null, '', hash);
  place.value = next;
  if (!late) behind = location.hash;
  const wait = written + WRITES_MS - performance.now();
  if (replace && wait <= 0) write();
  else if (replace) late ||= window.setTimeout(write, wait);
}

export const href = (change: Partial<Place>) => format(changed(place.value, change));
