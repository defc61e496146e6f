// Tables, their columns and modules beside the editor.
import { useState } from 'preact/hooks';
import type { Column, Schema } from './sql-schema';

function Table({
  name,
  columns,
  open,
  onOpen,
  onInsert,
  onAsk,
}: {
  name: string;
  columns: Column[];
  open: boolean;
  onOpen(): void;
  onInsert(text: string): void;
  onAsk(table: string): void;
}) {
  const shown = columns.filter((c) => !/^arg\d$|^last_hidden$/.test(c.name));
  return (
    <div>
      <div class="table-name">
        <button type="button" class="plain" aria-expanded={open} onClick={onOpen}>
          {open ? '▾' : '▸'} {name}
        </button>
        <button
          type="button"
          class="ask"
          title={`select * from ${name}`}
          aria-label={`Show rows of ${name}`}
          onClick={() => onAsk(name)}>
          ▷
        </button>
      </div>
      {open && (
        <ul>
          {shown.map((c) => (
            <li>
              <button
                type="button"
                class="plain"
                title="insert into the query"
                onClick={() => onInsert(c.name)}>
                {c.name}
              </button>{' '}
              <span class="dim">
                {c.type.toLowerCase()}
                {c.hidden ? ', not in *' : ''}
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** Tables whose name or columns fit. */
const fitting = (schema: Schema | null, low: string) =>
  schema
    ? [...schema.columns].filter(
        ([t, cols]) =>
          t.toLowerCase().includes(low) || (low.length > 1 && cols.some((c) => c.name.includes(low))),
      )
    : [];

function Modules({ list, onInsert }: { list: string[]; onInsert(text: string): void }) {
  if (!list.length) return null;
  return (
    <>
      <h2>Modules</h2>
      {list.map((m) => (
        <div class="table-name">
          <button
            type="button"
            class="plain"
            title="insert its INCLUDE into the query"
            onClick={() => onInsert(`include perfetto module ${m};\n`)}>
            {m}
          </button>
        </div>
      ))}
    </>
  );
}

export function SchemaList({
  schema,
  onInsert,
  onAsk,
}: {
  schema: Schema | null;
  onInsert(text: string): void;
  onAsk(table: string): void;
}) {
  const [match, setMatch] = useState('');
  const [open, setOpen] = useState(new Set<string>());
  const low = match.toLowerCase();
  const toggle = (t: string) => {
    const n = new Set(open);
    if (!n.delete(t)) n.add(t);
    setOpen(n);
  };
  return (
    <aside class="schema" aria-label="Tables">
      <input
        type="search"
        aria-label="Find tables and columns"
        placeholder="Find tables and columns"
        value={match}
        onInput={(e) => setMatch(e.currentTarget.value)}
      />
      <div class="schema-list" tabIndex={0} role="region" aria-label="Tables and columns">
        {!schema && <p class="dim">Reading the schema…</p>}
        {fitting(schema, low).map(([t, cols]) => (
          <Table
            name={t}
            columns={cols}
            open={open.has(t) || (low.length > 1 && !t.includes(low))}
            onOpen={() => toggle(t)}
            onInsert={onInsert}
            onAsk={onAsk}
          />
        ))}
        <Modules list={schema?.modules.filter((m) => m.includes(low)) ?? []} onInsert={onInsert} />
      </div>
    </aside>
  );
}
