// Filters of a selection: chips in their order, named sets of them, and the field that adds one.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { filterOf, movedFilter, PREFIXES, withFilter, withoutFilter } from '../app/filters';
import { safe } from '../app/format';
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

export function FilterBar({ problem, children }: { problem: string; children?: ComponentChildren }) {
  const [text, setText] = useState('');
  const [prefix, setPrefix] = useState('SS:');
  const filters = place.value.filters;
  const add = () => {
    const t = text.trim();
    if (!t) return;
    addFilter(filterOf(t, prefix));
    setText('');
  };
  const edit = (i: number) => {
    setText(filters[i]);
    go({ filters: remove(i) });
    document.getElementById('filter')?.focus();
  };
  return (
    <div class="bar filters" role="group" aria-label="Filters">
      <select aria-label="Kind of filter" value={prefix} onChange={(e) => setPrefix(e.currentTarget.value)}>
        {PREFIXES.map(([id, label]) => (
          <option value={id}>{label}</option>
        ))}
        <option disabled>T: samples name no thread</option>
        <option disabled>TY: samples name no type</option>
      </select>
      <input
        id="filter"
        type="text"
        aria-label="Filter"
        placeholder='text, "whole name" or /regex/'
        value={text}
        onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={(e) => e.key === 'Enter' && add()}
      />
      <button type="button" onClick={add} disabled={!text.trim()}>
        Add
      </button>
      {filters.map((f, i) => (
        <Chip text={f} i={i} onEdit={() => edit(i)} />
      ))}
      <Sets />
      {problem && (
        <span class="bad" role="alert">
          {safe(problem)}
        </span>
      )}
      {children && (
        <>
          <span class="grow" />
          {children}
        </>
      )}
    </div>
  );
}
