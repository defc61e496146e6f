// Plain tables: their head, and the box that they are scrolled in.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** A column: its name, 'num' or another class, and what it means. */
export type Column = string | [label: string, cls: string, title?: string];

/** "num" where a row of figures stands below. */
export const Head = ({ columns }: { columns: Column[] }) => (
  <thead>
    <tr>
      {columns.map((c) => {
        const [label, cls, title] = typeof c === 'string' ? [c] : c;
        return (
          <th scope="col" class={cls} title={title}>
            {label}
          </th>
        );
      })}
    </tr>
  </thead>
);

/** Cells know the name of their column: where there is no room for columns a row is a card, and each figure
 * has its name. */
function nameCells(box: HTMLElement): void {
  for (const table of box.querySelectorAll('table.top')) {
    const names = [...table.querySelectorAll('thead th')].map((th) => th.textContent ?? '');
    for (const row of table.querySelectorAll('tbody tr'))
      [...row.children].forEach(
        (td, i) =>
          (td as HTMLElement).dataset.name !== names[i] &&
          ((td as HTMLElement).dataset.name = names[i] ?? ''),
      );
  }
}

/** A table that may be wider than the page; keys can scroll it. */
export function Scroll({
  label,
  busy,
  children,
}: {
  label: string;
  busy?: boolean;
  children: ComponentChildren;
}) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => nameCells(box.current!));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label} aria-busy={busy} ref={box}>
      {children}
    </div>
  );
}

/** What stands in the corner of a section: the query behind it. */
export const SqlLink = ({ to }: { to: string }) => (
  <a class="dim small" href={to}>
    SQL
  </a>
);
