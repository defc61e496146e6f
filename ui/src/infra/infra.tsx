// MemoryInfra: global dumps, what each process's allocators hold, and below a cell the heap's details.
import { base, clock, safe } from '../app/format';
import { status } from '../app/server';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import type { Trace } from '../app/types';
import { useAnswer } from '../parts/answer';
import { Busy, Failed } from '../parts/words';
import { dumpOf, type InfraDump, infraDumps, infraTable, type InfraTable } from './infra-api';
import { HeapDetails } from './infra-details';
import { Dumps } from './infra-dumps';
import { AllocatorNodes } from './infra-nodes';
import { Table } from './infra-table';

/** "upid heap", as the URL names a cell. */
const cellOf = (text: string): string[] => /^(\d+) (.*)$/s.exec(text)?.slice(1) ?? [];

/** What the details are compared with: the end of another file, another heap, or the same one at
 * another dump. */
function useAgainst(t: InfraTable | null, own: number, start: number) {
  const p = place.value;
  const [upid, heap] = cellOf(p.other);
  const other = t?.rows.find((r) => String(r.upid) === upid);
  const files = (status.value?.traces ?? []).filter((x) => x.id !== own && x.state === 'ready');
  const file = files.find((x) => String(x.id) === p.otherfile);
  const then = p.since ? clock(Number(p.since) - start) : '';
  const since: Record<string, string> = p.since ? { base: p.since } : {};
  const query: Record<string, string> | null = file
    ? { base_trace: p.otherfile }
    : other
      ? { base_upid: upid, base_heap: heap, ...since }
      : p.since
        ? since
        : null;
  const words = file
    ? `, against the end of ${safe(base(file.name))}`
    : other
      ? `, against ${safe(heap)} of ${safe(base(other.name)) || 'process'} (${other.pid})${then ? ` at ${then}` : ''}`
      : then
        ? `, changes since ${then}`
        : '';
  return { other, files, file, query, words };
}

function AgainstBar({ other, files, file }: Pick<ReturnType<typeof useAgainst>, 'other' | 'files' | 'file'>) {
  if (!files.length && !other) return null;
  return (
    <p class="small infra-against">
      {files.length > 0 && (
        <label>
          Against{' '}
          <select
            aria-label="Compare with a file"
            value={file ? place.value.otherfile : ''}
            onChange={(e) => go({ otherfile: e.currentTarget.value, other: '' })}>
            <option value="">this trace</option>
            {files.map((x) => (
              <option value={String(x.id)}>{safe(base(x.name))}</option>
            ))}
          </select>
        </label>
      )}{' '}
      {other && (
        <button type="button" onClick={() => go({ other: '' })}>
          Stop comparing with {other.pid}
        </button>
      )}
    </p>
  );
}

/** Below the table: the heap of the chosen cell. */
function Below({
  trace,
  t,
  now,
  query,
  start,
}: {
  trace: Trace;
  t: InfraTable;
  now: InfraDump;
  query: string;
  start: number;
}) {
  const p = place.value;
  const [upid, name] = cellOf(p.cell);
  const against = useAgainst(t, trace.id, start);
  const process = t.rows.find((r) => String(r.upid) === upid);
  const column = t.columns.findIndex((c) => c.name === name);
  const cell = process && column >= 0 ? process.cells[column] : null;
  if (!upid) return null;
  if (!cell?.heap || !process)
    return (
      <p class="empty small" role="note">
        {safe(name)} of that process has no heap dump at this moment; choose another dump or ☰.
      </p>
    );
  const own = new URLSearchParams({ upid, heap: name });
  return (
    <>
      <h2>
        Heap details{' '}
        <span class="dim">
          {safe(name)} of {safe(base(process.name)) || 'process'} ({process.pid}) at {clock(now.ts - start)}
          {against.words}
        </span>
      </h2>
      <AgainstBar {...against} />
      <AllocatorNodes trace={trace.id} query={`${query}&${own}`} name={name} diff={!!p.since} />
      <HeapDetails
        trace={trace.id}
        query={`${new URLSearchParams({ dump: ns(now.ts), ...against.query })}&${own}`}
        diff={!!against.query}
        name={name}
        cell={cell}
      />
    </>
  );
}

function NoDump() {
  const { dump } = place.value;
  return (
    <div class="empty">
      <p>{dump ? 'There is no dump at that time.' : 'The trace holds no memory dump.'}</p>
      {dump && (
        <p>
          <button type="button" onClick={() => go({ dump: '', since: '' })}>
            Show the last one
          </button>
        </p>
      )}
    </div>
  );
}

export function InfraPage({ trace }: { trace: Trace }) {
  const p = place.value;
  const dumps = useAnswer(`infra ${trace.id}`, () => infraDumps(trace.id));
  const now = dumps.value && dumpOf(dumps.value, p.dump);
  const query = new URLSearchParams({
    ...(now ? { dump: ns(now.ts) } : {}),
    ...(p.since ? { base: p.since } : {}),
  }).toString();
  const table = useAnswer(`infra table ${trace.id}?${now ? query : ''}`, async () =>
    now ? infraTable(trace.id, query) : null,
  );
  if (!dumps.value) return dumps.error ? <Failed text={dumps.error} /> : <Busy what="Reading dumps" />;
  if (!now) return <NoDump />;
  const t = table.value;
  const start = Math.min(trace.first_ns ?? now.ts, dumps.value[0].ts);
  return (
    <div class="column infra-page" aria-busy={table.busy}>
      <Dumps all={dumps.value} now={now} start={start} />
      {table.error && <Failed text={table.error} />}
      {t && <Table t={t} start={start} />}
      {t && <Below trace={trace} t={t} now={now} query={query} start={start} />}
    </div>
  );
}
