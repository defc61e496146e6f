// What is looked at, in words and as controls: process, heap, moment.
import { effect, signal } from '@preact/signals';
import { base, bytes, clock, safe } from '../app/format';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import { chosen } from '../app/together';
import type { Timeline, Tracks } from '../app/types';
import { heapsWord, nameOfTracks } from './selected';

/** On a phone further controls are shown on request: what is looked at comes first. */
const moreShown = signal(false);
effect(() => {
  document.documentElement.toggleAttribute('data-more', moreShown.value);
});

const REST = { heap: '', at: '', max: false, from: '', zoom: '' };

function ProcessSelect({ tracks, all, sum }: { tracks: Tracks; all: Timeline; sum: boolean }) {
  const choose = (v: string) => {
    if (v === 'all')
      go({
        with: all.processes
          .filter((x) => x !== chosen(all)[0])
          .map((x) => x.upid)
          .join(','),
        ...REST,
      });
    else go({ upid: Number(v), with: '', ...REST });
  };
  return (
    <label>
      Process{' '}
      <select
        value={tracks.parts ? 'several' : String(tracks.upid)}
        onChange={(e) => choose(e.currentTarget.value)}>
        {tracks.parts && <option value="several">{nameOfTracks(tracks)}</option>}
        {sum && tracks.parts?.length !== all.processes.length && (
          <option value="all">all {all.processes.length} together</option>
        )}
        {all.processes.map((x) => (
          <option value={String(x.upid)}>
            {safe(base(x.name)) || '?'} ({x.pid})
          </option>
        ))}
      </select>
    </label>
  );
}

function MomentSelect({ tracks, index }: { tracks: Tracks; index: number }) {
  const { moments, peak, start } = tracks;
  const choose = (v: string) => {
    if (v === 'peak') go({ at: 'peak', max: false, from: '' });
    else go({ at: ns(moments[Number(v)].ts), max: moments[Number(v)].max });
  };
  return (
    <label>
      At{' '}
      <select
        aria-label="Moment"
        value={place.value.at === 'peak' ? 'peak' : index >= 0 ? String(index) : ''}
        onChange={(e) => choose(e.currentTarget.value)}>
        {peak && <option value="peak">the peak, {bytes(peak.space)}</option>}
        {moments.map((m, i) => (
          <option value={String(i)}>
            {clock(m.ts - start)} · {bytes(m.space)}
            {i === moments.length - 1 ? ' (end)' : ''}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What is not shown of what is selected, and where an interval begins. */
function Chips({ tracks, sum }: { tracks: Tracks; sum: boolean }) {
  const p = place.value;
  return (
    <>
      {p.with && !sum && (
        <span class="chip" title="this page is about one process">
          without {p.with.includes(',') ? `the ${p.with.split(',').length} others` : 'the other'}
        </span>
      )}
      {p.from && (
        <span class="chip">
          since {clock(Number(p.from) - tracks.start)}{' '}
          <button
            type="button"
            aria-label="Remove the start of the interval"
            onClick={() => go({ from: '' })}>
            ×
          </button>
        </span>
      )}
    </>
  );
}

const MoreToggle = () => (
  <button
    type="button"
    class="more-toggle"
    aria-pressed={moreShown.value}
    title="further controls"
    onClick={() => (moreShown.value = !moreShown.value)}>
    More
  </button>
);

export function SelectionBar({
  tracks,
  all,
  sum = false,
  more = true,
}: {
  tracks: Tracks;
  all: Timeline;
  sum?: boolean;
  more?: boolean; // false: what it is about has a "More" of its own
}) {
  const p = place.value;
  const moments = tracks.moments;
  const index =
    p.at && p.at !== 'peak'
      ? moments.findIndex((m) => ns(m.ts) === p.at && m.max === p.max)
      : p.at === 'peak'
        ? -1
        : moments.length - 1;
  const step = (by: number) => {
    const m =
      moments[Math.max(0, Math.min(moments.length - 1, (index < 0 ? moments.length - 1 : index) + by))];
    if (m) go({ at: ns(m.ts), max: m.max });
  };
  return (
    <div class="bar" role="group" aria-label="Selection">
      {all.processes.length > 1 && <ProcessSelect tracks={tracks} all={all} sum={sum} />}
      {tracks.heaps.length > 1 && (
        <label>
          Heap{' '}
          <select value={p.heap} onChange={(e) => go({ heap: e.currentTarget.value, zoom: '' })}>
            <option value="">{heapsWord(tracks)}</option>
            {tracks.heaps.map((h) => (
              <option value={h.heap}>{safe(h.heap)}</option>
            ))}
          </select>
        </label>
      )}
      <MomentSelect tracks={tracks} index={index} />
      <button
        type="button"
        title="Previous dump ([)"
        aria-label="Previous dump"
        onClick={() => step(-1)}
        disabled={index === 0}>
        ‹
      </button>
      <button
        type="button"
        title="Next dump (])"
        aria-label="Next dump"
        onClick={() => step(1)}
        disabled={index === moments.length - 1}>
        ›
      </button>
      <Chips tracks={tracks} sum={sum} />
      {more && <MoreToggle />}
    </div>
  );
}
