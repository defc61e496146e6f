// The answers that a saved page holds (src/server/api/saved/saved_page.h), found by what the page asks.
import { unpackGraph } from './graph-unpack';

type Kept = [key: string, kind: 'json' | 'graph', offset: number, bytes: number];
interface Process {
  upid: string;
  end: string;
  end_max: boolean;
  peak: string;
  peak_max: boolean;
}
export interface Index {
  version: string;
  processes: Process[];
  answers: Kept[];
  texts: string[];
  n_left_out: number;
}

export const NOT_HERE =
  'This file does not hold the answer to that. In the trace it is found: heapwise ui TRACE';

export async function unzip(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const out = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(out).arrayBuffer());
}

/** How something is looked at; not what is asked. What the file holds is the default of each. */
const LOOKS = ['limit', 'offset', 'sort', 'order', 'match', 'callers', 'min_share', 'stable', 'a_trace'];
const DEFAULTS: Record<string, string> = { metric: 'space', frames: 'site' };
const NEEDS_MOMENT = /^(flame|accounting|parts|table\/functions|diff|table\/diff)$/;
/** Questions about a whole trace. */
const WHOLE = /^(status|timeline|retained|threads|heap\/dumps)$/;

export class Answers {
  private readonly kept: Map<string, Kept>;

  constructor(
    readonly index: Index,
    private readonly bytes: Uint8Array<ArrayBuffer>,
  ) {
    this.kept = new Map(index.answers.map((a) => [a[0], a]));
  }

  /** Every moment by its time: the end and the peak have names, too. */
  private moment(q: URLSearchParams, prefix: string): void {
    const p = this.index.processes.find((x) => x.upid === q.get(`${prefix}upid`)) ?? this.index.processes[0];
    const [at, max] = [`${prefix}at`, `${prefix}max`];
    q.set(`${prefix}upid`, p.upid);
    const wish = q.get(at);
    if (wish && wish !== 'peak') return;
    q.set(at, wish ? p.peak : p.end);
    if (wish ? p.peak_max : p.end_max) q.set(max, '1');
    else q.delete(max);
  }

  keyOf(name: string, query: string): string {
    const q = new URLSearchParams(query);
    if (WHOLE.test(name)) return name;
    const moment = NEEDS_MOMENT.test(name);
    if (moment) this.moment(q, '');
    if (name.endsWith('diff')) this.moment(q, 'a_');
    if ((moment || name === 'functions-over-time') && !q.get('metric')) q.set('metric', DEFAULTS.metric);
    for (const k of LOOKS) q.delete(k);
    for (const [k, v] of [...q]) if (!v || (k === 'frames' && v === DEFAULTS.frames)) q.delete(k);
    return [name, ...[...q].sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, v]) => `${k}=${v}`)].join('\x1f');
  }

  /** null: the file does not have it. */
  async find(name: string, query: string): Promise<ArrayBuffer | string | null> {
    const a = this.kept.get(this.keyOf(name, query));
    if (!a) return null;
    const plain = await unzip(this.bytes.slice(a[2], a[2] + a[3]));
    if (a[1] === 'graph') return unpackGraph(plain, this.index.texts);
    return looked(name, new TextDecoder().decode(plain), new URLSearchParams(query));
  }
}

type Row = (string | number | boolean | null)[];
interface Table {
  rows: number;
  data: Row[];
}
const COLUMNS: Record<string, Record<string, (r: Row) => string | number>> = {
  'table/diff': {
    name: (r) => String(r[0]),
    a: (r) => Number(r[2]),
    b: (r) => Number(r[3]),
    change: (r) => Math.abs(Number(r[4])),
    percent: (r) => (Number(r[2]) > 0 ? Number(r[4]) / Number(r[2]) : Infinity),
  },
};

/** A table in the order that is wanted, and only what matches. Other answers are as they are. */
export function looked(name: string, json: string, q: URLSearchParams): string {
  const column = COLUMNS[name]?.[q.get('sort') ?? 'change'];
  const match = q.get('match')?.toLowerCase();
  const limit = Number(q.get('limit') ?? NaN);
  if (!name.startsWith('table/') || (!column && !match && Number.isNaN(limit))) return json;
  const t = JSON.parse(json) as Table;
  if (match) {
    t.data = t.data.filter((r) => String(r[0]).toLowerCase().includes(match));
    t.rows = t.data.length;
  }
  if (column) {
    const sign = q.get('order') === 'asc' ? 1 : -1;
    const of = (r: Row) => column(r);
    t.data.sort((x, y) => (of(x) < of(y) ? -sign : of(x) > of(y) ? sign : 0));
  }
  if (limit >= 0) t.data = t.data.slice(0, limit);
  return JSON.stringify(t);
}

/** The bytes of the file: "HWS1", the length of the index, the index, the answers. */
export async function readAnswers(base64: string): Promise<Answers> {
  const text = atob(base64.trim());
  const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
  if (!text.startsWith('HWS1')) throw new Error('this file holds no answers of heapwise');
  const n = new DataView(bytes.buffer).getUint32(4, true);
  const index = JSON.parse(new TextDecoder().decode(await unzip(bytes.slice(8, 8 + n)))) as Index;
  return new Answers(index, bytes.slice(8 + n));
}
