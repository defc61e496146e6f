// Dumps of managed heaps on the timeline: diamonds that lead to their page.
import { useEffect, useRef, useState } from 'preact/hooks';
import { base, clock, count, safe } from '../app/format';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import { useAnswer } from '../parts/answer';
import type { View } from '../timeline/view';
import { type HeapDump, type HeapDumps, heapQuestion } from './heap-api';

export const useHeapDumps = () => {
  const id = place.value.trace;
  return useAnswer(`heap dumps ${id}`, () => heapQuestion<HeapDumps>(id, 'dumps', ''));
};

const toDump = (d: HeapDump) => go({ page: 'heap', tab: '', upid: d.upid, graph: ns(d.ts), zoom: '' });

/** Ctrl: compared with the dump that is looked at. */
function compare(d: HeapDump): void {
  const p = place.peek();
  if (p.graph && p.graph !== ns(d.ts) && (p.upid === null || p.upid === d.upid))
    go({ page: 'heap', tab: 'diff', upid: d.upid, against: ns(d.ts), zoom: '' });
  else go({ page: 'heap', tab: 'diff', upid: d.upid, graph: ns(d.ts), against: '', zoom: '' });
}

function Diamonds({ dumps, view, zero }: { dumps: HeapDump[]; view: View; zero: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(box.current!.clientWidth));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  const marks: { x: number; dumps: HeapDump[] }[] = [];
  for (const d of dumps) {
    const x = (d.ts - view.from) / (view.to - view.from);
    if (x < 0 || x > 1) continue;
    const last = marks[marks.length - 1];
    if (last && (x - last.x) * width < 10) last.dumps.push(d);
    else marks.push({ x, dumps: [d] });
  }
  return (
    <div class="dumps" ref={box} role="group" aria-label="Dumps of the managed heap">
      {marks.map((m) => {
        const d = m.dumps[m.dumps.length - 1];
        const label = `Managed heap at ${clock(d.ts - zero)}: ${count(d.objects)} objects${d.truncated ? ', incomplete' : ''}${d.oome ? ', out of memory' : ''}`;
        return (
          <button
            type="button"
            class={`diamond managed ${d.truncated ? 'lossy' : ''}`}
            style={{ left: `${m.x * 100}%` }}
            title={
              m.dumps.length > 1
                ? m.dumps
                    .map((x) => clock(x.ts - zero))
                    .slice(0, 20)
                    .join('\n')
                : `${label}\nCtrl: compare`
            }
            aria-label={
              m.dumps.length > 1
                ? `${m.dumps.length} dumps of the managed heap up to ${clock(d.ts - zero)}; the last of them`
                : label
            }
            onClick={(e) => (e.ctrlKey || e.metaKey ? compare(d) : toDump(d))}>
            <i />
            {m.dumps.length > 1 && <em>{m.dumps.length}</em>}
          </button>
        );
      })}
    </div>
  );
}

const Track = ({ dumps, view, zero }: { dumps: HeapDump[]; view: View; zero: number }) => (
  <div class="track">
    <div class="name">
      Managed heap
      <span class="dim">
        {dumps.length} {dumps.length === 1 ? 'dump' : 'dumps'}
      </span>
    </div>
    <Diamonds dumps={dumps} view={view} zero={zero} />
  </div>
);

/** The track of a process that has a native profile, too. */
export function GraphTrack({ upid, view, zero }: { upid: number; view: View; zero: number }) {
  const dumps = useHeapDumps().value?.dumps.filter((d) => d.upid === upid) ?? [];
  return dumps.length ? <Track dumps={dumps} view={view} zero={zero} /> : null;
}

/** Groups of the processes that have no native profile. */
export function GraphGroups({ known, view, zero }: { known: number[]; view: View; zero: number }) {
  const all = useHeapDumps().value?.dumps.filter((d) => !known.includes(d.upid)) ?? [];
  const upids = [...new Set(all.map((d) => d.upid))];
  return (
    <>
      {upids.map((u) => {
        const mine = all.filter((d) => d.upid === u);
        return (
          <section class="tracks" aria-label={`Tracks of ${safe(mine[0].name)}`}>
            <h2>
              {safe(base(mine[0].name)) || 'unknown'} <span class="dim">pid {mine[0].pid}</span>
            </h2>
            <Track dumps={mine} view={view} zero={zero} />
          </section>
        );
      })}
    </>
  );
}

/** The view that shows the dumps, too. */
export function withDumps(view: View, dumps: HeapDump[]): View {
  if (!dumps.length) return view;
  const from = Math.min(view.from, ...dumps.map((d) => d.ts));
  const to = Math.max(view.to, ...dumps.map((d) => d.ts));
  const room = (to - from) * 0.02;
  return { from: from < view.from ? from - room : view.from, to: to > view.to ? to + room : view.to };
}
