// The current location: read by all components, changed only by `go`. The back and forward
// buttons step through it.
import { signal } from '@preact/signals';
import { takeToken } from './token';
import { changed, format, parse, type Place } from './url/place';

export const place = signal<Place>(parse(location.hash));
function arrived(): void {
  takeToken();
  place.value = parse(location.hash);
}
addEventListener('hashchange', arrived);
addEventListener('popstate', arrived);

/** Navigates; replace: without a history entry (typing, dragging). */
export function go(change: Partial<Place>, replace = false): void {
  const next = changed(place.peek(), change);
  const hash = format(next);
  if (hash === location.hash) return;
  takeToken(); // its event may be still to come: the address would be written over
  if (replace) history.replaceState(null, '', hash);
  else history.pushState(null, '', hash);
  place.value = next;
}

export const href = (change: Partial<Place>) => format(changed(place.value, change));
