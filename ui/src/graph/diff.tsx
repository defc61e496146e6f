// Diff: two dumps, processes or traces side by side. The server matches functions, takes the
// difference and says what of it is more than sampling noise.
import { useEffect, useState } from 'preact/hooks';
import { question } from '../app/answers';
import { certainty, count, growth, isBytes, isUnknown } from '../app/format';
import { selection } from '../app/selection';
import { isSaved, status } from '../app/server';
import { asPlace, baseOf, now, type Side, written } from '../app/sides';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import type { Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { Choice, MetricChoice, metricsOf } from '../parts/choice';
import { FilterBar } from '../parts/filters';
import { digit, useKeys } from '../parts/keys';
import type { ProfileProps } from '../parts/selected';
import { showSql } from '../parts/show-sql';
import { Failed, Figure } from '../parts/words';
import { change, figure, plusMinus, sideWords, type Table } from './diff-figures';
import { SideBySide, Union } from './diff-graph';
import { Rows } from './diff-rows';
import { OpenOther, SidePicker } from './side-picker';

const PAGE = 100;

/** The questions of a comparison: graphs of both sides, of one, and the table. */
function queriesOf(
  a: Side,
  tracks: Tracks,
  limit: number,
): { bFlame: string; aFlame: string; union: string; table: string } {
  const p = place.value;
  const own = new URLSearchParams(written(a));
  const q = new URLSearchParams(selection.value);
  q.set('upid', String(tracks.upid));
  const bFlame = q.toString();
  const aFlame = new URLSearchParams(bFlame);
  for (const k of ['upid', 'heap', 'at', 'max', 'from']) {
    aFlame.delete(k);
    if (own.get(k)) aFlame.set(k, own.get(k)!);
  }
  for (const [k, v] of own) q.set(`a_${k}`, v);
  if (p.mode) q.set('mode', p.mode);
  if (p.key) q.set('key', p.key);
  const union = q.toString();
  const [sort, order] = (p.sort || 'change desc').split(' ');
  q.set('sort', sort);
  q.set('order', order);
  if (p.by) q.set('by', p.by);
  if (p.all) q.set('all', '1');
  if (p.match) q.set('match', p.match);
  q.set('limit', String(limit));
  return { bFlame, aFlame: aFlame.toString(), union, table: q.toString() };
}

function Sides({ a, b, onSwap }: { a: Side; b: Side; onSwap(): void }) {
  return (
    <div class="sides">
      <SidePicker letter="A" side={a} onPick={(s) => go({ base: written(s), zoom: '' })} />
      <button type="button" class="swap" title="Swap A and B (X)" aria-label="Swap A and B" onClick={onSwap}>
        ⇄
      </button>
      <SidePicker letter="B" side={b} onPick={(s) => go({ ...asPlace(s), base: written(a), zoom: '' })} />
      <OpenOther />
    </div>
  );
}

function Totals({ t }: { t: Table }) {
  const [a, b, by, err, sure] = t.total;
  const verdict =
    by === 0 ? 'no change' : sure || isUnknown(err) ? growth(a, b) : 'within the sampling error';
  return (
    <div class="figures">
      <Figure label="A" value={figure(a)} note={sideWords(t.a)} />
      <Figure label="B" value={figure(b)} note={sideWords(t.b)} />
      <Figure
        label="Change"
        value={change(by)}
        note={`${plusMinus(err) || certainty(0, 0, Math.min(t.a.interval, t.b.interval))} · ${verdict}`}
      />
    </div>
  );
}

/** The query of the table, where the SQL function of it can say as much. */
function sqlOf(t: Table, a: Side, b: Side): string {
  const p = place.value;
  const plain =
    t.a.trace === t.b.trace &&
    !p.mode &&
    !p.key &&
    !p.filters.length &&
    !a.from &&
    !b.from &&
    !a.heap &&
    !b.heap &&
    !a.max &&
    !b.max &&
    p.frames === 'site';
  return plain
    ? `select demangle(name) as name, map_name, a, b, change, error, significant\nfrom heapwise_diff(${t.a.upid + 1}, ${ns(t.a.ts)}, ${t.b.upid + 1}, ${ns(t.b.ts)}, '${p.metric}')\norder by abs(change) desc`
    : '';
}

/** What is compared, and how. */
function WhatChoices() {
  const p = place.value;
  return (
    <>
      <Choice
        label="Figures"
        value={p.mode as '' | 'share' | 'rate'}
        onChange={(mode) => go({ mode })}
        options={[
          { id: '', label: 'As they are' },
          {
            id: 'share',
            label: 'Shares',
            hint: 'each side as a share of its total: what changed beside a change of size',
          },
          { id: 'rate', label: 'Per second', hint: 'each side divided by its length' },
        ]}
      />
      <Choice
        label="Match by"
        value={p.key as '' | 'name'}
        onChange={(key) => go({ key })}
        options={[
          { id: '', label: 'With module', hint: 'by function and module' },
          { id: 'name', label: 'By name', hint: 'also where it moved to another module' },
        ]}
      />
      {!isSaved() && (
        <Choice
          label="Frames"
          value={p.frames}
          onChange={(frames) => go({ frames, zoom: '' })}
          options={[
            { id: 'site', label: 'Your code' },
            { id: 'all', label: 'All frames' },
          ]}
        />
      )}
    </>
  );
}

function HowBar({ sql, tracks }: { sql: string; tracks: Tracks }) {
  const p = place.value;
  return (
    <div class="bar">
      <MetricChoice tracks={tracks} />
      <WhatChoices />
      <Choice
        label="Layout"
        value={p.open as '' | 'sides'}
        onChange={(open) => go({ open })}
        options={[
          { id: '', label: 'Merged' },
          { id: 'sides', label: 'Side by side' },
        ]}
      />
      {p.zoom && (
        <button type="button" onClick={() => go({ zoom: '' })}>
          Zoom out
        </button>
      )}
      {sql && !isSaved() && (
        <button type="button" title="the query that gives these rows" onClick={() => showSql(sql)}>
          SQL
        </button>
      )}
    </div>
  );
}

function RowsBar({ t }: { t: Table | null }) {
  const p = place.value;
  return (
    <div class="bar">
      <Choice
        label="Rows by"
        value={p.by as '' | 'total'}
        onChange={(by) => go({ by })}
        options={[
          { id: '', label: 'Self', hint: 'what a function asked for itself' },
          { id: 'total', label: 'Total', hint: 'with all it calls' },
        ]}
      />
      <label class="tick">
        <input
          type="checkbox"
          checked={!p.all}
          onChange={(e) => go({ all: e.currentTarget.checked ? '' : '1' })}
        />{' '}
        hide what may be sampling noise
        {t && !p.all && t.hidden ? ` (${count(t.hidden)} ${t.hidden === 1 ? 'row' : 'rows'})` : ''}
      </label>
      <span class="grow" />
      <input
        type="search"
        aria-label="Find functions"
        placeholder="Find functions"
        value={p.match}
        onInput={(e) => go({ match: e.currentTarget.value }, true)}
      />
    </div>
  );
}

/** How the errors of both sides come together. */
function Statement({ t, alone }: { t: Table; alone: boolean }) {
  return (
    <p class="statement">
      {t.same_run
        ? 'Two dumps of one process: what lives in both is the same sample in both and has no error in the change.'
        : 'Two recordings: the errors of both sides add up.'}
      {t.a.interval > 0 && t.b.interval > 0
        ? ''
        : ' How one side was sampled is not known: its error is in no figure.'}
      {isBytes(place.value.metric) ? '' : ' Counts are estimates.'}{' '}
      {alone ? 'Ctrl-click two diamonds of the timeline to choose both sides.' : ''}
    </p>
  );
}

function Found({ t, busy, onMore }: { t: Table; busy: boolean; onMore(): void }) {
  if (t.data.length > 0) return <Rows table={t} busy={busy} onMore={onMore} />;
  if (isSame(t)) return null;
  return (
    <p class="empty">
      {place.value.match
        ? 'No changed function matches.'
        : t.hidden
          ? `All ${count(t.hidden)} changes are within the sampling error.`
          : 'No function changed.'}
    </p>
  );
}

const isSame = (t: Table) => t.total[2] === 0 && t.rows === 0 && t.hidden === 0;

export function DiffPage({ tracks, all }: ProfileProps) {
  const p = place.value;
  const a = baseOf(p, tracks);
  const b: Side = { ...now(p), upid: tracks.upid };
  const swap = () => go({ ...asPlace(a), base: written(b), zoom: '' });
  const [limit, setLimit] = useState(PAGE);
  const q = queriesOf(a, tracks, limit);
  const answer = useAnswer(`table/diff ${p.trace}?${q.table}`, () =>
    question<Table>(p.trace, 'table/diff', q.table),
  );
  const t = answer.value;
  useEffect(() => setLimit(PAGE), [q.union]);
  useKeys((e) => {
    const m = digit(e, metricsOf(tracks));
    if (e.key === 'x' || e.key === 'X') swap();
    else if (m) go({ metric: m.id });
    else return false;
    return true;
  });
  const one = t && t.a.trace === t.b.trace && t.a.upid === t.b.upid && t.a.ts === t.b.ts;
  const alone = all.processes.length <= 1 && (status.value?.traces.length ?? 0) <= 1;
  return (
    <div class="findings" aria-busy={answer.busy}>
      <Sides a={a} b={b} onSwap={swap} />
      {t && <Totals t={t} />}
      <HowBar tracks={tracks} sql={t ? sqlOf(t, a, b) : ''} />
      <FilterBar problem={answer.error} />
      {t && isSame(t) && (
        <p class="banner note" role="status">
          Both sides hold the same{one ? ': they are the same dump' : ''}.
        </p>
      )}
      {t &&
        (p.open === 'sides' ? (
          <SideBySide a={a} aQuery={q.aFlame} bQuery={q.bFlame} />
        ) : (
          <Union query={q.union} />
        ))}
      {answer.error && !t && <Failed text={answer.error} />}
      <RowsBar t={t} />
      {t && <Found t={t} busy={answer.busy} onMore={() => setLimit(limit + 5 * PAGE)} />}
      {t && <Statement t={t} alone={alone} />}
    </div>
  );
}
