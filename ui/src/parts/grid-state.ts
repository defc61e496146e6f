// What a table remembers while it stands: conditions and order, columns and their widths, cells that are
// selected.
import { type MutableRef, useMemo, useRef, useState } from 'preact/hooks';
import {
  type Cell,
  cellText,
  condition,
  type GridColumn,
  type GridProps,
  type Sort,
  sorted,
  toTsv,
  tsvCell,
} from './cells';

export const ROW = 24;
const CHAR = 7.1;

// ---- rows ----

export type Rows = ReturnType<typeof useRows>;

export function useRows({ columns, rows, sort: given, onSort }: GridProps, say: (text: string) => void) {
  const [by, setBy] = useState<Sort[]>([]);
  const [filters, setFilters] = useState<Record<number, string>>({});
  const [filtering, setFiltering] = useState(false);
  const serverSorted = useRef(false);
  const wrong = Object.entries(filters)
    .filter(([, t]) => !condition(t))
    .map(([i]) => Number(i));
  const shown = useMemo(() => {
    const tests = Object.entries(filters)
      .filter(([, t]) => t.trim())
      .map(([i, t]) => [Number(i), condition(t)] as const)
      .filter(([, f]) => f);
    const kept = tests.length ? rows.filter((r) => tests.every(([i, f]) => f!(r[i]))) : rows;
    return serverSorted.current ? kept : sorted(kept, by);
  }, [rows, by, filters]);
  return {
    by,
    filters,
    filtering,
    wrong,
    shown,
    begin() {
      setBy(given ?? []);
      serverSorted.current = !!given;
      setFilters({});
    },
    filter: (column: number, text: string) => setFilters({ ...filters, [column]: text }),
    toggleFilter() {
      setFiltering(!filtering);
      if (filtering) setFilters({});
    },
    /** A column falls, rises, and is none of the order; add: by this too. */
    sort(column: number, add: boolean) {
      const now = by.find((s) => s.column === column);
      const next: Sort | null = !now
        ? { column, down: columns[column].numeric }
        : now.down === columns[column].numeric
          ? { column, down: !now.down }
          : null;
      const rest = add ? by.filter((s) => s.column !== column) : [];
      const all = next ? [...rest, next] : rest;
      serverSorted.current = onSort?.(all) ?? false;
      setBy(all);
      say(
        all.length
          ? `sorted by ${all.map((s) => `${columns[s.column].name} ${s.down ? 'falling' : 'rising'}`).join(', ')}`
          : 'as it came',
      );
    },
  };
}

// ---- columns ----

const isNarrow = () => matchMedia('(max-width: 560px)').matches;

/** Room for the name and for the first rows. */
const widthOf = (c: GridColumn, i: number, rows: Cell[][]): number => {
  let most = c.name.length + 2;
  for (let k = 0; k < Math.min(rows.length, 200); k++)
    most = Math.max(most, cellText(c, rows[k][i], rows[k]).length);
  return (isNarrow() && c.narrow) || (c.width ?? Math.round(Math.min(420, Math.max(60, most * CHAR + 18))));
};

export type Columns = ReturnType<typeof useColumns>;

export function useColumns(columns: GridColumn[], rows: Cell[][]) {
  const [order, setOrder] = useState<number[]>([]);
  const [widths, setWidths] = useState<number[]>([]);
  const visible = order.filter((i) => i < columns.length);
  const width = (i: number) => widths[i] ?? 100;
  const showAll = () => setOrder(columns.map((_, i) => i));
  return {
    visible,
    width,
    showAll,
    hidden: columns.length - visible.length,
    template: visible.map((i) => `${width(i)}px`).join(' '),
    wide: visible.reduce((a, i) => a + width(i), 0),
    begin() {
      setOrder(columns.map((_, i) => i).filter((i) => !isNarrow() || columns[i].narrow !== 0));
      setWidths(columns.map((c, i) => widthOf(c, i, rows)));
    },
    hide: (column: number) => setOrder(visible.filter((x) => x !== column)),
    /** One place to the left or the right. */
    shift(column: number, step: number) {
      const k = visible.indexOf(column);
      const next = [...visible];
      if (k + step < 0 || k + step >= next.length) return;
      [next[k], next[k + step]] = [next[k + step], next[k]];
      setOrder(next);
    },
    /** One column is let fall onto another. */
    drop(from: number, onto: number) {
      if (!visible.includes(from)) return;
      const next = visible.filter((x) => x !== from);
      next.splice(next.indexOf(onto) + (visible.indexOf(from) < visible.indexOf(onto) ? 1 : 0), 0, from);
      setOrder(next);
    },
    resize(column: number, e: PointerEvent) {
      e.preventDefault();
      e.stopPropagation();
      const x0 = e.clientX;
      const w0 = width(column);
      const drag = (m: PointerEvent) =>
        setWidths((w) => w.map((v, i) => (i === column ? Math.max(40, w0 + m.clientX - x0) : v)));
      const up = () => {
        removeEventListener('pointermove', drag);
        removeEventListener('pointerup', up);
      };
      addEventListener('pointermove', drag);
      addEventListener('pointerup', up);
    },
  };
}

// ---- cells ----

interface Spot {
  row: number;
  column: number;
}

/** Scrolls so that a cell is seen; the head covers 44 px. */
function reveal(el: HTMLElement, to: Spot, { visible, width }: Columns): void {
  if (to.row * ROW < el.scrollTop) el.scrollTop = to.row * ROW;
  else if ((to.row + 1) * ROW > el.scrollTop + el.clientHeight - 44)
    el.scrollTop = (to.row + 1) * ROW - el.clientHeight + 44;
  let x = 0;
  for (let k = 0; k < to.column; k++) x += width(visible[k]);
  if (x < el.scrollLeft || x + width(visible[to.column]) > el.scrollLeft + el.clientWidth) el.scrollLeft = x;
}

export type Cells = ReturnType<typeof useCells>;

export function useCells(
  { columns, onRow }: GridProps,
  box: MutableRef<HTMLDivElement | null>,
  shown: Cell[][],
  layout: Columns,
  say: (text: string) => void,
) {
  const [at, setAt] = useState<Spot>({ row: 0, column: 0 });
  const [mark, setMark] = useState<Spot | null>(null); // the other corner of what is selected
  const { visible } = layout;
  const corner = mark ?? at;
  const [top, bottom] = [Math.min(at.row, corner.row), Math.max(at.row, corner.row)];
  const [left, right] = [Math.min(at.column, corner.column), Math.max(at.column, corner.column)];
  const begin = () => {
    setAt({ row: 0, column: 0 });
    setMark(null);
  };
  /** keep: what was selected grows. */
  const select = (to: Spot, keep: boolean) => {
    setMark(keep ? (mark ?? at) : null);
    setAt(to);
  };
  return {
    at,
    shown,
    begin,
    select,
    within: (r: number, c: number) => r >= top && r <= bottom && c >= left && c <= right,
    /** Where the cell leads. */
    link: () =>
      shown[at.row] && columns[visible[at.column]]?.link?.(shown[at.row][visible[at.column]], shown[at.row]),
    all() {
      setAt({ row: 0, column: 0 });
      setMark({ row: shown.length - 1, column: visible.length - 1 });
    },
    copy() {
      const cols = visible.slice(left, right + 1);
      const part = shown.slice(top, bottom + 1).map((r) => cols.map((i) => r[i]));
      const out =
        part.length === 1 && cols.length === 1
          ? tsvCell(part[0][0])
          : toTsv(
              cols.map((i) => columns[i].name),
              part,
            );
      void navigator.clipboard?.writeText(out);
      say(`${part.length} rows, ${cols.length} columns copied`);
    },
    move(row: number, column: number, keep: boolean) {
      const next = {
        row: Math.max(0, Math.min(shown.length - 1, row)),
        column: Math.max(0, Math.min(visible.length - 1, column)),
      };
      select(next, keep);
      reveal(box.current!, next, layout);
      if (next.row !== at.row && shown[next.row]) onRow?.(shown[next.row]);
      say(`${columns[visible[next.column]]?.name}: ${shown[next.row]?.[visible[next.column]] ?? 'NULL'}`);
    },
  };
}
