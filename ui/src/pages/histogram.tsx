// Bars to pick a range of: by dragging, with Shift, or by keys.
import { useRef } from 'preact/hooks';
import { count, round } from '../app/format';
import { marksBelow } from '../app/scale';

export interface Bar {
  id: number;
  label: string;
  value: number;
  words: string;
}

export type BarRange = [first: number, last: number];

interface Props {
  bars: Bar[];
  range: BarRange | null;
  label: string;
  tone: string;
  counts?: boolean; // values are not bytes
  onRange?(r: BarRange | null): void;
}

/** What pointers and keys pick. */
function usePicking({ bars, range, onRange }: Props) {
  const from = useRef<number | null>(null);
  const pick = (id: number, extend: boolean) => {
    if (!onRange) return;
    if (extend && range) onRange([Math.min(range[0], id), Math.max(range[1], id)]);
    else onRange(range && range[0] === id && range[1] === id ? null : [id, id]);
  };
  return {
    pick,
    drop: () => {
      from.current = null;
    },
    onDown(e: PointerEvent, id: number) {
      if (e.button !== 0) return;
      from.current = id;
      pick(id, e.shiftKey);
    },
    onEnter: (id: number) =>
      from.current !== null &&
      from.current !== id &&
      onRange?.([Math.min(from.current, id), Math.max(from.current, id)]),
    onKey(e: KeyboardEvent) {
      const all = [...(e.currentTarget as Element).querySelectorAll('button')];
      const at = all.indexOf(document.activeElement as HTMLButtonElement);
      const next = e.key === 'ArrowRight' ? at + 1 : e.key === 'ArrowLeft' ? at - 1 : -1;
      if (e.key === 'Escape') onRange?.(null);
      else if (next >= 0 && next < all.length) {
        all[next].focus();
        if (e.shiftKey) pick(bars[next].id, true);
      } else return;
      e.preventDefault();
    },
  };
}

export function Histogram(p: Props) {
  const { bars, range, onRange } = p;
  const most = Math.max(1, ...bars.map((b) => b.value));
  const { pick, drop, onDown, onEnter, onKey } = usePicking(p);
  return (
    <div
      class={`histogram ${p.tone}`}
      role="group"
      aria-label={p.label}
      onPointerUp={drop}
      onPointerLeave={drop}
      onKeyDown={onKey}>
      <div class="scale" aria-hidden="true">
        {marksBelow(most, 3, !p.counts).map((v) => (
          <span style={{ bottom: `${(100 * v) / most}%` }}>{p.counts ? count(v) : round(v)}</span>
        ))}
      </div>
      {bars.map((b, i) => {
        const on = range !== null && b.id >= range[0] && b.id <= range[1];
        const words = `${b.label}: ${b.words}`;
        return (
          <button
            type="button"
            tabIndex={i === 0 ? 0 : -1}
            aria-pressed={onRange ? on : undefined}
            aria-label={words}
            title={words}
            class={range && !on ? 'out' : ''}
            onClick={(e) => e.detail === 0 && pick(b.id, e.shiftKey)}
            onPointerDown={(e) => onDown(e, b.id)}
            onPointerEnter={() => onEnter(b.id)}>
            <span class="bar-area">
              <i style={{ height: `${b.value > 0 ? Math.max(1.5, (100 * b.value) / most) : 0}%` }} />
            </span>
            <em>{b.label}</em>
          </button>
        );
      })}
    </div>
  );
}
