// How closely, how long, and what else is recorded.
import { error, safe } from '../app/format';
import { form, type Form, set } from './form';

function Text({
  id,
  label,
  hint,
  value,
  problem,
  onInput,
  placeholder,
}: {
  id: string;
  label: string;
  hint?: string;
  value: string;
  problem?: string;
  placeholder?: string;
  onInput(v: string): void;
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        id={`f-${id}`}
        value={value}
        placeholder={placeholder}
        aria-invalid={problem ? 'true' : undefined}
        aria-describedby={`h-${id}`}
        onInput={(e) => onInput(e.currentTarget.value)}
      />
      <small id={`h-${id}`} class={problem ? 'bad' : ''}>
        {problem ? safe(problem) : hint}
      </small>
    </label>
  );
}

function Tick({
  label,
  hint,
  value,
  onChange,
}: {
  label: string;
  hint?: string;
  value: boolean;
  onChange(v: boolean): void;
}) {
  return (
    <label class="check">
      <input type="checkbox" checked={value} onChange={(e) => onChange(e.currentTarget.checked)} />
      <span>
        {label}
        {hint && <small>{hint}</small>}
      </span>
    </label>
  );
}

function parseSize(text: string): number {
  const m = /^(\d+(?:\.\d+)?)\s*(k|m|g|kib|mib|gib|kb|mb|gb)?b?$/i.exec(text.trim());
  if (!m) return NaN;
  const u = (m[2] ?? '').toLowerCase();
  const unit = u.endsWith('b') && !u.endsWith('ib') ? 1000 : 1024;
  return Number(m[1]) * unit ** ' kmg'.indexOf(u[0] ?? ' ');
}

/** Which field a refusal is about, by the words of the message. */
export function fieldOf(text: string): string {
  const option = /option --?([a-z-]+)/.exec(text)?.[1] ?? '';
  const known: Record<string, string> = {
    i: 'interval',
    interval: 'interval',
    c: 'every',
    'continuous-dump': 'every',
    d: 'duration',
    duration: 'duration',
    'shmem-size': 'shmem',
    smaps: 'smaps',
    'malloc-info': 'malloc_info',
    'dump-when': 'when',
    'stop-when': 'stop',
  };
  if (known[option]) return known[option];
  return /interval/.test(text)
    ? 'interval'
    : /shared memory|shmem/.test(text)
      ? 'shmem'
      : /dump_when/.test(text)
        ? 'when'
        : /stop_when/.test(text)
          ? 'stop'
          : '';
}

/** What a mean interval of so many bytes shows. */
function closeness(interval: string): string {
  const n = parseSize(interval);
  if (n === 1) return 'every allocation: exact, and slower';
  if (!(n > 1)) return 'bytes: 4K, 64K, 1 = every allocation';
  return `a site holding 1 MiB is known to ${error(2 * Math.sqrt(n / 2 ** 20) * 100, 100) || '± 0 %'}`.replace(
    /(\d) %/,
    '$1\u00a0%',
  );
}

const SHMEM = ['1M', '2M', '4M', '8M', '16M', '32M', '64M', '128M'];
const DUMP_WORDS = { end: 'and of the peak', every: 'shows growth and leaks', max: 'in place of the end' };

/** at: what is wrong with a field. */
type At = (id: string) => string | undefined;

function Usual({ at }: { at: At }) {
  const f = form.value;
  return (
    <div class="fields">
      <Text
        id="interval"
        label="Mean bytes between samples"
        value={f.interval}
        hint={closeness(f.interval)}
        problem={at('interval')}
        onInput={(interval) => set({ interval })}
      />
      <label class="field">
        <span>Dumps</span>
        <select value={f.dumps} onChange={(e) => set({ dumps: e.currentTarget.value as Form['dumps'] })}>
          <option value="end">one at the end</option>
          <option value="every">again and again</option>
          <option value="max">of the maximum</option>
        </select>
        <small>{DUMP_WORDS[f.dumps]}</small>
      </label>
      {f.dumps === 'every' && (
        <Text
          id="every"
          label="Time between dumps"
          value={f.every}
          hint="500ms, 5s, 1m"
          problem={at('every')}
          onInput={(every) => set({ every })}
        />
      )}
      <Text
        id="duration"
        label="Length"
        value={f.duration}
        placeholder="until stopped"
        hint="30s, 5m, 2h"
        problem={at('duration')}
        onInput={(d) => set({ duration: d })}
      />
    </div>
  );
}

function Buffer({ at }: { at: At }) {
  const f = form.value;
  return (
    <>
      <label class="field">
        <span>Buffer for each process</span>
        <select
          aria-invalid={at('shmem') ? 'true' : undefined}
          value={f.shmem}
          onChange={(e) => set({ shmem: e.currentTarget.value })}>
          {SHMEM.map((s) => (
            <option value={s}>{s.slice(0, -1)} MiB</option>
          ))}
        </select>
      </label>
      <label class="field">
        <span>When the buffer is full</span>
        <select value={f.full} onChange={(e) => set({ full: e.currentTarget.value as Form['full'] })}>
          <option value="wait">the program waits</option>
          <option value="end">its profile ends early</option>
        </select>
      </label>
    </>
  );
}

function Ticks() {
  const f = form.value;
  return (
    <>
      <Tick
        label="Idle memory"
        hint="live bytes unused since the last dump"
        value={f.idle}
        onChange={(idle) => set({ idle })}
      />
      {f.kind === 'record' && (
        <Tick label="Every descendant, too" value={f.follow} onChange={(follow) => set({ follow })} />
      )}
      {f.kind === 'record' && (
        <Tick
          label="Python objects one by one"
          hint="PYTHONMALLOC=malloc"
          value={f.python}
          onChange={(python) => set({ python })}
        />
      )}
    </>
  );
}

function More({ at }: { at: At }) {
  const f = form.value;
  return (
    <details>
      <summary>More</summary>
      <div class="fields">
        <Text
          id="when"
          label="Extra dump when"
          value={f.when}
          placeholder="rss+64M failure"
          hint="rss>SIZE, rss+SIZE, samples>N, time>TIME, failure, memory-limit"
          problem={at('when')}
          onInput={(when) => set({ when })}
        />
        <Text
          id="stop"
          label="Stop when"
          value={f.stop}
          placeholder="rss>2G"
          hint="the same, and dumps=N"
          problem={at('stop')}
          onInput={(stop) => set({ stop })}
        />
        <Text
          id="heap"
          label="Heaps"
          value={f.all_heaps ? 'all' : f.heap}
          placeholder="libc.malloc"
          hint="names with commas between"
          onInput={(heap) => set({ heap, all_heaps: heap === 'all' })}
        />
        <Buffer at={at} />
        <Text
          id="smaps"
          label="Mappings (smaps) every"
          value={f.smaps}
          placeholder="never"
          hint="10s"
          problem={at('smaps')}
          onInput={(smaps) => set({ smaps })}
        />
        <Text
          id="malloc_info"
          label="The allocator's own figures every"
          value={f.malloc_info}
          placeholder="never"
          hint="10s"
          problem={at('malloc_info')}
          onInput={(malloc_info) => set({ malloc_info })}
        />
        <Ticks />
      </div>
    </details>
  );
}

export function Options({ problem }: { problem: string }) {
  const field = problem ? fieldOf(problem) : '';
  const at = (id: string) => (field === id ? problem : undefined);
  return (
    <fieldset>
      <legend>
        <i>2</i>How closely
      </legend>
      <Usual at={at} />
      <More at={at} />
    </fieldset>
  );
}
