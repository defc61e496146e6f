// What a page says when there is nothing to show: no trace, no names.
import { signal } from '@preact/signals';
import { query } from '../app/answers';
import { closeTrace } from '../app/files';
import { base, bytes, count, percent, safe } from '../app/format';
import { howFar } from '../app/progress';
import { go, href, place } from '../app/state';
import type { Trace } from '../app/types';
import { fresh } from '../app/url/place';
import { useAnswer } from '../parts/answer';
import { CloseNote } from '../parts/words';

const FORMATS = [
  'Perfetto traces (heapwise, heapprofd)',
  'pprof profiles',
  'heaptrack recordings',
  'Java heap dumps (hprof)',
  'JavaScript heap snapshots and profiles (heapsnapshot, heapprofile)',
  'Ruby heap dumps (ObjectSpace.dump_all)',
  'memory-infra dumps (JSON)',
  'folded stacks',
  'any of them packed by gzip or zstd',
];

export function Reading({ trace }: { trace: Trace }) {
  return (
    <div class="empty">
      <p>
        <b>Reading {safe(base(trace.name))}</b>
      </p>
      <progress
        max={trace.bytes || undefined}
        value={trace.bytes ? (trace.read ?? 0) : undefined}
        aria-label={`Reading ${safe(base(trace.name))}`}
      />
      <p class="dim">{howFar(trace)}</p>
      <p>
        <button
          type="button"
          onClick={() => void closeTrace(trace.id).then(() => go({ ...fresh, page: 'home', trace: 0 }))}>
          Cancel
        </button>
      </p>
    </div>
  );
}

/** A file that no reader knows, or that is empty. */
export function Unreadable({ trace }: { trace: Trace }) {
  const head = trace.head ?? '';
  const text = head
    .split(' ')
    .filter(Boolean)
    .map((h) => {
      const c = parseInt(h, 16);
      return c >= 32 && c < 127 ? String.fromCharCode(c) : '·';
    })
    .join('');
  return (
    <div class="doc">
      <p class="banner bad" role="alert">
        {safe(trace.error ?? 'The trace cannot be read.')}
      </p>
      <dl class="about-trace">
        <dt>File</dt>
        <dd>
          <code>{safe(trace.name)}</code>, {bytes(trace.bytes)}
        </dd>
        <dt>First bytes</dt>
        <dd>
          {head ? (
            <>
              <span class="sr">first bytes: </span>
              <code>{head}</code> <code class="dim">{text}</code>
            </>
          ) : trace.bytes ? (
            'not shown: a request named this file'
          ) : (
            'none: the file is empty'
          )}
        </dd>
        <dt>Can be read</dt>
        <dd>{FORMATS.join(', ')}</dd>
      </dl>
      {trace.bytes === 0 && (
        <p>
          A recording that was ended before its first dump leaves an empty file: <code>heapwise record</code>{' '}
          says why at its end.
        </p>
      )}
      <p>
        <a href={href({ page: 'home' })}>Open another</a>
      </p>
    </div>
  );
}

/** Traces whose unnamed frames were told of, and dismissed. */
const dismissed = signal<ReadonlySet<number>>(new Set());

/** Many frames without a name: who reads addresses should know that there is a way. */
export function Unnamed({ trace }: { trace: Trace }) {
  const wanted = trace.processes?.length && /^(flame|functions|tree|leaks|diff)$/.test(place.value.page);
  const a = useAnswer(`unnamed ${wanted ? trace.id : 0}`, async () => {
    if (!wanted) return null;
    const r = await query(
      trace.id,
      `select count(*), sum(coalesce(nullif(f.deobfuscated_name, ''), nullif(f.name, '')) is null and f.symbol_set_id is null) from stack_profile_frame f`,
    );
    return r.results[0]?.rows[0] as [number, number] | undefined;
  });
  if (!wanted || !a.value || !(a.value[1] > 0.2 * a.value[0])) return null;
  if (dismissed.value.has(trace.id)) return null;
  return (
    <div class="banner note closable" role="status">
      <span>
        {percent(a.value[1], a.value[0])} of the frames ({count(a.value[1])}) have no name: they read{' '}
        <code>module+0x…</code>. <a href={href({ page: 'symbols' })}>Symbols of {safe(base(trace.name))}</a>
      </span>
      <CloseNote onClose={() => (dismissed.value = new Set([...dismissed.value, trace.id]))} />
    </div>
  );
}
