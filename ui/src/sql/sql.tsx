// The SQL page: editor, schema, results. Loaded when it is visited, CodeMirror with it.
import { type MutableRef, useEffect, useRef, useState } from 'preact/hooks';
import { timeline } from '../app/answers';
import { safe } from '../app/format';
import { go, place } from '../app/state';
import { remember, remembered } from '../app/store';
import { ns } from '../app/times';
import type { Process, Trace, Tracks } from '../app/types';
import { tracksOf } from '../parts/selected';
import { ResultBox } from './result-box';
import { SqlBar } from './sql-bar';
import { type Editor, makeEditor } from './sql-editor';
import { type Outcome, useRunner } from './sql-run';
import { type Schema, schemaOf } from './sql-schema';
import { SchemaList } from './sql-tables';
import { TabStrip, useTabs } from './sql-tabs';
import { callsitesSql, suggest } from './sql-text';

/** The tables there are, in the editor's completion too. */
function useSchema(trace: Trace, editor: MutableRef<Editor | null>) {
  const [schema, setSchema] = useState<Schema | null>(null);
  useEffect(() => {
    schemaOf(trace.id).then(setSchema, () => {});
  }, [trace.id]);
  useEffect(() => {
    if (schema) editor.current?.useSchema(schema);
  }, [schema]);
  return { schema, again: () => void schemaOf(trace.id, true).then(setSchema, () => {}) };
}

/** $ts and $upid: what is selected on the other pages. */
function useBound(trace: Trace): () => { ts: string; upid: string } {
  const p = place.value;
  const [tracks, setTracks] = useState<Tracks | null>(null);
  useEffect(() => {
    if ((trace.processes as Process[] | undefined)?.length)
      timeline(trace.id).then(
        (t) => setTracks(tracksOf(t)),
        () => {},
      );
  }, [trace.id]);
  return () => {
    const upid = p.upid ?? tracks?.upid ?? 0;
    const end = tracks?.moments[tracks.moments.length - 1]?.ts ?? trace.last_ns ?? 0;
    return { ts: p.at === 'peak' ? ns(tracks?.peak?.ts ?? end) : p.at || ns(end), upid: String(upid + 1) };
  };
}

/** The line below the editor; what can be dragged and moved by keys. */
function Divide({ tall, onTall }: { tall: number; onTall(px: number): void }) {
  const drag = (e: PointerEvent) => {
    e.preventDefault();
    const y0 = e.clientY;
    const move = (m: PointerEvent) =>
      onTall(Math.max(80, Math.min(innerHeight - 260, tall + m.clientY - y0)));
    const up = () => {
      removeEventListener('pointermove', move);
      removeEventListener('pointerup', up);
    };
    addEventListener('pointermove', move);
    addEventListener('pointerup', up);
  };
  const onKey = (e: KeyboardEvent) => {
    const by = e.key === 'ArrowDown' ? 20 : e.key === 'ArrowUp' ? -20 : 0;
    if (!by) return;
    e.preventDefault();
    onTall(Math.max(80, tall + by));
  };
  return (
    <div
      class="divide"
      role="separator"
      aria-orientation="horizontal"
      aria-label="Height of the editor"
      aria-valuenow={tall}
      aria-valuemin={80}
      aria-valuemax={600}
      tabIndex={0}
      onPointerDown={drag}
      onKeyDown={onKey}
    />
  );
}

function Seconds({ since }: { since: number }) {
  const [now, setNow] = useState(since);
  useEffect(() => {
    setNow(since);
    const timer = setInterval(() => setNow(performance.now()), 100);
    return () => clearInterval(timer);
  }, [since]);
  return <span>Running, {(Math.max(0, now - since) / 1000).toFixed(1)} s</span>;
}

function Said({ busy, outcome }: { busy: number; outcome: Outcome | null }) {
  if (busy > 0) return <Seconds since={busy} />;
  if (outcome?.stopped) return <span>Cancelled after {(outcome.ms / 1000).toFixed(1)} s.</span>;
  if (outcome?.error) return null;
  if (!outcome)
    return (
      <span class="dim">
        Ask with Ctrl+Enter; the tables are on the right, completion comes while you type.
      </span>
    );
  const n = outcome.results.length;
  return (
    <span>
      {n === 0 ? 'Done, nothing to show' : n > 1 ? `${n} results` : ''}{' '}
      <span class="dim">{outcome.ms < 10 ? outcome.ms.toFixed(1) : outcome.ms.toFixed(0)} ms</span>
    </span>
  );
}

/** An error with a place stands in the editor, one without it below. */
function Wrong({ outcome, schema }: { outcome: Outcome | null; schema: Schema | null }) {
  if (outcome?.wrong)
    return (
      <p class="sr" role="alert">
        {safe(outcome.wrong.message)}
        {suggest(outcome.wrong.message, schema)}
      </p>
    );
  if (!outcome?.error) return null;
  return (
    <pre class="banner bad" role="alert">
      {safe(outcome.error).replace(/\\x0a/g, '\n')}
      {suggest(outcome.error, schema)}
    </pre>
  );
}

function useEditor(
  editor: MutableRef<Editor | null>,
  schema: Schema | null,
  begin: (sql: string) => string,
  on: {
    change(sql: string): void;
    run(sql: string): void;
    stop(): void;
    runHere(all: boolean): void;
    cancel(): boolean;
  },
) {
  const host = useRef<HTMLDivElement>(null);
  const acts = useRef(on); // what the editor calls is that of the last drawing
  acts.current = on;
  const sql = place.value.sql;
  useEffect(() => {
    editor.current = makeEditor(host.current!, begin(sql), {
      change: (t) => acts.current.change(t),
      run: (all) => acts.current.runHere(all),
      cancel: () => acts.current.cancel(),
    });
    if (schema) editor.current.useSchema(schema);
    if (sql) acts.current.run(sql);
    else editor.current.focus();
    return () => {
      acts.current.stop();
      editor.current?.close();
      editor.current = null;
    };
  }, []);
  // A link, or back and forward, brings another query.
  useEffect(() => {
    if (!editor.current || !sql || sql === editor.current.text()) return;
    editor.current.set(sql);
    acts.current.run(sql);
  }, [sql]);
  return { host, acts };
}

/** Everything the page knows: the editor with its tabs, what runs, what $ts and $upid are. */
function useSql(trace: Trace) {
  const editor = useRef<Editor | null>(null);
  const bound = useBound(trace);
  const { schema, again } = useSchema(trace, editor);
  const runner = useRunner(trace, editor, bound, again);
  const tabs = useTabs(editor, () => {
    acts.current.change = () => {}; // the other tab's text is no change of this one
    runner.clear();
  });
  const run = (sql: string) => void runner.run({ from: 0, text: sql });
  const { host, acts } = useEditor(editor, schema, tabs.begin, {
    run,
    stop: runner.stop,
    cancel: runner.cancel,
    runHere: (all) =>
      editor.current &&
      void runner.run(all ? { from: 0, text: editor.current.text() } : editor.current.current()),
    change(sql) {
      tabs.edited(sql);
      go({ sql: place.peek().sql ? sql : '' }, true);
    },
  });
  const wrong = runner.outcome?.wrong;
  useEffect(() => {
    if (wrong) editor.current?.problem(wrong.at, safe(wrong.message) + suggest(wrong.message, schema));
  }, [runner.outcome, schema]);
  const put = (sql: string) => {
    editor.current?.set(sql);
    run(sql);
  };
  return { editor, bound, schema, runner, tabs, host, put };
}

/** What $ts and $upid are, when the query asks for them. */
function Bound({ sql, bound }: { sql: string; bound: { ts: string; upid: string } }) {
  if (!/\$(ts|upid)\b/.test(sql)) return null;
  return (
    <p class="statement">
      $ts = {bound.ts}, $upid = {bound.upid}: what is selected on the other pages
    </p>
  );
}

export function SqlPage({ trace }: { trace: Trace }) {
  const { editor, bound, schema, runner, tabs, host, put } = useSql(trace);
  const [inBytes, setInBytes] = useState(true);
  const [tall, setTall] = useState(() => remembered('sql-height', 190));
  useEffect(() => remember('sql-height', tall), [tall]);
  const { outcome } = runner;
  const name = tabs.current?.name.replace(/\W+/g, '-').toLowerCase() || 'result';
  return (
    <div class="sql">
      <div class="sql-main">
        <TabStrip tabs={tabs} />
        <div class="editor" ref={host} style={{ height: `${tall}px` }} />
        <Divide tall={tall} onTall={setTall} />
        <SqlBar
          editor={editor}
          runner={runner}
          tabs={tabs}
          bound={bound}
          inBytes={inBytes}
          onBytes={() => setInBytes(!inBytes)}
          onPut={put}
        />
        <Bound sql={tabs.current?.sql ?? ''} bound={bound()} />
        <div class="outcome" role="status" aria-live="polite">
          <Said busy={runner.busy} outcome={outcome} />
        </div>
        <Wrong outcome={outcome} schema={schema} />
        {outcome?.results.map((r, i) => (
          <ResultBox
            outcome={outcome}
            result={r}
            index={i}
            trace={trace}
            inBytes={inBytes}
            name={name}
            onMore={() => void runner.run(outcome.ran, outcome.limit * 10)}
            onSort={runner.resort}
            onStack={() => put(callsitesSql(outcome.ran.text))}
          />
        ))}
      </div>
      <SchemaList
        schema={schema}
        onInsert={(t) => editor.current?.insert(t)}
        onAsk={(t) => tabs.add(`select * from ${t}`, t)}
      />
    </div>
  );
}
