// Lines over time on a common scale from 0.
import { round } from '../app/format';
import { marksBelow } from '../app/scale';
import { useCanvas } from '../parts/canvas';
import type { View } from './view';

export interface Line {
  label: string;
  points: [number, number][];
  colour: string;
  step: boolean;
}

interface Band {
  ts: number;
  value: number;
  error: number;
}
interface Paper {
  ctx: CanvasRenderingContext2D;
  css(name: string): string;
  h: number;
  x(ts: number): number;
  y(v: number): number;
}

/** Lines of the scale, at round values. */
function scale({ ctx, css, y }: Paper, w: number, most: number, words: boolean): void {
  ctx.strokeStyle = css('--line');
  ctx.fillStyle = css('--dim');
  ctx.font = '11px system-ui, sans-serif';
  ctx.lineWidth = 1;
  for (const v of marksBelow(most, 3)) {
    ctx.beginPath();
    ctx.moveTo(0, Math.round(y(v)) + 0.5);
    ctx.lineTo(w, Math.round(y(v)) + 0.5);
    ctx.stroke();
    if (words) ctx.fillText(round(v), 4, y(v) < 14 ? y(v) + 12 : y(v) - 3); // the uppermost below its line
  }
}

/** The error of the line; stepped: as the line, between dumps the last one holds. */
function drawBand({ ctx, css, x, y }: Paper, band: Band[], stepped: boolean): void {
  ctx.fillStyle = css('--band');
  ctx.beginPath();
  band.forEach((b, i) => {
    if (i && stepped) ctx.lineTo(x(b.ts), y(band[i - 1].value + band[i - 1].error));
    ctx.lineTo(x(b.ts), y(b.value + b.error));
  });
  for (let i = band.length - 1; i >= 0; i--) {
    const low = y(Math.max(0, band[i].value - band[i].error));
    if (stepped && i + 1 < band.length) ctx.lineTo(x(band[i + 1].ts), low);
    ctx.lineTo(x(band[i].ts), low);
  }
  ctx.fill();
}

function drawLine({ ctx, css, h, x, y }: Paper, { points, step, colour }: Line): void {
  if (!points.length) return;
  const trace = () => {
    ctx.beginPath();
    points.forEach(([t, v], i) => {
      if (i === 0) return ctx.moveTo(x(t), y(v));
      if (step) ctx.lineTo(x(t), y(points[i - 1][1]));
      ctx.lineTo(x(t), y(v));
    });
  };
  trace();
  ctx.lineTo(x(points[points.length - 1][0]), h);
  ctx.lineTo(x(points[0][0]), h);
  ctx.globalAlpha = 0.14;
  ctx.fillStyle = css(colour);
  ctx.fill();
  ctx.globalAlpha = 1;
  trace();
  ctx.strokeStyle = css(colour);
  ctx.lineWidth = 1.6;
  ctx.stroke();
}

export function Chart({
  lines,
  view,
  height,
  label,
  selected,
  band,
}: {
  lines: Line[];
  view: View;
  height: number;
  label: string;
  selected?: View | null;
  band?: Band[];
}) {
  const most =
    Math.max(
      1,
      ...lines.flatMap((l) => l.points.map((p) => p[1])),
      ...(band ?? []).map((b) => b.value + b.error),
    ) * 1.06;
  const ref = useCanvas(
    (ctx, w, h, css) => {
      const x = (t: number) => ((t - view.from) / (view.to - view.from)) * w;
      const paper = { ctx, css, h, x, y: (v: number) => h - 1 - (v / most) * (h - 4) };
      ctx.clearRect(0, 0, w, h);
      if (selected) {
        ctx.fillStyle = css('--select');
        ctx.fillRect(x(selected.from), 0, Math.max(1, x(selected.to) - x(selected.from)), h);
      }
      scale(paper, w, most, height >= 50);
      if (band?.length)
        drawBand(
          paper,
          band,
          lines.some((l) => l.step),
        );
      for (const l of lines) drawLine(paper, l);
    },
    [...lines.flatMap((l) => [l.points, l.colour]), view, selected?.from, selected?.to, band],
  );
  return <canvas class="chart" ref={ref} role="img" aria-label={label} style={{ height: `${height}px` }} />;
}
