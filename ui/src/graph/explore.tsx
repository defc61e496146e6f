// The page's graph with everything around it: toolbar, filters, breadcrumb, menu, pivot.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { abandon, flame, query, save, smallFlame, type Tracks } from '../app/api';
import { Flame, stackText } from './flame';
import { amount, clock, error, fit, METRICS, percent, safe } from '../app/format';
import { find, type Graph, GROUP, MERGED, moduleOf, nameOf, path, search } from './graph';
import { addFilter, Busy, Choice, ExportButton, exactly, Failed, FilterBar, heapsWord, type Item, Menu, MetricChoice, isTyping, nameOfTracks, useAnswer, useFollowing } from '../parts/parts';
import { graphSql, nodeSql, quote, showSql } from '../parts/show-sql';
import { go, INVERTED, place, scrubbing, selection } from '../app/state';
import { STABLE, warmUp } from './warm';

const SEPARATOR = '\u001f';
export const zoomOf = (names: string[]) => names.join(SEPARATOR);

/** What is drawn, in words. */
export function statement(t: Tracks, g: Graph): string {
  const p = place.value;
  const words = { space: 'live', objects: 'live allocations', alloc_space: 'allocated', alloc_objects: 'allocations made' }[p.metric];
  const end = clock(g.ts - t.start);
  const when = p.from
    ? p.metric === 'space' || p.metric === 'objects'
      ? `Growth between ${clock(Number(p.from) - t.start)} and ${end} (stacks that shrank are left out)`
      : `Allocated between ${clock(Number(p.from) - t.start)} and ${end}`
    : p.metric === 'space' || p.metric === 'objects' ? `Live at ${end}` : `Ever allocated until ${end}`;
  return `${when} · ${t.parts ? nameOfTracks(t) : `process ${t.pid} ${safe(t.name)}`} · ${p.heap ? `heap ${safe(p.heap)}` : heapsWord(t)} · ${words}: ${amount(g.total, p.metric)} ${error(g.error, g.total)}${p.invert ? ' · bottom-up: below 0.01 % merged' : ''}`;
}

export function menuItems(t: Tracks, g: Graph, node: number, onZoom: (n: number) => void): (Item | null)[] {
  const name = nameOf(g, node);
  const module = moduleOf(g, node);
  const copy = (text: string) => void navigator.clipboard?.writeText(text);
  if (g.flags[node] & GROUP && place.peek().group === 'heap')
    return [{ label: 'Zoom in', key: '↵', act: () => onZoom(node) }, { label: 'Keep this heap', act: () => addFilter(`H:${exactly(name)}`) }, { label: 'Hide this heap', act: () => addFilter(`!H:${exactly(name)}`) }];
  const only = g.flags[node] & GROUP ? t.parts?.find((x) => `${x.name} (${x.pid})` === name) : undefined;
  if (only) return [{ label: 'Zoom in', key: '↵', act: () => onZoom(node) }, { label: 'Only this process', act: () => go({ upid: only.upid, with: '', zoom: '' }) }];
  if (node === 0 || g.flags[node] & (MERGED | GROUP)) return [{ label: 'Zoom in', key: '↵', act: () => onZoom(node) }];
  return [
    { label: 'Zoom in', key: '↵', act: () => onZoom(node) },
    { label: 'Show from here', act: () => addFilter(`SFF:${exactly(name)}`) },
    { label: 'Pivot: callers and callees', key: 'P', act: () => addFilter(`P:${exactly(name)}`) },
    null,
    { label: 'Keep stacks with this', key: 'K', act: () => addFilter(`SS:${exactly(name)}`) },
    { label: 'Hide stacks with this', act: () => addFilter(`HS:${exactly(name)}`) },
    { label: 'Merge into its caller', key: 'H', act: () => addFilter(`HF:${exactly(name)}`) },
    ...(module ? [{ label: 'Keep stacks in this module', act: () => addFilter(`M:${exactly(module)}`) }, { label: 'Hide stacks in this module', act: () => addFilter(`!M:${exactly(module)}`) }] : []),
    null,
    { label: 'Allocation sizes here', act: () => go({ page: 'sizes', filters: [...place.peek().filters.filter((f) => !/^!?P:/.test(f)), `SS:${exactly(name)}`] }) },
    { label: 'Find in another dump: differences', act: () => go({ page: 'diff', filters: [...place.peek().filters.filter((f) => !/^!?P:/.test(f)), `SS:${exactly(name)}`] }) },
    { label: 'Source', act: () => void toSource(name) },
    { label: 'Instructions', act: () => go({ page: 'source', view: 'code', fn: name }) },
    ...(place.peek().group === 'module' || t.parts ? [] : [{ label: 'SQL for this stack', act: () => showSql(nodeSql(t, g, node)) }]),
    { label: 'Functions: callers and callees', act: () => go({ page: 'functions', fn: name, zoom: '' }) },
    null,
    { label: 'Copy name', act: () => copy(name) },
    { label: 'Copy stack', act: () => copy(stackText(g, node)) },
    { label: 'Copy stack with figures (Markdown)', act: () => copy(markdown(g, node)) },
    { label: 'Copy link to this view', act: () => copy(location.href) },
  ];
}

/** The stack as a table, root first. */
function markdown(g: Graph, node: number): string {
  const m = place.peek().metric;
  const rows: string[] = [];
  for (let i = node; i > 0; i = g.parent[i])
    rows.unshift(`| ${safe(nameOf(g, i)).replace(/\|/g, '\\|')} | ${amount(g.cum[i], m)} ${error(g.err[i], g.cum[i])} | ${percent(g.cum[i], g.total)} | ${amount(g.self[i], m)} |`);
  return `| function | total | share | self |\n|---|--:|--:|--:|\n${rows.join('\n')}\n`;
}

/** The file that the function's symbols name. */
export async function toSource(name: string): Promise<void> {
  const r = await query(place.peek().trace, `select source_file, min(line_number) from stack_profile_symbol where source_file is not null and name = ${quote(name)} group by 1 limit 1`);
  const row = r.results[0]?.rows[0];
  go({ page: 'source', view: '', file: row ? String(row[0]) : '', line: row ? String(row[1]) : '' });
}

function picture(): void {
  const canvas = document.querySelector<HTMLCanvasElement>('.flame canvas');
  canvas?.toBlob((b) => b && save(b, 'heap.png'));
}

export function Explorer({ tracks, height }: { tracks: Tracks; height?: number }) {
  const p = place.value;
  const pivot = p.filters.some((f) => /^!?P:/.test(f));
  const group = p.group || (tracks.parts ? 'process' : '');
  const query = selection.value + (group ? `&group=${group}` : '') + (p.invert && !pivot ? INVERTED : scrubbing.value ? STABLE : '');
  useEffect(() => abandon(p.trace, query), [p.trace, query]);
  const answer = useFollowing(`${p.trace}?${query}`, () => flame(p.trace, query));
  const there = answer.value !== null && !answer.busy;
  useEffect(() => {
    if (!there || scrubbing.value) return;
    const warm = () => warmUp(p.trace, query);
    const soon = setTimeout(warm, 100); // the graph is drawn first
    const near = (e: PointerEvent) => (e.target as Element).closest?.('.handle') && warm();
    addEventListener('pointerover', near);
    return () => { clearTimeout(soon); removeEventListener('pointerover', near); };
  }, [p.trace, query, there, scrubbing.value]);
  const callers = useAnswer(pivot ? `${p.trace}?${query}&part=callers` : '', () =>
    pivot ? smallFlame(p.trace, `${query}&part=callers`) : Promise.resolve(null));
  const [menu, setMenu] = useState<{ node: number; x: number; y: number } | null>(null);
  const [by, setBy] = useState<'module' | 'name'>('name');
  const [undone, setUndone] = useState<string[][]>([]);
  const g = answer.value;
  const zoom = useMemo(() => (g && p.zoom ? find(g, p.zoom.split(SEPARATOR)) : 0), [g, p.zoom]);
  const found = useMemo(() => (g ? search(g, p.search) : null), [g, p.search]);
  const onZoom = (node: number) => g && node < g.n && go({ zoom: zoomOf(path(g, node)) });

  const onKey = (key: string, node: number): boolean => {
    const name = g && node > 0 && !(g.flags[node] & (MERGED | GROUP)) ? exactly(nameOf(g, node)) : '';
    switch (key) {
      case 'k': case 'K': if (name) addFilter(`SS:${name}`); return true;
      case 'h': case 'H': if (name) addFilter(`HF:${name}`); return true;
      case 'p': case 'P': if (name) addFilter(`P:${name}`); return true;
      case 'c': case 'C': go({ collapse: !p.collapse, zoom: '' }); return true;
      case 'e': case 'E': document.getElementById('export')?.click(); return true;
      case 'z':
        if (p.filters.length) {
          setUndone([...undone, p.filters]);
          go({ filters: p.filters.slice(0, -1), zoom: '' });
        }
        return true;
      case 'Z': {
        const last = undone[undone.length - 1];
        if (last) {
          setUndone(undone.slice(0, -1));
          go({ filters: last, zoom: '' });
        }
        return true;
      }
    }
    return false;
  };
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || isTyping(e)) return;
      const m = METRICS['1234'.indexOf(e.key)];
      if (e.key.length === 1 && m && '1234'.includes(e.key)) go({ metric: m.id });
      else if (e.key === 'i' || e.key === 'I') go({ invert: !place.peek().invert, zoom: '' });
      else if (e.key === '/') document.getElementById('search')?.focus();
      else return;
      e.preventDefault();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);

  const crumbs: { node: number; name: string }[] = [];
  if (g) for (let i = zoom; i > 0; i = g.parent[i]) crumbs.unshift({ node: i, name: nameOf(g, i) });
  return (
    <div class="explorer" aria-busy={answer.busy}>
      <div class="bar">
        <MetricChoice />
        <Choice label="Direction" value={p.invert ? 'up' : 'down'} onChange={(v) => go({ invert: v === 'up', zoom: '' })}
          options={[{ id: 'down', label: 'Top-down' }, { id: 'up', label: 'Bottom-up', hint: 'who allocates, and who calls them (I)' }]} />
        <Choice label="Frames" value={p.frames} onChange={(frames) => go({ frames, zoom: '' })}
          options={[{ id: 'site', label: 'Your code', hint: 'stacks end at the function that asked: allocator and container frames are cut off' }, { id: 'all', label: 'All frames' }]} />
        <button type="button" aria-pressed={p.collapse} class="toggle" title="a function that calls itself is one frame (C)" onClick={() => go({ collapse: !p.collapse, zoom: '' })}>Collapse recursion</button>
        <label>Group <select aria-label="Group by" value={group} title="a box for each below the root" onChange={(e) => go({ group: e.currentTarget.value, zoom: '' })}>
          {tracks.parts ? <option value="process">process</option> : <option value="">none</option>}<option value="module">module that asked</option><option value="heap">heap</option>
          <option disabled>thread: not in heap samples</option><option disabled>type: not in heap samples</option>
        </select></label>
        <button type="button" aria-pressed={p.bottom} class="toggle" title="the root stands at the bottom" onClick={() => go({ bottom: !p.bottom }, true)}>Root below</button>
      </div>
      <FilterBar problem={g || p.filters.length ? answer.error : ''}>
        <Choice label="Colour" value={by} onChange={(v: "module" | "name") => setBy(v)} options={[{ id: 'module', label: 'By module' }, { id: 'name', label: 'By function' }]} />
        <input id="search" type="search" aria-label="Search" placeholder="Search  (/)" value={p.search} onInput={(e) => go({ search: e.currentTarget.value }, true)}
          onKeyDown={(e) => (e.key === 'Enter' || e.key === 'Escape') && document.querySelector<HTMLElement>('.flame canvas')?.focus()} />
        <ExportButton picture={picture} />
        <button type="button" title="the query that gives these numbers" onClick={() => showSql(graphSql(tracks, p.invert, group))}>SQL</button>
      </FilterBar>
      {g && (
        <div class="line">
          <nav class="crumbs" aria-label="Zoom">
            <button type="button" disabled={zoom === 0} onClick={() => go({ zoom: '' })}>all</button>
            {crumbs.slice(-5).map((c) => <><span aria-hidden="true">›</span><button type="button" disabled={c.node === zoom} title={safe(c.name)} onClick={() => onZoom(c.node)}>{fit(safe(c.name), 36)}</button></>)}
          </nav>
          <span class="grow" />
          {found && p.search && <span class="match">{found.nodes.length} matches, {amount(found.sum, p.metric)} ({percent(found.sum, g.total)})</span>}
          {g.total < g.unfiltered && <span>root {amount(g.total, p.metric)} of {amount(g.unfiltered, p.metric)} ({percent(g.total, g.unfiltered)})</span>}
        </div>
      )}
      {answer.busy && !g && <Busy what="Drawing" />}
      {answer.error && !g && !p.filters.length && <Failed text={answer.error} />}
      {g && g.total <= 0 && (
        <div class="empty">
          <p>{p.filters.length && g.unfiltered > 0 ? `Filters hide 100 % (${amount(g.unfiltered, p.metric)})` : p.from ? 'Nothing grew in this interval.' : p.metric.startsWith('alloc') ? 'No allocations were sampled here.' : 'Nothing is live here.'}</p>
          {p.filters.length > 0 && <p><button type="button" onClick={() => go({ filters: p.filters.slice(0, -1), zoom: '' })}>Take the last away</button> <button type="button" onClick={() => go({ filters: [], zoom: '' })}>Take all away</button></p>}
          {!p.filters.length && g.unfiltered <= 0 && <p class="dim">Too short, idle before the recording began, or allocations much smaller than the interval ({amount(g.interval, 'space')}): <code>heapwise doctor</code> checks the machine, <a href={`#!/info?trace=${p.trace}`}>Info</a> tells what the recorder saw.</p>}
          {!p.from && !p.filters.length && <button type="button" onClick={() => go({ at: 'peak', max: false })}>Show the peak</button>}
        </div>
      )}
      {g && g.total > 0 && g.maxDepth <= 1 && !p.filters.length && g.interval > 0 && g.n > 1 && p.frames === 'all' && <p class="banner note">Stacks have one frame only: there is no unwind information (<code>.eh_frame</code>, <code>.debug_frame</code>, <code>.gnu_debugdata</code>) in {safe(moduleOf(g, 1)) || 'the program'}.</p>}
      {g && g.total > 0 && (
        <>
          {pivot && callers.value && callers.value.total > 0 && (
            <Flame graph={callers.value} metric={p.metric} zoom={0} up colourBy={by} label="Callers" onZoom={() => {}} searchText={p.search}
              height={Math.min(260, (callers.value.maxDepth + 1) * 20)} onMenu={() => {}} />
          )}
          <Flame graph={g} metric={p.metric} zoom={zoom} up={p.bottom} searchText={p.search} colourBy={by} height={height} label={`Flamegraph, ${amount(g.total, p.metric)}`}
            onZoom={onZoom} onKey={onKey} onMenu={(node, x, y) => setMenu({ node, x, y })} />
          <p class="statement">{statement(tracks, g)}</p>
        </>
      )}
      {menu && g && menu.node < g.n && <Menu title={fit(safe(nameOf(g, menu.node)), 60)} x={menu.x} y={menu.y} onClose={() => setMenu(null)} items={menuItems(tracks, g, menu.node, onZoom)} />}
    </div>
  );
}
