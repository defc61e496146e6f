// What makes the picture on a canvas another one from outside: its size and the theme.
import type { MutableRef } from 'preact/hooks';
import { useEffect, useState } from 'preact/hooks';

export type Canvas = MutableRef<HTMLCanvasElement | null>;

/** Counts the changes. */
export function useRedraw(canvas: Canvas): number {
  const [looks, setLooks] = useState(0);
  useEffect(() => {
    const again = () => setLooks((s) => s + 1);
    const watch = new ResizeObserver(again);
    watch.observe(canvas.current!);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', again);
    addEventListener('themechange', again);
    return () => {
      watch.disconnect();
      dark.removeEventListener('change', again);
      removeEventListener('themechange', again);
    };
  }, []);
  return looks;
}
