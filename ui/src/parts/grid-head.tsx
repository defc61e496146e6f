// The head of a table: names that sort, grips that resize, and the line of conditions.
import { safe } from '../app/format';
import type { GridColumn } from './cells';
import type { Columns, Rows } from './grid-state';

function HeadCell({ c, i, layout, table }: { c: GridColumn; i: number; layout: Columns; table: Rows }) {
  const { by } = table;
  const k = by.findIndex((s) => s.column === i);
  const onKey = (e: KeyboardEvent) => {
    if (e.altKey && (e.key === 'ArrowLeft' || e.key === 'ArrowRight'))
      layout.shift(i, e.key === 'ArrowLeft' ? -1 : 1);
    else if (e.key === 'Delete' && layout.visible.length > 1) layout.hide(i);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const onDrop = (e: DragEvent) => {
    e.preventDefault();
    layout.drop(Number(e.dataTransfer!.getData('text/plain')), i);
  };
  return (
    <span
      role="columnheader"
      class={c.numeric ? 'num' : ''}
      aria-sort={k < 0 ? 'none' : by[k].down ? 'descending' : 'ascending'}
      draggable
      onDragStart={(e) => e.dataTransfer!.setData('text/plain', String(i))}
      onDragOver={(e) => e.preventDefault()}
      onDrop={onDrop}>
      <button
        type="button"
        title={`${c.hint ?? c.name}\nclick: sort, Shift: by this too; Alt+←/→: move, Delete: hide`}
        onClick={(e) => table.sort(i, e.shiftKey)}
        onKeyDown={onKey}>
        {safe(c.name)}
        {k >= 0 ? (by[k].down ? ' ▼' : ' ▲') + (by.length > 1 ? k + 1 : '') : ''}
      </button>
      <i class="grip" onPointerDown={(e) => layout.resize(i, e)} />
    </span>
  );
}

export function GridHead({
  columns,
  layout,
  table,
  onFilter,
}: {
  columns: GridColumn[];
  layout: Columns;
  table: Rows;
  onFilter?(): void;
}) {
  const { visible, template, wide } = layout;
  return (
    <div class="grid-head" role="rowgroup" style={{ minWidth: `${wide}px` }}>
      <div role="row" class="grid-row" style={{ gridTemplateColumns: template }}>
        {visible.map((i) => (
          <HeadCell c={columns[i]} i={i} layout={layout} table={table} />
        ))}
      </div>
      {table.filtering && (
        <div role="row" class="grid-row filter" style={{ gridTemplateColumns: template }}>
          {visible.map((i) => (
            <span role="gridcell">
              <input
                type="text"
                class={table.wrong.includes(i) ? 'wrong' : ''}
                aria-invalid={table.wrong.includes(i)}
                aria-label={`Condition on ${safe(columns[i].name)}`}
                value={table.filters[i] ?? ''}
                placeholder={columns[i].numeric ? '>1MiB' : 'text, ~regex'}
                onInput={(e) => {
                  table.filter(i, e.currentTarget.value);
                  onFilter?.();
                }}
              />
            </span>
          ))}
        </div>
      )}
    </div>
  );
}
