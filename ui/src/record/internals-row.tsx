// One process: whether it is tracked, how, and what can be done with it.
import { base, bytes, count, duration, exact, safe } from '../app/format';
import { href } from '../app/state';
import { fresh } from '../app/url/place';
import type { Detail } from './internals-api';

interface Props {
  pid: number;
  name: string;
  tracked: boolean;
  d: Detail;
  chosen: boolean;
  busy: boolean;
  onChoose(): void;
  onStart(): void;
  onStop(): void;
}

const live = (pid: number) => href({ ...fresh, page: 'live', arg: String(pid) });

function Tracked({ pid, d }: { pid: number; d: Detail }) {
  const since =
    d.state === 'starting'
      ? 'is being prepared'
      : d.seconds
        ? `for ${duration(d.seconds * 1e9)}`
        : 'since now';
  return (
    <>
      <span class="state">{d.sampling_rate === 1 ? 'all' : 'sampling'}</span> {since},{' '}
      {exact(d.sampling_rate ?? 0)} bytes, {d.stack_mode} · <a href={live(pid)}>Report</a>
    </>
  );
}

function NotTracked({ pid, d }: { pid: number; d: Detail }) {
  if (d.recording)
    return (
      <>
        in <a href={live(pid)}>recording {safe(d.recording)}</a>
      </>
    );
  if (d.code)
    return (
      <>
        {safe(d.reason ?? '')} {d.remedy && <span class="dim">{d.remedy}</span>}
      </>
    );
  return <span class="dim">off</span>;
}

function Act({ pid, shown, tracked, d, busy, onStart, onStop }: Props & { shown: string }) {
  if (tracked)
    return (
      <button type="button" disabled={busy} aria-label={`Stop ${pid} ${shown}`} onClick={onStop}>
        Stop
      </button>
    );
  if (d.code || d.recording) return null;
  return (
    <button type="button" disabled={busy} aria-label={`Start profiling ${pid} ${shown}`} onClick={onStart}>
      Start profiling
    </button>
  );
}

function How({ pid, tracked, d }: Props) {
  const restart = d.command
    ? href({
        ...fresh,
        page: 'record',
        form: new URLSearchParams({ kind: 'record', command: d.command }).toString(),
      })
    : '';
  return (
    <td class="internals-how">
      {tracked ? <Tracked pid={pid} d={d} /> : <NotTracked pid={pid} d={d} />}
      {restart && !d.recording && (
        <>
          {' '}
          <a
            class="restart"
            href={restart}
            title="Opens Record with its command line: a new run, profiled from its first allocation on. The running one continues.">
            record from its start
          </a>
        </>
      )}
    </td>
  );
}

export function Row(p: Props) {
  const { pid, name, tracked, d } = p;
  const shown = safe(name.startsWith('[') ? name : base(name) || name);
  return (
    <tr class={tracked ? 'on' : d.code || d.recording ? 'cannot' : ''}>
      <td class="internals-act">
        <Act {...p} shown={shown} />
      </td>
      <td class="num">{pid}</td>
      <td class="internals-name">
        <label>
          {tracked && (
            <input
              type="checkbox"
              checked={p.chosen}
              aria-label={`Save ${pid} ${shown}`}
              onChange={p.onChoose}
            />
          )}
          <b title={safe(name)}>{shown}</b>
        </label>
      </td>
      <td class="internals-more">{safe(d.role)}</td>
      <How {...p} />
      <td class="num internals-more">{tracked ? count(d.samples ?? 0) : ''}</td>
      <td class="num internals-live" title={tracked ? `${exact(d.live ?? 0)} B` : undefined}>
        {tracked ? bytes(d.live ?? 0) : ''}
      </td>
      <td class={`num internals-more ${d.dropped ? 'bad' : ''}`}>{tracked ? count(d.dropped ?? 0) : ''}</td>
    </tr>
  );
}
