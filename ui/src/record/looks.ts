// Looks at a process that is being recorded, as they come, and what is kept of them: curves, a baseline.
import { useEffect, useState } from 'preact/hooks';
import { bytes } from '../app/format';
import { token } from '../app/token';

export type LookRow = [
  name: string,
  module: string,
  space: number,
  objects: number,
  alloc_space: number,
  alloc_objects: number,
  error: number | null,
  samples: number,
];
export interface Look {
  seq: number;
  seconds: number;
  name: string;
  program?: string;
  rss: number;
  samples: number;
  lost: number;
  interval: number;
  temporary: boolean; // what is temporary is known
  space: number;
  objects: number;
  alloc_space: number;
  alloc_objects: number;
  error: number | null;
  rows: LookRow[];
}
export interface Watched {
  pid: number;
  name: string;
  recording: string;
  samples: number;
  seconds: number;
}

export const KEPT_S = 300;
export const SPARK = 40;
export const key = (r: LookRow) => `${r[0]}\u0000${r[1]}`;
export const change = (v: number) => `${v > 0 ? '+' : ''}${bytes(v)}`;

export interface Point {
  at: number;
  space: number;
  rss: number;
  error: number | null;
  alloc: number;
  allocs: number;
}
export interface Seen {
  look: Look | null;
  before: Look | null;
  baseline: Look | null;
  points: Point[];
  curves: Map<string, number[]>;
  peak: number;
}
const nothing = (): Seen => ({
  look: null,
  before: null,
  baseline: null,
  points: [],
  curves: new Map(),
  peak: 0,
});

/** Adds a look; the clock is the page's own, as the server's begins anew with each connection. */
function add(s: Seen, l: Look): Seen {
  const at = performance.now() / 1000;
  const curves = new Map<string, number[]>();
  for (const r of l.rows) curves.set(key(r), [...(s.curves.get(key(r)) ?? []), r[2]].slice(-SPARK));
  return {
    look: l,
    before: s.look,
    baseline: s.baseline ?? l,
    peak: Math.max(s.peak, l.space),
    curves,
    points: [
      ...s.points,
      { at, space: l.space, rss: l.rss, error: l.error, alloc: l.alloc_space, allocs: l.alloc_objects },
    ].filter((p) => p.at > at - KEPT_S),
  };
}

/** What comes of the connection: looks, how long ago the last one was, why it is over. */
export function useLooks(
  pid: number,
  paused: boolean,
): { seen: Seen; over: string; lost: number; rebase(): void } {
  const [seen, setSeen] = useState<Seen>(nothing);
  const [over, setOver] = useState('');
  const [broken, setBroken] = useState(0);
  const [, beat] = useState(0);
  useEffect(() => {
    setSeen(nothing());
    setOver('');
  }, [pid]);
  useEffect(() => {
    if (paused || over) return;
    const events = new EventSource(`/api/v1/live/${pid}/events?every=1000&token=${token.peek()}`);
    events.addEventListener('look', (e) => {
      setBroken(0);
      setSeen((s) => add(s, JSON.parse((e as MessageEvent<string>).data)));
    });
    events.addEventListener('over', (e) => {
      events.close();
      setOver(JSON.parse((e as MessageEvent<string>).data).text);
    });
    events.onerror = () => setBroken((b) => b || performance.now());
    return () => events.close();
  }, [pid, paused, over]);
  useEffect(() => {
    if (!broken) return;
    const timer = setInterval(() => beat((b) => b + 1), 1000);
    return () => clearInterval(timer);
  }, [broken]);
  const last = seen.points[seen.points.length - 1];
  return {
    seen,
    over,
    lost: broken ? Math.max(0, performance.now() / 1000 - (last?.at ?? broken / 1000)) : 0,
    rebase: () => setSeen((s) => ({ ...s, baseline: s.look })),
  };
}

/** Per second over the last few looks. */
export function rates(points: Point[]): { alloc: number; allocs: number; space: number } {
  const last = points[points.length - 1];
  const first = points.find((p) => p.at > (last?.at ?? 0) - 6) ?? last;
  const t = last && first ? last.at - first.at : 0;
  return t > 0
    ? {
        alloc: (last.alloc - first.alloc) / t,
        allocs: (last.allocs - first.allocs) / t,
        space: (last.space - first.space) / t,
      }
    : { alloc: 0, allocs: 0, space: 0 };
}
