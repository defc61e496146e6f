// The line in the top bar: text finds functions and pages, `>` commands, `:` asks SQL, `/` searches graphs.
import { type MutableRef, useEffect, useRef, useState } from 'preact/hooks';
import { functions, timeline } from '../app/answers';
import { closeTrace } from '../app/files';
import { base, METRICS, safe, UNITS_CHOICES } from '../app/format';
import { selection } from '../app/selection';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import type { Trace } from '../app/types';
import { fresh } from '../app/url/place';
import { tracksOf } from '../parts/selected';
import { setUnits } from './buttons';
import { help } from './help';
import { PAGES, whyMissing } from './pages';

interface Found {
  label: string;
  note: string;
  act(): void;
}

const THEMES: [string, string][] = [
  ['', 'as the system'],
  ['light', 'light'],
  ['dark', 'dark'],
  ['contrast', 'high contrast'],
];

async function toEnd(trace: number): Promise<void> {
  const last = tracksOf(await timeline(trace))?.moments.at(-1);
  if (last) go({ at: ns(last.ts), max: last.max, from: '' });
}

function commands(trace: Trace | null): Found[] {
  const pages = PAGES.filter((x) => !whyMissing(x, trace)).map((x) => ({
    label: x.label,
    note: 'page',
    act: () => go({ page: x.id }),
  }));
  const shown: Found[] = trace?.processes?.length
    ? [
        ...METRICS.map((m) => ({
          label: `Metric: ${m.label}`,
          note: m.hint,
          act: () => go({ metric: m.id }),
        })),
        {
          label: place.value.invert ? 'Top-down' : 'Bottom-up',
          note: 'direction',
          act: () => go({ invert: !place.peek().invert, zoom: '' }),
        },
        { label: 'The peak', note: 'moment', act: () => go({ at: 'peak', max: false, from: '' }) },
        { label: 'The end', note: 'moment', act: () => void toEnd(trace.id) },
        { label: 'Take all filters away', note: 'filters', act: () => go({ filters: [], zoom: '' }) },
      ]
    : [];
  return [
    ...pages,
    ...shown,
    ...THEMES.map(([id, label]) => ({
      label: `Theme: ${label}`,
      note: 'look',
      act: () => go({ theme: id }, true),
    })),
    ...UNITS_CHOICES.map((u) => ({ label: `Units: ${u.label}`, note: u.hint, act: () => setUnits(u.id) })),
    ...(trace
      ? [
          {
            label: `Close ${safe(base(trace.name))}`,
            note: 'the file stays',
            act: () => void closeTrace(trace.id).then(() => go({ ...fresh, page: 'home', trace: 0 })),
          },
        ]
      : []),
    {
      label: 'Help',
      note: 'keys and words',
      act: () => {
        help.value = true;
      },
    },
  ];
}

const within = (text: string, list: Found[]) =>
  list.filter((c) => c.label.toLowerCase().includes(text.trim().toLowerCase()));

/** What a line means now; functions are asked for behind it. */
function meaning(text: string, trace: Trace | null): Found[] {
  const t = text.trim();
  if (t.startsWith('>')) return within(t.slice(1), commands(trace));
  if (!t || !trace || trace.state !== 'ready') return t ? within(t, commands(trace)) : [];
  if (t.startsWith(':'))
    return t.length > 1
      ? [
          {
            label: t.slice(1).trim(),
            note: 'ask this in SQL',
            act: () => go({ page: 'query', sql: t.slice(1).trim() }),
          },
        ]
      : [];
  const graph = {
    label: t.startsWith('/') ? t.replace(/^\/(.*?)\/?(i?)$/s, '/$1/$2') : t,
    note: 'search the flamegraph',
  };
  const search: Found[] = trace.processes?.length
    ? [{ ...graph, act: () => go({ page: 'flame', search: graph.label, zoom: '' }) }]
    : [];
  return t.startsWith('/')
    ? t.length > 1
      ? search
      : []
    : [
        ...search,
        ...within(
          t,
          commands(trace).filter((c) => c.note === 'page'),
        ),
      ];
}

/** Functions of that name, a moment after the last key. */
function useNamed(text: string, trace: Trace | null): Found[] {
  const [named, setNamed] = useState<Found[]>([]);
  const plain = text.trim() && !/^[>:/]/.test(text.trim()) ? text.trim() : '';
  useEffect(() => {
    setNamed([]);
    if (!plain || plain.length < 2 || !trace?.processes?.length) return;
    let current = true;
    const timer = setTimeout(
      () =>
        functions(trace.id, `${selection.peek()}&match=${encodeURIComponent(plain)}&limit=8`).then(
          (f) =>
            current &&
            setNamed(
              f.data.map((r) => ({
                label: safe(r[0]),
                note: `function in ${safe(base(r[1])) || 'an unknown module'}`,
                act: () => go({ page: 'functions', fn: r[0] }),
              })),
            ),
          () => {}, // wrong filters of the selection: then there are no names
        ),
      150,
    );
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [plain, trace?.id]);
  return named;
}

/** Ctrl+K leads there, also from another field. */
function useCtrlK(input: MutableRef<HTMLInputElement | null>): void {
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (!(e.ctrlKey || e.metaKey) || e.key.toLowerCase() !== 'k') return;
      e.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    addEventListener('keydown', key, true); // before a field takes it
    return () => removeEventListener('keydown', key, true);
  }, []);
}

function FoundList({ list, choice, onChoose }: { list: Found[]; choice: number; onChoose(f: Found): void }) {
  return (
    <ul id="found" role="listbox" aria-label="Found">
      {list.map((f, i) => (
        <li
          id={`found-${i}`}
          role="option"
          aria-selected={i === choice}
          onPointerDown={(e) => {
            e.preventDefault();
            onChoose(f);
          }}>
          <span>{f.label}</span>
          <span class="dim">{f.note}</span>
        </li>
      ))}
    </ul>
  );
}

export function Omnibox({ trace }: { trace: Trace | null }) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState('');
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const list = [...meaning(text, trace), ...useNamed(text, trace)].slice(0, 14);
  useCtrlK(input);
  const choice = Math.min(at, list.length - 1);
  const choose = (f: Found | undefined) => {
    if (!f) return;
    setText('');
    setOpen(false);
    input.current?.blur();
    f.act();
  };
  const onInput = (value: string) => {
    setText(value);
    setAt(0);
    setOpen(true);
  };
  const onKey = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown') setAt(Math.min(choice + 1, list.length - 1));
    else if (e.key === 'ArrowUp') setAt(Math.max(choice - 1, 0));
    else if (e.key === 'Enter') choose(list[choice]);
    else if (e.key === 'Escape') {
      setText('');
      input.current?.blur();
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const shown = open && list.length > 0;
  return (
    <div class="omnibox">
      <input
        ref={input}
        type="search"
        role="combobox"
        aria-label="Find, or > commands, : SQL, / regular expression"
        aria-expanded={shown}
        aria-controls="found"
        aria-autocomplete="list"
        aria-activedescendant={shown ? `found-${choice}` : undefined}
        placeholder="Find   > command   : SQL   / regex   (Ctrl+K)"
        value={text}
        onInput={(e) => onInput(e.currentTarget.value)}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKey}
      />
      {shown && <FoundList list={list} choice={choice} onChoose={choose} />}
    </div>
  );
}
