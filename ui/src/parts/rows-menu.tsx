// Rows of a table as a file or on the clipboard.
import { useState } from 'preact/hooks';
import { save } from '../app/files';
import { count, safe } from '../app/format';
import { type Cell, type GridColumn, toCsv, toJson, toMarkdown, toTsv } from './cells';
import { type Item, Menu } from './menu';

/** Rows as a file or on the clipboard; load: when more rows exist than are here. */
export function RowsMenu({
  columns,
  rows,
  name,
  load,
}: {
  columns: GridColumn[];
  rows: Cell[][];
  name: string;
  load?(): Promise<Cell[][]>;
}) {
  const [menu, setMenu] = useState<{ x: number; y: number } | null>(null);
  const [problem, setProblem] = useState('');
  const names = columns.map((c) => c.name);
  const give = (make: (rows: Cell[][]) => void) => () => {
    setProblem('');
    Promise.resolve(load ? load() : rows).then(
      (all) => make(all.map((r) => r.slice(0, columns.length))),
      (e: Error) => setProblem(e.message),
    );
  };
  const file = (make: (names: string[], rows: Cell[][]) => string, type: string, ext: string) =>
    give((all) => save(new Blob([make(names, all)], { type }), `${name}.${ext}`));
  const copy = (make: (rows: Cell[][]) => string) =>
    give((all) => void navigator.clipboard?.writeText(make(all)));
  const items: Item[] = [
    { label: 'CSV file', act: file(toCsv, 'text/csv', 'csv') },
    { label: 'TSV file', act: file(toTsv, 'text/tab-separated-values', 'tsv') },
    { label: 'JSON file', act: file(toJson, 'application/json', 'json') },
    { label: 'Copy as TSV', act: copy((all) => toTsv(names, all)) },
    { label: 'Copy as Markdown', act: copy((all) => toMarkdown(columns, all)) },
  ];
  return (
    <>
      <button
        type="button"
        aria-haspopup="menu"
        onClick={(e) => {
          const r = e.currentTarget.getBoundingClientRect();
          setMenu({ x: r.left, y: r.bottom + 4 });
        }}>
        Save, copy
      </button>
      {menu && (
        <Menu
          title={load ? 'All rows' : `${count(rows.length)} rows`}
          x={menu.x}
          y={menu.y}
          items={items}
          onClose={() => setMenu(null)}
        />
      )}
      {problem && (
        <span class="bad" role="alert">
          {safe(problem)}
        </span>
      )}
    </>
  );
}
