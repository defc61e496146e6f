// A table of any rows: drawn only where one looks, sorted, filtered, copied. Cells are reached by arrow
// keys; a stretch of them (Shift) is copied as TSV. Columns can be resized, moved and hidden.
import { type MutableRef, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { GridProps } from './cells';
import { GridBody } from './grid-body';
import { GridHead } from './grid-head';
import { type Cells, type Columns, ROW, type Rows, useCells, useColumns, useRows } from './grid-state';

let grids = 0;

/** The rows that are seen, and some around them. */
function useRange(box: MutableRef<HTMLDivElement | null>, n: number) {
  const [range, setRange] = useState({ first: 0, n: 60 });
  const look = () => {
    const el = box.current;
    if (!el) return;
    const first = Math.max(0, Math.floor(el.scrollTop / ROW) - 10);
    const rows = Math.ceil(el.clientHeight / ROW) + 20;
    setRange((r) => (r.first === first && r.n === rows ? r : { first, n: rows }));
  };
  useEffect(() => {
    look();
    const watch = new ResizeObserver(look);
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, [n]);
  return { range, look };
}

/** What a key does to the table; false: it is not the table's. */
function pressed(
  e: KeyboardEvent,
  id: string,
  cells: Cells,
  page: number,
  onMenu: GridProps['onMenu'],
): boolean {
  const { at, shown, move } = cells;
  const go =
    (row: number, column = at.column) =>
    () =>
      move(row, column, e.shiftKey);
  const acts: Record<string, () => void> = {
    ArrowDown: go(at.row + 1),
    ArrowUp: go(at.row - 1),
    ArrowRight: go(at.row, at.column + 1),
    ArrowLeft: go(at.row, at.column - 1),
    PageDown: go(at.row + page),
    PageUp: go(at.row - page),
    Home: go(0),
    End: go(shown.length - 1),
    Enter: () => {
      const to = cells.link();
      if (to) location.hash = to;
    },
  };
  const cell = document.getElementById(`${id}-${at.row}-${at.column}`);
  if (onMenu && cell && shown[at.row])
    acts[' '] = acts.ContextMenu = () => {
      const r = cell.getBoundingClientRect();
      onMenu(shown[at.row], r.left + 20, r.bottom);
    };
  if (!acts[e.key] || (e.target as Element).closest('.grid-head')) return false;
  acts[e.key]();
  return true;
}

/** Ctrl+C and Ctrl+A; false: neither. */
function marked(e: KeyboardEvent, cells: Cells): boolean {
  if (!e.ctrlKey && !e.metaKey) return false;
  const key = e.key.toLowerCase();
  if (key === 'c' && !getSelection()?.toString()) cells.copy();
  else if (key === 'a') cells.all();
  else return false;
  return true;
}

function keyDown(
  e: KeyboardEvent,
  id: string,
  cells: Cells,
  box: HTMLElement,
  onMenu: GridProps['onMenu'],
): void {
  if (e.target instanceof HTMLInputElement) return;
  if (marked(e, cells)) return e.preventDefault();
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  if (!pressed(e, id, cells, Math.max(1, Math.floor((box.clientHeight - 60) / ROW)), onMenu)) return;
  e.preventDefault();
  e.stopPropagation();
}

function Tools({ table, layout, rows }: { table: Rows; layout: Columns; rows: number }) {
  const n = table.shown.length;
  return (
    <div class="grid-tools">
      <button
        type="button"
        aria-pressed={table.filtering}
        onClick={table.toggleFilter}
        title="a line of conditions: >1MiB, <10, =text, ~regex">
        Filter
      </button>
      {layout.hidden > 0 && (
        <button type="button" onClick={layout.showAll}>
          Show {layout.hidden} hidden
        </button>
      )}
      <span class="dim" role="status">
        {n === rows ? '' : `${n.toLocaleString('en-US')} of ${rows.toLocaleString('en-US')} rows pass`}
      </span>
    </div>
  );
}

export function Grid(p: GridProps) {
  const { columns, rows, onEnd, onMenu } = p;
  const box = useRef<HTMLDivElement>(null);
  const id = useMemo(() => `cell${++grids}`, []); // a page may have several
  const [said, setSaid] = useState('');
  const table = useRows(p, setSaid);
  const { shown } = table;
  const layout = useColumns(columns, rows);
  const cells = useCells(p, box, shown, layout, setSaid);
  useEffect(() => {
    layout.begin();
    table.begin();
    cells.begin();
  }, [columns.map((c) => c.name).join('\u001f')]);
  const { range, look } = useRange(box, shown.length);
  const onKey = (e: KeyboardEvent) => keyDown(e, id, cells, box.current!, onMenu);
  const onScroll = (e: Event) => {
    look();
    const el = e.currentTarget as HTMLElement;
    if (onEnd && el.scrollTop + el.clientHeight > el.scrollHeight - 400) onEnd();
  };
  const { at } = cells;
  return (
    <div class="grid-box">
      <Tools table={table} layout={layout} rows={rows.length} />
      <div
        class="grid"
        role="grid"
        aria-label={p.label}
        aria-rowcount={Math.max(shown.length, p.total ?? 0) + 1}
        aria-colcount={layout.visible.length}
        tabIndex={0}
        ref={box}
        onKeyDown={onKey}
        onScroll={onScroll}
        aria-activedescendant={shown.length ? `${id}-${at.row}-${at.column}` : undefined}
        style={p.height ? { height: `${p.height}px` } : undefined}>
        <GridHead columns={columns} layout={layout} table={table} onFilter={p.onFilter} />
        <GridBody grid={p} id={id} range={range} layout={layout} cells={cells} />
      </div>
      {!shown.length && (
        <p class="empty small">{rows.length ? 'No row passes the conditions.' : (p.empty ?? 'No rows.')}</p>
      )}
      <div class="sr" aria-live="polite">
        {said}
      </div>
    </div>
  );
}
