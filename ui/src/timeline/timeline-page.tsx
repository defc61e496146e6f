// The timeline with its navigation; what is selected is drawn below it.
import { useEffect, useState } from 'preact/hooks';
import { retained } from '../app/answers';
import { base, clock, safe } from '../app/format';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import { chosen } from '../app/together';
import type { Timeline, Tracks } from '../app/types';
import { Explorer } from '../graph/flame-page';
import { GraphGroups, useHeapDumps, withDumps } from '../heap/heap-track';
import { MemoryTrack } from '../infra/infra-track';
import { useAnswer } from '../parts/answer';
import { isPlainKey } from '../parts/keys';
import type { ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { size, snap } from './moments';
import { OtherGroups } from './other-groups';
import { hasPins, pinnedProcesses } from './pins';
import { NamedTrack, Ruler, ViewButtons } from './ruler';
import { type Thread, ThreadGroups, ThreadTracks, useThreads, withSlices } from './thread-track';
import { TrackGroup } from './track-group';
import { type Moves, useView, wheelZoom, wholeView } from './view';
import { WhoGrew } from './who-grew';

const marksOfPlace = () => place.value.marks.split(',').filter(Boolean);

/** 12.5, 1:30, 2:03:04 as seconds; NaN: none of these. */
export function secondsOf(text: string): number {
  const parts = text.trim() ? text.trim().split(':').map(Number) : [NaN];
  return parts.some(Number.isNaN) ? NaN : parts.reduce((a, x) => a * 60 + x, 0);
}

/** Marks the dump that is looked at, or takes its mark away. */
function toggleMark(tracks: Tracks): void {
  const p = place.peek();
  const now =
    p.at === 'peak'
      ? (tracks.peak?.ts ?? tracks.start)
      : Number(p.at) || (tracks.moments[tracks.moments.length - 1]?.ts ?? tracks.start);
  const marks = marksOfPlace();
  const t = ns(now);
  go({ marks: (marks.includes(t) ? marks.filter((x) => x !== t) : [...marks, t]).join(',') });
}

/** Adds a process to what is looked at, or takes it away; false: it is the last one. */
function join(looked: Tracks[], upid: number, on: boolean): boolean {
  const list = looked
    .map((t) => t.upid)
    .filter((u) => u !== upid)
    .concat(on ? [upid] : []);
  if (list.length) go({ upid: list[0], with: list.slice(1).join(','), heap: '', max: false, zoom: '' });
  return list.length > 0;
}

function useTimelineKeys({ view, setView, zoom, pan, whole }: Moves, tracks: Tracks): void {
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (!isPlainKey(e)) return;
      const p = place.peek();
      const field = (id: string) => () => {
        e.preventDefault();
        e.stopImmediatePropagation();
        document.getElementById(id)?.focus();
      };
      const inGraph = (e.target as Element).closest?.('.explorer');
      const acts: Record<string, () => void> = {
        w: () => zoom(0.7),
        s: () => zoom(1 / 0.7),
        a: () => pan(-0.2),
        d: () => pan(0.2),
        0: () => setView(whole),
        m: () => toggleMark(tracks),
        g: field('goto'),
        f: () => {
          if (p.from && p.at) setView({ from: Number(p.from), to: Number(p.at) });
        },
        ...(inGraph ? {} : { '/': field('track-filter') }),
      };
      acts[e.key.toLowerCase()]?.();
    };
    addEventListener('keydown', key, true);
    return () => removeEventListener('keydown', key, true);
  }, [view]);
}

function Bar({
  said,
  filter,
  onFilter,
  onTime,
  onMark,
  moves,
}: {
  said: string;
  filter: string;
  onFilter(text: string): void;
  onTime(text: string): void;
  onMark(): void;
  moves: Moves;
}) {
  const onKey = (e: KeyboardEvent) => {
    const input = e.currentTarget as HTMLInputElement;
    if (e.key === 'Enter') onTime(input.value);
    if (e.key === 'Enter' || e.key === 'Escape') input.blur();
  };
  return (
    <div class="bar">
      <span class="dim hint" role="status">
        {said ||
          'Click a diamond for what was live then, a slice for what came in it; drag over a track for an interval, over several processes for their sum.'}
      </span>
      <input
        id="track-filter"
        type="search"
        aria-label="Find tracks"
        placeholder="Find tracks  (/)"
        value={filter}
        onInput={(e) => onFilter(e.currentTarget.value)}
      />
      <input
        id="goto"
        type="text"
        class="short"
        aria-label="Go to a time"
        placeholder="mm:ss  (G)"
        onKeyDown={onKey}
      />
      <button type="button" title="Mark this dump, or remove its mark (M)" onClick={onMark}>
        Mark
      </button>
      <ViewButtons moves={moves} />
    </div>
  );
}

/** A drag over the ruler is one over the tracks of the process that is looked at. */
function rulerDrag(e: PointerEvent, upid: number): void {
  const el = document.querySelector<HTMLElement>(`[data-upid="${upid}"] .dragging .chart`);
  const r = el?.getBoundingClientRect();
  if (r)
    el!.dispatchEvent(
      new PointerEvent('pointerdown', {
        bubbles: true,
        clientX: e.clientX,
        clientY: r.top + 5,
        button: 0,
        shiftKey: e.shiftKey,
        altKey: e.altKey,
      }),
    );
}

/** Selects the dump nearest to a time; what came of it, in words. */
function goTo(text: string, tracks: Tracks, { view, setView, whole }: Moves): string {
  const s = secondsOf(text);
  if (Number.isNaN(s)) return `'${text}' is not a time; try 12.5 or 1:30`;
  const ts = snap(tracks, tracks.start + s * 1e9);
  const half = (view.to - view.from) / 2;
  setView({ from: Math.max(whole.from, ts - half), to: Math.min(whole.to, ts + half) });
  go({ at: ns(ts), max: false, from: '' });
  return `at the dump of ${clock(ts - tracks.start)}`;
}

/** The largest first; of equal ones the one that allocated more, as the server has them. */
const shownOf = (all: Timeline, filter: string) =>
  [...all.processes]
    .sort((a, b) => size(b) - size(a))
    .filter(
      (t) =>
        !filter ||
        `${t.name} ${t.pid} ${t.heaps.map((h) => h.heap).join(' ')}`
          .toLowerCase()
          .includes(filter.toLowerCase()),
    );

interface TracksProps extends ProfileProps {
  threads: Thread[];
  filter: string;
  moves: Moves;
  say(text: string): void;
}

/** What all groups of tracks get. */
function useGroups({ tracks, all, moves: { view, setView, whole }, say }: TracksProps) {
  const kept = useAnswer(`retained ${place.value.trace}`, () => retained(place.value.trace)).value;
  const looked = chosen(all);
  const onPan = (by: number) => {
    const d = Math.max(whole.from - view.from, Math.min(whole.to - view.to, by));
    setView((v) => ({ from: v.from + d, to: v.to + d }));
  };
  const onJoin = (upid: number) => (on: boolean) => {
    if (!join(looked, upid, on)) say('One process stays: the graph below needs it.');
  };
  const several = all.processes.length > 1;
  return {
    common: { view, zero: tracks.start },
    of: (t: Tracks) => ({
      tracks: t,
      view,
      kept,
      chosen: looked.includes(t),
      several: looked.length > 1,
      onJoin: several ? onJoin(t.upid) : undefined,
      onView: setView,
      onPan,
      onSay: say,
      of: several ? `${safe(base(t.name)) || 'unknown'} ${t.pid}` : undefined,
      key: t.upid,
    }),
  };
}

/** What is pinned, below the times: both stay in sight. */
function OnTop({ groups, all }: { groups: ReturnType<typeof useGroups>; all: Timeline }) {
  const pinned = pinnedProcesses()
    .map((upid) => all.processes.find((t) => t.upid === upid))
    .filter((t) => !!t);
  return (
    <div class="pinned">
      {pinned.map((t) => (
        <TrackGroup {...groups.of(t)} onTop />
      ))}
    </div>
  );
}

function AllTracks({ groups, ...p }: TracksProps & { groups: ReturnType<typeof useGroups> }) {
  const { tracks, all, trace, threads, filter, moves } = p;
  const { common } = groups;
  const { view, setView } = moves;
  const shown = shownOf(all, filter);
  const others = all.others.filter((o) => !all.processes.some((t) => t.upid === o.upid));
  const known = all.processes.map((t) => t.upid);
  return (
    <>
      {shown.map((t) => (
        <TrackGroup {...groups.of(t)} onTop={false}>
          <ThreadTracks
            threads={threads.filter((x) => x.upid === t.upid)}
            trace={trace.id}
            {...common}
            onView={setView}
          />
        </TrackGroup>
      ))}
      <OtherGroups others={others} view={view} />
      <WhoGrew tracks={tracks} view={view} />
      <MemoryTrack trace={trace} {...common} />
      <GraphGroups known={known} {...common} />
      <ThreadGroups known={known} threads={threads} trace={trace.id} {...common} onView={setView} />
      {!shown.length && <p class="empty small">No track has '{filter}' in its name.</p>}
    </>
  );
}

export function TimelinePage({ tracks, all, trace }: ProfileProps) {
  const graphs = useHeapDumps().value?.dumps ?? [];
  const threads = useThreads(trace);
  const moves = useView(withSlices(withDumps(wholeView(all), graphs), threads));
  const { view, setView, zoom, whole } = moves;
  useEffect(() => {
    if (graphs.length || threads.length) setView(whole);
  }, [graphs.length, threads.length]); // they come later
  const [filter, setFilter] = useState('');
  const [said, setSaid] = useState('');
  useTimelineKeys(moves, tracks);
  const props = { tracks, all, trace, threads, filter, moves, say: setSaid };
  const groups = useGroups(props);
  const onWheel = (e: WheelEvent) => wheelZoom(e, view, zoom);
  return (
    <div class="column timeline">
      <Bar
        said={said}
        filter={filter}
        onFilter={setFilter}
        onTime={(text) => setSaid(goTo(text, tracks, moves))}
        onMark={() => toggleMark(tracks)}
        moves={moves}
      />
      <div class={hasPins() ? 'on-top' : ''} onWheel={onWheel}>
        <Ruler
          view={view}
          zero={tracks.start}
          marks={marksOfPlace().map(Number)}
          onPointerDown={(e) => rulerDrag(e, tracks.upid)}
        />
        <OnTop groups={groups} all={all} />
      </div>
      <div onWheel={onWheel}>
        {all.marks.length > 0 && (
          <NamedTrack
            marks={all.marks}
            view={view}
            zero={tracks.start}
            onPick={(ts) => go({ at: ns(snap(tracks, ts)), max: false, from: '' })}
          />
        )}
        <AllTracks {...props} groups={groups} />
      </div>
      <SelectionBar tracks={tracks} all={all} sum more={false} />
      <Explorer tracks={tracks} />
    </div>
  );
}
