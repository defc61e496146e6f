// A result summed up by columns that are dragged to rows and across.
import { useMemo, useState } from 'preact/hooks';
import { safe } from '../app/format';
import type { Cell, GridColumn } from '../parts/cells';
import { type Aggregate, AGGREGATES, MAX_COLUMNS, type Pivot, pivot, pivotKey, type PivotRow } from './pivot';
import { isBytesName, short } from './result-numbers';

type Where = 'rows' | 'columns' | 'none';

/** One column, and where else it could stand. */
function Chip({
  where,
  name,
  onPut,
  onDrag,
}: {
  where: Where;
  name: string;
  onPut(where: Where): void;
  onDrag(e: DragEvent | null): void;
}) {
  return (
    <span class="chip" draggable onDragStart={onDrag} onDragEnd={() => onDrag(null)}>
      {name}
      {where !== 'rows' && (
        <button type="button" title="to rows" aria-label={`${name}: to rows`} onClick={() => onPut('rows')}>
          ↓
        </button>
      )}
      {where !== 'columns' && (
        <button
          type="button"
          title="to columns"
          aria-label={`${name}: to columns`}
          onClick={() => onPut('columns')}>
          →
        </button>
      )}
      {where !== 'none' && (
        <button type="button" title="away" aria-label={`${name}: away`} onClick={() => onPut('none')}>
          ×
        </button>
      )}
    </span>
  );
}

/** Columns of the result that stand in one place; they are dragged from one to another. */
function Zone({
  where,
  label,
  list,
  columns,
  dragged,
  onDrag,
  onPut,
}: {
  where: Where;
  label: string;
  list: number[];
  columns: GridColumn[];
  dragged: number;
  onDrag(column: number): void;
  onPut(where: Where, column: number): void;
}) {
  const drop = (e: DragEvent) => {
    e.preventDefault();
    onPut(where, dragged);
    onDrag(-1);
  };
  const drag = (e: DragEvent | null, i: number) => {
    e?.dataTransfer!.setData('text/plain', String(i));
    onDrag(e ? i : -1);
  };
  return (
    <div
      class={`zone ${dragged >= 0 ? 'ready' : ''}`}
      role="group"
      aria-label={label}
      onDragOver={(e) => e.preventDefault()}
      onDrop={drop}>
      <span class="label">{label}</span>
      {list.map((i) => (
        <Chip
          where={where}
          name={safe(columns[i].name)}
          onPut={(to) => onPut(to, i)}
          onDrag={(e) => drag(e, i)}
        />
      ))}
    </div>
  );
}

function Row({
  row,
  open,
  word,
  onToggle,
}: {
  row: PivotRow;
  open: boolean;
  word(v: number | null): string;
  onToggle(): void;
}) {
  const name = safe(String(row.keys[row.keys.length - 1] ?? 'NULL'));
  return (
    <tr>
      <th scope="row" style={{ paddingLeft: `${8 + (row.depth - 1) * 16}px` }}>
        {row.children ? (
          <button type="button" class="plain" aria-expanded={open} onClick={onToggle}>
            {open ? '▾' : '▸'} {name}
          </button>
        ) : (
          name
        )}
      </th>
      {row.cells.map((v) => (
        <td class="num" title={v === null ? '' : String(v)}>
          {word(v)}
        </td>
      ))}
      <td class="num" title={String(row.total)}>
        {word(row.total)}
      </td>
    </tr>
  );
}

function PivotTable({
  p,
  shown,
  corner,
  by,
  open,
  word,
  onToggle,
}: {
  p: Pivot;
  shown: PivotRow[];
  corner: string;
  by: Aggregate;
  open: Set<string>;
  word(v: number | null): string;
  onToggle(keys: Cell[]): void;
}) {
  return (
    <div class="pivot-table" tabIndex={0} role="region" aria-label="Pivot">
      <table>
        <thead>
          <tr>
            <th scope="col">{corner}</th>
            {p.columns.map((k) => (
              <th scope="col" class="num">
                {safe(k.map((v) => v ?? 'NULL').join(' · '))}
              </th>
            ))}
            <th scope="col" class="num">
              {by}
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((r) => (
            <Row row={r} open={open.has(pivotKey(r.keys))} word={word} onToggle={() => onToggle(r.keys)} />
          ))}
          <tr class="sum">
            <th scope="row">all</th>
            {p.total.cells.map((v) => (
              <td class="num">{word(v)}</td>
            ))}
            <td class="num" title={String(p.total.total)}>
              {word(p.total.total)}
            </td>
          </tr>
        </tbody>
      </table>
    </div>
  );
}

/** What is summed up by what; begins with the first text by the likeliest number. */
function usePivot(columns: GridColumn[], rows: Cell[][]) {
  const text = columns.map((_, i) => i).filter((i) => !columns[i].numeric);
  const nums = columns.map((_, i) => i).filter((i) => columns[i].numeric);
  const [down, setDown] = useState<number[]>(text.length ? [text[0]] : [0]);
  const [across, setAcross] = useState<number[]>([]);
  const [value, setValue] = useState(
    nums.find((i) => isBytesName(columns[i].name)) ?? nums[nums.length - 1] ?? 0,
  );
  const [by, setBy] = useState<Aggregate>(nums.length ? 'sum' : 'count');
  const [open, setOpen] = useState(new Set<string>());
  const p = useMemo(
    () => pivot(rows, { rows: down, columns: across, value, by }, open),
    [rows, down, across, value, by, open],
  );
  const put = (where: Where, i: number) => {
    if (i < 0) return;
    const d = down.filter((x) => x !== i);
    const a = across.filter((x) => x !== i);
    setDown(where === 'rows' ? [...d, i] : d);
    setAcross(where === 'columns' ? [...a, i] : a);
    setOpen(new Set());
  };
  const toggle = (keys: Cell[]) => {
    const next = new Set(open);
    const k = pivotKey(keys);
    if (!next.delete(k)) next.add(k);
    setOpen(next);
  };
  return { p, down, across, value, setValue, by, setBy, open, put, toggle };
}

/** Where columns stand, and what is summed up. */
function PivotBars({ columns, s }: { columns: GridColumn[]; s: ReturnType<typeof usePivot> }) {
  const [dragged, setDragged] = useState(-1);
  const free = columns.map((_, i) => i).filter((i) => !s.down.includes(i) && !s.across.includes(i));
  const zone = (where: Where, label: string, list: number[]) => (
    <Zone
      where={where}
      label={label}
      list={list}
      columns={columns}
      dragged={dragged}
      onDrag={setDragged}
      onPut={s.put}
    />
  );
  return (
    <>
      <div class="bar">{zone('none', 'Columns of the result', free)}</div>
      <div class="bar">
        {zone('rows', 'Rows', s.down)}
        {zone('columns', 'Across', s.across)}
        <label>
          Value{' '}
          <select value={String(s.value)} onChange={(e) => s.setValue(Number(e.currentTarget.value))}>
            {columns.map((c, i) => (
              <option value={String(i)}>{safe(c.name)}</option>
            ))}
          </select>
        </label>
        <label>
          as{' '}
          <select
            aria-label="Summed up as"
            value={s.by}
            onChange={(e) => s.setBy(e.currentTarget.value as Aggregate)}>
            {AGGREGATES.map((a) => (
              <option>{a}</option>
            ))}
          </select>
        </label>
      </div>
    </>
  );
}

export function ResultPivot({ columns, rows }: { columns: GridColumn[]; rows: Cell[][] }) {
  const s = usePivot(columns, rows);
  const { p, by } = s;
  const inBytes = isBytesName(columns[s.value]?.name ?? '') && by !== 'count' && by !== 'distinct';
  const word = (v: number | null) => (v === null ? '' : short(v, inBytes));
  const shown = p.rows.slice(0, 2000);
  return (
    <div class="result-pivot">
      <PivotBars columns={columns} s={s} />
      <PivotTable
        p={p}
        shown={shown}
        corner={s.down.map((i) => safe(columns[i].name)).join(' › ') || 'all'}
        by={by}
        open={s.open}
        word={word}
        onToggle={s.toggle}
      />
      {p.rows.length > shown.length && (
        <p class="statement">
          the first {shown.length} of {p.rows.length} groups
        </p>
      )}
      {p.columns.length === MAX_COLUMNS && (
        <p class="statement">only the first {MAX_COLUMNS} columns across are shown</p>
      )}
    </div>
  );
}
