// The flamegraph: one canvas, one component, used on its own page, in the sandwich and below the
// timeline. layout.ts says where boxes stand, draw.ts draws them; this file knows pointer and keys.
import {
  type MutableRef,
  useCallback,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'preact/hooks';
import { type Metric, safe } from '../app/format';
import { scrubbing } from '../app/selection';
import { type ColourBy, draw, type Look } from './draw';
import { describe, Tip } from './flame-tip';
import { FrameTree } from './frame-tree';
import { find, type Graph, type Matches, path, search } from './graph';
import { type Box, deepestDrawn, ROW } from './layout';
import { type Canvas, useRedraw } from './redraw';
import { useMotion } from './motion';

export interface FlameProps {
  graph: Graph;
  metric: Metric;
  zoom: number;
  searchText?: string;
  colourBy?: ColourBy;
  up?: boolean; // root at the bottom: callers grow upwards
  height?: number; // of the part that is seen; none: what fits the window
  label: string;
  look?: Look;
  outlined?: number; // the node that the pointer is on in a graph beside this one
  /** What is told of the chosen frame stands beside the graph: a click chooses, and opens no menu. */
  chosen?: { node: number };
  onChoose?(node: number): void;
  onHover?(node: number): void;
  onZoom(node: number): void;
  onMenu?(node: number, x: number, y: number): void;
  onKey?(key: string, node: number): boolean;
}

/** Draws once a frame; gives the boxes that pointers are tested against. */
function useDrawing(
  canvas: Canvas,
  p: FlameProps,
  s: { focus: number; hover: number; found: Matches | null; top: number },
): MutableRef<Box[]> {
  const boxes = useRef<Box[]>([]);
  const looks = useRedraw(canvas);
  const g = p.graph;
  const stretchNow = useMotion(g, p.zoom);
  // Before the next frame, not after it: what is said of the graph is never painted without it.
  useLayoutEffect(() => {
    let frame = requestAnimationFrame(function step(now) {
      const begin = performance.now();
      const moving = stretchNow(now);
      boxes.current = draw(canvas.current!, { ...p, ...s, moving });
      const took = performance.now() - begin;
      // What bench/pages and tests read.
      const data = canvas.current!.dataset;
      if (moving) {
        data.moved = String(Number(data.moved ?? 0) + 1);
        frame = requestAnimationFrame(step);
      }
      data.firstMs ??= took.toFixed(2);
      data.drawMs = took.toFixed(2);
      data.decodeMs = g.decodeMs.toFixed(2);
      data.nodes = String(g.n);
      data.key = `${g.ts} ${g.total}`;
    });
    return () => cancelAnimationFrame(frame);
  }, [g, p.zoom, p.metric, p.colourBy, p.height, p.outlined, s.focus, s.hover, s.found, s.top, looks]);
  return boxes;
}

/** The frame that has the keys' attention, and how keys lead from one to another. */
interface Hand {
  p: FlameProps;
  focus: number;
  found: Matches | null;
  page: number;
  show(node: number): void;
  scroll(by: number): void;
  menu(): void;
}

const inZoom = (p: FlameProps, node: number) => node >= p.zoom && node < p.graph.end[p.zoom];

function next({ p, focus, show }: Hand): void {
  const g = p.graph;
  const to = g.end[focus];
  if (focus > 0 && to < g.end[g.parent[focus]] && inZoom(p, to)) show(to);
}

function previous({ p, focus, show }: Hand): void {
  const g = p.graph;
  if (focus <= 0) return;
  let at = g.parent[focus] + 1;
  if (at === focus || !inZoom(p, at)) return;
  while (g.end[at] < focus) at = g.end[at];
  show(at);
}

function jump({ p, focus, found, show }: Hand, step: number): void {
  if (!found?.nodes.length) return;
  let k = found.nodes.findIndex((x) => x > focus);
  if (step < 0) k = (k < 0 ? found.nodes.length : k) - (found.nodes.includes(focus) ? 2 : 1);
  const node = found.nodes[(k + found.nodes.length) % found.nodes.length];
  if (!inZoom(p, node)) p.onZoom(0);
  show(node);
}

/** Does what a key says; false: it says nothing here. */
function pressed(key: string, h: Hand): boolean {
  const { p, focus } = h;
  const g = p.graph;
  const caller = () => focus > 0 && h.show(g.parent[focus]);
  const callee = () => focus + 1 < g.end[focus] && h.show(focus + 1);
  const out = () => p.zoom > 0 && p.onZoom(g.parent[p.zoom]);
  const acts: Record<string, () => unknown> = {
    ArrowUp: p.up ? callee : caller,
    ArrowDown: p.up ? caller : callee,
    ArrowRight: () => next(h),
    ArrowLeft: () => previous(h),
    PageDown: () => h.scroll(h.page),
    PageUp: () => h.scroll(-h.page),
    Home: () => h.show(p.zoom),
    Enter: () => p.onZoom(focus),
    Escape: out,
    Backspace: out,
    n: () => jump(h, 1),
    N: () => jump(h, -1),
    ' ': h.menu,
    ContextMenu: h.menu,
  };
  if (!acts[key]) return p.onKey?.(key, focus) ?? false;
  acts[key]();
  return true;
}

/** What pointers do on the canvas. */
function pointing(
  p: FlameProps,
  at: (e: MouseEvent) => Box | undefined,
  show: (node: number) => void,
  setTip: (t: TipPlace | null) => void,
) {
  return {
    onPointerMove(e: PointerEvent) {
      const b = at(e);
      setTip(b ? { node: b.node, merged: b.merged, x: e.clientX, y: e.clientY } : null);
    },
    onPointerLeave: () => setTip(null),
    onClick(e: MouseEvent) {
      const b = at(e);
      if (b && b.merged === 0) {
        show(b.node);
        if (!p.onChoose) p.onMenu?.(b.node, e.clientX, e.clientY);
      } else if (b) p.onZoom(p.graph.parent[b.node]);
    },
    onContextMenu(e: MouseEvent) {
      const b = at(e);
      if (!b || b.merged || !p.onMenu) return;
      e.preventDefault();
      show(b.node);
      p.onMenu(b.node, e.clientX, e.clientY);
    },
    onDblClick(e: MouseEvent) {
      const b = at(e);
      if (b) p.onZoom(b.node);
    },
  };
}

/** The box under the pointer. */
function boxAt(canvas: HTMLCanvasElement, boxes: Box[], e: MouseEvent): Box | undefined {
  const r = canvas.getBoundingClientRect();
  const x = e.clientX - r.left;
  const y = e.clientY - r.top;
  return boxes.find((b) => y >= b.y && y < b.y + ROW && x >= b.x && x < b.x + b.w);
}

interface TipPlace {
  node: number;
  merged: number;
  x: number;
  y: number;
}

/** The graph's rows and how far they are scrolled. Never taller than the window: canvases end at 32767 px,
 * and rows out of sight cost time. */
function useRows(canvas: Canvas, p: FlameProps) {
  const g = p.graph;
  const [top, setTop] = useState(0);
  const width = canvas.current?.clientWidth ?? 0;
  const depth = useMemo(() => (width ? deepestDrawn(g, p.zoom, width) : g.maxDepth), [g, p.zoom, width]) + 1;
  const height = Math.min(depth * ROW, p.height ?? Math.max(16 * ROW, innerHeight - 290));
  const most = Math.max(0, depth * ROW - height);
  const within = (t: number) => Math.max(0, Math.min(most, t));
  useEffect(() => setTop((t) => Math.min(t, most)), [g, p.zoom, most]);
  return {
    top,
    depth,
    height,
    most,
    scroll: (by: number) => setTop((t) => within(t + by)),
    reveal: (node: number) =>
      setTop((t) => within(Math.min(g.depth[node] * ROW, Math.max(t, (g.depth[node] + 1) * ROW - height)))),
    onWheel(e: WheelEvent) {
      if (most === 0 || e.ctrlKey) return;
      const to = within(top + (p.up ? -e.deltaY : e.deltaY));
      if (to === top) return;
      e.preventDefault();
      setTop(to);
    },
  };
}

/** The frame that has the keys' attention: where the graph is zoomed to, until another is chosen. In the
 * graph of another moment or metric it is the one with the same stack. */
function useFocus(p: FlameProps): [number, (node: number) => void] {
  const g = p.graph;
  const [focus, set] = useState(0);
  const before = useRef({ g, zoom: p.zoom, names: [] as string[] });
  useEffect(() => {
    const was = before.current;
    const again = was.g !== g && was.names.length ? find(g, was.names) : 0;
    const at = again || p.zoom;
    before.current = { g, zoom: p.zoom, names: path(g, at) };
    set(at);
    p.onChoose?.(at);
  }, [g, p.zoom]);
  return [
    focus < g.n ? focus : 0,
    (node) => {
      before.current.names = path(g, node);
      set(node);
      p.onChoose?.(node);
    },
  ];
}

/** What is said of a frame: its name, size and share. */
const useWords = ({ graph, look, metric }: FlameProps) =>
  useCallback((i: number) => (look ? look.say(i) : describe(graph, i, metric)), [graph, look, metric]);

export function Flame(p: FlameProps) {
  const g = p.graph;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [focus, setFocus] = useFocus(p);
  const [tip, setTip] = useState<TipPlace | null>(null);
  const found = useMemo(() => search(g, p.searchText ?? ''), [g, p.searchText]);
  const { top, depth, height, most, scroll, reveal, onWheel } = useRows(canvas, p);
  const hover = tip ? tip.node : -1;
  const id = useId();
  const say = useWords(p);
  const boxes = useDrawing(canvas, p, { focus, hover, found, top });
  useEffect(() => p.onHover?.(hover), [hover]);
  const at = (e: MouseEvent) => boxAt(canvas.current!, boxes.current, e);
  const show = (node: number) => {
    setFocus(node);
    reveal(node);
  };
  useEffect(() => {
    if (p.chosen && p.chosen.node < g.n && p.chosen.node !== focus) show(p.chosen.node);
  }, [p.chosen]);
  const menu = () => {
    const b = boxes.current.find((x) => x.node === focus && x.merged === 0);
    const r = canvas.current!.getBoundingClientRect();
    p.onMenu?.(focus, r.left + Math.min((b?.x ?? 0) + 20, r.width - 40), r.top + (b?.y ?? 0) + ROW);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    if (
      e.ctrlKey ||
      e.altKey ||
      e.metaKey ||
      !pressed(e.key, { p, focus, found, page: height - ROW, show, scroll, menu })
    )
      return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div class="flame">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="tree"
        aria-activedescendant={`${id}-${focus}`}
        aria-label={`${p.label}. Arrow keys move between callers, callees and siblings; Enter zooms, Escape goes back, Space opens the menu.`}
        style={{ height: `${height}px` }}
        {...pointing(p, at, show, setTip)}
        onWheel={onWheel}
        onKeyDown={onKeyDown}>
        <FrameTree g={g} focus={focus} id={id} held={scrubbing.value} say={say} onChoose={show} />
      </canvas>
      {most > 0 && (
        <div class="more">
          levels {Math.floor(top / ROW) + 1} to {Math.floor((top + height) / ROW)} of {depth} · scroll, or
          arrow keys
        </div>
      )}
      {tip && <Tip g={g} at={tip} m={p.metric} look={p.look} />}
    </div>
  );
}

/** The stack as text, root first. */
export const stackText = (g: Graph, i: number) => path(g, i).map(safe).join('\n');
