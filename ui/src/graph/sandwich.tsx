// A function between its callers and what it calls.
import { useEffect, useState } from 'preact/hooks';
import { exactly } from '../app/filters';
import { fit, safe } from '../app/format';
import { selection } from '../app/selection';
import { go, place } from '../app/state';
import { useAnswer } from '../parts/answer';
import { Failed } from '../parts/words';
import { Flame } from './flame';
import { type Graph, MERGED, nameOf } from './graph';
import { smallFlame } from './graphs';

export function Sandwich({ name }: { name: string }) {
  const p = place.value;
  const q = new URLSearchParams(selection.value);
  const filters = p.filters.filter((f) => !/^!?(P|SFF):/.test(f));
  q.set('filters', [...filters, `P:${exactly(name)}`].join('\n'));
  const query = q.toString();
  const callees = useAnswer(`${p.trace}?${query}`, () =>
    name ? smallFlame(p.trace, query) : Promise.resolve(null),
  );
  const callers = useAnswer(`${p.trace}?${query}&part=callers`, () =>
    name ? smallFlame(p.trace, `${query}&part=callers`) : Promise.resolve(null),
  );
  if (!name) return null;
  const height = (g: Graph) => Math.min(320, (g.maxDepth + 1) * 20);
  return (
    <aside class="column sandwich" aria-label={`Callers and callees of ${safe(name)}`}>
      <h2 title={safe(name)}>{fit(safe(name), 60)}</h2>
      {callers.error && <Failed text={callers.error} />}
      <h3>Called by</h3>
      {callers.value && callers.value.total > 0 && (
        <Graphlet
          graph={callers.value}
          height={height(callers.value)}
          up
          label={`Callers of ${safe(name)}`}
        />
      )}
      <h3>Calls and allocates</h3>
      {callees.value && callees.value.total > 0 && (
        <Graphlet graph={callees.value} height={height(callees.value)} label={`Callees of ${safe(name)}`} />
      )}
      <div class="bar">
        <button
          type="button"
          onClick={() => go({ page: 'flame', filters: [...filters, `P:${exactly(name)}`], zoom: '' })}>
          Open as pivot
        </button>
        <button
          type="button"
          onClick={() => go({ page: 'flame', filters: [...filters, `SS:${exactly(name)}`], zoom: '' })}>
          Stacks with it
        </button>
      </div>
    </aside>
  );
}

function Graphlet({
  graph,
  height,
  up,
  label,
}: {
  graph: Graph;
  height: number;
  up?: boolean;
  label: string;
}) {
  const [zoom, setZoom] = useState(0);
  useEffect(() => setZoom(0), [graph]);
  return (
    <Flame
      graph={graph}
      metric={place.value.metric}
      zoom={zoom < graph.n ? zoom : 0}
      up={up}
      height={height}
      label={label}
      onZoom={setZoom}
      onMenu={(node) =>
        node > 0 && !(graph.flags[node] & MERGED) && zoom === node && go({ fn: nameOf(graph, node) })
      }
    />
  );
}
