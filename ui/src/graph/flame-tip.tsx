// What is told of the frame under the pointer.
import { useEffect, useRef } from 'preact/hooks';
import { amount, count, error, exact, isBytes, type Metric, percent, safe } from '../app/format';
import type { Look } from './draw';
import { ALLOCATOR, errorOf, type Graph, moduleOf, nameOf, STD } from './graph';

export function describe(g: Graph, i: number, m: Metric): string {
  return `${safe(nameOf(g, i))}, ${amount(g.cum[i], m)}, ${percent(g.cum[i], g.total)} of all, self ${amount(g.self[i], m)}`;
}

interface Place {
  node: number;
  merged: number;
  x: number;
  y: number;
}

/** Stands beside the pointer, within the window. */
function useBeside(x: number, y: number) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const el = box.current!;
    const r = el.getBoundingClientRect();
    el.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - r.width - 8))}px`;
    el.style.top = `${y + 18 + r.height > innerHeight ? Math.max(4, y - r.height - 10) : y + 18}px`;
  });
  return box;
}

function Facts({ g, node, m }: { g: Graph; node: number; m: Metric }) {
  const parent = g.parent[node];
  return (
    <dl>
      <dt>total</dt>
      <dd>
        {amount(g.cum[node], m)} {error(errorOf(g, node), g.cum[node])}
        {isBytes(m) && <span class="dim"> {exact(g.cum[node])} B</span>}
      </dd>
      <dt>share</dt>
      <dd>
        {percent(g.cum[node], g.total)} of all
        {parent > 0 && `, ${percent(g.cum[node], g.cum[parent])} of caller`}
      </dd>
      <dt>self</dt>
      <dd>{amount(g.self[node], m)}</dd>
      <dt>samples</dt>
      <dd>
        {exact(g.samples[node])}
        {g.samples[node] < 10 && errorOf(g, node) > 0 ? ' – too few to trust' : ''}
      </dd>
    </dl>
  );
}

export function Tip({ g, at, m, look }: { g: Graph; at: Place; m: Metric; look?: Look }) {
  const { node, merged } = at;
  const box = useBeside(at.x, at.y);
  const flags = g.flags[node];
  if (merged > 0)
    return (
      <div class="tip" ref={box}>
        <b>{count(merged)} boxes too narrow to draw</b>
        <div>zoom in to see them</div>
      </div>
    );
  return (
    <div class="tip" ref={box}>
      <b>{safe(nameOf(g, node))}</b>
      {node > 0 && (
        <div class="dim">
          {safe(moduleOf(g, node)) || 'unknown module'}
          {flags & ALLOCATOR ? ' · allocator' : flags & STD ? ' · library' : ''}
        </div>
      )}
      {look ? look.tip(node) : <Facts g={g} node={node} m={m} />}
    </div>
  );
}
