// Large allocations of a heap as a file.
import { useState } from 'preact/hooks';
import { save } from '../app/files';
import { count, safe } from '../app/format';
import { infraLarge } from './infra-api';

/** The file that diff_heap_profiler writes: callstacks with more objects, and more bytes, than so many. */
export function Large({ trace, query, diff }: { trace: number; query: string; diff: boolean }) {
  const [objects, setObjects] = useState('1000');
  const [size, setSize] = useState('0');
  const [said, say] = useState('');
  const number = (text: string) => /^\d{1,15}$/.test(text.trim());
  const extract = () => {
    say('');
    infraLarge(trace, `${query}&min_count=${objects.trim()}&min_size=${size.trim()}`).then(
      async (b) => {
        const n = JSON.parse(await b.text()).length;
        if (n) save(b, 'large-allocations.json');
        say(n ? `${count(n)} callstacks saved` : 'No callstack holds as much.');
      },
      (e: Error) => say(e.message),
    );
  };
  return (
    <div class="bar" role="group" aria-label="Extract large allocations">
      <label>
        Callstacks {diff ? 'that grew by' : 'with'} more than{' '}
        <input
          class="short"
          type="text"
          inputMode="numeric"
          aria-label="Objects"
          value={objects}
          onInput={(e) => setObjects(e.currentTarget.value)}
        />{' '}
        objects
      </label>
      <label>
        and{' '}
        <input
          class="short"
          type="text"
          inputMode="numeric"
          aria-label="Bytes"
          value={size}
          onInput={(e) => setSize(e.currentTarget.value)}
        />{' '}
        bytes
      </label>
      <button type="button" onClick={extract} disabled={!number(objects) || !number(size)}>
        Extract large allocations
      </button>
      <span class="dim" role="status">
        {safe(said)}
      </span>
    </div>
  );
}
