// A table of any rows: drawn only where one looks, sorted, filtered, copied. Cells are reached by arrow
// keys; a stretch of them (Shift) is copied as TSV. Columns can be resized, moved and hidden.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { save } from '../app/api';
import { count, safe } from '../app/format';
import { type Item, Menu } from './parts';

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
}

const ROW = 24;
const CHAR = 7.1;

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
  if (!op) return (v) => String(v ?? '').toLowerCase().includes(rest.toLowerCase());
  if (op === '=') return (v) => String(v ?? 'null') === rest || (typeof v === 'number' && v === size(rest));
  if (op === '!=') return (v) => String(v ?? 'null') !== rest && !(typeof v === 'number' && v === size(rest));
  const n = size(rest);
  if (Number.isNaN(n)) return null;
  const num = (v: Cell) => (v === null ? NaN : Number(v));
  return op === '>' ? (v) => num(v) > n : op === '<' ? (v) => num(v) < n : op === '>=' ? (v) => num(v) >= n : (v) => num(v) <= n;
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
  if (a.length < 20 && b.length < 20 && /^-?\d{16,}$/.test(a) && /^-?\d{16,}$/.test(b)) return BigInt(a) < BigInt(b) ? -1 : 1;
  return a < b ? -1 : 1;
}

export interface Sort { column: number; down: boolean }

export function sorted(rows: Cell[][], by: Sort[]): Cell[][] {
  if (!by.length) return rows;
  return rows.map((r, i) => [r, i] as const).sort(([a, i], [b, k]) => {
    for (const s of by) {
      const c = compare(a[s.column], b[s.column]);
      if (c) return s.down ? -c : c;
    }
    return i - k;
  }).map(([r]) => r);
}

const tsvCell = (v: Cell) => (v === null ? '' : String(v).replace(/[\t\n\r]/g, ' '));
/** A text that a spreadsheet would take for a formula begins with an apostrophe: names are anybody's. */
function csvCell(v: Cell): string {
  const text = v === null ? '' : typeof v === 'string' && /^[=+\-@\t\r]/.test(v) && !/^-\d+$/.test(v) ? `'${v}` : String(v);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}
export const toTsv = (names: string[], rows: Cell[][]) => [names, ...rows].map((r) => r.map(tsvCell).join('\t')).join('\n') + '\n';
export const toCsv = (names: string[], rows: Cell[][]) => [names, ...rows].map((r) => r.map(csvCell).join(',')).join('\n') + '\n';
export const toJson = (names: string[], rows: Cell[][]) => `${JSON.stringify(rows.map((r) => Object.fromEntries(names.map((n, i) => [n, r[i]]))), null, 1)}\n`;
export const toMarkdown = (columns: GridColumn[], rows: Cell[][]) => {
  const cell = (v: Cell) => (v === null ? '' : safe(String(v)).replace(/\|/g, '\\|'));
  return [`| ${columns.map((c) => cell(c.name)).join(' | ')} |`, `|${columns.map((c) => (c.numeric ? '--:' : '---')).join('|')}|`,
    ...rows.map((r) => `| ${r.map(cell).join(' | ')} |`)].join('\n') + '\n';
};

/** Rows as a file or on the clipboard; load: when more rows exist than are here. */
export function RowsMenu({ columns, rows, name, load }: { columns: GridColumn[]; rows: Cell[][]; name: string; load?(): Promise<Cell[][]> }) {
  const [menu, setMenu] = useState<{ x: number; y: number } | null>(null);
  const [problem, setProblem] = useState('');
  const names = columns.map((c) => c.name);
  const give = (make: (rows: Cell[][]) => void) => () => {
    setProblem('');
    Promise.resolve(load ? load() : rows).then((all) => make(all.map((r) => r.slice(0, columns.length))), (e: Error) => setProblem(e.message));
  };
  const file = (make: (names: string[], rows: Cell[][]) => string, type: string, ext: string) => give((all) => save(new Blob([make(names, all)], { type }), `${name}.${ext}`));
  const copy = (make: (rows: Cell[][]) => string) => give((all) => void navigator.clipboard?.writeText(make(all)));
  const items: Item[] = [
    { label: 'CSV file', act: file(toCsv, 'text/csv', 'csv') },
    { label: 'TSV file', act: file(toTsv, 'text/tab-separated-values', 'tsv') },
    { label: 'JSON file', act: file(toJson, 'application/json', 'json') },
    { label: 'Copy as TSV', act: copy((all) => toTsv(names, all)) },
    { label: 'Copy as Markdown', act: copy((all) => toMarkdown(columns, all)) },
  ];
  return (
    <>
      <button type="button" aria-haspopup="menu" onClick={(e) => { const r = e.currentTarget.getBoundingClientRect(); setMenu({ x: r.left, y: r.bottom + 4 }); }}>Save, copy</button>
      {menu && <Menu title={load ? 'All rows' : `${count(rows.length)} rows`} x={menu.x} y={menu.y} items={items} onClose={() => setMenu(null)} />}
      {problem && <span class="bad" role="alert">{safe(problem)}</span>}
    </>
  );
}

interface Place { row: number; column: number }

let grids = 0;

export function Grid({ columns, rows, label, onSort, height, empty, sort: given, total, onEnd, onFilter, isOn, onRow, onMenu }: {
  columns: GridColumn[]; rows: Cell[][]; label: string; height?: number; empty?: string;
  sort?: Sort[]; // how the rows come
  total?: number; // rows there are, when not all are here
  onEnd?(): void; // the last rows are seen
  onFilter?(): void; // there are conditions: they look at the rows that are here
  isOn?(row: Cell[]): boolean;
  onRow?(row: Cell[]): void; // clicked, or reached by keys
  onMenu?(row: Cell[], x: number, y: number): void;
  onSort?(by: Sort[]): boolean; // true: the rows will come sorted
}) {
  const box = useRef<HTMLDivElement>(null);
  const id = useMemo(() => `cell${++grids}`, []); // a page may have several
  const [order, setOrder] = useState<number[]>([]);
  const [widths, setWidths] = useState<number[]>([]);
  const [by, setBy] = useState<Sort[]>([]);
  const [filters, setFilters] = useState<Record<number, string>>({});
  const [filtering, setFiltering] = useState(false);
  const [range, setRange] = useState({ first: 0, n: 60 });
  const [at, setAt] = useState<Place>({ row: 0, column: 0 });
  const [mark, setMark] = useState<Place | null>(null); // the other corner of what is selected
  const [said, setSaid] = useState('');
  const names = columns.map((c) => c.name).join('\u001f');
  const serverSorted = useRef(false);

  const text = (c: GridColumn, v: Cell, row: Cell[]) => (v === null ? 'NULL' : c.show ? c.show(v, row) : safe(String(v)));
  useEffect(() => {
    setOrder(columns.map((_, i) => i));
    setWidths(columns.map((c, i) => {
      let most = c.name.length + 2;
      for (let k = 0; k < Math.min(rows.length, 200); k++) most = Math.max(most, text(c, rows[k][i], rows[k]).length);
      return c.width ?? Math.round(Math.min(420, Math.max(60, most * CHAR + 18)));
    }));
    setBy(given ?? []);
    serverSorted.current = !!given;
    setFilters({});
    setAt({ row: 0, column: 0 });
    setMark(null);
  }, [names]);

  const wrong = Object.entries(filters).filter(([, t]) => !condition(t)).map(([i]) => Number(i));
  const shown = useMemo(() => {
    const tests = Object.entries(filters).filter(([, t]) => t.trim()).map(([i, t]) => [Number(i), condition(t)] as const).filter(([, f]) => f);
    const kept = tests.length ? rows.filter((r) => tests.every(([i, f]) => f!(r[i]))) : rows;
    return serverSorted.current ? kept : sorted(kept, by);
  }, [rows, by, filters]);

  const look = () => {
    const el = box.current;
    if (!el) return;
    const first = Math.max(0, Math.floor(el.scrollTop / ROW) - 10);
    const n = Math.ceil(el.clientHeight / ROW) + 20;
    setRange((r) => (r.first === first && r.n === n ? r : { first, n }));
  };
  useEffect(() => {
    look();
    const watch = new ResizeObserver(look);
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, [shown.length]);

  const visible = order.filter((i) => i < columns.length);
  const hidden = columns.map((_, i) => i).filter((i) => !visible.includes(i));
  const template = visible.map((i) => `${widths[i] ?? 100}px`).join(' ');
  const wide = visible.reduce((a, i) => a + (widths[i] ?? 100), 0);
  const last = Math.min(shown.length, range.first + range.n);

  const sort = (column: number, add: boolean) => {
    const now = by.find((s) => s.column === column);
    const next: Sort | null = !now ? { column, down: columns[column].numeric } : now.down === columns[column].numeric ? { column, down: !now.down } : null;
    const rest = add ? by.filter((s) => s.column !== column) : [];
    const all = next ? [...rest, next] : rest;
    serverSorted.current = onSort?.(all) ?? false;
    setBy(all);
    setSaid(all.length ? `sorted by ${all.map((s) => `${columns[s.column].name} ${s.down ? 'falling' : 'rising'}`).join(', ')}` : 'as it came');
  };
  const corner = mark ?? at;
  const within = (r: number, c: number) =>
    r >= Math.min(at.row, corner.row) && r <= Math.max(at.row, corner.row) && c >= Math.min(at.column, corner.column) && c <= Math.max(at.column, corner.column);
  const copy = () => {
    const [r0, r1] = [Math.min(at.row, corner.row), Math.max(at.row, corner.row)];
    const cols = visible.slice(Math.min(at.column, corner.column), Math.max(at.column, corner.column) + 1);
    const part = shown.slice(r0, r1 + 1).map((r) => cols.map((i) => r[i]));
    const out = part.length === 1 && cols.length === 1 ? tsvCell(part[0][0]) : toTsv(cols.map((i) => columns[i].name), part);
    void navigator.clipboard?.writeText(out);
    setSaid(`${part.length} rows, ${cols.length} columns copied`);
  };
  const move = (row: number, column: number, keep: boolean) => {
    const next = { row: Math.max(0, Math.min(shown.length - 1, row)), column: Math.max(0, Math.min(visible.length - 1, column)) };
    setMark(keep ? mark ?? at : null);
    setAt(next);
    const el = box.current!;
    if (next.row * ROW < el.scrollTop) el.scrollTop = next.row * ROW;
    else if ((next.row + 1) * ROW > el.scrollTop + el.clientHeight - 44) el.scrollTop = (next.row + 1) * ROW - el.clientHeight + 44;
    let x = 0;
    for (let k = 0; k < next.column; k++) x += widths[visible[k]] ?? 100;
    if (x < el.scrollLeft) el.scrollLeft = x;
    else if (x + (widths[visible[next.column]] ?? 100) > el.scrollLeft + el.clientWidth) el.scrollLeft = x;
    if (next.row !== at.row && shown[next.row]) onRow?.(shown[next.row]);
    const cell = shown[next.row]?.[visible[next.column]];
    setSaid(`${columns[visible[next.column]]?.name}: ${cell ?? 'NULL'}`);
  };
  const onKey = (e: KeyboardEvent) => {
    if (e.target instanceof HTMLInputElement) return;
    if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'c' && !getSelection()?.toString()) {
      e.preventDefault();
      copy();
      return;
    }
    if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'a') {
      e.preventDefault();
      setAt({ row: 0, column: 0 });
      setMark({ row: shown.length - 1, column: visible.length - 1 });
      return;
    }
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    const page = Math.max(1, Math.floor((box.current!.clientHeight - 60) / ROW));
    const acts: Record<string, () => void> = {
      ArrowDown: () => move(at.row + 1, at.column, e.shiftKey),
      ArrowUp: () => move(at.row - 1, at.column, e.shiftKey),
      ArrowRight: () => move(at.row, at.column + 1, e.shiftKey),
      ArrowLeft: () => move(at.row, at.column - 1, e.shiftKey),
      PageDown: () => move(at.row + page, at.column, e.shiftKey),
      PageUp: () => move(at.row - page, at.column, e.shiftKey),
      Home: () => move(0, at.column, e.shiftKey),
      End: () => move(shown.length - 1, at.column, e.shiftKey),
      Enter: () => {
        const c = columns[visible[at.column]];
        const to = shown[at.row] && c?.link?.(shown[at.row][visible[at.column]], shown[at.row]);
        if (to) location.hash = to;
      },
    };
    const cell = document.getElementById(`${id}-${at.row}-${at.column}`);
    if (onMenu && cell && shown[at.row]) acts[' '] = acts.ContextMenu = () => { const r = cell.getBoundingClientRect(); onMenu(shown[at.row], r.left + 20, r.bottom); };
    if (!acts[e.key] || (e.target as Element).closest('.grid-head')) return;
    e.preventDefault();
    e.stopPropagation();
    acts[e.key]();
  };
  const resize = (column: number, e: PointerEvent) => {
    e.preventDefault();
    e.stopPropagation();
    const x0 = e.clientX;
    const w0 = widths[column] ?? 100;
    const drag = (m: PointerEvent) => setWidths((w) => w.map((v, i) => (i === column ? Math.max(40, w0 + m.clientX - x0) : v)));
    const up = () => {
      removeEventListener('pointermove', drag);
      removeEventListener('pointerup', up);
    };
    addEventListener('pointermove', drag);
    addEventListener('pointerup', up);
  };
  const shift = (column: number, step: number) => {
    const k = visible.indexOf(column);
    const next = [...visible];
    if (k + step < 0 || k + step >= next.length) return;
    [next[k], next[k + step]] = [next[k + step], next[k]];
    setOrder(next);
  };

  return (
    <div class="grid-box">
      <div class="grid-tools">
        <button type="button" aria-pressed={filtering} onClick={() => { setFiltering(!filtering); if (filtering) setFilters({}); }} title="a line of conditions: >1MiB, <10, =text, ~regex">Filter</button>
        {hidden.length > 0 && <button type="button" onClick={() => setOrder(columns.map((_, i) => i))}>Show {hidden.length} hidden</button>}
        <span class="dim" role="status">{shown.length === rows.length ? '' : `${shown.length.toLocaleString('en-US')} of ${rows.length.toLocaleString('en-US')} rows pass`}</span>
      </div>
      <div class="grid" role="grid" aria-label={label} aria-rowcount={Math.max(shown.length, total ?? 0) + 1} aria-colcount={visible.length} tabIndex={0} ref={box} onKeyDown={onKey}
        onScroll={(e) => { look(); const el = e.currentTarget; if (onEnd && el.scrollTop + el.clientHeight > el.scrollHeight - 400) onEnd(); }}
        aria-activedescendant={shown.length ? `${id}-${at.row}-${at.column}` : undefined} style={height ? { height: `${height}px` } : undefined}>
        <div class="grid-head" role="rowgroup" style={{ minWidth: `${wide}px` }}>
          <div role="row" class="grid-row" style={{ gridTemplateColumns: template }}>
            {visible.map((i) => {
              const k = by.findIndex((s) => s.column === i);
              return (
                <span role="columnheader" class={columns[i].numeric ? 'num' : ''} aria-sort={k < 0 ? 'none' : by[k].down ? 'descending' : 'ascending'}
                  draggable onDragStart={(e) => e.dataTransfer!.setData('text/plain', String(i))} onDragOver={(e) => e.preventDefault()}
                  onDrop={(e) => {
                    e.preventDefault();
                    const from = Number(e.dataTransfer!.getData('text/plain'));
                    if (!visible.includes(from)) return;
                    const next = visible.filter((x) => x !== from);
                    next.splice(next.indexOf(i) + (visible.indexOf(from) < visible.indexOf(i) ? 1 : 0), 0, from);
                    setOrder(next);
                  }}>
                  <button type="button" title={`${columns[i].hint ?? columns[i].name}\nclick: sort, Shift: by this too; Alt+←/→: move, Delete: hide`} onClick={(e) => sort(i, e.shiftKey)}
                    onKeyDown={(e) => {
                      if (e.altKey && (e.key === 'ArrowLeft' || e.key === 'ArrowRight')) shift(i, e.key === 'ArrowLeft' ? -1 : 1);
                      else if (e.key === 'Delete' && visible.length > 1) setOrder(visible.filter((x) => x !== i));
                      else return;
                      e.preventDefault();
                      e.stopPropagation();
                    }}>{safe(columns[i].name)}{k >= 0 ? (by[k].down ? ' ▼' : ' ▲') + (by.length > 1 ? k + 1 : '') : ''}</button>
                  <i class="grip" onPointerDown={(e) => resize(i, e)} />
                </span>
              );
            })}
          </div>
          {filtering && (
            <div role="row" class="grid-row filter" style={{ gridTemplateColumns: template }}>
              {visible.map((i) => <span role="gridcell"><input type="text" class={wrong.includes(i) ? 'wrong' : ''} aria-invalid={wrong.includes(i)} aria-label={`Condition on ${safe(columns[i].name)}`} value={filters[i] ?? ''} placeholder={columns[i].numeric ? '>1MiB' : 'text, ~regex'}
                onInput={(e) => { setFilters({ ...filters, [i]: e.currentTarget.value }); onFilter?.(); }} /></span>)}
            </div>
          )}
        </div>
        <div role="rowgroup" class="grid-body" style={{ height: `${shown.length * ROW}px`, minWidth: `${wide}px` }}>
          {shown.slice(range.first, last).map((r, k) => {
            const row = range.first + k;
            return (
              <div role="row" aria-rowindex={row + 2} class={`grid-row ${isOn?.(r) ? 'on' : ''}`} onClick={() => onRow?.(r)}
                onContextMenu={(e) => { if (onMenu) { e.preventDefault(); onMenu(r, e.clientX, e.clientY); } }} style={{ top: `${row * ROW}px`, gridTemplateColumns: template }}>
                {visible.map((i, c) => {
                  const value = text(columns[i], r[i], r);
                  const to = r[i] === null ? '' : columns[i].link?.(r[i], r) ?? '';
                  return (
                    <span role="gridcell" id={`${id}-${row}-${c}`} aria-selected={within(row, c)} class={`${columns[i].numeric ? 'num' : ''} ${r[i] === null ? 'null' : ''} ${row === at.row && c === at.column ? 'at' : ''}`}
                      title={r[i] === null ? 'NULL' : columns[i].tip?.(r[i], r) ?? safe(String(r[i]))}
                      onPointerDown={(e) => {
                        if (e.button !== 0 || (e.target as Element).closest('a')) return;
                        setMark(e.shiftKey ? mark ?? at : null);
                        setAt({ row, column: c });
                      }}
                      onPointerEnter={(e) => { if (e.buttons & 1) { setMark(mark ?? at); setAt({ row, column: c }); } }}>
                      {columns[i].draw ? columns[i].draw!(r[i], r) : to ? <a href={to} tabIndex={-1}>{value}</a> : value}</span>
                  );
                })}
              </div>
            );
          })}
        </div>
      </div>
      {!shown.length && <p class="empty small">{rows.length ? 'No row passes the conditions.' : empty ?? 'No rows.'}</p>}
      <div class="sr" aria-live="polite">{said}</div>
    </div>
  );
}
