// What the tabs of the managed heap share: names, tables that the server sorts, progress.
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { bytes, clock, count, exact, safe } from '../app/format';
import { type Cell, Grid, type GridColumn, RowsMenu, type Sort } from '../parts/grid';
import { type HeapDump, heapQuestion, params, where, working } from './heap-api';
import { Busy, Failed, useAnswer } from '../parts/parts';
import { sqlHref } from '../parts/show-sql';
import { place } from '../app/state';

/** Lambdas, boxes made by compilers, merged code: what a name tells that is not its own. */
export function explain(name: string): string {
  if (name.includes('[DEDUPED]')) return 'DEDUPED: the optimizer merged several classes or methods into one; the name is one of them';
  if (/\$\$Lambda|\$\$ExternalSyntheticLambda/.test(name)) return 'made at run time for a lambda expression';
  return '';
}

export const bare = (type: string) => type.replace(/^(ROOT|HEAP_TYPE|KIND)_/, '').toLowerCase().replace(/_/g, ' ');

/** A class as text with the recorded name behind it. */
export const classTip = (name: string, raw: string) => [safe(name), raw && `recorded as ${safe(raw)}`, explain(name)].filter(Boolean).join('\n');

export const Bytes = ({ v }: { v: number }) => <span title={`${exact(v)} B`}>{bytes(v)}</span>;

export const sizeColumn = (name: string, hint: string, width = 92): GridColumn => ({ name, hint, numeric: true, width, show: (v) => bytes(Number(v)), tip: (v) => `${exact(Number(v))} B` });
export const countColumn = (name: string, hint: string, width = 84): GridColumn => ({ name, hint, numeric: true, width, show: (v) => count(Number(v)), tip: (v) => exact(Number(v)) });

/** How far the server is. */
export function Working({ what }: { what: string }) {
  const w = working.value;
  if (!w) return <Busy what={what} />;
  return (
    <div class="empty" role="status"><p>Working out {w.working}: {w.done} of {w.parts} {w.parts === 1 ? 'part' : 'parts'}</p>
      <progress max={w.parts} value={w.done + 0.5} aria-label={`Working out ${w.working}`} /></div>
  );
}

export interface Rows { rows: number; data: Cell[][]; [more: string]: unknown }

const PAGE = 200;
const MOST = 100_000;

/** A table of any length whose rows the server sorts and picks. sorts: by column, the server's word. */
export function ServerTable({ dump, name, query, cells, columns, sorts, begin, label, sql, empty, children, say, isOn, onRow, onMenu, height }: {
  dump: HeapDump; name: string; query: Record<string, string | number | undefined>; columns: GridColumn[]; sorts: string[]; begin: Sort; label: string; sql?: string; empty?: string;
  cells?(row: Cell[]): Cell[]; // as the columns want them; more may follow
  children?: ComponentChildren; say?(r: Rows): ComponentChildren; isOn?(r: Cell[]): boolean; onRow?(r: Cell[]): void; onMenu?(r: Cell[], x: number, y: number): void; height?: number;
}) {
  const trace = place.value.trace;
  const [by, setBy] = useState<Sort>(begin);
  const [pages, setPages] = useState(1);
  const [all, setAll] = useState(false);
  const asked = params({ ...where(dump), ...query, sort: sorts[by.column], order: by.down ? 'desc' : 'asc' });
  const limit = all ? MOST : pages * PAGE;
  const answer = useAnswer(`${name} ${trace}?${asked}&limit=${limit}`, () => heapQuestion<Rows>(trace, name, `${asked}&limit=${limit}`));
  useEffect(() => setPages(1), [asked]);
  const there = answer.value?.rows ?? 0;
  const rows = useMemo(() => (cells ? (answer.value?.data ?? []).map(cells) : answer.value?.data ?? []), [answer.value]);
  const sorting = useMemo(() => [begin], []);
  const onSort = (next: Sort[]): boolean => {
    setAll(next.length > 1); // the server knows one order; more are made of all rows here
    if (next.length === 1 && sorts[next[0].column]) setBy(next[0]);
    else if (!next.length) setBy(begin);
    return next.length < 2 && (!next.length || !!sorts[next[0].column]);
  };
  return (
    <>
      <div class="bar">{children}<span class="grow" />
        <RowsMenu columns={columns} rows={rows} name={name} load={async () => (await heapQuestion<Rows>(trace, name, `${asked}&limit=${MOST}`)).data.map((r) => (cells ? cells(r) : r))} />
        {sql && <a class="button" href={sqlHref(sql)} title="the query that gives these numbers">SQL</a>}</div>
      {answer.error && <Failed text={answer.error} />}
      {answer.busy && !answer.value && <Working what="Summing up" />}
      {answer.value && <Grid columns={columns} rows={rows} label={label} sort={sorting} total={there} onSort={onSort} onFilter={() => setAll(true)} height={height}
        onEnd={() => { if (rows.length < there && !answer.busy && !all) setPages(pages + 1); }} isOn={isOn} onRow={onRow} onMenu={onMenu} empty={empty} />}
      {answer.value && <p class="statement">{count(there)} {there === 1 ? 'row' : 'rows'}{say && <> · {say(answer.value)}</>}{all && there > MOST ? ` · conditions look at the first ${count(MOST)}` : ''}</p>}
    </>
  );
}

export const dumpTime = (d: HeapDump, all: HeapDump[]) => {
  const first = all.filter((x) => x.upid === d.upid)[0]?.ts ?? d.ts;
  return `+${clock(d.ts - first)}`;
};
