// What stands in place of an answer, and single figures.
import type { ComponentChildren } from 'preact';
import { safe } from '../app/format';

export const Busy = ({ what }: { what: string }) => (
  <p class="empty" role="status">
    {what}…
  </p>
);
export const Failed = ({ text }: { text: string }) => (
  <p class="banner bad" role="alert">
    {safe(text)}
  </p>
);

/** sql: where the query is that gives the figure. */
export function Figure({
  label,
  value,
  note,
  to,
  sql,
}: {
  label: string;
  value: string;
  note?: ComponentChildren;
  to?: string;
  sql?: string;
}) {
  const body = (
    <>
      <span class="label">{label}</span>
      <span class="value">{value}</span>
      <span class="note">{note ?? ' '}</span>
    </>
  );
  return (
    <div class={`figure ${to ? 'leads' : ''}`}>
      {to ? <a href={to}>{body}</a> : body}
      {sql && (
        <a class="sql-link" href={sql} aria-label={`SQL of: ${label}`}>
          SQL
        </a>
      )}
    </div>
  );
}

/** Takes a note away that was read. */
export const CloseNote = ({ onClose }: { onClose(): void }) => (
  <button type="button" class="close" aria-label="Dismiss" title="Dismiss" onClick={onClose}>
    ×
  </button>
);
