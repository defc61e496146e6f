// Running queries: one at a time, stopped when another begins, each noted in the history.
import { type MutableRef, useEffect, useRef, useState } from 'preact/hooks';
import { query } from '../app/answers';
import { remember, remembered } from '../app/store';
import type { Results, Trace } from '../app/types';
import type { Sort } from '../parts/cells';
import type { Editor, Statement } from './sql-editor';
import { bind, pointed, sortedSql } from './sql-text';

export interface Past {
  sql: string;
  when: number;
  ms: number;
  rows: number;
  error: boolean;
}
/** wrong: where in the editor the error stands. */
export interface Outcome extends Results {
  limit: number;
  ran: Statement;
  stopped?: boolean;
  wrong?: { message: string; at: number };
}

const LIMIT = 10_000;
export const MOST = 1_000_000;
const HISTORY = 100;

function usePast() {
  const [past, set] = useState<Past[]>(() => remembered('sql-history', []));
  const keep = (next: Past[]) => {
    set(next);
    remember('sql-history', next);
  };
  return {
    past,
    forget: () => keep([]),
    note(answer: Outcome) {
      const rows = answer.results.reduce((a, r) => a + r.rows.length, 0);
      const entry: Past = {
        sql: answer.ran.text.trim(),
        when: Date.now(),
        ms: answer.ms,
        rows,
        error: !!answer.error,
      };
      keep(
        [entry, ...remembered<Past[]>('sql-history', []).filter((x) => x.sql !== entry.sql)].slice(
          0,
          HISTORY,
        ),
      );
    },
  };
}

/** The answer, or why there is none. */
async function ask(
  trace: number,
  what: Statement,
  sql: string,
  limit: number,
  stop: AbortController,
): Promise<Outcome> {
  const began = performance.now();
  try {
    const answer: Outcome = { ...(await query(trace, sql, limit, stop.signal)), limit, ran: what };
    const { message, at } = pointed(answer.error ?? '', what.text);
    return answer.error && at !== null ? { ...answer, wrong: { message, at: what.from + at } } : answer;
  } catch (e) {
    const text = stop.signal.aborted ? '' : (e as Error).message;
    return {
      results: [],
      error: text || null,
      ms: performance.now() - began,
      limit,
      ran: what,
      stopped: stop.signal.aborted,
    };
  }
}

/** Escape, while something runs. */
function useEscape(busy: number, cancel: () => void): void {
  useEffect(() => {
    if (!busy) return;
    const key = (e: KeyboardEvent) => e.key === 'Escape' && cancel();
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, [busy]);
}

export type Runner = ReturnType<typeof useRunner>;

/** bound: what $ts and $upid are; changed: the script may have made tables and functions. */
export function useRunner(
  trace: Trace,
  editor: MutableRef<Editor | null>,
  bound: () => Record<string, string>,
  changed: () => void,
) {
  const running = useRef<AbortController | null>(null);
  const [busy, setBusy] = useState(0); // since when, 0 = not
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const { past, forget, note } = usePast();

  const run = async (what: Statement, limit = LIMIT) => {
    if (!what.text.trim()) return;
    running.current?.abort();
    const stop = new AbortController();
    running.current = stop;
    setBusy(performance.now());
    editor.current?.noProblem();
    const answer = await ask(trace.id, what, bind(what.text, bound()), limit, stop);
    if (running.current !== stop) return;
    running.current = null;
    setBusy(0);
    setOutcome(answer);
    if (!answer.error && !answer.stopped && /\b(create|drop|include)\b/i.test(what.text)) changed();
    if (!answer.stopped) note(answer);
  };
  const cancel = (): boolean => {
    if (!running.current) return false;
    running.current.abort();
    return true;
  };
  /** A result that was cut is sorted by the server; false: it is not. */
  const resort = (by: Sort[], names: string[]): boolean => {
    if (!outcome || outcome.results.length !== 1 || !by.length) return false;
    const text = sortedSql(
      bind(outcome.ran.text, bound()),
      by.map((s) => ({ name: names[s.column], down: s.down })),
    );
    if (!text) return false;
    const { ran, limit } = outcome;
    setBusy(performance.now());
    query(trace.id, text, limit).then(
      (a) => {
        setBusy(0);
        if (!a.error) setOutcome({ ...a, limit, ran });
      },
      () => setBusy(0),
    );
    return true;
  };
  useEscape(busy, cancel);
  const clear = () => setOutcome(null);
  const stop = () => running.current?.abort();
  return { busy, outcome, past, forget, run, cancel, resort, clear, stop };
}
