// How processes are tracked, and orders for all of them.
import { useEffect, useState } from 'preact/hooks';
import { bytes, exact } from '../app/format';
import { type Internals, WORDS } from './internals-api';

/** The error of a site of B bytes is √(rate / B): what a rate can show. */
const seen = (rate: number) =>
  rate <= 1 ? 'every allocation' : `a site of ${bytes(rate * 25)} is known to ±20 %`;

const STACK_WORDS: Record<string, string> = {
  native: 'functions',
  pseudo: "only the program's scopes; more categories give a finer tree",
  mixed: 'functions with the scopes in them: more categories make a finer tree',
};

type Act = (verb: string, words: object, said: string) => void;
interface How {
  sampling_rate: number;
  stack_mode: string;
}
interface Props {
  all: Internals;
  how: How;
  busy: boolean;
  tracked: number;
  onRate(v: number): void;
  onStacks(v: string): void;
  act: Act;
}

/** The mode of processes that start; a word, or rules on role, name and group. */
function ModeForm({ all, how, busy, act }: Props) {
  const known = all.modes.includes(all.mode);
  const [mode, setMode] = useState(known ? all.mode : WORDS);
  const [words, setWords] = useState(known ? '' : all.mode);
  useEffect(() => {
    setMode(known ? all.mode : WORDS);
    if (!known) setWords(all.mode);
  }, [all.mode]);
  const own = mode === WORDS;
  const same = own ? !words.trim() || words.trim() === all.mode : mode === all.mode;
  const submit = (e: Event) => {
    e.preventDefault();
    act('mode', { mode: own ? words.trim() : mode, ...how }, 'The mode was set.');
  };
  return (
    <form class="field" onSubmit={submit}>
      <label for="mode">Mode of processes that start</label>
      <span class="internals-mode">
        <select id="mode" value={mode} onChange={(e) => setMode(e.currentTarget.value)}>
          {all.modes.map((m) => (
            <option>{m}</option>
          ))}
          <option value={WORDS}>by role, name or group…</option>
        </select>
        <button type="submit" disabled={busy || same}>
          Set
        </button>
      </span>
      {own && (
        <input
          type="text"
          id="mode-words"
          aria-label="Mode in words"
          placeholder="role:renderer,name:worker,cgroup:/a"
          value={words}
          onInput={(e) => setWords(e.currentTarget.value)}
        />
      )}
      <small>
        {mode === 'manual' ? 'none of them is tracked' : 'tracked from their first allocation on'}
      </small>
    </form>
  );
}

export function Controls(p: Props) {
  const { all, how, busy, tracked, act } = p;
  const stacks = how.stack_mode;
  return (
    <div class="internals-controls">
      <div class="fields">
        <label class="field">
          <span>Sampling rate</span>
          <select
            id="rate"
            value={String(how.sampling_rate)}
            onChange={(e) => p.onRate(Number(e.currentTarget.value))}>
            {all.sampling_rates.map((r) => (
              <option value={String(r)}>{exact(r)} bytes</option>
            ))}
          </select>
          <small>mean bytes between samples: {seen(how.sampling_rate)}</small>
        </label>
        <label class="field">
          <span>Stacks</span>
          <select id="stacks" value={stacks} onChange={(e) => p.onStacks(e.currentTarget.value)}>
            {all.stack_modes.map((m) => (
              <option>{m}</option>
            ))}
          </select>
          <small>{STACK_WORDS[stacks] ?? 'functions, under the name of the thread'}</small>
        </label>
        <ModeForm {...p} />
      </div>
      <div class="bar">
        <button
          type="button"
          disabled={busy}
          onClick={() =>
            act('start', { pid: 'all', ...how }, 'All processes that can be are being tracked.')
          }>
          Start profiling all
        </button>
        <button
          type="button"
          disabled={busy || all.mode === 'all'}
          onClick={() => act('start', { pid: 'new', ...how }, 'New processes will be tracked.')}>
          Profile new processes
        </button>
        <button
          type="button"
          disabled={busy || (tracked === 0 && all.mode === 'manual')}
          onClick={() => act('stop', { pid: 'all' }, 'Nothing is being tracked now.')}>
          Stop all
        </button>
      </div>
    </div>
  );
}
