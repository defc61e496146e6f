// The memory dumps of a trace as buttons: which one is looked at, and which it is compared with.
import { clock } from '../app/format';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import { type InfraDump, pickDump } from './infra-api';

const SHOWN = 60; // dumps as buttons; the lists beside them have all

export const DETAIL: Record<InfraDump['detail'], string> = {
  detailed: 'detailed',
  light: 'light: totals and few nodes',
  background: 'background: totals only',
};

const words = (d: InfraDump, start: number) => `${clock(d.ts - start)} ${d.detail}`;

function Circle({ d, all, on, start }: { d: InfraDump; all: InfraDump[]; on: boolean; start: number }) {
  const since = place.value.since === ns(d.ts);
  return (
    <button
      type="button"
      class={`m ${since ? 'since' : ''} ${d.heaps ? '' : 'light'}`}
      aria-pressed={on}
      title={`${DETAIL[d.detail]}${d.heaps ? '; with heap dumps' : ''}\nCtrl+click: show what changed since this dump`}
      onClick={(e) => pickDump(all, d, e.ctrlKey || e.metaKey)}>
      <i>M</i>
      {clock(d.ts - start)}{' '}
      <span class="dim">
        {d.detail}
        {since ? ' · since' : ''}
      </span>
    </button>
  );
}

export function Dumps({ all, now, start }: { all: InfraDump[]; now: InfraDump; start: number }) {
  const p = place.value;
  const at = all.indexOf(now);
  const first = Math.max(0, Math.min(all.length - SHOWN, at - SHOWN / 2));
  return (
    <div class="infra-dumps">
      <div class="bar" role="group" aria-label="Dumps">
        {first > 0 && <span class="dim">{first} earlier</span>}
        {all.slice(first, first + SHOWN).map((d) => (
          <Circle d={d} all={all} on={d === now} start={start} />
        ))}
        {first + SHOWN < all.length && <span class="dim">{all.length - first - SHOWN} later</span>}
      </div>
      <div class="bar">
        {all.length > SHOWN && (
          <label>
            Dump{' '}
            <select value={ns(now.ts)} onChange={(e) => go({ dump: e.currentTarget.value })}>
              {all.map((d) => (
                <option value={ns(d.ts)}>{words(d, start)}</option>
              ))}
            </select>
          </label>
        )}
        <label>
          Compare with{' '}
          <select
            aria-label="Compare with"
            value={p.since}
            onChange={(e) => go({ since: e.currentTarget.value })}>
            <option value="">nothing</option>
            {all
              .filter((d) => d !== now)
              .map((d) => (
                <option value={ns(d.ts)}>{words(d, start)}</option>
              ))}
          </select>
        </label>
        <span class="dim hint">
          {p.since ? 'Figures are changes.' : 'Ctrl+click a dump for what changed since it.'} ☰ leads to a
          heap’s details, Ctrl+☰ compares them with another’s.
        </span>
      </div>
    </div>
  );
}
