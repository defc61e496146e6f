// Further controls behind a button; they stand over the page, on a phone below the button.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

/** Of the page's graph: a key may need what is in it. */
export const moreOpen = signal(false);

export function More({ children }: { children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const open = moreOpen.value;
  useEffect(() => () => void (moreOpen.value = false), []);
  // Before the next press, which may be the one that closes it.
  useLayoutEffect(() => {
    if (!open) return;
    // Where it stands in the page's flow, closing would move what is being pressed.
    const outside = (e: Event) => {
      const over = getComputedStyle(box.current!.querySelector('.popover')!).position === 'absolute';
      if (over && !box.current!.contains(e.target as Node)) moreOpen.value = false;
    };
    addEventListener('pointerdown', outside);
    return () => removeEventListener('pointerdown', outside);
  }, [open]);
  const onKey = (e: KeyboardEvent) => {
    if (e.key !== 'Escape' || !open || (e.target as Element).closest('.menu')) return;
    e.stopPropagation();
    moreOpen.value = false;
    box.current?.querySelector('button')?.focus();
  };
  return (
    <div class="popover-box" ref={box} onKeyDown={onKey}>
      <button
        type="button"
        class="popover-toggle"
        aria-expanded={open}
        onClick={() => (moreOpen.value = !open)}>
        More…
      </button>
      <div class="popover" role="group" aria-label="Further controls" hidden={!open}>
        {children}
      </div>
    </div>
  );
}

/** A line of it. */
export const Row = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <div class="popover-row">
    <span>{label}</span>
    <div>{children}</div>
  </div>
);
