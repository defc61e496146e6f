// What each process's allocators hold; a cell leads to the heap's details.
import { base, bytes, clock, exact, safe } from '../app/format';
import { go, place } from '../app/state';
import { Scroll } from '../parts/table';
import type { InfraCell, InfraRow, InfraTable } from './infra-api';
import { Change } from './infra-words';

const SOURCES = {
  heap: 'the trace has no memory dump of this moment: what the profile saw asked for and not freed',
  malloc_info: 'malloc’s own figures: what it got from the kernel',
};

function Figure({ c, diff, total, start }: { c: InfraCell; diff: boolean; total: boolean; start: number }) {
  const title = [
    c.now !== undefined ? `${exact(c.now)} B` : 'not in this dump',
    diff ? (c.base !== undefined ? `before: ${exact(c.base)} B` : 'not in the dump before') : '',
    c.at !== undefined ? `of ${clock(c.at - start)}` : '',
    c.source ? SOURCES[c.source] : '',
  ]
    .filter(Boolean)
    .join('\n');
  // A node that was not told held nothing; a total that was not told is unknown.
  if (
    (c.now === undefined && c.base === undefined) ||
    (diff && total && (c.now === undefined || c.base === undefined))
  )
    return (
      <span class="dim" title={title}>
        –
      </span>
    );
  return (
    <span title={title}>
      {diff ? <Change v={(c.now ?? 0) - (c.base ?? 0)} /> : c.now === undefined ? '–' : bytes(c.now)}
      {c.source === 'heap' && <span class="dim">*</span>}
    </span>
  );
}

/** Where a click on ☰ leads: to the details, with Ctrl to a comparison with the heap that is shown. */
function choose(e: MouseEvent, id: string): void {
  const p = place.value;
  const mine = p.cell === id;
  if ((e.ctrlKey || e.metaKey) && p.cell) go({ other: p.other === id || mine ? '' : id, otherfile: '' });
  else go({ cell: id, other: '', ...(mine ? {} : { root: '', row: '' }) });
}

function HeapButton({ row, name }: { row: InfraRow; name: string }) {
  const p = place.value;
  const id = `${row.upid} ${name}`;
  const label = `Heap details of ${safe(name)} in ${safe(base(row.name)) || 'process'} ${row.pid}${p.cell && p.cell !== id ? '; Ctrl+click: compare with it' : ''}`;
  return (
    <button
      type="button"
      class="plain menu-cell"
      aria-label={label}
      title={label}
      aria-pressed={p.cell === id}
      onClick={(e) => choose(e, id)}>
      ☰
    </button>
  );
}

function Row({ r, t, start }: { r: InfraRow; t: InfraTable; start: number }) {
  const diff = t.base !== null;
  return (
    <tr>
      <th scope="row">
        {safe(base(r.name)) || 'process'}{' '}
        <span class="dim">
          ({r.pid}){r.labels && ` ${safe(r.labels)}`}
        </span>
      </th>
      {r.cells.map((c, i) => (
        <td class={`num ${t.columns[i].total ? 'total' : ''}`}>
          {c ? (
            <Figure c={c} diff={diff} total={t.columns[i].total} start={start} />
          ) : (
            <span class="dim">–</span>
          )}
          {c?.heap ? <HeapButton row={r} name={t.columns[i].name} /> : <span class="no-cell" />}
        </td>
      ))}
    </tr>
  );
}

/** The column that the URL names, and its way: "name+" rises. */
function orderOf(t: InfraTable): { by: string; way: string; column: number } {
  const { order } = place.value;
  const by = order.slice(0, -1);
  return { by, way: order.slice(-1), column: t.columns.findIndex((c) => c.name === by) };
}

function sortedRows(t: InfraTable): InfraRow[] {
  const { by, way, column } = orderOf(t);
  const value = (c: InfraCell | null) =>
    c ? (c.now ?? 0) - (t.base !== null ? (c.base ?? 0) : 0) : -Infinity;
  return [...t.rows].sort((a, b) => {
    const up = way === '+' ? 1 : -1;
    if (column >= 0) return up * (value(a.cells[column]) - value(b.cells[column])) || a.pid - b.pid;
    return (by === 'process' && way === '-' ? -1 : 1) * (a.pid - b.pid);
  });
}

function HeadCell({
  t,
  name,
  label,
  cls = '',
}: {
  t: InfraTable;
  name: string;
  label: string;
  cls?: string;
}) {
  const { by, way, column } = orderOf(t);
  const process = name === 'process';
  const on = by === name || (process && column < 0);
  const up = on && (process ? way !== '-' : way === '+');
  return (
    <th scope="col" class={cls} aria-sort={on ? (up ? 'ascending' : 'descending') : undefined}>
      <button
        type="button"
        class="plain"
        onClick={() => go({ order: `${name}${on ? (up ? '-' : '+') : process ? '+' : '-'}` })}>
        {safe(label)}
        {on ? (up ? ' ▴' : ' ▾') : ''}
      </button>
    </th>
  );
}

export function Table({ t, start }: { t: InfraTable; start: number }) {
  const guess = t.rows.some((r) => r.cells.some((c) => c?.source === 'heap'));
  return (
    <>
      <Scroll label="Processes and allocators">
        <table class="top infra">
          <thead>
            <tr>
              <HeadCell t={t} name="process" label="Process" />
              {t.columns.map((c) => (
                <HeadCell t={t} name={c.name} label={c.name} cls={`num ${c.total ? 'total' : ''}`} />
              ))}
            </tr>
          </thead>
          <tbody>
            {sortedRows(t).map((r) => (
              <Row r={r} t={t} start={start} />
            ))}
          </tbody>
        </table>
      </Scroll>
      {guess && (
        <p class="dim small">
          * no memory dump was written at this moment: the figure is what the profile saw asked for and not
          freed.
        </p>
      )}
    </>
  );
}
