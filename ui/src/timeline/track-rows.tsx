// The tracks of a process, each with its name: those that are pinned stand on top, the others in the group of
// their process.
import type { ComponentChildren } from 'preact';
import { bytes, safe } from '../app/format';
import type { Tracks } from '../app/types';
import { Chart } from './chart';
import { HeapDumps } from './heap-dumps';
import { counter, countersOf, events, liveBand, liveLine } from './moments';
import { togglePin } from './pins';
import { Flags } from './ruler';
import type { View } from './view';

export interface RowProps {
  tracks: Tracks;
  view: View;
  selected: View | null;
  width: number;
  chosen: boolean; // among what is looked at
  together: boolean; // and others are, too
  keptOf(heap: string): Map<number, number>;
  onView(v: View): void;
}

export interface TrackRow {
  id: string; // in the address
  label: string;
  note: string;
  body: ComponentChildren;
}

function liveRow({ tracks, view, selected }: RowProps): TrackRow {
  const [first, last] = [tracks.moments[0]?.space ?? 0, tracks.moments.at(-1)?.space ?? 0];
  return {
    id: 'live',
    label: 'Live heap',
    note: `${bytes(tracks.peak?.space ?? 0)} at most`,
    body: (
      <Chart
        lines={[liveLine(tracks)]}
        band={liveBand(tracks)}
        view={view}
        height={90}
        selected={selected}
        label={`Live heap of ${safe(tracks.name)}: from ${bytes(first)} to ${bytes(last)}`}
      />
    ),
  };
}

const heapRow = (p: RowProps, h: Tracks['heaps'][number], i: number): TrackRow => ({
  id: `h${i}`,
  label: safe(h.heap),
  note: `${h.dumps.length} ${h.dumps.length === 1 ? 'dump' : 'dumps'}`,
  body: <HeapDumps {...p} heap={h.heap} dumps={h.dumps} kept={p.keptOf(h.heap)} />,
});

function eventRow({ tracks, view }: RowProps): TrackRow {
  const list = events(tracks);
  return {
    id: 'events',
    label: 'Events',
    note: `${list.length} ${list.length === 1 ? 'flag' : 'flags'}`,
    body: <Flags tracks={tracks} list={list} view={view} />,
  };
}

type Counter = ReturnType<typeof countersOf>[number];

export function counterRow(
  of: Pick<Tracks, 'counters' | 'name'>,
  c: Counter,
  i: number,
  view: View,
  selected: View | null,
): TrackRow {
  const most = (name: string) => bytes(counter(of, name).reduce((a, x) => Math.max(a, x[1]), 0));
  const several = c.lines.length > 1;
  return {
    id: `c${i}`,
    label: c.label,
    note:
      c.lines.map(([name, label]) => (several ? `${label} ` : '') + most(name)).join(', ') +
      (several ? '' : ' at most'),
    body: (
      <Chart
        lines={c.lines.map(([name, label, colour]) => ({
          label,
          colour,
          step: true,
          points: counter(of, name),
        }))}
        view={view}
        height={44}
        selected={selected}
        label={`${c.label} of ${safe(of.name)} over time: ${c.lines.map((l) => l[1]).join(', ')}`}
      />
    ),
  };
}

export const rowsOf = (p: RowProps): TrackRow[] => [
  liveRow(p),
  ...p.tracks.heaps.map((h, i) => heapRow(p, h, i)),
  eventRow(p),
  ...countersOf(p.tracks).map((c, i) => counterRow(p.tracks, c, i, p.view, p.selected)),
];

export const Pin = ({ on, what, onClick }: { on: boolean; what: string; onClick(): void }) => (
  <button
    type="button"
    class="pin"
    aria-pressed={on}
    aria-label={`Pin ${what}`}
    title={on ? 'let it go back to its place' : 'keep it on top'}
    onClick={onClick}>
    <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <path d="M5 1h6v1l-1 1v4l2 2v1H8.500v5h-1v-5H4V9l2-2V3L5 2z" fill="currentColor" />
    </svg>
  </button>
);

/** of: whose track it is, where that is not said above it. */
export function Row({
  row,
  rows,
  t,
  on,
  of,
}: {
  row: TrackRow;
  rows: TrackRow[];
  t: Tracks;
  on: boolean;
  of?: string;
}) {
  const all = rows.map((r) => r.id);
  return (
    <div class="track">
      <div class="name">
        <span class="cut" title={row.label}>
          {row.label}
        </span>
        {of && (
          <span class="cut dim" title={of}>
            {of}
          </span>
        )}
        <span class="dim">{row.note}</span>
        <Pin
          on={on}
          what={`${row.label} of ${safe(t.name)}`}
          onClick={() => togglePin(t.upid, all, row.id)}
        />
      </div>
      {row.body}
    </div>
  );
}
