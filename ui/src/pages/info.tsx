// What the trace says about itself: how it was recorded, per process what went wrong, every statistic.
import { query, timeline, type Timeline, type Trace } from '../app/api';
import { bytes, clock, count, duration, safe } from '../app/format';
import { Busy, Failed, useAnswer } from '../parts/parts';
import { sqlHref } from '../parts/show-sql';
import { flagWords } from '../timeline/timeline';

const ASK = `select name, int_value, str_value from metadata order by name;
select name, idx, value, severity, source, description from stats where value <> 0 order by severity = 'info', name;
select name, confidence, message from trace_diagnostics`;

const NAMES: Record<string, string> = {
  trace_config_pbtxt: '', system_name: 'System', system_version: 'Kernel build', system_release: 'Kernel', system_machine: 'Machine', tracing_service_version: 'Recorded by',
  system_ram_bytes: 'Memory of the machine', trace_size_bytes: 'Size of the trace', trace_uuid: 'Id of the trace', trace_type: 'Format', tracing_started_ns: 'Recording began',
  tracing_disabled_ns: 'Recording ended', all_data_source_started_ns: 'All sources ran', timezone_off_mins: 'Time zone', trace_provenance: 'Provenance',
};

export function InfoPage({ trace }: { trace: Trace }) {
  const a = useAnswer(`info ${trace.id}`, () => query(trace.id, ASK));
  const t = useAnswer<Timeline | null>(`info timeline ${trace.id}`, () => (trace.processes?.length ? timeline(trace.id) : Promise.resolve(null)));
  if (a.error || a.value?.error) return <Failed text={a.error || a.value!.error!} />;
  if (!a.value) return <Busy what="Reading" />;
  const [meta, stats, findings] = a.value.results.map((r) => r.rows);
  const value = (name: string, v: string | number | null) => {
    if (v === null) return '–';
    if (/_bytes$/.test(name)) return `${bytes(Number(v))}`;
    if (/_ns$/.test(name)) return trace.first_ns !== undefined ? `${duration(Math.abs(Number(v) - trace.first_ns))} ${Number(v) < trace.first_ns ? 'before' : 'after'} the first data` : `${v} ns`;
    return safe(String(v));
  };
  const config = meta.find((m) => m[0] === 'trace_config_pbtxt')?.[2];
  const bad = stats.filter((s) => s[3] !== 'info');
  return (
    <div class="doc">
      <h2 class="first">The file</h2>
      <dl class="about-trace">
        <dt>Path</dt><dd><code>{safe(trace.name)}</code></dd>
        <dt>Size</dt><dd>{bytes(trace.bytes)}, read in {trace.seconds.toFixed(2)} s</dd>
        {trace.first_ns !== undefined && trace.last_ns !== undefined && trace.last_ns > trace.first_ns && <><dt>Covers</dt><dd>{duration(trace.last_ns - trace.first_ns)}</dd></>}
        {meta.filter((m) => NAMES[String(m[0])] !== '').map((m) => <><dt title={String(m[0])}>{NAMES[String(m[0])] ?? safe(String(m[0]))}</dt><dd>{value(String(m[0]), m[2] ?? m[1])}</dd></>)}
      </dl>
      <h2>Losses and errors {bad.length === 0 && <span class="dim">none</span>} <a class="small" href={sqlHref('select name, idx, value, severity, source, description from stats where value <> 0')}>SQL</a></h2>
      {(bad.length > 0 || findings.length > 0) && (
        <table class="top plain-table"><thead><tr><th scope="col">What</th><th scope="col" class="num">Value</th><th scope="col">Severity</th><th scope="col">Meaning</th></tr></thead>
          <tbody>{bad.map((s) => <tr><td><code>{safe(String(s[0]))}{s[1] !== null ? `[${s[1]}]` : ''}</code></td><td class="num">{count(Number(s[2]))}</td><td>{safe(String(s[3]))}</td><td class="dim">{safe(String(s[5] ?? ''))}</td></tr>)}
            {findings.map((f) => <tr><td>{safe(String(f[0]))}</td><td /><td>{safe(String(f[1]))}</td><td>{safe(String(f[2]))}</td></tr>)}</tbody></table>
      )}
      {t.value && t.value.processes.length > 0 && (
        <>
          <h2>Processes</h2>
          <table class="top plain-table"><thead><tr><th scope="col">Process</th><th scope="col">Heap</th><th scope="col" class="num">Interval</th><th scope="col" class="num">Dumps</th><th scope="col" class="num">Samples</th><th scope="col" class="num">Lost</th><th scope="col">First data</th><th scope="col">What happened</th></tr></thead>
            <tbody>{t.value.processes.flatMap((p) => p.heaps.map((h) => {
              const flags = h.dumps.reduce((x, d) => x | (d.flags & ~(64 | 128)), 0);
              const last = h.dumps[h.dumps.length - 1];
              return (
                <tr><td>{safe(p.name)} <span class="dim">{p.pid}</span></td><td><code>{safe(h.heap)}</code></td><td class="num">{last ? bytes(last.interval) : ''}</td><td class="num">{count(h.dumps.length)}</td><td class="num">{count(h.dumps.reduce((x, d) => Math.max(x, d.alloc_samples), 0))}</td>
                  <td class="num">{count(h.dumps.reduce((x, d) => Math.max(x, d.lost), 0))}</td><td>{h.dumps[0]?.start ? `${clock(h.dumps[0].start - (trace.first_ns ?? h.dumps[0].start))}` : '–'}</td>
                  <td>{[flags ? flagWords(flags) : '', p.ended ? 'ended while recorded' : ''].filter(Boolean).join(', ') || 'nothing unusual'}</td></tr>
              );
            }))}</tbody></table>
        </>
      )}
      {config && <><h2>Configuration</h2><pre class="block" tabIndex={0} aria-label="Configuration">{safe(String(config)).replace(/\\x0a/g, '\n').replace(/\\x09/g, '\t')}</pre></>}
      {stats.length > bad.length && <details><summary>All statistics</summary>
        <table class="top plain-table"><thead><tr><th scope="col">What</th><th scope="col" class="num">Value</th><th scope="col">Meaning</th></tr></thead>
          <tbody>{stats.filter((s) => s[3] === 'info').map((s) => <tr><td><code>{safe(String(s[0]))}{s[1] !== null ? `[${s[1]}]` : ''}</code></td><td class="num">{count(Number(s[2]))}</td><td class="dim">{safe(String(s[5] ?? ''))}</td></tr>)}</tbody></table></details>}
    </div>
  );
}
