// Polls while the page is visible, each time after the previous response: a slow server is
// not asked faster than it answers.
import { useEffect, useState } from 'preact/hooks';
import { ask } from './server';

export interface Polled<T> {
  value: T | null;
  error: string;
}

/** key: asks at once when it changes. */
export function usePolled<T>(path: string, every_ms: number, key: unknown = ''): Polled<T> {
  const [state, set] = useState<Polled<T>>({ value: null, error: '' });
  useEffect(() => {
    let current = true;
    let timer = 0;
    const next = () => {
      timer = window.setTimeout(() => (document.visibilityState === 'visible' ? go() : next()), every_ms);
    };
    const go = () => {
      ask(path)
        .then((r) => r.json() as Promise<T>)
        .then(
          (value) => current && set({ value, error: '' }),
          (e: Error) =>
            current && set((old) => ({ ...old, error: e.message || 'The server gave no answer.' })),
        )
        .finally(() => current && next());
    };
    go();
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [path, every_ms, key]);
  return state;
}
