// Plain tables: their head, and the box that they are scrolled in.
import type { ComponentChildren } from 'preact';

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

/** A table that may be wider than the page; keys can scroll it. */
export const Scroll = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <div class="scroll" tabIndex={0} role="region" aria-label={label}>
    {children}
  </div>
);

/** What stands in the corner of a section: the query behind it. */
export const SqlLink = ({ to }: { to: string }) => (
  <a class="dim small" href={to}>
    SQL
  </a>
);
