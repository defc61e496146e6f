// What threads did, as flame charts: the program's scopes, a trace's begin and end events. A vertical cut
// is a pseudo-stack. The server leaves out what is too narrow to be seen.
import { useState } from 'preact/hooks';
import { question } from '../app/answers';
import { base, count, safe } from '../app/format';
import type { Trace } from '../app/types';
import { useAnswer } from '../parts/answer';
import { Slices, titleOf } from './slices';
import type { View } from './view';

export interface Thread {
  track: number;
  upid: number;
  pid?: number;
  process?: string;
  tid?: number;
  name: string;
  slices: number;
  levels: number;
  first: number;
  last: number;
}
export function useThreads(trace: Trace): Thread[] {
  const has = !!trace.slices;
  return (
    useAnswer(`threads ${trace.id} ${has}`, async () =>
      has ? (await question<{ threads: Thread[] }>(trace.id, 'threads', '')).threads : [],
    ).value ?? []
  );
}

interface Props {
  threads: Thread[];
  trace: number;
  view: View;
  zero: number;
  onView(v: View): void;
}

/** Collapsed until somebody asks: there may be hundreds. */
export function ThreadTracks({ threads, trace, view, zero, onView }: Props) {
  const [open, setOpen] = useState(false);
  if (!threads.length) return null;
  return (
    <div class="threads">
      <button type="button" class="plain" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? '▾' : '▸'} {count(threads.length)} {threads.length === 1 ? 'thread' : 'threads'} with slices
      </button>
      {open &&
        threads.map((t) => (
          <div class="track" key={t.track}>
            <div class="name">
              <span class="cut" title={titleOf(t)}>
                {titleOf(t)}
              </span>
              <span class="dim">
                {t.tid === undefined ? '' : `tid ${t.tid} · `}
                {count(t.slices)} {t.slices === 1 ? 'slice' : 'slices'}
              </span>
            </div>
            <Slices thread={t} trace={trace} view={view} zero={zero} onView={onView} />
          </div>
        ))}
    </div>
  );
}

/** Groups of the processes that have no track of their own, and tracks of no process. */
export function ThreadGroups({ known, ...p }: Props & { known: number[] }) {
  const upids = [...new Set(p.threads.map((t) => t.upid))].filter((u) => !known.includes(u));
  return (
    <>
      {upids.map((u) => {
        const mine = p.threads.filter((t) => t.upid === u);
        const name = u < 0 ? 'Tracks of no thread' : safe(base(mine[0].process ?? '')) || 'unknown';
        return (
          <section class="tracks" aria-label={`Threads of ${name}`} key={u}>
            <h2>
              {name} {u >= 0 && <span class="dim">pid {mine[0].pid}</span>}
            </h2>
            <ThreadTracks {...p} threads={mine} />
          </section>
        );
      })}
    </>
  );
}

/** The view that shows the slices, too. */
export function withSlices(view: View, threads: Thread[]): View {
  if (!threads.length) return view;
  return {
    from: Math.min(view.from, ...threads.map((t) => t.first)),
    to: Math.max(view.to, ...threads.map((t) => t.last)),
  };
}
