// The token comes behind the '#' of the printed address, also in a tab that is open already, and leaves the
// address at once. It is no part of the state: it stays in this tab.
import { signal } from '@preact/signals';

/** A file that was saved, in a frame without rights, has no storage. */
function storage(): Storage | null {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}
export const token = signal(storage()?.getItem('token') ?? '');
const tokenIn = (url: string) => /#token=([\w-]+)/.exec(url)?.[1];
export function takeToken(): void {
  const here = tokenIn(location.hash);
  if (!here) return;
  history.replaceState(null, '', location.pathname);
  keepToken(here);
}
function keepToken(text: string): void {
  storage()?.setItem('token', text);
  token.value = text;
}
// The address may have changed before this script came.
const first = tokenIn(performance.getEntriesByType('navigation')[0]?.name ?? '');
if (first) keepToken(first);
takeToken();
