// What is to be recorded and how, as a form, as text of the URL, and as words of a command line.
import { signal } from '@preact/signals';
import { ask } from '../app/server';
import { go, place } from '../app/state';

const FIELDS = {
  interval: '4K',
  heap: '',
  all_heaps: false,
  dumps: 'end' as 'end' | 'every' | 'max',
  every: '5s',
  when: '',
  duration: '',
  stop: '',
  shmem: '8M',
  full: 'wait' as 'wait' | 'end',
  smaps: '',
  malloc_info: '',
  idle: false,
  follow: false,
  python: false,
};
export type Form = typeof FIELDS & {
  kind: 'attach' | 'record';
  pids: number[];
  names: string;
  command: string;
};

const EMPTY_FORM: Form = { ...FIELDS, kind: 'attach', pids: [], names: '', command: '' };

/** The form as text of the URL: what differs from an empty one. */
export function writeForm(f: Form): string {
  const q = new URLSearchParams();
  for (const key of Object.keys(EMPTY_FORM) as (keyof Form)[])
    if (String(f[key]) !== String(EMPTY_FORM[key])) q.set(key, String(f[key]));
  return q.toString();
}

const CHOICES: { [K in keyof Form]?: readonly string[] } = {
  kind: ['attach', 'record'],
  dumps: ['end', 'every', 'max'],
  full: ['wait', 'end'],
  shmem: ['1M', '2M', '4M', '8M', '16M', '32M', '64M', '128M'],
};

export function readForm(text: string): Form {
  const f: Record<string, unknown> = { ...EMPTY_FORM };
  for (const [key, value] of new URLSearchParams(text)) {
    const k = key as keyof Form;
    if (!(k in EMPTY_FORM) || (CHOICES[k] && !CHOICES[k].includes(value))) continue;
    f[k] =
      k === 'pids'
        ? value
            .split(',')
            .map(Number)
            .filter((n) => Number.isInteger(n) && n > 0)
        : typeof EMPTY_FORM[k] === 'boolean'
          ? value === 'true'
          : value;
  }
  return f as unknown as Form;
}

/** The URL has it; links to other pages leave it out, so it is kept here meanwhile. */
export const form = signal<Form>(place.peek().form ? readForm(place.peek().form) : EMPTY_FORM);
export const set = (change: Partial<Form>) => {
  form.value = { ...form.peek(), ...change };
  if (place.peek().page === 'record') go({ form: writeForm(form.peek()) }, true);
};
/** The recording that was started here: its trace is opened when it is there. */
export const awaited = signal(0);

/** As a shell would: blanks part words, quotes keep them together. */
export function splitWords(text: string): string[] {
  const words: string[] = [];
  for (const m of text.matchAll(/(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+/gs))
    words.push(
      m[0].replace(
        /"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/gs,
        (_, d: string | undefined, q: string | undefined, c: string) =>
          d?.replace(/\\(["\\$`])/g, '$1') ?? q ?? c,
      ),
    );
  return words;
}

export function wordsOf(f: Form): string[] {
  const w: string[] = [f.kind];
  const option = (name: string, value: string) => value.trim() && w.push(name, value.trim());
  if (f.interval.trim() !== '4K') option('-i', f.interval || '0');
  if (f.all_heaps) w.push('--all-heaps');
  else option('--heap', f.heap);
  if (f.dumps === 'every') option('-c', f.every || '0');
  if (f.dumps === 'max') w.push('--dump-at-max');
  for (const x of f.when.split(/\s+/)) option('--dump-when', x);
  option('-d', f.duration);
  for (const x of f.stop.split(/\s+/)) option('--stop-when', x);
  if (f.shmem !== '8M') option('--shmem-size', f.shmem);
  if (f.full === 'end') w.push('--no-block-client');
  option('--smaps', f.smaps);
  option('--malloc-info', f.malloc_info);
  if (f.idle) w.push('--idle-allocations');
  if (f.kind === 'record') {
    if (f.follow) w.push('--follow-fork');
    if (f.python) w.push('--python-allocators');
    const words = splitWords(f.command);
    if (words.length) w.push('--', ...words);
  } else {
    w.push(...f.pids.map(String), ...f.names.split(/[\s,]+/).filter(Boolean));
  }
  return w;
}

export const order = (verb: string, body: unknown) =>
  ask(`/api/v1/record/${verb}`, { method: 'POST', body: JSON.stringify(body) });
export const act = (verb: string, id: number) =>
  ask(`/api/v1/record/${verb}?id=${id}`, { method: 'POST', body: '' });
