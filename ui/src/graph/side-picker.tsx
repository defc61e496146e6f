// Both sides of a comparison: trace, process, heap and moments of each.
import { useRef, useState } from 'preact/hooks';
import { timeline } from '../app/answers';
import { openFile } from '../app/files';
import { base, bytes, clock, fit, safe } from '../app/format';
import { isSaved, refresh, status } from '../app/server';
import { type Side, written } from '../app/sides';
import { go } from '../app/state';
import { ns } from '../app/times';
import type { Timeline, Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { heapsWord } from '../parts/selected';

const side = (trace: number): Side => ({ trace, upid: null, heap: '', at: '', max: false, from: '' });

/** From which to which moment. */
function Moments({
  t,
  letter,
  side,
  onPick,
}: {
  t: Tracks;
  letter: 'A' | 'B';
  side: Side;
  onPick(s: Side): void;
}) {
  const moments = t.moments;
  const index =
    side.at === 'peak'
      ? -1
      : side.at
        ? moments.findIndex((m) => ns(m.ts) === side.at && m.max === side.max)
        : moments.length - 1;
  const choose = (v: string) =>
    onPick(
      v === 'peak'
        ? { ...side, at: 'peak', max: false, from: '' }
        : { ...side, at: ns(moments[Number(v)].ts), max: moments[Number(v)].max },
    );
  return (
    <>
      <label>
        At{' '}
        <select
          aria-label={`Moment of ${letter}`}
          value={side.at === 'peak' ? 'peak' : String(index)}
          onChange={(e) => choose(e.currentTarget.value)}>
          {t.peak && <option value="peak">the peak, {bytes(t.peak.space)}</option>}
          {moments.map((m, i) => (
            <option value={String(i)}>
              {clock(m.ts - t.start)} · {bytes(m.space)}
              {i === moments.length - 1 ? ' (end)' : ''}
            </option>
          ))}
        </select>
      </label>
      {moments.length > 1 && (
        <label>
          Since{' '}
          <select
            aria-label={`Start of ${letter}`}
            value={side.from}
            onChange={(e) => onPick({ ...side, from: e.currentTarget.value })}>
            <option value="">the start</option>
            {moments.map((m) => (
              <option value={ns(m.ts)}>{clock(m.ts - t.start)}</option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}

export function SidePicker({
  letter,
  side: s,
  onPick,
}: {
  letter: 'A' | 'B';
  side: Side;
  onPick(s: Side): void;
}) {
  const traces = (status.value?.traces ?? []).filter((t) => t.state === 'ready');
  const answer = useAnswer<Timeline>(`timeline ${s.trace}`, () => timeline(s.trace));
  const all = answer.value?.processes ?? [];
  const t = all.find((x) => x.upid === s.upid) ?? all[0];
  return (
    <fieldset class={`side-picker side-${letter}`}>
      <legend>
        <b>{letter}</b> {{ A: 'Baseline', B: 'Compared' }[letter]}
      </legend>
      {traces.length > 1 && (
        <label>
          Trace{' '}
          <select value={String(s.trace)} onChange={(e) => onPick(side(Number(e.currentTarget.value)))}>
            {traces.map((x) => (
              <option value={String(x.id)}>{fit(safe(base(x.name)), 40)}</option>
            ))}
          </select>
        </label>
      )}
      {all.length > 1 && t && (
        <label>
          Process{' '}
          <select
            value={String(t.upid)}
            onChange={(e) => onPick({ ...side(s.trace), upid: Number(e.currentTarget.value) })}>
            {all.map((x) => (
              <option value={String(x.upid)}>
                {safe(base(x.name)) || '?'} ({x.pid})
              </option>
            ))}
          </select>
        </label>
      )}
      {t && t.heaps.length > 1 && (
        <label>
          Heap{' '}
          <select value={s.heap} onChange={(e) => onPick({ ...s, heap: e.currentTarget.value })}>
            <option value="">{heapsWord(t)}</option>
            {t.heaps.map((h) => (
              <option value={h.heap}>{safe(h.heap)}</option>
            ))}
          </select>
        </label>
      )}
      {t && <Moments t={t} letter={letter} side={s} onPick={onPick} />}
    </fieldset>
  );
}

/** Waits until a file can be asked; '' = it can, otherwise why not. */
async function untilRead(id: number): Promise<string | null> {
  for (let i = 0; i < 600; i++) {
    await refresh();
    const t = status.peek()?.traces.find((x) => x.id === id);
    if (t?.state === 'failed') return t.error ?? 'cannot be read';
    if (t?.state === 'ready') return '';
    await new Promise((ok) => setTimeout(ok, 100));
  }
  return null;
}

export function OpenOther() {
  const input = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState('');
  const open = async (file: File) => {
    setProblem('');
    try {
      const id = await openFile(file);
      const why = await untilRead(id);
      if (why) setProblem(why);
      else if (why === '') go({ base: written(side(id)) });
    } catch (e) {
      setProblem((e as Error).message);
    }
  };
  if (isSaved()) return null;
  return (
    <>
      <button type="button" onClick={() => input.current!.click()}>
        Compare with a file
      </button>
      <input
        ref={input}
        type="file"
        hidden
        aria-label="File to compare with"
        onChange={(e) => {
          const file = e.currentTarget.files?.[0];
          if (file) void open(file);
        }}
      />
      {problem && (
        <span class="bad" role="alert">
          {safe(problem)}
        </span>
      )}
    </>
  );
}
