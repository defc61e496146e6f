// Places in the details of a heap: keys of what stands above, and what is below each.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../app/server';
import { type InfraPlace, infraPlace } from './infra-api';

export const below = (root: string, key: string) => (root ? `${root}/${key}` : key);
export const above = (at: string) => at.slice(0, Math.max(0, at.lastIndexOf('/')));

/** What is below each of these places; those of the last question stay until the new ones are there. */
export function usePlaces(
  trace: number,
  question: string,
  wanted: string[],
): { places: Map<string, InfraPlace>; error: string; busy: boolean } {
  const kept = useRef(new Map<string, InfraPlace | null>());
  const shown = useRef({ places: new Map<string, InfraPlace>(), error: '' });
  const [, tick] = useState(0);
  const key = (at: string) => `${trace} ${question} ${at}`;
  const missing = wanted.filter((at) => !kept.current.has(key(at)));
  useEffect(() => {
    let current = true;
    if (!missing.length) return;
    let error = '';
    Promise.all(
      missing.map(async (at) => {
        try {
          kept.current.set(key(at), await infraPlace(trace, `${question}&place=${at}`));
        } catch (e) {
          if (e instanceof ApiError && e.code === 400 && at)
            kept.current.set(key(at), null); // not in this dump
          else error = (e as Error).message;
        }
      }),
    ).then(() => {
      shown.current.error = error;
      if (kept.current.size > 2000) kept.current.clear();
      if (current) tick((n) => n + 1);
    });
    return () => {
      current = false;
    };
  }, [trace, question, missing.join(' ')]);
  if (!missing.length) {
    const places = new Map<string, InfraPlace>();
    for (const at of wanted) {
      const x = kept.current.get(key(at));
      if (x) places.set(at, x);
    }
    shown.current.places = places;
  }
  return { ...shown.current, busy: missing.length > 0 && !shown.current.error };
}
