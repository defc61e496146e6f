// What a user likes, kept by the server and this browser.
import { useState } from 'preact/hooks';
import { bytes, type Units, units, UNITS_CHOICES } from '../app/format';
import { status } from '../app/server';
import { go, place } from '../app/state';
import { forgetAll, remember, remembered } from '../app/store';
import { Choice } from '../parts/choice';

const THEMES = [
  { id: '', label: 'As the system' },
  { id: 'light', label: 'Light' },
  { id: 'dark', label: 'Dark' },
  { id: 'contrast', label: 'High contrast' },
];

function Looks() {
  return (
    <>
      <h2 class="first">Theme</h2>
      <Choice
        label="Theme"
        value={place.value.theme}
        options={THEMES}
        onChange={(theme: string) => {
          remember('theme', [theme]);
          go({ theme }, true);
        }}
      />
      <p class="statement">A theme in the address counts first, then this, then the system's.</p>
      <h2>Units</h2>
      <Choice
        label="Units"
        value={units.value}
        options={UNITS_CHOICES}
        onChange={(u: Units) => {
          units.value = u;
          remember('units', [u]);
        }}
      />
      <p class="statement">
        For example: {bytes(123_456_789)}. Exact figures stand in the tips, and SQL always gives bytes.
      </p>
    </>
  );
}

function DefaultFilters({ filters, onFilters }: { filters: string; onFilters(text: string): void }) {
  const keep = (text: string) => {
    onFilters(text);
    remember(
      'default-filters',
      text
        .split('\n')
        .map((f) => f.trim())
        .filter(Boolean),
    );
  };
  return (
    <>
      <h2>Filters that every graph begins with</h2>
      <textarea
        class="wide"
        rows={4}
        aria-label="Filters, one a line"
        spellcheck={false}
        placeholder={'HF:/^std::/\nHS:"idle_pool"'}
        value={filters}
        onInput={(e) => keep(e.currentTarget.value)}
      />
      <p class="statement">
        One a line, as in the filter bar (<code>SS:</code> keep stacks, <code>HS:</code> hide stacks,{' '}
        <code>HF:</code> take frames out …). They apply when a trace is opened, appear as chips like any
        other, and can be removed there.
      </p>
    </>
  );
}

export function SettingsPage() {
  const [filters, setFilters] = useState(remembered<string[]>('default-filters', []).join('\n'));
  const [said, setSaid] = useState('');
  const forget = () => {
    setFilters('');
    void forgetAll().then(() => setSaid('All that was kept is gone.'));
  };
  return (
    <div class="doc">
      <Looks />
      <DefaultFilters filters={filters} onFilters={setFilters} />
      <h2>Source files</h2>
      <p>
        The Source page shows files that the trace's symbols name, from where they were built, and from the
        directories that the server was given: <code>heapwise ui --sources DIR TRACE</code>.{' '}
        <code>--symbols DIR</code> is for files with debug info.
      </p>
      <h2>What is kept</h2>
      <p>
        Paths of recent traces, queries and their history, named filters and these settings: by this browser,
        and by the server in <code>~/.local/state/heapwise/page</code>, so that they are there the next time.
        Nothing of a trace's contents.
      </p>
      <p>
        <button type="button" onClick={forget}>
          Forget all of it
        </button>{' '}
        <span role="status">{said}</span>
      </p>
      <p class="dim">heapwise {status.value?.version}</p>
    </div>
  );
}
