// Record: what is recorded now, then what to record, how, and what stands in the way. The page
// makes the words of a command line; the server says what they mean.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, type Recording, recordings, status, trouble } from '../app/api';
import { base, bytes, count, duration, error, percent, safe } from '../app/format';
import { MarkForm } from './mark';
import { Choice, Failed, Figure, isTyping } from '../parts/parts';
import { usePolled } from '../app/polled';
import { fresh, go, href, place } from '../app/state';

interface Process { pid: number; name: string; user: string; rss: number; allocator: string | null; eligible: boolean; code: string | null; reason: string | null; remedy: string | null; recording: string | null }
interface Check { state: 'ok' | 'warn' | 'bad'; what: string; text: string; code: string | null; remedy: string | null }
interface Plan { commands: boolean; error: string | null; checks: Check[]; ready: boolean; command: string; config: string }

const FIELDS = {
  interval: '4K', heap: '', all_heaps: false, dumps: 'end' as 'end' | 'every' | 'max', every: '5s', when: '', duration: '', stop: '',
  shmem: '8M', full: 'wait' as 'wait' | 'end', smaps: '', malloc_info: '', idle: false, follow: false, python: false,
};
type Form = typeof FIELDS & { kind: 'attach' | 'record'; pids: number[]; names: string; command: string };

const EMPTY_FORM: Form = { ...FIELDS, kind: 'attach', pids: [], names: '', command: '' };

/** The form as text of the URL: what differs from an empty one. */
export function writeForm(f: Form): string {
  const q = new URLSearchParams();
  for (const key of Object.keys(EMPTY_FORM) as (keyof Form)[]) if (String(f[key]) !== String(EMPTY_FORM[key])) q.set(key, String(f[key]));
  return q.toString();
}

const CHOICES: { [K in keyof Form]?: readonly string[] } = { kind: ['attach', 'record'], dumps: ['end', 'every', 'max'], full: ['wait', 'end'], shmem: ['1M', '2M', '4M', '8M', '16M', '32M', '64M', '128M'] };

export function readForm(text: string): Form {
  const f: Record<string, unknown> = { ...EMPTY_FORM };
  for (const [key, value] of new URLSearchParams(text)) {
    const k = key as keyof Form;
    if (!(k in EMPTY_FORM) || (CHOICES[k] && !CHOICES[k].includes(value))) continue;
    f[k] = k === 'pids' ? value.split(',').map(Number).filter((n) => Number.isInteger(n) && n > 0) : typeof EMPTY_FORM[k] === 'boolean' ? value === 'true' : value;
  }
  return f as unknown as Form;
}

/** The URL has it; links to other pages leave it out, so it is kept here meanwhile. */
const form = signal<Form>(place.peek().form ? readForm(place.peek().form) : EMPTY_FORM);
const set = (change: Partial<Form>) => {
  form.value = { ...form.peek(), ...change };
  if (place.peek().page === 'record') go({ form: writeForm(form.peek()) }, true);
};
/** The recording that was started here: its trace is opened when it is there. */
const awaited = signal(0);

/** As a shell would: blanks part words, quotes keep them together. */
export function splitWords(text: string): string[] {
  const words: string[] = [];
  for (const m of text.matchAll(/(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+/gs))
    words.push(m[0].replace(/"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/gs, (_, d: string | undefined, q: string | undefined, c: string) => d?.replace(/\\(["\\$`])/g, '$1') ?? q ?? c));
  return words;
}

function wordsOf(f: Form): string[] {
  const w: string[] = [f.kind];
  const option = (name: string, value: string) => value.trim() && w.push(name, value.trim());
  if (f.interval.trim() !== '4K') option('-i', f.interval || '0');
  if (f.all_heaps) w.push('--all-heaps');
  else option('--heap', f.heap);
  if (f.dumps === 'every') option('-c', f.every || '0');
  if (f.dumps === 'max') w.push('--dump-at-max');
  for (const x of f.when.split(/\s+/)) option('--dump-when', x);
  option('-d', f.duration);
  for (const x of f.stop.split(/\s+/)) option('--stop-when', x);
  if (f.shmem !== '8M') option('--shmem-size', f.shmem);
  if (f.full === 'end') w.push('--no-block-client');
  option('--smaps', f.smaps);
  option('--malloc-info', f.malloc_info);
  if (f.idle) w.push('--idle-allocations');
  if (f.kind === 'record') {
    if (f.follow) w.push('--follow-fork');
    if (f.python) w.push('--python-allocators');
    const words = splitWords(f.command);
    if (words.length) w.push('--', ...words);
  } else {
    w.push(...f.pids.map(String), ...f.names.split(/[\s,]+/).filter(Boolean));
  }
  return w;
}

const order = (verb: string, body: unknown) => ask(`/api/v1/record/${verb}`, { method: 'POST', body: JSON.stringify(body) });
const act = (verb: string, id: number) => ask(`/api/v1/record/${verb}?id=${id}`, { method: 'POST', body: '' });

// ---- what runs ----

function useRate(r: Recording): number {
  const seen = useRef<[number, number][]>([]);
  const list = seen.current;
  if (!list.length || list[list.length - 1][0] !== r.elapsed_ms) list.push([r.elapsed_ms, r.samples]);
  while (list.length > 2 && list[0][0] < r.elapsed_ms - 5000) list.shift();
  const [first, last] = [list[0], list[list.length - 1]];
  return last[0] > first[0] ? ((last[1] - first[1]) * 1000) / (last[0] - first[0]) : 0;
}

/** Both remedies of a buffer that overran, by what was seen. */
function Overrun({ r }: { r: Recording }) {
  const more = Math.min(2 ** 29, Math.max(r.shmem * 4, 2 ** 23));
  const factor = 2 ** Math.ceil(Math.log2(Math.max(2, (2 * (r.samples + r.lost)) / Math.max(1, r.samples))));
  return <p class="banner bad" role="alert">{count(r.lost)} samples are lost: the buffer was full. Next time a larger buffer, <code>--shmem-size {more / 2 ** 20}M</code>, or fewer samples, <code>-i {Math.max(1, r.interval) * factor}</code>.</p>;
}

function Running({ r }: { r: Recording }) {
  const [problem, setProblem] = useState('');
  const rate = useRate(r);
  const stopping = r.state === 'stopping';
  const send = (verb: string) => {
    setProblem('');
    if (verb === 'stop') awaited.value = r.id;
    act(verb, r.id).catch((e: Error) => setProblem(e.message));
  };
  const left = r.duration_ms ? Math.max(0, r.duration_ms - r.elapsed_ms) : 0;
  return (
    <section class="rec running" aria-label={`Recording ${r.id}`}>
      <div class="title"><h2><span class="dot" aria-hidden="true" />{stopping ? 'Writing the last dumps' : 'Recording'} {safe(r.targets[0]?.name || r.target)}</h2>
        <code>{safe(r.command)}</code></div>
      <div class="figures">
        <Figure label="Elapsed" value={duration(r.elapsed_ms * 1e6)} note={left ? `${duration(left * 1e6)} to go` : 'until stopped'} />
        <Figure label="Samples" value={count(r.samples)} note={`${count(rate)} a second`} />
        <Figure label="Written" value={bytes(r.bytes)} note={r.file ? <span title={safe(r.file)}>{safe(base(r.file))}</span> : ''} />
        <Figure label="Dumps" value={count(r.dumps)} note="one more at the end" />
        <Figure label="Lost" value={count(r.lost)} note={r.lost ? percent(r.lost, r.lost + r.samples) : 'nothing'} />
      </div>
      {r.targets.length > 0 && <div class="scroll"><table class="top"><thead><tr><th scope="col">Process</th><th scope="col" class="num">PID</th><th scope="col">State</th><th scope="col" class="num">Samples</th><th scope="col" class="num">Resident</th><th scope="col">Buffer in use</th></tr></thead>
        <tbody>{r.targets.map((t) => (
          <tr><td><a href={href({ page: 'live', arg: String(t.pid) })}>{safe(t.name)}</a></td><td class="num">{t.pid}</td><td>{safe(t.state)}</td><td class="num">{count(t.samples)}</td><td class="num">{t.rss ? bytes(t.rss) : '–'}</td>
            <td>{t.buffer ? <><span class={`fill ${(t.buffered ?? 0) > t.buffer / 2 ? 'high' : ''}`}><i style={{ width: `${(100 * (t.buffered ?? 0)) / t.buffer}%` }} /></span> {percent(t.buffered ?? 0, t.buffer)} <span class="dim">of {bytes(t.buffer)}</span></> : '–'}</td></tr>
        ))}</tbody></table></div>}
      {!r.targets.length && <p class="dim" role="status">{r.launched ? 'The program begins…' : 'Waiting for the process to answer: it does at its next allocations.'}</p>}
      {r.lost > 0 && <Overrun r={r} />}
      {r.warnings.map((w) => <p class="banner note">{safe(w)}</p>)}
      <div class="bar">
        <button type="button" class="primary" disabled={stopping} onClick={() => send('stop')}>Stop and open</button>
        {r.targets.length > 0 && <a class="button" href={href({ page: 'live', arg: String(r.targets[0].pid) })}>Watch live</a>}
        <button type="button" disabled={stopping} onClick={() => send('dump')} title="D">Dump now</button>
        <MarkForm id={r.id} made={r.marks} off={stopping} />
        <button type="button" disabled={stopping} onClick={() => confirm('Throw away what was recorded?') && send('discard')}>Discard</button>
        {r.program_runs && <button type="button" onClick={() => send('end')}>End the program</button>}
        <span class="dim">{r.launched ? '' : 'The process runs on when the recording ends.'}</span>
        {problem && <span class="bad" role="alert">{safe(problem)}</span>}
      </div>
    </section>
  );
}

function Past({ r }: { r: Recording }) {
  return (
    <li>
      {r.trace ? <a href={href({ ...fresh, page: 'overview', trace: r.trace })}><b>{safe(base(r.file ?? r.target))}</b></a> : <b>{safe(r.file ? base(r.file) : r.target)}</b>}
      <span class="dim">{duration(r.elapsed_ms * 1e6)} · {count(r.samples)} samples · {bytes(r.bytes)}</span>
      {r.state === 'empty' && <span class="bad">Nothing was recorded: {safe(r.error ?? '')}.{r.remedy && ` ${r.remedy}`}</span>}
      {r.state === 'failed' && <span class="bad">{safe(r.error ?? 'failed')}{r.remedy && ` ${r.remedy}`}</span>}
      {r.state === 'discarded' && <span class="dim">thrown away</span>}
      {r.program_runs && <span>its program runs on (pid {r.program}) <button type="button" onClick={() => act('end', r.id)}>End the program</button></span>}
      {r.warnings.map((w) => <span class="dim">{safe(w)}</span>)}
    </li>
  );
}

// ---- target ----

function Processes({ list, problem }: { list: Process[] | null; problem: string }) {
  const [search, setSearch] = useState('');
  const [every, setEvery] = useState(false);
  const f = form.value;
  const needle = search.trim().toLowerCase();
  const hit = (p: Process) => !needle || p.name.toLowerCase().includes(needle) || String(p.pid) === needle || p.user.toLowerCase() === needle;
  const rows = (list ?? []).filter((p) => f.pids.includes(p.pid) || (hit(p) && (p.eligible || every || (needle !== '' && String(p.pid) === needle))))
    .sort((a, b) => Number(f.pids.includes(b.pid)) - Number(f.pids.includes(a.pid)) || Number(b.eligible) - Number(a.eligible) || b.rss - a.rss);
  const hidden = (list ?? []).filter((p) => hit(p) && !p.eligible).length;
  const toggle = (pid: number) => set({ pids: f.pids.includes(pid) ? f.pids.filter((x) => x !== pid) : [...f.pids, pid] });
  if (problem) return <Failed text={problem} />;
  return (
    <>
      <div class="bar">
        <input type="search" id="find-process" aria-label="Search processes" placeholder="name, pid or user" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
        <label class="check"><input type="checkbox" checked={every} onChange={(e) => setEvery(e.currentTarget.checked)} /> also those that cannot be profiled</label>
        {f.pids.length > 0 && <button type="button" onClick={() => set({ pids: [] })}>Choose none</button>}
      </div>
      <div class="procs" tabIndex={0} role="region" aria-label="Processes">
        <table><thead><tr><th scope="col">Process</th><th scope="col" class="num">PID</th><th scope="col">User</th><th scope="col" class="num">Resident</th><th scope="col" class="wide" title="whose malloc it uses">Allocator</th><th scope="col">Profile</th></tr></thead>
          <tbody>{rows.slice(0, 400).map((p) => {
            const free = p.eligible && !p.recording;
            return (
              <tr class={`${f.pids.includes(p.pid) ? 'on' : ''} ${free ? 'can' : 'cannot'}`} key={p.pid} onClick={(e) => free && !(e.target instanceof HTMLInputElement) && (e.preventDefault(), toggle(p.pid))}>
                <td><label><input type="checkbox" disabled={!free} checked={f.pids.includes(p.pid)} onChange={() => toggle(p.pid)} /><b title={safe(p.name)}>{safe(p.name.startsWith('[') ? p.name : base(p.name) || p.name)}</b></label></td>
                <td class="num">{p.pid}</td><td>{safe(p.user)}</td><td class="num">{bytes(p.rss)}</td><td class="wide">{p.allocator ?? (p.eligible ? <span class="dim" title="no library with a malloc is mapped: it is linked into the program">its own</span> : '')}</td>
                <td class="why">{p.recording ? <a href={href({ page: 'live', arg: String(p.pid) })}>in recording {safe(p.recording)}</a> : p.eligible ? 'possible' : <>{safe(p.reason ?? '')} {p.remedy && <span class="dim">{p.remedy}</span>}</>}</td>
              </tr>
            );
          })}</tbody></table>
        {list && rows.length === 0 && <p class="empty">{needle ? 'No process has that name.' : 'No process of yours can be profiled now.'}{hidden > 0 && !every && <> {count(hidden)} cannot be profiled: <button type="button" onClick={() => setEvery(true)}>show why</button></>}</p>}
        {!list && <p class="empty" role="status">Reading processes…</p>}
      </div>
    </>
  );
}

// ---- how ----

function Text({ id, label, hint, value, problem, onInput, placeholder }: { id: string; label: string; hint?: string; value: string; problem?: string; placeholder?: string; onInput(v: string): void }) {
  return (
    <label class="field"><span>{label}</span>
      <input type="text" id={`f-${id}`} value={value} placeholder={placeholder} aria-invalid={problem ? 'true' : undefined} aria-describedby={`h-${id}`} onInput={(e) => onInput(e.currentTarget.value)} />
      <small id={`h-${id}`} class={problem ? 'bad' : ''}>{problem ? safe(problem) : hint}</small></label>
  );
}

function Tick({ label, hint, value, onChange }: { label: string; hint?: string; value: boolean; onChange(v: boolean): void }) {
  return <label class="check"><input type="checkbox" checked={value} onChange={(e) => onChange(e.currentTarget.checked)} /><span>{label}{hint && <small>{hint}</small>}</span></label>;
}

function parseSize(text: string): number {
  const m = /^(\d+(?:\.\d+)?)\s*(k|m|g|kib|mib|gib|kb|mb|gb)?b?$/i.exec(text.trim());
  if (!m) return NaN;
  const u = (m[2] ?? '').toLowerCase();
  const unit = u.endsWith('b') && !u.endsWith('ib') ? 1000 : 1024;
  return Number(m[1]) * unit ** ' kmg'.indexOf(u[0] ?? ' ');
}

/** Which field a refusal is about, by the words of the message. */
function fieldOf(text: string): string {
  const option = /option --?([a-z-]+)/.exec(text)?.[1] ?? '';
  const known: Record<string, string> = { i: 'interval', interval: 'interval', c: 'every', 'continuous-dump': 'every', d: 'duration', duration: 'duration', 'shmem-size': 'shmem', smaps: 'smaps', 'malloc-info': 'malloc_info', 'dump-when': 'when', 'stop-when': 'stop' };
  if (known[option]) return known[option];
  return /interval/.test(text) ? 'interval' : /shared memory|shmem/.test(text) ? 'shmem' : /dump_when/.test(text) ? 'when' : /stop_when/.test(text) ? 'stop' : '';
}

function Options({ problem }: { problem: string }) {
  const f = form.value;
  const field = problem ? fieldOf(problem) : '';
  const at = (id: string) => (field === id ? problem : undefined);
  const n = parseSize(f.interval);
  const hint = n === 1 ? 'every allocation: exact, and slower' : n > 1 ? `a site holding 1 MiB is known to ${error(2 * Math.sqrt(n / 2 ** 20) * 100, 100) || '± 0 %'}`.replace(/(\d) %/, '$1\u00a0%') : 'bytes: 4K, 64K, 1 = every allocation';
  return (
    <>
      <fieldset><legend><i>2</i>How closely</legend>
        <div class="fields">
          <Text id="interval" label="Mean bytes between samples" value={f.interval} hint={hint} problem={at('interval')} onInput={(interval) => set({ interval })} />
          <label class="field"><span>Dumps</span>
            <select value={f.dumps} onChange={(e) => set({ dumps: e.currentTarget.value as Form['dumps'] })}>
              <option value="end">one at the end</option><option value="every">again and again</option><option value="max">of the maximum</option>
            </select><small>{f.dumps === 'end' ? 'and of the peak' : f.dumps === 'every' ? 'shows growth and leaks' : 'in place of the end'}</small></label>
          {f.dumps === 'every' && <Text id="every" label="Time between dumps" value={f.every} hint="500ms, 5s, 1m" problem={at('every')} onInput={(every) => set({ every })} />}
          <Text id="duration" label="Length" value={f.duration} placeholder="until stopped" hint="30s, 5m, 2h" problem={at('duration')} onInput={(d) => set({ duration: d })} />
        </div>
        <details><summary>More</summary>
          <div class="fields">
            <Text id="when" label="Extra dump when" value={f.when} placeholder="rss+64M failure" hint="rss>SIZE, rss+SIZE, samples>N, time>TIME, failure, memory-limit" problem={at('when')} onInput={(when) => set({ when })} />
            <Text id="stop" label="Stop when" value={f.stop} placeholder="rss>2G" hint="the same, and dumps=N" problem={at('stop')} onInput={(stop) => set({ stop })} />
            <Text id="heap" label="Heaps" value={f.all_heaps ? 'all' : f.heap} placeholder="libc.malloc" hint="names with commas between" onInput={(heap) => set({ heap, all_heaps: heap === 'all' })} />
            <label class="field"><span>Buffer for each process</span>
              <select aria-invalid={at('shmem') ? 'true' : undefined} value={f.shmem} onChange={(e) => set({ shmem: e.currentTarget.value })}>{['1M', '2M', '4M', '8M', '16M', '32M', '64M', '128M'].map((s) => <option value={s}>{s.slice(0, -1)} MiB</option>)}</select></label>
            <label class="field"><span>When the buffer is full</span>
              <select value={f.full} onChange={(e) => set({ full: e.currentTarget.value as Form['full'] })}><option value="wait">the program waits</option><option value="end">its profile ends early</option></select></label>
            <Text id="smaps" label="Mappings (smaps) every" value={f.smaps} placeholder="never" hint="10s" problem={at('smaps')} onInput={(smaps) => set({ smaps })} />
            <Text id="malloc_info" label="The allocator's own figures every" value={f.malloc_info} placeholder="never" hint="10s" problem={at('malloc_info')} onInput={(malloc_info) => set({ malloc_info })} />
            <Tick label="Idle memory" hint="live bytes unused since the last dump" value={f.idle} onChange={(idle) => set({ idle })} />
            {f.kind === 'record' && <Tick label="Every descendant, too" value={f.follow} onChange={(follow) => set({ follow })} />}
            {f.kind === 'record' && <Tick label="Python objects one by one" hint="PYTHONMALLOC=malloc" value={f.python} onChange={(python) => set({ python })} />}
          </div></details>
      </fieldset>
    </>
  );
}

// ---- what comes of it ----

const MARK = { ok: '✓', warn: '!', bad: '✗' };
const SAID = { ok: 'fine', warn: 'warning', bad: 'forbids the start' };

function Preview({ title, text, file }: { title: string; text: string; file?: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <section class="preview" aria-label={title}><header>{title}<span class="grow" />
      {file && <button type="button" disabled={!text} onClick={() => {
        const a = document.createElement('a');
        a.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
        a.download = file;
        a.click();
      }}>Download</button>}
      {navigator.clipboard && <button type="button" disabled={!text} onClick={() => navigator.clipboard.writeText(text).then(() => { setCopied(true); setTimeout(() => setCopied(false), 1500); })}>{copied ? 'Copied' : 'Copy'}</button>}</header>
      <pre tabIndex={0} aria-label={title}>{safe(text).replace(/\\x0a/g, '\n') || '–'}</pre></section>
  );
}

function usePlan(words: string[]): { plan: Plan | null; busy: boolean; problem: string } {
  const key = JSON.stringify(words);
  const [state, setState] = useState<{ key: string; plan: Plan | null; problem: string }>({ key: '', plan: null, problem: '' });
  useEffect(() => {
    let current = true;
    const timer = setTimeout(() => {
      order('plan', { words }).then((r) => r.json()).then(
        (plan: Plan) => current && setState({ key, plan, problem: '' }),
        (e: Error) => current && setState({ key, plan: null, problem: e.message }),
      );
    }, 200);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [key]);
  return { plan: state.plan, busy: state.key !== key, problem: state.problem };
}

function Build() {
  const f = form.value;
  const words = wordsOf(f);
  const { plan, busy, problem } = usePlan(words);
  const [failed, setFailed] = useState('');
  const [starting, setStarting] = useState(false);
  const list = usePolled<Process[]>('/api/v1/processes', 4000, recordings.value.filter((r) => r.state === 'running').length);
  const none = f.kind === 'attach' ? !f.pids.length && !f.names.trim() : !f.command.trim();
  const start = () => {
    setFailed('');
    setStarting(true);
    order('start', { words }).then((r) => r.json()).then(
      ({ id }: { id: number }) => {
        awaited.value = id;
        set({ pids: [] });
        setStarting(false);
        document.getElementById('main')?.scrollTo({ top: 0 });
      },
      (e: Error) => {
        setStarting(false);
        setFailed(e.message);
      },
    );
  };
  const refused = plan?.error ?? '';
  return (
    <div class="record">
      <div>
        <h1>{recordings.value.length ? 'Record another' : 'Record'}</h1>
        <fieldset><legend><i>1</i>What</legend>
          <div class="bar"><Choice label="Kind of target" value={f.kind} options={[{ id: 'attach', label: 'A running process' }, { id: 'record', label: 'A command' }]} onChange={(kind) => set({ kind })} /></div>
          {f.kind === 'attach'
            ? <><Processes list={list.value} problem={list.value ? '' : list.error} />
              <label class="field" style={{ marginTop: '10px' }}><span>And every process named</span><input type="text" value={f.names} placeholder="nginx, postgres" onInput={(e) => set({ names: e.currentTarget.value })} /></label></>
            : <label class="field"><span>Command line</span><input type="text" id="command" value={f.command} placeholder="./server --port 7000" disabled={plan ? !plan.commands : false} onInput={(e) => set({ command: e.currentTarget.value })} />
              <small>{plan && !plan.commands ? 'This server starts no programs: heapwise serve --allow-commands' : 'Started on the server’s machine, in its directory, without a shell. The program’s output goes to the server’s terminal.'}</small></label>}
        </fieldset>
        <Options problem={refused} />
      </div>
      <div class="side-by">
        {problem && <Failed text={problem} />}
        {!none && refused && !fieldOf(refused) && <Failed text={refused} />}
        <ul class="checks" aria-label="Checks" aria-live="polite">
          {none ? <li class="warn"><i aria-hidden="true">→</i><span>{f.kind === 'attach' ? 'Choose a process.' : 'Say which command.'}</span></li>
            : plan?.checks.map((c) => <li class={c.state}><i role="img" aria-label={SAID[c.state]}>{MARK[c.state]}</i><span><b>{safe(c.what)}</b> {safe(c.text)}{c.remedy && <span class="dim">{c.remedy}</span>}</span></li>)}
        </ul>
        <button type="button" class="primary go" disabled={none || busy || starting || !plan?.ready} onClick={start}>{starting ? 'Starting…' : 'Start recording'}</button>
        {failed && <p class="bad" role="alert">{safe(failed)}</p>}
        <p class="dim">The file is written on the server’s machine and stays there when this tab is closed or crashes; the recording ends with the server.</p>
        <Preview title="As a command" text={plan?.command ?? ''} />
        <Preview title="As a configuration" text={plan?.config ?? ''} file="heapwise-config.txt" />
      </div>
    </div>
  );
}

const SAYS: Record<Recording['state'], string> = { running: 'is running', stopping: 'is ending', done: 'is complete', empty: 'recorded nothing', failed: 'failed', discarded: 'was thrown away' };

export function RecordPage() {
  // Back, a link, a reload: the form is what the URL says. Without anything there, what was typed last.
  const text = place.value.form;
  useEffect(() => {
    if (text === writeForm(form.peek())) return;
    if (text) form.value = readForm(text);
    else go({ form: writeForm(form.peek()) }, true);
  }, [text]);
  const all = recordings.value;
  const open = all.filter((r) => r.state === 'running' || r.state === 'stopping');
  const past = all.filter((r) => !open.includes(r)).reverse();
  const mine = all.find((r) => r.id === awaited.value);
  const ready = mine?.state === 'done' && mine.trace && status.value?.traces.some((t) => t.id === mine.trace) ? mine.trace : 0;
  useEffect(() => {
    if (!ready) return;
    awaited.value = 0;
    go({ ...fresh, page: 'overview', trace: ready });
  }, [ready]);
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || isTyping(e)) return;
      const now = recordings.peek().filter((r) => r.state === 'running');
      if (e.key === '/') { e.preventDefault(); document.getElementById('find-process')?.focus(); }
      if (e.key.toLowerCase() === 'd' && now.length) now.forEach((r) => void act('dump', r.id).catch(() => {}));
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
  if (status.value && !status.value.records) return <p class="empty">This server records nothing: it only shows traces.</p>;
  const newest = all[all.length - 1];
  return (
    <>
      {trouble.value === 'gone' && <p class="banner bad" role="alert">The server does not answer: what is shown is the last that it told. When it has ended, its recordings were completed.</p>}
      <p class="sr" role="status">{newest ? `Recording ${newest.id} ${SAYS[newest.state]}` : ''}</p>
      {open.map((r) => <Running r={r} key={r.id} />)}
      {past.length > 0 && <ul class="past" aria-label="Recorded here">{past.map((r) => <Past r={r} key={r.id} />)}</ul>}
      <Build />
    </>
  );
}
