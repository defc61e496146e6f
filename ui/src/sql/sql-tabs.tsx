// The queries that stand beside each other, kept between visits.
import { type MutableRef, useRef, useState } from 'preact/hooks';
import { safe } from '../app/format';
import { go } from '../app/state';
import { remember, remembered } from '../app/store';
import type { Editor } from './sql-editor';
import { EXAMPLES } from './sql-examples';

export interface Tab {
  name: string;
  sql: string;
}
export type Tabs = ReturnType<typeof useTabs>;

/** shown: another one stands in the editor now. */
export function useTabs(editor: MutableRef<Editor | null>, shown: () => void) {
  const [list, set] = useState<Tab[]>(() => {
    const old = remembered<Tab[]>('sql-tabs', []);
    return old.length ? old : [{ name: 'Query 1', sql: EXAMPLES[0].sql }];
  });
  const [at, select] = useState(0);
  const latest = useRef(list);
  latest.current = list;
  const keep = (next: Tab[]) => {
    set(next);
    remember('sql-tabs', next);
  };
  const show = (index: number, all = list) => {
    select(index);
    go({ sql: '' }, true);
    shown();
    editor.current?.set(all[index].sql);
  };
  const add = (sql = '', name = '') => {
    const next = [...list, { name: name || `Query ${list.length + 1}`, sql }];
    keep(next);
    show(next.length - 1, next);
    editor.current?.focus();
  };
  const close = (i: number) => {
    const next = list.filter((_, k) => k !== i);
    const all = next.length ? next : [{ name: 'Query 1', sql: '' }];
    keep(all);
    show(Math.max(0, Math.min(all.length - 1, i <= at ? at - 1 : at)), all);
  };
  const rename = (i: number) => {
    const name = prompt('Name of the tab', list[i].name);
    if (name) keep(list.map((x, k) => (k === i ? { ...x, name } : x)));
  };
  /** The query of the address: a tab that has it, or one more. */
  const begin = (sql: string): string => {
    let all = latest.current;
    let index = sql ? all.findIndex((t) => t.sql === sql) : 0;
    if (index < 0) {
      all = [...all, { name: `Query ${all.length + 1}`, sql }];
      index = all.length - 1;
      set(all);
    }
    select(index);
    return all[index].sql;
  };
  const edited = (sql: string) => keep(latest.current.map((t, i) => (i === at ? { ...t, sql } : t)));
  return { list, at, current: list[at] as Tab | undefined, show, add, close, rename, begin, edited };
}

export function TabStrip({ tabs }: { tabs: Tabs }) {
  const { list, at } = tabs;
  const onKey = (e: KeyboardEvent, i: number) => {
    const to = e.key === 'ArrowRight' ? i + 1 : e.key === 'ArrowLeft' ? i - 1 : -1;
    if (to >= 0 && to < list.length) {
      tabs.show(to);
      (
        (e.currentTarget as Element).closest('[role=tablist]')!.querySelectorAll('[role=tab]')[
          to
        ] as HTMLElement
      ).focus();
    } else if (e.key === 'Delete') tabs.close(i);
  };
  return (
    <div class="tabs">
      <div role="tablist" aria-label="Queries">
        {list.map((t, i) => (
          <span class={`tab ${i === at ? 'on' : ''}`} role="presentation">
            <button
              type="button"
              role="tab"
              aria-selected={i === at}
              tabIndex={i === at ? 0 : -1}
              title="double-click to rename"
              onClick={() => i !== at && tabs.show(i)}
              onDblClick={() => tabs.rename(i)}
              onKeyDown={(e) => onKey(e, i)}>
              {safe(t.name)}
            </button>
            {list.length > 1 && i === at && (
              <button
                type="button"
                class="close"
                tabIndex={-1}
                aria-hidden="true"
                title="Close (Delete)"
                onClick={() => tabs.close(i)}>
                ×
              </button>
            )}
          </span>
        ))}
      </div>
      <button type="button" class="add" aria-label="New query" title="New query" onClick={() => tabs.add()}>
        +
      </button>
    </div>
  );
}
