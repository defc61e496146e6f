// The graph as screen readers have it: a tree, of which what is near the focused frame is here. Its items
// stand in the canvas, which shows them to nobody else; arrow keys move the focus from one to another
// (flame.tsx).
import { useMemo, useRef } from 'preact/hooks';
import type { Graph } from './graph';

/** So many siblings on each side, and so many callees: a frame may have a hundred thousand. */
const NEAR = 12;

interface Item {
  node: number;
  place: number; // among its siblings, from 1
  of: number;
}

/** Children of a node: those near one of them, or else the first. */
export function childrenNear(g: Graph, parent: number, child = 0): Item[] {
  let n = 0;
  let at = 0;
  for (let i = parent + 1; i < g.end[parent]; i = g.end[i]) {
    n++;
    if (i === child) at = n;
  }
  const out: Item[] = [];
  let place = 1;
  for (let i = parent + 1; i < g.end[parent] && place <= at + NEAR; i = g.end[i]) {
    if (place >= at - NEAR) out.push({ node: i, place, of: n });
    place++;
  }
  return out;
}

const NONE: Item[] = [];

/** The caller, the frame between its siblings, and below it what it calls. */
function near(g: Graph, focus: number): Item[] {
  const parent = g.parent[focus];
  const siblings = parent < 0 ? [{ node: focus, place: 1, of: 1 }] : childrenNear(g, parent, focus);
  const at = siblings.findIndex((x) => x.node === focus);
  const above =
    parent < 0
      ? NONE
      : g.parent[parent] < 0
        ? [{ node: parent, place: 1, of: 1 }]
        : childrenNear(g, g.parent[parent], parent).filter((x) => x.node === parent);
  return [...above, ...siblings.slice(0, at + 1), ...childrenNear(g, focus), ...siblings.slice(at + 1)];
}

/** The items; `say` gives name, size and share of a frame. */
export function FrameTree({
  g,
  focus,
  id,
  held,
  say,
  onChoose,
}: {
  g: Graph;
  focus: number;
  id: string;
  held: boolean; // by a hand that drags: nobody reads what is gone with the next step
  say(node: number): string;
  onChoose(node: number): void;
}) {
  const resting = useRef({ g, focus, say });
  if (!held) resting.current = { g, focus, say };
  ({ g, focus, say } = resting.current);
  return useMemo(
    () => (
      <>
        {near(g, focus).map((x) => (
          <div
            role="treeitem"
            key={x.node}
            id={`${id}-${x.node}`}
            class={x.node === focus ? 'sr' : undefined}
            aria-level={g.depth[x.node] + 1}
            aria-posinset={x.place}
            aria-setsize={x.of}
            aria-selected={x.node === focus}
            aria-expanded={g.end[x.node] > x.node + 1 ? true : undefined}
            onClick={(e) => {
              e.stopPropagation(); // a click on the canvas has a place
              onChoose(x.node);
            }}>
            {say(x.node)}
          </div>
        ))}
      </>
    ),
    [g, focus, say],
  );
}
