// Long lists of rows of one height: only those that are seen are drawn.
import { useEffect, useRef, useState } from 'preact/hooks';

export const ROW = 26;

export function useWindow(rows: number) {
  const ref = useRef<HTMLDivElement>(null);
  const [range, set] = useState({ first: 0, n: 60 });
  const look = () => {
    const el = ref.current;
    if (!el) return;
    const first = Math.max(0, Math.floor(el.scrollTop / ROW) - 8);
    const n = Math.ceil(el.clientHeight / ROW) + 16;
    set((r) => (r.first === first && r.n === n ? r : { first, n }));
  };
  useEffect(look, [rows]);
  useEffect(() => {
    addEventListener('resize', look);
    return () => removeEventListener('resize', look);
  }, []);
  return { ref, look, first: range.first, last: Math.min(rows, range.first + range.n) };
}

/** Scrolls so that a row is seen. */
export function revealRow(el: HTMLElement, i: number): void {
  if (i * ROW < el.scrollTop) el.scrollTop = i * ROW;
  else if ((i + 1) * ROW > el.scrollTop + el.clientHeight) el.scrollTop = (i + 1) * ROW - el.clientHeight;
}
