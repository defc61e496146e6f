// The buttons below the editor: run, explain, and queries from lists.
import { type MutableRef, useState } from 'preact/hooks';
import { safe } from '../app/format';
import { go } from '../app/state';
import { remember, remembered } from '../app/store';
import { belowOf, type Item, Menu } from '../parts/menu';
import type { Editor } from './sql-editor';
import { EXAMPLES } from './sql-examples';
import type { Past, Runner } from './sql-run';
import type { Tabs } from './sql-tabs';
import { bind } from './sql-text';

interface Saved {
  name: string;
  sql: string;
}
type List = 'history' | 'saved' | 'examples';
const TITLES: Record<List, string> = { history: 'Asked before', saved: 'Saved', examples: 'Examples' };

const firstLine = (sql: string) => safe(sql.replace(/\s+/g, ' ').slice(0, 70));

function pastItems(past: Past[], put: (sql: string) => void, forget: () => void): (Item | null)[] {
  if (!past.length) return [{ label: 'Nothing was asked yet', act: () => {} }];
  const rows = past
    .slice(0, 25)
    .map((x) => ({ label: `${x.error ? '✗ ' : ''}${firstLine(x.sql)}`, act: () => put(x.sql) }));
  return [...rows, null, { label: 'Forget all', act: forget }];
}

/** Queries under a name; now: that of the tab, and its query. */
function useSaved(put: (sql: string) => void, now: () => Saved): () => (Item | null)[] {
  const [saved, set] = useState<Saved[]>(() => remembered('sql-saved', []));
  const keep = (next: Saved[]) => {
    set(next);
    remember('sql-saved', next);
  };
  const save = () => {
    const name = prompt('Name of the query', now().name);
    if (name) keep([...saved.filter((s) => s.name !== name), { name, sql: now().sql }]);
  };
  return () => [
    { label: 'Save this query…', act: save },
    ...(saved.length ? [null] : []),
    ...saved.map((s) => ({ label: s.name, act: () => put(s.sql) })),
    ...(saved.length ? [null, { label: 'Forget saved queries', act: () => keep([]) }] : []),
  ];
}

interface Props {
  editor: MutableRef<Editor | null>;
  runner: Runner;
  tabs: Tabs;
  bound: () => Record<string, string>;
  inBytes: boolean;
  onBytes(): void;
  onPut(sql: string): void;
}

/** Queries from lists: examples, those asked before, those under a name. */
function Lists({ editor, runner, tabs, onPut }: Props) {
  const [menu, setMenu] = useState<{ what: List; x: number; y: number } | null>(null);
  const savedItems = useSaved(onPut, () => ({ name: tabs.current!.name, sql: editor.current!.text() }));
  const open = (what: List) => (e: MouseEvent) => setMenu({ what, ...belowOf(e) });
  const items = (what: List): (Item | null)[] => {
    if (what === 'examples') return EXAMPLES.map((x) => ({ label: x.name, act: () => onPut(x.sql) }));
    return what === 'saved' ? savedItems() : pastItems(runner.past, onPut, runner.forget);
  };
  return (
    <>
      <button type="button" aria-haspopup="menu" onClick={open('examples')}>
        Examples
      </button>
      <button type="button" aria-haspopup="menu" onClick={open('history')}>
        History
      </button>
      <button type="button" aria-haspopup="menu" onClick={open('saved')}>
        Saved
      </button>
      {menu && (
        <Menu
          title={TITLES[menu.what]}
          x={menu.x}
          y={menu.y}
          items={items(menu.what)}
          onClose={() => setMenu(null)}
        />
      )}
    </>
  );
}

function RunButton({ runner, onRun }: { runner: Runner; onRun(): void }) {
  if (runner.busy)
    return (
      <button type="button" class="primary" onClick={runner.cancel}>
        Cancel <kbd>Esc</kbd>
      </button>
    );
  return (
    <button
      type="button"
      class="primary"
      title="the statement at the cursor, or what is marked"
      onClick={onRun}>
      Run <kbd>Ctrl ↵</kbd>
    </button>
  );
}

export function SqlBar(p: Props) {
  const { editor, runner } = p;
  const { busy, run } = runner;
  const explain = () => {
    const c = editor.current!.current();
    void run({ from: c.from, text: `explain query plan ${bind(c.text, p.bound()).trim()}` });
  };
  const copyLink = () => {
    go({ sql: editor.current!.text() });
    void navigator.clipboard?.writeText(location.href);
  };
  return (
    <div class="bar sql-bar">
      <RunButton runner={runner} onRun={() => void run(editor.current!.current())} />
      <button
        type="button"
        title="Ctrl+Shift+Enter"
        disabled={!!busy}
        onClick={() => void run({ from: 0, text: editor.current!.text() })}>
        Run all
      </button>
      <button type="button" disabled={!!busy} onClick={explain}>
        Explain
      </button>
      <Lists {...p} />
      <button type="button" title="the address then holds the query" onClick={copyLink}>
        Copy link
      </button>
      <span class="grow" />
      <label class="tick">
        <input type="checkbox" checked={p.inBytes} onChange={p.onBytes} />
        sizes as KiB, MiB
      </label>
    </div>
  );
}
