// Rows of any table, without how they are drawn: columns, conditions, order, and as text. Pure.
import type { ComponentChildren } from 'preact';
import { safe } from '../app/format';

export type Cell = string | number | null;
export interface GridColumn {
  name: string;
  hint?: string;
  numeric: boolean;
  show?(v: Cell, row: Cell[]): string;
  link?(v: Cell, row: Cell[]): string; // '' = none
  draw?(v: Cell, row: Cell[]): ComponentChildren; // more than text
  tip?(v: Cell, row: Cell[]): string;
  width?: number; // px; none: what the first rows need
  narrow?: number; // the same on a phone; 0: it is hidden there until all are shown
}

/** A cell's text. */
export const cellText = (c: GridColumn, v: Cell, row: Cell[]) =>
  v === null ? 'NULL' : c.show ? c.show(v, row) : safe(String(v));

/** What a table is drawn from (grid.tsx). */
export interface GridProps {
  columns: GridColumn[];
  rows: Cell[][];
  label: string;
  height?: number;
  empty?: string;
  sort?: Sort[]; // how the rows come
  total?: number; // rows there are, when not all are here
  onEnd?(): void; // the last rows are seen
  onFilter?(): void; // there are conditions: they look at the rows that are here
  isOn?(row: Cell[]): boolean;
  onRow?(row: Cell[]): void; // clicked, or reached by keys
  onMenu?(row: Cell[], x: number, y: number): void;
  onSort?(by: Sort[]): boolean; // true: the rows will come sorted
}

/** One row of the filter line: >1MiB, <10, =text, ~regex, or text anywhere. Null: not understood. */
export function condition(text: string): ((v: Cell) => boolean) | null {
  const t = text.trim();
  if (!t) return () => true;
  const m = /^(>=|<=|!=|>|<|=|~)?\s*(.*)$/s.exec(t)!;
  const [, op, rest] = m;
  if (op === '~') {
    try {
      const re = new RegExp(rest);
      return (v) => re.test(String(v ?? ''));
    } catch {
      return null;
    }
  }
  if (!op)
    return (v) =>
      String(v ?? '')
        .toLowerCase()
        .includes(rest.toLowerCase());
  if (op === '=') return (v) => String(v ?? 'null') === rest || (typeof v === 'number' && v === size(rest));
  if (op === '!=') return (v) => String(v ?? 'null') !== rest && !(typeof v === 'number' && v === size(rest));
  const n = size(rest);
  if (Number.isNaN(n)) return null;
  const num = (v: Cell) => (v === null ? NaN : Number(v));
  return op === '>'
    ? (v) => num(v) > n
    : op === '<'
      ? (v) => num(v) < n
      : op === '>='
        ? (v) => num(v) >= n
        : (v) => num(v) <= n;
}

/** 10, 1.5k, 2MiB, 3 GB. */
function size(text: string): number {
  const m = /^(-?[\d.]+)\s*([kmgt]?)(i?)b?$/i.exec(text.trim());
  if (!m) return NaN;
  const power = ['', 'k', 'm', 'g', 't'].indexOf(m[2].toLowerCase());
  return Number(m[1]) * (m[3] || !/b$/i.test(text) ? 1024 : 1000) ** power;
}

export function compare(a: Cell, b: Cell): number {
  if (a === b) return 0;
  if (a === null) return -1;
  if (b === null) return 1;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (typeof a === 'number') return -1;
  if (typeof b === 'number') return 1;
  if (a.length < 20 && b.length < 20 && /^-?\d{16,}$/.test(a) && /^-?\d{16,}$/.test(b))
    return BigInt(a) < BigInt(b) ? -1 : 1;
  return a < b ? -1 : 1;
}

export interface Sort {
  column: number;
  down: boolean;
}

export function sorted(rows: Cell[][], by: Sort[]): Cell[][] {
  if (!by.length) return rows;
  return rows
    .map((r, i) => [r, i] as const)
    .sort(([a, i], [b, k]) => {
      for (const s of by) {
        const c = compare(a[s.column], b[s.column]);
        if (c) return s.down ? -c : c;
      }
      return i - k;
    })
    .map(([r]) => r);
}

export const tsvCell = (v: Cell) => (v === null ? '' : String(v).replace(/[\t\n\r]/g, ' '));
/** A text that a spreadsheet would take for a formula begins with an apostrophe: names are anybody's. */
function csvCell(v: Cell): string {
  const text =
    v === null
      ? ''
      : typeof v === 'string' && /^[=+\-@\t\r]/.test(v) && !/^-\d+$/.test(v)
        ? `'${v}`
        : String(v);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}
export const toTsv = (names: string[], rows: Cell[][]) =>
  [names, ...rows].map((r) => r.map(tsvCell).join('\t')).join('\n') + '\n';
export const toCsv = (names: string[], rows: Cell[][]) =>
  [names, ...rows].map((r) => r.map(csvCell).join(',')).join('\n') + '\n';
export const toJson = (names: string[], rows: Cell[][]) =>
  `${JSON.stringify(
    rows.map((r) => Object.fromEntries(names.map((n, i) => [n, r[i]]))),
    null,
    1,
  )}\n`;
export const toMarkdown = (columns: GridColumn[], rows: Cell[][]) => {
  const cell = (v: Cell) => (v === null ? '' : safe(String(v)).replace(/\|/g, '\\|'));
  return (
    [
      `| ${columns.map((c) => cell(c.name)).join(' | ')} |`,
      `|${columns.map((c) => (c.numeric ? '--:' : '---')).join('|')}|`,
      ...rows.map((r) => `| ${r.map(cell).join(' | ')} |`),
    ].join('\n') + '\n'
  );
};
