// The timeline of a trace without native heap profiles: memory dumps, managed heaps, counters, threads.
import { useEffect, useState } from 'preact/hooks';
import type { Trace } from '../app/types';
import { GraphGroups, useHeapDumps } from '../heap/heap-track';
import { infraDumps } from '../infra/infra-api';
import { MemoryTrack } from '../infra/infra-track';
import { useAnswer } from '../parts/answer';
import { isPlainKey } from '../parts/keys';
import { useTimeline } from '../parts/selected';
import { Busy, Failed } from '../parts/words';
import { OtherGroup } from './other-groups';
import { Ruler, ViewButtons } from './ruler';
import { ThreadGroups, ThreadTracks, useThreads } from './thread-track';
import { useView, type View, wheelZoom } from './view';

/** From the first to the last of all times, with some room. */
function stretch(times: number[]): View {
  const zero = times.length ? times.reduce((a, b) => Math.min(a, b)) : 0;
  const last = times.length ? times.reduce((a, b) => Math.max(a, b)) : 1;
  const room = Math.max(1e6, (last - zero) * 0.04);
  return { from: zero - room, to: last + room };
}

/** Everything that has a time, and the view of it. */
function useTimes(trace: Trace) {
  const graphs = useHeapDumps();
  const threads = useThreads(trace);
  const times = useTimeline();
  const memory =
    useAnswer(`infra ${trace.id} ${!!trace.memory_dumps}`, async () =>
      trace.memory_dumps ? infraDumps(trace.id) : [],
    ).value ?? [];
  const others = times.value?.others ?? [];
  const all = [
    ...(graphs.value?.dumps ?? []).map((d) => d.ts),
    ...memory.map((d) => d.ts),
    ...threads.flatMap((t) => [t.first, t.last]),
    ...others.flatMap((o) => Object.values(o.counters).flatMap((c) => c.map((x) => x[0]))),
  ];
  const zero = all.length ? all.reduce((a, b) => Math.min(a, b)) : 0;
  const moves = useView(stretch(all));
  const { view, setView, zoom, pan, whole } = moves;
  const [, redraw] = useState(0);
  useEffect(() => {
    setView(whole);
    redraw((n) => n + 1);
  }, [whole.from, whole.to]); // answers come one by one
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (!isPlainKey(e)) return;
      const acts: Record<string, () => void> = {
        w: () => zoom(0.7),
        s: () => zoom(1 / 0.7),
        a: () => pan(-0.2),
        d: () => pan(0.2),
        0: () => setView(whole),
      };
      acts[e.key.toLowerCase()]?.();
    };
    addEventListener('keydown', key, true);
    return () => removeEventListener('keydown', key, true);
  }, [view, whole.from, whole.to]);
  return {
    zero,
    moves,
    threads,
    others,
    error: graphs.error || times.error,
    there: !!graphs.value && !!times.value,
  };
}

export function OtherTimeline({ trace }: { trace: Trace }) {
  const { zero, moves, threads, others, error, there } = useTimes(trace);
  const { view, setView, zoom } = moves;
  if (error) return <Failed text={error} />;
  if (!there) return <Busy what="Reading dumps" />;
  const known = [...new Set(others.map((o) => o.upid))];
  return (
    <div class="column" onWheel={(e) => wheelZoom(e, view, zoom)}>
      <div class="bar">
        <span class="dim hint">
          {trace.heap_graphs
            ? 'Click a diamond for the objects of that moment, with Ctrl for what changed since. '
            : ''}
          {trace.memory_dumps
            ? 'Click an M for the allocators at that moment, with Ctrl for what changed since it.'
            : ''}
        </span>
        <ViewButtons moves={moves} />
      </div>
      <Ruler view={view} zero={zero} />
      <MemoryTrack trace={trace} view={view} zero={zero} />
      <GraphGroups known={[]} view={view} zero={zero} />
      {others.map((o) => (
        <OtherGroup of={o} view={view} key={o.upid}>
          <ThreadTracks
            threads={threads.filter((t) => t.upid === o.upid)}
            trace={trace.id}
            view={view}
            zero={zero}
            onView={setView}
          />
        </OtherGroup>
      ))}
      <ThreadGroups
        known={known}
        threads={threads}
        trace={trace.id}
        view={view}
        zero={zero}
        onView={setView}
      />
    </div>
  );
}
