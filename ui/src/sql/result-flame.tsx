// A result as a flamegraph, when its rows make a tree.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { safe } from '../app/format';
import { Flame } from '../graph/flame';
import { fromRows } from '../graph/from-rows';
import { nameOf } from '../graph/graph';
import type { Cell, GridColumn } from '../parts/cells';
import { isBytesName, number } from './result-numbers';

/** Which columns make a tree; null: this is none. */
export function treeColumns(
  columns: GridColumn[],
): { id: number; parent: number; name: number; value: number } | null {
  const find = (...names: string[]) =>
    names.map((n) => columns.findIndex((c) => c.name === n)).find((i) => i >= 0) ?? -1;
  const t = {
    id: find('id'),
    parent: find('parent_id', 'parent'),
    name: find('name'),
    value: find('self', 'value', 'self_space', 'self_size', 'size'),
  };
  return Object.values(t).every((i) => i >= 0) ? t : null;
}

export function ResultFlame({ columns, rows }: { columns: GridColumn[]; rows: Cell[][] }) {
  const t = treeColumns(columns)!;
  const made = useMemo(() => {
    try {
      return {
        graph: fromRows(
          rows.map((r) => ({
            id: r[t.id],
            parent: r[t.parent],
            name: String(r[t.name] ?? ''),
            value: number(r[t.value]) || 0,
          })),
        ),
        problem: '',
      };
    } catch (e) {
      return { graph: null, problem: (e as Error).message };
    }
  }, [rows]);
  const [zoom, setZoom] = useState(0);
  useEffect(() => setZoom(0), [rows]);
  const name = columns[t.value].name;
  if (!made.graph)
    return (
      <p class="banner bad" role="alert">
        {made.problem}
      </p>
    );
  if (made.graph.total <= 0) return <p class="empty">The column {safe(name)} is 0 everywhere.</p>;
  return (
    <>
      <p class="statement">
        width: {safe(name)} of each row and all below it
        {zoom > 0 ? ` · zoomed to ${safe(nameOf(made.graph, zoom))}` : ''}
      </p>
      <Flame
        graph={made.graph}
        metric={isBytesName(name) || /value/.test(name) ? 'space' : 'objects'}
        zoom={zoom < made.graph.n ? zoom : 0}
        label="Flamegraph of the result"
        onZoom={setZoom}
      />
    </>
  );
}
