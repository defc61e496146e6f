// One result: as a table, a chart, a pivot or a flamegraph.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { count } from '../app/format';
import type { Result, Trace } from '../app/types';
import type { GridColumn, Sort } from '../parts/cells';
import { Choice } from '../parts/choice';
import { Grid } from '../parts/grid';
import { RowsMenu } from '../parts/rows-menu';
import { ResultChart } from './result-chart';
import { ResultFlame, treeColumns } from './result-flame';
import { ResultPivot } from './result-pivot';
import { columnsOf } from './sql-columns';
import { MOST, type Outcome } from './sql-run';

type View = 'table' | 'chart' | 'pivot' | 'flame';

function Cut({ n, outcome, onMore }: { n: number; outcome: Outcome; onMore(): void }) {
  return (
    <span class="chip warn">
      only the first {count(n)} are shown{' '}
      {outcome.limit < MOST && !outcome.stopped && (
        <button type="button" onClick={onMore}>
          show up to {count(Math.min(MOST, outcome.limit * 10))}
        </button>
      )}
    </span>
  );
}

const VIEWS: { id: View; label: string }[] = [
  { id: 'table', label: 'Table' },
  { id: 'chart', label: 'Chart' },
  { id: 'pivot', label: 'Pivot' },
];

function Shown({
  view,
  columns,
  result,
  tree,
  onSort,
}: {
  view: View;
  columns: GridColumn[];
  result: Result;
  tree: boolean;
  onSort(by: Sort[], names: string[]): boolean;
}) {
  const { rows } = result;
  const key = result.columns.join();
  if (view === 'chart') return <ResultChart columns={columns} rows={rows} key={key} />;
  if (view === 'pivot') return <ResultPivot columns={columns} rows={rows} key={key} />;
  if (view === 'flame') return tree ? <ResultFlame columns={columns} rows={rows} /> : null;
  return (
    <Grid
      columns={columns}
      rows={rows}
      label="Rows of the result"
      empty="The query returned no rows."
      onSort={(by) => result.truncated && onSort(by, result.columns)}
    />
  );
}

export function ResultBox({
  outcome,
  result,
  index,
  trace,
  inBytes,
  onMore,
  onSort,
  onStack,
  name,
}: {
  outcome: Outcome;
  result: Result;
  index: number;
  trace: Trace;
  inBytes: boolean;
  name: string;
  onMore(): void;
  onSort(by: Sort[], names: string[]): boolean;
  onStack(): void;
}) {
  const [view, setView] = useState<View>('table');
  const columns = useMemo(() => columnsOf(result, inBytes, trace.id), [result, inBytes]);
  const tree = treeColumns(columns) !== null;
  const stacks = !tree && result.columns.includes('callsite_id') && result.columns.includes('value');
  useEffect(() => {
    if (view === 'flame' && !tree) setView('table');
  }, [result]);
  const n = result.rows.length;
  return (
    <section class="result" aria-label={outcome.results.length > 1 ? `Result ${index + 1}` : 'Result'}>
      <div class="bar">
        <Choice
          label="View"
          value={view}
          onChange={(v: View) => setView(v)}
          options={tree ? [...VIEWS, { id: 'flame' as View, label: 'Flamegraph' }] : VIEWS}
        />
        <span class="rows-count">
          <b>{count(n)}</b> {n === 1 ? 'row' : 'rows'}
        </span>
        {result.truncated && <Cut n={n} outcome={outcome} onMore={onMore} />}
        <span class="grow" />
        {stacks && (
          <button type="button" onClick={onStack}>
            As flamegraph
          </button>
        )}
        <RowsMenu columns={columns} rows={result.rows} name={name} />
      </div>
      <Shown view={view} columns={columns} result={result} tree={tree} onSort={onSort} />
    </section>
  );
}
