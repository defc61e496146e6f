// Keys of a page. Who types into a field means the field.
import { useEffect } from 'preact/hooks';
import { go, place } from '../app/state';
import { ns } from '../app/times';
import type { Tracks } from '../app/types';

export const isTyping = (e: Event) =>
  e.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);

/** A key without Ctrl, Alt and Meta, outside of fields. */
export const isPlainKey = (e: KeyboardEvent) => !(e.ctrlKey || e.altKey || e.metaKey || isTyping(e));

/** Keys for as long as something is shown; `act` gives whether the key was one of its own. */
export function useKeys(act: (e: KeyboardEvent) => boolean | void, deps?: unknown[], capture = false): void {
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (isPlainKey(e) && act(e)) e.preventDefault();
    };
    addEventListener('keydown', onKey, capture);
    return () => removeEventListener('keydown', onKey, capture);
  }, deps);
}

/** 1 to 4 choose one of as many. */
export const digit = <T>(e: KeyboardEvent, list: readonly T[]): T | undefined =>
  /^[1-6]$/.test(e.key) ? list[Number(e.key) - 1] : undefined;

/** [ and ]: one dump back or forth, with Shift the interval grows by it; on every page that shows a
 * moment. */
export function useDumpKeys(tracks: Tracks | null): void {
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      const back = e.key === '[' || e.key === '{';
      if (
        !tracks ||
        e.ctrlKey ||
        e.altKey ||
        e.metaKey ||
        !(back || e.key === ']' || e.key === '}') ||
        isTyping(e)
      )
        return;
      const p = place.peek();
      const moments = tracks.moments;
      const index = (ts: string) => moments.findIndex((m) => ns(m.ts) === ts);
      const now = p.at && p.at !== 'peak' ? index(p.at) : moments.length - 1;
      if (!e.shiftKey) {
        const m = moments[now + (back ? -1 : 1)];
        if (m) go({ at: ns(m.ts), max: m.max });
        return;
      }
      const from = p.from ? index(p.from) : now;
      if (back && from > 0)
        go({ from: ns(moments[from - 1].ts), at: ns(moments[now].ts), max: false, zoom: '' });
      else if (back && from === 0)
        go({ from: ns(tracks.start), at: ns(moments[now].ts), max: false, zoom: '' });
      else if (!back && moments[now + 1])
        go({ from: p.from || ns(moments[now].ts), at: ns(moments[now + 1].ts), max: false, zoom: '' });
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [tracks]);
}
