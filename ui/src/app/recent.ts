// Files that were opened here, and a trace in a few words.
import { effect, signal } from '@preact/signals';
import { of, safe } from './format';
import { howFar } from './progress';
import { status } from './server';
import { remember, remembered } from './store';
import type { Trace } from './types';

/** Files that were open here, the last one first. */
export interface Recent {
  path: string;
  bytes: number;
  words: string;
  at: number;
}
export const recent = signal<Recent[]>([]);
const MOST = 20;

/** Notes every file that could be read. */
export function keepRecent(): void {
  const noted = new Set<string>();
  recent.value = remembered<Recent[]>('recent', []).filter((r) => typeof r?.path === 'string');
  effect(() => {
    const fresh = (status.value?.traces ?? []).filter(
      (t) => t.state === 'ready' && t.path && !noted.has(t.path),
    );
    if (!fresh.length) return;
    for (const t of fresh) noted.add(t.path!);
    const rows = fresh
      .reverse()
      .map((t) => ({ path: t.path!, bytes: t.bytes, words: words(t), at: Date.now() }));
    // Another page may have noted some meanwhile.
    const old = remembered<Recent[]>('recent', []).filter(
      (r) => typeof r?.path === 'string' && !rows.some((x) => x.path === r.path),
    );
    recent.value = [...rows, ...old].slice(0, MOST);
    remember('recent', recent.value);
  });
}

/** A trace in a few words. */
export const words = (t: Trace) =>
  t.state === 'loading'
    ? howFar(t)
    : t.state === 'failed'
      ? safe(t.error ?? 'cannot be read')
      : [
          of(t.n_processes ?? 0, 'process', 'processes'),
          (t.dumps || !(t.heap_graphs || t.memory_dumps || t.slices)) && of(t.dumps ?? 0, 'dump'),
          !t.dumps && t.memory_dumps && of(t.memory_dumps, 'memory dump'),
          t.heap_graphs && of(t.heap_graphs, 'managed heap graph'),
        ]
          .filter(Boolean)
          .join(', ');
