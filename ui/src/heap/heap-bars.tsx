// What stands over the managed heap: its tabs, which dump is looked at, and how a graph is drawn.
import { base, count, safe } from '../app/format';
import { go, href, place } from '../app/state';
import { ns } from '../app/times';
import { Choice } from '../parts/choice';
import { useKeys } from '../parts/keys';
import { HEAP_METRICS, type HeapDump, type HeapMetric, objectTabs } from './heap-api';
import { dumpTime } from './heap-parts';

export function Tabs({ tabs, on }: { tabs: { id: string; label: string }[]; on: string }) {
  const open =
    on.startsWith('o') && on !== 'objects' && !objectTabs().includes(on.slice(1))
      ? [...objectTabs(), on.slice(1)]
      : objectTabs();
  const ids = [...tabs.map((t) => t.id), ...open.map((o) => `o${o}`)];
  const close = (o: string) => {
    const left = open.filter((x) => x !== o);
    go({
      objs: left.join(','),
      ...(on === `o${o}` ? { tab: left.length ? `o${left[left.length - 1]}` : 'objects', cut: '' } : {}),
    });
  };
  const onKey = (e: KeyboardEvent) => {
    const step = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
    const here = ids.indexOf(on);
    if (e.key === 'Delete' && /^o\d/.test(on)) close(on.slice(1));
    else if (step) {
      go({ tab: ids[(here + step + ids.length) % ids.length], zoom: '', cut: '' });
      requestAnimationFrame(() => document.querySelector<HTMLElement>('.tabs [aria-selected=true]')?.focus());
    } else return;
    e.preventDefault();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views of the heap" onKeyDown={onKey}>
      {tabs.map((t) => (
        <a
          role="tab"
          id={`tab-${t.id}`}
          aria-selected={t.id === on}
          aria-controls="heap-view"
          tabIndex={t.id === on ? 0 : -1}
          href={href({ tab: t.id, zoom: '', cut: '' })}>
          {t.label}
        </a>
      ))}
      {open.map((o) => (
        <span class="tab-object" role="presentation">
          <a
            role="tab"
            id={`tab-o${o}`}
            aria-selected={on === `o${o}`}
            aria-controls="heap-view"
            tabIndex={on === `o${o}` ? 0 : -1}
            title="Delete closes it"
            href={href({ tab: `o${o}`, cut: '' })}>
            Object {o}
          </a>
          <button type="button" tabIndex={-1} aria-hidden="true" title="Close" onClick={() => close(o)}>
            ×
          </button>
        </span>
      ))}
    </div>
  );
}

const pick = (d: HeapDump) =>
  go({
    upid: d.upid,
    graph: ns(d.ts),
    zoom: '',
    objs: '',
    of: '',
    cut: '',
    ...(/^o\d/.test(place.peek().tab) ? { tab: 'objects' } : {}),
  });

/** Whose heap; where there is one process only, its name. */
function ProcessPart({ dump, all }: { dump: HeapDump; all: HeapDump[] }) {
  const upids = [...new Map(all.map((d) => [d.upid, d])).values()];
  if (upids.length <= 1)
    return (
      <b>
        {safe(base(dump.name)) || 'Managed heap'}
        {dump.pid > 0 && <span class="dim"> pid {dump.pid}</span>}
      </b>
    );
  const choose = (upid: number) => pick(all.filter((d) => d.upid === upid).at(-1)!);
  return (
    <label>
      Process{' '}
      <select value={String(dump.upid)} onChange={(e) => choose(Number(e.currentTarget.value))}>
        {upids.map((d) => (
          <option value={String(d.upid)}>
            {safe(base(d.name)) || '?'} ({d.pid})
          </option>
        ))}
      </select>
    </label>
  );
}

export function DumpBar({ dump, all }: { dump: HeapDump; all: HeapDump[] }) {
  const mine = all.filter((d) => d.upid === dump.upid);
  const i = mine.indexOf(dump);
  useKeys(
    (e) => {
      const next = e.key === '[' ? mine[i - 1] : e.key === ']' ? mine[i + 1] : null;
      if (next) pick(next);
    },
    [dump],
  );
  return (
    <div class="bar" role="group" aria-label="Dump">
      <ProcessPart dump={dump} all={all} />
      {mine.length > 1 && (
        <>
          <label>
            Dump{' '}
            <select
              aria-label="Dump"
              value={String(i)}
              onChange={(e) => pick(mine[Number(e.currentTarget.value)])}>
              {mine.map((d, k) => (
                <option value={String(k)}>
                  {dumpTime(d, all)} · {count(d.objects)} objects{k === mine.length - 1 ? ' (last)' : ''}
                </option>
              ))}
            </select>
          </label>
          <button
            type="button"
            title="Previous dump ([)"
            aria-label="Previous dump"
            disabled={i === 0}
            onClick={() => pick(mine[i - 1])}>
            ‹
          </button>
          <button
            type="button"
            title="Next dump (])"
            aria-label="Next dump"
            disabled={i === mine.length - 1}
            onClick={() => pick(mine[i + 1])}>
            ›
          </button>
        </>
      )}
      <span class="dim">
        {count(dump.objects)} objects · {count(dump.references)} references
        {dump.reason && ` · ${safe(dump.reason)}`}
      </span>
      {dump.cmdline && dump.cmdline !== dump.name && (
        <span class="dim cmdline" title={safe(dump.cmdline)}>
          {safe(dump.cmdline)}
        </span>
      )}
    </div>
  );
}

/** Over a graph of the heap. */
export const CollapseChains = ({ shortcut = '' }: { shortcut?: string }) => (
  <button
    type="button"
    aria-pressed={place.value.collapse}
    class="toggle"
    title={`an object below one of its own class shares its box: chains and trees become one${shortcut}`}
    onClick={() => go({ collapse: !place.value.collapse, zoom: '' })}>
    Collapse chains
  </button>
);

export const HeapMetricChoice = ({ m }: { m: HeapMetric }) => (
  <Choice
    label="Metric"
    value={m}
    options={HEAP_METRICS}
    onChange={(heapmetric) => go({ heapmetric, zoom: '' })}
  />
);
