// What threads did, as flame charts: the program's scopes, a trace's begin and end events. A vertical cut
// is a pseudo-stack. The server leaves out what is too narrow to be seen.
import { useEffect, useRef, useState } from 'preact/hooks';
import { question, type Trace } from '../app/api';
import { base, clock, count, duration, safe } from '../app/format';
import { useAnswer, useFollowing } from '../parts/parts';
import { useCanvas, type View } from './timeline';

export interface Thread {
  track: number; upid: number; pid?: number; process?: string; tid?: number; name: string; slices: number; levels: number; first: number; last: number;
}
type Box = [depth: number, begin: number, end: number, name: number, category: number, n: number];
interface Boxes { boxes: Box[]; names: string[] }

const ROW = 18;
const MAX_ROWS = 40;
const TEXT_FROM = 24;

export function useThreads(trace: Trace): Thread[] {
  const has = !!trace.slices;
  return useAnswer(`threads ${trace.id} ${has}`, async () => (has ? (await question<{ threads: Thread[] }>(trace.id, 'threads', '')).threads : [])).value ?? [];
}

function hue(s: string): number {
  let h = 2166136261;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
  return (h >>> 0) % 360;
}

const titleOf = (t: Thread) => safe(t.name) || (t.tid === undefined ? 'track' : `thread ${t.tid}`);

function Chart({ thread, trace, view, zero, onView }: { thread: Thread; trace: number; view: View; zero: number; onView(v: View): void }) {
  const [width, setWidth] = useState(800);
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<Box | null>(null); // chosen
  const from = Math.max(0, Math.floor(view.from));
  const to = Math.ceil(view.to);
  const min = Math.max(1, Math.floor((to - from) / Math.max(200, width)));
  const query = `track=${thread.track}&from=${from}&to=${to}&min=${min}`;
  const answer = useFollowing(`${trace} ${query}`, async () => ({ from, ...(await question<Boxes>(trace, 'slices', query)) }));
  useEffect(() => {
    const watch = new ResizeObserver(() => box.current && setWidth(box.current.clientWidth));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  const all = answer.value;
  const x = (b: number, w: number) => (((all?.from ?? 0) + b - view.from) / (view.to - view.from)) * w;
  const rows = Math.min(thread.levels, MAX_ROWS);
  const ref = useCanvas((ctx, w, h, css) => {
    ctx.clearRect(0, 0, w, h);
    if (!all) return;
    const dark = css('--dark') === '1';
    ctx.font = '11px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    for (const b of all.boxes) {
      if (b[0] >= rows) continue;
      const x0 = Math.max(-2, x(b[1], w));
      const wide = Math.max(1, Math.min(w + 2, x(b[2], w)) - x0);
      const y = b[0] * ROW;
      ctx.fillStyle = b[5] > 1 ? css('--merged') : dark ? `hsl(${hue(all.names[b[3]])} 38% 34%)` : `hsl(${hue(all.names[b[3]])} 62% 80%)`;
      ctx.fillRect(x0, y, wide > 3 ? wide - 0.5 : wide, ROW - 1);
      if (at && at[0] === b[0] && at[1] === b[1]) {
        ctx.strokeStyle = css('--focus');
        ctx.lineWidth = 2;
        ctx.strokeRect(x0 + 1, y + 1, Math.max(1, wide - 2), ROW - 3);
      }
      if (wide < TEXT_FROM || b[5] > 1) continue;
      ctx.fillStyle = css('--frame-text');
      ctx.save();
      ctx.beginPath();
      ctx.rect(x0, y, wide - 2, ROW);
      ctx.clip();
      ctx.fillText(safe(all.names[b[3]]), Math.max(0, x0) + 3, y + ROW / 2);
      ctx.restore();
    }
  }, [all, view, at, rows]);
  const find = (px: number, py: number): Box | null => all?.boxes.find((b) => b[0] === Math.floor(py / ROW) && px >= x(b[1], width) - 1 && px <= Math.max(x(b[1], width) + 1, x(b[2], width))) ?? null;
  const inside = (b: Box): Box[] => (all?.boxes ?? []).filter((o) => o[0] < b[0] && o[1] <= b[1] && o[2] >= b[2]).sort((p, q) => p[0] - q[0]);
  const words = (b: Box) => (b[5] > 1
    ? `${count(b[5])} slices in ${duration(b[2] - b[1])}, the longest ${safe(all!.names[b[3]])}`
    : [...inside(b), b].map((o) => safe(all!.names[o[3]])).join(' › ') + ` · ${duration(b[2] - b[1])}${all!.names[b[4]] ? ` · ${safe(all!.names[b[4]])}` : ''} · at ${clock(all!.from + b[1] - zero)}`);
  const show = (b: Box | null) => {
    if (!b || !all) return;
    const room = Math.max(1000, (b[2] - b[1]) * 0.1);
    onView({ from: all.from + b[1] - room, to: all.from + b[2] + room });
  };
  const step = (key: string): Box | null => {
    const list = all?.boxes ?? [];
    if (!at) return list[0] ?? null;
    const level = (d: number) => list.filter((b) => b[0] === d).sort((p, q) => p[1] - q[1]);
    if (key === 'ArrowUp') return inside(at).pop() ?? at;
    if (key === 'ArrowDown') return level(at[0] + 1).find((b) => b[1] >= at[1] && b[2] <= at[2]) ?? at;
    const same = level(at[0]);
    const i = same.findIndex((b) => b[1] === at[1]) + (key === 'ArrowLeft' ? -1 : 1);
    return same[i] ?? at;
  };
  return (
    <div class="slices" ref={box}>
      <canvas ref={ref} style={{ height: `${rows * ROW}px` }} tabIndex={0} role="img"
        aria-label={`Slices of ${titleOf(thread)}: ${count(thread.slices)}, up to ${thread.levels} within each other. Arrow keys choose one, Enter zooms to it.`}
        title={at ? words(at) : undefined}
        onPointerMove={(e) => {
          const r = e.currentTarget.getBoundingClientRect();
          const b = find(e.clientX - r.left, e.clientY - r.top);
          e.currentTarget.title = b ? words(b) : '';
        }}
        onClick={(e) => {
          const r = e.currentTarget.getBoundingClientRect();
          setAt(find(e.clientX - r.left, e.clientY - r.top));
        }}
        onDblClick={() => show(at)}
        onKeyDown={(e) => {
          if (e.key === 'Enter') show(at);
          else if (e.key.startsWith('Arrow')) setAt(step(e.key));
          else return;
          e.preventDefault();
          e.stopPropagation();
        }} />
      <p class="dim slice-words" role="status">{at && all ? words(at) : thread.levels > MAX_ROWS ? `${thread.levels - MAX_ROWS} more levels below` : ''}</p>
    </div>
  );
}

interface Props { threads: Thread[]; trace: number; view: View; zero: number; onView(v: View): void }

/** Collapsed until somebody asks: there may be hundreds. */
export function ThreadTracks({ threads, trace, view, zero, onView }: Props) {
  const [open, setOpen] = useState(false);
  if (!threads.length) return null;
  return (
    <div class="threads">
      <button type="button" class="plain" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? '▾' : '▸'} {count(threads.length)} {threads.length === 1 ? 'thread' : 'threads'} with slices</button>
      {open && threads.map((t) => (
        <div class="track" key={t.track}><div class="name"><span class="cut" title={titleOf(t)}>{titleOf(t)}</span><span class="dim">{t.tid === undefined ? '' : `tid ${t.tid} · `}{count(t.slices)} {t.slices === 1 ? 'slice' : 'slices'}</span></div>
          <Chart thread={t} trace={trace} view={view} zero={zero} onView={onView} /></div>
      ))}
    </div>
  );
}

/** Groups of the processes that have no track of their own, and tracks of no process. */
export function ThreadGroups({ known, ...p }: Props & { known: number[] }) {
  const upids = [...new Set(p.threads.map((t) => t.upid))].filter((u) => !known.includes(u));
  return (
    <>
      {upids.map((u) => {
        const mine = p.threads.filter((t) => t.upid === u);
        const name = u < 0 ? 'Tracks of no thread' : safe(base(mine[0].process ?? '')) || 'unknown';
        return (
          <section class="tracks" aria-label={`Threads of ${name}`} key={u}><h2>{name} {u >= 0 && <span class="dim">pid {mine[0].pid}</span>}</h2>
            <ThreadTracks {...p} threads={mine} /></section>
        );
      })}
    </>
  );
}

/** The view that shows the slices, too. */
export function withSlices(view: View, threads: Thread[]): View {
  if (!threads.length) return view;
  return { from: Math.min(view.from, ...threads.map((t) => t.first)), to: Math.max(view.to, ...threads.map((t) => t.last)) };
}

