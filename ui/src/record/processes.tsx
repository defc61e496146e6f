// Processes to choose from, and why some cannot be profiled.
import { useState } from 'preact/hooks';
import { base, bytes, count, safe } from '../app/format';
import { href } from '../app/state';
import { type Column, Head } from '../parts/table';
import { Failed } from '../parts/words';
import { form, set } from './form';

export interface Process {
  pid: number;
  name: string;
  user: string;
  rss: number;
  allocator: string | null;
  eligible: boolean;
  code: string | null;
  reason: string | null;
  remedy: string | null;
  recording: string | null;
}

/** Those that fit the search, chosen ones first, then those that can be profiled, the largest first. */
function shownOf(list: Process[], needle: string, every: boolean) {
  const { pids } = form.value;
  const hit = (p: Process) =>
    !needle ||
    p.name.toLowerCase().includes(needle) ||
    String(p.pid) === needle ||
    p.user.toLowerCase() === needle;
  const rows = list
    .filter(
      (p) =>
        pids.includes(p.pid) ||
        (hit(p) && (p.eligible || every || (needle !== '' && String(p.pid) === needle))),
    )
    .sort(
      (a, b) =>
        Number(pids.includes(b.pid)) - Number(pids.includes(a.pid)) ||
        Number(b.eligible) - Number(a.eligible) ||
        b.rss - a.rss,
    );
  return { rows, hidden: list.filter((p) => hit(p) && !p.eligible).length };
}

const toggle = (pid: number) => {
  const { pids } = form.peek();
  set({ pids: pids.includes(pid) ? pids.filter((x) => x !== pid) : [...pids, pid] });
};

/** Whether it can be profiled, in words. */
function Why({ p }: { p: Process }) {
  if (p.recording)
    return <a href={href({ page: 'live', arg: String(p.pid) })}>in recording {safe(p.recording)}</a>;
  return p.eligible ? (
    <>possible</>
  ) : (
    <>
      {safe(p.reason ?? '')} {p.remedy && <span class="dim">{p.remedy}</span>}
    </>
  );
}

function ProcessRow({ p }: { p: Process }) {
  const chosen = form.value.pids.includes(p.pid);
  const free = p.eligible && !p.recording;
  const click = (e: MouseEvent) => {
    if (!free || e.target instanceof HTMLInputElement) return;
    e.preventDefault();
    toggle(p.pid);
  };
  return (
    <tr class={`${chosen ? 'on' : ''} ${free ? 'can' : 'cannot'}`} onClick={click}>
      <td>
        <label>
          <input type="checkbox" disabled={!free} checked={chosen} onChange={() => toggle(p.pid)} />
          <b title={safe(p.name)}>{safe(p.name.startsWith('[') ? p.name : base(p.name) || p.name)}</b>
        </label>
      </td>
      <td class="num">{p.pid}</td>
      <td>{safe(p.user)}</td>
      <td class="num">{bytes(p.rss)}</td>
      <td class="wide">
        {p.allocator ??
          (p.eligible ? (
            <span class="dim" title="no library with a malloc is mapped: it is linked into the program">
              its own
            </span>
          ) : (
            ''
          ))}
      </td>
      <td class="why">
        <Why p={p} />
      </td>
    </tr>
  );
}

const COLUMNS: Column[] = [
  'Process',
  ['PID', 'num'],
  'User',
  ['Resident', 'num'],
  ['Allocator', 'wide', 'whose malloc it uses'],
  'Profile',
];

export function Processes({ list, problem }: { list: Process[] | null; problem: string }) {
  const [search, setSearch] = useState('');
  const [every, setEvery] = useState(false);
  const needle = search.trim().toLowerCase();
  const { rows, hidden } = shownOf(list ?? [], needle, every);
  if (problem) return <Failed text={problem} />;
  return (
    <>
      <div class="bar">
        <input
          type="search"
          id="find-process"
          aria-label="Search processes"
          placeholder="name, pid or user"
          value={search}
          onInput={(e) => setSearch(e.currentTarget.value)}
        />
        <label class="check">
          <input type="checkbox" checked={every} onChange={(e) => setEvery(e.currentTarget.checked)} />{' '}
          including those that cannot be profiled
        </label>
        {form.value.pids.length > 0 && (
          <button type="button" onClick={() => set({ pids: [] })}>
            Choose none
          </button>
        )}
      </div>
      <div class="procs" tabIndex={0} role="region" aria-label="Processes">
        <table>
          <Head columns={COLUMNS} />
          <tbody>
            {rows.slice(0, 400).map((p) => (
              <ProcessRow p={p} key={p.pid} />
            ))}
          </tbody>
        </table>
        {list && rows.length === 0 && (
          <p class="empty">
            {needle ? 'No process has that name.' : 'No process of yours can be profiled now.'}
            {hidden > 0 && !every && (
              <>
                {' '}
                {count(hidden)} cannot be profiled:{' '}
                <button type="button" onClick={() => setEvery(true)}>
                  show why
                </button>
              </>
            )}
          </p>
        )}
        {!list && (
          <p class="empty" role="status">
            Reading processes…
          </p>
        )}
      </div>
    </>
  );
}
