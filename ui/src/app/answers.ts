// Requests about a trace.
import { ask } from './server';
import { readTimes } from './times';
import type { Functions, Results, Timeline } from './types';

const kept = new Map<string, Promise<unknown>>();
const KEEP = 24;

/** Responses about a loaded trace never change, so the latest are cached. */
export function once<T>(key: string, make: () => Promise<T>): Promise<T> {
  let p = kept.get(key) as Promise<T> | undefined;
  if (p) kept.delete(key);
  else {
    p = make();
    p.catch(() => kept.delete(key));
  }
  kept.set(key, p);
  if (kept.size > KEEP) kept.delete(kept.keys().next().value!);
  return p;
}

export const timeline = (trace: number): Promise<Timeline> =>
  once(`timeline ${trace}`, async () => {
    const text = await (await ask(`/api/v1/traces/${trace}/timeline`)).text();
    readTimes(text);
    return JSON.parse(text);
  });

export type Kept = { upid: number; heap: string; dumps: [ts: number, bytes: number][] }[];
/** Of what was allocated in an interval, the least that was live at its end. */
export const retained = (trace: number): Promise<Kept> =>
  once(`retained ${trace}`, async () => (await ask(`/api/v1/traces/${trace}/retained`)).json());

export const functions = (trace: number, query: string): Promise<Functions> =>
  once(`functions ${trace}?${query}`, async () =>
    (await ask(`/api/v1/traces/${trace}/table/functions?${query}`)).json(),
  );

/** Any other request about a trace, answered in JSON. */
export const question = <T>(trace: number, name: string, query: string): Promise<T> =>
  once(`${name} ${trace}?${query}`, async () =>
    (await ask(`/api/v1/traces/${trace}/${name}?${query}`)).json(),
  );

/** SQL. The signal also cancels it on the server. */
export const query = async (
  trace: number,
  sql: string,
  limit = 10_000,
  signal?: AbortSignal,
): Promise<Results> =>
  (await ask(`/api/v1/query?trace=${trace}&limit=${limit}`, { method: 'POST', body: sql, signal })).json();
