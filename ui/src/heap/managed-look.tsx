// What frames of a managed heap look like, and what is told of them.
import { amount, count, exact, percent, safe } from '../app/format';
import { hash } from '../app/hash';
import type { Look } from '../graph/draw';
import { type Graph, MERGED, moduleOf, nameOf } from '../graph/graph';
import { type HeapMetric, isSize } from './heap-api';
import { explain } from './heap-parts';

export const NATIVE = 2,
  MANAGED = 128;

/** "[native] a.Bitmap [ROOT_JNI_GLOBAL]" is of the class a.Bitmap. */
export const classOfNode = (name: string) =>
  name.replace(/^\[native\] /, '').replace(/ \[ROOT_[A-Z_]+\]$/, '');

/** Greens to violets by package, a little lightness by class; memory outside of the heap is warm. */
export function managedFill(g: Graph, node: number, dark: boolean): string {
  const name = classOfNode(nameOf(g, node));
  const step = (hash(name) >>> 8) % 10;
  if (g.flags[node] & NATIVE)
    return dark ? `hsl(32 42% ${30 + step * 0.5}%)` : `hsl(32 78% ${76 + step * 0.5}%)`;
  const pack = name.replace(/[.$][^.]*$/, '');
  const hue = 140 + (hash(pack) % 150);
  return dark ? `hsl(${hue} 34% ${30 + step}%)` : `hsl(${hue} 52% ${75 + step}%)`;
}

function Tip({ g, node, m }: { g: Graph; node: number; m: HeapMetric }) {
  const unit = isSize(m) ? 'space' : 'objects';
  const raw = node > 0 && !(g.flags[node] & MERGED) ? moduleOf(g, node) : '';
  const why = explain(nameOf(g, node));
  return (
    <>
      {raw && <div class="dim">recorded as {safe(raw)}</div>}
      {g.flags[node] & NATIVE ? (
        <div class="dim">memory outside of the heap that this class registered: counts as one object</div>
      ) : null}
      {why && <div class="dim">{why}</div>}
      <dl>
        <dt>total</dt>
        <dd>
          {amount(g.cum[node], unit)}{' '}
          <span class="dim">
            {exact(g.cum[node])}
            {isSize(m) && ' B'}
          </span>
        </dd>
        <dt>share</dt>
        <dd>
          {percent(g.cum[node], g.total)} of all
          {g.parent[node] > 0 && `, ${percent(g.cum[node], g.cum[g.parent[node]])} of what is above`}
        </dd>
        <dt>self</dt>
        <dd>{amount(g.self[node], unit)}</dd>
        <dt>objects</dt>
        <dd>{exact(g.samples[node])}</dd>
      </dl>
    </>
  );
}

export function managedLook(g: Graph, m: HeapMetric): Look {
  const unit = isSize(m) ? 'space' : 'objects';
  return {
    fill: (node, dark) => managedFill(g, node, dark),
    mark: () => '',
    hatched: (node) => (g.flags[node] & NATIVE) !== 0,
    say: (node) =>
      `${safe(nameOf(g, node))}, ${amount(g.cum[node], unit)}, ${percent(g.cum[node], g.total)} of all, self ${amount(g.self[node], unit)}, ${count(g.samples[node])} objects`,
    tip: (node) => <Tip g={g} node={node} m={m} />,
  };
}
