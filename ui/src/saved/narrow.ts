// Filters over stacks, as the server has them (src/views/filter.h). Pure.
import type { Fn } from './stacks';

export class BadFilter extends Error {}

export type Match = (text: string) => boolean;

/** POSIX extended expressions in JavaScript's form: in brackets a backslash is a letter, and classes have
 * names. */
function posix(text: string): string {
  const classes: Record<string, string> = {
    alpha: 'A-Za-z',
    digit: '0-9',
    alnum: 'A-Za-z0-9',
    upper: 'A-Z',
    lower: 'a-z',
    space: '\\s',
    blank: ' \\t',
    xdigit: '0-9A-Fa-f',
    punct: '!-\\/:-@\\[-`{-~',
  };
  return text.replace(/\\.|\[\^?\]?(?:\[:\w+:\]|[^\]])*\]/gs, (part) => {
    if (!part.startsWith('[')) return part;
    const [, not, inner] = /^\[(\^?)(.*)\]$/s.exec(part)!;
    const body = inner.replace(/\[:(\w+):\]|\\|\]|\[/g, (x, name) =>
      name ? (classes[name] ?? '') : `\\${x}`,
    );
    return `[${not}${body}]`;
  });
}

/** text, "text" or /re/i */
export function patternOf(text: string): Match {
  if (!text) throw new BadFilter('a pattern is empty');
  const re = /^\/(.+)\/(i?)$/s.exec(text);
  if (re)
    try {
      const r = new RegExp(posix(re[1]), re[2]);
      return (s) => r.test(s);
    } catch (e) {
      throw new BadFilter(`regular expression ${text}: ${(e as Error).message}`);
    }
  if (text.length > 2 && text.startsWith('"') && text.endsWith('"')) {
    const whole = text.slice(1, -1);
    return (s) => s === whole;
  }
  const low = text.toLowerCase();
  return (s) => s.toLowerCase().includes(low);
}

type Kind = 'SS' | 'HS' | 'SF' | 'HF' | 'SFF' | 'P' | 'M';
interface Filter {
  kind: Kind;
  inverted: boolean;
  match: Uint8Array; // by function
}

const PREFIX = /^(!?)(?:(SS|HS|SFF|SF|HF|P|M|HM|H|TY|T):)?(.*)$/s;

/** The program's own functions have names of their file, too. */
export interface Program {
  shown: string;
  file: string;
}

function textsOf(fn: Fn, ofModule: boolean, p: Program | null): string[] {
  const own = p && fn.module === p.shown;
  if (ofModule) return own ? [fn.module, p.file] : [fn.module];
  if (!own || !fn.name.startsWith(`${p.shown}+0x`)) return [fn.name];
  return [fn.name, p.file.slice(p.file.lastIndexOf('/') + 1) + fn.name.slice(p.shown.length)];
}

function filterOf(text: string, fns: Fn[], program: Program | null): Filter {
  const [, not, prefix, rest] = PREFIX.exec(text)!;
  if (prefix === 'T' || prefix === 'TY')
    throw new BadFilter(`filter '${text}': these stacks have no ${prefix === 'T' ? 'threads' : 'types'}`);
  if (prefix === 'H') throw new BadFilter(`filter '${text}': this file does not hold each heap by itself`);
  let inverted = not !== '';
  let kind = (prefix ?? 'SS') as Kind | 'HM';
  if (!prefix && inverted) [kind, inverted] = ['HS', false];
  if (kind === 'HM') [kind, inverted] = ['M', !inverted];
  if (inverted && (kind === 'SFF' || kind === 'P'))
    throw new BadFilter(`filter '${text}': SFF: and P: cannot be inverted`);
  const m = patternOf(rest);
  const match = Uint8Array.from(fns, (fn) => (textsOf(fn, kind === 'M', program).some(m) ? 1 : 0));
  return { kind, inverted, match };
}

export function filtersOf(texts: string[], fns: Fn[], program: Program | null): Filter[] {
  const filters = texts.filter(Boolean).map((t) => filterOf(t, fns, program));
  if (filters.filter((f) => f.kind === 'SFF' || f.kind === 'P').length > 1)
    throw new BadFilter('only one of SFF: and P:');
  return filters;
}

export const hasPivot = (filters: Filter[]) => filters.some((f) => f.kind === 'P');

/** The stack as filters leave it, and where its pivot is; null: they drop it. */
export function narrowed(filters: Filter[], stack: number[]): { path: number[]; pivot: number } | null {
  let path = stack;
  let pivot: Uint8Array | null = null;
  for (const { kind, inverted, match } of filters) {
    const first = path.findIndex((f) => match[f]);
    if (kind === 'SS' || kind === 'M') {
      if (first >= 0 === inverted) return null;
    } else if (kind === 'HS') {
      if (first >= 0 !== inverted) return null;
    } else if (kind === 'SF' || kind === 'HF') {
      const keep = (kind === 'SF') !== inverted;
      path = path.filter((f) => !!match[f] === keep);
    } else {
      if (first < 0) return null;
      if (kind === 'SFF') path = path.slice(first);
      else pivot = match;
    }
  }
  const at = pivot ? path.findIndex((f) => pivot[f]) : 0;
  return at < 0 ? null : { path, pivot: at };
}
