// Graphs, as the server makes them of what is selected.
import { once } from '../app/answers';
import { ask } from '../app/server';
import { decode, type Graph } from './graph';

let lastGraph = { key: '', promise: null as Promise<Graph> | null, stop: new AbortController() };

export const freshFlame = (trace: number, query: string, init: RequestInit = {}): Promise<Graph> =>
  ask(`/api/v1/traces/${trace}/flame?${query}`, init).then(async (r) => decode(await r.arrayBuffer()));

/** Graphs are large: only the last one is kept here. */
export function flame(trace: number, query: string): Promise<Graph> {
  const key = `${trace}?${query}`;
  if (lastGraph.key !== key || !lastGraph.promise) {
    const stop = new AbortController();
    const promise = freshFlame(trace, query, { signal: stop.signal });
    promise.catch(() => lastGraph.promise === promise && (lastGraph.promise = null));
    lastGraph = { key, promise, stop };
  }
  return lastGraph.promise!;
}

/** Another graph is wanted: one that is still being made is given up, here and at the server. */
export function abandon(trace: number, query: string): void {
  if (lastGraph.promise && lastGraph.key !== `${trace}?${query}`) lastGraph.stop.abort();
}

export const smallFlame = (trace: number, query: string): Promise<Graph> =>
  once(`flame ${trace}?${query}`, () => freshFlame(trace, query));
