// What a trace lacks, in words.
import { count, of, safe } from '../app/format';
import type { Loss, Trace } from '../app/types';

const LOSS: Record<string, (l: Loss) => string> = {
  samples: (l) => `${of(l.count, 'sample was', 'samples were')} lost${l.detail ? ` (${l.detail})` : ''}`,
  overran: () =>
    'the profile ended early: its buffer stayed full; record with a larger --shmem-size or a larger interval',
  corrupted: () => 'the buffer shared with the program was damaged; the profile ended there',
  rejected: () => 'another recording was already profiling this process; end that one first',
  guardrail: () => 'the profile ended early: the recorder reached its limit of memory or CPU time',
  timeout: () =>
    'the profile ended early: its buffer was full and the recorder made no room in time; record with a larger --shmem-size',
  stack: () =>
    'the profile ended early: a thread ran on a stack with unknown bounds, as coroutines and JITs do',
  unwinding: (l) =>
    `${of(l.count, 'stack was', 'stacks were')} cut short: the bytes count, the callers are missing`,
  interval: () => 'the sampling interval was raised while recording: less precise',
  stat: (l) => `${l.detail}: ${count(l.count)}`,
};

export function Losses({ trace }: { trace: Trace }) {
  const list = trace.losses ?? [];
  if (!list.length) return null;
  return (
    <div class={`banner ${list.some((l) => l.incomplete) ? 'bad' : 'note'}`} role="status">
      {list.map((l) => {
        const p = trace.processes?.find((x) => x.upid === l.upid);
        return (
          <div>
            {l.incomplete ? 'Data is missing: ' : 'Less precise: '}
            {safe(LOSS[l.kind]?.(l) ?? l.kind)}
            {p && ` – ${safe(p.name)} (${p.pid})`}
          </div>
        );
      })}
    </div>
  );
}
