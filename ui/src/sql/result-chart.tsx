// A result as a chart: lines along a column, bars, or how often values occur.
import { useMemo, useState } from 'preact/hooks';
import { exact, safe } from '../app/format';
import { useCanvas } from '../parts/canvas';
import { type Cell, compare, type GridColumn } from '../parts/cells';
import { COLOURS, isBytesName, number, short } from './result-numbers';

type Kind = 'line' | 'bar' | 'histogram';
interface Bar {
  label: string;
  values: number[];
}
type Point = [x: number, y: number];

const AREA = { left: 76, right: 12, top: 8, bottom: 26 };
const HEIGHT = 340;
const least = (list: number[], begin: number) => list.reduce((a, b) => Math.min(a, b), begin);
const most = (list: number[], begin: number) => list.reduce((a, b) => Math.max(a, b), begin);

// ---- what is drawn ----

export function histogram(values: number[], inBytes: boolean): Bar[] {
  const v = values.filter((n) => !Number.isNaN(n));
  if (!v.length) return [];
  const [lo, hi] = [least(v, v[0]), most(v, v[0])];
  const n = Math.min(40, Math.max(1, Math.ceil(Math.sqrt(v.length))));
  const step = (hi - lo) / n || 1;
  const out = Array.from({ length: n }, (_, i) => ({
    label: `${short(lo + i * step, inBytes)} to ${short(lo + (i + 1) * step, inBytes)}`,
    values: [0],
  }));
  for (const k of v) out[Math.min(n - 1, Math.floor((k - lo) / step))].values[0]++;
  return out;
}

/** A line a column of values; x is the row's number where the column along is none of numbers. */
function linesOf(columns: GridColumn[], rows: Cell[][], x: number, ys: number[]): Point[][] {
  const sortedRows = [...rows].sort((a, b) => compare(a[x], b[x]));
  return ys.map((y) =>
    sortedRows
      .map((r, i): Point => [columns[x]?.numeric ? number(r[x]) : i, number(r[y])])
      .filter((p) => !Number.isNaN(p[0]) && !Number.isNaN(p[1])),
  );
}

// ---- drawing ----

interface Paper {
  ctx: CanvasRenderingContext2D;
  w: number;
  h: number;
  css(name: string): string;
  yOf(v: number): number;
}

/** The lines of the scale; gives where a value stands. */
function scale(
  ctx: CanvasRenderingContext2D,
  w: number,
  h: number,
  css: Paper['css'],
  values: number[],
  inBytes: boolean,
): Paper {
  const ih = h - AREA.top - AREA.bottom;
  const hi = most(values, 0) || 1;
  const lo = least(values, 0);
  const yOf = (v: number) => AREA.top + ih - ((v - lo) / (hi - lo)) * ih;
  ctx.clearRect(0, 0, w, h);
  ctx.font = '11px system-ui, sans-serif';
  ctx.strokeStyle = css('--line');
  ctx.fillStyle = css('--dim');
  ctx.textAlign = 'right';
  ctx.textBaseline = 'middle';
  for (let k = 0; k <= 4; k++) {
    const v = lo + ((hi - lo) * k) / 4;
    ctx.beginPath();
    ctx.moveTo(AREA.left, Math.round(yOf(v)) + 0.5);
    ctx.lineTo(w - AREA.right, Math.round(yOf(v)) + 0.5);
    ctx.stroke();
    ctx.fillText(short(v, inBytes), AREA.left - 6, yOf(v));
  }
  ctx.textBaseline = 'top';
  return { ctx, w, h, css, yOf };
}

/** More points than pixels: lowest and highest of each column. */
function pathOf(list: Point[], width: number, xOf: (v: number) => number): Point[] {
  if (list.length <= 4 * width) return list.map(([x, v]) => [xOf(x), v]);
  const cols = new Map<number, [number, number]>();
  for (const [px, v] of list) {
    const c = Math.floor(xOf(px));
    const b = cols.get(c);
    if (b) cols.set(c, [Math.min(b[0], v), Math.max(b[1], v)]);
    else cols.set(c, [v, v]);
  }
  return [...cols].flatMap(([c, [a, b]]): Point[] => [
    [c, a],
    [c, b],
  ]);
}

function drawLines({ ctx, w, h, css, yOf }: Paper, lines: Point[][], along: GridColumn | undefined): void {
  const width = w - AREA.left - AREA.right;
  const xs = lines.flat().map((p) => p[0]);
  const x0 = least(xs, Infinity);
  const x1 = most(xs, -Infinity);
  const xOf = (v: number) => AREA.left + (x1 > x0 ? (v - x0) / (x1 - x0) : 0.5) * width;
  lines.forEach((list, s) => {
    ctx.strokeStyle = css(COLOURS[s % COLOURS.length]);
    ctx.fillStyle = ctx.strokeStyle;
    ctx.lineWidth = 1.6;
    ctx.setLineDash(s ? [6 - s, 3] : []);
    ctx.beginPath();
    for (const [x, v] of pathOf(list, width, xOf)) ctx.lineTo(x, yOf(v));
    ctx.stroke();
    ctx.setLineDash([]);
    if (list.length < 60) for (const [px, v] of list) ctx.fillRect(xOf(px) - 2, yOf(v) - 2, 4, 4);
  });
  ctx.fillStyle = css('--dim');
  ctx.textAlign = 'left';
  if (!along?.numeric || !lines[0]?.length) return;
  const isTime = /^(ts|ts_end|time)$/.test(along.name);
  const word = (v: number) =>
    isTime ? `${((v - x0) / 1e9).toFixed(2)} s` : short(v, isBytesName(along.name));
  ctx.fillText(word(x0), AREA.left, h - AREA.bottom + 8);
  ctx.textAlign = 'right';
  ctx.fillText(word(x1), w - AREA.right, h - AREA.bottom + 8);
}

function drawBars({ ctx, w, h, css, yOf }: Paper, bars: Bar[]): void {
  const bw = (w - AREA.left - AREA.right) / Math.max(1, bars.length);
  bars.forEach((b, i) => {
    const each = Math.max(1, (bw * 0.8) / b.values.length);
    b.values.forEach((v, s) => {
      ctx.fillStyle = css(COLOURS[s % COLOURS.length]);
      ctx.fillRect(
        AREA.left + i * bw + bw * 0.1 + s * each,
        Math.min(yOf(v), yOf(0)),
        Math.max(1, each - 1),
        Math.abs(yOf(v) - yOf(0)),
      );
    });
    ctx.fillStyle = css('--dim');
    ctx.textAlign = 'center';
    if (bw > 46 || i % Math.ceil(60 / bw) === 0)
      ctx.fillText(
        fitTo(ctx, safe(b.label), Math.max(bw, 56) - 6),
        AREA.left + (i + 0.5) * bw,
        h - AREA.bottom + 8,
      );
  });
}

function fitTo(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  let n = Math.max(1, Math.floor(width / 7));
  while (n > 1 && ctx.measureText(`${text.slice(0, n)}…`).width > width) n--;
  return `${text.slice(0, n)}…`;
}

// ---- the chart ----

/** What stands along and which values are drawn: at first the time, and the first number that is no id. */
function useAxes(columns: GridColumn[], numeric: number[]) {
  const [kind, setKind] = useState<Kind>(columns.some((c, i) => !c.numeric && i === 0) ? 'bar' : 'line');
  const firstX = columns.findIndex((c) => /^(ts|time|ts_end)$/.test(c.name));
  const [x, setX] = useState(
    firstX >= 0
      ? firstX
      : columns[0]?.numeric
        ? 0
        : Math.max(
            0,
            columns.findIndex((c) => !c.numeric),
          ),
  );
  const [ys, setYs] = useState<number[]>(() => {
    const rest = numeric.filter(
      (i) => i !== (firstX >= 0 ? firstX : 0) && !/(^|_)(id|upid|utid|pid|depth)$/.test(columns[i].name),
    );
    return (rest.length ? rest : numeric).slice(0, 1);
  });
  const toggle = (i: number) =>
    setYs(
      ys.includes(i)
        ? ys.length > 1
          ? ys.filter((y) => y !== i)
          : ys
        : kind === 'histogram'
          ? [i]
          : [...ys, i],
    );
  return { kind, setKind, x, setX, ys, toggle };
}

type Axes = ReturnType<typeof useAxes>;

function AxesBar({
  columns,
  numeric,
  axes,
  n,
}: {
  columns: GridColumn[];
  numeric: number[];
  axes: Axes;
  n: number;
}) {
  const { kind, setKind, x, setX, ys, toggle } = axes;
  const colour = (i: number) =>
    ys.includes(i) ? `var(${COLOURS[ys.indexOf(i) % COLOURS.length]})` : 'transparent';
  return (
    <div class="bar">
      <label>
        Chart{' '}
        <select value={kind} onChange={(e) => setKind(e.currentTarget.value as Kind)}>
          <option value="line">line</option>
          <option value="bar">bars</option>
          <option value="histogram">histogram</option>
        </select>
      </label>
      {kind !== 'histogram' && (
        <label>
          Along{' '}
          <select value={String(x)} onChange={(e) => setX(Number(e.currentTarget.value))}>
            {columns.map((c, i) => (
              <option value={String(i)}>{safe(c.name)}</option>
            ))}
          </select>
        </label>
      )}
      <span role="group" aria-label="Values">
        Values{' '}
        {numeric.slice(0, 12).map((i) => (
          <label class="tick">
            <input type="checkbox" checked={ys.includes(i)} onChange={() => toggle(i)} />
            <i style={{ background: colour(i) }} />
            {safe(columns[i].name)}
          </label>
        ))}
      </span>
      {kind === 'bar' && n > 200 && <span class="dim">the first 200 of {n} rows</span>}
    </div>
  );
}

export function ResultChart({ columns, rows }: { columns: GridColumn[]; rows: Cell[][] }) {
  const numeric = columns.map((c, i) => (c.numeric ? i : -1)).filter((i) => i >= 0);
  const axes = useAxes(columns, numeric);
  const { kind, x, ys } = axes;
  const [over, setOver] = useState('');
  const inBytes = ys.every((y) => isBytesName(columns[y]?.name ?? ''));
  const bars = useMemo(() => {
    if (kind === 'histogram')
      return histogram(
        rows.map((r) => number(r[ys[0]])),
        inBytes,
      );
    return rows
      .slice(0, 200)
      .map((r) => ({ label: String(r[x] ?? 'NULL'), values: ys.map((y) => number(r[y]) || 0) }));
  }, [rows, kind, x, ys]);
  const lines = useMemo(() => linesOf(columns, rows, x, ys), [rows, x, ys]);
  const ref = useCanvas(
    (ctx, w, h, css) => {
      const values = kind === 'line' ? lines.flat().map((p) => p[1]) : bars.flatMap((b) => b.values);
      const paper = scale(ctx, w, h, css, values, kind !== 'histogram' && inBytes);
      if (kind === 'line') drawLines(paper, lines, columns[x]);
      else drawBars(paper, bars);
    },
    [kind, x, ys, lines, bars],
  );
  if (!numeric.length) return <p class="empty">A chart needs a column of numbers.</p>;
  const onMove = (e: PointerEvent) => {
    if (kind === 'line') return;
    const r = (e.currentTarget as Element).getBoundingClientRect();
    const b =
      bars[Math.floor(((e.clientX - r.left - AREA.left) / (r.width - AREA.left - AREA.right)) * bars.length)];
    const word = (v: number, s: number) =>
      kind === 'histogram' ? `${exact(v)} rows` : short(v, isBytesName(columns[ys[s]].name));
    setOver(b ? `${safe(b.label)}: ${b.values.map(word).join(', ')}` : '');
  };
  return (
    <div class="result-chart">
      <AxesBar columns={columns} numeric={numeric} axes={axes} n={rows.length} />
      <canvas
        ref={ref}
        role="img"
        aria-label={`${kind} chart of ${ys.map((y) => columns[y]?.name).join(', ')}; the table has the figures`}
        style={{ width: '100%', height: `${HEIGHT}px` }}
        onPointerMove={onMove}
        onPointerLeave={() => setOver('')}
      />
      <p class="statement">{over || ' '}</p>
    </div>
  );
}
