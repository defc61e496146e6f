// The line of times, and tracks of single moments: what happened, and what was named.
import { clock, safe } from '../app/format';
import type { Named, Tracks } from '../app/types';
import type { Event } from './moments';
import type { Moves, View } from './view';

const LABEL_PX = 56;

const room = () => Math.max(80, innerWidth - 240);

/** Between two labels of the ruler: six at most, fewer where there is no room for them, but more than one. */
function steps(total: number): number {
  const raw = total / Math.max(1, Math.min(6, Math.floor(room() / 70)));
  const power = 10 ** Math.floor(Math.log10(raw));
  const round = [0.2, 0.5, 1, 2, 5, 10].map((k) => k * power);
  const step = round.find((s) => s >= raw)!;
  return step <= total / 2 ? step : round.findLast((s) => s <= total / 2)!;
}

export function Ruler({
  view,
  zero,
  marks = [],
  onPointerDown,
}: {
  view: View;
  zero: number;
  marks?: number[];
  onPointerDown?(e: PointerEvent): void;
}) {
  const total = view.to - view.from;
  const step = steps(total);
  const apart = (LABEL_PX / room()) * total;
  const ticks: number[] = [];
  for (let t = Math.ceil((view.from - zero) / step) * step; t <= view.to - zero; t += step)
    if (!ticks.length || t - ticks.at(-1)! >= apart) ticks.push(t);
  return (
    <div class="ruler" aria-hidden="true" data-from={view.from} onPointerDown={onPointerDown}>
      {marks
        .filter((t) => t >= view.from && t <= view.to)
        .map((t) => (
          <i class="mark" title={clock(t - zero)} style={{ left: `${((t - view.from) / total) * 100}%` }} />
        ))}
      {ticks
        .filter((t) => (t + zero - view.from) / total < 0.96)
        .map((t) => (
          <span style={{ left: `${((t + zero - view.from) / total) * 100}%` }}>{clock(t, step)}</span>
        ))}
    </div>
  );
}

export const Flags = ({ tracks, list, view }: { tracks: Tracks; list: Event[]; view: View }) => (
  <ul class="flags" aria-label={`Events of ${safe(tracks.name)}`}>
    {list
      .filter((e) => e.ts >= view.from && e.ts <= view.to)
      .map((e) => (
        <li
          class={e.bad ? 'bad' : ''}
          style={{ left: `${((e.ts - view.from) / (view.to - view.from)) * 100}%` }}
          title={`${clock(e.ts - tracks.start)} ${e.words}`}>
          <span class="sr">
            {clock(e.ts - tracks.start)} {e.words}
          </span>
        </li>
      ))}
  </ul>
);

/** What was named while it was recorded; a click leads to the dump next to it. */
export function NamedTrack({
  marks,
  view,
  zero,
  onPick,
}: {
  marks: Named[];
  view: View;
  zero: number;
  onPick(ts: number): void;
}) {
  const at = (ts: number) => (100 * (ts - view.from)) / (view.to - view.from);
  return (
    <div class="track named">
      <div class="name">
        Marks<span class="dim">{marks.length} named while it ran</span>
      </div>
      <ul aria-label="Marks">
        {marks
          .filter((m) => m.ts >= view.from && m.ts <= view.to)
          .map((m) => (
            <li style={{ left: `${at(m.ts)}%` }}>
              <button
                type="button"
                title={`${clock(m.ts - zero)} ${safe(m.name)}: select the dump next to it`}
                onClick={() => onPick(m.ts)}>
                {safe(m.name)}
              </button>
            </li>
          ))}
      </ul>
    </div>
  );
}

/** In, out, and all of it. */
export const ViewButtons = ({ moves: { zoom, setView, whole } }: { moves: Moves }) => (
  <>
    <button type="button" title="Zoom in (W)" aria-label="Zoom in" onClick={() => zoom(0.7)}>
      +
    </button>
    <button type="button" title="Zoom out (S)" aria-label="Zoom out" onClick={() => zoom(1 / 0.7)}>
      −
    </button>
    <button type="button" title="Whole trace (0)" onClick={() => setView(whole)}>
      All
    </button>
  </>
);
