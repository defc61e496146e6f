// A list of filters, applied in order. Pure.

/** Kinds of filters, as a list offers them. */
export const PREFIXES: [string, string][] = [
  ['SS:', 'keep stacks with'],
  ['HS:', 'hide stacks with'],
  ['HM:', 'hide stacks through module'],
  ['SF:', 'keep only frames'],
  ['HF:', 'take frames out'],
  ['SFF:', 'begin at'],
  ['P:', 'pivot at'],
  ['M:', 'keep stacks in module'],
  ['H:', 'keep heaps'],
];

const KIND = /^!?(SS|HS|SF|HF|SFF|P|M|H|T|TY):/;
const SINGLE = /^!?(SFF|P):/; // a graph begins at one place, and has one pivot

/** A name as the filters' exact form. */
export const exactly = (name: string) => `"${name}"`;

/** A typed text as a filter: of the kind that it names, else of the one that is chosen. */
export const filterOf = (text: string, kind: string) => (KIND.test(text) ? text : kind + text);

/** Appends a filter. */
export function withFilter(filters: string[], text: string): string[] {
  const others = filters.filter((f) => f !== text && !(SINGLE.test(text) && SINGLE.test(f)));
  return [...others, text];
}

export const withoutFilter = (filters: string[], i: number) => filters.filter((_, k) => k !== i);

/** Moves a filter before or after another. */
export function movedFilter(filters: string[], from: number, to: number): string[] {
  if (to < 0 || to >= filters.length || from === to) return filters;
  const next = withoutFilter(filters, from);
  next.splice(to, 0, filters[from]);
  return next;
}
