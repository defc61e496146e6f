// The stretch of time that is looked at.
import { useState } from 'preact/hooks';
import type { Timeline } from '../app/types';

export const GUTTER = 150; // px: the names of tracks stand there

export interface View {
  from: number;
  to: number;
}

export function wholeView(t: Timeline): View {
  const from = Math.min(
    ...t.processes.map((p) => p.start),
    ...t.processes.flatMap((p) => p.moments.map((m) => m.ts)),
  );
  const to = Math.max(...t.processes.flatMap((p) => p.moments.map((m) => m.ts)), from + 1e6);
  const room = (to - from) * 0.02;
  return { from: from - room / 4, to: to + room };
}

/** What of the whole is looked at, and how it is moved. */
export function useView(whole: View) {
  const [view, setView] = useState<View>(whole);
  return {
    whole,
    view,
    setView,
    zoom(factor: number, middle = (view.from + view.to) / 2) {
      const from = middle - (middle - view.from) * factor;
      const to = middle + (view.to - middle) * factor;
      setView({ from: Math.max(whole.from, from), to: Math.min(whole.to, Math.max(to, from + 1e3)) });
    },
    pan(share: number) {
      const by = Math.max(
        whole.from - view.from,
        Math.min(whole.to - view.to, (view.to - view.from) * share),
      );
      setView({ from: view.from + by, to: view.to + by });
    },
  };
}

/** Where a time stands, in percent of the view. */
export const percentOf = (view: View, ts: number) => ((ts - view.from) / (view.to - view.from)) * 100;

/** Ctrl and the wheel zoom at the pointer. */
export function wheelZoom(e: WheelEvent, view: View, zoom: (factor: number, middle: number) => void): void {
  if (!e.ctrlKey) return;
  e.preventDefault();
  const r = (e.currentTarget as Element).getBoundingClientRect();
  zoom(
    e.deltaY > 0 ? 1.2 : 1 / 1.2,
    view.from + (view.to - view.from) * ((e.clientX - r.left - GUTTER) / (r.width - GUTTER)),
  );
}

/** A view and how it is moved. */
export type Moves = ReturnType<typeof useView>;
