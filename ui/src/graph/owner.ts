// Whose code a frame is: the program's own, a library's, or the language's runtime.
import { ALLOCATOR, GROUP, type Graph, MERGED, OWN, STD } from './graph';

export const OWNERS = [
  { id: 'own', label: 'Your code', hint: 'the program itself, and what its interpreter runs' },
  { id: 'library', label: 'Libraries', hint: 'shared libraries that it uses' },
  {
    id: 'runtime',
    label: 'Runtime',
    hint: 'C library, the language\u2019s own library, allocators, interpreters',
  },
] as const;
export type Owner = (typeof OWNERS)[number]['id'];

export const ownerOf = (flags: number): Owner =>
  flags & OWN ? 'own' : flags & (STD | ALLOCATOR) ? 'runtime' : 'library';

/** A hue for each owner; functions differ a little, so that neighbours can be told apart. */
export function ownerFill(flags: number, n: number, dark: boolean): string {
  const step = (n >>> 8) % 10;
  const turn = (n % 21) - 10;
  switch (ownerOf(flags)) {
    case 'own':
      return dark ? `hsl(${24 + turn} 46% ${28 + step}%)` : `hsl(${27 + turn} 86% ${75 + step}%)`;
    case 'library':
      return dark ? `hsl(${208 + turn} 36% ${29 + step}%)` : `hsl(${208 + turn} 68% ${78 + step}%)`;
    case 'runtime':
      return dark ? `hsl(215 9% ${30 + step * 0.8}%)` : `hsl(215 16% ${80 + step * 0.8}%)`;
  }
}

/** What the functions of each asked for themselves; what was merged belongs to none. */
export function ownerSums(g: Graph): Record<Owner, number> {
  const sums = { own: 0, library: 0, runtime: 0 };
  for (let i = 1; i < g.n; i++)
    if (g.self[i] > 0 && !(g.flags[i] & (MERGED | GROUP))) sums[ownerOf(g.flags[i])] += g.self[i];
  return sums;
}
