// Memory dumps on the timeline: circles with an M that lead to their page.
import { useEffect, useRef, useState } from 'preact/hooks';
import { clock, count } from '../app/format';
import { href, place } from '../app/state';
import { ns } from '../app/times';
import type { Trace } from '../app/types';
import { useAnswer } from '../parts/answer';
import type { View } from '../timeline/view';
import { type InfraDump, infraDumps, pickDump } from './infra-api';

/** Dumps nearer than this share a circle. */
const APART_PX = 14;

interface Mark {
  x: number;
  dumps: InfraDump[];
}

function marksOf(all: InfraDump[], view: View, width: number): Mark[] {
  const marks: Mark[] = [];
  for (const d of all) {
    const x = (d.ts - view.from) / (view.to - view.from);
    if (x < 0 || x > 1) continue;
    const last = marks[marks.length - 1];
    if (last && (x - last.x) * width < APART_PX) last.dumps.push(d);
    else marks.push({ x, dumps: [d] });
  }
  return marks;
}

function Circle({ m, all, zero }: { m: Mark; all: InfraDump[]; zero: number }) {
  const d = m.dumps[m.dumps.length - 1];
  const one = `M: memory dump at ${clock(d.ts - zero)}, ${d.detail}${d.heaps ? ', with heap dumps' : ''}`;
  const click = (e: MouseEvent) => {
    if (e.button !== 0 || e.shiftKey) return;
    e.preventDefault();
    pickDump(all, d, e.ctrlKey || e.metaKey);
  };
  return (
    <a
      class={`m-mark ${d.heaps ? '' : 'light'} ${place.value.dump === ns(d.ts) ? 'on' : ''}`}
      style={{ left: `clamp(13px, ${m.x * 100}%, calc(100% - 13px))` }}
      href={href({ page: 'memory-infra', dump: ns(d.ts) })}
      aria-label={
        m.dumps.length > 1
          ? `M: ${m.dumps.length} memory dumps up to ${clock(d.ts - zero)}; the last of them`
          : one
      }
      title={`${one}\nCtrl+click: what changed since it`}
      onClick={click}>
      M
    </a>
  );
}

export function MemoryTrack({ trace, view, zero }: { trace: Trace; view: View; zero: number }) {
  const has = !!trace.memory_dumps;
  const all =
    useAnswer(`infra ${trace.id} ${has}`, async () => (has ? infraDumps(trace.id) : [])).value ?? [];
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  useEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(() => box.current && setWidth(box.current.clientWidth));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, [all.length > 0]);
  if (!all.length) return null;
  return (
    <section class="tracks" aria-label="Memory dumps of all processes">
      <h2>
        Memory dumps <span class="dim">of all processes</span>
      </h2>
      <div class="track">
        <div class="name">
          MemoryInfra
          <span class="dim">
            {count(all.length)} {all.length === 1 ? 'dump' : 'dumps'}
          </span>
        </div>
        <div class="dumps" ref={box} role="group" aria-label="Memory dumps">
          {marksOf(all, view, width).map((m) => (
            <Circle m={m} all={all} zero={zero} />
          ))}
        </div>
      </div>
    </section>
  );
}
