// The dumps of one heap: diamonds for what was live, slices between them for what came.
import { useMemo } from 'preact/hooks';
import { bytes, certainty, clock, safe } from '../app/format';
import { compareWith } from '../app/sides';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import type { Dump, Tracks } from '../app/types';
import { flagWords, LOSSY, type Mark, marksOf } from './moments';
import { percentOf, type View } from './view';

interface Props {
  tracks: Tracks;
  heap: string;
  dumps: Dump[];
  kept: Map<number, number>;
  chosen: boolean;
  together: boolean;
  view: View;
  width: number;
  selected: View | null;
  onView(v: View): void;
}

/** Goes to a dump; among several processes a moment is one of all of them and all their heaps. */
function pick({ tracks, heap, together }: Props, d: Dump, from: string): void {
  const own = { upid: tracks.upid, with: '', heap: tracks.heaps.length === 1 ? '' : heap };
  go({
    ...(together ? { heap: '' } : own),
    at: ns(d.ts),
    max: !together && (d.flags & 64) !== 0,
    from,
    zoom: '',
  });
}

const isMine = ({ tracks, heap, chosen, together }: Props) =>
  chosen && (tracks.heaps.length === 1 || together || place.value.heap === heap);

/** What a slice says: as much of it as there is room for. */
function sliceWords(wide: number, kept: number | undefined, allocated: number, delta: number): string {
  const parts = [`Δ ${delta > 0 ? '+' : ''}${bytes(delta)}`];
  if (wide > 210) parts.unshift(`Allocated ${bytes(allocated)}`);
  if (wide > 340 && kept !== undefined) parts.unshift(`Retained ≥ ${bytes(kept)}`);
  return wide > 70 ? parts.join(' · ') : '';
}

const beginOf = (t: Tracks, d: Dump, before: Dump | null) =>
  before ? before.ts : Math.max(t.start, Math.min(d.start || t.start, d.ts));

/** What came since the dump before. */
function Slice({ p, d, before, on }: { p: Props; d: Dump; before: Dump | null; on: boolean }) {
  const { tracks, view, kept } = p;
  const begin = beginOf(tracks, d, before);
  const [a, b] = [percentOf(view, begin), percentOf(view, d.ts)];
  if (((b - a) / 100) * p.width < 6 || b < 0 || a > 100) return null;
  const delta = d.space - (before?.space ?? 0);
  const allocated = d.alloc_space - (before?.alloc_space ?? 0);
  const words = sliceWords(Infinity, kept.get(d.ts), allocated, delta);
  const left = Math.max(0, a);
  const wide = Math.min(100, b) - left;
  const when = `${clock(begin - tracks.start)} to ${clock(d.ts - tracks.start)}`;
  return (
    <button
      type="button"
      tabIndex={-1}
      class={`slice ${d.flags & LOSSY ? 'lossy' : ''} ${on ? 'on' : ''}`}
      style={{ left: `${left}%`, width: `${wide}%` }}
      title={`${when}: ${words}\nRetained: came in the interval and lives at its end; at least that, since a trace does not tell when freed memory had been allocated.\nΔ: allocated less all that was freed.`}
      aria-label={`Interval ${when}, ${words}`}
      onClick={() => pick(p, d, ns(begin))}>
      {sliceWords((wide / 100) * p.width, kept.get(d.ts), allocated, delta)}
    </button>
  );
}

/** What a click does: several dumps in one diamond are zoomed to, with Ctrl one is compared, with
 * Shift an interval ends there. */
function clicked(e: MouseEvent, p: Props, m: Mark): void {
  const d = m.dumps[m.dumps.length - 1];
  const now = place.value;
  if (m.dumps.length > 1 && m.dumps[0].ts !== d.ts) {
    const space = Math.max(d.ts - m.dumps[0].ts, 1e6);
    p.onView({ from: m.dumps[0].ts - space * 0.2, to: d.ts + space * 0.2 });
  } else if (e.ctrlKey || e.metaKey) {
    compareWith(p.tracks, p.tracks.heaps.length === 1 ? '' : p.heap, d.ts, (d.flags & 64) !== 0);
  } else if (e.shiftKey && now.at && now.at !== 'peak') {
    const a = Math.min(Number(now.at), d.ts);
    go({ at: ns(Math.max(Number(now.at), d.ts)), from: ns(a), zoom: '' });
  } else pick(p, d, '');
}

function Diamond({ p, m, at }: { p: Props; m: Mark; at: string }) {
  const { tracks } = p;
  const d = m.dumps[m.dumps.length - 1];
  const several = m.dumps.length > 1;
  const on = at !== '' && m.dumps.some((x) => ns(x.ts) === at);
  const peak = (d.flags & 64) !== 0;
  const label = `Dump at ${clock(d.ts - tracks.start)}: ${bytes(d.space)} live ${certainty(d.error, d.space, tracks.interval)}${peak ? ', peak' : ''}${d.flags & LOSSY ? `, ${flagWords(d.flags)}` : ''}`;
  return (
    <button
      type="button"
      class={`diamond ${peak ? 'peak' : ''} ${on ? 'on' : ''} ${d.flags & LOSSY ? 'lossy' : ''}`}
      style={{ left: `${m.x * 100}%` }}
      aria-label={several ? `${m.dumps.length} dumps up to ${clock(d.ts - tracks.start)}; zooms in` : label}
      aria-pressed={on}
      title={
        several
          ? m.dumps
              .map((x) => clock(x.ts - tracks.start))
              .slice(0, 20)
              .join('\n')
          : label
      }
      onClick={(e) => clicked(e, p, m)}>
      <i />
      {several && <em>{m.dumps.length}</em>}
    </button>
  );
}

/** A drag moves the selection at each frame, and there may be hundreds of dumps: they are made anew when
 * something of theirs is another one. */
export function HeapDumps(p: Props) {
  const { tracks, heap, dumps, kept, chosen, together, view, width, selected } = p;
  const plain = useMemo(() => dumps.filter((d) => !(d.flags & 64)), [dumps]);
  const mine = isMine(p);
  const at = mine && !place.value.from ? place.value.at : '';
  const slice = plain.findIndex(
    (d, i) => mine && d.ts === selected?.to && beginOf(tracks, d, i ? plain[i - 1] : null) === selected.from,
  );
  return useMemo(
    () => (
      <div class="dumps" role="group" aria-label={`Dumps of ${safe(heap)}`}>
        {plain.map((d, i) => (
          <Slice p={p} d={d} before={i ? plain[i - 1] : null} on={i === slice} />
        ))}
        {marksOf(dumps, view, width).map((m) => (
          <Diamond p={p} m={m} at={at} />
        ))}
      </div>
    ),
    [tracks, heap, dumps, kept, chosen, together, view, width, at, slice],
  );
}
