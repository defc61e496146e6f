// The call tree: expandable rows, rendered only where visible.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { amount, besides, count, error, isRough, safe } from '../app/format';
import { INVERTED, selection } from '../app/selection';
import { isSaved } from '../app/server';
import { go, place } from '../app/state';
import type { Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { Choice, MetricChoice, MetricNote } from '../parts/choice';
import { ExportButton } from '../parts/export';
import { FilterBar } from '../parts/filters';
import type { ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { Share } from '../parts/share';
import { showSql, treeSql } from '../parts/show-sql';
import { revealRow, ROW, useWindow } from '../parts/window';
import { Busy } from '../parts/words';
import { errorOf, type Graph, MERGED, moduleOf, nameOf } from './graph';
import { flame } from './graphs';

/** What only a server can answer. */
const Asked = ({ tracks }: { tracks: Tracks }) => (
  <>
    <Choice
      label="Frames"
      rest
      value={place.value.frames}
      onChange={(frames) => go({ frames, zoom: '' })}
      options={[
        { id: 'site', label: 'Your code' },
        { id: 'all', label: 'All frames' },
      ]}
    />
    <span class="grow" />
    <span class="rest">
      <ExportButton />
    </span>
    <button
      type="button"
      class="rest"
      title="the query that gives these numbers"
      onClick={() => showSql(treeSql(tracks, place.value.invert))}>
      SQL
    </button>
  </>
);

function CallTree({ tracks }: { tracks: Tracks }) {
  const p = place.value;
  const pivot = p.filters.some((f) => /^!?P:/.test(f));
  const query = selection.value + (p.invert && !pivot ? INVERTED : '');
  const answer = useAnswer(`${p.trace}?${query}`, () => flame(p.trace, query));
  const g = answer.value;
  return (
    <div class="column">
      <div class="bar">
        <MetricChoice tracks={tracks} />
        <Choice
          label="Direction"
          value={p.invert ? 'up' : 'down'}
          onChange={(v) => go({ invert: v === 'up', zoom: '' })}
          options={[
            { id: 'down', label: 'Top-down' },
            { id: 'up', label: 'Bottom-up' },
          ]}
        />
        {!isSaved() && <Asked tracks={tracks} />}
      </div>
      <MetricNote />
      <FilterBar problem={answer.error} />
      {answer.busy && !g && <Busy what="Summing up" />}
      {g && g.total > 0 ? <Tree tracks={tracks} g={g} /> : g && <p class="empty">Nothing here.</p>}
    </div>
  );
}

/** Opens a node, and on as long as there is one child that holds nearly all. */
function openFrom(g: Graph, node: number, open: Set<number>): void {
  for (let at = node; ;) {
    open.add(at);
    const child = at + 1;
    if (child >= g.end[at] || g.cum[child] < 0.9 * g.cum[at]) return;
    at = child;
  }
}

/** The expanded part as rows: the visible nodes. */
function useOpen(g: Graph) {
  const [open, setOpen] = useState(new Set<number>());
  const [at, setAt] = useState(1);
  useEffect(() => {
    const first = new Set<number>();
    openFrom(g, 0, first);
    setOpen(first);
    setAt(1);
  }, [g]);
  const rows = useMemo(() => {
    const out: number[] = [];
    for (let i = 1; i < g.n;) {
      out.push(i);
      i = open.has(i) ? i + 1 : g.end[i];
    }
    return out;
  }, [g, open]);
  const toggle = (node: number, want?: boolean) => {
    const next = new Set(open);
    if (want ?? !next.has(node)) openFrom(g, node, next);
    else next.delete(node);
    setOpen(next);
  };
  return { open, rows, toggle, at, setAt };
}

const isLeaf = (g: Graph, i: number) => g.end[i] === i + 1;

function Row({
  g,
  i,
  y,
  on,
  open,
  tracks,
  onClick,
}: {
  g: Graph;
  i: number;
  y: number;
  on: boolean;
  open: boolean;
  tracks: Tracks;
  onClick(): void;
}) {
  const m = place.value.metric;
  const leaf = isLeaf(g, i);
  const rough = isRough(g.samples[i], errorOf(g, i), g.cum[i]);
  return (
    <div
      role="treeitem"
      id={`node-${i}`}
      aria-level={g.depth[i]}
      aria-selected={on}
      aria-expanded={leaf ? undefined : open}
      class={`row ${on ? 'on' : ''}`}
      style={{ top: `${y}px` }}
      onClick={onClick}
      onDblClick={() => go({ page: 'functions', fn: nameOf(g, i) })}
      title={`${safe(nameOf(g, i))}\n${safe(moduleOf(g, i))}`}>
      <span class="c-total num">{amount(g.cum[i], m)}</span>
      <span class="c-error num dim" title={`${count(g.samples[i])} samples`}>
        {rough ? '≈ ' : ''}
        {error(errorOf(g, i), g.cum[i])}
      </span>
      <span class="c-share">
        <Share part={g.cum[i]} whole={g.total} rough={rough} />
      </span>
      <span class="c-self num dim">{g.self[i] ? amount(g.self[i], m) : ''}</span>
      <span class="c-name" style={{ paddingLeft: `${Math.min(40, g.depth[i] - 1) * 12}px` }}>
        <i class="twist" aria-hidden="true">
          {leaf ? '·' : open ? '▾' : '▸'}
        </i>
        {safe(nameOf(g, i))}{' '}
        <span class="dim">{g.flags[i] & MERGED ? '' : safe(besides(moduleOf(g, i), tracks))}</span>
      </span>
    </div>
  );
}

/** Handles a key at a row of the tree; false: not handled. */
function pressed(
  key: string,
  g: Graph,
  { rows, open, toggle, at }: ReturnType<typeof useOpen>,
  show: (row: number) => void,
): boolean {
  const i = rows.indexOf(at);
  const leaf = isLeaf(g, at);
  const acts: Record<string, () => unknown> = {
    ArrowDown: () => show(i + 1),
    ArrowUp: () => show(i - 1),
    PageDown: () => show(i + 15),
    PageUp: () => show(i - 15),
    Home: () => show(0),
    End: () => show(rows.length - 1),
    ArrowRight: () => !leaf && (open.has(at) ? show(i + 1) : toggle(at, true)),
    ArrowLeft: () =>
      open.has(at) && !leaf ? toggle(at, false) : g.parent[at] > 0 && show(rows.indexOf(g.parent[at])),
    Enter: () => go({ page: 'functions', fn: nameOf(g, at) }),
    ' ': () => toggle(at),
  };
  acts[key]?.();
  return !!acts[key];
}

function Tree({ g, tracks }: { g: Graph; tracks: Tracks }) {
  const tree = useOpen(g);
  const { open, rows, toggle, at, setAt } = tree;
  const w = useWindow(rows.length);
  const show = (index: number) => {
    const i = Math.max(0, Math.min(rows.length - 1, index));
    setAt(rows[i]);
    revealRow(w.ref.current!, i);
  };
  const onKey = (e: KeyboardEvent) => {
    if (!(e.ctrlKey || e.altKey || e.metaKey) && pressed(e.key, g, tree, show)) e.preventDefault();
  };
  return (
    <div class="table tree">
      <div class="row head" aria-hidden="true">
        <span class="c-total num">Total</span>
        <span class="c-error num">Error</span>
        <span class="c-share">Share</span>
        <span class="c-self num">Self</span>
        <span class="c-name">Function</span>
      </div>
      <div
        class="rows"
        role="tree"
        aria-label="Call tree"
        tabIndex={0}
        aria-activedescendant={`node-${at}`}
        ref={w.ref}
        onScroll={w.look}
        onKeyDown={onKey}>
        <div role="presentation" style={{ height: `${rows.length * ROW}px` }}>
          {rows.slice(w.first, w.last).map((i, k) => (
            <Row
              g={g}
              i={i}
              y={(w.first + k) * ROW}
              on={i === at}
              open={open.has(i)}
              tracks={tracks}
              onClick={() => {
                setAt(i);
                toggle(i);
              }}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

export const TreePage = ({ tracks, all }: ProfileProps) => (
  <>
    <SelectionBar tracks={tracks} all={all} sum />
    <CallTree tracks={tracks} />
  </>
);
