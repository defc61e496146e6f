// The managed heap: one dump, seen from tabs. Each tab is a row of TABS; objects open tabs of their own.
import { base, count, safe } from '../app/format';
import { isSaved, status } from '../app/server';
import { go, href, place } from '../app/state';
import type { Trace } from '../app/types';
import { useAnswer } from '../parts/answer';
import { Busy, Failed } from '../parts/words';
import { dumpOf, type HeapDump, type HeapDumps, heapQuestion } from './heap-api';
import { DumpBar, Tabs } from './heap-bars';
import { Classes } from './heap-classes';
import { DiffTab } from './heap-diff';
import { HeapFlame } from './heap-flame';
import { Dominators, Objects, Paths, Twins } from './heap-lists';
import { ObjectTab } from './heap-object';
import { Overview } from './heap-overview';
import { WholeTab } from './heap-whole';

export interface TabProps {
  dump: HeapDump;
  all: HeapDumps;
  trace: Trace;
}

// ---- the page ----

interface Tab {
  id: string;
  label: string;
  view(p: TabProps): preact.ComponentChild;
  missing?(d: HeapDump, all: HeapDumps): boolean;
  /** A page that was saved as a file has it, too. */
  saved?: true;
}

const TABS: Tab[] = [
  { id: '', label: 'Overview', saved: true, view: (p) => <Overview dump={p.dump} /> },
  { id: 'flame', label: 'Flamegraph', saved: true, view: (p) => <HeapFlame dump={p.dump} /> },
  { id: 'classes', label: 'Classes', saved: true, view: (p) => <Classes dump={p.dump} /> },
  { id: 'objects', label: 'Objects', view: ({ dump }) => <Objects dump={dump} /> },
  { id: 'dominators', label: 'Dominators', view: ({ dump }) => <Dominators dump={dump} /> },
  {
    id: 'diff',
    label: 'Diff',
    view: ({ dump }) => <DiffTab dump={dump} />,
    missing: (_, all) =>
      all.dumps.length < 2 && (status.value?.traces.filter((t) => t.heap_graphs).length ?? 0) < 2,
  },
  { id: 'whole', label: 'Whole process', view: ({ dump }) => <WholeTab dump={dump} /> },
  { id: 'paths', label: 'Paths', view: ({ dump }) => <Paths dump={dump} /> },
  {
    id: 'strings',
    saved: true,
    label: 'Strings',
    view: ({ dump }) => <Twins dump={dump} kind="strings" />,
    missing: (d) => !d.strings,
  },
  {
    id: 'arrays',
    saved: true,
    label: 'Arrays',
    view: ({ dump }) => <Twins dump={dump} kind="arrays" />,
    missing: (d) => !d.arrays,
  },
];

/** A dump that did not end: figures would pass for the whole. */
function Unfinished({ errors }: { errors: HeapDumps['errors'] }) {
  return (
    <div class="empty" role="alert">
      <p>
        <b>This dump is incomplete: part of the heap is missing.</b>
      </p>
      <p class="dim">
        Sums are too small, and objects whose referrers are missing look unreachable. The process may have
        ended while it was dumped, or the recorder's buffer was too small.
      </p>
      <details>
        <summary>Show errors</summary>
        {errors.length ? (
          <ul>
            {errors.map((e) => (
              <li>
                <code>{safe(e.name)}</code>: {count(e.count)}
                {e.pid >= 0 && ` (pid ${e.pid})`}
              </li>
            ))}
          </ul>
        ) : (
          <p>The reader counted none.</p>
        )}
        <p>
          <a href={href({ page: 'info' })}>Info & stats</a>
        </p>
      </details>
      <p>
        <button type="button" class="primary" onClick={() => go({ anyway: true })}>
          View anyway
        </button>
      </p>
    </div>
  );
}

/** A page that was saved as a file is a part of what a server shows. */
const LeftOut = () => (
  <p class="empty">
    This view is not in this file. <code>heapwise ui TRACE</code> shows it.
  </p>
);

export function HeapPage({ trace }: { trace: Trace }) {
  const answer = useAnswer(`heap dumps ${trace.id}`, () => heapQuestion<HeapDumps>(trace.id, 'dumps', ''));
  const p = place.value;
  if (!answer.value) return answer.error ? <Failed text={answer.error} /> : <Busy what="Reading dumps" />;
  const dump = dumpOf(answer.value.dumps);
  if (!dump)
    return (
      <div class="empty">
        <p>{safe(base(trace.name))} holds no dump of a managed heap.</p>
        <p class="dim">
          <code>heapwise java dump PID</code> makes one of a running JVM.
        </p>
      </div>
    );
  // The reader says of which process; it is the last dump that did not end.
  const unfinished =
    dump === answer.value.dumps.filter((d) => d.upid === dump.upid).at(-1) &&
    answer.value.errors.some(
      (e) => /non_finalized|missing_packet/.test(e.name) && (e.pid < 0 || e.pid === dump.pid),
    );
  const tabs = TABS.filter((t) => (t.saved || !isSaved()) && !t.missing?.(dump, answer.value!));
  const object = /^o(\d+)$/.exec(p.tab)?.[1];
  const leftOut = isSaved() && (!!object || TABS.some((t) => t.id === p.tab && !t.saved));
  const tab: Tab = object
    ? { id: p.tab, label: '', view: ({ dump: d }) => <ObjectTab dump={d} id={Number(object)} /> }
    : (tabs.find((t) => t.id === p.tab) ?? tabs[0]);
  return (
    <div class="column heap">
      <DumpBar dump={dump} all={answer.value.dumps} />
      {(dump.truncated || unfinished) && !p.anyway ? (
        <Unfinished errors={answer.value.errors} />
      ) : (
        <>
          {(dump.truncated || unfinished) && (
            <p class="banner bad">
              A part of this dump is missing: sums are too small.{' '}
              <button type="button" onClick={() => go({ anyway: false })}>
                Why
              </button>
            </p>
          )}
          <Tabs tabs={tabs} on={tab.id} />
          <div
            class="column"
            role="tabpanel"
            id="heap-view"
            aria-labelledby={`tab-${tab.id}`}
            key={`${tab.id} ${dump.upid} ${dump.ts}`}>
            {leftOut ? <LeftOut /> : tab.view({ dump, all: answer.value, trace })}
          </div>
        </>
      )}
    </div>
  );
}
