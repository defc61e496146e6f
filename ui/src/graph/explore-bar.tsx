// The controls over the page's graph.
import { save } from '../app/files';
import { amount } from '../app/format';
import { go, place } from '../app/state';
import { Choice, MetricChoice } from '../parts/choice';
import { ExportButton } from '../parts/export';
import { FilterBar } from '../parts/filters';
import { GraphSearch } from './crumbs';
import type { Graph } from './graph';

function picture(): void {
  const canvas = document.querySelector<HTMLCanvasElement>('.flame canvas');
  canvas?.toBlob((b) => b && save(b, 'heap.png'));
}

type ColourBy = 'module' | 'name';

export function ShapeBar({ group, several }: { group: string; several: boolean }) {
  const p = place.value;
  return (
    <div class="bar">
      <MetricChoice />
      <Choice
        label="Direction"
        value={p.invert ? 'up' : 'down'}
        onChange={(v) => go({ invert: v === 'up', zoom: '' })}
        options={[
          { id: 'down', label: 'Top-down' },
          { id: 'up', label: 'Bottom-up', hint: 'who allocates, and who calls them (I)' },
        ]}
      />
      <Choice
        label="Frames"
        value={p.frames}
        onChange={(frames) => go({ frames, zoom: '' })}
        options={[
          {
            id: 'site',
            label: 'Your code',
            hint: 'stacks end at the function that asked: allocator and container frames are cut off',
          },
          { id: 'all', label: 'All frames' },
        ]}
      />
      <button
        type="button"
        aria-pressed={p.collapse}
        class="toggle"
        title="a function that calls itself is one frame (C)"
        onClick={() => go({ collapse: !p.collapse, zoom: '' })}>
        Collapse recursion
      </button>
      <label>
        Group{' '}
        <select
          aria-label="Group by"
          value={group}
          title="a box for each below the root"
          onChange={(e) => go({ group: e.currentTarget.value, zoom: '' })}>
          {several ? <option value="process">process</option> : <option value="">none</option>}
          <option value="module">allocating module</option>
          <option value="heap">heap</option>
          <option disabled>thread: not in heap samples</option>
          <option disabled>type: not in heap samples</option>
        </select>
      </label>
      <button
        type="button"
        aria-pressed={p.bottom}
        class="toggle"
        title="root at the bottom"
        onClick={() => go({ bottom: !p.bottom }, true)}>
        Root below
      </button>
    </div>
  );
}

export function LookBar({
  problem,
  by,
  onBy,
  onSql,
}: {
  problem: string;
  by: ColourBy;
  onBy(by: ColourBy): void;
  onSql(): void;
}) {
  return (
    <FilterBar problem={problem}>
      <Choice
        label="Colour"
        value={by}
        onChange={onBy}
        options={[
          { id: 'module', label: 'By module' },
          { id: 'name', label: 'By function' },
        ]}
      />
      <GraphSearch />
      <ExportButton picture={picture} />
      <button type="button" title="the query that gives these numbers" onClick={onSql}>
        SQL
      </button>
    </FilterBar>
  );
}

/** Why nothing is drawn. */
export function NothingHere({ g }: { g: Graph }) {
  const p = place.value;
  const filters = p.filters.length > 0;
  const why =
    filters && g.unfiltered > 0
      ? `Filters hide 100 % (${amount(g.unfiltered, p.metric)})`
      : p.from
        ? 'Nothing grew in this interval.'
        : p.metric.startsWith('alloc')
          ? 'No allocations were sampled here.'
          : 'Nothing is live here.';
  return (
    <div class="empty">
      <p>{why}</p>
      {filters && (
        <p>
          <button type="button" onClick={() => go({ filters: p.filters.slice(0, -1), zoom: '' })}>
            Remove the last one
          </button>{' '}
          <button type="button" onClick={() => go({ filters: [], zoom: '' })}>
            Take all away
          </button>
        </p>
      )}
      {!filters && g.unfiltered <= 0 && (
        <p class="dim">
          Too short, idle before the recording began, or allocations much smaller than the interval (
          {amount(g.interval, 'space')}): <code>heapwise doctor</code> checks the machine,{' '}
          <a href={`#!/info?trace=${p.trace}`}>Info</a> tells what the recorder saw.
        </p>
      )}
      {!p.from && !filters && (
        <button type="button" onClick={() => go({ at: 'peak', max: false })}>
          Show the peak
        </button>
      )}
    </div>
  );
}
