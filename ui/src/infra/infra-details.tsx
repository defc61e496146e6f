// One heap by callstack (ƒ) and by type (Ⓣ): a tree on the left, what is below the chosen row on the right.
// Places have keys that do not depend on the dump, so what is open stays open when the dump changes.
import { signal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, save } from '../app/api';
import { bytes, count, exact, safe } from '../app/format';
import { type Cell, infraLarge, infraPlace, type Part, type Place } from './infra-api';
import { Busy, Choice, Failed } from '../parts/parts';
import { go, place } from '../app/state';
import { ROW, useWindow } from '../graph/tables';

/** Open places, by cell. */
const open = signal<Record<string, string[]>>({});

const SIGN: Record<Part['kind'], string> = { root: '', frame: 'ƒ', type: 'T', self: 'ƒ', other: '' }; // the T has a circle (infra.css): fonts without Ⓣ are common
const Sign = ({ of }: { of: Part['kind'] }) => <span class={`sign ${of}`} aria-hidden="true">{SIGN[of] && <i>{SIGN[of]}</i>}</span>;
const KIND: Record<Part['kind'], string> = { root: 'heap', frame: 'function', type: 'type', self: 'the function itself', other: 'small ones together' };

interface Line { part: Part; at: string; level: number; last?: string }

const below = (root: string, key: string) => (root ? `${root}/${key}` : key);
const above = (at: string) => at.slice(0, Math.max(0, at.lastIndexOf('/')));

/** What is below each of these places; those of the last question stay until the new ones are there. */
function usePlaces(trace: number, question: string, wanted: string[]): { places: Map<string, Place>; error: string; busy: boolean } {
  const kept = useRef(new Map<string, Place | null>());
  const shown = useRef({ places: new Map<string, Place>(), error: '' });
  const [, tick] = useState(0);
  const key = (at: string) => `${trace} ${question} ${at}`;
  const missing = wanted.filter((at) => !kept.current.has(key(at)));
  useEffect(() => {
    let current = true;
    if (!missing.length) return;
    let error = '';
    Promise.all(missing.map(async (at) => {
      try {
        kept.current.set(key(at), await infraPlace(trace, `${question}&place=${at}`));
      } catch (e) {
        if (e instanceof ApiError && e.code === 400 && at) kept.current.set(key(at), null); // not in this dump
        else error = (e as Error).message;
      }
    })).then(() => {
      shown.current.error = error;
      if (kept.current.size > 2000) kept.current.clear();
      if (current) tick((n) => n + 1);
    });
    return () => {
      current = false;
    };
  }, [trace, question, missing.join(' ')]);
  if (!missing.length) {
    const places = new Map<string, Place>();
    for (const at of wanted) {
      const x = kept.current.get(key(at));
      if (x) places.set(at, x);
    }
    shown.current.places = places;
  }
  return { ...shown.current, busy: missing.length > 0 && !shown.current.error };
}

/** A change with its sign; the word says which way, too. */
export function Change({ v, text = bytes }: { v: number; text?: (v: number) => string }) {
  return <span class={v > 0 ? 'up' : v < 0 ? 'down' : 'dim'}>{v > 0 ? '+' : ''}{text(v)}</span>;
}

function Amount({ part, diff, of }: { part: Part; diff: boolean; of: 'size' | 'count' }) {
  const now = part[of];
  const before = (of === 'size' ? part.size_before : part.count_before) ?? 0;
  const text = of === 'size' ? bytes : count;
  const unit = of === 'size' ? ' B' : '';
  return <span title={diff ? `${exact(before)}${unit} before, ${exact(now)}${unit} now` : `${exact(now)}${unit}`}>{diff ? <Change v={now - before} text={text} /> : text(now)}</span>;
}

const label = (part: Part, name: string) => (part.kind === 'root' ? safe(name) : part.kind === 'other' ? `<other> (${count(part.folded ?? 0)} small)` : safe(part.label) || '(no name)');

const hint = (part: Part) => part.kind === 'other'
  ? `Each of these ${count(part.folded ?? 0)} is too small for a line of its own; together they can be large. "Small ones" above chooses what is small.`
  : part.kind === 'self' ? 'what the function asked for itself, without what it calls' : safe(part.label);

function Tree({ lines, root, diff, name, opened, toggle }: { lines: Line[]; root: string; diff: boolean; name: string; opened: Set<string>; toggle(at: string, want?: boolean): void }) {
  const p = place.value;
  const index = Math.max(0, lines.findIndex((l) => l.at === p.row));
  const w = useWindow(lines.length);
  const show = (to: number) => {
    const i = Math.max(0, Math.min(lines.length - 1, to));
    go({ row: lines[i].at }, true);
    const el = w.ref.current!;
    if (i * ROW < el.scrollTop) el.scrollTop = i * ROW;
    else if ((i + 1) * ROW > el.scrollTop + el.clientHeight) el.scrollTop = (i + 1) * ROW - el.clientHeight;
  };
  const has = (l: Line) => l.part.kind === 'root' || !!l.part.more;
  const enter = (l: Line) => has(l) && l.at !== root && go({ root: l.at, row: l.at });
  return (
    <div class="table tree infra-tree">
      <div class="row head" aria-hidden="true"><span class="num">{diff ? 'Size ±' : 'Size'}</span><span class="num">{diff ? 'Count ±' : 'Count'}</span><span>Place</span></div>
      <div class="rows" role="tree" aria-label="Heap details" tabIndex={0} aria-activedescendant={`part-${index}`} ref={w.ref} onScroll={w.look} onKeyDown={(e) => {
        const l = lines[index];
        const acts: Record<string, () => void> = {
          ArrowDown: () => show(index + 1), ArrowUp: () => show(index - 1), PageDown: () => show(index + 15), PageUp: () => show(index - 15),
          Home: () => show(0), End: () => show(lines.length - 1),
          ArrowRight: () => { if (has(l)) opened.has(l.at) ? show(index + 1) : toggle(l.at, true); },
          ArrowLeft: () => { if (opened.has(l.at) && l.at !== root) toggle(l.at, false); else if (l.at !== root) show(lines.findIndex((x) => x.at === above(l.at))); },
          Enter: () => enter(l),
          Backspace: () => root && go({ root: above(root), row: root }),
          ' ': () => has(l) && toggle(l.at),
        };
        const act = acts[e.key];
        if (!act || e.ctrlKey || e.altKey || e.metaKey) return;
        e.preventDefault();
        act();
      }}>
        <div role="presentation" style={{ height: `${lines.length * ROW}px` }}>
          {lines.slice(w.first, w.last).map((l, k) => {
            const i = w.first + k;
            return (
              <div role="treeitem" id={`part-${i}`} aria-level={l.level + 1} aria-selected={i === index} aria-expanded={has(l) ? opened.has(l.at) : undefined}
                class={`row ${i === index ? 'on' : ''}`} style={{ top: `${i * ROW}px` }} title={hint(l.part)}
                onClick={() => { go({ row: l.at }, true); if (has(l) && l.at !== root) toggle(l.at); }} onDblClick={() => enter(l)}>
                <span class="num"><Amount part={l.part} diff={diff} of="size" /></span><span class="num dim"><Amount part={l.part} diff={diff} of="count" /></span>
                <span style={{ paddingLeft: `${Math.min(40, l.level) * 14}px` }}><i class="twist" aria-hidden="true">{!has(l) ? '·' : opened.has(l.at) ? '▾' : '▸'}</i><Sign of={l.part.kind} /><span class="sr">{KIND[l.part.kind]}: </span>{label(l.part, name)}</span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function Children({ answer, diff, at, name }: { answer: Place | undefined; diff: boolean; at: string; name: string }) {
  if (!answer) return <p class="dim">Nothing is below the chosen row.</p>;
  const of = answer.path[answer.path.length - 1];
  return (
    <>
      <h3>Below {safe(of.kind === 'root' ? name : of.label)}</h3>
      <div class="scroll" tabIndex={0} role="region" aria-label="Below the chosen row"><table class="top">
        <thead><tr><th scope="col">Part</th><th scope="col" class="num">Size</th><th scope="col" class="num">Count</th></tr></thead>
        <tbody>{answer.rows.map((r) => (
          <tr title={hint(r)}><td>{r.more ? <button type="button" class="plain" title="Make it the root" onClick={() => go({ root: below(at, r.key), row: below(at, r.key) })}><Sign of={r.kind} />{label(r, name)}</button> : <span><Sign of={r.kind} />{label(r, name)}</span>}</td>
            <td class="num"><Amount part={r} diff={diff} of="size" /></td><td class="num"><Amount part={r} diff={diff} of="count" /></td></tr>
        ))}</tbody></table></div>
      {answer.cut > 0 && <p class="dim">{count(answer.cut)} more are not listed.</p>}
      {!answer.rows.length && <p class="dim">Nothing is below it: it asked for all of this itself.</p>}
    </>
  );
}

/** The file that diff_heap_profiler writes: callstacks with more objects, and more bytes, than so many. */
function Large({ trace, query, diff }: { trace: number; query: string; diff: boolean }) {
  const [objects, setObjects] = useState('1000');
  const [size, setSize] = useState('0');
  const [said, say] = useState('');
  const number = (text: string) => /^\d{1,15}$/.test(text.trim());
  const extract = () => {
    say('');
    infraLarge(trace, `${query}&min_count=${objects.trim()}&min_size=${size.trim()}`).then(async (b) => {
      const n = JSON.parse(await b.text()).length;
      if (n) save(b, 'large-allocations.json');
      say(n ? `${count(n)} callstacks saved` : 'No callstack holds as much.');
    }, (e: Error) => say(e.message));
  };
  return (
    <div class="bar" role="group" aria-label="Extract large allocations">
      <label>Callstacks {diff ? 'that grew by' : 'with'} more than <input class="short" type="text" inputMode="numeric" aria-label="Objects" value={objects} onInput={(e) => setObjects(e.currentTarget.value)} /> objects</label>
      <label>and <input class="short" type="text" inputMode="numeric" aria-label="Bytes" value={size} onInput={(e) => setSize(e.currentTarget.value)} /> bytes</label>
      <button type="button" onClick={extract} disabled={!number(objects) || !number(size)}>Extract large allocations</button>
      <span class="dim" role="status">{safe(said)}</span>
    </div>
  );
}

/** Why the details do not add up to the cell. */
function Note({ root, cell }: { root: Part; cell: Cell }) {
  const rest = (cell.now ?? 0) - root.size;
  if (cell.now === undefined || cell.source === 'heap' || rest === 0) return null;
  return (
    <p class="banner note" role="note">The cell says {bytes(cell.now)}, the details {bytes(root.size)}, {rest > 0 ? `${bytes(rest)} less` : `${bytes(-rest)} more`}: they count different things. The cell is what the allocator took from the system; the details are what the program asked for. Between them lie what was allocated before profiling began, the allocator’s overhead and what it keeps free, and the memory of tracing itself, which is taken off the cell.</p>
  );
}

export function HeapDetails({ trace, query, diff, name, cell }: { trace: number; query: string; diff: boolean; name: string; cell: Cell }) {
  const p = place.value;
  const mine = `${trace} ${p.cell} ${p.dims}`;
  const opened = new Set([p.root, ...(open.value[mine] ?? [])]);
  const inside = (at: string) => !p.root || at === p.root || at.startsWith(`${p.root}/`);
  const rule = p.rule || 'threshold';
  // Types first: at the heap its types, inside a type functions.
  const by = (at: string) => (p.dims === 'frames' ? 'frames' : p.dims === 'types' ? (at === '' ? 'types' : 'frames') : 'both');
  const inOrder = `${query}&rule=${rule}`;
  const wanted = [...new Set([...opened, p.row])].filter(inside);
  const bottom = usePlaces(trace, `${inOrder}&by=${by('x')}`, wanted.filter((at) => at !== '' || by('') === by('x')));
  const top = usePlaces(trace, `${inOrder}&by=${by('')}`, by('') !== by('x') && wanted.includes('') ? [''] : []);
  const find = (at: string) => (at === '' && by('') !== by('x') ? top.places.get('') : bottom.places.get(at));
  const first = find(p.root);
  const lines = useMemo(() => {
    const out: Line[] = [];
    const add = (part: Part, at: string, level: number) => {
      out.push({ part, at, level });
      if (opened.has(at)) for (const r of find(at)?.rows ?? []) add(r, below(at, r.key), level + 1);
    };
    if (first) add({ ...first.path[first.path.length - 1], more: true }, p.root, 0);
    return out;
  }, [bottom.places, top.places, p.root, open.value, mine]);
  const toggle = (at: string, want?: boolean) => {
    const set = new Set(open.value[mine] ?? []);
    if (want ?? !set.has(at)) set.add(at);
    else set.delete(at);
    open.value = { ...open.value, [mine]: [...set] };
  };
  const error = bottom.error || top.error;
  const busy = bottom.busy || top.busy;
  const gone = !first && !busy && !error && p.root !== '';
  const chosen = lines.find((l) => l.at === p.row)?.at ?? p.root;
  return (
    <div class="infra-details" aria-busy={busy}>
      <div class="bar">
        <Choice label="Break down by" value={p.dims || 'both'} onChange={(v) => go({ dims: v === 'both' ? '' : v, root: '', row: '' })} options={[
          { id: 'both', label: 'Functions and types', hint: 'callstacks, and at each place its types' }, { id: 'frames', label: 'Functions', hint: 'callstacks only' }, { id: 'types', label: 'Types, then functions', hint: 'types, and who asked for each' }]} />
        <label>Small ones <select value={rule} onChange={(e) => go({ rule: e.currentTarget.value === 'threshold' ? '' : e.currentTarget.value })}>
          <option value="threshold">below 1 KiB</option><option value="fraction">below 0.8 % of what stands before</option><option value="rows">below 16 KiB and 1024 objects</option><option value="all">all have a line</option>
        </select></label>
        {first && first.path.length > 1 && (
          <nav class="crumbs" aria-label="Root of the details">{first.path.map((x, i) => {
            const at = first.path.slice(1, i + 1).map((y) => y.key).join('/');
            return <>{i > 0 && <span class="dim" aria-hidden="true"> › </span>}{i < first.path.length - 1 ? <button type="button" class="plain" onClick={() => go({ root: at, row: at })}><Sign of={x.kind} />{label(x, name)}</button> : <b><Sign of={x.kind} />{label(x, name)}</b>}</>;
          })}</nav>
        )}
        <span class="grow" /><span class="dim hint">Enter: make it the root · Backspace: back · → ←: open, close</span>
      </div>
      {error && <Failed text={error} />}
      {gone && <p class="empty small" role="note">That place holds nothing at this dump. <button type="button" onClick={() => go({ root: '', row: '' })}>Show the whole heap</button></p>}
      {!first && busy && <Busy what="Breaking down" />}
      {first && (
        <div class="split">
          <Tree lines={lines} root={p.root} diff={diff} name={name} opened={opened} toggle={toggle} />
          <div class="infra-children"><Children answer={find(chosen)} diff={diff} at={chosen} name={name} /></div>
        </div>
      )}
      {first && <Large trace={trace} query={query} diff={diff} />}
      {first && p.root === '' && !diff && <Note root={first.path[0]} cell={cell} />}
    </div>
  );
}
