// A name for this moment of a recording: it stands in the trace, and on the timeline.
import { useState } from 'preact/hooks';
import { count } from '../app/format';
import { ask } from '../app/server';

export function MarkForm({ id, made, off }: { id: number; made: number; off?: boolean }) {
  const [name, setName] = useState('');
  const [said, setSaid] = useState('');
  const send = (e: Event) => {
    e.preventDefault();
    const text = name.trim() || `mark ${made + 1}`;
    ask(`/api/v1/record/mark?id=${id}`, { method: 'POST', body: text }).then(
      () => {
        setName('');
        setSaid(`Marked '${text}'.`);
      },
      (x: Error) => setSaid(x.message),
    );
  };
  return (
    <form class="markform" onSubmit={send}>
      <input
        type="text"
        class="short"
        maxLength={60}
        aria-label="Name of the mark"
        placeholder="name of this moment"
        disabled={off}
        value={name}
        onInput={(e) => setName(e.currentTarget.value)}
      />
      <button type="submit" disabled={off} title="Add this name to the timeline at this moment">
        Mark
      </button>
      <span class="dim" role="status">
        {said || (made ? `${count(made)} ${made === 1 ? 'mark' : 'marks'}` : '')}
      </span>
    </form>
  );
}
