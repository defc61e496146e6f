// MemoryInfra: global dumps, what each process's allocators hold, and below a cell the heap's details.
import { status, type Trace } from '../app/api';
import { base, bytes, clock, exact, safe } from '../app/format';
import { dumpOf, infraDumps, infraNodes, type InfraDump, type InfraTable, infraTable, type Cell, pickDump } from './infra-api';
import { Change, HeapDetails } from './infra-details';
import { Busy, Failed, useAnswer } from '../parts/parts';
import { go, place } from '../app/state';
import { ns } from '../app/times';

const SHOWN = 60; // dumps as buttons; the lists beside them have all

export const DETAIL: Record<InfraDump['detail'], string> = { detailed: 'detailed', light: 'light: totals and few nodes', background: 'background: totals only' };

function Dumps({ all, now, start }: { all: InfraDump[]; now: InfraDump; start: number }) {
  const p = place.value;
  const at = all.indexOf(now);
  const first = Math.max(0, Math.min(all.length - SHOWN, at - SHOWN / 2));
  const words = (d: InfraDump) => `${clock(d.ts - start)} ${d.detail}`;
  return (
    <div class="infra-dumps">
      <div class="bar" role="group" aria-label="Dumps">
        {first > 0 && <span class="dim">{first} earlier</span>}
        {all.slice(first, first + SHOWN).map((d) => {
          const since = p.since === ns(d.ts);
          return (
            <button type="button" class={`m ${since ? 'since' : ''} ${d.heaps ? '' : 'light'}`} aria-pressed={d === now}
              title={`${DETAIL[d.detail]}${d.heaps ? '; with heap dumps' : ''}\nCtrl+click: show what changed since this dump`}
              onClick={(e) => pickDump(all, d, e.ctrlKey || e.metaKey)}><i>M</i>{clock(d.ts - start)} <span class="dim">{d.detail}{since ? ' · since' : ''}</span></button>
          );
        })}
        {first + SHOWN < all.length && <span class="dim">{all.length - first - SHOWN} later</span>}
      </div>
      <div class="bar">
        {all.length > SHOWN && <label>Dump <select value={ns(now.ts)} onChange={(e) => go({ dump: e.currentTarget.value })}>{all.map((d) => <option value={ns(d.ts)}>{words(d)}</option>)}</select></label>}
        <label>Compare with <select aria-label="Compare with" value={p.since} onChange={(e) => go({ since: e.currentTarget.value })}>
          <option value="">nothing</option>
          {all.filter((d) => d !== now).map((d) => <option value={ns(d.ts)}>{words(d)}</option>)}
        </select></label>
        <span class="dim hint">{p.since ? 'Figures are changes.' : 'Ctrl+click a dump for what changed since it.'} ☰ leads to a heap’s details, Ctrl+☰ compares them with another’s.</span>
      </div>
    </div>
  );
}

const SOURCES = { heap: 'the trace has no memory dump of this moment: what the profile saw asked for and not freed', malloc_info: 'malloc’s own figures: what it got from the kernel' };

function Figure({ c, diff, total, start }: { c: Cell; diff: boolean; total: boolean; start: number }) {
  const title = [
    c.now !== undefined ? `${exact(c.now)} B` : 'not in this dump', diff ? (c.base !== undefined ? `before: ${exact(c.base)} B` : 'not in the dump before') : '',
    c.at !== undefined ? `of ${clock(c.at - start)}` : '', c.source ? SOURCES[c.source] : '',
  ].filter(Boolean).join('\n');
  // A node that was not told held nothing; a total that was not told is unknown.
  if (c.now === undefined && c.base === undefined || diff && total && (c.now === undefined || c.base === undefined)) return <span class="dim" title={title}>–</span>;
  return <span title={title}>{diff ? <Change v={(c.now ?? 0) - (c.base ?? 0)} /> : c.now === undefined ? '–' : bytes(c.now)}{c.source === 'heap' && <span class="dim">*</span>}</span>;
}

function Table({ t, start }: { t: InfraTable; start: number }) {
  const p = place.value;
  const diff = t.base !== null;
  const [by, way] = [p.order.slice(0, -1), p.order.slice(-1)];
  const value = (c: Cell | null) => (c ? (c.now ?? 0) - (diff ? c.base ?? 0 : 0) : -Infinity);
  const column = t.columns.findIndex((c) => c.name === by);
  const rows = [...t.rows].sort((a, b) => {
    const up = way === '+' ? 1 : -1;
    if (column >= 0) return up * (value(a.cells[column]) - value(b.cells[column])) || a.pid - b.pid;
    return (by === 'process' && way === '-' ? -1 : 1) * (a.pid - b.pid);
  });
  const head = (name: string, label: string, cls = '') => {
    const on = by === name || (name === 'process' && column < 0);
    const up = on && (name === 'process' ? way !== '-' : way === '+');
    return <th scope="col" class={cls} aria-sort={on ? (up ? 'ascending' : 'descending') : undefined}><button type="button" class="plain" onClick={() => go({ order: `${name}${on ? (up ? '-' : '+') : name === 'process' ? '+' : '-'}` })}>{safe(label)}{on ? (up ? ' ▴' : ' ▾') : ''}</button></th>;
  };
  const guess = t.rows.some((r) => r.cells.some((c) => c?.source === 'heap'));
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Processes and allocators">
        <table class="top infra">
          <thead><tr>{head('process', 'Process')}{t.columns.map((c) => head(c.name, c.name, `num ${c.total ? 'total' : ''}`))}</tr></thead>
          <tbody>{rows.map((r) => (
            <tr><th scope="row">{safe(base(r.name)) || 'process'} <span class="dim">({r.pid}){r.labels && ` ${safe(r.labels)}`}</span></th>
              {r.cells.map((c, i) => {
                const name = t.columns[i].name;
                const id = `${r.upid} ${name}`;
                const label = `Heap details of ${safe(name)} in ${safe(base(r.name)) || 'process'} ${r.pid}${p.cell && p.cell !== id ? '; Ctrl+click: compare with it' : ''}`;
                return <td class={`num ${t.columns[i].total ? 'total' : ''}`}>{c ? <Figure c={c} diff={diff} total={t.columns[i].total} start={start} /> : <span class="dim">–</span>}
                  {c?.heap ? <button type="button" class="plain menu-cell" aria-label={label} title={label} aria-pressed={p.cell === id} onClick={(e) => ((e.ctrlKey || e.metaKey) && p.cell ? go({ other: p.other === id || p.cell === id ? '' : id, otherfile: '' }) : go({ cell: id, other: '', ...(p.cell === id ? {} : { root: '', row: '' }) }))}>☰</button> : <span class="no-cell" />}</td>;
              })}</tr>
          ))}</tbody>
        </table>
      </div>
      {guess && <p class="dim small">* no memory dump was written at this moment: the figure is what the profile saw asked for and not freed.</p>}
    </>
  );
}

function AllocatorNodes({ trace, query, name, diff }: { trace: number; query: string; name: string; diff: boolean }) {
  const nodes = useAnswer(`nodes ${trace}?${query}`, () => infraNodes(trace, query)).value;
  if (!nodes?.rows.length) return null;
  return (
    <details class="infra-nodes"><summary>What {safe(name)} says of itself</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Nodes of the allocator"><table class="top">
        <thead><tr><th scope="col">Node</th><th scope="col" class="num">Effective size</th><th scope="col" class="num">Size</th>{diff && <th scope="col" class="num">Change of effective size</th>}</tr></thead>
        <tbody>{nodes.rows.map((n) => {
          const parts = n.path.split('/');
          return <tr><td style={{ paddingLeft: `${10 + 16 * Math.min(20, parts.length - 1)}px` }} title={safe(n.path)}>{safe(parts[parts.length - 1])}</td>
            <td class="num">{n.effective === undefined ? '–' : bytes(n.effective)}</td><td class="num">{n.size === undefined ? '–' : bytes(n.size)}</td>
            {diff && <td class="num">{n.effective === undefined || n.base === undefined ? '–' : <Change v={n.effective - n.base} />}</td>}</tr>;
        })}</tbody></table></div>
      <p class="dim small">An effective size charges each byte once: what a node shares with another is told at the one that owns it.</p>
    </details>
  );
}

export function InfraPage({ trace }: { trace: Trace }) {
  const p = place.value;
  const dumps = useAnswer(`infra ${trace.id}`, () => infraDumps(trace.id));
  const now = dumps.value && dumpOf(dumps.value, p.dump);
  const query = new URLSearchParams({ ...(now ? { dump: ns(now.ts) } : {}), ...(p.since ? { base: p.since } : {}) }).toString();
  const table = useAnswer(`infra table ${trace.id}?${now ? query : ''}`, async () => (now ? infraTable(trace.id, query) : null));
  if (!dumps.value) return dumps.error ? <Failed text={dumps.error} /> : <Busy what="Reading dumps" />;
  if (!now) return <div class="empty"><p>{p.dump ? 'There is no dump at that time.' : 'The trace holds no memory dump.'}</p>{p.dump && <p><button type="button" onClick={() => go({ dump: '', since: '' })}>Show the last one</button></p>}</div>;
  const t = table.value;
  const start = Math.min(trace.first_ns ?? now.ts, dumps.value[0].ts);
  const [, upid, name] = /^(\d+) (.*)$/s.exec(p.cell) ?? [];
  const process = t?.rows.find((r) => String(r.upid) === upid);
  const column = t?.columns.findIndex((c) => c.name === name) ?? -1;
  const cell = process && column >= 0 ? process.cells[column] : null;
  const own = new URLSearchParams({ upid: upid ?? '', heap: name ?? '' });
  const about = `${query}&${own}`;
  const [, otherUpid, otherHeap] = /^(\d+) (.*)$/s.exec(p.other) ?? [];
  const other = t?.rows.find((r) => String(r.upid) === otherUpid);
  const files = (status.value?.traces ?? []).filter((x) => x.id !== trace.id && x.state === 'ready');
  const file = files.find((x) => String(x.id) === p.otherfile);
  const against: Record<string, string> | null = file ? { base_trace: p.otherfile } : other ? { base_upid: otherUpid, base_heap: otherHeap, ...(p.since ? { base: p.since } : {}) } : p.since ? { base: p.since } : null;
  const details = `${new URLSearchParams({ dump: ns(now.ts), ...against })}&${own}`;
  const beside = file ? `, against the end of ${safe(base(file.name))}` : other ? `, against ${safe(otherHeap)} of ${safe(base(other.name)) || 'process'} (${other.pid})${p.since ? ` at ${clock(Number(p.since) - start)}` : ''}` : p.since ? `, changes since ${clock(Number(p.since) - start)}` : '';
  return (
    <div class="column infra-page" aria-busy={table.busy}>
      <Dumps all={dumps.value} now={now} start={start} />
      {table.error && <Failed text={table.error} />}
      {t && <Table t={t} start={start} />}
      {upid && t && !cell?.heap && <p class="empty small" role="note">{safe(name)} of that process has no heap dump at this moment; choose another dump or ☰.</p>}
      {upid && t && cell?.heap && process && (
        <>
          <h2>Heap details <span class="dim">{safe(name)} of {safe(base(process.name)) || 'process'} ({process.pid}) at {clock(now.ts - start)}{beside}</span></h2>
          {(files.length > 0 || other) && <p class="small infra-against">
            {files.length > 0 && <label>Against <select aria-label="Compare with a file" value={file ? p.otherfile : ''} onChange={(e) => go({ otherfile: e.currentTarget.value, other: '' })}>
              <option value="">this trace</option>
              {files.map((x) => <option value={String(x.id)}>{safe(base(x.name))}</option>)}
            </select></label>} {other && <button type="button" onClick={() => go({ other: '' })}>Stop comparing with {other.pid}</button>}</p>}
          <AllocatorNodes trace={trace.id} query={about} name={name} diff={!!p.since} />
          <HeapDetails trace={trace.id} query={details} diff={!!against} name={name} cell={cell} />
        </>
      )}
    </div>
  );
}
