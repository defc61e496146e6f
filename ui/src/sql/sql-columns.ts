// How a result's columns are shown and where their cells lead, by name and values.
import { bytes } from '../app/format';
import { href } from '../app/state';
import type { Result } from '../app/types';
import type { Cell, GridColumn } from '../parts/cells';
import { stackSql } from './sql-text';

const BYTES = /(^|_)(size|space|bytes|self|total|rss|live|freed|slope|space_error)$/;
/** A value is one of bytes where it belongs to a callstack or a tree; elsewhere it may be anything. */
const isBytesColumn = (name: string, all: string[]) =>
  BYTES.test(name) || (name === 'value' && all.some((c) => /^(parent_id|callsite_id|self)$/.test(c)));

/** Where a cell leads, by its column's name. */
function lead(c: GridColumn, columns: string[], trace: number): void {
  const at = columns.indexOf('upid');
  const upid = (row: Cell[]) => (at >= 0 && row[at] ? Number(row[at]) - 1 : null);
  if (/^ts(_end)?$/.test(c.name)) {
    c.hint = "ns of the trace's clock; leads to the timeline";
    c.link = (v, row) =>
      /^\d+$/.test(String(v))
        ? href({ page: 'timeline', trace, upid: upid(row), at: String(v), from: '', max: false })
        : '';
  } else if (c.name === 'upid') {
    c.hint = 'the process; leads to its flamegraph';
    c.link = (v) =>
      Number(v) > 0
        ? href({ page: 'flame', trace, upid: Number(v) - 1, at: '', from: '', heap: '', zoom: '' })
        : '';
  } else if (c.name === 'callsite_id') {
    c.hint = 'leads to its stack';
    c.link = (v) => href({ page: 'query', sql: stackSql(Number(v)) });
  }
}

export function columnsOf(r: Result, inBytes: boolean, trace: number): GridColumn[] {
  return r.columns.map((name, i) => {
    const first = r.rows.find((row) => row[i] !== null)?.[i] ?? null;
    const numeric = typeof first === 'number' || (typeof first === 'string' && /^-?\d{16,19}$/.test(first));
    const c: GridColumn = { name, numeric };
    if (numeric && inBytes && isBytesColumn(name, r.columns)) c.show = (v) => bytes(Number(v));
    else if (numeric)
      c.show = (v) =>
        typeof v === 'number' && !Number.isInteger(v) ? String(Number(v.toPrecision(6))) : String(v);
    lead(c, r.columns, trace);
    return c;
  });
}
