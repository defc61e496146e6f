// The controls over the page's graph.
import { save } from '../app/files';
import { amount, isTemporary } from '../app/format';
import { isSaved } from '../app/server';
import { go, place } from '../app/state';
import type { Tracks } from '../app/types';
import { Choice, MetricChoice } from '../parts/choice';
import { ExportButton } from '../parts/export';
import { FilterChips, FilterField } from '../parts/filters';
import { More, moreOpen, Row } from '../parts/popover';
import { GraphSearch } from './crumbs';
import type { ColourBy } from './draw';
import type { Graph } from './graph';

function picture(): void {
  const canvas = document.querySelector<HTMLCanvasElement>('.flame canvas');
  canvas?.toBlob((b) => b && save(b, 'heap.png'));
}

const DirectionChoice = () => (
  <Choice
    label="Direction"
    value={place.value.invert ? 'up' : 'down'}
    onChange={(v) => go({ invert: v === 'up', zoom: '' })}
    options={[
      { id: 'down', label: 'Top-down' },
      { id: 'up', label: 'Bottom-up', hint: 'who allocates, and who calls them (I)' },
    ]}
  />
);

const FramesChoice = () => (
  <Choice
    label="Frames"
    value={place.value.frames}
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
);

const GroupSelect = ({ group, several }: { group: string; several: boolean }) => (
  <select
    aria-label="Group by"
    value={group}
    title="a box for each below the root"
    onChange={(e) => go({ group: e.currentTarget.value, zoom: '' })}>
    {several ? <option value="process">process</option> : <option value="">none</option>}
    <option value="owner">your code, libraries, runtime</option>
    <option value="module">allocating module</option>
    {!isSaved() && <option value="heap">heap</option>}
    <option disabled>thread: not in heap samples</option>
    <option disabled>type: not in heap samples</option>
  </select>
);

const Toggle = (p: { on: boolean; label: string; hint: string; onClick(): void }) => (
  <button type="button" aria-pressed={p.on} class="toggle" title={p.hint} onClick={p.onClick}>
    {p.label}
  </button>
);

interface BarProps {
  tracks: Tracks;
  group: string;
  several: boolean;
  by: ColourBy;
  onBy(by: ColourBy): void;
  onSql?(): void; // none: no query gives these boxes
}

const Asked = ({ group, several }: BarProps) => (
  <>
    {!isSaved() && (
      <Row label="Stacks end at">
        <FramesChoice />
      </Row>
    )}
    <Row label="Group">
      <GroupSelect group={group} several={several} />
    </Row>
  </>
);

const Shape = () => {
  const p = place.value;
  return (
    <Row label="Shape">
      <Toggle
        on={p.collapse}
        label="Collapse recursion"
        hint="a function that calls itself is one frame (C)"
        onClick={() => go({ collapse: !p.collapse, zoom: '' })}
      />
      <Toggle
        on={p.bottom}
        label="Root below"
        hint="root at the bottom"
        onClick={() => go({ bottom: !p.bottom }, true)}
      />
    </Row>
  );
};

/** What is needed now and then. */
const Further = (p: BarProps) => (
  <More>
    <Asked {...p} />
    <Row label="Colour">
      <Choice
        label="Colour"
        value={p.by}
        onChange={p.onBy}
        options={[
          { id: 'owner', label: 'By owner', hint: 'your code, libraries, runtime' },
          { id: 'module', label: 'By module' },
          { id: 'name', label: 'By function' },
        ]}
      />
    </Row>
    <Shape />
    {!isSaved() && (
      <Row label="Save">
        <ExportButton picture={picture} />
        {p.onSql && (
          <button type="button" title="the query that gives these numbers" onClick={p.onSql}>
            SQL
          </button>
        )}
      </Row>
    )}
  </More>
);

/** One line on a wide screen. */
export function GraphBar(p: BarProps & { problem: string }) {
  return (
    <>
      <div class="bar graph-bar" role="group" aria-label="Graph">
        <MetricChoice tracks={p.tracks} />
        <DirectionChoice />
        <span class={`filter-field ${moreOpen.value ? 'open' : ''}`}>
          <FilterField />
        </span>
        <GraphSearch />
        <Further {...p} />
      </div>
      <div class="bar filters" role="group" aria-label="Filters">
        <FilterChips problem={p.problem} />
      </div>
    </>
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
          : isTemporary(p.metric)
            ? 'Nothing here was freed again within a second, or the recording does not say.'
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
