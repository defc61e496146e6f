// A part of a heap in words and figures.
import { bytes, count, exact, safe } from '../app/format';
import type { Part } from './infra-api';

const SIGN: Record<Part['kind'], string> = { root: '', frame: 'ƒ', type: 'T', self: 'ƒ', other: '' }; // the T has a circle (infra.css): fonts without Ⓣ are common
export const Sign = ({ of }: { of: Part['kind'] }) => (
  <span class={`sign ${of}`} aria-hidden="true">
    {SIGN[of] && <i>{SIGN[of]}</i>}
  </span>
);
export const KIND: Record<Part['kind'], string> = {
  root: 'heap',
  frame: 'function',
  type: 'type',
  self: 'the function itself',
  other: 'small ones together',
};

/** A change with its sign; the word says which way, too. */
export function Change({ v, text = bytes }: { v: number; text?: (v: number) => string }) {
  return (
    <span class={v > 0 ? 'up' : v < 0 ? 'down' : 'dim'}>
      {v > 0 ? '+' : ''}
      {text(v)}
    </span>
  );
}

export function Amount({ part, diff, of }: { part: Part; diff: boolean; of: 'size' | 'count' }) {
  const now = part[of];
  const before = (of === 'size' ? part.size_before : part.count_before) ?? 0;
  const text = of === 'size' ? bytes : count;
  const unit = of === 'size' ? ' B' : '';
  return (
    <span title={diff ? `${exact(before)}${unit} before, ${exact(now)}${unit} now` : `${exact(now)}${unit}`}>
      {diff ? <Change v={now - before} text={text} /> : text(now)}
    </span>
  );
}

export const label = (part: Part, name: string) =>
  part.kind === 'root'
    ? safe(name)
    : part.kind === 'other'
      ? `<other> (${count(part.folded ?? 0)} small)`
      : safe(part.label) || '(no name)';

export const hint = (part: Part) =>
  part.kind === 'other'
    ? `Each of these ${count(part.folded ?? 0)} is too small for a row of its own; together they can be large. "Small ones" above chooses what is small.`
    : part.kind === 'self'
      ? 'what the function asked for itself, without what it calls'
      : safe(part.label);
