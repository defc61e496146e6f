// The managed heap: one dump, seen from tabs. Each tab is a row of TABS; objects open tabs of their own.
import { useEffect } from 'preact/hooks';
import { status, type Trace } from '../app/api';
import { base, bytes, count, exact, percent, safe } from '../app/format';
import type { Cell, GridColumn } from '../parts/grid';
import { classHref, dumpOf, type HeapDump, type HeapDumps, type HeapGroup, heapQuestion, type HeapOverview, objectTabs, params, type Sum, where } from './heap-api';
import { HeapFlame } from './heap-flame';
import { DiffTab } from './heap-diff';
import { Dominators, Objects, Paths, Twins, Wasted } from './heap-lists';
import { ObjectTab } from './heap-object';
import { WholeTab } from './heap-whole';
import { bare, classTip, countColumn, dumpTime, type Rows, ServerTable, sizeColumn, Working } from './heap-parts';
import { Busy, Failed, Figure, isTyping, useAnswer } from '../parts/parts';
import { sqlHref } from '../parts/show-sql';
import { go, href, place } from '../app/state';
import { ns } from '../app/times';

export interface TabProps { dump: HeapDump; all: HeapDumps; trace: Trace }

const both = (s: Sum) => s.size + s.native;
const at = (d: HeapDump) => `upid = ${d.upid + 1} and graph_sample_ts = ${ns(d.ts)}`;

// ---- overview ----

function Groups({ title, what, rows, extra, sql, link }: { title: string; what: string; rows: HeapGroup[]; extra?: { name: string; retained: Sum }; sql: string; link(g: HeapGroup): string }) {
  const whole = rows.reduce((a, r) => a + both(r.retained), extra ? both(extra.retained) : 0);
  return (
    <section>
      <h2>{title} <span class="dim">{what}</span> <a class="dim small" href={sqlHref(sql)}>SQL</a></h2>
      <div class="scroll" tabIndex={0} role="region" aria-label={title}><table class="top heap-groups"><thead><tr><th scope="col">{title}</th><th scope="col" class="num">Objects</th><th scope="col" class="num">Managed</th><th scope="col" class="num">Native</th><th scope="col">Retained in all</th><th scope="col" class="num">Retained objects</th></tr></thead>
        <tbody>{rows.map((r) => (
          <tr><td><a href={link(r)}>{r.name ? bare(r.name) : 'unknown'}</a></td><td class="num" title={exact(r.own.count)}>{count(r.own.count)}</td><td class="num" title={`${exact(r.own.size)} B`}>{bytes(r.own.size)}</td><td class="num" title={`${exact(r.own.native)} B`}>{bytes(r.own.native)}</td>
            <td title={`${exact(both(r.retained))} B`}><span class="share"><i style={{ width: `${(100 * both(r.retained)) / Math.max(1, whole)}%` }} /><b>{percent(both(r.retained), whole)}</b></span> {bytes(both(r.retained))}</td><td class="num">{count(r.retained.count)}</td></tr>
        ))}
        {extra && extra.retained.count > 0 && <tr><td class="dim">{extra.name}</td><td class="num" /><td class="num" /><td class="num" /><td title={`${exact(both(extra.retained))} B`}><span class="share"><i style={{ width: `${(100 * both(extra.retained)) / Math.max(1, whole)}%` }} /><b>{percent(both(extra.retained), whole)}</b></span> {bytes(both(extra.retained))}</td><td class="num">{count(extra.retained.count)}</td></tr>}
        </tbody></table></div>
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
      <h2>Classes that keep most alive <a class="dim small" href={sqlHref(classesSql(dump))}>SQL</a></h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Classes that keep most alive"><table class="top heap-groups"><thead><tr><th scope="col">Class</th><th scope="col" class="num">Objects</th><th scope="col" class="num">Own</th><th scope="col">Retained</th></tr></thead>
        <tbody>{a.value.data.map((r) => (
          <tr><td class="site" title={classTip(String(r[1]), String(r[2]))}><a href={classHref(String(r[1]))}>{safe(String(r[1]))}</a></td><td class="num">{count(Number(r[5]))}</td><td class="num">{bytes(Number(r[6]) + Number(r[7]))}</td>
            <td><span class="share"><i style={{ width: `${(100 * (Number(r[8]) + Number(r[9]))) / most}%` }} /></span> {bytes(Number(r[8]) + Number(r[9]))}</td></tr>
        ))}</tbody></table></div>
    </section>
  );
}

function Overview({ dump }: TabProps) {
  const trace = place.value.trace;
  const q = params(where(dump));
  const a = useAnswer(`heap overview ${trace}?${q}`, () => heapQuestion<HeapOverview>(trace, 'overview', q));
  const o = a.value;
  if (!o) return a.error ? <Failed text={a.error} /> : <Working what="Looking at the heap" />;
  const sql = (what: string, cond = '') => sqlHref(`select count(*) as objects, sum(max(self_size, 0)) as bytes, sum(native_size) as native\nfrom heap_graph_object\nwhere ${at(dump)}${cond}`.replace('select', `-- ${what}\nselect`));
  return (
    <div class="overview">
      <div class="figures">
        <Figure label="Reachable" value={bytes(both(o.reachable))} note={`${count(o.reachable.count)} objects · ${exact(o.reachable.size)} B managed`} to={href({ tab: 'flame', heapmetric: '' })} sql={sql('reachable', ' and reachable')} />
        <Figure label="Native behind it" value={bytes(o.reachable.native)} note="registered by reachable objects" sql={sql('reachable', ' and reachable')} />
        <Figure label="Unreachable" value={bytes(both(o.unreachable))} note={`${count(o.unreachable.count)} objects no root of this graph leads to; garbage that a walk did not visit is not recorded`} to={href({ tab: 'objects', cls: '', only: 'unreachable' })} sql={sql('unreachable', ' and not reachable')} />
        <Figure label="Classes" value={count(dump.classes)} note={`${count(dump.references)} references`} to={href({ tab: 'classes' })} />
        {dump.heap_size >= 0 && <Figure label="The runtime says" value={bytes(dump.heap_size)} note="allocated, in its own count" />}
      </div>
      {dump.oome && (
        <section class="banner bad"><b>Made because memory ran out.</b> {dump.oome.message && <code>{safe(dump.oome.message)}</code>}
          {dump.oome.allocation >= 0 && <> An allocation of {bytes(dump.oome.allocation)} failed;</>}{dump.oome.free >= 0 && <> {bytes(dump.oome.free)} were free in all,</>}{dump.oome.until >= 0 && <> {bytes(dump.oome.until)} until the limit.</>} <a href={sqlHref('select * from heap_graph_thread_callsite')}>Stack of the thread</a></section>
      )}
      <Largest dump={dump} />
      {dump.strings && <Wasted dump={dump} kind="strings" />}
      {dump.arrays && <Wasted dump={dump} kind="arrays" />}
      <Groups title="Roots" what="what holds objects from outside of the heap, and what it keeps alive" rows={o.roots} extra={{ name: 'several roots together', retained: o.shared }} link={(g) => href({ tab: 'dominators', only: g.name, of: '' })}
        sql={`include perfetto module android.memory.heap_graph.dominator_tree;\nselect root_type, count(*) as roots, sum(dominated_obj_count) as retained_objects,\n  sum(dominated_size_bytes + dominated_native_size_bytes) as retained\nfrom heap_graph_object o join heap_graph_dominator_tree d using (id)\nwhere ${at(dump)} and d.idom_id is null\ngroup by 1 order by 4 desc`} />
      <Groups title="Heaps" what="reachable objects by the heap they are in" rows={o.heaps} link={(g) => href({ tab: 'objects', cls: '', only: g.name || 'HEAP_TYPE_UNKNOWN' })}
        sql={`select heap_type, count(*) as objects, sum(max(self_size, 0)) as managed, sum(native_size) as native\nfrom heap_graph_object\nwhere ${at(dump)} and reachable\ngroup by 1`} />
    </div>
  );
}

// ---- classes ----

const classesSql = (d: HeapDump) =>
  `include perfetto module android.memory.heap_graph.heap_graph_class_aggregation;\nselect type_name, reachable_obj_count, reachable_size_bytes, reachable_native_size_bytes,\n  dominated_size_bytes, dominated_native_size_bytes, dominated_obj_count\nfrom android_heap_graph_class_aggregation\nwhere ${at(d)}\norder by dominated_size_bytes desc`;

const CLASS_COLUMNS: GridColumn[] = [
  { name: 'Class', hint: 'its objects: click', numeric: false, width: 380, show: (v) => safe(String(v)), link: (v) => classHref(String(v)) },
  countColumn('Count', 'reachable objects'),
  sizeColumn('Shallow', 'bytes of the objects themselves'),
  sizeColumn('Native', 'bytes outside of the heap that they registered'),
  sizeColumn('Retained', 'bytes that would go with all of them; an object below one of its own class counts once'),
  sizeColumn('Retained native', 'bytes outside of the heap that would go with them', 132),
  countColumn('Retained count', 'objects that would go with them', 132),
  countColumn('Unreachable', 'objects that no root of this graph leads to', 112),
  { name: 'Kind', hint: 'what the runtime makes of the class', numeric: false, width: 110, show: (v) => bare(String(v)) },
];
const CLASS_SORTS = ['name', 'count', 'size', 'native', 'retained', 'retained_native', 'retained_count', 'unreachable'];

function Classes({ dump }: TabProps) {
  const p = place.value;
  const cells = (r: Cell[]): Cell[] => [r[1], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[3], r[2], r[4]];
  const columns = CLASS_COLUMNS.map((c, i) => (i === 0 ? { ...c, tip: (v: Cell, r: Cell[]) => `${classTip(String(v), String(r[9]))}${r[10] ? `\nfrom ${safe(String(r[10]))}` : ''}` } : c));
  return (
    <ServerTable dump={dump} name="classes" query={{ match: p.match }} cells={cells} columns={columns} sorts={CLASS_SORTS} begin={{ column: 4, down: true }} label="Classes" sql={classesSql(dump)}
      empty={p.match ? `No class has '${p.match}' in its name.` : 'No class has an object.'}>
      <input type="search" aria-label="Find classes" placeholder="Find classes" value={p.match} onInput={(e) => go({ match: e.currentTarget.value }, true)} />
    </ServerTable>
  );
}

function FlameTab({ dump }: TabProps) {
  return <HeapFlame dump={dump} />;
}

// ---- the page ----

interface Tab { id: string; label: string; view(p: TabProps): preact.ComponentChild; missing?(d: HeapDump, all: HeapDumps): boolean }

const TABS: Tab[] = [
  { id: '', label: 'Overview', view: (p) => <Overview {...p} /> },
  { id: 'flame', label: 'Flamegraph', view: (p) => <FlameTab {...p} /> },
  { id: 'classes', label: 'Classes', view: (p) => <Classes {...p} /> },
  { id: 'objects', label: 'Objects', view: ({ dump }) => <Objects dump={dump} /> },
  { id: 'dominators', label: 'Dominators', view: ({ dump }) => <Dominators dump={dump} /> },
  { id: 'diff', label: 'Diff', view: ({ dump }) => <DiffTab dump={dump} />, missing: (_, all) => all.dumps.length < 2 && (status.value?.traces.filter((t) => t.heap_graphs).length ?? 0) < 2 },
  { id: 'whole', label: 'Whole process', view: ({ dump }) => <WholeTab dump={dump} /> },
  { id: 'paths', label: 'Paths', view: ({ dump }) => <Paths dump={dump} /> },
  { id: 'strings', label: 'Strings', view: ({ dump }) => <Twins dump={dump} kind="strings" />, missing: (d) => !d.strings },
  { id: 'arrays', label: 'Arrays', view: ({ dump }) => <Twins dump={dump} kind="arrays" />, missing: (d) => !d.arrays },
];

function Tabs({ tabs, on }: { tabs: Tab[]; on: string }) {
  const open = on.startsWith('o') && on !== 'objects' && !objectTabs().includes(on.slice(1)) ? [...objectTabs(), on.slice(1)] : objectTabs();
  const ids = [...tabs.map((t) => t.id), ...open.map((o) => `o${o}`)];
  const close = (o: string) => {
    const left = open.filter((x) => x !== o);
    go({ objs: left.join(','), ...(on === `o${o}` ? { tab: left.length ? `o${left[left.length - 1]}` : 'objects', cut: '' } : {}) });
  };
  const onKey = (e: KeyboardEvent) => {
    const step = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
    const here = ids.indexOf(on);
    if (e.key === 'Delete' && /^o\d/.test(on)) close(on.slice(1));
    else if (step) {
      go({ tab: ids[(here + step + ids.length) % ids.length], zoom: '', cut: '' });
      requestAnimationFrame(() => document.querySelector<HTMLElement>('.tabs [aria-selected=true]')?.focus());
    } else return;
    e.preventDefault();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views of the heap" onKeyDown={onKey}>
      {tabs.map((t) => <a role="tab" id={`tab-${t.id}`} aria-selected={t.id === on} aria-controls="heap-view" tabIndex={t.id === on ? 0 : -1} href={href({ tab: t.id, zoom: '', cut: '' })}>{t.label}</a>)}
      {open.map((o) => (
        <span class="tab-object" role="presentation"><a role="tab" id={`tab-o${o}`} aria-selected={on === `o${o}`} aria-controls="heap-view" tabIndex={on === `o${o}` ? 0 : -1} title="Delete closes it" href={href({ tab: `o${o}`, cut: '' })}>Object {o}</a>
          <button type="button" tabIndex={-1} aria-hidden="true" title="Close" onClick={() => close(o)}>×</button></span>
      ))}
    </div>
  );
}

function DumpBar({ dump, all }: { dump: HeapDump; all: HeapDump[] }) {
  const upids = [...new Map(all.map((d) => [d.upid, d])).values()];
  const mine = all.filter((d) => d.upid === dump.upid);
  const i = mine.indexOf(dump);
  const pick = (d: HeapDump) => go({ upid: d.upid, graph: ns(d.ts), zoom: '', objs: '', of: '', cut: '', ...(/^o\d/.test(place.peek().tab) ? { tab: 'objects' } : {}) });
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || isTyping(e)) return;
      const next = e.key === '[' ? mine[i - 1] : e.key === ']' ? mine[i + 1] : null;
      if (next) pick(next);
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, [dump]);
  return (
    <div class="bar" role="group" aria-label="Dump">
      {upids.length > 1
        ? <label>Process <select value={String(dump.upid)} onChange={(e) => pick(all.filter((d) => d.upid === Number(e.currentTarget.value)).at(-1)!)}>{upids.map((d) => <option value={String(d.upid)}>{safe(base(d.name)) || '?'} ({d.pid})</option>)}</select></label>
        : <b>{safe(base(dump.name)) || 'Managed heap'}{dump.pid > 0 && <span class="dim"> pid {dump.pid}</span>}</b>}
      {mine.length > 1 && (
        <>
          <label>Dump <select aria-label="Dump" value={String(i)} onChange={(e) => pick(mine[Number(e.currentTarget.value)])}>{mine.map((d, k) => <option value={String(k)}>{dumpTime(d, all)} · {count(d.objects)} objects{k === mine.length - 1 ? ' (last)' : ''}</option>)}</select></label>
          <button type="button" title="Previous dump ([)" aria-label="Previous dump" disabled={i === 0} onClick={() => pick(mine[i - 1])}>‹</button>
          <button type="button" title="Next dump (])" aria-label="Next dump" disabled={i === mine.length - 1} onClick={() => pick(mine[i + 1])}>›</button>
        </>
      )}
      <span class="dim">{count(dump.objects)} objects · {count(dump.references)} references{dump.reason && ` · ${safe(dump.reason)}`}</span>
      {dump.cmdline && dump.cmdline !== dump.name && <span class="dim cmdline" title={safe(dump.cmdline)}>{safe(dump.cmdline)}</span>}
    </div>
  );
}

/** A dump that did not end: figures would pass for the whole. */
function Unfinished({ errors }: { errors: HeapDumps['errors'] }) {
  return (
    <div class="empty" role="alert">
      <p><b>This dump did not end: a part of the heap is missing.</b></p>
      <p class="dim">Sums are too small, and objects whose referrers are missing look unreachable. The process may have ended while it was dumped, or the recorder's buffer was too small.</p>
      <details><summary>Show errors</summary>
        {errors.length ? <ul>{errors.map((e) => <li><code>{safe(e.name)}</code>: {count(e.count)}{e.pid >= 0 && ` (pid ${e.pid})`}</li>)}</ul> : <p>The reader counted none.</p>}
        <p><a href={href({ page: 'info' })}>Info & stats</a></p></details>
      <p><button type="button" class="primary" onClick={() => go({ anyway: true })}>View anyway</button></p>
    </div>
  );
}

export function HeapPage({ trace }: { trace: Trace }) {
  const answer = useAnswer(`heap dumps ${trace.id}`, () => heapQuestion<HeapDumps>(trace.id, 'dumps', ''));
  const p = place.value;
  if (!answer.value) return answer.error ? <Failed text={answer.error} /> : <Busy what="Reading dumps" />;
  const dump = dumpOf(answer.value.dumps);
  if (!dump) return <div class="empty"><p>{safe(base(trace.name))} holds no dump of a managed heap.</p><p class="dim"><code>heapwise java dump PID</code> makes one of a running JVM.</p></div>;
  // The reader says of which process; it is the last dump that did not end.
  const unfinished = dump === answer.value.dumps.filter((d) => d.upid === dump.upid).at(-1) && answer.value.errors.some((e) => /non_finalized|missing_packet/.test(e.name) && (e.pid < 0 || e.pid === dump.pid));
  const tabs = TABS.filter((t) => !t.missing?.(dump, answer.value!));
  const object = /^o(\d+)$/.exec(p.tab)?.[1];
  const tab: Tab = object ? { id: p.tab, label: '', view: ({ dump: d }) => <ObjectTab dump={d} id={Number(object)} /> } : tabs.find((t) => t.id === p.tab) ?? tabs[0];
  return (
    <div class="column heap">
      <DumpBar dump={dump} all={answer.value.dumps} />
      {(dump.truncated || unfinished) && !p.anyway ? <Unfinished errors={answer.value.errors} /> : (
        <>
          {(dump.truncated || unfinished) && <p class="banner bad">A part of this dump is missing: sums are too small. <button type="button" onClick={() => go({ anyway: false })}>Why</button></p>}
          <Tabs tabs={tabs} on={tab.id} />
          <div class="column" role="tabpanel" id="heap-view" aria-labelledby={`tab-${tab.id}`} key={`${tab.id} ${dump.upid} ${dump.ts}`}>{tab.view({ dump, all: answer.value, trace })}</div>
        </>
      )}
    </div>
  );
}
