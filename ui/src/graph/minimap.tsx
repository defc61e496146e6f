// The whole graph, small, over a zoomed one: where one is, and a way elsewhere.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { safe } from '../app/format';
import { type ColourBy, drawSmall } from './draw';
import { type Graph, nameOf } from './graph';
import { deepestDrawn } from './layout';
import { useRedraw } from './redraw';

/** The node at a place of the whole graph, both in shares of it. */
function nodeAt(g: Graph, x: number, row: number): number {
  const at = x * g.cum[0];
  let node = 0;
  while (g.depth[node] < row) {
    let child = node + 1;
    while (child < g.end[node] && g.begin[child] + g.cum[child] <= at) child = g.end[child];
    if (child >= g.end[node] || g.begin[child] > at) return node;
    node = child;
  }
  return node;
}

export function Minimap({
  g,
  zoom,
  by,
  up,
  onZoom,
}: {
  g: Graph;
  zoom: number;
  by: ColourBy;
  up: boolean;
  onZoom(node: number): void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const looks = useRedraw(canvas);
  const rows = useMemo(() => deepestDrawn(g, 0, 1200) + 1, [g]);
  useEffect(() => {
    const small = { graph: g, colourBy: by, up, rows };
    const frame = requestAnimationFrame(() => drawSmall(canvas.current!, small));
    return () => cancelAnimationFrame(frame);
  }, [g, by, up, rows, looks]);
  const onClick = (e: MouseEvent) => {
    const r = canvas.current!.getBoundingClientRect();
    const y = (e.clientY - r.top) / r.height;
    onZoom(nodeAt(g, (e.clientX - r.left) / r.width, Math.floor((up ? 1 - y : y) * rows)));
  };
  const share = (v: number) => `${(100 * v) / g.cum[0]}%`;
  return (
    <div class="minimap">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`The whole graph; ${safe(nameOf(g, zoom))} is marked`}
        title="the whole graph: click to go elsewhere"
        onClick={onClick}
      />
      <i style={{ left: 0, width: share(g.begin[zoom]) }} />
      <i style={{ left: share(g.begin[zoom] + g.cum[zoom]), right: 0 }} />
      <b style={{ left: share(g.begin[zoom]), width: `max(2px, ${share(g.cum[zoom])})` }} />
    </div>
  );
}
