// Processes without a native heap profile: their counters, and their threads.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { base, of as amountOf, safe } from '../app/format';
import type { Other } from '../app/types';
import { countersOf } from './moments';
import { counterRow } from './track-rows';
import type { View } from './view';

export function OtherGroup({ of, view, children }: { of: Other; view: View; children?: ComponentChildren }) {
  const rows = countersOf(of).map((c, i) => counterRow(of, c, i, view, null));
  return (
    <section class="tracks" aria-label={`Tracks of ${safe(of.name)}`}>
      <h2>
        {safe(base(of.name)) || 'unknown'} <span class="dim">pid {of.pid}</span>
      </h2>
      {rows.map((row) => (
        <div class="track" key={row.id}>
          <div class="name">
            {row.label}
            <span class="dim">{row.note}</span>
          </div>
          {row.body}
        </div>
      ))}
      {children}
    </section>
  );
}

/** Beside processes with a profile; collapsed until somebody asks: there may be hundreds. */
export function OtherGroups({ others, view }: { others: Other[]; view: View }) {
  const [open, setOpen] = useState(false);
  if (!others.length) return null;
  return (
    <div class="threads others">
      <button type="button" class="plain" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? '▾' : '▸'} {amountOf(others.length, 'process', 'processes')} without a heap profile
      </button>
      {open && others.map((o) => <OtherGroup of={o} view={view} key={o.upid} />)}
    </div>
  );
}
