// Small parts that pages share: loading answers, selection controls, filters, menus, banners.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, download, type Loss, returns, status, timeline, type Timeline, type Trace, type Tracks } from '../app/api';
import { base, clock, bytes, count, METRICS, of, safe } from '../app/format';
import { remember, remembered } from '../app/store';
import { go, href, place, selection } from '../app/state';
import { chosen, together } from '../app/together';
import { ns } from '../app/times';

// ---- answers ----

export interface Answer<T> { value: T | null; error: string; busy: boolean }

/** Asks again when key changes; the old answer stays on screen meanwhile. */
export function useAnswer<T>(key: string, make: () => Promise<T>): Answer<T> {
  const [a, set] = useState<Answer<T>>({ value: null, error: '', busy: true });
  const [round, again] = useState(0);
  useEffect(() => {
    if (a.error) again((n) => n + 1);
  }, [returns.value]);
  useEffect(() => {
    let current = true;
    set((old) => ({ ...old, busy: true, error: '' }));
    make().then(
      (value) => current && set({ value, error: '', busy: false }),
      (e: Error) => current && set({ value: null, error: e instanceof ApiError ? e.message : 'The server gave no answer.', busy: false }),
    );
    return () => {
      current = false;
    };
  }, [key, round]);
  return a;
}

/** As useAnswer, one question at a time: what comes is shown, and then the newest is asked. A dragged
 * handle asks faster than the server answers; else nothing would be seen before it rests. */
export function useFollowing<T>(key: string, make: () => Promise<T>): Answer<T> {
  const [a, set] = useState<Answer<T>>({ value: null, error: '', busy: true });
  const running = useRef(false);
  const newest = useRef({ key, make });
  newest.current = { key, make };
  const there = useRef(true);
  const start = () => {
    const asked = newest.current.key;
    running.current = true;
    const next = () => {
      running.current = false;
      if (there.current && newest.current.key !== asked) start();
    };
    const busy = () => newest.current.key !== asked;
    newest.current.make().then(
      (value) => { if (there.current) set({ value, error: '', busy: busy() }); next(); },
      (e: Error) => { if (there.current && e.name !== 'AbortError') set({ value: null, error: e instanceof ApiError ? e.message : 'The server gave no answer.', busy: busy() }); next(); },
    );
  };
  const round = returns.value;
  useEffect(() => {
    set((old) => ({ ...old, busy: true, error: '' }));
    if (!running.current) start();
  }, [key, round]);
  useEffect(() => {
    there.current = true;
    return () => {
      there.current = false;
    };
  }, []);
  return a;
}

export const currentTrace = (): Trace | null => status.value?.traces.find((t) => t.id === place.value.trace) ?? null;

export function useTimeline(): Answer<Timeline> {
  const id = place.value.trace;
  return useAnswer(`timeline ${id}`, () => timeline(id));
}

/** The process that is looked at: the URL's, or the one that allocated most; sum: several as one. */
export function tracksOf(t: Timeline | null, sum = false): Tracks | null {
  const parts = t ? chosen(t) : [];
  return sum && parts.length > 1 ? together(parts) : parts[0] ?? null;
}

/** The name of what is looked at. */
/** What is shown when no heap is chosen: unlike heaps are never added up. */
export const heapsWord = (t: Tracks): string => {
  const summed = t.heaps.filter((h) => h.summed);
  return summed.length === t.heaps.length ? 'all heaps' : summed.length === 1 ? safe(summed[0].heap) : 'all native heaps';
};

export const nameOfTracks = (t: Tracks): string => {
  const one = (x: Tracks) => `${safe(base(x.name)) || '?'} (${x.pid})`;
  return t.parts ? `${t.parts.length} processes: ${t.parts.slice(0, 3).map(one).join(', ')}${t.parts.length > 3 ? ' …' : ''}` : one(t);
};

/** What pages about a native heap profile get. */
export interface ProfileProps { tracks: Tracks; all: Timeline; trace: Trace }

// ---- words ----

export const Busy = ({ what }: { what: string }) => <p class="empty" role="status">{what}…</p>;
export const Failed = ({ text }: { text: string }) => <p class="banner bad" role="alert">{safe(text)}</p>;

const LOSS: Record<string, (l: Loss) => string> = {
  samples: (l) => `${of(l.count, 'sample was', 'samples were')} lost${l.detail ? ` (${l.detail})` : ''}`,
  overran: () => 'the profile ended early: its buffer stayed full; record with a larger --shmem-size or a larger interval',
  corrupted: () => 'the buffer shared with the program was damaged; the profile ended there',
  rejected: () => 'another recording was already profiling this process; end that one first',
  guardrail: () => 'the profile ended early: the recorder reached its limit of memory or CPU time',
  timeout: () => 'the profile ended early: its buffer was full and the recorder made no room in time; record with a larger --shmem-size',
  stack: () => 'the profile ended early: a thread ran on a stack with unknown bounds, as coroutines and JITs do',
  unwinding: (l) => `${of(l.count, 'stack was', 'stacks were')} cut short: the bytes count, the callers are missing`,
  interval: () => 'the sampling interval was raised while recording: less precise',
  stat: (l) => `${l.detail}: ${count(l.count)}`,
};

export function Losses({ trace }: { trace: Trace }) {
  const list = trace.losses ?? [];
  if (!list.length) return null;
  return (
    <div class={`banner ${list.some((l) => l.incomplete) ? 'bad' : 'note'}`} role="status">
      {list.map((l) => {
        const p = trace.processes?.find((x) => x.upid === l.upid);
        return <div>{l.incomplete ? 'Data is missing: ' : 'Less precise: '}{safe(LOSS[l.kind]?.(l) ?? l.kind)}{p && ` – ${safe(p.name)} (${p.pid})`}</div>;
      })}
    </div>
  );
}

// ---- controls ----

export function Choice<T extends string>({ label, value, options, onChange }: {
  label: string; value: T; options: { id: T; label: string; hint?: string }[]; onChange(v: T): void;
}) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map((o) => (
        <button type="button" aria-pressed={o.id === value} title={o.hint} onClick={() => onChange(o.id)}>{o.label}</button>
      ))}
    </div>
  );
}

export const MetricChoice = () => (
  <Choice label="Metric" value={place.value.metric} options={METRICS} onChange={(metric) => go({ metric })} />
);

/** What is looked at, in words and as controls: process, heap, moment. */
export function SelectionBar({ tracks, all, sum = false }: { tracks: Tracks; all: Timeline; sum?: boolean }) {
  const p = place.value;
  const moments = tracks.moments;
  const index = p.at && p.at !== 'peak' ? moments.findIndex((m) => ns(m.ts) === p.at && m.max === p.max) : p.at === 'peak' ? -1 : moments.length - 1;
  const step = (by: number) => {
    const m = moments[Math.max(0, Math.min(moments.length - 1, (index < 0 ? moments.length - 1 : index) + by))];
    if (m) go({ at: ns(m.ts), max: m.max });
  };
  return (
    <div class="bar" role="group" aria-label="Selection">
      {all.processes.length > 1 && (
        <label>Process <select value={tracks.parts ? 'several' : String(tracks.upid)} onChange={(e) => {
          const v = e.currentTarget.value;
          const rest = { heap: '', at: '', max: false, from: '', zoom: '' };
          if (v === 'all') go({ with: all.processes.filter((x) => x !== chosen(all)[0]).map((x) => x.upid).join(','), ...rest });
          else go({ upid: Number(v), with: '', ...rest });
        }}>
          {tracks.parts && <option value="several">{nameOfTracks(tracks)}</option>}
          {sum && tracks.parts?.length !== all.processes.length && <option value="all">all {all.processes.length} together</option>}
          {all.processes.map((x) => <option value={String(x.upid)}>{safe(base(x.name)) || '?'} ({x.pid})</option>)}
        </select></label>
      )}
      {tracks.heaps.length > 1 && (
        <label>Heap <select value={p.heap} onChange={(e) => go({ heap: e.currentTarget.value, zoom: '' })}>
          <option value="">{heapsWord(tracks)}</option>
          {tracks.heaps.map((h) => <option value={h.heap}>{safe(h.heap)}</option>)}
        </select></label>
      )}
      <label>At <select aria-label="Moment" value={p.at === 'peak' ? 'peak' : index >= 0 ? String(index) : ''} onChange={(e) => {
        const v = e.currentTarget.value;
        if (v === 'peak') go({ at: 'peak', max: false, from: '' });
        else go({ at: ns(moments[Number(v)].ts), max: moments[Number(v)].max });
      }}>
        {tracks.peak && <option value="peak">the peak, {bytes(tracks.peak.space)}</option>}
        {moments.map((m, i) => <option value={String(i)}>{clock(m.ts - tracks.start)} · {bytes(m.space)}{i === moments.length - 1 ? ' (end)' : ''}</option>)}
      </select></label>
      <button type="button" title="Previous dump ([)" aria-label="Previous dump" onClick={() => step(-1)} disabled={index === 0}>‹</button>
      <button type="button" title="Next dump (])" aria-label="Next dump" onClick={() => step(1)} disabled={index === moments.length - 1}>›</button>
      {p.with && !sum && <span class="chip" title="this page is about one process">without {p.with.includes(',') ? `the ${p.with.split(',').length} others` : 'the other'}</span>}
      {p.from && <span class="chip">since {clock(Number(p.from) - tracks.start)} <button type="button" aria-label="Remove the start of the interval" onClick={() => go({ from: '' })}>×</button></span>}
    </div>
  );
}

/** [ and ]: one dump back or forth, with Shift the interval grows by it; on every page that shows a moment. */
export function useDumpKeys(tracks: Tracks | null): void {
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      const back = e.key === '[' || e.key === '{';
      if (!tracks || e.ctrlKey || e.altKey || e.metaKey || !(back || e.key === ']' || e.key === '}') || isTyping(e)) return;
      const p = place.peek();
      const moments = tracks.moments;
      const index = (ts: string) => moments.findIndex((m) => ns(m.ts) === ts);
      const now = p.at && p.at !== 'peak' ? index(p.at) : moments.length - 1;
      if (!e.shiftKey) {
        const m = moments[now + (back ? -1 : 1)];
        if (m) go({ at: ns(m.ts), max: m.max });
        return;
      }
      const from = p.from ? index(p.from) : now;
      if (back && from > 0) go({ from: ns(moments[from - 1].ts), at: ns(moments[now].ts), max: false, zoom: '' });
      else if (back && from === 0) go({ from: ns(tracks.start), at: ns(moments[now].ts), max: false, zoom: '' });
      else if (!back && moments[now + 1]) go({ from: p.from || ns(moments[now].ts), at: ns(moments[now + 1].ts), max: false, zoom: '' });
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [tracks]);
}

export const isTyping = (e: Event) => e.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);

const PREFIXES: [string, string][] = [
  ['SS:', 'keep stacks with'], ['HS:', 'hide stacks with'], ['HM:', 'hide stacks through module'], ['SF:', 'keep only frames'], ['HF:', 'take frames out'],
  ['SFF:', 'begin at'], ['P:', 'pivot at'], ['M:', 'keep stacks in module'], ['H:', 'keep heaps'],
];

/** A name as the filters' exact form. */
export const exactly = (name: string) => `"${name}"`;

export function addFilter(text: string): void {
  const filters = place.peek().filters.filter((f) => f !== text);
  const single = /^!?(SFF|P):/;
  go({ filters: [...(single.test(text) ? filters.filter((f) => !single.test(f)) : filters), text], zoom: '' });
}

export function FilterBar({ problem, children }: { problem: string; children?: ComponentChildren }) {
  const [text, setText] = useState('');
  const [prefix, setPrefix] = useState('SS:');
  const filters = place.value.filters;
  const [sets, setSets] = useState(() => remembered<{ name: string; filters: string[] }[]>('filter-sets', []));
  const [menu, setMenu] = useState<{ x: number; y: number } | null>(null);
  const keep = (next: typeof sets) => {
    setSets(next);
    remember('filter-sets', next);
  };
  const move = (from: number, to: number) => {
    if (to < 0 || to >= filters.length || from === to) return;
    const next = filters.filter((_, k) => k !== from);
    next.splice(to, 0, filters[from]);
    go({ filters: next, zoom: '' });
  };
  const add = () => {
    const t = text.trim();
    if (!t) return;
    addFilter(/^!?(SS|HS|SF|HF|SFF|P|M|H|T|TY):/.test(t) ? t : prefix + t);
    setText('');
  };
  return (
    <div class="bar filters" role="group" aria-label="Filters">
      <select aria-label="Kind of filter" value={prefix} onChange={(e) => setPrefix(e.currentTarget.value)}>
        {PREFIXES.map(([id, label]) => <option value={id}>{label}</option>)}
        <option disabled>T: samples name no thread</option>
        <option disabled>TY: samples name no type</option>
      </select>
      <input id="filter" type="text" aria-label="Filter" placeholder="text, &quot;whole name&quot; or /regex/" value={text} onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={(e) => e.key === 'Enter' && add()} />
      <button type="button" onClick={add} disabled={!text.trim()}>Add</button>
      {filters.map((f, i) => (
        <span class="chip" title="Double-click to edit, drag to move, Delete to take away" draggable
          onDragStart={(e) => e.dataTransfer!.setData('text/x-filter', String(i))} onDragOver={(e) => e.preventDefault()}
          onDrop={(e) => {
            e.preventDefault();
            const from = e.dataTransfer!.getData('text/x-filter');
            if (from !== '') move(Number(from), i);
          }}
          onDblClick={() => {
            setText(f);
            go({ filters: filters.filter((_, k) => k !== i) });
            document.getElementById('filter')?.focus();
          }}>{safe(f)} <button type="button" aria-label={`Remove filter ${safe(f)}`} title="Delete: away; Alt+←/→: earlier, later" onClick={() => go({ filters: filters.filter((_, k) => k !== i), zoom: '' })}
            onKeyDown={(e) => {
              if (e.key === 'Delete') go({ filters: filters.filter((_, k) => k !== i), zoom: '' });
              else if (e.altKey && (e.key === 'ArrowLeft' || e.key === 'ArrowRight')) move(i, i + (e.key === 'ArrowLeft' ? -1 : 1));
              else return;
              e.preventDefault();
              e.stopPropagation();
            }}>×</button></span>
      ))}
      {(filters.length > 0 || sets.length > 0) && <button type="button" aria-haspopup="menu" onClick={(e) => { const r = e.currentTarget.getBoundingClientRect(); setMenu({ x: r.left, y: r.bottom + 4 }); }}>Sets</button>}
      {menu && <Menu title="Named sets of filters" x={menu.x} y={menu.y} onClose={() => setMenu(null)} items={[
        ...(filters.length ? [{ label: 'Keep these under a name…', act: () => {
          const name = prompt('Name of the set', filters.join(' '));
          if (name) keep([...sets.filter((x) => x.name !== name), { name, filters }]);
        } }, { label: 'Take all filters away', act: () => go({ filters: [], zoom: '' }) }] : []),
        ...(sets.length ? [null] : []),
        ...sets.map((x) => ({ label: x.name, act: () => go({ filters: x.filters, zoom: '' }) })),
        ...(sets.length ? [null, { label: 'Forget all sets', act: () => keep([]) }] : []),
      ]} />}
      {problem && <span class="bad" role="alert">{safe(problem)}</span>}
      {children && <><span class="grow" />{children}</>}
    </div>
  );
}

// ---- menu ----

export interface Item { label: string; key?: string; act(): void }

export function Menu({ items, x, y, title, onClose }: { items: (Item | null)[]; x: number; y: number; title: string; onClose(): void }) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const el = ref.current!;
    const before = document.activeElement as HTMLElement | null;
    const r = el.getBoundingClientRect();
    el.style.left = `${Math.max(4, Math.min(x, innerWidth - r.width - 8))}px`;
    el.style.top = `${Math.max(4, Math.min(y, innerHeight - r.height - 8))}px`;
    el.querySelector('button')?.focus();
    const outside = (e: Event) => !el.contains(e.target as Node) && onClose();
    addEventListener('pointerdown', outside);
    return () => {
      removeEventListener('pointerdown', outside);
      if (!document.activeElement || document.activeElement === document.body) before?.focus();
    };
  }, []);
  const move = (by: number) => {
    const all = [...ref.current!.querySelectorAll('button')];
    all[(all.indexOf(document.activeElement as HTMLButtonElement) + by + all.length) % all.length].focus();
  };
  return (
    <div class="menu" role="menu" aria-label={title} ref={ref} onKeyDown={(e) => {
      if (e.key === 'ArrowDown') move(1);
      else if (e.key === 'ArrowUp') move(-1);
      else if (e.key === 'Escape' || e.key === 'Tab') onClose();
      else return;
      e.preventDefault();
      e.stopPropagation();
    }}>
      <div class="title" role="presentation">{title}</div>
      {items.map((it) => it
        ? <button type="button" role="menuitem" onClick={() => { onClose(); it.act(); }}>{it.label}{it.key && <kbd>{it.key}</kbd>}</button>
        : <hr />)}
    </div>
  );
}

const EXPORTS: [string, string][] = [['pprof', 'pprof'], ['svg', 'SVG'], ['folded', 'Folded stacks'], ['html', 'HTML page'], ['speedscope', 'speedscope'], ['csv', 'CSV, a line a node'], ['json', 'JSON']];

export function ExportButton({ picture }: { picture?: () => void }) {
  const [open, setOpen] = useState<{ x: number; y: number } | null>(null);
  const [problem, setProblem] = useState('');
  return (
    <>
      <button type="button" id="export" aria-haspopup="menu" onClick={(e) => {
        const r = e.currentTarget.getBoundingClientRect();
        setOpen({ x: r.left, y: r.bottom + 4 });
      }}>Export</button>
      {open && <Menu title="Save this selection as" x={open.x} y={open.y} onClose={() => setOpen(null)}
        items={[...(picture ? [{ label: 'PNG picture', act: picture }] : []), ...EXPORTS.map(([id, label]) => ({
          label,
          act: () => {
            setProblem('');
            download(id, place.peek().trace, selection.peek() + (picture && place.peek().group ? `&group=${place.peek().group}` : '')).catch((e: Error) => setProblem(e.message));
          },
        }))]} />}
      {problem && <span class="bad" role="alert">{safe(problem)}</span>}
    </>
  );
}

/** sql: where the query is that gives the figure. */
export function Figure({ label, value, note, to, sql }: { label: string; value: string; note?: ComponentChildren; to?: string; sql?: string }) {
  const body = <><span class="label">{label}</span><span class="value">{value}</span><span class="note">{note ?? ' '}</span></>;
  return (
    <div class={`figure ${to ? 'leads' : ''}`}>
      {to ? <a href={to}>{body}</a> : body}
      {sql && <a class="sql-link" href={sql} aria-label={`SQL of: ${label}`}>SQL</a>}
    </div>
  );
}

export { href };
