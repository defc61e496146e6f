// Tables of objects: all of them, what each dominates, contents that occur again, different paths.
import type { ComponentChildren } from 'preact';
import { bytes, count, exact, safe } from '../app/format';
import { go, href, place } from '../app/state';
import { ns } from '../app/times';
import { useAnswer } from '../parts/answer';
import type { Cell, GridColumn } from '../parts/cells';
import { quote } from '../parts/show-sql';
import { Scroll } from '../parts/table';
import { Failed } from '../parts/words';
import {
  classHref,
  type HeapDump,
  heapQuestion,
  objectHref,
  params,
  type Sum,
  toObject,
  where,
} from './heap-api';
import { bare, classTip, countColumn, type Rows, ServerTable, sizeColumn } from './heap-parts';

const at = (d: HeapDump) => `o.upid = ${d.upid + 1} and o.graph_sample_ts = ${ns(d.ts)}`;

/** Rows of heap/objects: [id, class, raw, size, native, retained, r native, r count, reachable, heap,
 * root, contents]. */
const OBJECT_SORTS = [
  'id',
  'class',
  '',
  'size',
  'native',
  'retained',
  'retained_native',
  'retained_count',
  'reachable',
  'heap',
  'root',
];
const objectCells = (r: Cell[]): Cell[] => [
  r[0],
  r[1],
  r[11],
  r[3],
  r[4],
  r[5],
  r[6],
  r[7],
  Number(r[8]) ? 'yes' : 'no',
  r[9],
  r[10],
  r[2],
];

export const idColumn: GridColumn = {
  name: 'Object',
  hint: 'its number in SQL; opens a tab',
  numeric: true,
  width: 92,
  link: (v) => objectHref(Number(v)),
};
const classColumn = (raw: number): GridColumn => ({
  name: 'Class',
  hint: 'its class',
  numeric: false,
  width: 300,
  show: (v) => safe(String(v)),
  tip: (v, r) => classTip(String(v), String(r[raw] ?? '')),
  link: (_, r) => objectHref(Number(r[0])),
});
export const contentsColumn = (width = 180): GridColumn => ({
  name: 'Contents',
  hint: 'the text of a string, the length of an array, where the dump has them',
  numeric: false,
  width,
  show: (v) => safe(String(v)),
});

const OBJECT_COLUMNS: GridColumn[] = [
  idColumn,
  classColumn(11),
  contentsColumn(),
  sizeColumn('Shallow', 'bytes of the object itself'),
  sizeColumn('Native', 'bytes outside of the heap that it registered'),
  sizeColumn('Retained', 'bytes that would go with it'),
  sizeColumn('Retained native', 'bytes outside of the heap that would go with it', 132),
  countColumn('Retained count', 'objects that would go with it, itself included', 126),
  { name: 'Reachable', hint: 'whether a root leads to it', numeric: false, width: 88 },
  { name: 'Heap', hint: 'the heap it is in', numeric: false, width: 76, show: (v) => bare(String(v)) },
  {
    name: 'Root',
    hint: 'what holds it from outside of the heap',
    numeric: false,
    width: 116,
    show: (v) => bare(String(v)),
  },
];

const objectsSql = (d: HeapDump, cond: string) =>
  `include perfetto module android.memory.heap_graph.dominator_tree;\nselect o.id, ifnull(c.deobfuscated_name, c.name) as class, max(o.self_size, 0) as size, o.native_size, d.dominated_size_bytes,\n  d.dominated_native_size_bytes, d.dominated_obj_count, o.reachable, o.heap_type, o.root_type\nfrom heap_graph_object o join heap_graph_class c on c.id = o.type_id\nleft join heap_graph_dominator_tree d on d.id = o.id\nwhere ${at(d)}${cond}\norder by d.dominated_size_bytes desc limit 200`;

const sumOf = (r: Rows): ComponentChildren => {
  const s = r.sum as Sum;
  return (
    <>
      {bytes(s.size)} in them{s.native > 0 && `, ${bytes(s.native)} outside of the heap`}
    </>
  );
};

const onlyWords = (only: string) =>
  only === 'unreachable'
    ? 'unreachable'
    : only.startsWith('ROOT_')
      ? `root: ${bare(only)}`
      : only.startsWith('HEAP_TYPE_')
        ? `heap: ${bare(only)}`
        : only;
const onlySql = (only: string) =>
  only === 'unreachable'
    ? ' and not o.reachable'
    : only === 'root'
      ? ' and o.root_type is not null'
      : only.startsWith('ROOT_')
        ? ` and o.root_type = ${quote(only)}`
        : only.startsWith('HEAP_TYPE_')
          ? ` and o.reachable and o.heap_type ${only === 'HEAP_TYPE_UNKNOWN' ? 'is null' : `= ${quote(only)}`}`
          : '';

const Chip = ({ text, say, away }: { text: string; say: string; away(): void }) => (
  <span class="chip">
    {safe(text)}{' '}
    <button type="button" aria-label={`Remove ${say}`} onClick={away}>
      ×
    </button>
  </span>
);

export function Objects({ dump }: { dump: HeapDump }) {
  const p = place.value;
  const same = /^same:(\d+)$/.exec(p.only)?.[1];
  const only = same ? '' : p.only;
  return (
    <ServerTable
      dump={dump}
      name="objects"
      query={{ class: p.cls, only, same }}
      cells={objectCells}
      columns={OBJECT_COLUMNS}
      sorts={OBJECT_SORTS}
      begin={{ column: 5, down: true }}
      label="Objects"
      say={sumOf}
      sql={objectsSql(dump, `${p.cls ? ` and class = ${quote(p.cls)}` : ''}${onlySql(only)}`)}
      empty="No object matches."
      onMenu={objectMenu}>
      <label>
        Which{' '}
        <select
          aria-label="Which objects"
          value={same ? '' : p.only}
          onChange={(e) => go({ only: e.currentTarget.value })}>
          <option value="">all</option>
          <option value="root">roots</option>
          <option value="unreachable">unreachable</option>
          {!['', 'root', 'unreachable'].includes(only) && <option value={only}>{onlyWords(only)}</option>}
        </select>
      </label>
      {p.cls && <Chip text={p.cls} say="the class" away={() => go({ cls: '' })} />}
      {same && (
        <Chip text={`same contents as object ${same}`} say="the contents" away={() => go({ only: '' })} />
      )}
      {p.cls && (
        <a class="button" href={href({ tab: 'paths' })}>
          Paths to them
        </a>
      )}
    </ServerTable>
  );
}

const objectMenu = (r: Cell[]) => go(toObject(Number(r[0])));

// ---- dominators ----

/** What dominates what is looked at, from the roots on. */
function Above({
  of,
  dominators,
}: {
  of: string;
  dominators: [id: number, name: string, kept: number][] | undefined;
}) {
  return (
    <nav class="crumbs" aria-label="Dominated by">
      <button type="button" disabled={!of} onClick={() => go({ of: '' })}>
        roots
      </button>
      {of && dominators && (
        <>
          {dominators.length > 6 && <span class="dim">… {dominators.length - 6} more</span>}
          {dominators.slice(-6).map(([id, name, kept]) => (
            <>
              <span aria-hidden="true">›</span>
              <button
                type="button"
                disabled={String(id) === of}
                title={`object ${id} keeps ${bytes(kept)} alive`}
                onClick={() => go({ of: String(id) })}>
                {safe(name)}
              </button>
            </>
          ))}
        </>
      )}
    </nav>
  );
}

const DOMINATOR_COLUMNS = OBJECT_COLUMNS.map((c, i) =>
  i === 1
    ? {
        ...c,
        link: (_: Cell, r: Cell[]) =>
          Number(r[7]) > 1 ? href({ of: String(r[0]) }) : objectHref(Number(r[0])),
      }
    : c,
);

export function Dominators({ dump }: { dump: HeapDump }) {
  const p = place.value;
  const trace = p.trace;
  const q = p.of ? params({ ...where(dump), object: p.of }) : '';
  const above = useAnswer(`heap above ${trace}?${q}`, () =>
    q ? heapQuestion<{ dominators: [number, string, number][] }>(trace, 'object', q) : Promise.resolve(null),
  );
  const root = p.only.startsWith('ROOT_') ? p.only : '';
  const cond = p.of
    ? ` and d.idom_id = ${p.of}`
    : ` and d.id is not null and d.idom_id is null${onlySql(root)}`;
  return (
    <>
      {above.error && <Failed text={above.error} />}
      <ServerTable
        dump={dump}
        name="objects"
        query={{ of: p.of || 'top', only: root || undefined }}
        cells={objectCells}
        columns={DOMINATOR_COLUMNS}
        sorts={OBJECT_SORTS}
        begin={{ column: 5, down: true }}
        label="Dominators"
        say={sumOf}
        sql={objectsSql(dump, cond)}
        empty={p.of ? 'It keeps only itself alive.' : 'No root leads to any object.'}>
        <Above of={p.of} dominators={above.value?.dominators} />
        {p.of && (
          <a class="button" href={objectHref(Number(p.of))}>
            Object {p.of}
          </a>
        )}
        {root && !p.of && (
          <Chip text={onlyWords(root)} say="the kind of root" away={() => go({ only: '' })} />
        )}
      </ServerTable>
    </>
  );
}

// ---- strings, arrays ----

type Kind = 'strings' | 'arrays';

const twinColumns = (kind: Kind): GridColumn[] => [
  {
    name: kind === 'strings' ? 'Text' : 'Array',
    hint: 'one of them; opens a tab',
    numeric: false,
    width: kind === 'strings' ? 520 : 120,
    show: (v) => safe(String(v)),
    link: (_, r) => objectHref(Number(r[5])),
  },
  {
    name: 'Class',
    hint: 'their class',
    numeric: false,
    width: 200,
    show: (v) => safe(String(v)),
    link: (v) => classHref(String(v)),
  },
  {
    name: 'Count',
    hint: 'reachable objects with these contents',
    numeric: true,
    width: 92,
    show: (v) => count(Number(v)),
    link: (_, r) => href({ tab: 'objects', cls: '', only: `same:${r[5]}` }),
  },
  sizeColumn(
    'Size',
    kind === 'strings' ? 'the strings and the arrays behind them, a shared one once' : 'bytes of them all',
  ),
  sizeColumn('Wasted', 'what all but one of them hold'),
];

const twinsSql = (d: HeapDump, kind: Kind) =>
  kind === 'strings'
    ? `select d.value_string, count(*) as count, sum(o.self_size) as string_bytes\nfrom heap_graph_object o join heap_graph_object_data d on d.id = o.object_data_id\nwhere ${at(d)} and o.reachable and d.value_string is not null\ngroup by 1 order by 2 desc limit 200`
    : `select d.array_element_type, d.array_element_count, d.array_data_hash, count(*) as count, sum(o.self_size) as bytes\nfrom heap_graph_object o join heap_graph_object_data d on d.id = o.object_data_id\nwhere ${at(d)} and o.reachable and d.array_element_count > 0\ngroup by 1, 2, 3 having count > 1 order by 5 desc limit 200`;

export function Twins({ dump, kind }: { dump: HeapDump; kind: Kind }) {
  const p = place.value;
  const strings = kind === 'strings';
  return (
    <ServerTable
      dump={dump}
      name={kind}
      query={{ match: p.match }}
      cells={(r) => [r[1], r[2], r[3], r[4], r[5], r[0]]}
      columns={twinColumns(kind)}
      sorts={['', '', '', '', '']}
      begin={{ column: 4, down: true }}
      label={strings ? 'Strings' : 'Arrays'}
      sql={twinsSql(dump, kind)}
      empty={p.match ? `None has '${p.match}' in it.` : `The dump has no contents of ${kind}.`}
      say={(r) => (
        <>
          {count(Number(r.objects))} objects, {bytes(Number(r.size))}; {bytes(Number(r.wasted))} would be
          saved if each occurred once
        </>
      )}>
      <input
        type="search"
        aria-label={`Find ${kind}`}
        placeholder={strings ? 'Find text' : 'Find class'}
        value={p.match}
        onInput={(e) => go({ match: e.currentTarget.value }, true)}
      />
    </ServerTable>
  );
}

/** The largest wastes, for the overview. */
export function Wasted({ dump, kind }: { dump: HeapDump; kind: 'strings' | 'arrays' }) {
  const trace = place.value.trace;
  const q = params({ ...where(dump), limit: 5 });
  const a = useAnswer(`heap wasted ${kind} ${trace}?${q}`, () => heapQuestion<Rows>(trace, kind, q));
  if (!a.value) return a.error ? <Failed text={a.error} /> : null;
  return (
    <section>
      <h2>
        The same {kind} again{' '}
        <span class="dim">
          {bytes(Number(a.value.wasted))} wasted in {count(Number(a.value.objects))} {kind}
        </span>{' '}
        <a class="dim small" href={href({ tab: kind, match: '' })}>
          All
        </a>
      </h2>
      <Scroll label={`The same ${kind} again`}>
        <table class="top heap-groups">
          <thead>
            <tr>
              <th scope="col">{kind === 'strings' ? 'Text' : 'Array'}</th>
              <th scope="col" class="num">
                Count
              </th>
              <th scope="col" class="num">
                Size
              </th>
              <th scope="col" class="num">
                Wasted
              </th>
            </tr>
          </thead>
          <tbody>
            {a.value.data
              .filter((r) => Number(r[3]) > 1)
              .map((r) => (
                <tr>
                  <td class="site">
                    <a href={href({ tab: 'objects', cls: '', only: `same:${r[0]}` })}>
                      {kind === 'strings'
                        ? safe(String(r[1]))
                        : `${safe(String(r[2]).replace(/\[\]$/, ''))}${String(r[1])}`}
                    </a>
                  </td>
                  <td class="num">{exact(Number(r[3]))}</td>
                  <td class="num">{bytes(Number(r[4]))}</td>
                  <td class="num">{bytes(Number(r[5]))}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

// ---- paths ----

export function Paths({ dump }: { dump: HeapDump }) {
  const p = place.value;
  const columns: GridColumn[] = [
    {
      name: 'Class',
      hint: 'where the path ends',
      numeric: false,
      width: 230,
      show: (v) => safe(String(v)),
      link: (v) => classHref(String(v).replace(/ \[ROOT_[A-Z_]+\]$/, '')),
    },
    countColumn('Count', 'objects at the end of this path', 76),
    sizeColumn('Size', 'bytes of these objects'),
    sizeColumn('With all below', 'bytes of these objects and of what their shortest paths lead on to', 120),
    {
      name: 'Path',
      hint: 'from the root, by class',
      numeric: false,
      width: 900,
      show: (v) => safe(String(v)),
    },
  ];
  return (
    <ServerTable
      dump={dump}
      name="paths"
      query={{ class: p.cls, collapse: p.collapse ? 1 : undefined }}
      columns={columns}
      sorts={['', 'count', 'size', 'below', '']}
      begin={{ column: 2, down: true }}
      label="Reference paths"
      cells={(r) => {
        const names = r[0] as unknown as string[];
        return [names[names.length - 1], r[1], r[2], r[3], names.join(' → ')];
      }}
      say={(r) => (
        <>
          {count(Number(r.count))} objects, {bytes(Number(r.size))} at their ends
        </>
      )}
      empty="No root leads to an object of this class."
      sql={`select p.id, p.name, p.count, p.size, p.cumulative_size\nfrom experimental_flamegraph(${ns(dump.ts)}, ${dump.upid + 1}, 'graph') p${p.cls ? `\nwhere p.name = ${quote(p.cls)} or p.name like ${quote(`${p.cls} [ROOT_%`)}` : ''}\norder by p.size desc`}>
      {p.cls ? (
        <Chip text={p.cls} say="the class" away={() => go({ cls: '' })} />
      ) : (
        <span class="dim">Different shortest paths from a root, by class</span>
      )}
      <button
        type="button"
        aria-pressed={p.collapse}
        class="toggle"
        title="chains of one class are one step"
        onClick={() => go({ collapse: !p.collapse })}>
        Collapse chains
      </button>
    </ServerTable>
  );
}
