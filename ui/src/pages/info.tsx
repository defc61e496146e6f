// What the trace says about itself: how it was recorded, per process what went wrong, every statistic.
import { query, timeline } from '../app/answers';
import { bytes, clock, count, duration, safe } from '../app/format';
import type { Dump, Timeline, Trace, Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { sqlHref } from '../parts/show-sql';
import { type Column, Head, Scroll } from '../parts/table';
import { Busy, Failed } from '../parts/words';
import { flagWords } from '../timeline/moments';

const ASK = `select name, int_value, str_value from metadata order by name;
select name, idx, value, severity, source, description from stats where value <> 0 order by severity = 'info', name;
select name, confidence, message from trace_diagnostics`;

const NAMES: Record<string, string> = {
  trace_config_pbtxt: '',
  system_name: 'System',
  system_version: 'Kernel build',
  system_release: 'Kernel',
  system_machine: 'Machine',
  tracing_service_version: 'Recorded by',
  system_ram_bytes: 'Memory of the machine',
  trace_size_bytes: 'Size of the trace',
  trace_uuid: 'Id of the trace',
  trace_type: 'Format',
  tracing_started_ns: 'Recording began',
  tracing_disabled_ns: 'Recording ended',
  all_data_source_started_ns: 'All sources ran',
  timezone_off_mins: 'Time zone',
  trace_provenance: 'Provenance',
};

type Row = (string | number | null)[];

function valueOf(trace: Trace, name: string, v: Row[0]): string {
  if (v === null) return '–';
  if (/_bytes$/.test(name)) return bytes(Number(v));
  if (!/_ns$/.test(name)) return safe(String(v));
  if (trace.first_ns === undefined) return `${v} ns`;
  return `${duration(Math.abs(Number(v) - trace.first_ns))} ${Number(v) < trace.first_ns ? 'before' : 'after'} the first data`;
}

function FileFacts({ trace, meta }: { trace: Trace; meta: Row[] }) {
  const { first_ns: first, last_ns: last } = trace;
  return (
    <dl class="about-trace">
      <dt>Path</dt>
      <dd>
        <code>{safe(trace.name)}</code>
      </dd>
      <dt>Size</dt>
      <dd>
        {bytes(trace.bytes)}, read in {trace.seconds.toFixed(2)} s
      </dd>
      {first !== undefined && last !== undefined && last > first && (
        <>
          <dt>Covers</dt>
          <dd>{duration(last - first)}</dd>
        </>
      )}
      {meta
        .filter((m) => NAMES[String(m[0])] !== '')
        .map((m) => (
          <>
            <dt title={String(m[0])}>{NAMES[String(m[0])] ?? safe(String(m[0]))}</dt>
            <dd>{valueOf(trace, String(m[0]), m[2] ?? m[1])}</dd>
          </>
        ))}
    </dl>
  );
}

/** "name[index]" of a statistic. */
const Stat = ({ s }: { s: Row }) => (
  <code>
    {safe(String(s[0]))}
    {s[1] !== null ? `[${s[1]}]` : ''}
  </code>
);

function Bad({ bad, findings }: { bad: Row[]; findings: Row[] }) {
  return (
    <>
      <h2>
        Losses and errors {bad.length === 0 && <span class="dim">none</span>}{' '}
        <a
          class="small"
          href={sqlHref(
            'select name, idx, value, severity, source, description from stats where value <> 0',
          )}>
          SQL
        </a>
      </h2>
      {(bad.length > 0 || findings.length > 0) && (
        <Scroll label="Losses and errors">
          <table class="top plain-table">
            <Head columns={['What', ['Value', 'num'], 'Severity', 'Meaning']} />
            <tbody>
              {bad.map((s) => (
                <tr>
                  <td>
                    <Stat s={s} />
                  </td>
                  <td class="num">{count(Number(s[2]))}</td>
                  <td>{safe(String(s[3]))}</td>
                  <td class="dim">{safe(String(s[5] ?? ''))}</td>
                </tr>
              ))}
              {findings.map((f) => (
                <tr>
                  <td>{safe(String(f[0]))}</td>
                  <td />
                  <td>{safe(String(f[1]))}</td>
                  <td>{safe(String(f[2]))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </>
  );
}

function HeapRow({
  p,
  heap,
  dumps,
  zero,
}: {
  p: Tracks;
  heap: string;
  dumps: Dump[];
  zero: number | undefined;
}) {
  const flags = dumps.reduce((x, d) => x | (d.flags & ~(64 | 128)), 0);
  const last = dumps[dumps.length - 1];
  const most = (of: (d: Dump) => number) => count(dumps.reduce((x, d) => Math.max(x, of(d)), 0));
  const start = dumps[0]?.start;
  return (
    <tr>
      <td>
        {safe(p.name)} <span class="dim">{p.pid}</span>
      </td>
      <td>
        <code>{safe(heap)}</code>
      </td>
      <td class="num">{last ? bytes(last.interval) : ''}</td>
      <td class="num">{count(dumps.length)}</td>
      <td class="num">{most((d) => d.alloc_samples)}</td>
      <td class="num">{most((d) => d.lost)}</td>
      <td>{start ? clock(start - (zero ?? start)) : '–'}</td>
      <td>
        {[flags ? flagWords(flags) : '', p.ended ? 'ended while recorded' : ''].filter(Boolean).join(', ') ||
          'nothing unusual'}
      </td>
    </tr>
  );
}

const PROCESS_COLUMNS: Column[] = [
  'Process',
  'Heap',
  ['Interval', 'num'],
  ['Dumps', 'num'],
  ['Samples', 'num'],
  ['Lost', 'num'],
  'First data',
  'What happened',
];

function Processes({ list, zero }: { list: Tracks[]; zero: number | undefined }) {
  return (
    <>
      <h2>Processes</h2>
      <Scroll label="Processes">
        <table class="top plain-table">
          <Head columns={PROCESS_COLUMNS} />
          <tbody>
            {list.flatMap((p) =>
              p.heaps.map((h) => <HeapRow p={p} heap={h.heap} dumps={h.dumps} zero={zero} />),
            )}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}

function AllStats({ stats }: { stats: Row[] }) {
  return (
    <details>
      <summary>All statistics</summary>
      <Scroll label="All statistics">
        <table class="top plain-table">
          <Head columns={['What', ['Value', 'num'], 'Meaning']} />
          <tbody>
            {stats
              .filter((s) => s[3] === 'info')
              .map((s) => (
                <tr>
                  <td>
                    <Stat s={s} />
                  </td>
                  <td class="num">{count(Number(s[2]))}</td>
                  <td class="dim">{safe(String(s[5] ?? ''))}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}

export function InfoPage({ trace }: { trace: Trace }) {
  const a = useAnswer(`info ${trace.id}`, () => query(trace.id, ASK));
  const t = useAnswer<Timeline | null>(`info timeline ${trace.id}`, () =>
    trace.processes?.length ? timeline(trace.id) : Promise.resolve(null),
  );
  if (a.error || a.value?.error) return <Failed text={a.error || a.value!.error!} />;
  if (!a.value) return <Busy what="Reading" />;
  const [meta, stats, findings] = a.value.results.map((r) => r.rows);
  const config = meta.find((m) => m[0] === 'trace_config_pbtxt')?.[2];
  const bad = stats.filter((s) => s[3] !== 'info');
  return (
    <div class="doc">
      <h2 class="first">The file</h2>
      <FileFacts trace={trace} meta={meta} />
      <Bad bad={bad} findings={findings} />
      {t.value && t.value.processes.length > 0 && (
        <Processes list={t.value.processes} zero={trace.first_ns} />
      )}
      {config && (
        <>
          <h2>Configuration</h2>
          <pre class="block" tabIndex={0} aria-label="Configuration">
            {safe(String(config)).replace(/\\x0a/g, '\n').replace(/\\x09/g, '\t')}
          </pre>
        </>
      )}
      {stats.length > bad.length && <AllStats stats={stats} />}
    </div>
  );
}
