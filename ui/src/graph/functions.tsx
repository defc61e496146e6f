// Functions with their callers and callees.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { functions } from '../app/answers';
import { exactly } from '../app/filters';
import {
  amount,
  base,
  bytes,
  certainty,
  count,
  fit,
  isBytes,
  isLive,
  isRough,
  isTemporary,
  percent,
  safe,
} from '../app/format';
import { selection } from '../app/selection';
import { go, place } from '../app/state';
import type { FunctionRow, Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { type Cell, type GridColumn, type Sort, toMarkdown } from '../parts/cells';
import { MetricChoice, MetricNote } from '../parts/choice';
import { ExportButton } from '../parts/export';
import { addFilter, FilterBar } from '../parts/filters';
import { Grid } from '../parts/grid';
import { type Item, Menu } from '../parts/menu';
import { RowsMenu } from '../parts/rows-menu';
import type { ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { Share } from '../parts/share';
import { functionSql, functionsSql, showSql } from '../parts/show-sql';
import { Busy } from '../parts/words';
import { Sandwich } from './sandwich';
import { toSource } from './source-of';

const PAGE = 200;
/** Rows of the table: what is shown, and behind it samples, error and samples of self. */
const cells = (r: FunctionRow): Cell[] => [
  r[0],
  r[1],
  r[2],
  r[3],
  r[5],
  r[4],
  r[4] ? r[3] / r[4] : null,
  r[6],
  r[7],
  r[8],
];
const SORTS = ['name', 'module', 'self', 'total', 'error', 'count', 'average'];
const MOST = 100_000;

function NameCell({
  v,
  row,
  onMenu,
}: {
  v: Cell;
  row: Cell[];
  onMenu(row: Cell[], x: number, y: number): void;
}) {
  const open = (e: MouseEvent) => {
    e.stopPropagation();
    const r = (e.currentTarget as Element).getBoundingClientRect();
    onMenu(row, r.left, r.bottom);
  };
  return (
    <span class="with-menu">
      <span>{safe(String(v))}</span>
      <button
        type="button"
        tabIndex={-1}
        aria-haspopup="menu"
        aria-label={`Menu of ${safe(String(v))}`}
        onClick={open}>
        ⋯
      </button>
    </span>
  );
}

const n = (v: Cell) => Number(v);
const err = (v: Cell) => (v === null ? null : Number(v));

function figureColumns(tracks: Tracks, total: number): GridColumn[] {
  const m = place.value.metric;
  return [
    {
      name: 'Self',
      hint: 'what it asked for itself',
      numeric: true,
      width: 120,
      narrow: 120,
      tip: (v, r) => certainty(err(r[8]), n(v), tracks.interval),
      draw: (v) => (
        <>
          {amount(n(v), m)} <small class="dim">{percent(n(v), total)}</small>
        </>
      ),
    },
    {
      name: 'Total',
      hint: 'what it and all it calls asked for; recursion counts once',
      numeric: true,
      width: 140,
      narrow: 92,
      draw: (v, r) => (
        <>
          <Share part={n(v)} whole={total} rough={isRough(n(r[7]), err(r[4]), n(v))} /> {amount(n(v), m)}
        </>
      ),
    },
    {
      name: 'Error',
      hint: 'the true total is within, with 95 % probability; ≈: fewer than ten samples, a hint',
      numeric: true,
      width: 72,
      narrow: 0,
      tip: (_, r) => `${count(n(r[7]))} samples`,
      show: (v, r) =>
        `${isRough(n(r[7]), err(v), n(r[3])) ? '≈ ' : ''}${certainty(err(v), n(r[3]), tracks.interval)}`,
    },
    {
      name: 'Count',
      hint: 'allocations behind the total',
      numeric: true,
      width: 66,
      narrow: 0,
      show: (v) => count(n(v)),
    },
    {
      name: 'Each',
      hint: 'total by count',
      numeric: true,
      width: 76,
      narrow: 0,
      draw: (v) => (isBytes(m) && v !== null ? bytes(n(v)) : ''),
    },
  ];
}

function columnsOf(
  tracks: Tracks,
  total: number,
  onMenu: (row: Cell[], x: number, y: number) => void,
): GridColumn[] {
  return [
    {
      name: 'Function',
      hint: 'the function, as its symbol says',
      numeric: false,
      width: 170,
      narrow: 150,
      draw: (v, row) => <NameCell v={v} row={row} onMenu={onMenu} />,
    },
    {
      name: 'Module',
      hint: 'the file it is in; the program by the name it was started with',
      numeric: false,
      width: 80,
      narrow: 0,
      show: (v) => safe(base(String(v))),
    },
    ...figureColumns(tracks, total),
  ];
}

function itemsOf(row: Cell[], columns: GridColumn[], tracks: Tracks): (Item | null)[] {
  const name = String(row[0]);
  const kept = place.value.filters.filter((f) => !/^!?(P|SFF):/.test(f));
  const to = (page: string, filter: string) => () =>
    go({ page, filters: [...kept, `${filter}:${exactly(name)}`], zoom: '' });
  return [
    { label: 'Flamegraph from here', act: to('flame', 'SFF') },
    { label: 'Flamegraph of stacks with it', act: to('flame', 'SS') },
    { label: 'Pivot: callers and callees', act: to('flame', 'P') },
    null,
    { label: 'Hide stacks with this', act: () => addFilter(`HS:${exactly(name)}`) },
    { label: 'Merge into its caller', act: () => addFilter(`HF:${exactly(name)}`) },
    ...(row[1]
      ? [{ label: 'Keep stacks in this module', act: () => addFilter(`M:${exactly(String(row[1]))}`) }]
      : []),
    null,
    { label: 'Callers and callees beside', act: () => go({ fn: name }) },
    { label: 'Allocation sizes here', act: to('sizes', 'SS') },
    { label: 'Source', act: () => void toSource(name) },
    { label: 'Instructions', act: () => go({ page: 'source', view: 'code', fn: name }) },
    { label: 'SQL for this function', act: () => showSql(functionSql(tracks, name)) },
    null,
    { label: 'Copy name', act: () => void navigator.clipboard?.writeText(name) },
    {
      label: 'Copy row as Markdown',
      act: () => void navigator.clipboard?.writeText(toMarkdown(columns, [row.slice(0, columns.length)])),
    },
  ];
}

/** The rows that are here: some pages of them, or all when conditions or several orders look at them. */
function useFunctions(tracks: Tracks, match: string, onMenu: (row: Cell[], x: number, y: number) => void) {
  const p = place.value;
  const [sort, order] = (p.sort || 'self desc').split(' ');
  const query = `${selection.value}&sort=${sort}&order=${order}&match=${encodeURIComponent(match)}`;
  const [pages, setPages] = useState(1);
  const [all, setAll] = useState(false);
  const limit = all ? MOST : pages * PAGE;
  const answer = useAnswer(`${p.trace}?${query}&limit=${limit}`, () =>
    functions(p.trace, `${query}&limit=${limit}`),
  );
  const there = answer.value?.rows ?? 0;
  const total = answer.value?.total ?? 0;
  const rows = useMemo(() => (answer.value?.data ?? []).map(cells), [answer.value]);
  const columns = useMemo(() => columnsOf(tracks, total, onMenu), [tracks, total, p.metric]);
  const sorting = useMemo(() => [{ column: Math.max(0, SORTS.indexOf(sort)), down: order !== 'asc' }], []);
  useEffect(() => setPages(1), [query]);
  return {
    answer,
    there,
    total,
    rows,
    columns,
    sorting,
    all,
    takeAll: () => setAll(true),
    more: () => {
      if (rows.length < there && !answer.busy && !all) setPages(pages + 1);
    },
    load: async () => (await functions(p.trace, `${query}&limit=${MOST}`)).data.map(cells),
    onSort(by: Sort[]): boolean {
      setAll(all || by.length > 1); // the server knows one order; more are made of all rows here
      if (by.length < 2)
        go({ sort: by.length ? `${SORTS[by[0].column]} ${by[0].down ? 'desc' : 'asc'}` : '' }, true);
      return by.length < 2;
    },
  };
}

type Shown = ReturnType<typeof useFunctions>;

function Bar({
  f,
  match,
  onMatch,
  tracks,
}: {
  f: Shown;
  match: string;
  onMatch(text: string): void;
  tracks: Tracks;
}) {
  return (
    <div class="bar">
      <MetricChoice tracks={tracks} />
      <span class="grow" />
      <input
        type="search"
        aria-label="Find functions"
        placeholder="Find functions"
        value={match}
        onInput={(e) => onMatch(e.currentTarget.value)}
      />
      <RowsMenu columns={f.columns} rows={f.rows} name="functions" load={f.load} />
      <ExportButton />
      <button
        type="button"
        title="the query that gives these numbers"
        onClick={() => showSql(functionsSql(tracks, match))}>
        SQL
      </button>
    </div>
  );
}

function Sum({ f }: { f: Shown }) {
  const m = place.value.metric;
  const what = isTemporary(m) ? 'freed again within a second' : isLive(m) ? 'live' : 'allocated';
  return (
    <p class="statement">
      {count(f.there)} functions · {amount(f.total, m)} {what} in all
      {f.all && f.there > MOST ? ` · conditions look at the first ${count(MOST)}` : ''}
    </p>
  );
}

function Functions({ tracks }: { tracks: Tracks }) {
  const p = place.value;
  const [match, setMatch] = useState('');
  const [menu, setMenu] = useState<{ row: Cell[]; x: number; y: number } | null>(null);
  const onMenu = (row: Cell[], x: number, y: number) => setMenu({ row, x, y });
  const f = useFunctions(tracks, match, onMenu);
  const { answer, rows, columns } = f;
  return (
    <div class="split">
      <div class="column">
        <Bar f={f} match={match} onMatch={setMatch} tracks={tracks} />
        <MetricNote />
        <FilterBar problem={answer.error} />
        {answer.value && (
          <Grid
            columns={columns}
            rows={rows}
            label="Functions"
            sort={f.sorting}
            total={f.there}
            onSort={f.onSort}
            onFilter={f.takeAll}
            onEnd={f.more}
            isOn={(r) => r[0] === (p.fn || rows[0]?.[0])}
            onRow={(r) => go({ fn: String(r[0]) }, true)}
            onMenu={onMenu}
            empty={`No function ${match ? 'matches' : 'has anything here'}.`}
          />
        )}
        {answer.busy && !answer.value && <Busy what="Summing up" />}
        <Sum f={f} />
      </div>
      <Sandwich name={p.fn || String(rows[0]?.[0] ?? '')} />
      {menu && (
        <Menu
          title={fit(safe(String(menu.row[0])), 60)}
          x={menu.x}
          y={menu.y}
          items={itemsOf(menu.row, columns, tracks)}
          onClose={() => setMenu(null)}
        />
      )}
    </div>
  );
}

export const FunctionsPage = ({ tracks, all }: ProfileProps) => (
  <>
    <SelectionBar tracks={tracks} all={all} sum />
    <Functions tracks={tracks} />
  </>
);
