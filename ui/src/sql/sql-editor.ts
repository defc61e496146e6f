// The editor of the SQL page. It lives in a shadow root: there CodeMirror adopts style sheets, where it
// would else add a <style> that the page's policy forbids.
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  type Completion,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import {
  keywordCompletionSource,
  schemaCompletionSource,
  sql,
  SQLDialect,
  SQLite,
} from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, syntaxHighlighting, syntaxTree } from '@codemirror/language';
import { Compartment, EditorState, Prec, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  placeholder,
  WidgetType,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { Schema } from './sql-schema';

const dialect = SQLDialect.define({
  ...SQLite.spec,
  keywords: `${SQLite.spec.keywords ?? ''} include perfetto module macro function returns delegates`,
  identifierQuotes: '"`',
});

const look = EditorView.theme({
  '&': { height: '100%', fontSize: '13px', background: 'var(--bg)', color: 'var(--text)' },
  '.cm-scroller': { fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)', padding: '6px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': {
    background: 'var(--bg2)',
    color: 'var(--dim)',
    border: 'none',
    borderRight: '1px solid var(--line)',
  },
  '.cm-activeLine': { background: 'transparent' },
  '&.cm-focused .cm-activeLine': { background: 'var(--bg2)' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-2px' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    background: 'var(--select)',
  },
  '.cm-placeholder': { color: 'var(--dim)' },
  '.cm-matchingBracket': { background: 'var(--bg3)', outline: '1px solid var(--line)' },
  '.cm-wrong': { textDecoration: 'underline wavy var(--bad)', textUnderlineOffset: '3px' },
  '.cm-problem': {
    color: 'var(--bad)',
    background: 'var(--bad-bg)',
    padding: '1px 8px',
    borderRadius: '4px',
    margin: '2px 6px',
    display: 'inline-block',
    fontFamily: 'system-ui, sans-serif',
    whiteSpace: 'pre-wrap',
  },
  '.cm-tooltip': {
    background: 'var(--bg)',
    color: 'var(--text)',
    border: '1px solid var(--line)',
    borderRadius: '6px',
    boxShadow: 'var(--shadow)',
  },
  '.cm-tooltip-autocomplete > ul': { fontFamily: 'ui-monospace, monospace', maxHeight: '14em' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    background: 'var(--accent-bg)',
    color: 'var(--accent)',
  },
  '.cm-completionDetail': { color: 'var(--dim)', fontStyle: 'normal', marginLeft: '1.2em' },
  '.cm-completionInfo': { maxWidth: '320px', padding: '4px 8px' },
});

const paint = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--accent)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--green)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--blue)' },
  { tag: [tags.lineComment, tags.blockComment], color: 'var(--dim)', fontStyle: 'italic' },
  { tag: [tags.typeName, tags.standard(tags.name)], color: 'var(--violet)' },
]);

class Problem extends WidgetType {
  constructor(readonly text: string) {
    super();
  }
  toDOM() {
    const el = document.createElement('span');
    el.className = 'cm-problem';
    el.textContent = this.text;
    return el;
  }
}

const setProblem = StateEffect.define<{ at: number; text: string } | null>();
const problems = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(old, tr) {
    for (const e of tr.effects)
      if (e.is(setProblem)) {
        if (!e.value) return Decoration.none;
        const line = tr.state.doc.lineAt(Math.min(e.value.at, tr.state.doc.length));
        const from = Math.min(e.value.at, line.to);
        const word = /^\w+|^./.exec(line.text.slice(from - line.from))?.[0].length ?? 0;
        const marks = word ? [Decoration.mark({ class: 'cm-wrong' }).range(from, from + word)] : [];
        return Decoration.set(
          [
            ...marks,
            Decoration.widget({ widget: new Problem(e.value.text), side: 1, block: true }).range(line.to),
          ],
          true,
        );
      }
    return tr.docChanged ? Decoration.none : old;
  },
  provide: (f) => EditorView.decorations.from(f),
});

/** Functions, and modules behind INCLUDE PERFETTO MODULE. */
function more(schema: Schema) {
  const functions: Completion[] = schema.functions.map((f) => ({
    label: f,
    type: 'function',
    apply: `${f}(`,
    detail: 'function',
  }));
  const modules: Completion[] = schema.modules.map((m) => ({
    label: m,
    type: 'namespace',
    detail: 'module',
  }));
  return (context: CompletionContext): CompletionResult | null => {
    const include = context.matchBefore(/perfetto\s+module\s+[\w.]*/i);
    if (include) return { from: context.matchBefore(/[\w.]*/)!.from, options: modules, validFor: /^[\w.]*$/ };
    const word = context.matchBefore(/\w+/);
    if (!word && !context.explicit) return null;
    const inside = syntaxTree(context.state).resolveInner(context.pos, -1).name;
    if (
      /String|Comment/.test(inside) ||
      context.state.sliceDoc(Math.max(0, (word?.from ?? context.pos) - 1), word?.from ?? context.pos) === '.'
    )
      return null;
    return { from: word?.from ?? context.pos, options: functions, validFor: /^\w*$/ };
  };
}

export interface Statement {
  from: number;
  text: string;
}
export interface Editor {
  text(): string;
  set(text: string): void;
  insert(text: string): void;
  /** What is marked, or the statement at the cursor. */
  current(): Statement;
  useSchema(schema: Schema): void;
  problem(at: number, text: string): void;
  noProblem(): void;
  focus(): void;
  close(): void;
}

/** Statements end at `;` outside of strings, comments and brackets. */
function statementAt(state: EditorState): Statement {
  const pos = state.selection.main.head;
  const text = state.doc.toString();
  const tree = syntaxTree(state);
  let from = 0;
  let to = text.length;
  for (let i = 0; i < text.length; i++) {
    if (text[i] !== ';' || /String|Comment/.test(tree.resolveInner(i + 1, -1).name)) continue;
    // Behind the last ';' of a line the cursor still belongs to it.
    const rest = text.slice(i + 1, pos);
    if (i < pos && (pos === i + 1 || !rest.trim()) && !rest.includes('\n')) {
      to = i + 1;
      break;
    }
    if (i < pos) from = i + 1;
    else {
      to = i + 1;
      break;
    }
  }
  const part = text.slice(from, to);
  if (!part.trim()) {
    const before = text.slice(0, from).replace(/[\s;]+$/, '');
    const start = before.lastIndexOf(';') + 1;
    return { from: start, text: before.slice(start) };
  }
  return { from, text: part };
}

interface On {
  change(text: string): void;
  run(all: boolean): void;
  cancel(): boolean;
}

const keysOf = (on: On) =>
  Prec.highest(
    keymap.of([
      { key: 'Mod-Enter', run: () => (on.run(false), true) },
      { key: 'Mod-Shift-Enter', run: () => (on.run(true), true) },
      { key: 'Escape', run: () => on.cancel() },
    ]),
  );

/** The language, with the names that the schema has. */
function support(schema: Schema | null) {
  const base = sql({ dialect });
  if (!schema) return [base, base.language.data.of({ autocomplete: keywordCompletionSource(dialect) })];
  return [
    base,
    base.language.data.of({ autocomplete: schemaCompletionSource({ dialect, schema: schema.tables }) }),
    base.language.data.of({ autocomplete: more(schema) }),
  ];
}

const extensionsOf = (on: On, language: Compartment) => [
  keysOf(on),
  lineNumbers(),
  history(),
  drawSelection(),
  bracketMatching(),
  closeBrackets(),
  highlightActiveLine(),
  EditorView.lineWrapping,
  autocompletion({ maxRenderedOptions: 60 }),
  syntaxHighlighting(paint),
  look,
  problems,
  language.of(support(null)),
  placeholder('select …   Ctrl+Enter runs it'),
  EditorView.contentAttributes.of({ 'aria-label': 'SQL. Escape then Tab leaves the editor.' }),
  keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
  EditorView.updateListener.of((u) => u.docChanged && on.change(u.state.doc.toString())),
];

export function makeEditor(parent: HTMLElement, doc: string, on: On): Editor {
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: 'open' });
  const language = new Compartment();
  const view = new EditorView({
    root,
    parent: root as unknown as Element,
    state: EditorState.create({ doc, extensions: extensionsOf(on, language) }),
  });
  return {
    text: () => view.state.doc.toString(),
    set(text) {
      if (text !== view.state.doc.toString())
        view.dispatch({
          changes: { from: 0, to: view.state.doc.length, insert: text },
          selection: { anchor: text.length },
        });
    },
    insert(text) {
      const { from, to } = view.state.selection.main;
      view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + text.length } });
      view.focus();
    },
    current() {
      const { from, to } = view.state.selection.main;
      return from !== to ? { from, text: view.state.sliceDoc(from, to) } : statementAt(view.state);
    },
    useSchema: (schema) => view.dispatch({ effects: language.reconfigure(support(schema)) }),
    problem(at, text) {
      closeCompletion(view); // it would hide the words
      view.dispatch({
        effects: [
          setProblem.of({ at, text }),
          EditorView.scrollIntoView(Math.min(at, view.state.doc.length)),
        ],
      });
    },
    noProblem: () => view.dispatch({ effects: setProblem.of(null) }),
    focus: () => view.focus(),
    close: () => view.destroy(),
  };
}
