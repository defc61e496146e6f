// Per-user data, synchronized with the server.
import { ask } from './server';
import { keeper, takeKept } from './store';
import { token } from './token';

const unsent = new Map<string, number>();
keeper.sendNow = async (key, text) => {
  clearTimeout(unsent.get(key));
  unsent.delete(key);
  if (token.peek()) await ask(`/api/v1/kept?key=${key}`, { method: 'POST', body: text }).catch(() => {}); // only convenience
};
keeper.send = (key, text) => {
  clearTimeout(unsent.get(key)); // typing: the last is enough
  unsent.set(
    key,
    setTimeout(() => void keeper.sendNow(key, text), 300),
  );
};

/** What the user kept, before anything is drawn: a page that began without would write over it. A server that
 * hangs is not waited for. */
export async function loadKept(): Promise<void> {
  if (!token.peek()) return;
  try {
    const r = await fetch('/api/v1/kept', {
      headers: { Authorization: `Bearer ${token.peek()}` },
      signal: AbortSignal.timeout(20_000),
    });
    if (r.ok) takeKept(await r.text());
  } catch {
    /* the page works without */
  }
}
