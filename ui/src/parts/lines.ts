// A scrolled list of lines: those that are seen, and one in the middle.
import { useRef, useState } from 'preact/hooks';

export function useLines(rowHeight: number) {
  const box = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ first: 0, n: 80 });
  const look = () => {
    const el = box.current;
    if (el)
      setRange({
        first: Math.max(0, Math.floor(el.scrollTop / rowHeight) - 20),
        n: Math.ceil(el.clientHeight / rowHeight) + 40,
      });
  };
  const center = (i: number) => {
    if (box.current) box.current.scrollTop = Math.max(0, i * rowHeight - box.current.clientHeight / 3);
    look();
  };
  return { box, range, look, center };
}

/** n and p: the next and the one before. */
export function nextKeys(e: KeyboardEvent, next: (step: number) => void): void {
  if (e.key !== 'n' && e.key !== 'p') return;
  next(e.key === 'n' ? 1 : -1);
  e.preventDefault();
}
