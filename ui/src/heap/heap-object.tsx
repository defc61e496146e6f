// One object: why it is there, what it refers to, who refers to it, and what would go with it.
import { useState } from 'preact/hooks';
import { bytes, count, exact, fit, safe } from '../app/format';
import { go, href, place } from '../app/state';
import { useAnswer } from '../parts/answer';
import type { Cell, GridColumn } from '../parts/cells';
import { Grid } from '../parts/grid';
import { sqlHref } from '../parts/show-sql';
import { Head, Scroll } from '../parts/table';
import { Failed, Figure } from '../parts/words';
import { classHref, type HeapDump, heapQuestion, objectHref, params, type Sum, where } from './heap-api';
import { HeapFlame } from './heap-flame';
import { idColumn } from './heap-lists';
import { bare, classTip, explain, type Rows, sizeColumn, Working } from './heap-parts';

interface Details {
  id: number;
  class: string;
  raw: string;
  size: number;
  native: number;
  described: boolean;
  retained: Sum;
  reachable: boolean;
  heap: string;
  root: string;
  contents: string;
  elements: number;
  path: [id: number, cls: string, field: string, root: string, contents: string, holder?: string][];
  dominators: [id: number, cls: string, kept: number][];
  classes: [number, string][];
  fields: [name: string, type: string, value: string][];
  references: number;
  referrers: number;
  dominated: number;
}

const last = (field: string) => field.slice(field.lastIndexOf('.') + 1);
const cuts = () => (place.value.cut ? place.value.cut.split(',') : []);
const toggleCut = (what: string) => {
  const now = cuts();
  go({ cut: (now.includes(what) ? now.filter((c) => c !== what) : [...now, what]).join(',') }, true);
};

const Cut = ({ what, say }: { what: string; say: string }) => (
  <label class="tick" onClick={(e) => e.stopPropagation()}>
    <input
      type="checkbox"
      checked={cuts().includes(what)}
      aria-label={`Cut ${say}`}
      onChange={() => toggleCut(what)}
    />
  </label>
);

// ---- lists ----

const MOST = 2000;

function List({
  dump,
  object,
  name,
  columns,
  cells,
  label,
  empty,
}: {
  dump: HeapDump;
  object: number;
  name: string;
  columns: GridColumn[];
  cells(r: Cell[]): Cell[];
  label: string;
  empty: string;
}) {
  const trace = place.value.trace;
  const [limit, setLimit] = useState(200);
  const q = params({ ...where(dump), ...(name === 'objects' ? { of: object } : { object }), limit });
  const a = useAnswer(`heap ${name} ${trace}?${q}`, () => heapQuestion<Rows>(trace, name, q));
  if (!a.value) return a.error ? <Failed text={a.error} /> : <Working what="Reading" />;
  if (!a.value.rows) return <p class="dim">{empty}</p>;
  const rows = a.value.data.map(cells);
  const height = Math.min(330, 66 + 24 * rows.length);
  return (
    <>
      <Grid
        columns={columns}
        rows={rows}
        label={label}
        total={a.value.rows}
        height={height}
        onEnd={() => {
          if (rows.length < a.value!.rows && limit < MOST) setLimit(Math.min(MOST, limit * 4));
        }}
      />
      {a.value.rows > rows.length && (
        <p class="statement">
          The first {count(rows.length)} of {count(a.value.rows)}
        </p>
      )}
    </>
  );
}

const link = (i: number) => (v: Cell, r: Cell[]) => (v === null ? '' : objectHref(Number(r[i])));
const text = (name: string, hint: string, width: number, more: Partial<GridColumn> = {}): GridColumn => ({
  name,
  hint,
  numeric: false,
  width,
  show: (v) => safe(String(v)),
  ...more,
});

function References({ dump, d }: { dump: HeapDump; d: Details }) {
  const isArray = d.class.endsWith('[]');
  const columns: GridColumn[] = [
    {
      name: 'Cut',
      hint: 'release simulation: as if this reference were gone',
      numeric: false,
      width: 60,
      draw: (v, r) =>
        r[2] === null || !Number(r[7]) ? null : (
          <Cut what={`r${v}`} say={`the reference ${safe(String(r[1])) || 'of an element'}`} />
        ),
    },
    text(
      isArray ? 'Element' : 'Field',
      isArray ? 'references in the order of the array' : 'the field that refers',
      220,
      {
        tip: (v, r) => classTip(String(v), String(r[8] ?? '')),
        show: (v) => (v === '' ? 'element' : safe(last(String(v)))),
      },
    ),
    { ...idColumn, link: link(2) },
    text('Class', 'what it refers to', 260, { link: link(2) }),
    text('Contents', 'text or length, where the dump has them', 160),
    sizeColumn('Shallow', 'bytes of the object referred to'),
    sizeColumn('Retained', 'what would go with it, native memory included'),
    {
      name: 'Keeps alive',
      hint: 'whether this reference counts: weak and phantom ones do not',
      numeric: false,
      width: 96,
      show: (v) => (Number(v) ? 'yes' : 'no'),
    },
  ];
  return (
    <List
      dump={dump}
      object={d.id}
      name="references"
      label={isArray ? 'Elements' : 'Fields'}
      columns={columns}
      empty="It refers to nothing."
      cells={(r) => [r[0], r[1], r[3], r[4], r[5], r[6], r[7], r[8], r[2]]}
    />
  );
}

function Referrers({ dump, d }: { dump: HeapDump; d: Details }) {
  const columns: GridColumn[] = [
    {
      name: 'Cut',
      hint: 'release simulation: as if this reference were gone',
      numeric: false,
      width: 60,
      draw: (v, r) =>
        Number(r[7]) ? <Cut what={`r${v}`} say={`the reference from object ${r[1]}`} /> : null,
    },
    { ...idColumn, link: link(1) },
    text('Class', 'who refers to it', 280, { link: link(1) }),
    text('Field', 'by which field', 200, {
      show: (v) => (v === '' ? 'element' : safe(last(String(v)))),
      tip: (v) => safe(String(v)),
    }),
    text('Contents', 'text or length, where the dump has them', 140),
    sizeColumn('Shallow', 'bytes of the referrer'),
    sizeColumn('Retained', 'what would go with the referrer'),
    {
      name: 'Keeps alive',
      hint: 'whether this reference counts',
      numeric: false,
      width: 96,
      show: (v) => (Number(v) ? 'yes' : 'no'),
    },
    {
      name: 'Reachable',
      hint: 'whether a root leads to the referrer',
      numeric: false,
      width: 88,
      show: (v) => (Number(v) ? 'yes' : 'no'),
    },
  ];
  return (
    <List
      dump={dump}
      object={d.id}
      name="referrers"
      label="Referrers"
      columns={columns}
      empty={d.root ? 'Nobody refers to it: it is a root.' : 'Nobody refers to it.'}
      cells={(r) => r}
    />
  );
}

function Dominated({ dump, d }: { dump: HeapDump; d: Details }) {
  const columns: GridColumn[] = [
    idColumn,
    text('Class', 'what only it keeps alive', 340, { link: link(0) }),
    text('Contents', 'text or length, where the dump has them', 180),
    sizeColumn('Shallow', 'bytes of the object'),
    sizeColumn('Retained', 'what would go with it'),
    {
      name: 'Objects',
      hint: 'how many would go with it',
      numeric: true,
      width: 84,
      show: (v) => count(Number(v)),
    },
  ];
  return (
    <List
      dump={dump}
      object={d.id}
      name="objects"
      label="Immediately dominated"
      columns={columns}
      empty="It keeps only itself alive."
      cells={(r) => [r[0], r[1], r[11], Number(r[3]) + Number(r[4]), Number(r[5]) + Number(r[6]), r[7]]}
    />
  );
}

// ---- paths, release ----

function Path({ d }: { d: Details }) {
  if (!d.path.length) return <p class="dim">No root of this graph leads to it.</p>;
  return (
    <ol class="object-path">
      {d.path.map(([id, cls, field, root, contents, holder], i) => (
        <li>
          {field !== '' ? (
            <span class="dim" title={safe(field)}>
              .{safe(last(field))}{' '}
            </span>
          ) : (
            i > 0 && <span class="dim">[…] </span>
          )}
          {id === d.id ? (
            <b>{safe(cls)}</b>
          ) : (
            <a href={objectHref(id)} title={`object ${id}`}>
              {safe(cls)}
            </a>
          )}{' '}
          {contents && <span class="dim">{fit(safe(contents), 40)}</span>}{' '}
          {root && <span class="root-kind">{bare(root)}</span>}{' '}
          {holder && <span class="root-holder">{safe(holder)}</span>}
          {root && d.path.length > 0 && <Cut what={`o${id}`} say={`the root at object ${id}`} />}
        </li>
      ))}
    </ol>
  );
}

interface Release {
  lost: Sum;
  rows: number;
  data: [string, number, number, number][];
}

function Lost({ r, list }: { r: Release; list: string[] }) {
  const { lost, data, rows } = r;
  return (
    <>
      <p>
        <b>{bytes(lost.size + lost.native)}</b> in {exact(lost.count)}{' '}
        {lost.count === 1 ? 'object' : 'objects'} would become unreachable
        {lost.native > 0 && ` (${bytes(lost.native)} of it outside of the heap)`} if{' '}
        {list.length === 1 ? 'this reference was' : `these ${list.length} were`} gone.{' '}
        <button type="button" onClick={() => go({ cut: '' }, true)}>
          Cut nothing
        </button>
      </p>
      <p class="dim">
        {list
          .map((c) => (c[0] === 'o' ? `root of object ${c.slice(1)}` : `reference ${c.slice(1)}`))
          .join(', ')}
      </p>
      {data.length > 0 && (
        <Scroll label="Lost classes">
          <table class="top heap-groups">
            <Head columns={['Class', ['Objects', 'num'], ['Managed', 'num'], ['Native', 'num']]} />
            <tbody>
              {data.slice(0, 12).map(([name, n, size, native]) => (
                <tr>
                  <td class="site">
                    <a href={classHref(name)}>{safe(name)}</a>
                  </td>
                  <td class="num">{exact(n)}</td>
                  <td class="num">{bytes(size)}</td>
                  <td class="num">{bytes(native)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {rows > 12 && <p class="statement">The first 12 of {count(rows)} classes</p>}
      {lost.count === 0 && <p class="dim">Other references keep everything alive.</p>}
    </>
  );
}

function ReleaseBox({ dump }: { dump: HeapDump }) {
  const p = place.value;
  const list = cuts();
  const q = params({ ...where(dump), cut: p.cut });
  const a = useAnswer(`heap release ${p.trace}?${q}`, () =>
    list.length ? heapQuestion<Release>(p.trace, 'release', q) : Promise.resolve(null),
  );
  return (
    <section class="release" aria-live="polite" aria-busy={a.busy}>
      <h2>
        Release simulation <span class="dim">tick references to cut: what would become unreachable?</span>
      </h2>
      {a.error && <Failed text={a.error} />}
      {!list.length && (
        <p class="dim">
          Nothing is cut. Tick boxes in the lists of fields and referrers, or at the root of the path; ticks
          of several objects count together.
        </p>
      )}
      {a.value && list.length > 0 && <Lost r={a.value} list={list} />}
    </section>
  );
}

// ---- the tab ----

/** What it is, and what the dump knows of its contents. */
function Title({ d }: { d: Details }) {
  const why = explain(d.class);
  return (
    <>
      <h1 title={classTip(d.class, d.raw)}>
        {safe(d.class)}{' '}
        <span class="dim">
          object {d.id}
          {d.root && ` · root: ${bare(d.root)}`}
          {d.heap && ` · ${bare(d.heap)} heap`}
          {!d.reachable && ' · unreachable'}
          {!d.described && ' · referred to, never described'}
        </span>
      </h1>
      {d.raw && (
        <p class="dim">
          recorded as <code>{safe(d.raw)}</code>
        </p>
      )}
      {why && <p class="banner note">{why}</p>}
      {d.contents && (
        <p>
          <code class="contents">{safe(d.contents)}</code>
        </p>
      )}
    </>
  );
}

function Figures({ d }: { d: Details }) {
  const kept = d.retained;
  return (
    <div class="figures">
      <Figure
        label="Shallow"
        value={bytes(d.size)}
        note={`${exact(d.size)} B`}
        sql={sqlHref(`select * from heap_graph_object where id = ${d.id}`)}
      />
      {d.native > 0 && (
        <Figure label="Native" value={bytes(d.native)} note={`${exact(d.native)} B outside of the heap`} />
      )}
      <Figure
        label="Retained"
        value={bytes(kept.size + kept.native)}
        note={`${exact(kept.count)} objects${kept.native ? ` · ${bytes(kept.native)} native` : ''}`}
        to={href({ tab: 'dominators', of: String(d.id) })}
        sql={sqlHref(
          `include perfetto module android.memory.heap_graph.dominator_tree;\nselect * from heap_graph_dominator_tree where id = ${d.id}`,
        )}
      />
    </div>
  );
}

function Dominating({ d }: { d: Details }) {
  if (!d.dominators.length) return <p class="dim">None: no root leads to it.</p>;
  return (
    <ol class="object-path">
      {d.dominators.map(([o, cls, kept]) => (
        <li>
          {o === d.id ? (
            <b>{safe(cls)}</b>
          ) : (
            <a href={objectHref(o)} title={`object ${o}`}>
              {safe(cls)}
            </a>
          )}{' '}
          <span class="dim">{bytes(kept)}</span>
        </li>
      ))}
    </ol>
  );
}

const Values = ({ d }: { d: Details }) => (
  <>
    <h2>Values</h2>
    <dl class="values">
      {d.fields.map(([name, type, value]) => (
        <>
          <dt title={`${safe(type)} ${safe(name)}`}>{safe(last(name))}</dt>
          <dd>{safe(value)}</dd>
        </>
      ))}
    </dl>
  </>
);

/** How a root leads to it, what dominates it, and its class. */
function Where({ d }: { d: Details }) {
  return (
    <div class="object-columns">
      <section>
        <h2>Shortest path from a root</h2>
        <Path d={d} />
      </section>
      <section>
        <h2>
          Dominators <span class="dim">each alone keeps all after it alive</span>
        </h2>
        <Dominating d={d} />
      </section>
      <section>
        <h2>Class</h2>
        <ol class="object-path flat">
          {d.classes.map(([c, name]) => (
            <li>
              <a href={classHref(name)} title={`class ${c}`}>
                {safe(name)}
              </a>
            </li>
          ))}
        </ol>
        {d.fields.length > 0 && <Values d={d} />}
      </section>
    </div>
  );
}

function Graph({ dump, d }: { dump: HeapDump; d: Details }) {
  return (
    <section>
      <h2>Flamegraph of this object</h2>
      {place.value.open === 'graph' ? (
        <HeapFlame dump={dump} object={d.id} height={400} />
      ) : (
        <p>
          <button type="button" onClick={() => go({ open: 'graph', zoom: '' }, true)}>
            Focus the flamegraph on this object
          </button>
        </p>
      )}
    </section>
  );
}

export function ObjectTab({ dump, id }: { dump: HeapDump; id: number }) {
  const p = place.value;
  const q = params({ ...where(dump), object: id });
  const a = useAnswer(`heap object ${p.trace}?${q}`, () => heapQuestion<Details>(p.trace, 'object', q));
  const d = a.value;
  if (!d || d.id !== id) return a.error ? <Failed text={a.error} /> : <Working what="Loading the object" />;
  return (
    <div class="object">
      <Title d={d} />
      <Figures d={d} />
      <Where d={d} />
      <ReleaseBox dump={dump} />
      <section>
        <h2>
          {d.class.endsWith('[]') ? 'Elements' : 'Fields'} <span class="dim">{count(d.references)}</span>
        </h2>
        <References dump={dump} d={d} />
      </section>
      <section>
        <h2>
          Referrers <span class="dim">{count(d.referrers)}</span>
        </h2>
        <Referrers dump={dump} d={d} />
      </section>
      {d.reachable && (
        <section>
          <h2>
            Immediately dominated <span class="dim">{count(d.dominated)}</span>
          </h2>
          <Dominated dump={dump} d={d} />
        </section>
      )}
      {d.reachable && <Graph dump={dump} d={d} />}
    </div>
  );
}
