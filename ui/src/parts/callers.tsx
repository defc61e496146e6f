// Who called a function, behind its name.
import { percent, safe } from '../app/format';

export type Caller = [name: string, share: number];

/** "‹ lookup ‹ serve 38%": who called it for most of what it holds. */
export function Callers({ list }: { list: Caller[] }) {
  if (!list.length) return null;
  const share = list[list.length - 1][1];
  const part = share < 0.95 ? ` ${percent(share, 1)}` : '';
  return (
    <span class="callers dim" title={`called by these for ${percent(share, 1)} of it`}>
      {list.map(([name]) => ` ‹ ${safe(name)}`).join('')}
      {part}
    </span>
  );
}

/**
 * How many callers each path (root first) takes to be told from the others that end in the same function:
 * up to the first that no other has at that place; 0 where no other ends so. A path that is the end of
 * another takes all of its own.
 */
export function callersApart(paths: string[][]): number[] {
  const up = paths.map((p) => [...p].reverse());
  return up.map((a, i) => {
    const others = up.filter((b, k) => k !== i && b[0] === a[0]);
    let most = 0;
    for (const b of others) {
      let n = 0;
      while (n < a.length && n < b.length && a[n] === b[n]) n++;
      most = Math.max(most, Math.min(n, a.length - 1));
    }
    return most;
  });
}

const NEAREST = 4; // callers that a row always shows

/** The nearest callers, and those up to number `apart`: many in between are left out. */
export function callersTo(callers: string[], apart: number): string[] {
  const shown = callers.slice(0, NEAREST);
  if (apart > NEAREST + 1) shown.push('…');
  if (apart > NEAREST) shown.push(callers[apart - 1]);
  if (callers.length > Math.max(apart, NEAREST)) shown.push('…');
  return shown;
}
