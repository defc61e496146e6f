// A result of SQL as a chart, a pivot or a flamegraph.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Flame } from '../graph/flame';
import { bytes, exact, safe } from '../app/format';
import { type Cell, compare, type GridColumn } from '../parts/grid';
import { fromRows, nameOf } from '../graph/graph';
import { AGGREGATES, type Aggregate, MAX_COLUMNS, pivot, pivotKey } from './pivot';
import { useCanvas } from '../timeline/timeline';

const COLOURS = ['--accent', '--blue', '--green', '--violet', '--bad', '--note'];
const isBytesName = (n: string) => /(^|_)(size|space|bytes|rss|resident|total|self|live|freed)$/.test(n);
const number = (v: Cell) => (v === null || v === '' ? NaN : Number(v));
const short = (v: number, inBytes: boolean) => (inBytes ? bytes(v) : Math.abs(v) >= 1e15 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2) : Number(v.toPrecision(4)).toLocaleString('en-US'));

// ---- chart ----

type Kind = 'line' | 'bar' | 'histogram';

export function ResultChart({ columns, rows }: { columns: GridColumn[]; rows: Cell[][] }) {
  const numeric = columns.map((c, i) => (c.numeric ? i : -1)).filter((i) => i >= 0);
  const [kind, setKind] = useState<Kind>(columns.some((c, i) => !c.numeric && i === 0) ? 'bar' : 'line');
  const firstX = columns.findIndex((c) => /^(ts|time|ts_end)$/.test(c.name));
  const [x, setX] = useState(firstX >= 0 ? firstX : columns[0]?.numeric ? 0 : Math.max(0, columns.findIndex((c) => !c.numeric)));
  const [ys, setYs] = useState<number[]>(() => {
    const rest = numeric.filter((i) => i !== (firstX >= 0 ? firstX : 0) && !/(^|_)(id|upid|utid|pid|depth)$/.test(columns[i].name));
    return (rest.length ? rest : numeric).slice(0, 1);
  });
  const byteScale = ys.every((y) => isBytesName(columns[y]?.name ?? ''));
  const bars = useMemo(() => {
    if (kind === 'histogram') {
      const v = rows.map((r) => number(r[ys[0]])).filter((n) => !Number.isNaN(n));
      if (!v.length) return [];
      const [lo, hi] = [v.reduce((a, b) => Math.min(a, b)), v.reduce((a, b) => Math.max(a, b))];
      const n = Math.min(40, Math.max(1, Math.ceil(Math.sqrt(v.length))));
      const step = (hi - lo) / n || 1;
      const out = Array.from({ length: n }, (_, i) => ({ label: `${short(lo + i * step, byteScale)} to ${short(lo + (i + 1) * step, byteScale)}`, values: [0] }));
      for (const k of v) out[Math.min(n - 1, Math.floor((k - lo) / step))].values[0]++;
      return out;
    }
    return rows.slice(0, 200).map((r) => ({ label: String(r[x] ?? 'NULL'), values: ys.map((y) => number(r[y]) || 0) }));
  }, [rows, kind, x, ys]);
  const points = useMemo(() => {
    const sortedRows = [...rows].sort((a, b) => compare(a[x], b[x]));
    return ys.map((y) => sortedRows.map((r, i) => [columns[x]?.numeric ? number(r[x]) : i, number(r[y])] as [number, number]).filter((p) => !Number.isNaN(p[0]) && !Number.isNaN(p[1])));
  }, [rows, x, ys]);
  const [over, setOver] = useState('');
  const height = 340;
  const area = { left: 76, right: 12, top: 8, bottom: 26 };
  const ref = useCanvas((ctx, w, h, css) => {
    ctx.clearRect(0, 0, w, h);
    ctx.font = '11px system-ui, sans-serif';
    const iw = w - area.left - area.right;
    const ih = h - area.top - area.bottom;
    const all = kind === 'line' ? points.flat().map((p) => p[1]) : bars.flatMap((b) => b.values);
    const hi = all.reduce((a, b) => Math.max(a, b), 0) || 1;
    const lo = all.reduce((a, b) => Math.min(a, b), 0);
    const yOf = (v: number) => area.top + ih - ((v - lo) / (hi - lo)) * ih;
    ctx.strokeStyle = css('--line');
    ctx.fillStyle = css('--dim');
    ctx.textAlign = 'right';
    ctx.textBaseline = 'middle';
    for (let k = 0; k <= 4; k++) {
      const v = lo + ((hi - lo) * k) / 4;
      ctx.beginPath();
      ctx.moveTo(area.left, Math.round(yOf(v)) + 0.5);
      ctx.lineTo(w - area.right, Math.round(yOf(v)) + 0.5);
      ctx.stroke();
      ctx.fillText(short(v, kind !== 'histogram' && byteScale), area.left - 6, yOf(v));
    }
    ctx.textBaseline = 'top';
    if (kind === 'line') {
      const xs = points.flat().map((p) => p[0]);
      const x0 = xs.reduce((a, b) => Math.min(a, b), Infinity);
      const x1 = xs.reduce((a, b) => Math.max(a, b), -Infinity);
      const xOf = (v: number) => area.left + (x1 > x0 ? (v - x0) / (x1 - x0) : 0.5) * iw;
      points.forEach((list, s) => {
        ctx.strokeStyle = css(COLOURS[s % COLOURS.length]);
        ctx.fillStyle = ctx.strokeStyle;
        ctx.lineWidth = 1.6;
        ctx.setLineDash(s ? [6 - s, 3] : []);
        ctx.beginPath();
        // More points than pixels: lowest and highest of each column.
        if (list.length > 4 * iw) {
          const cols = new Map<number, [number, number]>();
          for (const [px, v] of list) {
            const c = Math.floor(xOf(px));
            const b = cols.get(c);
            if (b) cols.set(c, [Math.min(b[0], v), Math.max(b[1], v)]);
            else cols.set(c, [v, v]);
          }
          for (const [c, [a, b]] of cols) {
            ctx.lineTo(c, yOf(a));
            ctx.lineTo(c, yOf(b));
          }
        } else list.forEach(([px, v]) => ctx.lineTo(xOf(px), yOf(v)));
        ctx.stroke();
        ctx.setLineDash([]);
        if (list.length < 60) for (const [px, v] of list) ctx.fillRect(xOf(px) - 2, yOf(v) - 2, 4, 4);
      });
      ctx.fillStyle = css('--dim');
      ctx.textAlign = 'left';
      if (columns[x]?.numeric && points[0]?.length) {
        const isTime = /^(ts|ts_end|time)$/.test(columns[x].name);
        const word = (v: number) => (isTime ? `${((v - x0) / 1e9).toFixed(2)} s` : short(v, isBytesName(columns[x].name)));
        ctx.fillText(word(x0), area.left, h - area.bottom + 8);
        ctx.textAlign = 'right';
        ctx.fillText(word(x1), w - area.right, h - area.bottom + 8);
      }
    } else {
      const bw = iw / Math.max(1, bars.length);
      bars.forEach((b, i) => {
        const each = Math.max(1, (bw * 0.8) / b.values.length);
        b.values.forEach((v, s) => {
          ctx.fillStyle = css(COLOURS[s % COLOURS.length]);
          ctx.fillRect(area.left + i * bw + bw * 0.1 + s * each, Math.min(yOf(v), yOf(0)), Math.max(1, each - 1), Math.abs(yOf(v) - yOf(0)));
        });
        ctx.fillStyle = css('--dim');
        ctx.textAlign = 'center';
        if (bw > 46 || i % Math.ceil(60 / bw) === 0) ctx.fillText(fitTo(ctx, safe(b.label), Math.max(bw, 56) - 6), area.left + (i + 0.5) * bw, h - area.bottom + 8);
      });
    }
  }, [kind, x, ys, points, bars]);
  if (!numeric.length) return <p class="empty">A chart needs a column of numbers.</p>;
  const option = (i: number) => <option value={String(i)}>{safe(columns[i].name)}</option>;
  return (
    <div class="result-chart">
      <div class="bar">
        <label>Chart <select value={kind} onChange={(e) => setKind(e.currentTarget.value as Kind)}><option value="line">line</option><option value="bar">bars</option><option value="histogram">histogram</option></select></label>
        {kind !== 'histogram' && <label>Along <select value={String(x)} onChange={(e) => setX(Number(e.currentTarget.value))}>{columns.map((_, i) => option(i))}</select></label>}
        <span role="group" aria-label="Values">Values {numeric.slice(0, 12).map((i) => (
          <label class="tick"><input type="checkbox" checked={ys.includes(i)} onChange={() => setYs(ys.includes(i) ? (ys.length > 1 ? ys.filter((y) => y !== i) : ys) : kind === 'histogram' ? [i] : [...ys, i])} />
            <i style={{ background: ys.includes(i) ? `var(${COLOURS[ys.indexOf(i) % COLOURS.length]})` : 'transparent' }} />{safe(columns[i].name)}</label>
        ))}</span>
        {kind === 'bar' && rows.length > 200 && <span class="dim">the first 200 of {rows.length} rows</span>}
      </div>
      <canvas ref={ref} role="img" aria-label={`${kind} chart of ${ys.map((y) => columns[y]?.name).join(', ')}; the table has the figures`} style={{ width: '100%', height: `${height}px` }}
        onPointerMove={(e) => {
          if (kind === 'line') return;
          const r = e.currentTarget.getBoundingClientRect();
          const b = bars[Math.floor(((e.clientX - r.left - area.left) / (r.width - area.left - area.right)) * bars.length)];
          setOver(b ? `${safe(b.label)}: ${b.values.map((v, s) => (kind === 'histogram' ? `${exact(v)} rows` : short(v, isBytesName(columns[ys[s]].name)))).join(', ')}` : '');
        }} onPointerLeave={() => setOver('')} />
      <p class="statement">{over || ' '}</p>
    </div>
  );
}

function fitTo(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  let n = Math.max(1, Math.floor(width / 7));
  while (n > 1 && ctx.measureText(`${text.slice(0, n)}…`).width > width) n--;
  return `${text.slice(0, n)}…`;
}

// ---- pivot ----

export function ResultPivot({ columns, rows }: { columns: GridColumn[]; rows: Cell[][] }) {
  const text = columns.map((_, i) => i).filter((i) => !columns[i].numeric);
  const nums = columns.map((_, i) => i).filter((i) => columns[i].numeric);
  const [down, setDown] = useState<number[]>(text.length ? [text[0]] : [0]);
  const [across, setAcross] = useState<number[]>([]);
  const [value, setValue] = useState(nums.find((i) => isBytesName(columns[i].name)) ?? nums[nums.length - 1] ?? 0);
  const [by, setBy] = useState<Aggregate>(nums.length ? 'sum' : 'count');
  const [open, setOpen] = useState(new Set<string>());
  const [dragged, setDragged] = useState(-1);
  const p = useMemo(() => pivot(rows, { rows: down, columns: across, value, by }, open), [rows, down, across, value, by, open]);
  const inBytes = isBytesName(columns[value]?.name ?? '') && by !== 'count' && by !== 'distinct';
  const word = (v: number | null) => (v === null ? '' : short(v, inBytes));
  const free = columns.map((_, i) => i).filter((i) => !down.includes(i) && !across.includes(i));
  const put = (where: 'rows' | 'columns' | 'none', i: number) => {
    if (i < 0) return;
    const d = down.filter((x) => x !== i);
    const a = across.filter((x) => x !== i);
    setDown(where === 'rows' ? [...d, i] : d);
    setAcross(where === 'columns' ? [...a, i] : a);
    setOpen(new Set());
  };
  const zone = (where: 'rows' | 'columns' | 'none', label: string, list: number[]) => (
    <div class={`zone ${dragged >= 0 ? 'ready' : ''}`} role="group" aria-label={label} onDragOver={(e) => e.preventDefault()} onDrop={(e) => { e.preventDefault(); put(where, dragged); setDragged(-1); }}>
      <span class="label">{label}</span>
      {list.map((i) => (
        <span class="chip" draggable onDragStart={(e) => { e.dataTransfer!.setData('text/plain', String(i)); setDragged(i); }} onDragEnd={() => setDragged(-1)}>{safe(columns[i].name)}
          {where !== 'rows' && <button type="button" title="to rows" aria-label={`${safe(columns[i].name)}: to rows`} onClick={() => put('rows', i)}>↓</button>}
          {where !== 'columns' && <button type="button" title="to columns" aria-label={`${safe(columns[i].name)}: to columns`} onClick={() => put('columns', i)}>→</button>}
          {where !== 'none' && <button type="button" title="away" aria-label={`${safe(columns[i].name)}: away`} onClick={() => put('none', i)}>×</button>}
        </span>
      ))}
    </div>
  );
  const toggle = (keys: Cell[]) => {
    const next = new Set(open);
    const k = pivotKey(keys);
    if (!next.delete(k)) next.add(k);
    setOpen(next);
  };
  const shownRows = p.rows.slice(0, 2000);
  return (
    <div class="result-pivot">
      <div class="bar">{zone('none', 'Columns of the result', free)}</div>
      <div class="bar">{zone('rows', 'Rows', down)}{zone('columns', 'Across', across)}
        <label>Value <select value={String(value)} onChange={(e) => setValue(Number(e.currentTarget.value))}>{columns.map((c, i) => <option value={String(i)}>{safe(c.name)}</option>)}</select></label>
        <label>as <select aria-label="Summed up as" value={by} onChange={(e) => setBy(e.currentTarget.value as Aggregate)}>{AGGREGATES.map((a) => <option>{a}</option>)}</select></label></div>
      <div class="pivot-table" tabIndex={0} role="region" aria-label="Pivot">
        <table>
          <thead><tr><th scope="col">{down.map((i) => safe(columns[i].name)).join(' › ') || 'all'}</th>{p.columns.map((k) => <th scope="col" class="num">{safe(k.map((v) => v ?? 'NULL').join(' · '))}</th>)}<th scope="col" class="num">{by}</th></tr></thead>
          <tbody>
            {shownRows.map((r) => (
              <tr><th scope="row" style={{ paddingLeft: `${8 + (r.depth - 1) * 16}px` }}>{r.children
                ? <button type="button" class="plain" aria-expanded={open.has(pivotKey(r.keys))} onClick={() => toggle(r.keys)}>{open.has(pivotKey(r.keys)) ? '▾' : '▸'} {safe(String(r.keys[r.keys.length - 1] ?? 'NULL'))}</button>
                : safe(String(r.keys[r.keys.length - 1] ?? 'NULL'))}</th>{r.cells.map((v) => <td class="num" title={v === null ? '' : String(v)}>{word(v)}</td>)}<td class="num" title={String(r.total)}>{word(r.total)}</td></tr>
            ))}
            <tr class="sum"><th scope="row">all</th>{p.total.cells.map((v) => <td class="num">{word(v)}</td>)}<td class="num" title={String(p.total.total)}>{word(p.total.total)}</td></tr>
          </tbody>
        </table>
      </div>
      {p.rows.length > shownRows.length && <p class="statement">the first {shownRows.length} of {p.rows.length} groups</p>}
      {p.columns.length === MAX_COLUMNS && <p class="statement">only the first {MAX_COLUMNS} columns across are shown</p>}
    </div>
  );
}

// ---- flamegraph ----

/** Which columns make a tree; null: this is none. */
export function treeColumns(columns: GridColumn[]): { id: number; parent: number; name: number; value: number } | null {
  const find = (...names: string[]) => names.map((n) => columns.findIndex((c) => c.name === n)).find((i) => i >= 0) ?? -1;
  const t = { id: find('id'), parent: find('parent_id', 'parent'), name: find('name'), value: find('self', 'value', 'self_space', 'self_size', 'size') };
  return Object.values(t).every((i) => i >= 0) ? t : null;
}

export function ResultFlame({ columns, rows }: { columns: GridColumn[]; rows: Cell[][] }) {
  const t = treeColumns(columns)!;
  const made = useMemo(() => {
    try {
      return { graph: fromRows(rows.map((r) => ({ id: r[t.id], parent: r[t.parent], name: String(r[t.name] ?? ''), value: number(r[t.value]) || 0 }))), problem: '' };
    } catch (e) {
      return { graph: null, problem: (e as Error).message };
    }
  }, [rows]);
  const [zoom, setZoom] = useState(0);
  useEffect(() => setZoom(0), [rows]);
  const name = columns[t.value].name;
  if (!made.graph) return <p class="banner bad" role="alert">{made.problem}</p>;
  if (made.graph.total <= 0) return <p class="empty">The column {safe(name)} is 0 everywhere.</p>;
  return <><p class="statement">width: {safe(name)} of each row and all below it{zoom > 0 ? ` · zoomed to ${safe(nameOf(made.graph, zoom))}` : ''}</p>
    <Flame graph={made.graph} metric={isBytesName(name) || /value/.test(name) ? 'space' : 'objects'} zoom={zoom < made.graph.n ? zoom : 0} label="Flamegraph of the result" onZoom={setZoom} /></>;
}
