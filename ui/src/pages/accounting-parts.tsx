// Accounting: memory by owner over time, and the call sites whose blocks pin free memory.
import { question } from '../app/answers';
import { bytes, clock, count, safe } from '../app/format';
import { href, place } from '../app/state';
import type { Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { type Caller, Callers } from '../parts/callers';
import { type Column, Head, Scroll } from '../parts/table';
import { Failed } from '../parts/words';
import { Ruler } from '../timeline/ruler';
import { type Area, Stacked, StackTable } from '../timeline/stacked';

type Pin = [name: string, module: string, pins: number, blocks: number, live: number, callers: Caller[]];
interface Pinned {
  at: number;
  bytes: number;
  whole: number | null;
  rows: number;
  sites: Pin[];
}
interface Parts {
  names: string[];
  points: [ts: number, rss: number, ...parts: number[]][];
  grows: boolean[];
  pinned: Pinned | null;
}

/** Parts that have anything at any time. */
export const areasOf = ({ names, points, grows }: Parts): Area[] =>
  names
    .map((name, k) => ({
      name: grows[k] ? `▲ ${name}` : name,
      title: grows[k] ? `${name}: it grows` : name,
      values: points.map((x) => x[k + 2]),
    }))
    .filter((a) => a.values.some((v) => v !== 0));

function PartsOverTime({ parts, tracks }: { parts: Parts; tracks: Tracks }) {
  const areas = areasOf(parts);
  const times = parts.points.map((x) => x[0]);
  const view = { from: times[0], to: Math.max(times[times.length - 1], times[0] + 1e6) };
  const last = parts.points[parts.points.length - 1];
  const label = `Resident memory by owner over time; at the end ${bytes(last[1])}: ${areas
    .map((a) => `${a.name} ${bytes(a.values[a.values.length - 1])}`)
    .join(', ')}`;
  const common = { areas, rest: false, times, view, label };
  return (
    <section>
      <h2>All memory, by owner, over time</h2>
      <div class="over parts">
        <Ruler view={view} zero={tracks.start} />
        <Stacked {...common} />
      </div>
      <StackTable {...common} label="Memory by owner over time" zero={tracks.start} />
    </section>
  );
}

const PIN_COLUMNS: Column[] = [
  'Call site',
  ['Pins', 'num', 'free memory on pages that its blocks lie on'],
  ['Blocks', 'num'],
  ['Live there', 'num', 'what the blocks themselves take'],
];

function Pins({ pinned, tracks }: { pinned: Pinned; tracks: Tracks }) {
  return (
    <section>
      <h2>
        Free memory that live blocks pin{' '}
        <span class="dim">
          {bytes(pinned.bytes)} at {clock(pinned.at - tracks.start)}
          {pinned.whole !== null && `; ${bytes(pinned.whole)} more is free in whole pages (malloc_trim)`}
        </span>
      </h2>
      {pinned.sites.length === 0 ? (
        <p class="dim">No block keeps a page that is free but for it.</p>
      ) : (
        <Scroll label="Call sites that pin free memory">
          <table class="top pins">
            <Head columns={PIN_COLUMNS} />
            <tbody>
              {pinned.sites.map(([name, , pins, blocks, live, callers]) => (
                <tr>
                  <td>
                    <a href={href({ page: 'functions', fn: name })}>{safe(name)}</a>
                    <Callers list={callers} />
                  </td>
                  <td class="num">{bytes(pins)}</td>
                  <td class="num">{count(blocks)}</td>
                  <td class="num">{bytes(live)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {pinned.rows > pinned.sites.length && (
        <p class="dim">{count(pinned.rows - pinned.sites.length)} more pin less.</p>
      )}
    </section>
  );
}

/** query: the selection as the accounting asks for it. free: what the allocator keeps, resident. */
export function OwnersOverTime({ tracks, query, free }: { tracks: Tracks; query: string; free: number }) {
  const { trace } = place.value;
  const answer = useAnswer(`parts ${trace}?${query}`, () => question<Parts>(trace, 'parts', query));
  if (answer.error) return <Failed text={answer.error} />;
  if (!answer.value)
    return (
      <p class="dim" aria-busy="true">
        Adding up over time…
      </p>
    );
  const { points, pinned } = answer.value;
  return (
    <div aria-busy={answer.busy}>
      {points.length > 1 && <PartsOverTime parts={answer.value} tracks={tracks} />}
      {pinned && <Pins pinned={pinned} tracks={tracks} />}
      {!pinned && free >= 1 << 20 && (
        <p class="dim">
          What pins free memory is not in this recording: record with <code>--pinned</code>
        </p>
      )}
    </div>
  );
}
