// What the server tells of memory-infra's dumps (src/server/api/infra/pages_infra.c).
import { once, question } from '../app/answers';
import { ask } from '../app/server';
import { go, place } from '../app/state';
import { ns, readTimes } from '../app/times';

export interface InfraDump {
  ts: number;
  detail: 'detailed' | 'light' | 'background';
  heaps: boolean;
}
export interface InfraCell {
  now?: number;
  base?: number;
  heap: boolean;
  at?: number;
  source?: 'heap' | 'malloc_info';
}
export interface InfraRow {
  upid: number;
  pid: number;
  name: string;
  labels: string;
  cells: (InfraCell | null)[];
}
export interface InfraTable {
  ts: number;
  base: number | null;
  columns: { name: string; total: boolean }[];
  rows: InfraRow[];
}
export interface Part {
  kind: 'root' | 'frame' | 'type' | 'self' | 'other';
  label: string;
  key: string;
  size: number;
  count: number;
  size_before?: number;
  count_before?: number;
  folded?: number;
  more?: boolean;
}
export interface InfraPlace {
  path: Part[];
  rows: Part[];
  cut: number;
}
export interface InfraNode {
  path: string;
  size?: number;
  effective?: number;
  base?: number;
}
export interface Nodes {
  rows: InfraNode[];
}

export const infraDumps = (trace: number): Promise<InfraDump[]> =>
  once(`infra dumps ${trace}`, async () => {
    const text = await (await ask(`/api/v1/traces/${trace}/infra/dumps`)).text();
    readTimes(text);
    return JSON.parse(text).dumps;
  });
export const infraTable = (trace: number, query: string) => question<InfraTable>(trace, 'infra/table', query);
export const infraNodes = (trace: number, query: string) => question<Nodes>(trace, 'infra/nodes', query);
/** Callstacks that hold much, as diff_heap_profiler writes them. */
export const infraLarge = async (trace: number, query: string): Promise<Blob> =>
  (await ask(`/api/v1/traces/${trace}/infra/large?${query}`)).blob();
export const infraPlace = async (trace: number, query: string): Promise<InfraPlace> =>
  (await ask(`/api/v1/traces/${trace}/infra/details?${query}`)).json();

/** The dump a place names; none: the last one with heaps, as the server has it. */
export const dumpOf = (all: InfraDump[], ts: string): InfraDump | undefined =>
  ts ? all.find((d) => ns(d.ts) === ts) : ([...all].reverse().find((d) => d.heaps) ?? all[all.length - 1]);

/** Chosen; with Ctrl the one that the chosen one is compared with. */
export function pickDump(all: InfraDump[], d: InfraDump, compare: boolean): void {
  const p = place.peek();
  const now = dumpOf(all, p.dump);
  if (!compare || d === now)
    go({ page: 'memory-infra', dump: ns(d.ts), since: p.since === ns(d.ts) ? '' : p.since });
  else go({ page: 'memory-infra', dump: now ? ns(now.ts) : '', since: p.since === ns(d.ts) ? '' : ns(d.ts) });
}
