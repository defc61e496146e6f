// A managed heap at a glance: sums, the largest classes, what holds them.
import { bytes, count, exact, percent, safe } from '../app/format';
import { href, place } from '../app/state';
import { useAnswer } from '../parts/answer';
import { sqlHref } from '../parts/show-sql';
import { Head, Scroll, SqlLink } from '../parts/table';
import { Failed, Figure } from '../parts/words';
import {
  classHref,
  type HeapDump,
  type HeapGroup,
  type HeapOverview,
  heapQuestion,
  params,
  type Sum,
  where,
} from './heap-api';
import { at, classesSql } from './heap-classes';
import { Wasted } from './heap-lists';
import { bare, classTip, type Rows, Working } from './heap-parts';

const both = (s: Sum) => s.size + s.native;
function Kept({ sum, whole }: { sum: Sum; whole: number }) {
  return (
    <td title={`${exact(both(sum))} B`}>
      <span class="share">
        <i style={{ width: `${(100 * both(sum)) / Math.max(1, whole)}%` }} />
        <b>{percent(both(sum), whole)}</b>
      </span>{' '}
      {bytes(both(sum))}
    </td>
  );
}

function GroupRow({ r, to, whole }: { r: HeapGroup; to: string; whole: number }) {
  return (
    <tr>
      <td>
        <a href={to}>{r.name ? bare(r.name) : 'unknown'}</a>
      </td>
      <td class="num" title={exact(r.own.count)}>
        {count(r.own.count)}
      </td>
      <td class="num" title={`${exact(r.own.size)} B`}>
        {bytes(r.own.size)}
      </td>
      <td class="num" title={`${exact(r.own.native)} B`}>
        {bytes(r.own.native)}
      </td>
      <Kept sum={r.retained} whole={whole} />
      <td class="num">{count(r.retained.count)}</td>
    </tr>
  );
}

const BLANK = <td class="num" />;

function Groups({
  title,
  what,
  rows,
  extra,
  sql,
  link,
}: {
  title: string;
  what: string;
  rows: HeapGroup[];
  extra?: { name: string; retained: Sum };
  sql: string;
  link(g: HeapGroup): string;
}) {
  const whole = rows.reduce((a, r) => a + both(r.retained), extra ? both(extra.retained) : 0);
  return (
    <section>
      <h2>
        {title} <span class="dim">{what}</span> <SqlLink to={sqlHref(sql)} />
      </h2>
      <Scroll label={title}>
        <table class="top heap-groups">
          <Head
            columns={[
              title,
              ['Objects', 'num'],
              ['Managed', 'num'],
              ['Native', 'num'],
              'Retained in all',
              ['Retained objects', 'num'],
            ]}
          />
          <tbody>
            {rows.map((r) => (
              <GroupRow r={r} to={link(r)} whole={whole} />
            ))}
            {extra && extra.retained.count > 0 && (
              <tr>
                <td class="dim">{extra.name}</td>
                {BLANK}
                {BLANK}
                {BLANK}
                <Kept sum={extra.retained} whole={whole} />
                <td class="num">{count(extra.retained.count)}</td>
              </tr>
            )}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

/** The largest by what they keep alive, one line each. */
function Largest({ dump }: { dump: HeapDump }) {
  const trace = place.value.trace;
  const q = params({ ...where(dump), sort: 'retained', limit: 10 });
  const a = useAnswer(`heap largest ${trace}?${q}`, () => heapQuestion<Rows>(trace, 'classes', q));
  if (!a.value) return a.error ? <Failed text={a.error} /> : <Working what="Summing up classes" />;
  const most = Math.max(1, ...a.value.data.map((r) => Number(r[8]) + Number(r[9])));
  return (
    <section>
      <h2>
        Classes that keep most alive{' '}
        <a class="dim small" href={sqlHref(classesSql(dump))}>
          SQL
        </a>
      </h2>
      <Scroll label="Classes that keep most alive">
        <table class="top heap-groups">
          <thead>
            <tr>
              <th scope="col">Class</th>
              <th scope="col" class="num">
                Objects
              </th>
              <th scope="col" class="num">
                Own
              </th>
              <th scope="col">Retained</th>
            </tr>
          </thead>
          <tbody>
            {a.value.data.map((r) => (
              <tr>
                <td class="site" title={classTip(String(r[1]), String(r[2]))}>
                  <a href={classHref(String(r[1]))}>{safe(String(r[1]))}</a>
                </td>
                <td class="num">{count(Number(r[5]))}</td>
                <td class="num">{bytes(Number(r[6]) + Number(r[7]))}</td>
                <td>
                  <span class="share">
                    <i style={{ width: `${(100 * (Number(r[8]) + Number(r[9]))) / most}%` }} />
                  </span>{' '}
                  {bytes(Number(r[8]) + Number(r[9]))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Figures({ o, dump }: { o: HeapOverview; dump: HeapDump }) {
  const sql = (what: string, cond = '') =>
    sqlHref(
      `-- ${what}\nselect count(*) as objects, sum(max(self_size, 0)) as bytes, sum(native_size) as native\nfrom heap_graph_object\nwhere ${at(dump)}${cond}`,
    );
  return (
    <div class="figures">
      <Figure
        label="Reachable"
        value={bytes(both(o.reachable))}
        note={`${count(o.reachable.count)} objects · ${exact(o.reachable.size)} B managed`}
        to={href({ tab: 'flame', heapmetric: '' })}
        sql={sql('reachable', ' and reachable')}
      />
      <Figure
        label="Native behind it"
        value={bytes(o.reachable.native)}
        note="registered by reachable objects"
        sql={sql('reachable', ' and reachable')}
      />
      <Figure
        label="Unreachable"
        value={bytes(both(o.unreachable))}
        note={`${count(o.unreachable.count)} objects no root of this graph leads to; garbage that a walk did not visit is not recorded`}
        to={href({ tab: 'objects', cls: '', only: 'unreachable' })}
        sql={sql('unreachable', ' and not reachable')}
      />
      <Figure
        label="Classes"
        value={count(dump.classes)}
        note={`${count(dump.references)} references`}
        to={href({ tab: 'classes' })}
      />
      {dump.heap_size >= 0 && (
        <Figure label="The runtime says" value={bytes(dump.heap_size)} note="allocated, in its own count" />
      )}
    </div>
  );
}

function OutOfMemory({ oome }: { oome: NonNullable<HeapDump['oome']> }) {
  return (
    <section class="banner bad">
      <b>Made because memory ran out.</b> {oome.message && <code>{safe(oome.message)}</code>}
      {oome.allocation >= 0 && <> An allocation of {bytes(oome.allocation)} failed;</>}
      {oome.free >= 0 && <> {bytes(oome.free)} were free in all,</>}
      {oome.until >= 0 && <> {bytes(oome.until)} until the limit.</>}{' '}
      <a href={sqlHref('select * from heap_graph_thread_callsite')}>Stack of the thread</a>
    </section>
  );
}

const rootsSql = (d: HeapDump) =>
  `include perfetto module android.memory.heap_graph.dominator_tree;\nselect root_type, count(*) as roots, sum(dominated_obj_count) as retained_objects,\n  sum(dominated_size_bytes + dominated_native_size_bytes) as retained\nfrom heap_graph_object o join heap_graph_dominator_tree d using (id)\nwhere ${at(d)} and d.idom_id is null\ngroup by 1 order by 4 desc`;
const heapsSql = (d: HeapDump) =>
  `select heap_type, count(*) as objects, sum(max(self_size, 0)) as managed, sum(native_size) as native\nfrom heap_graph_object\nwhere ${at(d)} and reachable\ngroup by 1`;

export function Overview({ dump }: { dump: HeapDump }) {
  const trace = place.value.trace;
  const q = params(where(dump));
  const a = useAnswer(`heap overview ${trace}?${q}`, () => heapQuestion<HeapOverview>(trace, 'overview', q));
  const o = a.value;
  if (!o) return a.error ? <Failed text={a.error} /> : <Working what="Loading the heap" />;
  return (
    <div class="overview">
      <Figures o={o} dump={dump} />
      {dump.oome && <OutOfMemory oome={dump.oome} />}
      <Largest dump={dump} />
      {dump.strings && <Wasted dump={dump} kind="strings" />}
      {dump.arrays && <Wasted dump={dump} kind="arrays" />}
      <Groups
        title="Roots"
        what="what holds objects from outside of the heap, and what it keeps alive"
        rows={o.roots}
        extra={{ name: 'several roots together', retained: o.shared }}
        link={(g) => href({ tab: 'dominators', only: g.name, of: '' })}
        sql={rootsSql(dump)}
      />
      <Groups
        title="Heaps"
        what="reachable objects by the heap they are in"
        rows={o.heaps}
        link={(g) => href({ tab: 'objects', cls: '', only: g.name || 'HEAP_TYPE_UNKNOWN' })}
        sql={heapsSql(dump)}
      />
    </div>
  );
}
