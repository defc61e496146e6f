// The token comes behind the '#' of the printed address, also in a tab that is open already, and leaves the
// address at once. It is no part of the state: it stays in this tab.
import { signal } from '@preact/signals';

export const token = signal(sessionStorage.getItem('token') ?? '');
const tokenIn = (url: string) => /#token=([\w-]+)/.exec(url)?.[1];
export function takeToken(): void {
  const here = tokenIn(location.hash);
  if (!here) return;
  history.replaceState(null, '', location.pathname);
  keepToken(here);
}
function keepToken(text: string): void {
  sessionStorage.setItem('token', text);
  token.value = text;
}
// The address may have changed before this script came.
const first = tokenIn(performance.getEntriesByType('navigation')[0]?.name ?? '');
if (first) keepToken(first);
takeToken();
