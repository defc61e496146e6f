// What the tabs of the managed heap share: names, tables that the server sorts, progress.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { bytes, clock, count, exact, safe } from '../app/format';
import { place } from '../app/state';
import { useAnswer } from '../parts/answer';
import type { Cell, GridColumn, Sort } from '../parts/cells';
import { Grid } from '../parts/grid';
import { RowsMenu } from '../parts/rows-menu';
import { sqlHref } from '../parts/show-sql';
import { Busy, Failed } from '../parts/words';
import { type HeapDump, heapQuestion, params, where, working } from './heap-api';

/** Lambdas, boxes made by compilers, merged code: what a name tells that is not its own. */
export function explain(name: string): string {
  if (name.includes('[DEDUPED]'))
    return 'DEDUPED: the optimizer merged several classes or methods into one; the name is one of them';
  if (/\$\$Lambda|\$\$ExternalSyntheticLambda/.test(name)) return 'made at run time for a lambda expression';
  return '';
}

export const bare = (type: string) =>
  type
    .replace(/^(ROOT|HEAP_TYPE|KIND)_/, '')
    .toLowerCase()
    .replace(/_/g, ' ');

/** A class as text with the recorded name behind it. */
export const classTip = (name: string, raw: string) =>
  [safe(name), raw && `recorded as ${safe(raw)}`, explain(name)].filter(Boolean).join('\n');

export const Bytes = ({ v }: { v: number }) => <span title={`${exact(v)} B`}>{bytes(v)}</span>;

export const sizeColumn = (name: string, hint: string, width = 92): GridColumn => ({
  name,
  hint,
  numeric: true,
  width,
  show: (v) => bytes(Number(v)),
  tip: (v) => `${exact(Number(v))} B`,
});
export const countColumn = (name: string, hint: string, width = 84): GridColumn => ({
  name,
  hint,
  numeric: true,
  width,
  show: (v) => count(Number(v)),
  tip: (v) => exact(Number(v)),
});

/** How far the server is. */
export function Working({ what }: { what: string }) {
  const w = working.value;
  if (!w) return <Busy what={what} />;
  return (
    <div class="empty" role="status">
      <p>
        Working out {w.working}: {w.done} of {w.parts} {w.parts === 1 ? 'part' : 'parts'}
      </p>
      <progress max={w.parts} value={w.done + 0.5} aria-label={`Working out ${w.working}`} />
    </div>
  );
}

export interface Rows {
  rows: number;
  data: Cell[][];
  [more: string]: unknown;
}

const PAGE = 200;
const MOST = 100_000;

interface TableProps {
  dump: HeapDump;
  name: string;
  query: Record<string, string | number | undefined>;
  columns: GridColumn[];
  begin: Sort;
  label: string;
  sql?: string;
  empty?: string;
  sorts: string[]; // by column, the server's word
  cells?(row: Cell[]): Cell[]; // as the columns want them; more may follow
  children?: ComponentChildren;
  say?(r: Rows): ComponentChildren;
  isOn?(r: Cell[]): boolean;
  onRow?(r: Cell[]): void;
  onMenu?(r: Cell[], x: number, y: number): void;
  height?: number;
}

/** The rows that are here, in the server's order or all of them. */
function useServerRows({ dump, name, query, sorts, begin, cells }: TableProps) {
  const trace = place.value.trace;
  const [by, setBy] = useState<Sort>(begin);
  const [pages, setPages] = useState(1);
  const [all, setAll] = useState(false);
  const asked = params({ ...where(dump), ...query, sort: sorts[by.column], order: by.down ? 'desc' : 'asc' });
  const limit = all ? MOST : pages * PAGE;
  const ask = (n: number) => heapQuestion<Rows>(trace, name, `${asked}&limit=${n}`);
  const answer = useAnswer(`${name} ${trace}?${asked}&limit=${limit}`, () => ask(limit));
  useEffect(() => setPages(1), [asked]);
  const there = answer.value?.rows ?? 0;
  const shape = (data: Cell[][]) => (cells ? data.map(cells) : data);
  const rows = useMemo(() => shape(answer.value?.data ?? []), [answer.value]);
  return {
    answer,
    rows,
    there,
    all,
    takeAll: () => setAll(true),
    more: () => {
      if (rows.length < there && !answer.busy && !all) setPages(pages + 1);
    },
    load: async () => shape((await ask(MOST)).data),
    onSort(next: Sort[]): boolean {
      setAll(next.length > 1); // the server knows one order; more are made of all rows here
      if (next.length === 1 && sorts[next[0].column]) setBy(next[0]);
      else if (!next.length) setBy(begin);
      return next.length < 2 && (!next.length || !!sorts[next[0].column]);
    },
  };
}

/** A table of any length whose rows the server sorts and picks. */
export function ServerTable(p: TableProps) {
  const { answer, rows, there, all, takeAll, more, load, onSort } = useServerRows(p);
  const sorting = useMemo(() => [p.begin], []);
  return (
    <>
      <div class="bar">
        {p.children}
        <span class="grow" />
        <RowsMenu columns={p.columns} rows={rows} name={p.name} load={load} />
        {p.sql && (
          <a class="button" href={sqlHref(p.sql)} title="the query that gives these numbers">
            SQL
          </a>
        )}
      </div>
      {answer.error && <Failed text={answer.error} />}
      {answer.busy && !answer.value && <Working what="Summing up" />}
      {answer.value && (
        <Grid
          columns={p.columns}
          rows={rows}
          label={p.label}
          sort={sorting}
          total={there}
          onSort={onSort}
          onFilter={takeAll}
          height={p.height}
          onEnd={more}
          isOn={p.isOn}
          onRow={p.onRow}
          onMenu={p.onMenu}
          empty={p.empty}
        />
      )}
      {answer.value && (
        <p class="statement">
          {count(there)} {there === 1 ? 'row' : 'rows'}
          {p.say && <> · {p.say(answer.value)}</>}
          {all && there > MOST ? ` · conditions look at the first ${count(MOST)}` : ''}
        </p>
      )}
    </>
  );
}

export const dumpTime = (d: HeapDump, all: HeapDump[]) => {
  const first = all.filter((x) => x.upid === d.upid)[0]?.ts ?? d.ts;
  return `+${clock(d.ts - first)}`;
};
