// Memory internals: which processes are tracked for heap dumps, begin and end that, save a dump of all.
// What is tracked is the recorders' business: the page shows it and gives orders.
import { type MutableRef, useRef, useState } from 'preact/hooks';
import { count, safe } from '../app/format';
import { usePolled } from '../app/polled';
import { place } from '../app/state';
import { useKeys } from '../parts/keys';
import { type Column, Head } from '../parts/table';
import { Busy, Failed } from '../parts/words';
import { command, type Internals, PATH } from './internals-api';
import { Controls } from './internals-controls';
import { Row } from './internals-row';
import { SaveLine, useSaving } from './internals-save';

type Listed = Internals['processes'][0];
interface Said {
  text: string;
  bad: boolean;
}

/** Gives orders, and tells what came of them. */
function useOrders(again: () => void) {
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState<Said>({ text: '', bad: false });
  const act = (verb: string, words: object, text: string) => {
    setBusy(true);
    setSaid({ text: '', bad: false });
    command(verb, words)
      .then(
        (r) => setSaid({ text: r.already ? 'It is tracked already.' : text, bad: false }),
        (e: Error) => setSaid({ text: e.message, bad: true }),
      )
      .finally(() => {
        setBusy(false);
        again();
      });
  };
  return { busy, said, act };
}

/** Tracked ones first, then those that can be profiled. */
function shownOf(all: Internals, search: string, every: boolean) {
  const needle = search.trim().toLowerCase();
  const d = all.details;
  const hit = ([pid, name]: Listed) =>
    !needle ||
    String(pid) === needle ||
    name.toLowerCase().includes(needle) ||
    d[pid].role.toLowerCase().includes(needle);
  const rows = all.processes
    .filter((p) => hit(p) && (every || p[2] || !d[p[0]].code || String(p[0]) === needle))
    .sort(
      (a, b) => Number(b[2]) - Number(a[2]) || Number(!!d[a[0]].code) - Number(!!d[b[0]].code) || a[0] - b[0],
    );
  return { rows, needle, hidden: all.processes.filter((p) => hit(p) && d[p[0]].code).length };
}

const COLUMNS: Column[] = [
  'Action',
  ['PID', 'num'],
  'Name',
  ['Role', 'internals-more'],
  'Tracked',
  ['Samples', 'num internals-more'],
  ['Live', 'num', 'estimated from the samples'],
  ['Dropped', 'num internals-more'],
];

interface ListProps {
  all: Internals;
  how: object;
  picked: number[];
  tracked: number;
  busy: boolean;
  choose(change: (c: number[]) => number[]): void;
  act(verb: string, words: object, text: string): void;
  find: MutableRef<HTMLInputElement | null>;
}

/** Why there is no row. */
function NoRow({ searched, hidden, onEvery }: { searched: boolean; hidden: number; onEvery(): void }) {
  return (
    <p class="empty">
      {searched ? 'No process has that name.' : 'No process of yours can be profiled now.'}
      {hidden > 0 && (
        <>
          {' '}
          {count(hidden)} cannot be:{' '}
          <button type="button" onClick={onEvery}>
            show why
          </button>
        </>
      )}
    </p>
  );
}

function ProcessList({ all, how, picked, tracked, busy, choose, act, find }: ListProps) {
  const [search, setSearch] = useState('');
  const [every, setEvery] = useState(false);
  const { rows, needle, hidden } = shownOf(all, search, every);
  return (
    <>
      <div class="bar">
        <input
          type="search"
          ref={find}
          id="find-tracked"
          aria-label="Search processes"
          placeholder="name, pid or role"
          value={search}
          onInput={(e) => setSearch(e.currentTarget.value)}
        />
        <label class="check">
          <input type="checkbox" checked={every} onChange={(e) => setEvery(e.currentTarget.checked)} />{' '}
          including those that cannot be profiled
        </label>
        <span class="dim">{count(tracked)} tracked</span>
      </div>
      <div class="internals-table" tabIndex={0} role="region" aria-label="Processes">
        <table>
          <Head columns={COLUMNS} />
          <tbody>
            {rows.slice(0, 500).map(([pid, name, on]) => (
              <Row
                key={pid}
                pid={pid}
                name={name}
                tracked={on}
                d={all.details[pid]}
                busy={busy}
                chosen={picked.includes(pid)}
                onChoose={() => choose((c) => (c.includes(pid) ? c.filter((x) => x !== pid) : [...c, pid]))}
                onStart={() =>
                  act(
                    'start',
                    { pid, ...how },
                    `Process ${pid} is tracked from now on; what it had allocated before is not seen.`,
                  )
                }
                onStop={() => act('stop', { pid }, `Process ${pid} is no longer tracked.`)}
              />
            ))}
          </tbody>
        </table>
        {rows.length > 500 && <p class="dim">{count(rows.length - 500)} more: search for them.</p>}
        {rows.length === 0 && (
          <NoRow searched={needle !== ''} hidden={every ? 0 : hidden} onEvery={() => setEvery(true)} />
        )}
      </div>
    </>
  );
}

function Messages({ all, error }: { all: Internals; error: string }) {
  return (
    <>
      {all.unsupported && (
        <p class="banner bad" role="alert">
          <b>Nothing can be profiled here:</b> {safe(all.unsupported.reason.replace(/\.?$/, '.'))}{' '}
          {all.unsupported.remedy}
        </p>
      )}
      {error && <Failed text={error} />}
      <p class="internals-message" role="status">
        {safe(all.message)}
      </p>
    </>
  );
}

/** What is tracked, and how the next will be. */
function useTracked() {
  const [tick, refresh] = useState(0);
  const answer = usePolled<Internals>(`${PATH}processes`, 2000, tick);
  const [rate, setRate] = useState(0);
  const [stacks, setStacks] = useState('');
  const [chosen, choose] = useState<number[]>([]);
  const all = answer.value;
  const tracked = (all?.processes ?? []).filter((p) => p[2]).map((p) => p[0]);
  const how = {
    sampling_rate: rate || (all?.sampling_rate ?? 0),
    stack_mode: stacks || (all?.stack_mode ?? ''),
  };
  return {
    answer,
    all,
    tracked,
    picked: chosen.filter((p) => tracked.includes(p)),
    choose,
    how,
    setRate,
    setStacks,
    again: () => refresh((n) => n + 1),
  };
}

export function InternalsPage() {
  const { answer, all, tracked, picked, choose, how, setRate, setStacks, again } = useTracked();
  const { busy, said, act } = useOrders(again);
  const { saving, save } = useSaving(picked, again);
  const find = useRef<HTMLInputElement>(null);
  useKeys((e) => {
    if (e.key === 'r') again();
    else if (e.key === 's' && tracked.length && !saving.busy) void save();
    else if (e.key === '/') find.current?.focus();
    else return false;
    return true;
  });
  if (!all) return answer.error ? <Failed text={answer.error} /> : <Busy what="Asking the recorders" />;
  const nothing = tracked.length === 0;
  return (
    <div class="internals" key={place.value.page}>
      <Messages all={all} error={answer.error} />
      <div class="bar">
        <button type="button" title="Refresh (r)" onClick={again}>
          Refresh
        </button>
        <button
          type="button"
          class="primary internals-go"
          title="Save (s)"
          disabled={saving.busy || all.saving || nothing}
          onClick={() => void save()}>
          {picked.length ? `Save dump of ${picked.length}` : 'Save dump'}
        </button>
        {nothing && <span class="dim">There is nothing to save until a process is tracked.</span>}
      </div>
      <SaveLine s={saving} other={!saving.busy && all.saving} />
      <Controls
        all={all}
        how={how}
        onRate={setRate}
        onStacks={setStacks}
        act={act}
        busy={busy}
        tracked={tracked.length}
      />
      {said.text && (
        <p class={`banner ${said.bad ? 'bad' : 'good'}`} role={said.bad ? 'alert' : 'status'}>
          {safe(said.text)}
        </p>
      )}
      <ProcessList
        all={all}
        how={how}
        picked={picked}
        tracked={tracked.length}
        busy={busy}
        choose={choose}
        act={act}
        find={find}
      />
    </div>
  );
}
