// The page's graph with everything around it: toolbar, filters, breadcrumb, menu, pivot.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { exactly } from '../app/filters';
import { amount, clock, error, isLive, isTemporary, percent, safe } from '../app/format';
import { INVERTED, scrubbing, selection } from '../app/selection';
import { go, place } from '../app/state';
import { remember, remembered } from '../app/store';
import type { Tracks } from '../app/types';
import { type Answer, useAnswer, useFollowing } from '../parts/answer';
import { MetricNote, metricsOf } from '../parts/choice';
import { addFilter } from '../parts/filters';
import { digit, useKeys } from '../parts/keys';
import { moreOpen } from '../parts/popover';
import { heapsWord, nameOfTracks, type ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { graphSql, showSql } from '../parts/show-sql';
import { Busy, Failed } from '../parts/words';
import { Crumbs, Matched } from './crumbs';
import type { ColourBy } from './draw';
import { GraphBar, NothingHere } from './flame-page-bar';
import { Flame, type FlameProps } from './flame';
import { menuItems } from './frame-menu';
import { FramePanel } from './frame-panel';
import { type Graph, GROUP, type Matches, MERGED, moduleOf, nameOf } from './graph';
import { followed, groupOf, hasPivot, warmUp } from './follow';
import { abandon, flame, smallFlame } from './graphs';
import { Minimap } from './minimap';
import { OWNERS, ownerSums } from './owner';
import { useFrameMenu, useZoom } from './zoomed';

/** A description of the graph. */
export function statement(t: Tracks, g: Graph): string {
  const p = place.value;
  const live = isLive(p.metric);
  const words = {
    space: 'live',
    objects: 'live allocations',
    alloc_space: 'allocated',
    alloc_objects: 'allocations made',
    temporary_space: 'freed again within a second',
    temporary_objects: 'allocations freed again within a second',
  }[p.metric];
  const end = clock(g.ts - t.start);
  const begin = p.from ? clock(Number(p.from) - t.start) : '';
  const when = begin
    ? live
      ? `Growth between ${begin} and ${end} (stacks that shrank are left out)`
      : isTemporary(p.metric)
        ? `Temporary between ${begin} and ${end}`
        : `Allocated between ${begin} and ${end}`
    : live
      ? `Live at ${end}`
      : isTemporary(p.metric)
        ? `Temporary until ${end}`
        : `Ever allocated until ${end}`;
  const who = t.parts ? nameOfTracks(t) : `process ${t.pid} ${safe(t.name)}`;
  const heap = p.heap ? `heap ${safe(p.heap)}` : heapsWord(t);
  return `${when} · ${who} · ${heap} · ${words}: ${amount(g.total, p.metric)} ${error(g.error, g.total)}${p.invert ? ' · bottom-up: below 0.01 % merged' : ''}`;
}

/** The graph of the place at rest: a drag has its own, which stays until the next one at rest is there. */
function useResting(trace: number, query: string): Answer<Graph> {
  const held = scrubbing.value;
  const resting = useRef({ trace, query });
  if (!held) resting.current = { trace, query };
  const at = resting.current;
  useEffect(() => abandon(at.trace, at.query), [at.trace, at.query]);
  const answer = useFollowing(`${at.trace}?${at.query}`, () => flame(at.trace, at.query));
  const step = followed.value;
  useEffect(() => {
    if (!held && !answer.busy) followed.value = null;
  }, [held, answer.busy]);
  if (!step || (!held && !answer.busy)) return answer;
  return { value: step.graph, error: step.error, busy: !held };
}

/** The graph of what is selected; what a dragged handle will want is prepared once it is drawn. */
function useGraph(group: string, pivot: boolean) {
  const p = place.value;
  const query = selection.value + (group ? `&group=${group}` : '') + (p.invert && !pivot ? INVERTED : '');
  const answer = useResting(p.trace, query);
  const there = answer.value !== null && !answer.busy;
  useEffect(() => {
    if (!there || scrubbing.value) return;
    const warm = () => warmUp(p.trace, query);
    const soon = setTimeout(warm, 100); // the graph is drawn first
    const near = (e: PointerEvent) => (e.target as Element).closest?.('.handle') && warm();
    addEventListener('pointerover', near);
    return () => {
      clearTimeout(soon);
      removeEventListener('pointerover', near);
    };
  }, [p.trace, query, there, scrubbing.value]);
  const callers = useAnswer(pivot ? `${p.trace}?${query}&part=callers` : '', () =>
    pivot ? smallFlame(p.trace, `${query}&part=callers`) : Promise.resolve(null),
  );
  return { answer, callers: callers.value };
}

/** Keys of a focused frame; filters that were taken away by Z come back by Shift+Z. */
function useFrameKeys(g: Graph | null): (key: string, node: number) => boolean {
  const p = place.value;
  const [undone, setUndone] = useState<string[][]>([]);
  const undo = () => {
    if (!p.filters.length) return;
    setUndone([...undone, p.filters]);
    go({ filters: p.filters.slice(0, -1), zoom: '' });
  };
  const redo = () => {
    const last = undone[undone.length - 1];
    if (!last) return;
    setUndone(undone.slice(0, -1));
    go({ filters: last, zoom: '' });
  };
  return (key, node) => {
    const name = g && node > 0 && !(g.flags[node] & (MERGED | GROUP)) ? exactly(nameOf(g, node)) : '';
    const filter = (kind: string) => () => name && addFilter(`${kind}:${name}`);
    if (key === 'z' || key === 'Z') {
      (key === 'z' ? undo : redo)();
      return true;
    }
    const acts: Record<string, () => unknown> = {
      k: filter('SS'),
      h: filter('HF'),
      p: filter('P'),
      c: () => go({ collapse: !p.collapse, zoom: '' }),
      e: () => {
        moreOpen.value = true;
        requestAnimationFrame(() => document.getElementById('export')?.click());
      },
    };
    const act = acts[key.toLowerCase()];
    act?.();
    return !!act;
  };
}

function usePageKeys(tracks: Tracks): void {
  useKeys(
    (e) => {
      const m = digit(e, metricsOf(tracks));
      if (m) go({ metric: m.id });
      else if (e.key === 'i' || e.key === 'I') go({ invert: !place.peek().invert, zoom: '' });
      else if (e.key === '/') document.getElementById('search')?.focus();
      else return false;
      return true;
    },
    [tracks],
  );
}

function Line({
  g,
  zoom,
  found,
  onZoom,
}: {
  g: Graph;
  zoom: number;
  found: Matches | null;
  onZoom(node: number): void;
}) {
  const p = place.value;
  return (
    <div class="line">
      <Crumbs graph={g} zoom={zoom} onZoom={onZoom} />
      <span class="grow" />
      <Matched found={found} graph={g} metric={p.metric} />
      {g.total < g.unfiltered && (
        <span>
          root {amount(g.total, p.metric)} of {amount(g.unfiltered, p.metric)} (
          {percent(g.total, g.unfiltered)})
        </span>
      )}
    </div>
  );
}

/** The graph, and over it who calls the pivot. */
function Drawn({
  g,
  callers,
  by,
  ...rest
}: Pick<FlameProps, 'zoom' | 'height' | 'chosen' | 'onZoom' | 'onKey' | 'onMenu' | 'onChoose'> & {
  g: Graph;
  callers: Graph | null;
  by: ColourBy;
}) {
  const p = place.value;
  return (
    <>
      {callers && callers.total > 0 && (
        <Flame
          graph={callers}
          metric={p.metric}
          zoom={0}
          up
          colourBy={by}
          label="Callers"
          onZoom={() => {}}
          searchText={p.search}
          height={Math.min(260, (callers.maxDepth + 1) * 20)}
          onMenu={() => {}}
        />
      )}
      {rest.zoom > 0 && <Minimap g={g} zoom={rest.zoom} by={by} up={p.bottom} onZoom={rest.onZoom} />}
      <Flame
        graph={g}
        metric={p.metric}
        up={p.bottom}
        searchText={p.search}
        colourBy={by}
        label={`Flamegraph, ${amount(g.total, p.metric)}`}
        {...rest}
      />
    </>
  );
}

/** What the colours mean, and what each asked for itself. */
function Legend({ g }: { g: Graph }) {
  const sums = useMemo(() => ownerSums(g), [g]);
  return (
    <ul class="owners" aria-label="Colours: whose code it is">
      {OWNERS.map((o) => (
        <li title={`${o.hint}: ${amount(sums[o.id], place.value.metric)} asked for by these functions`}>
          <i class={o.id} />
          {o.label} <span class="dim">{percent(sums[o.id], g.total)}</span>
        </li>
      ))}
    </ul>
  );
}

/** Stacks of one frame: nothing could be unwound. */
function Flat({ g }: { g: Graph }) {
  const p = place.value;
  if (g.total <= 0 || g.maxDepth > 1 || p.filters.length || g.interval <= 0 || g.n <= 1 || p.frames !== 'all')
    return null;
  return (
    <p class="banner note">
      Stacks have one frame only: there is no unwind information (<code>.eh_frame</code>,{' '}
      <code>.debug_frame</code>, <code>.gnu_debugdata</code>) in {safe(moduleOf(g, 1)) || 'the program'}.
    </p>
  );
}

const colours = (): ColourBy =>
  (['owner', 'module', 'name'] as const).find((c) => c === remembered<string>('flame-colour', '')) ?? 'owner';

/** What the colours of the graph stand for; kept. */
function useColour(): [ColourBy, (by: ColourBy) => void] {
  const [by, setBy] = useState<ColourBy>(colours);
  return [
    by,
    (to) => {
      remember('flame-colour', to);
      setBy(to);
    },
  ];
}

/** The graph with what is told of its chosen frame beside it. */
function Beside({
  tracks,
  g,
  callers,
  by,
  height,
  zoom,
  onZoom,
}: {
  tracks: Tracks;
  g: Graph;
  callers: Graph | null;
  by: ColourBy;
  height?: number;
  zoom: number;
  onZoom(node: number): void;
}) {
  const [chosen, setChosen] = useState({ node: 0 });
  const { onMenu, menu } = useFrameMenu(g, (node) => menuItems(tracks, g, node, onZoom));
  const onKey = useFrameKeys(g);
  const choose = (node: number) => setChosen({ node });
  return (
    <div class="graph-beside">
      <div class="graph">
        <Drawn {...{ g, callers, by, zoom, height, chosen, onZoom, onKey, onMenu }} onChoose={choose} />
        <div class="below">
          <p class="statement">{statement(tracks, g)}</p>
          <MetricNote />
          {by === 'owner' && <Legend g={g} />}
        </div>
      </div>
      <FramePanel
        g={g}
        node={chosen.node < g.n ? chosen.node : 0}
        program={tracks.program}
        onChoose={choose}
        onZoom={onZoom}
        onMenu={onMenu}
      />
      {menu}
    </div>
  );
}

export function Explorer({ tracks, height }: { tracks: Tracks; height?: number }) {
  const p = place.value;
  const pivot = hasPivot(p);
  const group = tracks.parts ? groupOf(p) : p.group;
  const { answer, callers } = useGraph(group, pivot);
  const [by, setBy] = useColour();
  const g = answer.value;
  const { zoom, found, onZoom } = useZoom(g);
  usePageKeys(tracks);
  return (
    <div class="explorer" aria-busy={answer.busy}>
      <GraphBar
        tracks={tracks}
        group={group}
        several={!!tracks.parts}
        problem={g || p.filters.length ? answer.error : ''}
        by={by}
        onBy={setBy}
        onSql={group === 'owner' ? undefined : () => showSql(graphSql(tracks, p.invert, group))}
      />
      {g && <Line g={g} zoom={zoom} found={found} onZoom={onZoom} />}
      {answer.busy && !g && <Busy what="Drawing" />}
      {answer.error && !g && !p.filters.length && <Failed text={answer.error} />}
      {g && g.total <= 0 && <NothingHere g={g} />}
      {g && <Flat g={g} />}
      {g && g.total > 0 && (
        <Beside {...{ tracks, g, by, height, zoom, onZoom }} callers={pivot ? callers : null} />
      )}
    </div>
  );
}

export const FlamePage = ({ tracks, all }: ProfileProps) => (
  <div class="column">
    <SelectionBar tracks={tracks} all={all} sum more={false} />
    <Explorer tracks={tracks} />
  </div>
);
