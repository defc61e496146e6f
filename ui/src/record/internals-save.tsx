// Saving a dump of all that is tracked.
import { useState } from 'preact/hooks';
import { base, count, safe } from '../app/format';
import { ask } from '../app/server';
import { href } from '../app/state';
import { token } from '../app/token';
import { fresh } from '../app/url/place';
import { events, PATH, type Saved } from './internals-api';

interface Saving {
  done: number;
  all: number;
  saved: Saved | null;
  error: string;
  busy: boolean;
}
const idle: Saving = { done: 0, all: 0, saved: null, error: '', busy: false };

export function SaveLine({ s, other }: { s: Saving; other: boolean }) {
  if (s.busy || other)
    return (
      <p class="internals-save" role="status">
        Saving…{s.all > 0 && ` ${s.done} of ${s.all} processes`}
      </p>
    );
  if (s.error)
    return (
      <p class="banner bad" role="alert">
        Save failure. {safe(s.error)}
      </p>
    );
  if (!s.saved) return <p class="internals-save" role="status" />;
  const x = s.saved;
  const file = (kind: string) => `${PATH}file/${x.id}/${kind}?token=${token.peek()}`;
  return (
    <div class={`banner ${x.failed.length ? 'note' : 'good'}`} role="status">
      Save successful. {count(x.processes)} {x.processes === 1 ? 'process' : 'processes'} in{' '}
      {x.id ? (
        <a href={file('json')} download={base(x.json)}>
          {safe(base(x.json))}
        </a>
      ) : (
        safe(x.json)
      )}
      , as a trace in{' '}
      {x.id ? (
        <a href={file('trace')} download={base(x.trace)}>
          {safe(base(x.trace))}
        </a>
      ) : (
        safe(x.trace)
      )}
      .
      {x.trace_id > 0 && (
        <>
          {' '}
          <a href={href({ ...fresh, page: 'memory-infra', trace: x.trace_id })}>Open it</a>
        </>
      )}
      {x.failed.map((f) => (
        <p key={f.pid}>
          Not in it: {f.pid} {safe(f.name)}: {safe(f.why)}
        </p>
      ))}
    </div>
  );
}

/** Saves what is picked, or all; what comes of it as it comes. */
export function useSaving(picked: number[], done: () => void) {
  const [saving, setSaving] = useState(idle);
  const save = async () => {
    setSaving({ ...idle, busy: true });
    try {
      const body = JSON.stringify(picked.length ? { processes: picked } : {});
      for await (const e of events(await ask(`${PATH}save-dump`, { method: 'POST', body }))) {
        if (e.name === 'progress') setSaving((s) => ({ ...s, ...(e.data as { done: number; all: number }) }));
        if (e.name === 'saved') setSaving({ ...idle, saved: e.data as Saved });
        if (e.name === 'failed') setSaving({ ...idle, error: (e.data as { text: string }).text });
      }
    } catch (e) {
      setSaving({ ...idle, error: (e as Error).message });
    }
    setSaving((s) => (s.busy ? { ...idle, error: 'the connection broke' } : s));
    done();
  };
  return { saving, save };
}
