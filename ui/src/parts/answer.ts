// Loading answers of the server: the old one stays on screen while the next is made.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, returns } from '../app/server';

export interface Answer<T> {
  value: T | null;
  error: string;
  busy: boolean;
}

/** Asks again when key changes; the old answer stays on screen meanwhile. */
export function useAnswer<T>(key: string, make: () => Promise<T>): Answer<T> {
  const [a, set] = useState<Answer<T>>({ value: null, error: '', busy: true });
  const [round, again] = useState(0);
  useEffect(() => {
    if (a.error) again((n) => n + 1);
  }, [returns.value]);
  useEffect(() => {
    let current = true;
    set((old) => ({ ...old, busy: true, error: '' }));
    make().then(
      (value) => current && set({ value, error: '', busy: false }),
      (e: Error) =>
        current &&
        set({
          value: null,
          error: e instanceof ApiError ? e.message : 'The server gave no answer.',
          busy: false,
        }),
    );
    return () => {
      current = false;
    };
  }, [key, round]);
  return a;
}

/** As useAnswer, one question at a time: what comes is shown, and then the newest is asked. A dragged
 * handle asks faster than the server answers; else nothing would be seen before it rests. */
export function useFollowing<T>(key: string, make: () => Promise<T>): Answer<T> {
  const [a, set] = useState<Answer<T>>({ value: null, error: '', busy: true });
  const running = useRef(false);
  const newest = useRef({ key, make });
  newest.current = { key, make };
  const there = useRef(true);
  const start = () => {
    const asked = newest.current.key;
    running.current = true;
    const next = () => {
      running.current = false;
      if (there.current && newest.current.key !== asked) start();
    };
    const busy = () => newest.current.key !== asked;
    newest.current.make().then(
      (value) => {
        if (there.current) set({ value, error: '', busy: busy() });
        next();
      },
      (e: Error) => {
        if (there.current && e.name !== 'AbortError')
          set({
            value: null,
            error: e instanceof ApiError ? e.message : 'The server gave no answer.',
            busy: busy(),
          });
        next();
      },
    );
  };
  const round = returns.value;
  useEffect(() => {
    set((old) => ({ ...old, busy: true, error: '' }));
    if (!running.current) start();
  }, [key, round]);
  useEffect(() => {
    there.current = true;
    return () => {
      there.current = false;
    };
  }, []);
  return a;
}
