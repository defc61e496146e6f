// Memory internals: which processes are tracked for heap dumps, begin and end that, save a dump of all.
// What is tracked is the recorders' business: the page shows it and gives orders.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask } from '../app/api';
import { base, bytes, count, duration, exact, safe } from '../app/format';
import { Busy, Failed, isTyping } from '../parts/parts';
import { usePolled } from '../app/polled';
import { fresh, href, place, token } from '../app/state';

interface Detail {
  role: string; user: string; rss: number; recording: string | null; code: string | null; reason: string | null; remedy: string | null; command?: string;
  state?: string; seconds?: number; sampling_rate?: number; stack_mode?: string; samples?: number; live?: number; dropped?: number;
}
interface Internals {
  message: string; mode: string; stack_mode: string; sampling_rate: number; modes: string[]; stack_modes: string[]; sampling_rates: number[];
  unsupported: { code: string; reason: string; remedy: string | null } | null;
  processes: [pid: number, name: string, tracked: boolean][]; details: Record<string, Detail>; saving: boolean;
}
interface Saved { id: number; trace_id: number; json: string; trace: string; processes: number; failed: { pid: number; name: string; why: string }[] }

const PATH = '/api/v1/memory-internals/';
const WORDS = 'words';

async function order(verb: string, words: object): Promise<Record<string, number>> {
  return (await ask(PATH + verb, { method: 'POST', body: JSON.stringify(words) })).json();
}

/** The events of an answer, as they come. */
async function* events(r: Response): AsyncGenerator<{ name: string; data: unknown }> {
  const reader = r.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    text += value ?? '';
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const lines = text.slice(0, end).split('\n');
      const data = lines.filter((l) => l.startsWith('data:')).map((l) => l.slice(5).trimStart()).join('\n');
      if (data) yield { name: lines.find((l) => l.startsWith('event:'))?.slice(6).trim() ?? 'message', data: JSON.parse(data) };
    }
    if (done) return;
  }
}

/** The error of a site of B bytes is √(rate / B): what a rate can show. */
const seen = (rate: number) => (rate <= 1 ? 'every allocation' : `a site of ${bytes(rate * 25)} is known to ±20 %`);

interface Saving { done: number; all: number; saved: Saved | null; error: string; busy: boolean }
const idle: Saving = { done: 0, all: 0, saved: null, error: '', busy: false };

function SaveLine({ s, other }: { s: Saving; other: boolean }) {
  if (s.busy || other) return <p class="internals-save" role="status">Saving…{s.all > 0 && ` ${s.done} of ${s.all} processes`}</p>;
  if (s.error) return <p class="banner bad" role="alert">Save failure. {safe(s.error)}</p>;
  if (!s.saved) return <p class="internals-save" role="status" />;
  const x = s.saved;
  const file = (kind: string) => `${PATH}file/${x.id}/${kind}?token=${token.peek()}`;
  return (
    <div class={`banner ${x.failed.length ? 'note' : 'good'}`} role="status">Save successful. {count(x.processes)} {x.processes === 1 ? 'process' : 'processes'} in{' '}
      {x.id ? <a href={file('json')} download={base(x.json)}>{safe(base(x.json))}</a> : safe(x.json)}, as a trace in {x.id ? <a href={file('trace')} download={base(x.trace)}>{safe(base(x.trace))}</a> : safe(x.trace)}.
      {x.trace_id > 0 && <> <a href={href({ ...fresh, page: 'memory-infra', trace: x.trace_id })}>Open it</a></>}
      {x.failed.map((f) => <p key={f.pid}>Not in it: {f.pid} {safe(f.name)}: {safe(f.why)}</p>)}</div>
  );
}

function Controls({ all, rate, stacks, onRate, onStacks, act, busy, tracked }: {
  all: Internals; rate: number; stacks: string; busy: boolean; tracked: number;
  onRate(v: number): void; onStacks(v: string): void; act(verb: string, words: object, said: string): void;
}) {
  const known = all.modes.includes(all.mode);
  const [mode, setMode] = useState(known ? all.mode : WORDS);
  const [words, setWords] = useState(known ? '' : all.mode);
  useEffect(() => {
    setMode(known ? all.mode : WORDS);
    if (!known) setWords(all.mode);
  }, [all.mode]);
  const how = { sampling_rate: rate, stack_mode: stacks };
  return (
    <div class="internals-controls">
      <div class="fields">
        <label class="field"><span>Sampling rate</span><select id="rate" value={String(rate)} onChange={(e) => onRate(Number(e.currentTarget.value))}>{all.sampling_rates.map((r) => <option value={String(r)}>{exact(r)} bytes</option>)}</select>
          <small>mean bytes between samples: {seen(rate)}</small></label>
        <label class="field"><span>Stacks</span><select id="stacks" value={stacks} onChange={(e) => onStacks(e.currentTarget.value)}>{all.stack_modes.map((m) => <option>{m}</option>)}</select>
          <small>{stacks === 'native' ? 'functions' : stacks === 'pseudo' ? "the program's scopes only: more categories make a finer tree" : stacks === 'mixed' ? 'functions with the scopes in them: more categories make a finer tree' : 'functions, under the name of the thread'}</small></label>
        <form class="field" onSubmit={(e) => { e.preventDefault(); act('mode', { mode: mode === WORDS ? words.trim() : mode, ...how }, 'The mode was set.'); }}>
          <label for="mode">Mode of processes that start</label>
          <span class="internals-mode"><select id="mode" value={mode} onChange={(e) => setMode(e.currentTarget.value)}>{all.modes.map((m) => <option>{m}</option>)}<option value={WORDS}>by role, name or group…</option></select>
            <button type="submit" disabled={busy || (mode === WORDS ? !words.trim() || words.trim() === all.mode : mode === all.mode)}>Set</button></span>
          {mode === WORDS && <input type="text" id="mode-words" aria-label="Mode in words" placeholder="role:renderer,name:worker,cgroup:/a" value={words} onInput={(e) => setWords(e.currentTarget.value)} />}
          <small>{mode === 'manual' ? 'none of them is tracked' : 'tracked from their first allocation on'}</small>
        </form>
      </div>
      <div class="bar">
        <button type="button" disabled={busy} onClick={() => act('start', { pid: 'all', ...how }, 'All processes that can be are being tracked.')}>Start profiling all</button>
        <button type="button" disabled={busy || all.mode === 'all'} onClick={() => act('start', { pid: 'new', ...how }, 'New processes will be tracked.')}>Profile new processes</button>
        <button type="button" disabled={busy || (tracked === 0 && all.mode === 'manual')} onClick={() => act('stop', { pid: 'all' }, 'Nothing is being tracked now.')}>Stop all</button>
      </div>
    </div>
  );
}

function Row({ pid, name, tracked, d, chosen, onChoose, busy, onStart, onStop }: {
  pid: number; name: string; tracked: boolean; d: Detail; chosen: boolean; busy: boolean; onChoose(): void; onStart(): void; onStop(): void;
}) {
  const shown = safe(name.startsWith('[') ? name : base(name) || name);
  const restart = d.command ? href({ ...fresh, page: 'record', form: new URLSearchParams({ kind: 'record', command: d.command }).toString() }) : '';
  return (
    <tr class={tracked ? 'on' : d.code || d.recording ? 'cannot' : ''}>
      <td class="internals-act">{tracked
        ? <button type="button" disabled={busy} aria-label={`Stop ${pid} ${shown}`} onClick={onStop}>Stop</button>
        : !d.code && !d.recording && <button type="button" disabled={busy} aria-label={`Start profiling ${pid} ${shown}`} onClick={onStart}>Start profiling</button>}</td>
      <td class="num">{pid}</td>
      <td class="internals-name"><label>{tracked && <input type="checkbox" checked={chosen} aria-label={`Save ${pid} ${shown}`} onChange={onChoose} />}<b title={safe(name)}>{shown}</b></label></td>
      <td class="internals-more">{safe(d.role)}</td>
      <td class="internals-how">{tracked
        ? <><span class="state">{d.sampling_rate === 1 ? 'all' : 'sampling'}</span> {d.state === 'starting' ? 'is being prepared' : d.seconds ? <>for {duration(d.seconds * 1e9)}</> : 'since now'}, {exact(d.sampling_rate ?? 0)} bytes, {d.stack_mode} · <a href={href({ ...fresh, page: 'live', arg: String(pid) })}>Report</a></>
        : d.recording ? <>in <a href={href({ ...fresh, page: 'live', arg: String(pid) })}>recording {safe(d.recording)}</a></>
          : d.code ? <>{safe(d.reason ?? '')} {d.remedy && <span class="dim">{d.remedy}</span>}</> : <span class="dim">off</span>}
        {restart && !d.recording && <> <a class="restart" href={restart} title="Opens Record with its command line: a new run, profiled from its first allocation on. The one that runs goes on.">record from its start</a></>}</td>
      <td class="num internals-more">{tracked ? count(d.samples ?? 0) : ''}</td>
      <td class="num internals-live" title={tracked ? `${exact(d.live ?? 0)} B` : undefined}>{tracked ? bytes(d.live ?? 0) : ''}</td>
      <td class={`num internals-more ${d.dropped ? 'bad' : ''}`}>{tracked ? count(d.dropped ?? 0) : ''}</td>
    </tr>
  );
}

export function InternalsPage() {
  const [tick, refresh] = useState(0);
  const answer = usePolled<Internals>(`${PATH}processes`, 2000, tick);
  const all = answer.value;
  const [rate, setRate] = useState(0);
  const [stacks, setStacks] = useState('');
  const [search, setSearch] = useState('');
  const [every, setEvery] = useState(false);
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState({ text: '', bad: false });
  const [chosen, choose] = useState<number[]>([]);
  const [saving, setSaving] = useState(idle);
  const find = useRef<HTMLInputElement>(null);

  const act = (verb: string, words: object, text: string) => {
    setBusy(true);
    setSaid({ text: '', bad: false });
    order(verb, words).then((r) => setSaid({ text: r.already ? 'It is tracked already.' : text, bad: false }), (e: Error) => setSaid({ text: e.message, bad: true }))
      .finally(() => { setBusy(false); refresh((n) => n + 1); });
  };
  const tracked = (all?.processes ?? []).filter((p) => p[2]).map((p) => p[0]);
  const picked = chosen.filter((p) => tracked.includes(p));
  const save = async () => {
    setSaving({ ...idle, busy: true });
    try {
      for await (const e of events(await ask(`${PATH}save-dump`, { method: 'POST', body: JSON.stringify(picked.length ? { processes: picked } : {}) }))) {
        if (e.name === 'progress') setSaving((s) => ({ ...s, ...(e.data as { done: number; all: number }) }));
        if (e.name === 'saved') setSaving({ ...idle, saved: e.data as Saved });
        if (e.name === 'failed') setSaving({ ...idle, error: (e.data as { text: string }).text });
      }
    } catch (e) {
      setSaving({ ...idle, error: (e as Error).message });
    }
    setSaving((s) => (s.busy ? { ...idle, error: 'the connection broke' } : s));
    refresh((n) => n + 1);
  };
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (isTyping(e) || e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === 'r') refresh((n) => n + 1);
      else if (e.key === 's' && tracked.length && !saving.busy) void save();
      else if (e.key === '/') find.current?.focus();
      else return;
      e.preventDefault();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  });

  if (!all) return answer.error ? <Failed text={answer.error} /> : <Busy what="Asking the recorders" />;
  const needle = search.trim().toLowerCase();
  const hit = ([pid, name]: Internals['processes'][0]) => !needle || String(pid) === needle || name.toLowerCase().includes(needle) || all.details[pid].role.toLowerCase().includes(needle);
  const rows = all.processes.filter((p) => hit(p) && (every || p[2] || !all.details[p[0]].code || String(p[0]) === needle)).sort((a, b) => Number(b[2]) - Number(a[2]) || Number(!!all.details[a[0]].code) - Number(!!all.details[b[0]].code) || a[0] - b[0]);
  const hidden = all.processes.filter((p) => hit(p) && all.details[p[0]].code).length;
  const how = { sampling_rate: rate || all.sampling_rate, stack_mode: stacks || all.stack_mode };
  return (
    <div class="internals" key={place.value.page}>
      {all.unsupported && <p class="banner bad" role="alert"><b>Nothing can be profiled here:</b> {safe(all.unsupported.reason.replace(/\.?$/, '.'))} {all.unsupported.remedy}</p>}
      {answer.error && <Failed text={answer.error} />}
      <p class="internals-message" role="status">{safe(all.message)}</p>
      <div class="bar">
        <button type="button" title="Refresh (r)" onClick={() => refresh((n) => n + 1)}>Refresh</button>
        <button type="button" class="primary internals-go" title="Save (s)" disabled={saving.busy || all.saving || tracked.length === 0} onClick={() => void save()}>{picked.length ? `Save dump of ${picked.length}` : 'Save dump'}</button>
        {tracked.length === 0 && <span class="dim">There is nothing to save until a process is tracked.</span>}
      </div>
      <SaveLine s={saving} other={!saving.busy && all.saving} />
      <Controls all={all} rate={how.sampling_rate} stacks={how.stack_mode} onRate={setRate} onStacks={setStacks} act={act} busy={busy} tracked={tracked.length} />
      {said.text && <p class={`banner ${said.bad ? 'bad' : 'good'}`} role={said.bad ? 'alert' : 'status'}>{safe(said.text)}</p>}
      <div class="bar">
        <input type="search" ref={find} id="find-tracked" aria-label="Search processes" placeholder="name, pid or role" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
        <label class="check"><input type="checkbox" checked={every} onChange={(e) => setEvery(e.currentTarget.checked)} /> also those that cannot be profiled</label>
        <span class="dim">{count(tracked.length)} tracked</span>
      </div>
      <div class="internals-table" tabIndex={0} role="region" aria-label="Processes">
        <table><thead><tr><th scope="col">Action</th><th scope="col" class="num">PID</th><th scope="col">Name</th><th scope="col" class="internals-more">Role</th><th scope="col">Tracked</th><th scope="col" class="num internals-more">Samples</th><th scope="col" class="num" title="estimated from the samples">Live</th><th scope="col" class="num internals-more">Dropped</th></tr></thead>
          <tbody>{rows.slice(0, 500).map(([pid, name, on]) => (
            <Row key={pid} pid={pid} name={name} tracked={on} d={all.details[pid]} busy={busy} chosen={picked.includes(pid)}
              onChoose={() => choose((c) => (c.includes(pid) ? c.filter((x) => x !== pid) : [...c, pid]))}
              onStart={() => act('start', { pid, ...how }, `Process ${pid} is tracked from now on; what it had allocated before is not seen.`)} onStop={() => act('stop', { pid }, `Process ${pid} is no longer tracked.`)} />
          ))}</tbody></table>
        {rows.length > 500 && <p class="dim">{count(rows.length - 500)} more: search for them.</p>}
        {rows.length === 0 && <p class="empty">{needle ? 'No process has that name.' : 'No process of yours can be profiled now.'}{hidden > 0 && !every && <> {count(hidden)} cannot be: <button type="button" onClick={() => setEvery(true)}>show why</button></>}</p>}
      </div>
    </div>
  );
}
