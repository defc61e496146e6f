// Loading answers of the server: the old one stays on screen while the next is made.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, returns } from '../app/server';

export interface Answer<T> {
  value: T | null;
  error: string;
  busy: boolean;
}

/** What came, and to which question. */
interface Came<T> {
  value: T | null;
  error: string;
  to: string;
}
const nothing = { value: null, error: '', to: '' };
export const why = (e: Error) => (e instanceof ApiError ? e.message : 'The server gave no answer.');

/** Another question is busy from the first drawing on: what is shown never passes for its answer. */
const shown = <T>({ value, error, to }: Came<T>, asked: string): Answer<T> =>
  to === asked ? { value, error, busy: false } : { value, error: '', busy: true };

/** Asks again when key changes; the old answer stays on screen meanwhile. */
export function useAnswer<T>(key: string, make: () => Promise<T>): Answer<T> {
  const [a, set] = useState<Came<T>>(nothing);
  const [round, again] = useState(0);
  const asked = `${round} ${key}`;
  useEffect(() => {
    if (a.error) again((n) => n + 1);
  }, [returns.value]);
  useEffect(() => {
    let current = true;
    make().then(
      (value) => current && set({ value, error: '', to: asked }),
      (e: Error) => current && set({ value: null, error: why(e), to: asked }),
    );
    return () => {
      current = false;
    };
  }, [asked]);
  return shown(a, asked);
}

/** As useAnswer, one question at a time: what comes is shown, and then the newest is asked. A dragged
 * handle asks faster than the server answers; else nothing would be seen before it rests. */
export function useFollowing<T>(key: string, make: () => Promise<T>): Answer<T> {
  const [a, set] = useState<Came<T>>(nothing);
  const running = useRef(false);
  const asked = `${returns.value} ${key}`;
  const newest = useRef({ asked, make });
  newest.current = { asked, make };
  const there = useRef(true);
  const start = () => {
    const to = newest.current.asked;
    running.current = true;
    const next = () => {
      running.current = false;
      if (there.current && newest.current.asked !== to) start();
    };
    newest.current.make().then(
      (value) => {
        if (there.current) set({ value, error: '', to });
        next();
      },
      (e: Error) => {
        if (there.current && e.name !== 'AbortError') set({ value: null, error: why(e), to });
        next();
      },
    );
  };
  useEffect(() => {
    if (!running.current) start();
  }, [asked]);
  useEffect(() => {
    there.current = true;
    return () => {
      there.current = false;
    };
  }, []);
  return shown(a, asked);
}
