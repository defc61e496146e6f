// Keys and words, over any page.
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

export const help = signal(false);

const KEYS: [string, string][] = [
  ['?', 'this page'],
  ['Ctrl+K', 'find functions and pages; > commands, : SQL, / regular expression'],
  ['1 … 6', 'metric: live size, live count, total size, total count, temporary size, temporary count'],
  ['[  ]', 'previous, next dump'],
  ['Shift+[  ]', 'the interval grows by a dump'],
  ['I', 'bottom-up and back'],
  ['/', 'search'],
  ['↑ ↓ ← →', 'in a graph: caller, callee, siblings'],
  ['Enter · Esc', 'zoom in · out'],
  ['n · N', 'next, previous match'],
  ['Space', 'menu of a frame'],
  ['K · H · P', 'keep stacks with it · merge it into its caller · pivot'],
  ['Z · Shift+Z', 'undo, redo filters'],
  ['C', 'collapse recursion'],
  ['E', 'export'],
  ['X', 'diff: swap both sides'],
  ['Ctrl+click', 'on a dump of the timeline: compare it with what is selected'],
  ['W S A D · 0 · F', 'timeline: zoom, pan · all · to the selection'],
  ['M · G', 'timeline: mark the dump · go to a time'],
  ['Ctrl+wheel · Shift+drag', 'timeline: zoom at the pointer · pan'],
  ['Ctrl+Enter · Esc', 'SQL: run the statement · cancel'],
  ['Alt+← →', 'on a filter: earlier, later; Delete takes it away'],
];

export function Help() {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (help.value) ref.current?.showModal();
    else ref.current?.close();
  }, [help.value]);
  return (
    <dialog ref={ref} aria-label="Help" onClose={() => (help.value = false)}>
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([k, what]) => (
          <>
            <dt>
              <kbd>{k}</kbd>
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <h2>Words</h2>
      <dl class="keys">
        <dt>live</dt>
        <dd>allocated and not yet freed at the dump</dd>
        <dt>total</dt>
        <dd>in figures of allocations: freed ones included; in tables: a function with all it calls</dd>
        <dt>self</dt>
        <dd>what a function asked for itself</dd>
        <dt>± 2 %</dt>
        <dd>with 95 % probability the true figure is within; without it the figure is exact</dd>
      </dl>
      <h2>Manual</h2>
      <p>
        In a terminal: <code>heapwise help</code>, <code>heapwise help TOPIC</code>;{' '}
        <code>heapwise explain CODE</code> tells more of an error.
      </p>
      <form method="dialog">
        <button class="primary">Close</button>
      </form>
    </dialog>
  );
}
