// The answers that a saved page holds (src/server/api/saved/saved_page.h), found by what the page asks, and
// those that are made of them.
import { base } from '../app/format';
import { decode, type Graph } from '../graph/graph';
import { compare, comparedBytes, type Compared, figuresOf, rowsOf, type Side } from './compared';
import { unpackGraph } from './graph-unpack';
import { flameOf, MADE_BY } from './made';
import { patternOf, type Program } from './narrow';
import { NotWhole } from './stacks';

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
/** What the timeline says of a process. */
interface Known {
  upid: number;
  pid: number;
  name: string;
  start: number;
  program?: string;
  program_file?: string;
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
    if (!p) return;
    const [at, max] = [`${prefix}at`, `${prefix}max`];
    q.set(`${prefix}upid`, p.upid);
    const wish = q.get(at);
    if (wish && wish !== 'peak') return;
    q.set(at, wish ? p.peak : p.end);
    if (wish ? p.peak_max : p.end_max) q.set(max, '1');
    else q.delete(max);
  }

  /** The question without what is a default, with its moments by their times. */
  private asked(name: string, query: string | URLSearchParams): URLSearchParams {
    const q = new URLSearchParams(query);
    const moment = NEEDS_MOMENT.test(name);
    if (moment) this.moment(q, '');
    if (name.endsWith('diff')) this.moment(q, 'a_');
    if ((moment || name === 'functions-over-time') && !q.get('metric')) q.set('metric', DEFAULTS.metric);
    for (const [k, v] of [...q]) if (!v || (k === 'frames' && v === DEFAULTS.frames)) q.delete(k);
    return q;
  }

  keyOf(name: string, query: string | URLSearchParams): string {
    if (WHOLE.test(name)) return name;
    const q = this.asked(name, query);
    for (const k of LOOKS) q.delete(k);
    return [name, ...[...q].sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, v]) => `${k}=${v}`)].join('\x1f');
  }

  private async plain([, , offset, n]: Kept): Promise<Uint8Array> {
    return unzip(this.bytes.slice(offset, offset + n));
  }

  private async graph(q: URLSearchParams): Promise<Graph | null> {
    const a = this.kept.get(this.keyOf('flame', q));
    return a ? decode(unpackGraph(await this.plain(a), this.index.texts)) : null;
  }

  private async known(upid: string | null): Promise<Known | null> {
    const a = this.kept.get('timeline');
    if (!a) return null;
    const t = JSON.parse(new TextDecoder().decode(await this.plain(a))) as { processes: Known[] };
    return t.processes.find((p) => String(p.upid) === upid) ?? null;
  }

  private async program(upid: string | null): Promise<Program | null> {
    const p = await this.known(upid);
    return p?.program && p.program_file ? { shown: p.program, file: p.program_file } : null;
  }

  private async made(q: URLSearchParams): Promise<ArrayBuffer | null> {
    const whole = new URLSearchParams(q);
    for (const k of MADE_BY) whole.delete(k);
    const g = await this.graph(whole);
    return g && flameOf(g, q, await this.program(q.get('upid')));
  }

  /** One side of a comparison; null: the file does not have its graph. */
  private async side(q: URLSearchParams, prefix: string): Promise<(Side & { known: Known }) | null> {
    const one = new URLSearchParams();
    for (const k of ['upid', 'heap', 'at', 'max', 'from']) one.set(k, q.get(prefix + k) ?? '');
    const metric = q.get('metric')!;
    one.set('metric', metric);
    if (q.get('frames')) one.set('frames', q.get('frames')!);
    const graph = await this.graph(one);
    one.set('metric', metric === 'objects' ? 'alloc_objects' : 'alloc_space');
    const came = await this.graph(one);
    const known = await this.known(q.get(`${prefix}upid`));
    if (!graph || !known) return null;
    const begin = Number(q.get(`${prefix}from`) ?? known.start);
    return { graph, came, known, seconds: (Number(q.get(`${prefix}at`)) - begin) / 1e9 };
  }

  private async compared(
    q: URLSearchParams,
  ): Promise<{ c: Compared; a: Known; b: Known; sides: Side[] } | null> {
    const [a, b] = [await this.side(q, 'a_'), await this.side(q, '')];
    if (!a || !b) return null;
    const plain = ['max', 'a_max', 'from', 'a_from'].every((k) => !q.get(k));
    const same = q.get('a_upid') === q.get('upid') && (q.get('a_heap') ?? '') === (q.get('heap') ?? '');
    const c = compare(a, b, {
      metric: q.get('metric')!,
      mode: q.get('mode') ?? '',
      byName: q.get('key') === 'name',
      sameRun: plain && same && Number(q.get('a_at')) <= Number(q.get('at')) && !!a.came && !!b.came,
      filters: (q.get('filters') ?? '').split('\n'),
      program: await this.program(q.get('upid')),
    });
    return { c, a: a.known, b: b.known, sides: [a, b] };
  }

  private async comparedTable(q: URLSearchParams): Promise<string | null> {
    const x = await this.compared(q);
    if (!x) return null;
    const trace = await this.trace();
    const side = (k: Known, prefix: string, s: Side) => ({
      ...trace,
      upid: k.upid,
      pid: k.pid,
      name: k.name,
      ...(k.program ? { program: base(k.program) } : {}), // as the rows have it
      ts: Number(q.get(`${prefix}at`)),
      max: q.get(`${prefix}max`) === '1',
      interval: s.graph.interval,
      seconds: s.seconds,
    });
    const rows = rowsOf(x.c, q.get('by') === 'total');
    const data = q.get('all') === '1' ? rows : rows.filter((r) => r[6]);
    return JSON.stringify({
      a: side(x.a, 'a_', x.sides[0]),
      b: side(x.b, '', x.sides[1]),
      same_run: x.c.q.sameRun,
      total: figuresOf(x.c, x.c.root.total),
      rows: data.length,
      hidden: rows.length - data.length,
      data,
    });
  }

  private async trace(): Promise<{ trace: number; file: string }> {
    const a = this.kept.get('status');
    const s = a ? JSON.parse(new TextDecoder().decode(await this.plain(a))) : { traces: [] };
    return { trace: s.traces[0]?.id ?? 1, file: s.traces[0]?.name ?? '' };
  }

  /** What is made of other answers. */
  private async make(name: string, query: string): Promise<ArrayBuffer | string | null> {
    const q = this.asked(name, query);
    try {
      if (name === 'flame') return await this.made(q);
      if (name === 'table/diff') return await this.comparedTable(q);
      if (name !== 'diff') return null;
      const x = await this.compared(q);
      return x && comparedBytes(x.c, x.sides[1].graph.ts, x.sides[1].graph.interval);
    } catch (e) {
      if (e instanceof NotWhole) return null;
      throw e;
    }
  }

  /** null: the file does not have it. BadFilter: the question is wrong. */
  async find(name: string, query: string): Promise<ArrayBuffer | string | null> {
    const a = this.kept.get(this.keyOf(name, query));
    if (a?.[1] === 'graph') return unpackGraph(await this.plain(a), this.index.texts);
    const found = a ? new TextDecoder().decode(await this.plain(a)) : await this.make(name, query);
    return typeof found === 'string' ? looked(name, found, new URLSearchParams(query)) : found;
  }
}

type Row = (string | number | boolean | null)[];
interface Table {
  rows: number;
  data: Row[];
}
/** What the server's words for an order mean, and the column that is searched. */
const COLUMNS: Record<string, Record<string, (r: Row) => string | number>> = {
  'heap/classes': {
    name: (r) => String(r[1]),
    count: (r) => Number(r[5]),
    size: (r) => Number(r[6]),
    native: (r) => Number(r[7]),
    retained: (r) => Number(r[8]),
    retained_native: (r) => Number(r[9]),
    retained_count: (r) => Number(r[10]),
    unreachable: (r) => Number(r[11]),
  },
  'table/diff': {
    name: (r) => String(r[0]),
    module: (r) => String(r[1]),
    a: (r) => Number(r[2]),
    b: (r) => Number(r[3]),
    change: (r) => Math.abs(Number(r[4])),
    percent: (r) => (Number(r[2]) > 0 ? Number(r[4]) / Number(r[2]) : Infinity),
  },
};

const TABLES = /^(table\/.*|heap\/(classes|strings|arrays))$/;

/** Which rows have a text: heaps are searched for plain text, in names and contents. */
function having(name: string, text: string): (r: Row) => boolean {
  if (!name.startsWith('heap/')) {
    const matches = patternOf(text);
    return (r) => matches(String(r[0]));
  }
  const column = name === 'heap/arrays' ? 2 : 1;
  if (name !== 'heap/classes') return (r) => String(r[column]).includes(text);
  return (r) => String(r[column]).toLowerCase().includes(text.toLowerCase());
}

/** A table in the order that is wanted, and only what matches. Other answers are as they are. */
export function looked(name: string, json: string, q: URLSearchParams): string {
  const column = COLUMNS[name]?.[q.get('sort') ?? 'change'];
  const match = q.get('match');
  const limit = Number(q.get('limit') ?? NaN);
  if (!TABLES.test(name) || (!column && !match && Number.isNaN(limit))) return json;
  const t = JSON.parse(json) as Table;
  if (match) {
    t.data = t.data.filter(having(name, match));
    t.rows = t.data.length;
    const sum = (at: number) => t.data.reduce((a, r) => a + Number(r[at]), 0);
    if (/^heap\/(strings|arrays)$/.test(name))
      Object.assign(t, { objects: sum(3), size: sum(4), wasted: sum(5) });
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
