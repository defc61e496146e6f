// The timeline with its navigation; what is selected is drawn below it.
import { useEffect, useState } from 'preact/hooks';
import { Explorer } from './explore';
import { isTyping, type ProfileProps, SelectionBar } from './parts';
import { place } from './state';
import { GUTTER, Ruler, TrackGroup, type View, wholeView } from './timeline';

export function TimelinePage({ tracks, all }: ProfileProps) {
  const whole = wholeView(all);
  const [view, setView] = useState<View>(whole);
  const zoom = (factor: number, middle = (view.from + view.to) / 2) => {
    const from = middle - (middle - view.from) * factor;
    const to = middle + (view.to - middle) * factor;
    setView({ from: Math.max(whole.from, from), to: Math.min(whole.to, Math.max(to, from + 1e5)) });
  };
  const pan = (share: number) => {
    const by = Math.max(whole.from - view.from, Math.min(whole.to - view.to, (view.to - view.from) * share));
    setView({ from: view.from + by, to: view.to + by });
  };
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || isTyping(e)) return;
      const p = place.peek();
      const acts: Record<string, () => void> = {
        w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.2), d: () => pan(0.2), 0: () => setView(whole),
        f: () => p.from && p.at && setView({ from: Number(p.from), to: Number(p.at) }),
      };
      acts[e.key.toLowerCase()]?.();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, [view]);
  return (
    <div class="column">
      <div onWheel={(e) => {
        if (!e.ctrlKey) return;
        e.preventDefault();
        const r = e.currentTarget.getBoundingClientRect();
        zoom(e.deltaY > 0 ? 1.2 : 1 / 1.2, view.from + (view.to - view.from) * ((e.clientX - r.left - GUTTER) / (r.width - GUTTER)));
      }}>
        <div class="bar"><span class="dim hint">Click a diamond for what was live then, a slice for what came in it; drag over a track for an interval.</span>
          <button type="button" title="Zoom in (W)" aria-label="Zoom in" onClick={() => zoom(0.7)}>+</button>
          <button type="button" title="Zoom out (S)" aria-label="Zoom out" onClick={() => zoom(1 / 0.7)}>−</button>
          <button type="button" title="Whole trace (0)" onClick={() => setView(whole)}>All</button></div>
        <Ruler view={view} zero={all.processes[0]?.start ?? all.first_ns} />
        {all.processes.map((t) => <TrackGroup tracks={t} view={view} onView={setView} />)}
      </div>
      <SelectionBar tracks={tracks} all={all} />
      <Explorer tracks={tracks} />
    </div>
  );
}
