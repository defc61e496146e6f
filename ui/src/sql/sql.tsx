// The SQL page: editor, schema, results. Loaded when it is visited, CodeMirror with it.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Process, query, type Result, type Results, timeline, type Trace, type Tracks } from '../app/api';
import { bytes, count, safe } from '../app/format';
import { type Cell, Grid, type GridColumn, RowsMenu, type Sort } from '../parts/grid';
import { Choice, Menu, type Item, tracksOf } from '../parts/parts';
import { ResultChart, ResultFlame, ResultPivot, treeColumns } from './result-views';
import { type Editor, makeEditor, type Statement } from './sql-editor';
import { type Schema, schemaOf } from './sql-schema';
import { EXAMPLES } from './sql-examples';
import { remember, remembered } from '../app/store';
import { go, href, place } from '../app/state';
import { ns } from '../app/times';

interface Tab { name: string; sql: string }
interface Past { sql: string; when: number; ms: number; rows: number; error: boolean }
interface Saved { name: string; sql: string }
interface Outcome extends Results { limit: number; ran: Statement; stopped?: boolean; wrong?: { message: string; at: number } } // wrong: where in the editor the error stands
type View = 'table' | 'chart' | 'pivot' | 'flame';

const LIMIT = 10_000;
const MOST = 1_000_000;
const HISTORY = 100;

const BYTES = /(^|_)(size|space|bytes|self|total|rss|live|freed|slope|space_error)$/;
/** A value is one of bytes where it belongs to a callstack or a tree; elsewhere it may be anything. */
const isBytesColumn = (name: string, all: string[]) => BYTES.test(name) || (name === 'value' && all.some((c) => /^(parent_id|callsite_id|self)$/.test(c)));

/** How a column's cells are shown and where they lead, by its name and its values. */
function columnsOf(r: Result, inBytes: boolean, trace: number): GridColumn[] {
  const has = r.columns.map((_, i) => {
    const first = r.rows.find((row) => row[i] !== null)?.[i] ?? null;
    return typeof first === 'number' || (typeof first === 'string' && /^-?\d{16,19}$/.test(first));
  });
  const at = (name: string) => r.columns.indexOf(name);
  return r.columns.map((name, i) => {
    const c: GridColumn = { name, numeric: has[i] };
    if (has[i] && inBytes && isBytesColumn(name, r.columns)) c.show = (v) => bytes(Number(v));
    else if (has[i]) c.show = (v) => (typeof v === 'number' && !Number.isInteger(v) ? String(Number(v.toPrecision(6))) : String(v));
    const upid = (row: Cell[]) => (at('upid') >= 0 && row[at('upid')] ? Number(row[at('upid')]) - 1 : null);
    if (/^ts(_end)?$/.test(name)) {
      c.hint = 'ns of the trace\'s clock; leads to the timeline';
      c.link = (v, row) => (/^\d+$/.test(String(v)) ? href({ page: 'timeline', trace, upid: upid(row), at: String(v), from: '', max: false }) : '');
    } else if (name === 'upid') {
      c.hint = 'the process; leads to its flamegraph';
      c.link = (v) => (Number(v) > 0 ? href({ page: 'flame', trace, upid: Number(v) - 1, at: '', from: '', heap: '', zoom: '' }) : '');
    } else if (name === 'callsite_id') {
      c.hint = 'leads to its stack';
      c.link = (v) => href({ page: 'query', sql: stackSql(Number(v)) });
    }
    return c;
  });
}

const stackSql = (callsite: number) =>
  `-- the frames of one callstack, outermost first\nwith recursive up(id) as (values (${callsite}) union all\n  select c.parent_id from stack_profile_callsite c join up on c.id = up.id where c.parent_id is not null)\nselect c.depth, demangle(f.name) as name, m.name as module, f.rel_pc, s.source_file, s.line_number\nfrom up join stack_profile_callsite c using (id)\njoin stack_profile_frame f on f.id = c.frame_id\njoin stack_profile_mapping m on m.id = f.mapping\nleft join stack_profile_symbol s on s.symbol_set_id = f.symbol_set_id and not s.inlined\norder by c.depth`;

/** A result of (callsite_id, value) as the tree of its callstacks. */
const callsitesSql = (sql: string) =>
  `with recursive v(callsite_id, value) as (select callsite_id, sum(value) from (\n${sql.replace(/[\s;]+$/, '')}\n) group by 1),\n up(id) as (select callsite_id from v union select c.parent_id from up join stack_profile_callsite c on c.id = up.id where c.parent_id is not null)\nselect c.id, c.parent_id, coalesce(nullif(demangle(coalesce(f.deobfuscated_name, f.name)), ''), m.name || printf('+0x%x', f.rel_pc)) as name, coalesce(v.value, 0) as value\nfrom up join stack_profile_callsite c using (id)\njoin stack_profile_frame f on f.id = c.frame_id\njoin stack_profile_mapping m on m.id = f.mapping\nleft join v on v.callsite_id = c.id`;

/** $ts, $upid: what is selected. Not inside functions that a script defines: there they are its own. */
function bind(sql: string, values: Record<string, string>): string {
  if (/create\s+(or\s+replace\s+)?perfetto\s+(function|macro)/i.test(sql)) return sql;
  return sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\$(ts|upid)\b/g, (all, name) => (name ? values[name] : all));
}

/** Where in the text the server's message points: "line N:  text" with a caret below. */
function pointed(error: string, sql: string): { message: string; at: number | null } {
  const alone = error.replace(/\n\s*line \d+:[\s\S]*$/, ''); // the editor has the line itself
  const m = /^([\s\S]*?)\n\s*line (\d+):  (.*)\n( *)\^/.exec(error);
  if (!m) { // SQLite names what it does not know, without saying where
    const word = /no such \w+: (?:\w+\.)?(\w+)|near "([^"]+)"/.exec(error);
    const found = word && new RegExp(`\\b${(word[1] ?? word[2]).replace(/\W/g, '\\$&')}\\b`, 'i').exec(sql);
    return { message: alone, at: found ? found.index : null };
  }
  const lines = sql.split('\n');
  const line = Math.min(lines.length, Number(m[2])) - 1;
  const before = lines.slice(0, line).reduce((a, l) => a + l.length + 1, 0);
  const head = /^\s*line \d+:  /m.exec(error.slice(m[1].length + 1))![0].length;
  const shown = lines[line].indexOf(m[3].trim()) >= 0 ? lines[line].indexOf(m[3]) : 0;
  return { message: m[1], at: before + Math.max(0, shown) + Math.max(0, m[4].length - head) };
}

const suggest = (message: string, schema: Schema | null): string => {
  const m = /no such (table|column|function): (?:\w+\.)?(\w+)/.exec(message);
  if (!m || !schema) return '';
  const words = m[1] === 'table' ? Object.keys(schema.tables) : m[1] === 'function' ? schema.functions : [...new Set([...schema.columns.values()].flat().map((c) => c.name))];
  const near = words.map((w) => [distance(w, m[2].toLowerCase()), w] as const).sort((a, b) => a[0] - b[0])[0];
  return near && near[0] <= Math.max(2, m[2].length / 3) ? ` Did you mean ${near[1]}?` : '';
};

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let k = 1; k <= b.length; k++) next[k] = Math.min(row[k] + 1, next[k - 1] + 1, row[k - 1] + (a[i - 1] === b[k - 1] ? 0 : 1));
    row = next;
  }
  return row[b.length];
}

// ---- the schema's side ----

function SchemaList({ schema, onInsert, onAsk }: { schema: Schema | null; onInsert(text: string): void; onAsk(table: string): void }) {
  const [match, setMatch] = useState('');
  const [open, setOpen] = useState(new Set<string>());
  const low = match.toLowerCase();
  const tables = schema ? [...schema.columns].filter(([t, cols]) => t.toLowerCase().includes(low) || (low.length > 1 && cols.some((c) => c.name.includes(low)))) : [];
  return (
    <aside class="schema" aria-label="Tables">
      <input type="search" aria-label="Find tables and columns" placeholder="Find tables and columns" value={match} onInput={(e) => setMatch(e.currentTarget.value)} />
      <div class="schema-list" tabIndex={0} role="region" aria-label="Tables and columns">
        {!schema && <p class="dim">Reading the schema…</p>}
        {tables.map(([t, cols]) => {
          const is = open.has(t) || (low.length > 1 && !t.includes(low));
          return (
            <div>
              <div class="table-name">
                <button type="button" class="plain" aria-expanded={is} onClick={() => { const n = new Set(open); if (!n.delete(t)) n.add(t); setOpen(n); }}>{is ? '▾' : '▸'} {t}</button>
                <button type="button" class="ask" title={`select * from ${t}`} aria-label={`Show rows of ${t}`} onClick={() => onAsk(t)}>▷</button>
              </div>
              {is && <ul>{cols.filter((c) => !/^arg\d$|^last_hidden$/.test(c.name)).map((c) => <li><button type="button" class="plain" title="put it into the query" onClick={() => onInsert(c.name)}>{c.name}</button> <span class="dim">{c.type.toLowerCase()}{c.hidden ? ', not in *' : ''}</span></li>)}</ul>}
            </div>
          );
        })}
        {schema && schema.modules.filter((m) => m.includes(low)).length > 0 && <><h2>Modules</h2>{schema.modules.filter((m) => m.includes(low)).map((m) => (
          <div class="table-name"><button type="button" class="plain" title="put its INCLUDE into the query" onClick={() => onInsert(`include perfetto module ${m};\n`)}>{m}</button></div>))}</>}
      </div>
    </aside>
  );
}

// ---- results ----

function ResultBox({ outcome, result, index, trace, inBytes, onMore, onSort, onStack, name }: {
  outcome: Outcome; result: Result; index: number; trace: Trace; inBytes: boolean; name: string;
  onMore(): void; onSort(by: Sort[], names: string[]): boolean; onStack(): void;
}) {
  const [view, setView] = useState<View>('table');
  const columns = useMemo(() => columnsOf(result, inBytes, trace.id), [result, inBytes]);
  const tree = treeColumns(columns);
  const stacks = !tree && result.columns.includes('callsite_id') && result.columns.includes('value');
  useEffect(() => { if (view === 'flame' && !tree) setView('table'); }, [result]);
  const views: { id: View; label: string }[] = [{ id: 'table', label: 'Table' }, { id: 'chart', label: 'Chart' }, { id: 'pivot', label: 'Pivot' }, ...(tree ? [{ id: 'flame' as View, label: 'Flamegraph' }] : [])];
  return (
    <section class="result" aria-label={outcome.results.length > 1 ? `Result ${index + 1}` : 'Result'}>
      <div class="bar">
        <Choice label="View" value={view} onChange={(v: View) => setView(v)} options={views} />
        <span class="rows-count"><b>{count(result.rows.length)}</b> {result.rows.length === 1 ? 'row' : 'rows'}</span>
        {result.truncated && <span class="chip warn">only the first {count(result.rows.length)} are shown {outcome.limit < MOST && !outcome.stopped && <button type="button" onClick={onMore}>show up to {count(Math.min(MOST, outcome.limit * 10))}</button>}</span>}
        <span class="grow" />
        {stacks && <button type="button" onClick={onStack}>As flamegraph</button>}
        <RowsMenu columns={columns} rows={result.rows} name={name} />
      </div>
      {view === 'table' && <Grid columns={columns} rows={result.rows} label="Rows of the result" empty="The query gives no rows." onSort={(by) => result.truncated && onSort(by, result.columns)} />}
      {view === 'chart' && <ResultChart columns={columns} rows={result.rows} key={result.columns.join()} />}
      {view === 'pivot' && <ResultPivot columns={columns} rows={result.rows} key={result.columns.join()} />}
      {view === 'flame' && tree && <ResultFlame columns={columns} rows={result.rows} />}
    </section>
  );
}

// ---- the page ----

export function SqlPage({ trace }: { trace: Trace }) {
  const p = place.value;
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const running = useRef<AbortController | null>(null);
  const [tabs, setTabs] = useState<Tab[]>(() => {
    const old = remembered<Tab[]>('sql-tabs', []);
    return old.length ? old : [{ name: 'Query 1', sql: EXAMPLES[0].sql }];
  });
  const [tab, setTab] = useState(0);
  const [schema, setSchema] = useState<Schema | null>(null);
  const [busy, setBusy] = useState(0); // since when, 0 = not
  const [now, setNow] = useState(0);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [past, setPast] = useState<Past[]>(() => remembered('sql-history', []));
  const [saved, setSaved] = useState<Saved[]>(() => remembered('sql-saved', []));
  const [menu, setMenu] = useState<{ what: 'history' | 'saved' | 'examples'; x: number; y: number } | null>(null);
  const [inBytes, setInBytes] = useState(true);
  const [tracks, setTracks] = useState<Tracks | null>(null);
  const [tall, setTall] = useState(() => remembered('sql-height', 190));
  const tabsRef = useRef(tabs);
  tabsRef.current = tabs;

  useEffect(() => {
    schemaOf(trace.id).then(setSchema, () => {});
    if ((trace.processes as Process[] | undefined)?.length) timeline(trace.id).then((t) => setTracks(tracksOf(t)), () => {});
  }, [trace.id]);
  useEffect(() => { if (schema) editor.current?.useSchema(schema); }, [schema]);

  const bound = () => {
    const upid = p.upid ?? tracks?.upid ?? 0;
    const end = tracks?.moments[tracks.moments.length - 1]?.ts ?? trace.last_ns ?? 0;
    return { ts: p.at === 'peak' ? ns(tracks?.peak?.ts ?? end) : p.at || ns(end), upid: String(upid + 1) };
  };

  const run = async (what: Statement, limit = LIMIT) => {
    if (!what.text.trim()) return;
    running.current?.abort();
    const stop = new AbortController();
    running.current = stop;
    const began = performance.now();
    setBusy(began);
    setNow(began);
    editor.current?.noProblem();
    let answer: Outcome;
    try {
      answer = { ...(await query(trace.id, bind(what.text, bound()), limit, stop.signal)), limit, ran: what };
    } catch (e) {
      const text = stop.signal.aborted ? '' : (e as Error).message;
      answer = { results: [], error: text || null, ms: performance.now() - began, limit, ran: what, stopped: stop.signal.aborted };
    }
    if (running.current !== stop) return;
    running.current = null;
    setBusy(0);
    const { message, at } = pointed(answer.error ?? '', what.text);
    if (answer.error && at !== null) answer.wrong = { message, at: what.from + at };
    setOutcome(answer);
    if (!answer.error && !answer.stopped && /\b(create|drop|include)\b/i.test(what.text)) schemaOf(trace.id, true).then(setSchema, () => {});
    if (!answer.stopped) {
      const entry: Past = { sql: what.text.trim(), when: Date.now(), ms: answer.ms, rows: answer.results.reduce((a, r) => a + r.rows.length, 0), error: !!answer.error };
      const next = [entry, ...remembered<Past[]>('sql-history', []).filter((x) => x.sql !== entry.sql)].slice(0, HISTORY);
      setPast(next);
      remember('sql-history', next);
    }
  };
  useEffect(() => {
    const wrong = outcome?.wrong;
    if (wrong) editor.current?.problem(wrong.at, safe(wrong.message) + suggest(wrong.message, schema));
  }, [outcome, schema]);
  const runHere = (all: boolean) => editor.current && void run(all ? { from: 0, text: editor.current.text() } : editor.current.current());
  const cancel = (): boolean => {
    if (!running.current) return false;
    running.current.abort();
    return true;
  };
  const acts = useRef({ runHere, cancel, change: (_: string) => {} });
  acts.current = {
    runHere, cancel,
    change: (sql: string) => {
      const next = tabsRef.current.map((t, i) => (i === tab ? { ...t, sql } : t));
      setTabs(next);
      remember('sql-tabs', next);
      go({ sql: place.peek().sql ? sql : '' }, true);
    },
  };

  useEffect(() => {
    const sql = place.peek().sql;
    let list = tabsRef.current;
    let index = 0;
    if (sql) {
      index = list.findIndex((t) => t.sql === sql);
      if (index < 0) {
        list = [...list, { name: `Query ${list.length + 1}`, sql }];
        index = list.length - 1;
        setTabs(list);
      }
      setTab(index);
    }
    editor.current = makeEditor(host.current!, list[index].sql, {
      change: (t) => acts.current.change(t), run: (all) => acts.current.runHere(all), cancel: () => acts.current.cancel(),
    });
    if (schema) editor.current.useSchema(schema);
    if (sql) void run({ from: 0, text: sql });
    else editor.current.focus();
    return () => {
      running.current?.abort();
      editor.current?.close();
      editor.current = null;
    };
  }, []);
  // A link, or back and forward, brings another query.
  useEffect(() => {
    if (!editor.current || !p.sql || p.sql === editor.current.text()) return;
    editor.current.set(p.sql);
    void run({ from: 0, text: p.sql });
  }, [p.sql]);
  useEffect(() => {
    if (!busy) return;
    const timer = setInterval(() => setNow(performance.now()), 100);
    const key = (e: KeyboardEvent) => e.key === 'Escape' && cancel();
    addEventListener('keydown', key);
    return () => {
      clearInterval(timer);
      removeEventListener('keydown', key);
    };
  }, [busy]);

  const show = (index: number, list = tabs) => {
    setTab(index);
    go({ sql: '' }, true);
    acts.current.change = () => {};
    editor.current?.set(list[index].sql);
    setOutcome(null);
  };
  const addTab = (sql = '', name = '') => {
    const next = [...tabs, { name: name || `Query ${tabs.length + 1}`, sql }];
    setTabs(next);
    remember('sql-tabs', next);
    show(next.length - 1, next);
    editor.current?.focus();
  };
  const closeTab = (i: number) => {
    const next = tabs.filter((_, k) => k !== i);
    const list = next.length ? next : [{ name: 'Query 1', sql: '' }];
    setTabs(list);
    remember('sql-tabs', list);
    show(Math.max(0, Math.min(list.length - 1, i <= tab ? tab - 1 : tab)), list);
  };
  const put = (sql: string) => {
    editor.current?.set(sql);
    void run({ from: 0, text: sql });
  };
  const resort = (by: Sort[], names: string[]): boolean => {
    if (!outcome || outcome.results.length !== 1 || !by.length) return false;
    const inner = bind(outcome.ran.text, bound()).replace(/[\s;]+$/, '');
    if (!/^\s*(--[^\n]*\n\s*)*(select|with|values)\b/i.test(inner)) return false;
    const text = `select * from (\n${inner}\n) order by ${by.map((s) => `"${names[s.column].replace(/"/g, '""')}" ${s.down ? 'desc' : 'asc'}`).join(', ')}`;
    const ran = outcome.ran;
    setBusy(performance.now());
    query(trace.id, text, outcome.limit).then((a) => { setBusy(0); if (!a.error) setOutcome({ ...a, limit: outcome.limit, ran }); }, () => setBusy(0));
    return true;
  };
  const openMenu = (what: 'history' | 'saved' | 'examples') => (e: MouseEvent) => {
    const r = (e.currentTarget as Element).getBoundingClientRect();
    setMenu({ what, x: r.left, y: r.bottom + 4 });
  };
  const firstLine = (sql: string) => safe(sql.replace(/\s+/g, ' ').slice(0, 70));
  const menuItems = (): (Item | null)[] => {
    if (menu!.what === 'examples') return EXAMPLES.map((x) => ({ label: x.name, act: () => put(x.sql) }));
    if (menu!.what === 'saved')
      return [
        { label: 'Save this query…', act: () => {
          const name = prompt('Name of the query', tabs[tab].name);
          if (!name) return;
          const next = [...saved.filter((s) => s.name !== name), { name, sql: editor.current!.text() }];
          setSaved(next);
          remember('sql-saved', next);
        } },
        ...(saved.length ? [null] : []),
        ...saved.map((s) => ({ label: s.name, act: () => put(s.sql) })),
        ...(saved.length ? [null, { label: 'Forget saved queries', act: () => { setSaved([]); remember('sql-saved', []); } }] : []),
      ];
    return past.length ? [...past.slice(0, 25).map((x) => ({ label: `${x.error ? '✗ ' : ''}${firstLine(x.sql)}`, act: () => put(x.sql) })), null, { label: 'Forget all', act: () => { setPast([]); remember('sql-history', []); } }] : [{ label: 'Nothing was asked yet', act: () => {} }];
  };
  const drag = (e: PointerEvent) => {
    e.preventDefault();
    const y0 = e.clientY;
    const move = (m: PointerEvent) => setTall(Math.max(80, Math.min(innerHeight - 260, tall + m.clientY - y0)));
    const up = () => {
      removeEventListener('pointermove', move);
      removeEventListener('pointerup', up);
    };
    addEventListener('pointermove', move);
    addEventListener('pointerup', up);
  };
  useEffect(() => remember('sql-height', tall), [tall]);
  const b = bound();
  const uses = /\$(ts|upid)\b/.test(tabs[tab]?.sql ?? '');

  return (
    <div class="sql">
      <div class="sql-main">
        <div class="tabs"><div role="tablist" aria-label="Queries">
          {tabs.map((t, i) => (
            <span class={`tab ${i === tab ? 'on' : ''}`} role="presentation">
              <button type="button" role="tab" aria-selected={i === tab} tabIndex={i === tab ? 0 : -1} title="double-click to rename" onClick={() => i !== tab && show(i)}
                onDblClick={() => { const name = prompt('Name of the tab', t.name); if (name) { const next = tabs.map((x, k) => (k === i ? { ...x, name } : x)); setTabs(next); remember('sql-tabs', next); } }}
                onKeyDown={(e) => {
                  const to = e.key === 'ArrowRight' ? i + 1 : e.key === 'ArrowLeft' ? i - 1 : -1;
                  if (to >= 0 && to < tabs.length) {
                    show(to);
                    (e.currentTarget.closest('[role=tablist]')!.querySelectorAll('[role=tab]')[to] as HTMLElement).focus();
                  } else if (e.key === 'Delete') closeTab(i);
                }}>{safe(t.name)}</button>
              {tabs.length > 1 && i === tab && <button type="button" class="close" tabIndex={-1} aria-hidden="true" title="Close (Delete)" onClick={() => closeTab(i)}>×</button>}
            </span>
          ))}</div>
          <button type="button" class="add" aria-label="New query" title="New query" onClick={() => addTab()}>+</button>
        </div>
        <div class="editor" ref={host} style={{ height: `${tall}px` }} />
        <div class="divide" role="separator" aria-orientation="horizontal" aria-label="Height of the editor" aria-valuenow={tall} aria-valuemin={80} aria-valuemax={600} tabIndex={0} onPointerDown={drag}
          onKeyDown={(e) => { const by = e.key === 'ArrowDown' ? 20 : e.key === 'ArrowUp' ? -20 : 0; if (by) { e.preventDefault(); setTall(Math.max(80, tall + by)); } }} />
        <div class="bar sql-bar">
          {busy ? <button type="button" class="primary" onClick={cancel}>Cancel <kbd>Esc</kbd></button> : <button type="button" class="primary" title="the statement at the cursor, or what is marked" onClick={() => runHere(false)}>Run <kbd>Ctrl ↵</kbd></button>}
          <button type="button" title="Ctrl+Shift+Enter" disabled={!!busy} onClick={() => runHere(true)}>Run all</button>
          <button type="button" disabled={!!busy} onClick={() => { const c = editor.current!.current(); void run({ from: c.from, text: `explain query plan ${bind(c.text, b).trim()}` }); }}>Explain</button>
          <button type="button" aria-haspopup="menu" onClick={openMenu('examples')}>Examples</button>
          <button type="button" aria-haspopup="menu" onClick={openMenu('history')}>History</button>
          <button type="button" aria-haspopup="menu" onClick={openMenu('saved')}>Saved</button>
          <button type="button" title="the address then holds the query" onClick={() => { go({ sql: editor.current!.text() }); void navigator.clipboard?.writeText(location.href); }}>Copy link</button>
          <span class="grow" />
          <label class="tick"><input type="checkbox" checked={inBytes} onChange={() => setInBytes(!inBytes)} />sizes as KiB, MiB</label>
        </div>
        {uses && <p class="statement">$ts = {b.ts}, $upid = {b.upid}: what is selected on the other pages</p>}
        <div class="outcome" role="status" aria-live="polite">
          {busy > 0 ? <span>Running, {((now - busy) / 1000).toFixed(1)} s</span>
            : outcome?.stopped ? <span>Cancelled after {(outcome.ms / 1000).toFixed(1)} s.</span>
            : outcome?.error ? null
            : outcome ? <span>{outcome.results.length === 0 ? 'Done, nothing to show' : outcome.results.length > 1 ? `${outcome.results.length} results` : ''} <span class="dim">{outcome.ms < 10 ? outcome.ms.toFixed(1) : outcome.ms.toFixed(0)} ms</span></span>
            : <span class="dim">Ask with Ctrl+Enter; the tables are on the right, completion comes while you type.</span>}
        </div>
        {outcome?.wrong && <p class="sr" role="alert">{safe(outcome.wrong.message)}{suggest(outcome.wrong.message, schema)}</p>}
        {outcome?.error && !outcome.wrong && <pre class="banner bad" role="alert">{safe(outcome.error)
          .replace(/\\x0a/g, '\n')}{suggest(outcome.error, schema)}</pre>}
        {outcome?.results.map((r, i) => <ResultBox outcome={outcome} result={r} index={i} trace={trace} inBytes={inBytes} name={tabs[tab]?.name.replace(/\W+/g, '-').toLowerCase() || 'result'}
          onMore={() => void run(outcome.ran, outcome.limit * 10)} onSort={resort} onStack={() => put(callsitesSql(outcome.ran.text))} />)}
      </div>
      <SchemaList schema={schema} onInsert={(t) => editor.current?.insert(t)} onAsk={(t) => addTab(`select * from ${t}`, t)} />
      {menu && <Menu title={{ history: 'Asked before', saved: 'Saved', examples: 'Examples' }[menu.what]} x={menu.x} y={menu.y} items={menuItems()} onClose={() => setMenu(null)} />}
    </div>
  );
}
