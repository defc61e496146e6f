// What is kept of a user's own things between visits: by the server, since the browser's own store goes by
// port, which is another one each time; and by the browser, for a server that keeps nothing. Any of it
// may be missing or foreign.

export function remembered<T>(key: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(`heapwise.${key}`);
    const v = text === null ? otherwise : JSON.parse(text);
    return Array.isArray(v) === Array.isArray(otherwise) && typeof v === typeof otherwise ? v : otherwise;
  } catch {
    return otherwise;
  }
}

/** Sends a thing to the server, soon or at once ('' takes it away); api.ts knows how. */
export const keeper = {
  send: (() => {}) as (key: string, text: string) => void,
  sendNow: (async () => {}) as (key: string, text: string) => Promise<void>,
};

/** Everything, here and there. */
export async function forgetAll(): Promise<void> {
  const keys = Object.keys(localStorage).filter((k) => k.startsWith('heapwise.'));
  for (const key of keys) localStorage.removeItem(key);
  await Promise.all(keys.map((key) => keeper.sendNow(key.slice('heapwise.'.length), '')));
}

export function remember(key: string, value: unknown): void {
  const text = JSON.stringify(value);
  try {
    localStorage.setItem(`heapwise.${key}`, text);
  } catch {
    /* full or forbidden: it is only convenience */
  }
  keeper.send(key, text);
}

/** Lines "key TAB JSON", as the server keeps them. */
export function takeKept(lines: string): void {
  for (const line of lines.split('\n')) {
    const tab = line.indexOf('\t');
    if (tab <= 0) continue;
    try {
      JSON.parse(line.slice(tab + 1));
      localStorage.setItem(`heapwise.${line.slice(0, tab)}`, line.slice(tab + 1));
    } catch {
      /* foreign text */
    }
  }
}
