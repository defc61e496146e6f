// A canvas that is drawn again when its size or the theme changes.
import { useEffect, useRef, useState } from 'preact/hooks';

export function useCanvas(
  paint: (ctx: CanvasRenderingContext2D, w: number, h: number, css: (n: string) => string) => void,
  deps: unknown[],
) {
  const ref = useRef<HTMLCanvasElement>(null);
  const [size, again] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(() => again((n) => n + 1));
    const theme = () => again((n) => n + 1);
    if (ref.current) watch.observe(ref.current);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    addEventListener('themechange', theme);
    dark.addEventListener('change', theme);
    return () => {
      watch.disconnect();
      removeEventListener('themechange', theme);
      dark.removeEventListener('change', theme);
    };
  }, []);
  useEffect(() => {
    const el = ref.current;
    if (!el) return;
    const ratio = devicePixelRatio || 1;
    el.width = Math.round(el.clientWidth * ratio);
    el.height = Math.round(el.clientHeight * ratio);
    const ctx = el.getContext('2d')!;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(el);
    paint(ctx, el.clientWidth, el.clientHeight, (n) => style.getPropertyValue(n).trim());
  }, [...deps, size]);
  return ref;
}
