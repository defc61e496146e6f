// Questions about dumps of managed heaps. The server works a large one out in the background: until
// it is there, it says how far it is.
import { signal } from '@preact/signals';
import { once } from '../app/answers';
import { ask } from '../app/server';
import { href, place } from '../app/state';
import { ns, readTimes } from '../app/times';
import { decode, type Graph } from '../graph/graph';

export interface Sum {
  count: number;
  size: number;
  native: number;
}
export interface HeapDump {
  upid: number;
  pid: number;
  name: string;
  cmdline: string;
  ts: number;
  objects: number;
  described: number;
  references: number;
  classes: number;
  first_object: number;
  truncated: boolean;
  reason: string;
  heap_size: number;
  profile: boolean;
  strings: boolean;
  arrays: boolean;
  oome: { allocation: number; free: number; until: number; message: string } | null;
}
export interface HeapDumps {
  dumps: HeapDump[];
  errors: { name: string; pid: number; count: number }[];
}
export interface HeapGroup {
  name: string;
  own: Sum;
  retained: Sum;
}
export interface HeapOverview {
  all: Sum;
  reachable: Sum;
  unreachable: Sum;
  heaps: HeapGroup[];
  roots: HeapGroup[];
  shared: Sum;
}

export type HeapMetric = 'object_size' | 'object_count' | 'dominated_size' | 'dominated_count';
export const HEAP_METRICS: { id: HeapMetric; label: string; hint: string }[] = [
  {
    id: 'object_size',
    label: 'Object size',
    hint: 'bytes of the objects, each once, on its shortest path from a root',
  },
  { id: 'object_count', label: 'Object count', hint: 'objects, each once, on its shortest path from a root' },
  {
    id: 'dominated_size',
    label: 'Dominated size',
    hint: 'bytes that would go with an object: the tree of dominators',
  },
  {
    id: 'dominated_count',
    label: 'Dominated count',
    hint: 'objects that would go with an object: the tree of dominators',
  },
];
export const isSize = (m: HeapMetric) => m.endsWith('size');

/** What the server works on, while it does. */
export const working = signal<{ working: string; done: number; parts: number } | null>(null);

async function patient(path: string): Promise<Response> {
  for (;;) {
    const r = await ask(path);
    if (r.status !== 202) {
      working.value = null;
      return r;
    }
    working.value = await r.json();
    await new Promise((ok) => setTimeout(ok, 150));
  }
}

/** The dump as the server's parameters. */
export const where = (d: HeapDump, prefix = '') => ({
  [`${prefix}upid`]: String(d.upid),
  [`${prefix}at`]: ns(d.ts),
});
export const params = (p: Record<string, string | number | undefined>) =>
  new URLSearchParams(
    Object.entries(p)
      .filter(([, v]) => v !== undefined && v !== '')
      .map(([k, v]) => [k, String(v)]),
  ).toString();

export const heapQuestion = <T>(trace: number, name: string, query: string): Promise<T> =>
  once(`heap/${name} ${trace}?${query}`, async () => {
    const text = await (await patient(`/api/v1/traces/${trace}/heap/${name}?${query}`)).text();
    readTimes(text);
    return JSON.parse(text) as T;
  });

export const heapFlame = (trace: number, name: string, query: string): Promise<Graph> =>
  once(`heap/${name} ${trace}?${query}`, async () =>
    decode(await (await patient(`/api/v1/traces/${trace}/heap/${name}?${query}`)).arrayBuffer()),
  );

/** The dump that the URL names: its own, else the last one of the process with most objects. */
export function dumpOf(all: HeapDump[]): HeapDump | null {
  const p = place.value;
  const mine =
    p.upid !== null && all.some((d) => d.upid === p.upid) ? all.filter((d) => d.upid === p.upid) : null;
  const largest = all.reduce<HeapDump | null>((a, b) => (!a || b.objects > a.objects ? b : a), null);
  const list = mine ?? all.filter((d) => d.upid === largest?.upid);
  return list.find((d) => ns(d.ts) === p.graph) ?? list[list.length - 1] ?? null;
}

/** An object has a tab of its own, which stays until it is closed. */
export const objectTabs = () => (place.value.objs ? place.value.objs.split(',') : []);
export const toObject = (id: number) => ({
  page: 'heap',
  tab: `o${id}`,
  objs: [...new Set([...objectTabs(), String(id)])].slice(-12).join(','),
  cut: '',
});
export const objectHref = (id: number) => href(toObject(id));
export const classHref = (name: string) => href({ page: 'heap', tab: 'objects', cls: name, only: '' });
