// A zoom on its way from one node to another.
import { useEffect, useRef } from 'preact/hooks';
import type { Graph } from './graph';
import { between, type Stretch, stretchOf } from './layout';

const LASTS = 180; // ms

const still = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
const eased = (t: number) => 1 - (1 - t) ** 3;

/** Tells, frame by frame, what of the graph is seen on the way; null: it is there. */
export function useMotion(g: Graph, zoom: number): (now: number) => Stretch | null {
  const from = useRef<{ g: Graph; zoom: number; stretch: Stretch; began: number } | null>(null);
  const last = useRef({ g, zoom });
  if (last.current.g !== g) from.current = null;
  else if (last.current.zoom !== zoom && !still())
    from.current = { g, zoom, stretch: stretchOf(g, last.current.zoom), began: 0 };
  last.current = { g, zoom };
  useEffect(() => () => void (from.current = null), []);
  return (now) => {
    const m = from.current;
    if (!m) return null;
    m.began ||= now;
    const t = (now - m.began) / LASTS;
    if (t < 1) return between(m.stretch, stretchOf(m.g, m.zoom), eased(t));
    from.current = null;
    return null;
  };
}
