// Questions to the server. Every one carries the token; nothing else leaves the page.
import { effect, signal, untracked } from '@preact/signals';
import { decode, type Graph } from '../graph/graph';
import type { Metric } from './format';
import { fresh, go, place, token } from './state';
import { keeper, takeKept } from './store';
import { readTimes } from './times';

export interface Process { upid: number; pid: number; name: string; cmdline: string }
export interface Loss { kind: string; upid: number; count: number; detail: string; incomplete: boolean }
export interface Trace {
  id: number; name: string; path: string | null; bytes: number; state: 'loading' | 'ready' | 'failed'; seconds: number; error?: string; head?: string;
  /** While it is loading: bytes of the file that were read, and what is done now. */
  read?: number; stage?: 'reading' | 'naming' | 'summing';
  /** Bytes of names that were found for it and that its file does not have. */
  found?: number;
  first_ns?: number; last_ns?: number; dumps?: number; heap_graphs?: number; memory_dumps?: number; slices?: number; n_processes?: number; processes?: Process[]; losses?: Loss[];
}
export interface Status { version: string; traces: Trace[]; records: boolean; fleet: string }
export interface Target { pid: number; name: string; state: string; samples: number; dumps: number; buffer?: number; buffered?: number; rss: number }
export interface Recording {
  id: number; state: 'running' | 'stopping' | 'done' | 'empty' | 'failed' | 'discarded'; command: string; target: string;
  launched: boolean; program: number; program_runs: boolean; elapsed_ms: number; duration_ms: number; interval: number; shmem: number;
  bytes: number; samples: number; lost: number; dumps: number; marks: number; file: string | null; trace: number;
  error: string | null; code: string | null; remedy: string | null; warnings: string[]; targets: Target[];
}
export type Figures = Record<Metric, number> & { error: number; errors: [number, number, number, number]; samples: number; alloc_samples: number };
export interface Moment extends Figures { ts: number; max: boolean; peak?: boolean; for_peak?: boolean }
export interface Dump extends Figures {
  ts: number; start: number; flags: number; trigger: string; interval: number; lost: number;
}
export interface Tracks {
  upid: number; pid: number; name: string; uid: number; began: number; start: number; ended: boolean; cleaned_up: boolean; interval: number;
  n_dumps: number; // those that were asked for; moments may hold more
  moments: Moment[]; peak?: Moment; heaps: { heap: string; summed: boolean; lives: boolean; dumps: Dump[] }[]; // summed: in figures of the process
  program?: string; // its own module as pages show it: the path, or what it was started as
  program_file?: string; // the path
  counters: Record<string, [number, number][]>;
  parts?: Tracks[]; // several processes as one (together.ts)
}
/** A moment that was named while it was recorded. */
export interface Named { ts: number; name: string }
/** A process without a native heap profile. */
export interface Other { upid: number; pid: number; name: string; counters: Record<string, [number, number][]> }
export interface Timeline { first_ns: number; last_ns: number; marks: Named[]; processes: Tracks[]; others: Other[] }
export type FunctionRow = [name: string, module: string, self: number, total: number, count: number, error: number, samples: number, selfError: number, selfSamples: number, selfCount: number, callers: [name: string, share: number][]];
export interface Functions { rows: number; total: number; data: FunctionRow[] }

export const status = signal<Status | null>(null);
/** What this server records or has recorded, oldest first. */
export const recordings = signal<Recording[]>([]);
/** '' = fine; otherwise why the server cannot be asked. */
/** What the address named and what is shown, when that is another trace. */
export const strayed = signal<{ wanted: number; shown: number } | null>(null);
export const trouble = signal('');

export class ApiError extends Error {
  constructor(readonly code: number, text: string) {
    super(text);
  }
}

const STATUS = '/api/v1/status';

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  let r: Response;
  try {
    r = await fetch(path, { ...init, headers: { Authorization: `Bearer ${token.peek()}` } });
  } catch (e) {
    if ((e as Error).name !== 'AbortError') lost();
    throw e;
  }
  // An order may be forbidden, too: whether it is the token says the question that is always allowed.
  if (r.status === 403 && path === STATUS) trouble.value = 'token';
  else if (r.status === 403) refresh().catch(() => {}); // `trouble` tells
  if (!r.ok) throw new ApiError(r.status, (await r.text()).trim());
  return r;
}

const kept = new Map<string, Promise<unknown>>();
const KEEP = 24;

/** An answer about a frozen trace never changes, so the last ones are kept. */
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

let lastGraph = { key: '', promise: null as Promise<Graph> | null, stop: new AbortController() };

/** Graphs are large: only the last one is kept here. */
export function flame(trace: number, query: string): Promise<Graph> {
  const key = `${trace}?${query}`;
  if (lastGraph.key !== key || !lastGraph.promise) {
    const stop = new AbortController();
    const promise = ask(`/api/v1/traces/${trace}/flame?${query}`, { signal: stop.signal }).then(async (r) => decode(await r.arrayBuffer()));
    promise.catch(() => lastGraph.promise === promise && (lastGraph.promise = null));
    lastGraph = { key, promise, stop };
  }
  return lastGraph.promise!;
}

/** Another graph is wanted: one that is still being made is given up, here and at the server. Those that
 *  follow a dragged handle come to an end: they are quick, and each is a frame. */
export function abandon(trace: number, query: string): void {
  if (lastGraph.promise && lastGraph.key !== `${trace}?${query}` && !lastGraph.key.includes('&stable=1')) lastGraph.stop.abort();
}

export const smallFlame = (trace: number, query: string): Promise<Graph> =>
  once(`flame ${trace}?${query}`, async () => decode(await (await ask(`/api/v1/traces/${trace}/flame?${query}`)).arrayBuffer()));

export const timeline = (trace: number): Promise<Timeline> =>
  once(`timeline ${trace}`, async () => {
    const text = await (await ask(`/api/v1/traces/${trace}/timeline`)).text();
    readTimes(text);
    return JSON.parse(text);
  });

export type Kept = { upid: number; heap: string; dumps: [ts: number, bytes: number][] }[];
/** Of what came in an interval, the least that lived at its end. */
export const retained = (trace: number): Promise<Kept> =>
  once(`retained ${trace}`, async () => (await ask(`/api/v1/traces/${trace}/retained`)).json());

export const functions = (trace: number, query: string): Promise<Functions> =>
  once(`functions ${trace}?${query}`, async () => (await ask(`/api/v1/traces/${trace}/table/functions?${query}`)).json());

/** Any other question about a trace, answered in JSON. */
export const question = <T>(trace: number, name: string, query: string): Promise<T> =>
  once(`${name} ${trace}?${query}`, async () => (await ask(`/api/v1/traces/${trace}/${name}?${query}`)).json());

export interface Result { columns: string[]; rows: (string | number | null)[][]; truncated: boolean }
export interface Results { results: Result[]; error: string | null; ms: number }

/** SQL. It ends at the server when the signal says so. */
export const query = async (trace: number, sql: string, limit = 10_000, signal?: AbortSignal): Promise<Results> =>
  (await ask(`/api/v1/query?trace=${trace}&limit=${limit}`, { method: 'POST', body: sql, signal })).json();

export async function openPath(path: string): Promise<number> {
  return (await (await ask(`/api/v1/traces?path=${encodeURIComponent(path)}`, { method: 'POST' })).json()).id;
}

export async function openFile(file: File): Promise<number> {
  return (await (await ask(`/api/v1/traces?name=${encodeURIComponent(file.name)}`, { method: 'POST', body: file })).json()).id;
}

export async function download(format: string, trace: number, query: string): Promise<void> {
  const r = await ask(`/api/v1/export/${format}?trace=${trace}&${query}`);
  const name = /filename="([^"]+)"/.exec(r.headers.get('Content-Disposition') ?? '')?.[1] ?? `heap.${format}`;
  save(await r.blob(), name);
}

export function save(blob: Blob, name: string): void {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}

const unsent = new Map<string, number>();
keeper.sendNow = async (key, text) => {
  clearTimeout(unsent.get(key));
  unsent.delete(key);
  if (token.peek()) await ask(`/api/v1/kept?key=${key}`, { method: 'POST', body: text }).catch(() => {}); // only convenience
};
keeper.send = (key, text) => {
  clearTimeout(unsent.get(key)); // typing: the last is enough
  unsent.set(key, setTimeout(() => void keeper.sendNow(key, text), 300));
};

/** What the user kept, before anything is drawn; a server that is slow with it is not waited for. */
export async function loadKept(): Promise<void> {
  if (!token.peek()) return;
  try {
    const r = await fetch('/api/v1/kept', { headers: { Authorization: `Bearer ${token.peek()}` }, signal: AbortSignal.timeout(1000) });
    if (r.ok) takeKept(await r.text());
  } catch {
    /* the page works without */
  }
}

export const closeTrace = (id: number): Promise<unknown> => ask(`/api/v1/traces/${id}`, { method: 'DELETE' });

export async function refresh(): Promise<void> {
  status.value = await (await ask(STATUS)).json();
}

/** Counts how often the server came back: what it could not answer is asked again. */
export const returns = signal(0);
/** When it is asked again; 0 = it answers. */
export const nextTry = signal(0);

let wait = 0;
let timer = 0;
let events: EventSource | null = null;

function alive(): void {
  if (wait) returns.value++;
  wait = 0;
  nextTry.value = 0;
  if (trouble.peek() === 'gone') trouble.value = '';
}

/** Asks at once, and then ever more rarely. */
export function connect(): void {
  clearTimeout(timer);
  timer = 0;
  events?.close();
  refresh().then(alive, () => {}); // `trouble` tells
  const mine = (events = new EventSource(`/api/v1/events?token=${token.peek()}`));
  mine.addEventListener('status', (e) => {
    alive();
    status.value = JSON.parse((e as MessageEvent<string>).data);
  });
  mine.addEventListener('loading', (e) => {
    alive();
    const told = JSON.parse((e as MessageEvent<string>).data) as Partial<Trace>[];
    const old = status.peek();
    if (old) status.value = { ...old, traces: old.traces.map((t) => (t.state === 'loading' ? { ...t, ...told.find((n) => n.id === t.id) } : t)) };
  });
  mine.addEventListener('recordings', (e) => {
    alive();
    recordings.value = JSON.parse((e as MessageEvent<string>).data);
  });
  mine.onerror = () => mine === events && lost();
}

/** Nothing comes any more: asks again after 1, 2, 4 … 30 seconds. */
function lost(): void {
  if (timer || trouble.peek() === 'token') return;
  events?.close();
  trouble.value = 'gone';
  wait = Math.min(30, wait ? wait * 2 : 1);
  nextTry.value = Date.now() + 1000 * wait;
  timer = setTimeout(connect, 1000 * wait);
}

/** Follows the server: what is open, and whether it is still there. */
export function follow(): void {
  effect(() => {
    if (!token.value) {
      trouble.value = 'token';
      return;
    }
    untracked(() => {
      if (trouble.value === 'token') trouble.value = '';
      wait = 1; // what a wrong token could not ask is asked again
      connect();
    });
  });
  // Someone who comes without a page sees the first trace.
  effect(() => {
    const s = status.value;
    const p = place.value;
    const first = s?.traces.find((t) => t.id === p.trace) ?? s?.traces[0];
    const entry = first?.state === 'ready' && !first.processes?.length && first.heap_graphs ? 'heap' : 'overview';
    if (s && s.traces.length && p.page === '' && first?.state !== 'loading') go({ page: entry, trace: p.trace || s.traces[0].id, filters: p.filters.length ? p.filters : fresh.filters }, true);
    else if (s && s.traces.length && !s.traces.some((t) => t.id === p.trace)) {
      if (p.trace && p.page !== 'home') strayed.value = { wanted: p.trace, shown: s.traces[0].id };
      go({ trace: s.traces[0].id }, true);
    }
  });
}
