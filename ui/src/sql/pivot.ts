// Rows summed up by columns: what the SQL page's pivot shows. Pure.
import { type Cell, compare } from '../parts/cells';

export const AGGREGATES = ['sum', 'count', 'min', 'max', 'avg', 'p50', 'p95', 'distinct'] as const;
export type Aggregate = (typeof AGGREGATES)[number];
export interface PivotSpec {
  rows: number[];
  columns: number[];
  value: number;
  by: Aggregate;
}
export interface PivotRow {
  keys: Cell[];
  depth: number;
  cells: (number | null)[];
  total: number | null;
  children: boolean;
}
export interface Pivot {
  columns: Cell[][];
  rows: PivotRow[];
  total: PivotRow;
}

export function aggregate(values: Cell[], by: Aggregate): number | null {
  if (by === 'count') return values.length;
  if (by === 'distinct') return new Set(values.filter((v) => v !== null)).size;
  const n = values
    .filter((v) => v !== null)
    .map(Number)
    .filter((v) => !Number.isNaN(v));
  if (!n.length) return null;
  const rank = (q: number) => {
    n.sort((a, b) => a - b);
    return n[Math.max(0, Math.ceil(q * n.length) - 1)];
  };
  switch (by) {
    case 'sum':
      return n.reduce((a, b) => a + b, 0);
    case 'min':
      return n.reduce((a, b) => Math.min(a, b));
    case 'max':
      return n.reduce((a, b) => Math.max(a, b));
    case 'avg':
      return n.reduce((a, b) => a + b, 0) / n.length;
    case 'p50':
      return rank(0.5);
    case 'p95':
      return rank(0.95);
  }
}

const keyOf = (cells: Cell[]) => JSON.stringify(cells);
export const MAX_COLUMNS = 60;

/** Rows in order of their keys; `open` names the groups (keyOf their keys) that are drilled into. */
export function pivot(rows: Cell[][], spec: PivotSpec, open: Set<string>): Pivot {
  const heads = new Map<string, Cell[]>();
  for (const r of rows) {
    const k = spec.columns.map((c) => r[c]);
    if (spec.columns.length) heads.set(keyOf(k), k);
  }
  const columns = [...heads.values()]
    .sort((a, b) => a.map((v, i) => compare(v, b[i])).find((c) => c) ?? 0)
    .slice(0, MAX_COLUMNS);
  const at = new Map(columns.map((c, i) => [keyOf(c), i]));
  const make = (part: Cell[][], keys: Cell[], depth: number): PivotRow => {
    const cells = columns.map(() => [] as Cell[]);
    for (const r of part) {
      const i = at.get(keyOf(spec.columns.map((c) => r[c])));
      if (i !== undefined && spec.columns.length) cells[i].push(r[spec.value]);
    }
    return {
      keys,
      depth,
      cells: cells.map((v) => (v.length ? aggregate(v, spec.by) : null)),
      total: aggregate(
        part.map((r) => r[spec.value]),
        spec.by,
      ),
      children: depth < spec.rows.length,
    };
  };
  const out: PivotRow[] = [];
  const walk = (part: Cell[][], keys: Cell[], depth: number) => {
    if (depth > spec.rows.length) return;
    const groups = new Map<string, { key: Cell; rows: Cell[][] }>();
    for (const r of part) {
      const key = r[spec.rows[depth - 1]];
      const g = groups.get(keyOf([key])) ?? { key, rows: [] };
      g.rows.push(r);
      groups.set(keyOf([key]), g);
    }
    const made = [...groups.values()].map((g) => ({ g, row: make(g.rows, [...keys, g.key], depth) }));
    made.sort((a, b) => compare(b.row.total, a.row.total) || compare(a.g.key, b.g.key));
    for (const { g, row } of made) {
      out.push(row);
      if (row.children && open.has(keyOf(row.keys))) walk(g.rows, row.keys, depth + 1);
    }
  };
  if (spec.rows.length) walk(rows, [], 1);
  return { columns, rows: out, total: make(rows, [], 0) };
}

export const pivotKey = keyOf;
