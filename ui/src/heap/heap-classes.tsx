// The classes of a managed heap.
import { safe } from '../app/format';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import type { Cell, GridColumn } from '../parts/cells';
import { classHref, type HeapDump } from './heap-api';
import { bare, classTip, countColumn, ServerTable, sizeColumn } from './heap-parts';

/** The dump as a condition on rows. */
export const at = (d: HeapDump) => `upid = ${d.upid + 1} and graph_sample_ts = ${ns(d.ts)}`;

export const classesSql = (d: HeapDump) =>
  `include perfetto module android.memory.heap_graph.heap_graph_class_aggregation;\nselect type_name, reachable_obj_count, reachable_size_bytes, reachable_native_size_bytes,\n  dominated_size_bytes, dominated_native_size_bytes, dominated_obj_count\nfrom android_heap_graph_class_aggregation\nwhere ${at(d)}\norder by dominated_size_bytes desc`;

const CLASS_COLUMNS: GridColumn[] = [
  {
    name: 'Class',
    hint: 'its objects: click',
    numeric: false,
    width: 380,
    show: (v) => safe(String(v)),
    link: (v) => classHref(String(v)),
  },
  countColumn('Count', 'reachable objects'),
  sizeColumn('Shallow', 'bytes of the objects themselves'),
  sizeColumn('Native', 'bytes outside of the heap that they registered'),
  sizeColumn(
    'Retained',
    'bytes that would go with all of them; an object below one of its own class counts once',
  ),
  sizeColumn('Retained native', 'bytes outside of the heap that would go with them', 132),
  countColumn('Retained count', 'objects that would go with them', 132),
  countColumn('Unreachable', 'objects that no root of this graph leads to', 112),
  {
    name: 'Kind',
    hint: 'what the runtime makes of the class',
    numeric: false,
    width: 110,
    show: (v) => bare(String(v)),
  },
];
const CLASS_SORTS = [
  'name',
  'count',
  'size',
  'native',
  'retained',
  'retained_native',
  'retained_count',
  'unreachable',
];

export function Classes({ dump }: { dump: HeapDump }) {
  const p = place.value;
  const cells = (r: Cell[]): Cell[] => [r[1], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[3], r[2], r[4]];
  const columns = CLASS_COLUMNS.map((c, i) =>
    i === 0
      ? {
          ...c,
          tip: (v: Cell, r: Cell[]) =>
            `${classTip(String(v), String(r[9]))}${r[10] ? `\nfrom ${safe(String(r[10]))}` : ''}`,
        }
      : c,
  );
  return (
    <ServerTable
      dump={dump}
      name="classes"
      query={{ match: p.match }}
      cells={cells}
      columns={columns}
      sorts={CLASS_SORTS}
      begin={{ column: 4, down: true }}
      label="Classes"
      sql={classesSql(dump)}
      empty={p.match ? `No class has '${p.match}' in its name.` : 'No class has an object.'}>
      <input
        type="search"
        aria-label="Find classes"
        placeholder="Find classes"
        value={p.match}
        onInput={(e) => go({ match: e.currentTarget.value }, true)}
      />
    </ServerTable>
  );
}
