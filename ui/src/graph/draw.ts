// Drawing the boxes of a flamegraph: filled by colour, not one by one.
import type { ComponentChildren } from 'preact';
import { amount, base, fit, type Metric, safe } from '../app/format';
import { hash } from '../app/hash';
import { ALLOCATOR, type Graph, type Matches, MERGED, moduleOf, nameOf, STD, UNNAMED } from './graph';
import { type Box, layout, layoutStretch, ROW, type Stretch } from './layout';
import { ownerFill } from './owner';

const TEXT_FROM = 34;
const FONT = '12px system-ui, sans-serif';

interface Colours {
  dark: boolean;
  merged: string;
  text: string;
  faint: string;
  match: string;
  line: string;
  focus: string;
  bg: string;
}

function colours(el: Element): Colours {
  const s = getComputedStyle(el);
  const v = (n: string) => s.getPropertyValue(n).trim();
  return {
    dark: v('--dark') === '1',
    merged: v('--merged'),
    text: v('--frame-text'),
    faint: v('--frame-faint'),
    match: v('--match'),
    line: v('--bg'),
    focus: v('--focus'),
    bg: v('--bg'),
  };
}

/** What a colour stands for: whose code it is, which module, or which function. */
export type ColourBy = 'owner' | 'module' | 'name';

/** By module: its hue, a little lightness by name. By function: hues of its own, around the module's.
 * Grey-blue for libc, std and allocators. */
function fill(g: Graph, i: number, dark: boolean, by: ColourBy): string {
  const f = g.flags[i];
  const n = hash(nameOf(g, i));
  if (by === 'owner') return ownerFill(f, n, dark);
  const step = (n >>> 8) % 10;
  if (f & (ALLOCATOR | STD))
    return dark ? `hsl(215 12% ${30 + step * 0.6}%)` : `hsl(215 18% ${80 + step * 0.6}%)`;
  const hue = (24 + (hash(base(moduleOf(g, i))) % 300) + (by === 'name' ? (n % 101) - 50 : 0) + 360) % 360;
  if (f & UNNAMED)
    return dark ? `hsl(${hue} 10% ${32 + step * 0.6}%)` : `hsl(${hue} 18% ${82 + step * 0.5}%)`;
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

/** What is drawn, and how. */
export interface Picture {
  graph: Graph;
  metric: Metric;
  zoom: number;
  colourBy?: ColourBy;
  moving?: Stretch | null; // a zoom is on its way: this is seen
  up?: boolean;
  look?: Look;
  outlined?: number;
  focus: number;
  hover: number;
  found: Matches | null;
  top: number;
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

/** The canvas with as many pixels as it has on the screen, and nothing on it. */
function blank(canvas: HTMLCanvasElement, bg: string): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const ctx = canvas.getContext('2d', { alpha: false })!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = bg;
  ctx.fillRect(0, 0, width, height);
  return ctx;
}

/** The colour of a node; those of a name are worked out once. */
function painter(
  p: Pick<Picture, 'graph' | 'found' | 'look' | 'colourBy'>,
  c: Colours,
): (node: number) => string {
  const g = p.graph;
  const styles = new Map<number, string>();
  return (i) => {
    if (g.flags[i] & MERGED) return c.merged;
    if (p.found?.node[i]) return c.match;
    if (p.look && i > 0) return p.look.fill(i, c.dark);
    let s = styles.get(g.name[i]);
    if (!s) styles.set(g.name[i], (s = i === 0 ? c.merged : fill(g, i, c.dark, p.colourBy ?? 'name')));
    return s;
  };
}

function fillBoxes(ctx: CanvasRenderingContext2D, boxes: Box[], colour: (b: Box) => string): void {
  const groups = new Map<string, Box[]>();
  for (const b of boxes) {
    const style = colour(b);
    const list = groups.get(style);
    if (list) list.push(b);
    else groups.set(style, [b]);
  }
  for (const [style, list] of groups) {
    ctx.fillStyle = style;
    ctx.beginPath();
    for (const b of list) ctx.rect(b.x + 0.5, b.y + 0.5, Math.max(0.6, b.w - 1), ROW - 1);
    ctx.fill();
  }
}

function textOf(b: Box, p: Picture): string {
  if (b.merged > 0) return `${b.merged} small`;
  if (b.node > 0) return safe((p.look?.mark(b.node) ?? '') + nameOf(p.graph, b.node));
  return p.look ? 'all' : safe(`all · ${amount(p.graph.cum[0], p.metric)}`);
}

/** Measuring costs as much as writing, and while a handle is dragged names stay. */
const widths = new Map<string, number>();
function widthOf(ctx: CanvasRenderingContext2D, text: string): number {
  let w = widths.get(text);
  if (w === undefined) {
    if (widths.size > 10_000) widths.clear();
    widths.set(text, (w = ctx.measureText(text).width));
  }
  return w;
}

function writeNames(ctx: CanvasRenderingContext2D, boxes: Box[], p: Picture, height: number): void {
  const charWidth = 6.3;
  for (const b of boxes) {
    if (b.w < TEXT_FROM || b.y < -ROW || b.y > height) continue;
    const text = textOf(b, p);
    let shown = fit(text, Math.floor((b.w - 8) / charWidth));
    if (shown.length > 3 && widthOf(ctx, shown) > b.w - 6) shown = fit(text, Math.floor((b.w - 8) / 7.6));
    ctx.globalAlpha = b.merged > 0 || b.node < p.zoom ? 0.65 : 1;
    ctx.fillText(shown, b.x + 4, b.y + ROW / 2 + 1);
  }
  ctx.globalAlpha = 1;
}

export interface Small {
  graph: Graph;
  colourBy: ColourBy;
  up: boolean;
  rows: number;
}

/** A minimap: the whole graph scaled down to the canvas, with the current position. */
export function drawSmall(canvas: HTMLCanvasElement, p: Small): void {
  const { graph: g, colourBy: by, up, rows } = p;
  const c = colours(canvas);
  const ctx = blank(canvas, c.bg);
  const height = rows * ROW;
  const boxes = layout(g, { zoom: 0, width: canvas.clientWidth, height, top: 0, up });
  const colour = painter({ graph: g, colourBy: by, found: null }, c);
  ctx.scale(1, canvas.clientHeight / height);
  fillBoxes(ctx, boxes, (b) => (b.merged > 0 ? c.merged : colour(b.node)));
}

/** Draws what is visible; the boxes are used for hit testing. */
export function draw(canvas: HTMLCanvasElement, p: Picture): Box[] {
  const c = colours(canvas);
  const ctx = blank(canvas, c.bg);
  const height = canvas.clientHeight;
  const pane = { width: canvas.clientWidth, height, top: p.top, up: p.up ?? false };
  const boxes = p.moving
    ? layoutStretch(p.graph, p.moving, pane)
    : layout(p.graph, { ...pane, zoom: p.zoom });
  const colour = painter(p, c);
  fillBoxes(ctx, boxes, (b) => (b.merged > 0 ? c.merged : colour(b.node)));
  if (p.look)
    hatch(
      ctx,
      boxes.filter((b) => b.merged === 0 && b.node > 0 && p.look!.hatched(b.node)),
      c.text,
    );
  ctx.font = FONT;
  ctx.textBaseline = 'middle';
  ctx.fillStyle = c.text;
  writeNames(ctx, boxes, p, height);
  const outline = (node: number, style: string, line: number) => {
    const b = boxes.find((x) => x.node === node && x.merged === 0);
    if (!b) return;
    ctx.strokeStyle = style;
    ctx.lineWidth = line;
    ctx.strokeRect(b.x + 1, b.y + 1, Math.max(1, b.w - 2), ROW - 2);
  };
  if (p.hover >= 0) outline(p.hover, c.text, 1);
  if (p.outlined && p.outlined > 0) outline(p.outlined, c.text, 1);
  if (p.focus > 0) outline(p.focus, c.focus, 2);
  return boxes;
}
