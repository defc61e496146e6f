// Tracks over time: live heap, dumps as diamonds, memory counters. Canvas for the drawing, real
// buttons laid over it for the dumps, so that keyboard and screen readers reach them.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Dump, Kept, Named, Timeline, Tracks } from '../app/api';
import { bytes, certainty, clock, safe } from '../app/format';
import { GraphTrack } from '../heap/heap-track';
import { compareWith } from '../app/sides';
import { go, place, scrubbing } from '../app/state';
import { ns } from '../app/times';

const GUTTER = 150;
const FLAGS: [number, string][] = [
  [2, 'rejected'], [4, 'disconnected'], [8, 'buffer overran'], [16, 'buffer corrupted'], [32, 'hit a limit'], [64, 'at maximum'], [128, 'checkpoint'],
];
const LOSSY = 8 | 16 | 32;
export const flagWords = (flags: number) => FLAGS.filter(([bit]) => flags & bit).map(([, word]) => word).join(', ');

export interface View { from: number; to: number }

interface Line { label: string; points: [number, number][]; colour: string; step: boolean }

/** Between two labels of the ruler: six at most, fewer where there is no room for them. */
function steps(total: number): number {
  const raw = total / Math.max(1, Math.min(6, Math.floor((innerWidth - 240) / 70)));
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw)!;
}

export function useCanvas(paint: (ctx: CanvasRenderingContext2D, w: number, h: number, css: (n: string) => string) => void, deps: unknown[]) {
  const ref = useRef<HTMLCanvasElement>(null);
  const [size, again] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(() => again((n) => n + 1));
    const theme = () => again((n) => n + 1);
    watch.observe(ref.current!);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    addEventListener('themechange', theme);
    dark.addEventListener('change', theme);
    return () => {
      watch.disconnect();
      removeEventListener('themechange', theme);
      dark.removeEventListener('change', theme);
    };
  }, []);
  useEffect(() => {
    const el = ref.current!;
    const ratio = devicePixelRatio || 1;
    el.width = Math.round(el.clientWidth * ratio);
    el.height = Math.round(el.clientHeight * ratio);
    const ctx = el.getContext('2d')!;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(el);
    paint(ctx, el.clientWidth, el.clientHeight, (n) => style.getPropertyValue(n).trim());
  }, [...deps, size]);
  return ref;
}

/** Lines over a common scale from 0. */
export function Chart({ lines, view, height, label, selected, band }: {
  lines: Line[]; view: View; height: number; label: string; selected?: View | null; band?: { ts: number; value: number; error: number }[];
}) {
  const most = Math.max(1, ...lines.flatMap((l) => l.points.map((p) => p[1])), ...(band ?? []).map((b) => b.value + b.error)) * 1.06;
  const ref = useCanvas((ctx, w, h, css) => {
    ctx.clearRect(0, 0, w, h);
    const x = (t: number) => ((t - view.from) / (view.to - view.from)) * w;
    const y = (v: number) => h - 1 - (v / most) * (h - 4);
    if (selected) {
      ctx.fillStyle = css('--select');
      ctx.fillRect(x(selected.from), 0, Math.max(1, x(selected.to) - x(selected.from)), h);
    }
    ctx.strokeStyle = css('--line');
    ctx.fillStyle = css('--dim');
    ctx.font = '11px system-ui, sans-serif';
    ctx.lineWidth = 1;
    for (let k = 1; k <= 2; k++) {
      const v = (most * k) / 2.4;
      ctx.beginPath();
      ctx.moveTo(0, Math.round(y(v)) + 0.5);
      ctx.lineTo(w, Math.round(y(v)) + 0.5);
      ctx.stroke();
      if (height >= 50) ctx.fillText(bytes(v), 4, y(v) - 3);
    }
    if (band?.length) {
      ctx.fillStyle = css('--band');
      ctx.beginPath();
      const stepped = lines.some((l) => l.step); // as the line: between dumps the last one holds
      band.forEach((b, i) => {
        if (i && stepped) ctx.lineTo(x(b.ts), y(band[i - 1].value + band[i - 1].error));
        ctx.lineTo(x(b.ts), y(b.value + b.error));
      });
      for (let i = band.length - 1; i >= 0; i--) {
        const low = y(Math.max(0, band[i].value - band[i].error));
        if (stepped && i + 1 < band.length) ctx.lineTo(x(band[i + 1].ts), low);
        ctx.lineTo(x(band[i].ts), low);
      }
      ctx.fill();
    }
    for (const l of lines) {
      if (!l.points.length) continue;
      const trace = () => {
        ctx.beginPath();
        l.points.forEach(([t, v], i) => {
          if (i === 0) ctx.moveTo(x(t), y(v));
          else {
            if (l.step) ctx.lineTo(x(t), y(l.points[i - 1][1]));
            ctx.lineTo(x(t), y(v));
          }
        });
      };
      trace();
      ctx.lineTo(x(l.points[l.points.length - 1][0]), h);
      ctx.lineTo(x(l.points[0][0]), h);
      ctx.globalAlpha = 0.14;
      ctx.fillStyle = css(l.colour);
      ctx.fill();
      ctx.globalAlpha = 1;
      trace();
      ctx.strokeStyle = css(l.colour);
      ctx.lineWidth = 1.6;
      ctx.stroke();
    }
  }, [lines, view, selected, band]);
  return <canvas class="chart" ref={ref} role="img" aria-label={label} style={{ height: `${height}px` }} />;
}

export const liveLine = (t: Tracks): Line => ({
  label: 'live heap', colour: '--accent', step: true,
  points: t.moments.map((m) => [m.ts, m.space] as [number, number]),
});
export const liveBand = (t: Tracks) => t.moments.map((m) => ({ ts: m.ts, value: m.space, error: m.error }));

/** A counter; of the allocator with its blocks of their own mmap, as the accounting has it. */
export function counter(t: Pick<Tracks, 'counters'>, name: string): [number, number][] {
  if (name === 'swapped too') return swapped(t);
  const own = t.counters[name] ?? [];
  const more = name.startsWith('malloc_info.') ? new Map(t.counters['malloc_info.mmap']) : null;
  return more?.size ? own.map(([ts, v]) => [ts, v + (more.get(ts) ?? 0)]) : own;
}

/** Swap on top of what is resident: an area above the other. Both are read at the same time. */
function swapped(t: Pick<Tracks, 'counters'>): [number, number][] {
  const swap = t.counters['mem.swap'] ?? [];
  if (!swap.some((x) => x[1] > 0)) return [];
  const resident = new Map(t.counters['mem.rss']);
  return swap.filter(([ts]) => resident.has(ts)).map(([ts, v]) => [ts, v + resident.get(ts)!]);
}

/** The most that was resident; without counters, the most that was live. */
export const size = (t: Tracks): number => Math.max(0, ...(t.counters['mem.rss']?.length ? t.counters['mem.rss'].map((x) => x[1]) : [t.peak?.space ?? 0, ...t.moments.map((m) => m.space)]));

/** Whether the profile has everything from the process's first allocation on. */
export function since(t: Tracks): string {
  const first = t.heaps.flatMap((h) => h.dumps).reduce((a: Dump | null, d) => (!a || d.start < a.start ? d : a), null);
  if (!first) return '';
  if (first.flags & 1) return 'from start';
  const late = t.began > 0 && first.start > t.began ? first.start - t.began : 0;
  return `attached${late ? ` +${late < 60e9 ? `${(late / 1e9).toFixed(1)} s` : clock(late)}` : ''}`;
}

export const COUNTERS: { label: string; lines: [name: string, label: string, colour: string][] }[] = [
  { label: 'Resident', lines: [['swapped too', 'with what is swapped', '--violet'], ['mem.rss', 'resident', '--blue'], ['mem.smaps.pss', 'proportional', '--green']] },
  { label: 'Allocator', lines: [['malloc_info.arena', 'mapped', '--blue'], ['malloc_info.in_use', 'in use', '--green']] },
];

function Ruler({ view, zero, marks = [], onPointerDown }: { view: View; zero: number; marks?: number[]; onPointerDown?(e: PointerEvent): void }) {
  const total = view.to - view.from;
  const step = steps(total);
  const ticks: number[] = [];
  for (let t = Math.ceil((view.from - zero) / step) * step; t <= view.to - zero; t += step) ticks.push(t);
  return (
    <div class="ruler" aria-hidden="true" data-from={view.from} onPointerDown={onPointerDown}>
      {marks.filter((t) => t >= view.from && t <= view.to).map((t) => <i class="mark" title={clock(t - zero)} style={{ left: `${((t - view.from) / total) * 100}%` }} />)}
      {ticks.filter((t) => (t + zero - view.from) / total < 0.96).map((t) => <span style={{ left: `${((t + zero - view.from) / total) * 100}%` }}>{clock(t)}</span>)}
    </div>
  );
}

interface Mark { dumps: Dump[]; x: number }

/** Dumps nearer than 10 px are one diamond with a count. */
function marksOf(dumps: Dump[], view: View, width: number): Mark[] {
  const out: Mark[] = [];
  for (const d of dumps) {
    const x = (d.ts - view.from) / (view.to - view.from);
    if (x < 0 || x > 1) continue;
    const last = out[out.length - 1];
    if (last && (x - last.x) * width < 10) last.dumps.push(d);
    else out.push({ dumps: [d], x });
  }
  return out;
}

/** What a slice says: as much of it as there is room for. */
function sliceWords(wide: number, kept: number | undefined, allocated: number, delta: number): string {
  const parts = [`Δ ${delta > 0 ? '+' : ''}${bytes(delta)}`];
  if (wide > 210) parts.unshift(`Allocated ${bytes(allocated)}`);
  if (wide > 340 && kept !== undefined) parts.unshift(`Retained ≥ ${bytes(kept)}`);
  return wide > 70 ? parts.join(' · ') : '';
}

function HeapTrack({ tracks, heap, dumps, kept, chosen, together, view, width, selected, onView }: {
  tracks: Tracks; heap: string; dumps: Dump[]; kept: Map<number, number>; chosen: boolean; together: boolean; view: View; width: number; selected: View | null; onView(v: View): void;
}) {
  const p = place.value;
  const one = tracks.heaps.length === 1;
  const mine = chosen && (one || together || p.heap === heap);
  // Among several processes a moment is one of all of them and all their heaps.
  const pick = (d: Dump, from: string) => go({ ...(together ? { heap: '' } : { upid: tracks.upid, with: '', heap: one ? '' : heap }), at: ns(d.ts), max: !together && (d.flags & 64) !== 0, from, zoom: '' });
  const percent = (t: number) => ((t - view.from) / (view.to - view.from)) * 100;
  const plain = dumps.filter((d) => !(d.flags & 64));
  return (
    <div class="dumps" role="group" aria-label={`Dumps of ${safe(heap)}`}>
      {plain.map((d, i) => {
        const begin = i ? plain[i - 1].ts : Math.max(tracks.start, Math.min(d.start || tracks.start, d.ts));
        const wide = ((percent(d.ts) - percent(begin)) / 100) * width;
        if (wide < 6 || percent(d.ts) < 0 || percent(begin) > 100) return null;
        const before = i ? plain[i - 1] : null;
        const delta = d.space - (before?.space ?? 0);
        const allocated = d.alloc_space - (before?.alloc_space ?? 0);
        const words = sliceWords(Infinity, kept.get(d.ts), allocated, delta);
        const left = Math.max(0, percent(begin));
        return (
          <button type="button" tabIndex={-1} class={`slice ${d.flags & LOSSY ? 'lossy' : ''} ${selected && selected.from === begin && selected.to === d.ts && mine ? 'on' : ''}`}
            style={{ left: `${left}%`, width: `${Math.min(100, percent(d.ts)) - left}%` }}
            title={`${clock(begin - tracks.start)} to ${clock(d.ts - tracks.start)}: ${words}\nRetained: came in the interval and lives at its end; at least that, since a trace does not tell when freed memory had been allocated.\nΔ: allocated less all that was freed.`}
            aria-label={`Interval ${clock(begin - tracks.start)} to ${clock(d.ts - tracks.start)}, ${words}`}
            onClick={() => pick(d, ns(begin))}>{sliceWords(((Math.min(100, percent(d.ts)) - left) / 100) * width, kept.get(d.ts), allocated, delta)}</button>
        );
      })}
      {marksOf(dumps, view, width).map((m) => {
        const d = m.dumps[m.dumps.length - 1];
        const on = mine && m.dumps.some((x) => ns(x.ts) === p.at) && !p.from;
        const peak = (d.flags & 64) !== 0;
        const label = `Dump at ${clock(d.ts - tracks.start)}: ${bytes(d.space)} live ${certainty(d.error, d.space, tracks.interval)}${peak ? ', peak' : ''}${d.flags & LOSSY ? `, ${flagWords(d.flags)}` : ''}`;
        return (
          <button type="button" class={`diamond ${peak ? 'peak' : ''} ${on ? 'on' : ''} ${d.flags & LOSSY ? 'lossy' : ''}`} style={{ left: `${m.x * 100}%` }}
            aria-label={m.dumps.length > 1 ? `${m.dumps.length} dumps up to ${clock(d.ts - tracks.start)}; zooms in` : label} aria-pressed={on}
            title={m.dumps.length > 1 ? m.dumps.map((x) => clock(x.ts - tracks.start)).slice(0, 20).join('\n') : label}
            onClick={(e) => {
              if (m.dumps.length > 1 && m.dumps[0].ts !== d.ts) {
                const space = Math.max(d.ts - m.dumps[0].ts, 1e6);
                onView({ from: m.dumps[0].ts - space * 0.2, to: d.ts + space * 0.2 });
              } else if (e.ctrlKey || e.metaKey) {
                compareWith(tracks, one ? '' : heap, d.ts, peak);
              } else if (e.shiftKey && p.at && p.at !== 'peak') {
                const a = Math.min(Number(p.at), d.ts);
                go({ at: ns(Math.max(Number(p.at), d.ts)), from: ns(a), zoom: '' });
              } else pick(d, '');
            }}><i />{m.dumps.length > 1 && <em>{m.dumps.length}</em>}</button>
        );
      })}
    </div>
  );
}

/** Snaps a time to the nearest moment of the process. */
function snap(t: Tracks, ts: number): number {
  let best = t.start;
  for (const m of t.moments) if (Math.abs(m.ts - ts) < Math.abs(best - ts)) best = m.ts;
  return best;
}

/** Moments that are no dump by the clock: beginnings, dumps that something asked for, losses, the end. */
function events(t: Tracks): { ts: number; words: string; bad?: boolean }[] {
  const out: { ts: number; words: string; bad?: boolean }[] = [{ ts: t.start, words: since(t) === 'from start' ? 'the program started, and its profile' : `the profile begins: ${since(t)}` }];
  const said = new Set<string>();
  const say = (ts: number, words: string, bad = false) => {
    if (!said.has(`${ts} ${words}`)) out.push({ ts, words, bad });
    said.add(`${ts} ${words}`);
  };
  for (const d of t.heaps.flatMap((h) => h.dumps)) {
    if (d.trigger && !/^(continuous|final|exit|peak|checkpoint)$/.test(d.trigger)) say(d.ts, `dump: ${safe(d.trigger)}`);
    const lost = flagWords(d.flags & (LOSSY | 2));
    if (lost) say(d.ts, lost, true);
    if (d.lost) say(d.ts, `${d.lost} samples lost before this dump`, true);
    if (d.trigger === 'exit') say(d.ts, 'the process ended');
  }
  return out.sort((a, b) => a.ts - b.ts);
}

function EventTrack({ tracks, view }: { tracks: Tracks; view: View }) {
  const list = events(tracks);
  return (
    <div class="track"><div class="name">Events<span class="dim">{list.length} {list.length === 1 ? 'flag' : 'flags'}</span></div>
      <ul class="flags" aria-label={`Events of ${safe(tracks.name)}`}>{list.filter((e) => e.ts >= view.from && e.ts <= view.to).map((e) => (
        <li class={e.bad ? 'bad' : ''} style={{ left: `${((e.ts - view.from) / (view.to - view.from)) * 100}%` }} title={`${clock(e.ts - tracks.start)} ${e.words}`}><span class="sr">{clock(e.ts - tracks.start)} {e.words}</span></li>
      ))}</ul></div>
  );
}

/** What was named while it was recorded; a click leads to the dump next to it. */
export function NamedTrack({ marks, view, zero, onPick }: { marks: Named[]; view: View; zero: number; onPick(ts: number): void }) {
  const at = (ts: number) => (100 * (ts - view.from)) / (view.to - view.from);
  return (
    <div class="track named"><div class="name">Marks<span class="dim">{marks.length} named while it ran</span></div>
      <ul aria-label="Marks">{marks.filter((m) => m.ts >= view.from && m.ts <= view.to).map((m) => (
        <li style={{ left: `${at(m.ts)}%` }}><button type="button" title={`${clock(m.ts - zero)} ${safe(m.name)}: select the dump next to it`} onClick={() => onPick(m.ts)}>{safe(m.name)}</button></li>
      ))}</ul></div>
  );
}

export interface GroupProps {
  tracks: Tracks; view: View; kept: Kept | null;
  chosen: boolean; // among what is looked at
  several: boolean; // more than one process is
  onJoin?(on: boolean): void; // to what is looked at, and away from it
  onView(v: View): void; onPan(by: number): void; onSay(text: string): void;
  children?: ComponentChildren; // below its tracks
}

export function TrackGroup({ tracks, view, kept, chosen, several, onJoin, onView, onPan, onSay, children }: GroupProps) {
  const together = chosen && several;
  const p = place.value;
  const area = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [drag, setDrag] = useState<View | null>(null);
  const start = useRef(0);
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(area.current!.clientWidth - GUTTER));
    watch.observe(area.current!);
    return () => watch.disconnect();
  }, []);
  const last = tracks.moments[tracks.moments.length - 1]?.ts ?? tracks.start;
  const to = p.at && p.at !== 'peak' ? Number(p.at) : p.at === 'peak' ? tracks.peak?.ts ?? last : last;
  const selected: View | null = drag ?? (chosen && p.from ? { from: Number(p.from), to } : null);
  const time = (e: PointerEvent) => {
    const r = area.current!.getBoundingClientRect();
    return view.from + ((e.clientX - r.left - GUTTER) / (r.width - GUTTER)) * (view.to - view.from);
  };
  /** Processes whose tracks lie between two heights of the window. */
  const between = (y0: number, y1: number) => [...document.querySelectorAll<HTMLElement>('.tracks')]
    .filter((el) => { const r = el.getBoundingClientRect(); return r.top <= Math.max(y0, y1) && r.bottom >= Math.min(y0, y1); }).map((el) => Number(el.dataset.upid));
  const choose = (a: number, b: number, final: boolean, reach: number[] = []) => {
    const from = snap(tracks, Math.min(a, b));
    const end = snap(tracks, Math.max(a, b));
    scrubbing.value = !final;
    if (from === end) return;
    setDrag(final ? null : { from, to: end });
    // Every move is drawn at once: the graph below follows the hand.
    const others = reach.filter((u) => u !== tracks.upid);
    const who = others.length ? { upid: tracks.upid, with: others.join(','), heap: '' } : together ? {} : { upid: tracks.upid, with: '' };
    go({ ...who, from: from <= tracks.start ? ns(tracks.start) : ns(from), at: ns(end), max: false, zoom: '' }, !final);
  };
  const counters = COUNTERS.map((c) => ({ ...c, lines: c.lines.filter(([name]) => counter(tracks, name).some((x) => x[1] > 0)) })).filter((c) => c.lines.length);
  return (
    <section class="tracks" data-upid={tracks.upid} ref={area} aria-label={`Tracks of ${safe(tracks.name)}`}>
      <h2>{safe(tracks.name) || 'unknown'} <span class="dim">pid {tracks.pid}{tracks.uid >= 0 ? ` · uid ${tracks.uid}` : ''}{since(tracks) && ` · ${since(tracks)}`}{tracks.ended ? ' · ended while recorded' : ''}</span>
        {onJoin && <label class="check join" title="its figures are added to those of the others that are ticked"><input type="checkbox" checked={chosen} onChange={(e) => onJoin(e.currentTarget.checked)} /> add up</label>}</h2>
      {selected && !drag && chosen && p.from && (
        <div class="handles">
          {([['from', selected.from, selected.to], ['to', selected.to, selected.from]] as const).map(([which, ts, other]) => (
            <button type="button" class="handle" role="slider" aria-label={which === 'from' ? 'Begin of the interval' : 'End of the interval'} aria-valuetext={clock(ts - tracks.start)} aria-valuenow={Math.round((ts - tracks.start) / 1e6)} aria-valuemin={0} aria-valuemax={Math.round((last - tracks.start) / 1e6)}
              style={{ left: `calc(${GUTTER}px + (100% - ${GUTTER}px) * ${Math.max(0, Math.min(1, (ts - view.from) / (view.to - view.from)))})` }}
              onKeyDown={(e) => {
                const step = e.key === 'ArrowLeft' ? -1 : e.key === 'ArrowRight' ? 1 : 0;
                if (!step) return;
                e.preventDefault();
                e.stopPropagation();
                const all = [tracks.start, ...tracks.moments.map((m) => m.ts).filter((t) => t > tracks.start)];
                const next = all[all.indexOf(snap(tracks, ts)) + step];
                if (next !== undefined) choose(next, other, true);
              }}
              onPointerDown={(e) => {
                e.preventDefault();
                (e.currentTarget as HTMLElement).focus();
                const move = (m: PointerEvent) => choose(other, time(m), false);
                const up = (m: PointerEvent) => {
                  removeEventListener('pointermove', move);
                  removeEventListener('pointerup', up);
                  choose(other, time(m), true);
                  setDrag(null);
                };
                addEventListener('pointermove', move);
                addEventListener('pointerup', up);
              }} />
          ))}
        </div>
      )}
      <div class="dragging" onPointerDown={(e) => {
        const r = area.current!.getBoundingClientRect();
        if (e.button !== 0 || e.clientX < r.left + GUTTER || (e.target as Element).closest('.diamond')) return;
        if (e.altKey) onSay('Intervals go from dump to dump: nothing finer is recorded in this trace.');
        const pan = e.shiftKey;
        let last = time(e);
        start.current = last;
        const x0 = e.clientX;
        const y0 = e.clientY;
        let moved = false;
        const move = (m: PointerEvent) => {
          moved ||= Math.abs(m.clientX - x0) > 4;
          if (pan) {
            onPan(last - time(m));
            last = time(m);
          } else if (moved) choose(start.current, time(m), false, between(y0, m.clientY));
        };
        const up = (m: PointerEvent) => {
          removeEventListener('pointermove', move);
          removeEventListener('pointerup', up);
          if (!moved) return;
          if (!pan) choose(start.current, time(m), true, between(y0, m.clientY));
          setDrag(null);
          // The slice under the pointer is not what was meant.
          addEventListener('click', (c) => c.stopPropagation(), { capture: true, once: true });
        };
        addEventListener('pointermove', move);
        addEventListener('pointerup', up);
      }}>
        <div class="track"><div class="name">Live heap<span class="dim">{bytes(tracks.peak?.space ?? 0)} at most</span></div>
          <Chart lines={[liveLine(tracks)]} band={liveBand(tracks)} view={view} height={90} selected={selected}
            label={`Live heap of ${safe(tracks.name)}: from ${bytes(tracks.moments[0]?.space ?? 0)} to ${bytes(tracks.moments.at(-1)?.space ?? 0)}`} /></div>
        {tracks.heaps.map((h) => (
          <div class="track"><div class="name"><span class="cut" title={safe(h.heap)}>{safe(h.heap)}</span><span class="dim">{h.dumps.length} {h.dumps.length === 1 ? 'dump' : 'dumps'}</span></div>
            <HeapTrack tracks={tracks} heap={h.heap} dumps={h.dumps} kept={new Map(kept?.find((k) => k.upid === tracks.upid && k.heap === h.heap)?.dumps)} chosen={chosen} together={together} view={view} width={width} selected={selected} onView={onView} /></div>
        ))}
        <EventTrack tracks={tracks} view={view} />
        <GraphTrack upid={tracks.upid} view={view} zero={tracks.start} />
        {counters.map((c) => (
          <div class="track"><div class="name">{c.label}<span class="dim">{c.lines.map(([name, label]) => `${c.lines.length > 1 ? `${label} ` : ''}${bytes(counter(tracks, name).reduce((a, x) => Math.max(a, x[1]), 0))}`).join(', ')}{c.lines.length > 1 ? '' : ' at most'}</span></div>
            <Chart lines={c.lines.map(([name, label, colour]) => ({ label, colour, step: true, points: counter(tracks, name) }))} view={view} height={44} selected={selected} label={`${c.label} over time: ${c.lines.map((l) => l[1]).join(', ')}`} /></div>
        ))}
      </div>
      {children}
    </section>
  );
}

export function wholeView(t: Timeline): View {
  const from = Math.min(...t.processes.map((p) => p.start), ...t.processes.flatMap((p) => p.moments.map((m) => m.ts)));
  const to = Math.max(...t.processes.flatMap((p) => p.moments.map((m) => m.ts)), from + 1e6);
  const room = (to - from) * 0.02;
  return { from: from - room / 4, to: to + room };
}

/** What of the whole is looked at, and how it is moved. */
export function useView(whole: View) {
  const [view, setView] = useState<View>(whole);
  return {
    whole, view, setView,
    zoom(factor: number, middle = (view.from + view.to) / 2) {
      const from = middle - (middle - view.from) * factor;
      const to = middle + (view.to - middle) * factor;
      setView({ from: Math.max(whole.from, from), to: Math.min(whole.to, Math.max(to, from + 1e3)) });
    },
    pan(share: number) {
      const by = Math.max(whole.from - view.from, Math.min(whole.to - view.to, (view.to - view.from) * share));
      setView({ from: view.from + by, to: view.to + by });
    },
  };
}

export { Ruler, GUTTER, snap };
