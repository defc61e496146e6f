// The rows of a table that are seen.
import { safe } from '../app/format';
import { type Cell, cellText, type GridColumn, type GridProps } from './cells';
import { type Cells, type Columns, ROW } from './grid-state';

function BodyCell({
  id,
  c,
  value,
  row,
  r,
  k,
  cells,
}: {
  id: string;
  c: GridColumn;
  value: Cell;
  row: Cell[];
  r: number;
  k: number;
  cells: Cells;
}) {
  const { at, within, select } = cells;
  const text = cellText(c, value, row);
  const to = value === null ? '' : (c.link?.(value, row) ?? '');
  const here = { row: r, column: k };
  return (
    <span
      role="gridcell"
      id={`${id}-${r}-${k}`}
      aria-selected={within(r, k)}
      class={`${c.numeric ? 'num' : ''} ${value === null ? 'null' : ''} ${r === at.row && k === at.column ? 'at' : ''}`}
      title={value === null ? 'NULL' : (c.tip?.(value, row) ?? safe(String(value)))}
      onPointerDown={(e) => {
        if (e.button === 0 && !(e.target as Element).closest('a')) select(here, e.shiftKey);
      }}
      onPointerEnter={(e) => {
        if (e.buttons & 1) select(here, true);
      }}>
      {c.draw ? (
        c.draw(value, row)
      ) : to ? (
        <a href={to} tabIndex={-1}>
          {text}
        </a>
      ) : (
        text
      )}
    </span>
  );
}

export function GridBody({
  grid,
  id,
  range,
  layout,
  cells,
}: {
  grid: GridProps;
  id: string;
  range: { first: number; n: number };
  layout: Columns;
  cells: Cells;
}) {
  const { columns, isOn, onRow, onMenu } = grid;
  const { shown } = cells;
  const menu = (row: Cell[]) => (e: MouseEvent) => {
    if (!onMenu) return;
    e.preventDefault();
    onMenu(row, e.clientX, e.clientY);
  };
  return (
    <div
      role="rowgroup"
      class="grid-body"
      style={{ height: `${shown.length * ROW}px`, minWidth: `${layout.wide}px` }}>
      {shown.slice(range.first, Math.min(shown.length, range.first + range.n)).map((r, n) => {
        const row = range.first + n;
        return (
          <div
            role="row"
            aria-rowindex={row + 2}
            class={`grid-row ${isOn?.(r) ? 'on' : ''}`}
            onClick={() => onRow?.(r)}
            onContextMenu={menu(r)}
            style={{ top: `${row * ROW}px`, gridTemplateColumns: layout.template }}>
            {layout.visible.map((i, k) => (
              <BodyCell id={id} c={columns[i]} value={r[i]} row={r} r={row} k={k} cells={cells} />
            ))}
          </div>
        );
      })}
    </div>
  );
}
