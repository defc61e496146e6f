// Filters of a selection: chips in their order, named sets of them, and the field that adds one.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { filterOf, movedFilter, PREFIXES, withFilter, withoutFilter } from '../app/filters';
import { safe } from '../app/format';
import { isSaved } from '../app/server';
import { go, place } from '../app/state';
import { remember, remembered } from '../app/store';
import { belowOf, type Item, Menu } from './menu';

export function addFilter(text: string): void {
  go({ filters: withFilter(place.peek().filters, text), zoom: '' });
}

interface Set {
  name: string;
  filters: string[];
}

const remove = (i: number) => withoutFilter(place.peek().filters, i);

function move(from: number, to: number): void {
  const filters = place.peek().filters;
  const next = movedFilter(filters, from, to);
  if (next !== filters) go({ filters: next, zoom: '' });
}

function Chip({ text, i, onEdit }: { text: string; i: number; onEdit(): void }) {
  const onDrop = (e: DragEvent) => {
    e.preventDefault();
    const from = e.dataTransfer!.getData('text/x-filter');
    if (from !== '') move(Number(from), i);
  };
  const onKey = (e: KeyboardEvent) => {
    if (e.key === 'Delete') go({ filters: remove(i), zoom: '' });
    else if (e.altKey && (e.key === 'ArrowLeft' || e.key === 'ArrowRight'))
      move(i, i + (e.key === 'ArrowLeft' ? -1 : 1));
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <span
      class="chip"
      title="Double-click to edit, drag to move, Delete to remove"
      draggable
      onDragStart={(e) => e.dataTransfer!.setData('text/x-filter', String(i))}
      onDragOver={(e) => e.preventDefault()}
      onDrop={onDrop}
      onDblClick={onEdit}>
      {safe(text)}{' '}
      <button
        type="button"
        aria-label={`Remove filter ${safe(text)}`}
        title="Delete: away; Alt+←/→: earlier, later"
        onClick={() => go({ filters: remove(i), zoom: '' })}
        onKeyDown={onKey}>
        ×
      </button>
    </span>
  );
}

/** Filters that were kept under a name. */
function Sets() {
  const filters = place.value.filters;
  const [sets, setSets] = useState(() => remembered<Set[]>('filter-sets', []));
  const [menu, setMenu] = useState<{ x: number; y: number } | null>(null);
  const keep = (next: Set[]) => {
    setSets(next);
    remember('filter-sets', next);
  };
  const keepThese = () => {
    const name = prompt('Name of the set', filters.join(' '));
    if (name) keep([...sets.filter((x) => x.name !== name), { name, filters }]);
  };
  const items: (Item | null)[] = [
    ...(filters.length
      ? [
          { label: 'Keep these under a name…', act: keepThese },
          { label: 'Take all filters away', act: () => go({ filters: [], zoom: '' }) },
        ]
      : []),
    ...(sets.length ? [null] : []),
    ...sets.map((x) => ({ label: x.name, act: () => go({ filters: x.filters, zoom: '' }) })),
    ...(sets.length ? [null, { label: 'Forget all sets', act: () => keep([]) }] : []),
  ];
  return (
    <>
      {(filters.length > 0 || sets.length > 0) && (
        <button type="button" aria-haspopup="menu" onClick={(e) => setMenu(belowOf(e))}>
          Sets
        </button>
      )}
      {menu && (
        <Menu
          title="Named sets of filters"
          x={menu.x}
          y={menu.y}
          onClose={() => setMenu(null)}
          items={items}
        />
      )}
    </>
  );
}

const KindSelect = (p: { class: string | undefined; value: string; onChange(v: string): void }) => (
  <select
    class={p.class}
    aria-label="Kind of filter"
    value={p.value}
    onChange={(e) => p.onChange(e.currentTarget.value)}>
    {PREFIXES.map(([id, label]) => (
      <option value={id}>{label}</option>
    ))}
    <option disabled>T: samples name no thread</option>
    <option disabled>TY: samples name no type</option>
  </select>
);

/** What is typed of a filter that is added next. */
const draft = signal({ text: '', prefix: 'SS:' });

function addDraft(): void {
  const t = draft.value.text.trim();
  if (!t) return;
  addFilter(filterOf(t, draft.value.prefix));
  draft.value = { ...draft.value, text: '' };
}

/** The field that adds a filter. */
export function FilterField({ rest }: { rest?: string }) {
  const { text, prefix } = draft.value;
  return (
    <>
      <KindSelect class={rest} value={prefix} onChange={(v) => (draft.value = { text, prefix: v })} />
      <input
        id="filter"
        class={rest}
        type="text"
        aria-label="Filter"
        placeholder='text, "whole name" or /regex/'
        value={text}
        onInput={(e) => (draft.value = { text: e.currentTarget.value, prefix })}
        onKeyDown={(e) => e.key === 'Enter' && addDraft()}
      />
      <button type="button" class={rest} onClick={addDraft} disabled={!text.trim()}>
        Add
      </button>
    </>
  );
}

/** The filters that there are, and what is wrong with them. */
export function FilterChips({ problem }: { problem: string }) {
  const filters = place.value.filters;
  const edit = (i: number) => {
    draft.value = { ...draft.value, text: filters[i] };
    go({ filters: remove(i) });
    document.getElementById('filter')?.focus();
  };
  return (
    <>
      {filters.map((f, i) => (
        <Chip text={f} i={i} onEdit={() => edit(i)} />
      ))}
      <Sets />
      {problem && (
        <span class="bad" role="alert">
          {safe(problem)}
        </span>
      )}
    </>
  );
}

/** A saved page filters graphs only: elsewhere filters can be taken away. */
const canFilter = () => !isSaved() || /^(flame|tree|timeline|diff)$/.test(place.value.page);

const NoFilters = ({ problem, children }: { problem: string; children?: ComponentChildren }) =>
  children || problem || place.value.filters.length ? (
    <div class="bar">
      <FilterChips problem={problem} />
      <span class="grow" />
      {children}
    </div>
  ) : null;

/** Both in a line. always: on a phone, too, where the field is behind "More" elsewhere. */
export function FilterBar({
  problem,
  always,
  children,
}: {
  problem: string;
  always?: boolean;
  children?: ComponentChildren;
}) {
  if (!canFilter()) return <NoFilters problem={problem}>{children}</NoFilters>;
  return (
    <div class="bar filters" role="group" aria-label="Filters">
      <FilterField rest={always ? undefined : 'rest'} />
      <FilterChips problem={problem} />
      {children && (
        <>
          <span class="grow" />
          {children}
        </>
      )}
    </div>
  );
}
