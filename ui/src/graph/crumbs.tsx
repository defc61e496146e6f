// The line over a flamegraph: where it is zoomed to, and what the search found.
import { amount, fit, type Metric, percent, safe } from '../app/format';
import { go, place } from '../app/state';
import { type Graph, type Matches, nameOf } from './graph';

/** The last five of the nodes from the root to the one that is zoomed to. */
export function Crumbs({
  graph,
  zoom,
  onZoom,
  width = 36,
}: {
  graph: Graph;
  zoom: number;
  onZoom(node: number): void;
  width?: number;
}) {
  const nodes: number[] = [];
  for (let i = zoom; i > 0; i = graph.parent[i]) nodes.unshift(i);
  return (
    <nav class="crumbs" aria-label="Zoom">
      <button type="button" disabled={zoom === 0} onClick={() => go({ zoom: '' })}>
        all
      </button>
      {nodes.slice(-5).map((c) => (
        <>
          <span aria-hidden="true">›</span>
          <button
            type="button"
            disabled={c === zoom}
            title={safe(nameOf(graph, c))}
            onClick={() => onZoom(c)}>
            {fit(safe(nameOf(graph, c)), width)}
          </button>
        </>
      ))}
    </nav>
  );
}

export const Matched = ({ found, graph, metric }: { found: Matches | null; graph: Graph; metric: Metric }) =>
  found && place.value.search ? (
    <span class="match">
      {found.nodes.length} matches, {amount(found.sum, metric)} ({percent(found.sum, graph.total)})
    </span>
  ) : null;

/** The field for what is searched in the graph; Enter and Escape lead back to it. */
export const GraphSearch = ({ placeholder = 'Search  (/)' }: { placeholder?: string }) => (
  <input
    id="search"
    type="search"
    aria-label="Search"
    placeholder={placeholder}
    value={place.value.search}
    onInput={(e) => go({ search: e.currentTarget.value }, true)}
    onKeyDown={(e) =>
      (e.key === 'Enter' || e.key === 'Escape') &&
      document.querySelector<HTMLElement>('.flame canvas')?.focus()
    }
  />
);
