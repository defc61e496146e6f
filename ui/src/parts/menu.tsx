// A menu over the page.
import { useLayoutEffect, useRef } from 'preact/hooks';

export interface Item {
  label: string;
  key?: string;
  act(): void;
}

/** Stands within the window, and has the focus as soon as it is there: the next key is its own. What had the
 * focus has it again afterwards. */
function useOver(x: number, y: number, onClose: () => void) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const el = ref.current!;
    const before = document.activeElement as HTMLElement | null;
    const r = el.getBoundingClientRect();
    el.style.left = `${Math.max(4, Math.min(x, innerWidth - r.width - 8))}px`;
    el.style.top = `${Math.max(4, Math.min(y, innerHeight - r.height - 8))}px`;
    el.querySelector('button')?.focus();
    const outside = (e: Event) => !el.contains(e.target as Node) && onClose();
    addEventListener('pointerdown', outside);
    return () => {
      removeEventListener('pointerdown', outside);
      if (!document.activeElement || document.activeElement === document.body) before?.focus();
    };
  }, []);
  return ref;
}

export function Menu({
  items,
  x,
  y,
  title,
  onClose,
}: {
  items: (Item | null)[];
  x: number;
  y: number;
  title: string;
  onClose(): void;
}) {
  const ref = useOver(x, y, onClose);
  const move = (by: number) => {
    const all = [...ref.current!.querySelectorAll('button')];
    all[(all.indexOf(document.activeElement as HTMLButtonElement) + by + all.length) % all.length].focus();
  };
  const onKey = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown') move(1);
    else if (e.key === 'ArrowUp') move(-1);
    else if (e.key === 'Escape' || e.key === 'Tab') onClose();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div class="menu" role="menu" aria-label={title} ref={ref} onKeyDown={onKey}>
      <div class="title" role="presentation">
        {title}
      </div>
      {items.map((it) =>
        it ? (
          <button
            type="button"
            role="menuitem"
            onClick={() => {
              onClose();
              it.act();
            }}>
            {it.label}
            {it.key && <kbd>{it.key}</kbd>}
          </button>
        ) : (
          <hr />
        ),
      )}
    </div>
  );
}

/** Below the button that was pressed. */
export function belowOf(e: Event): { x: number; y: number } {
  const r = (e.currentTarget as Element).getBoundingClientRect();
  return { x: r.left, y: r.bottom + 4 };
}
