// Areas on top of each other over time: what a sum is made of. The figures stand in a table below.
import { bytes, clock, round } from '../app/format';
import { marksBelow } from '../app/scale';
import { useCanvas } from '../parts/canvas';
import { type Column, Head, Scroll } from '../parts/table';
import { GUTTER, type View } from './view';

export interface Area {
  name: string;
  title?: string;
  values: number[]; // one a time; what is below 0 takes no room
}

/** Hues that neighbours in a stack are told apart by; the last area, a rest, has none. */
const HUES = [24, 208, 130, 268, 48, 330, 178, 92, 300, 232, 8, 150];
export const swatch = (i: number, rest: boolean): string =>
  rest ? 'var(--merged)' : `hsl(${HUES[i % HUES.length]} 52% var(--stack-light))`;

const fill = (i: number, rest: boolean, css: (n: string) => string) =>
  rest ? css('--merged') : `hsl(${HUES[i % HUES.length]} 52% ${css('--stack-light')})`;

/** The sums below each area, by time. */
export function stack(areas: Area[], n: number): { low: number[]; high: number[] }[] {
  const sum = Array<number>(n).fill(0);
  return areas.map((a) => {
    const low = [...sum];
    for (let i = 0; i < n; i++) sum[i] += Math.max(0, a.values[i]);
    return { low, high: [...sum] };
  });
}

interface Props {
  areas: Area[];
  rest: boolean; // the last area is what is left
  times: number[];
  view: View;
  label: string;
  height?: number;
  overlap?: boolean; // they do not add up: lines, not areas
}

type Ink = (k: number) => string;
interface Paper {
  ctx: CanvasRenderingContext2D;
  ink: Ink;
  x(t: number): number;
  y(v: number): number;
}

function drawAreas({ ctx, ink, x, y }: Paper, { areas, times }: Props): void {
  stack(areas, times.length).forEach(({ low, high }, k) => {
    ctx.fillStyle = ink(k);
    ctx.beginPath();
    times.forEach((t, i) => ctx.lineTo(x(t), y(high[i])));
    for (let i = times.length - 1; i >= 0; i--) ctx.lineTo(x(times[i]), y(low[i]));
    ctx.fill();
  });
}

function drawLines({ ctx, ink, x, y }: Paper, { areas, times }: Props): void {
  ctx.lineWidth = 2;
  areas.forEach((a, k) => {
    ctx.strokeStyle = ink(k);
    ctx.beginPath();
    times.forEach((t, i) => ctx.lineTo(x(t), y(Math.max(0, a.values[i]))));
    ctx.stroke();
  });
}

/** Round values, written over the areas. */
function drawScale({ ctx, y }: Paper, most: number, w: number, css: (n: string) => string): void {
  ctx.font = '11px system-ui, sans-serif';
  for (const v of marksBelow(most, 3)) {
    ctx.fillStyle = css('--line');
    ctx.fillRect(0, Math.round(y(v)), w, 1);
    ctx.fillStyle = css('--text');
    ctx.fillText(round(v), 4, y(v) < 14 ? y(v) + 12 : y(v) - 3);
  }
}

const sums = (p: Props) => stack(p.areas, p.times.length).at(-1)?.high ?? [];
const highest = (p: Props) => Math.max(1, ...(p.overlap ? p.areas.flatMap((a) => a.values) : sums(p))) * 1.06;

function StackCanvas(p: Props) {
  const { areas, rest, times, view, label, height = 200 } = p;
  const most = highest(p);
  const ref = useCanvas(
    (ctx, w, h, css) => {
      const paper: Paper = {
        ctx,
        ink: (k) => fill(k, rest && k === areas.length - 1, css),
        x: (t) => ((t - view.from) / (view.to - view.from)) * w,
        y: (v) => h - 1 - (v / most) * (h - 4),
      };
      ctx.clearRect(0, 0, w, h);
      (p.overlap ? drawLines : drawAreas)(paper, p);
      drawScale(paper, most, w, css);
    },
    [areas, times, view],
  );
  return <canvas class="chart" ref={ref} role="img" aria-label={label} style={{ height: `${height}px` }} />;
}

/** The areas with their names, the topmost first as in the picture. */
export function Stacked(p: Props) {
  const { areas, rest } = p;
  return (
    <div class="track stacked" style={{ gridTemplateColumns: `${GUTTER}px minmax(0, 1fr)` }}>
      <ul class="legend column">
        {areas
          .map((a, i) => (
            <li title={a.title ?? a.name} key={a.name}>
              <i style={{ background: swatch(i, rest && i === areas.length - 1) }} />
              {a.name}
            </li>
          ))
          .reverse()}
      </ul>
      <StackCanvas {...p} />
    </div>
  );
}

/** The same as figures: for who cannot see the picture, or wants to know exactly. */
export function StackTable({ areas, times, zero, label }: Props & { zero: number }) {
  return (
    <details>
      <summary>As a table</summary>
      <Scroll label={label}>
        <table class="top stack-table">
          <Head columns={['Time', ...areas.map((a): Column => [a.name, 'num', a.title])]} />
          <tbody>
            {times.map((t, i) => (
              <tr>
                <td>{clock(t - zero)}</td>
                {areas.map((a) => (
                  <td class="num">{bytes(a.values[i])}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}
