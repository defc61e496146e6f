// The flamegraph: one canvas, one component, used on its own page, in the sandwich and below the
// timeline. Nodes come in preorder with the end of each subtree, so what is outside the view or too
// narrow is skipped with everything below it.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { amount, base, count, error, exact, fit, isBytes, percent, safe, type Metric } from '../app/format';
import { ALLOCATOR, type Graph, MERGED, type Matches, moduleOf, nameOf, path, search, STD, UNNAMED } from './graph';

const ROW = 20;
const MIN_WIDTH = 3; // narrower ones are drawn as one grey box with their neighbours
const TEXT_FROM = 34;
const FONT = '12px system-ui, sans-serif';

interface Colours { dark: boolean; merged: string; text: string; faint: string; match: string; line: string; focus: string; bg: string }

function colours(el: Element): Colours {
  const s = getComputedStyle(el);
  const v = (n: string) => s.getPropertyValue(n).trim();
  return {
    dark: v('--dark') === '1', merged: v('--merged'), text: v('--frame-text'), faint: v('--frame-faint'),
    match: v('--match'), line: v('--bg'), focus: v('--focus'), bg: v('--bg'),
  };
}

function hash(s: string): number {
  let h = 2166136261;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
  return h >>> 0;
}

/** By module: its hue, a little lightness by name. By function: hues of its own, around the module's.
 * Grey-blue for libc, std and allocators. */
function fill(g: Graph, i: number, dark: boolean, by: 'module' | 'name'): string {
  const f = g.flags[i];
  const n = hash(nameOf(g, i));
  const step = (n >>> 8) % 10;
  if (f & (ALLOCATOR | STD)) return dark ? `hsl(215 12% ${30 + step * 0.6}%)` : `hsl(215 18% ${80 + step * 0.6}%)`;
  const hue = (24 + (hash(base(moduleOf(g, i))) % 300) + (by === 'name' ? (n % 101) - 50 : 0) + 360) % 360;
  if (f & UNNAMED) return dark ? `hsl(${hue} 10% ${32 + step * 0.6}%)` : `hsl(${hue} 18% ${82 + step * 0.5}%)`;
  return dark ? `hsl(${hue} 38% ${31 + step}%)` : `hsl(${hue} 68% ${74 + step}%)`;
}

/** What a graph looks like that is no plain profile: a difference. */
export interface Look {
  fill(node: number, dark: boolean): string;
  mark(node: number): string; // before its name
  hatched(node: number): boolean;
  say(node: number): string;
  tip(node: number): ComponentChildren;
}

interface Box { node: number; x: number; w: number; y: number; merged: number }

export interface FlameProps {
  graph: Graph;
  metric: Metric;
  zoom: number;
  searchText?: string;
  colourBy?: 'module' | 'name';
  up?: boolean; // root at the bottom: callers grow upwards
  height?: number; // of the part that is seen; none: what fits the window
  label: string;
  look?: Look;
  outlined?: number; // the node that the pointer is on in a graph beside this one
  onHover?(node: number): void;
  onZoom(node: number): void;
  onMenu?(node: number, x: number, y: number): void;
  onKey?(key: string, node: number): boolean;
}

/** Thin lines over boxes: colour is not the only sign. */
function hatch(ctx: CanvasRenderingContext2D, boxes: Box[], style: string): void {
  ctx.save();
  ctx.beginPath();
  for (const b of boxes) ctx.rect(b.x + 1, b.y + 1, Math.max(0, b.w - 2), ROW - 2);
  ctx.clip();
  ctx.beginPath();
  for (const b of boxes)
    for (let x = b.x - ROW + ((8 - ((b.x - ROW) % 8)) % 8); x < b.x + b.w; x += 8) {
      ctx.moveTo(x, b.y + ROW);
      ctx.lineTo(x + ROW, b.y);
    }
  ctx.strokeStyle = style;
  ctx.globalAlpha = 0.22;
  ctx.lineWidth = 1;
  ctx.stroke();
  ctx.restore();
}

/** Rows of boxes that can be seen. Draws them; the boxes are what pointers are tested against. */
function draw(canvas: HTMLCanvasElement, p: FlameProps, focus: number, hover: number, found: Matches | null, top: number): Box[] {
  const g = p.graph;
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const ctx = canvas.getContext('2d', { alpha: false })!;
  const c = colours(canvas);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = c.bg;
  ctx.fillRect(0, 0, width, height);
  const boxes: Box[] = [];
  const root = p.zoom;
  const scale = g.cum[root] > 0 ? width / g.cum[root] : 0;
  const origin = g.begin[root];
  const level = (d: number) => (p.up ? height - (d + 1) * ROW + top : d * ROW - top);
  const groups = new Map<string, Box[]>();
  const put = (style: string, box: Box) => {
    const list = groups.get(style);
    if (list) list.push(box);
    else groups.set(style, [box]);
    boxes.push(box);
  };
  const styles = new Map<number, string>();
  const styleOf = (i: number): string => {
    if (g.flags[i] & MERGED) return c.merged;
    if (found?.node[i]) return c.match;
    if (p.look && i > 0) return p.look.fill(i, c.dark);
    const key = g.name[i];
    let s = styles.get(key);
    if (!s) styles.set(key, (s = i === 0 ? c.merged : fill(g, i, c.dark, p.colourBy ?? 'name')));
    return s;
  };
  // What is above the zoomed node, over the whole width.
  for (let i = root; ; i = g.parent[i]) {
    put(styleOf(i), { node: i, x: 0, w: width, y: level(g.depth[i]), merged: 0 });
    if (i === 0) break;
  }
  const deepest = Math.floor((height + top) / ROW);
  const first = Math.floor(top / ROW);
  const pending = new Map<number, Box>(); // one unfinished merged box a row
  const finish = (b: Box) => put(c.merged, b);
  const end = g.end[root];
  let i = root + 1;
  while (i < end) {
    const w = g.cum[i] * scale;
    const d = g.depth[i];
    if (w < MIN_WIDTH) {
      const x = (g.begin[i] - origin) * scale;
      const open = pending.get(d);
      const last = g.parent[i];
      if (open && x - (open.x + open.w) < 0.5 && open.y === last) {
        open.w = x + w - open.x;
        open.merged++;
      } else {
        if (open && open.w >= 0.5) finish({ ...open, y: level(d) });
        pending.set(d, { node: i, x, w, y: last, merged: 1 }); // y: the parent, until it is finished
      }
      i = g.end[i];
      continue;
    }
    if (d > deepest) {
      i = g.end[g.parent[i]]; // its siblings are as deep
      continue;
    }
    if (d >= first - 1) put(styleOf(i), { node: i, x: (g.begin[i] - origin) * scale, w, y: level(d), merged: 0 });
    i++;
  }
  for (const [d, b] of pending) if (b.w >= 0.5 && d <= deepest) finish({ ...b, y: level(d) });

  for (const [style, list] of groups) {
    ctx.fillStyle = style;
    ctx.beginPath();
    for (const b of list) ctx.rect(b.x + 0.5, b.y + 0.5, Math.max(0.6, b.w - 1), ROW - 1);
    ctx.fill();
  }
  if (p.look) hatch(ctx, boxes.filter((b) => b.merged === 0 && b.node > 0 && p.look!.hatched(b.node)), c.text);
  ctx.font = FONT;
  ctx.textBaseline = 'middle';
  ctx.fillStyle = c.text;
  const charWidth = 6.3;
  for (const b of boxes) {
    if (b.w < TEXT_FROM || b.y < -ROW || b.y > height) continue;
    const text = b.merged > 0 ? `${b.merged} small` : safe(b.node === 0 ? (p.look ? 'all' : `all · ${amount(g.cum[0], p.metric)}`) : (p.look?.mark(b.node) ?? '') + nameOf(g, b.node));
    let shown = fit(text, Math.floor((b.w - 8) / charWidth));
    if (shown.length > 3 && ctx.measureText(shown).width > b.w - 6) shown = fit(text, Math.floor((b.w - 8) / 7.6));
    ctx.globalAlpha = b.merged > 0 || (b.node < root && b.node !== root) ? 0.65 : 1;
    ctx.fillText(shown, b.x + 4, b.y + ROW / 2 + 1);
  }
  ctx.globalAlpha = 1;
  const outline = (node: number, style: string, line: number) => {
    const b = boxes.find((x) => x.node === node && x.merged === 0);
    if (!b) return;
    ctx.strokeStyle = style;
    ctx.lineWidth = line;
    ctx.strokeRect(b.x + 1, b.y + 1, Math.max(1, b.w - 2), ROW - 2);
  };
  if (hover >= 0) outline(hover, c.text, 1);
  if (p.outlined && p.outlined > 0) outline(p.outlined, c.text, 1);
  if (focus > 0) outline(focus, c.focus, 2);
  return boxes;
}

/** The deepest row in which anything is drawn: what is narrower than a box hides all below it. */
function deepestDrawn(g: Graph, root: number, width: number): number {
  const scale = g.cum[root] > 0 ? width / g.cum[root] : 0;
  let deepest = g.depth[root];
  for (let i = root + 1; i < g.end[root];) {
    if (g.depth[i] > deepest) deepest = g.depth[i];
    i = g.cum[i] * scale < MIN_WIDTH ? g.end[i] : i + 1;
  }
  return deepest;
}

export function describe(g: Graph, i: number, m: Metric): string {
  return `${safe(nameOf(g, i))}, ${amount(g.cum[i], m)}, ${percent(g.cum[i], g.total)} of all, self ${amount(g.self[i], m)}`;
}

function Tip({ g, node, merged, m, x, y, look }: { g: Graph; node: number; merged: number; m: Metric; x: number; y: number; look?: Look }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const el = box.current!;
    const r = el.getBoundingClientRect();
    el.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - r.width - 8))}px`;
    el.style.top = `${y + 18 + r.height > innerHeight ? Math.max(4, y - r.height - 10) : y + 18}px`;
  });
  const parent = g.parent[node];
  const flags = g.flags[node];
  if (merged > 0) return <div class="tip" ref={box}><b>{count(merged)} boxes too narrow to draw</b><div>zoom in to see them</div></div>;
  return (
    <div class="tip" ref={box}>
      <b>{safe(nameOf(g, node))}</b>
      {node > 0 && <div class="dim">{safe(moduleOf(g, node)) || 'unknown module'}{flags & ALLOCATOR ? ' · allocator' : flags & STD ? ' · library' : ''}</div>}
      {look ? look.tip(node) : <dl>
        <dt>total</dt><dd>{amount(g.cum[node], m)} {error(g.err[node], g.cum[node])}{isBytes(m) && <span class="dim"> {exact(g.cum[node])} B</span>}</dd>
        <dt>share</dt><dd>{percent(g.cum[node], g.total)} of all{parent > 0 && `, ${percent(g.cum[node], g.cum[parent])} of caller`}</dd>
        <dt>self</dt><dd>{amount(g.self[node], m)}</dd>
        <dt>samples</dt><dd>{exact(g.samples[node])}{g.samples[node] < 10 && g.err[node] > 0 ? ' – too few to trust' : ''}</dd>
      </dl>}
    </div>
  );
}

export function Flame(p: FlameProps) {
  const g = p.graph;
  const canvas = useRef<HTMLCanvasElement>(null);
  const boxes = useRef<Box[]>([]);
  const [focus, setFocus] = useState(0);
  const [tip, setTip] = useState<{ node: number; merged: number; x: number; y: number } | null>(null);
  const [top, setTop] = useState(0);
  const [size, setSize] = useState(0);
  const found = useMemo(() => search(g, p.searchText ?? ''), [g, p.searchText]);
  const width = canvas.current?.clientWidth ?? 0;
  const depth = useMemo(() => (width ? deepestDrawn(g, p.zoom, width) : g.maxDepth), [g, p.zoom, width]) + 1;
  // Never taller than the window: canvases end at 32767 px, and rows out of sight cost time.
  const height = Math.min(depth * ROW, p.height ?? Math.max(16 * ROW, innerHeight - 290));
  const most = Math.max(0, depth * ROW - height);
  const hover = tip ? tip.node : -1;

  useEffect(() => {
    setFocus(p.zoom);
  }, [g, p.zoom]);
  useEffect(() => setTop((t) => Math.min(t, most)), [g, p.zoom, most]);
  useEffect(() => {
    const el = canvas.current!;
    const again = () => setSize((s) => s + 1);
    const watch = new ResizeObserver(again);
    watch.observe(el);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', again);
    addEventListener('themechange', again);
    return () => {
      watch.disconnect();
      dark.removeEventListener('change', again);
      removeEventListener('themechange', again);
    };
  }, []);
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const begin = performance.now();
      boxes.current = draw(canvas.current!, p, focus, hover, found, top);
      const took = performance.now() - begin;
      // What bench/pages reads.
      const data = canvas.current!.dataset;
      data.firstMs ??= took.toFixed(2);
      data.drawMs = took.toFixed(2);
      data.decodeMs = g.decodeMs.toFixed(2);
      data.nodes = String(g.n);
      data.key = `${g.ts} ${g.total}`;
    });
    return () => cancelAnimationFrame(frame);
  }, [g, p.zoom, p.metric, p.colourBy, p.height, p.outlined, focus, hover, found, top, size]);
  useEffect(() => p.onHover?.(hover), [hover]);

  const at = (e: MouseEvent): Box | undefined => {
    const r = canvas.current!.getBoundingClientRect();
    const x = e.clientX - r.left;
    const y = e.clientY - r.top;
    return boxes.current.find((b) => y >= b.y && y < b.y + ROW && x >= b.x && x < b.x + b.w);
  };
  const show = (node: number) => {
    setFocus(node);
    setTop((t) => Math.max(0, Math.min(most, Math.min(g.depth[node] * ROW, Math.max(t, (g.depth[node] + 1) * ROW - height)))));
  };
  const inZoom = (node: number) => node >= p.zoom && node < g.end[p.zoom];

  const keys: Record<string, () => void> = {
    ArrowUp: () => (p.up ? down() : up()),
    ArrowDown: () => (p.up ? up() : down()),
    ArrowRight: () => {
      const next = g.end[focus];
      if (focus > 0 && next < g.end[g.parent[focus]] && inZoom(next)) show(next);
    },
    ArrowLeft: () => {
      if (focus <= 0) return;
      let at = g.parent[focus] + 1;
      if (at === focus || !inZoom(at)) return;
      while (g.end[at] < focus) at = g.end[at];
      show(at);
    },
    PageDown: () => setTop((t) => Math.min(most, t + height - ROW)),
    PageUp: () => setTop((t) => Math.max(0, t - height + ROW)),
    Home: () => show(p.zoom),
    Enter: () => p.onZoom(focus),
    Escape: out,
    Backspace: out,
    n: () => jump(1),
    N: () => jump(-1),
    ' ': menu,
    ContextMenu: menu,
  };
  function up() {
    if (focus > 0) show(g.parent[focus]);
  }
  function down() {
    if (focus + 1 < g.end[focus]) show(focus + 1);
  }
  function out() {
    if (p.zoom > 0) p.onZoom(g.parent[p.zoom]);
  }
  function menu() {
    const b = boxes.current.find((x) => x.node === focus && x.merged === 0);
    const r = canvas.current!.getBoundingClientRect();
    p.onMenu?.(focus, r.left + Math.min((b?.x ?? 0) + 20, r.width - 40), r.top + (b?.y ?? 0) + ROW);
  }
  function jump(step: number) {
    if (!found?.nodes.length) return;
    let k = found.nodes.findIndex((x) => x > focus);
    if (step < 0) k = (k < 0 ? found.nodes.length : k) - (found.nodes.includes(focus) ? 2 : 1);
    const node = found.nodes[(k + found.nodes.length) % found.nodes.length];
    if (!inZoom(node)) p.onZoom(0);
    show(node);
  }

  return (
    <div class="flame">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-roledescription="flamegraph"
        aria-label={`${p.label}. Arrow keys move between callers, callees and siblings; Enter zooms, Escape goes back, Space opens the menu.`}
        style={{ height: `${height}px` }}
        onPointerMove={(e) => {
          const b = at(e);
          setTip(b ? { node: b.node, merged: b.merged, x: e.clientX, y: e.clientY } : null);
        }}
        onPointerLeave={() => setTip(null)}
        onClick={(e) => {
          const b = at(e);
          if (b && b.merged === 0) {
            show(b.node);
            p.onMenu?.(b.node, e.clientX, e.clientY);
          } else if (b) p.onZoom(g.parent[b.node]);
        }}
        onContextMenu={(e) => {
          const b = at(e);
          if (!b || b.merged || !p.onMenu) return;
          e.preventDefault();
          show(b.node);
          p.onMenu(b.node, e.clientX, e.clientY);
        }}
        onDblClick={(e) => {
          const b = at(e);
          if (b) p.onZoom(b.node);
        }}
        onWheel={(e) => {
          if (most === 0 || e.ctrlKey) return;
          const next = Math.max(0, Math.min(most, top + (p.up ? -e.deltaY : e.deltaY)));
          if (next !== top) {
            e.preventDefault();
            setTop(next);
          }
        }}
        onKeyDown={(e) => {
          if (e.ctrlKey || e.altKey || e.metaKey) return;
          const act = keys[e.key];
          if (act) {
            e.preventDefault();
            e.stopPropagation();
            act();
          } else if (p.onKey?.(e.key, focus)) {
            e.preventDefault();
            e.stopPropagation();
          }
        }}
      />
      {most > 0 && <div class="more">levels {Math.floor(top / ROW) + 1} to {Math.floor((top + height) / ROW)} of {depth} · scroll, or arrow keys</div>}
      <div class="sr" aria-live="polite">{p.look ? p.look.say(focus) : describe(g, focus, p.metric)}</div>
      {tip && <Tip g={g} node={tip.node} merged={tip.merged} m={p.metric} x={tip.x} y={tip.y} look={p.look} />}
    </div>
  );
}

/** The stack as text, root first. */
export const stackText = (g: Graph, i: number) => path(g, i).map(safe).join('\n');
