// The timeline with its navigation; what is selected is drawn below it.
import { useEffect, useState } from 'preact/hooks';
import { Explorer } from '../graph/explore';
import { clock } from '../app/format';
import { isTyping, type ProfileProps, SelectionBar, useAnswer } from '../parts/parts';
import { go, place } from '../app/state';
import { retained } from '../app/api';
import { GraphGroups, useHeapDumps, withDumps } from '../heap/heap-track';
import { GUTTER, NamedTrack, Ruler, size, snap, TrackGroup, useView, wholeView } from './timeline';
import { MemoryTrack } from '../infra/infra-track';
import { ThreadGroups, ThreadTracks, useThreads, withSlices } from './thread-track';
import { ns } from '../app/times';
import { chosen } from '../app/together';

export function TimelinePage({ tracks, all, trace }: ProfileProps) {
  const graphs = useHeapDumps().value?.dumps ?? [];
  const threads = useThreads(trace);
  const whole = withSlices(withDumps(wholeView(all), graphs), threads);
  const { view, setView, zoom, pan } = useView(whole);
  useEffect(() => { if (graphs.length || threads.length) setView(whole); }, [graphs.length, threads.length]); // they come later
  const [filter, setFilter] = useState('');
  const [said, setSaid] = useState('');
  const kept = useAnswer(`retained ${place.value.trace}`, () => retained(place.value.trace)).value;
  const looked = chosen(all);
  const join = (upid: number, on: boolean) => {
    const list = looked.map((t) => t.upid).filter((u) => u !== upid).concat(on ? [upid] : []);
    if (list.length) go({ upid: list[0], with: list.slice(1).join(','), heap: '', max: false, zoom: '' });
    else setSaid('One process stays: the graph below needs it.');
  };
  // The largest first; of equal ones the one that allocated more, as the server has them.
  const shown = [...all.processes].sort((a, b) => size(b) - size(a)).filter((t) => !filter || `${t.name} ${t.pid} ${t.heaps.map((h) => h.heap).join(' ')}`.toLowerCase().includes(filter.toLowerCase()));
  const move = (by: number) => {
    const d = Math.max(whole.from - view.from, Math.min(whole.to - view.to, by));
    setView((v) => ({ from: v.from + d, to: v.to + d }));
  };
  const now = () => {
    const p = place.peek();
    return p.at === 'peak' ? tracks.peak?.ts ?? tracks.start : Number(p.at) || (tracks.moments[tracks.moments.length - 1]?.ts ?? tracks.start);
  };
  const mark = () => {
    const marks = place.peek().marks.split(',').filter(Boolean);
    const t = ns(now());
    go({ marks: (marks.includes(t) ? marks.filter((x) => x !== t) : [...marks, t]).join(',') });
  };
  /** 12.5, 1:30, 2:03:04 since the begin. */
  const goTo = (text: string) => {
    const parts = text.trim().split(':').map(Number);
    if (!text.trim() || parts.some(Number.isNaN)) return setSaid(`'${text}' is no time: 12.5 or 1:30`);
    const ts = snap(tracks, tracks.start + parts.reduce((a, x) => a * 60 + x, 0) * 1e9);
    const half = (view.to - view.from) / 2;
    setView({ from: Math.max(whole.from, ts - half), to: Math.min(whole.to, ts + half) });
    go({ at: ns(ts), max: false, from: '' });
    setSaid(`at the dump of ${clock(ts - tracks.start)}`);
  };
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || isTyping(e)) return;
      const p = place.peek();
      const field = (id: string) => () => {
        e.preventDefault();
        e.stopImmediatePropagation();
        document.getElementById(id)?.focus();
      };
      const inGraph = (e.target as Element).closest?.('.explorer');
      const acts: Record<string, () => void> = {
        w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.2), d: () => pan(0.2), 0: () => setView(whole), m: mark, g: field('goto'),
        f: () => p.from && p.at && setView({ from: Number(p.from), to: Number(p.at) }),
        ...(inGraph ? {} : { '/': field('track-filter') }),
      };
      acts[e.key.toLowerCase()]?.();
    };
    addEventListener('keydown', key, true);
    return () => removeEventListener('keydown', key, true);
  }, [view]);
  // A drag over the ruler is one over the tracks of the process that is looked at.
  const ruler = (e: PointerEvent) => {
    const el = document.querySelector<HTMLElement>(`[data-upid="${tracks.upid}"] .dragging .chart`);
    const r = el?.getBoundingClientRect();
    if (r) el!.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true, clientX: e.clientX, clientY: r.top + 5, button: 0, shiftKey: e.shiftKey, altKey: e.altKey }));
  };
  return (
    <div class="column">
      <div onWheel={(e) => {
        if (!e.ctrlKey) return;
        e.preventDefault();
        const r = e.currentTarget.getBoundingClientRect();
        zoom(e.deltaY > 0 ? 1.2 : 1 / 1.2, view.from + (view.to - view.from) * ((e.clientX - r.left - GUTTER) / (r.width - GUTTER)));
      }}>
        <div class="bar"><span class="dim hint" role="status">{said || 'Click a diamond for what was live then, a slice for what came in it; drag over a track for an interval, over several processes for their sum.'}</span>
          <input id="track-filter" type="search" aria-label="Find tracks" placeholder="Find tracks  (/)" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
          <input id="goto" type="text" class="short" aria-label="Go to a time" placeholder="mm:ss  (G)" onKeyDown={(e) => {
            if (e.key === 'Enter') { goTo(e.currentTarget.value); e.currentTarget.blur(); }
            if (e.key === 'Escape') e.currentTarget.blur();
          }} />
          <button type="button" title="Mark this dump, or take the mark away (M)" onClick={mark}>Mark</button>
          <button type="button" title="Zoom in (W)" aria-label="Zoom in" onClick={() => zoom(0.7)}>+</button>
          <button type="button" title="Zoom out (S)" aria-label="Zoom out" onClick={() => zoom(1 / 0.7)}>−</button>
          <button type="button" title="Whole trace (0)" onClick={() => setView(whole)}>All</button></div>
        <Ruler view={view} zero={tracks.start} marks={place.value.marks.split(',').filter(Boolean).map(Number)} onPointerDown={ruler} />
        {all.marks.length > 0 && <NamedTrack marks={all.marks} view={view} zero={tracks.start} onPick={(ts) => go({ at: ns(snap(tracks, ts)), max: false, from: '' })} />}
        {shown.map((t) => <TrackGroup tracks={t} view={view} kept={kept} chosen={looked.includes(t)} several={looked.length > 1} onJoin={all.processes.length > 1 ? (on) => join(t.upid, on) : undefined} onView={setView} onPan={move} onSay={setSaid} key={t.upid}><ThreadTracks threads={threads.filter((x) => x.upid === t.upid)} trace={trace.id} view={view} zero={tracks.start} onView={setView} /></TrackGroup>)}
        <MemoryTrack trace={trace} view={view} zero={tracks.start} />
        <GraphGroups known={all.processes.map((t) => t.upid)} view={view} zero={tracks.start} />
        <ThreadGroups known={all.processes.map((t) => t.upid)} threads={threads} trace={trace.id} view={view} zero={tracks.start} onView={setView} />
        {!shown.length && <p class="empty small">No track has '{filter}' in its name.</p>}
      </div>
      <SelectionBar tracks={tracks} all={all} sum />
      <Explorer tracks={tracks} />
    </div>
  );
}
