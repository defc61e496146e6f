// What is known of the chosen frame, and what is done with it most: it stands beside the graph.
import { useMemo } from 'preact/hooks';
import { exactly } from '../app/filters';
import { amount, base, error, exact, fit, isBytes, type Metric, percent, safe } from '../app/format';
import { isSaved } from '../app/server';
import { href, place } from '../app/state';
import { useAnswer } from '../parts/answer';
import { addFilter } from '../parts/filters';
import { errorOf, type Graph, GROUP, MERGED, moduleOf, nameOf } from './graph';
import { OWNERS, ownerOf } from './owner';
import { sourceOf } from './source-of';

/** All that stands below frames of a name, each stack once, and in how many places they are. */
function everywhere(g: Graph, node: number): { sum: number; places: number } {
  let sum = 0;
  let places = 0;
  let until = 0;
  for (let i = 1; i < g.n; i++) {
    if (g.name[i] !== g.name[node] || g.module[i] !== g.module[node]) continue;
    places++;
    if (i >= until) {
      sum += g.cum[i];
      until = g.end[i];
    }
  }
  return { sum, places };
}

function Source({ name }: { name: string }) {
  const trace = place.value.trace;
  const s = useAnswer(`source of ${trace} ${name}`, () => sourceOf(trace, name)).value;
  if (!s) return null;
  return (
    <>
      <dt>Source</dt>
      <dd>
        <a href={href({ page: 'source', view: '', file: s.file, line: s.line })} title={safe(s.file)}>
          {safe(base(s.file))}:{s.line}
        </a>
        {s.more > 0 && <span class="dim"> and {s.more} more</span>}
      </dd>
    </>
  );
}

function Figures({ g, node, m }: { g: Graph; node: number; m: Metric }) {
  const all = useMemo(() => everywhere(g, node), [g, node]);
  const parent = g.parent[node];
  const real = node > 0 && !(g.flags[node] & (MERGED | GROUP));
  const few = g.samples[node] < 10 && errorOf(g, node) > 0;
  return (
    <dl>
      <dt>Total</dt>
      <dd>
        <b>{amount(g.cum[node], m)}</b>
        {isBytes(m) && <span class="dim"> {exact(g.cum[node])} B</span>}
      </dd>
      <dt>Own</dt>
      <dd>{amount(g.self[node], m)}</dd>
      <dt>Share</dt>
      <dd>
        {percent(g.cum[node], g.total)}
        {parent > 0 && <span class="dim"> {percent(g.cum[node], g.cum[parent])} of its caller</span>}
      </dd>
      <dt>Error</dt>
      <dd>
        {error(errorOf(g, node), g.cum[node]) || (g.interval > 0 ? 'exact' : 'unknown')}
        <span class="dim">
          {' '}
          {exact(g.samples[node])} {g.samples[node] === 1 ? 'sample' : 'samples'}
          {few ? ', too few to trust' : ''}
        </span>
      </dd>
      {real && all.places > 1 && (
        <>
          <dt>Everywhere</dt>
          <dd>
            {amount(all.sum, m)}
            <span class="dim"> in {exact(all.places)} places</span>
          </dd>
        </>
      )}
      {real && !isSaved() && <Source name={nameOf(g, node)} />}
    </dl>
  );
}

/** What is done with a frame most; the rest is in its menu. */
function Acts({ name, onZoom, onMenu }: { name: string; onZoom(): void; onMenu(e: MouseEvent): void }) {
  const act = (kind: string) => () => addFilter(`${kind}:${exactly(name)}`);
  return (
    <div class="acts">
      {name && (
        <>
          <button type="button" title="leave out all stacks with this function" onClick={act('HS')}>
            Hide
          </button>
          <button type="button" title="only stacks with this function (K)" onClick={act('SS')}>
            Focus
          </button>
          <button type="button" title="stacks begin at this function" onClick={act('SFF')}>
            Open as root
          </button>
        </>
      )}
      <button
        type="button"
        title="this frame over the whole width (Enter, or a double click)"
        onClick={onZoom}>
        Zoom in
      </button>
      <button
        type="button"
        aria-haspopup="menu"
        title="what else can be done with it (Space)"
        onClick={onMenu}>
        Menu
      </button>
    </div>
  );
}

/** Who calls it, nearest first; each is chosen by a click. */
function Callers({ g, node, onChoose }: { g: Graph; node: number; onChoose(node: number): void }) {
  const m = place.value.metric;
  const all: number[] = [];
  for (let i = g.parent[node]; i > 0; i = g.parent[i]) all.push(i);
  if (!all.length) return null;
  return (
    <>
      <h3>Called by</h3>
      <ol class="callers">
        {all.slice(0, 40).map((i) => (
          <li>
            <button type="button" class="plain" title={safe(nameOf(g, i))} onClick={() => onChoose(i)}>
              {fit(safe(nameOf(g, i)), 60)}
            </button>
            <span class="dim">{amount(g.cum[i], m)}</span>
          </li>
        ))}
      </ol>
      {all.length > 40 && <p class="dim">and {all.length - 40} more up to the root</p>}
    </>
  );
}

export function FramePanel({
  g,
  node,
  program,
  onChoose,
  onZoom,
  onMenu,
}: {
  g: Graph;
  node: number;
  program?: string; // its own module as pages show it
  onChoose(node: number): void;
  onZoom(node: number): void;
  onMenu(node: number, x: number, y: number): void;
}) {
  const flags = g.flags[node];
  const real = node > 0 && !(flags & (MERGED | GROUP));
  const owner = OWNERS.find((o) => o.id === ownerOf(flags))!.label;
  const module = moduleOf(g, node);
  const menu = (e: MouseEvent) => {
    const r = (e.currentTarget as Element).getBoundingClientRect();
    onMenu(node, r.left, r.bottom + 4);
  };
  return (
    <aside class={node > 0 ? 'frame-panel' : 'frame-panel idle'} aria-label="Chosen frame">
      <h2>{node > 0 ? safe(nameOf(g, node)) : 'All'}</h2>
      <button type="button" class="close" aria-label="Close" onClick={() => onChoose(0)}>
        ×
      </button>
      {real && (
        <p class="dim">
          {owner}
          {module !== program && ` · ${safe(base(module)) || 'unknown module'}`}
        </p>
      )}
      <Figures g={g} node={node} m={place.value.metric} />
      {node > 0 ? (
        <Acts name={real ? nameOf(g, node) : ''} onZoom={() => onZoom(node)} onMenu={menu} />
      ) : (
        <p class="dim">Click a frame, or use the arrow keys: it is described here.</p>
      )}
      <Callers g={g} node={node} onChoose={onChoose} />
    </aside>
  );
}
