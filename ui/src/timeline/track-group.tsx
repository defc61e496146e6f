// All tracks of a process; a drag over them selects an interval, from dump to dump.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Kept } from '../app/answers';
import { clock, safe } from '../app/format';
import { place } from '../app/state';
import { ns } from '../app/times';
import type { Tracks } from '../app/types';
import { follow, rest } from '../graph/follow';
import { GraphTrack } from '../heap/heap-track';
import { whileHeld } from '../parts/drag';
import { since, snap } from './moments';
import { isPinned, togglePin } from './pins';
import { Pin, Row, rowsOf } from './track-rows';
import { GUTTER, type View } from './view';

export interface GroupProps {
  tracks: Tracks;
  view: View;
  kept: Kept | null;
  chosen: boolean; // among what is looked at
  several: boolean; // more than one process is
  onTop: boolean; // its pinned tracks, or the others
  of?: string; // on top: whose they are, where there are several processes
  onJoin?(on: boolean): void; // to what is looked at, and away from it
  onView(v: View): void;
  onPan(by: number): void;
  onSay(text: string): void;
  children?: ComponentChildren; // below its tracks
}

/** Processes whose tracks lie between two heights of the window, on top or in the list. */
const between = (y0: number, y1: number, onTop: boolean) =>
  [...document.querySelectorAll<HTMLElement>('.tracks[data-upid]')]
    .filter((el) => !!el.closest('.on-top') === onTop)
    .filter((el) => {
      const r = el.getBoundingClientRect();
      return r.top <= Math.max(y0, y1) && r.bottom >= Math.min(y0, y1);
    })
    .map((el) => Number(el.dataset.upid));

const lastOf = (t: Tracks) => t.moments[t.moments.length - 1]?.ts ?? t.start;

/** The interval that is selected or being dragged, and how another is. */
function useInterval({ tracks, view, chosen, several }: GroupProps) {
  const together = chosen && several;
  const p = place.value;
  const area = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [drag, setDrag] = useState<View | null>(null);
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(area.current!.clientWidth - GUTTER));
    watch.observe(area.current!);
    return () => watch.disconnect();
  }, []);
  const last = useRef(''); // where the drag is
  const end = lastOf(tracks);
  const to = p.at && p.at !== 'peak' ? Number(p.at) : p.at === 'peak' ? (tracks.peak?.ts ?? end) : end;
  const selected: View | null = drag ?? (chosen && p.from ? { from: Number(p.from), to } : null);
  const time = (e: PointerEvent) => {
    const r = area.current!.getBoundingClientRect();
    return view.from + ((e.clientX - r.left - GUTTER) / (r.width - GUTTER)) * (view.to - view.from);
  };
  const choose = (a: number, b: number, final: boolean, reach: number[] = []) => {
    const from = snap(tracks, Math.min(a, b));
    const end = snap(tracks, Math.max(a, b));
    if (from === end) {
      if (final) rest({});
      return;
    }
    const key = `${from} ${end} ${reach.join()}`;
    if (!final && last.current === key) return;
    last.current = final ? '' : key;
    setDrag(final ? null : { from, to: end });
    const others = reach.filter((u) => u !== tracks.upid);
    const who = others.length
      ? { upid: tracks.upid, with: others.join(','), heap: '' }
      : together
        ? {}
        : { upid: tracks.upid, with: '' };
    const to = { ...who, from: from <= tracks.start ? ns(tracks.start) : ns(from), at: ns(end), max: false };
    (final ? rest : follow)({ ...to, zoom: '' });
  };
  return { area, width, drag, setDrag, selected, time, choose, together };
}

type Interval = ReturnType<typeof useInterval>;

/** One end of the interval: dragged, or moved by keys from dump to dump. */
function Handle({
  g,
  s,
  which,
  ts,
  other,
}: {
  g: GroupProps;
  s: Interval;
  which: 'from' | 'to';
  ts: number;
  other: number;
}) {
  const { tracks, view } = g;
  const onKey = (e: KeyboardEvent) => {
    const step = e.key === 'ArrowLeft' ? -1 : e.key === 'ArrowRight' ? 1 : 0;
    if (!step) return;
    e.preventDefault();
    e.stopPropagation();
    const all = [tracks.start, ...tracks.moments.map((m) => m.ts).filter((t) => t > tracks.start)];
    const next = all[all.indexOf(snap(tracks, ts)) + step];
    if (next !== undefined) s.choose(next, other, true);
  };
  const onDown = (e: PointerEvent) => {
    e.preventDefault();
    (e.currentTarget as HTMLElement).focus();
    whileHeld(
      (m) => s.choose(other, s.time(m), false),
      (m) => {
        s.choose(other, s.time(m), true);
        s.setDrag(null);
      },
    );
  };
  const share = Math.max(0, Math.min(1, (ts - view.from) / (view.to - view.from)));
  return (
    <button
      type="button"
      class="handle"
      role="slider"
      aria-label={which === 'from' ? 'Start of the interval' : 'End of the interval'}
      aria-valuetext={clock(ts - tracks.start)}
      aria-valuenow={Math.round((ts - tracks.start) / 1e6)}
      aria-valuemin={0}
      aria-valuemax={Math.round((lastOf(tracks) - tracks.start) / 1e6)}
      style={{ left: `calc(${GUTTER}px + (100% - ${GUTTER}px) * ${share})` }}
      onKeyDown={onKey}
      onPointerDown={onDown}
    />
  );
}

function Handles({ g, s }: { g: GroupProps; s: Interval }) {
  const { selected } = s;
  if (!selected || s.drag || !g.chosen || !place.value.from) return null;
  return (
    <div class="handles">
      <Handle g={g} s={s} which="from" ts={selected.from} other={selected.to} />
      <Handle g={g} s={s} which="to" ts={selected.to} other={selected.from} />
    </div>
  );
}

/** A drag over tracks: an interval, over several processes one of all of them; with Shift the view moves. */
function dragged(e: PointerEvent, g: GroupProps, s: Interval): void {
  const { onPan, onSay } = g;
  const r = s.area.current!.getBoundingClientRect();
  if (e.button !== 0 || e.clientX < r.left + GUTTER || (e.target as Element).closest('.diamond')) return;
  if (e.altKey) onSay('Intervals go from dump to dump: nothing finer is recorded in this trace.');
  const pan = e.shiftKey;
  const start = s.time(e);
  let last = start;
  let moved = false;
  whileHeld(
    (m) => {
      moved ||= Math.abs(m.clientX - e.clientX) > 4;
      if (pan) {
        onPan(last - s.time(m));
        last = s.time(m);
      } else if (moved) s.choose(start, s.time(m), false, between(e.clientY, m.clientY, g.onTop));
    },
    (m) => {
      if (!moved) return;
      if (!pan) s.choose(start, s.time(m), true, between(e.clientY, m.clientY, g.onTop));
      s.setDrag(null);
      // The slice under the pointer is not what was meant.
      addEventListener('click', (c) => c.stopPropagation(), { capture: true, once: true });
    },
  );
}

function Head({ tracks, chosen, onJoin, all }: GroupProps & { all: string[] }) {
  return (
    <h2>
      {safe(tracks.name) || 'unknown'}{' '}
      <span class="dim">
        pid {tracks.pid}
        {tracks.uid >= 0 ? ` · uid ${tracks.uid}` : ''}
        {since(tracks) && ` · ${since(tracks)}`}
        {tracks.ended ? ' · ended while recorded' : ''}
      </span>
      {onJoin && (
        <label class="check join" title="its figures are added to those of the others that are ticked">
          <input type="checkbox" checked={chosen} onChange={(e) => onJoin(e.currentTarget.checked)} /> add up
        </label>
      )}
      <Pin
        on={isPinned(tracks.upid)}
        what={safe(tracks.name) || 'unknown'}
        onClick={() => togglePin(tracks.upid, all)}
      />
    </h2>
  );
}

const NONE = new Map<number, number>();

export function TrackGroup(g: GroupProps) {
  const { tracks, view, kept, chosen, onTop, of } = g;
  const s = useInterval(g);
  const { selected, width, together } = s;
  const keptOf = useMemo(() => {
    const of = (kept ?? []).filter((k) => k.upid === tracks.upid);
    const maps = new Map(of.map((k) => [k.heap, new Map(k.dumps)]));
    return (heap: string) => maps.get(heap) ?? NONE;
  }, [kept, tracks]);
  const rows = rowsOf({ tracks, view, selected, width, chosen, together, keptOf, onView: g.onView });
  const shown = rows.filter((r) => isPinned(tracks.upid, r.id) === onTop);
  return (
    <section
      class="tracks"
      data-upid={tracks.upid}
      ref={s.area}
      aria-label={`${onTop ? 'Pinned tracks' : 'Tracks'} of ${safe(tracks.name)}`}>
      {!onTop && <Head {...g} all={rows.map((r) => r.id)} />}
      {shown.length > 0 && <Handles g={g} s={s} />}
      <div class="dragging" onPointerDown={(e) => dragged(e, g, s)}>
        {shown.map((row) => (
          <Row row={row} rows={rows} t={tracks} on={onTop} of={onTop ? of : undefined} key={row.id} />
        ))}
        {!onTop && <GraphTrack upid={tracks.upid} view={view} zero={tracks.start} />}
      </div>
      {g.children}
    </section>
  );
}
