// The slices of one thread: a flame chart, drawn in the view.
import { useEffect, useRef, useState } from 'preact/hooks';
import { question } from '../app/answers';
import { clock, count, duration, safe } from '../app/format';
import { hash } from '../app/hash';
import { useFollowing } from '../parts/answer';
import { useCanvas } from '../parts/canvas';
import type { Thread } from './thread-track';
import type { View } from './view';

type Box = [depth: number, begin: number, end: number, name: number, category: number, n: number];
interface Boxes {
  boxes: Box[];
  names: string[];
}

const ROW = 18;
const MAX_ROWS = 40;
const TEXT_FROM = 24;

/** A colour of the name's own. */
const hue = (name: string) => hash(name) % 360;

export const titleOf = (t: Thread) => safe(t.name) || (t.tid === undefined ? 'track' : `thread ${t.tid}`);

type Shown = Boxes & { from: number };
type Where = (t: number, width: number) => number;

/** One slice, its name where there is room. */
function drawBox(
  ctx: CanvasRenderingContext2D,
  b: Box,
  name: string,
  x0: number,
  wide: number,
  css: (name: string) => string,
): void {
  const y = b[0] * ROW;
  ctx.fillStyle =
    b[5] > 1
      ? css('--merged')
      : css('--dark') === '1'
        ? `hsl(${hue(name)} 38% 34%)`
        : `hsl(${hue(name)} 62% 80%)`;
  ctx.fillRect(x0, y, wide > 3 ? wide - 0.5 : wide, ROW - 1);
}

function drawName(
  ctx: CanvasRenderingContext2D,
  b: Box,
  name: string,
  x0: number,
  wide: number,
  css: (name: string) => string,
): void {
  const y = b[0] * ROW;
  ctx.fillStyle = css('--frame-text');
  ctx.save();
  ctx.beginPath();
  ctx.rect(x0, y, wide - 2, ROW);
  ctx.clip();
  ctx.fillText(safe(name), Math.max(0, x0) + 3, y + ROW / 2);
  ctx.restore();
}

function drawAll(
  ctx: CanvasRenderingContext2D,
  w: number,
  css: (name: string) => string,
  all: Shown,
  x: Where,
  rows: number,
  at: Box | null,
): void {
  ctx.font = '11px system-ui, sans-serif';
  ctx.textBaseline = 'middle';
  for (const b of all.boxes) {
    if (b[0] >= rows) continue;
    const x0 = Math.max(-2, x(b[1], w));
    const wide = Math.max(1, Math.min(w + 2, x(b[2], w)) - x0);
    const name = all.names[b[3]];
    drawBox(ctx, b, name, x0, wide, css);
    if (at && at[0] === b[0] && at[1] === b[1]) {
      ctx.strokeStyle = css('--focus');
      ctx.lineWidth = 2;
      ctx.strokeRect(x0 + 1, b[0] * ROW + 1, Math.max(1, wide - 2), ROW - 3);
    }
    if (wide >= TEXT_FROM && b[5] <= 1) drawName(ctx, b, name, x0, wide, css);
  }
}

/** The slices that it stands in, the outermost first: a pseudo-stack. */
const inside = (all: Shown, b: Box): Box[] =>
  all.boxes.filter((o) => o[0] < b[0] && o[1] <= b[1] && o[2] >= b[2]).sort((p, q) => p[0] - q[0]);

function words(all: Shown, b: Box, zero: number): string {
  const name = (o: Box) => safe(all.names[o[3]]);
  if (b[5] > 1) return `${count(b[5])} slices in ${duration(b[2] - b[1])}, the longest ${name(b)}`;
  return `${[...inside(all, b), b].map(name).join(' › ')} · ${duration(b[2] - b[1])}${all.names[b[4]] ? ` · ${safe(all.names[b[4]])}` : ''} · at ${clock(all.from + b[1] - zero)}`;
}

/** Where an arrow key leads. */
function step(all: Shown, at: Box | null, key: string): Box | null {
  if (!at) return all.boxes[0] ?? null;
  const level = (d: number) => all.boxes.filter((b) => b[0] === d).sort((p, q) => p[1] - q[1]);
  if (key === 'ArrowUp') return inside(all, at).pop() ?? at;
  if (key === 'ArrowDown') return level(at[0] + 1).find((b) => b[1] >= at[1] && b[2] <= at[2]) ?? at;
  const same = level(at[0]);
  const i = same.findIndex((b) => b[1] === at[1]) + (key === 'ArrowLeft' ? -1 : 1);
  return same[i] ?? at;
}

/** The slices of the view; the server leaves out what is too narrow for these px. */
function useSlices(thread: Thread, trace: number, view: View) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const watch = new ResizeObserver(() => box.current && setWidth(box.current.clientWidth));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  const from = Math.max(0, Math.floor(view.from));
  const to = Math.ceil(view.to);
  const min = Math.max(1, Math.floor((to - from) / Math.max(200, width)));
  const query = `track=${thread.track}&from=${from}&to=${to}&min=${min}`;
  const answer = useFollowing(`${trace} ${query}`, async () => ({
    from,
    ...(await question<Boxes>(trace, 'slices', query)),
  }));
  return { box, width, all: answer.value };
}

/** The slice under the pointer. */
function boxAt(all: Shown | null, e: MouseEvent, width: number, x: Where): Box | null {
  const r = (e.currentTarget as Element).getBoundingClientRect();
  const [px, py] = [e.clientX - r.left, e.clientY - r.top];
  return (
    all?.boxes.find(
      (b) =>
        b[0] === Math.floor(py / ROW) &&
        px >= x(b[1], width) - 1 &&
        px <= Math.max(x(b[1], width) + 1, x(b[2], width)),
    ) ?? null
  );
}

/** A view of one slice, with some room. */
function around(all: Shown, b: Box): View {
  const room = Math.max(1000, (b[2] - b[1]) * 0.1);
  return { from: all.from + b[1] - room, to: all.from + b[2] + room };
}

export function Slices({
  thread,
  trace,
  view,
  zero,
  onView,
}: {
  thread: Thread;
  trace: number;
  view: View;
  zero: number;
  onView(v: View): void;
}) {
  const { box, width, all } = useSlices(thread, trace, view);
  const [at, setAt] = useState<Box | null>(null); // chosen
  const x: Where = (t, w) => (((all?.from ?? 0) + t - view.from) / (view.to - view.from)) * w;
  const rows = Math.min(thread.levels, MAX_ROWS);
  const ref = useCanvas(
    (ctx, w, h, css) => {
      ctx.clearRect(0, 0, w, h);
      if (all) drawAll(ctx, w, css, all, x, rows, at);
    },
    [all, view, at, rows],
  );
  const find = (e: MouseEvent) => boxAt(all, e, width, x);
  const show = () => at && all && onView(around(all, at));
  const onKey = (e: KeyboardEvent) => {
    if (e.key === 'Enter') show();
    else if (e.key.startsWith('Arrow')) setAt(all ? step(all, at, e.key) : at);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div class="slices" ref={box}>
      <canvas
        ref={ref}
        style={{ height: `${rows * ROW}px` }}
        tabIndex={0}
        role="img"
        aria-label={`Slices of ${titleOf(thread)}: ${count(thread.slices)}, up to ${thread.levels} within each other. Arrow keys choose one, Enter zooms to it.`}
        title={at && all ? words(all, at, zero) : undefined}
        onPointerMove={(e) => {
          const b = find(e);
          e.currentTarget.title = b ? words(all!, b, zero) : '';
        }}
        onClick={(e) => setAt(find(e))}
        onDblClick={show}
        onKeyDown={onKey}
      />
      <p class="dim slice-words" role="status">
        {at && all
          ? words(all, at, zero)
          : thread.levels > MAX_ROWS
            ? `${thread.levels - MAX_ROWS} more levels below`
            : ''}
      </p>
    </div>
  );
}
