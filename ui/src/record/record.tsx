// Record: what is recorded now, then what to record, how, and what stands in the way. The page
// makes the words of a command line; the server says what they mean.
import { useEffect } from 'preact/hooks';
import { recordings, status, trouble } from '../app/server';
import { go, place } from '../app/state';
import type { Recording } from '../app/types';
import { fresh } from '../app/url/place';
import { useKeys } from '../parts/keys';
import { act, awaited, form, readForm, writeForm } from './form';
import { Build } from './plan';
import { Past, Running } from './running';

const SAYS: Record<Recording['state'], string> = {
  running: 'is running',
  stopping: 'is ending',
  done: 'is complete',
  empty: 'recorded nothing',
  failed: 'failed',
  discarded: 'was thrown away',
};

/** Back, a link, a reload: the form is what the URL says. Without anything there, what was typed last. */
function useForm(): void {
  const text = place.value.form;
  useEffect(() => {
    if (text === writeForm(form.peek())) return;
    if (text) form.value = readForm(text);
    else go({ form: writeForm(form.peek()) }, true);
  }, [text]);
}

/** Opens the trace of the recording that was started here, when it is there. */
function useOpened(all: Recording[]): void {
  const mine = all.find((r) => r.id === awaited.value);
  const ready =
    mine?.state === 'done' && mine.trace && status.value?.traces.some((t) => t.id === mine.trace)
      ? mine.trace
      : 0;
  useEffect(() => {
    if (!ready) return;
    awaited.value = 0;
    go({ ...fresh, page: 'overview', trace: ready });
  }, [ready]);
}

function useRecordKeys(): void {
  useKeys((e) => {
    const now = recordings.peek().filter((r) => r.state === 'running');
    if (e.key.toLowerCase() === 'd') now.forEach((r) => void act('dump', r.id).catch(() => {}));
    if (e.key === '/') document.getElementById('find-process')?.focus();
    return e.key === '/';
  }, []);
}

export function RecordPage() {
  const all = recordings.value;
  useForm();
  useOpened(all);
  useRecordKeys();
  if (status.value && !status.value.records)
    return <p class="empty">This server records nothing: it only shows traces.</p>;
  const open = all.filter((r) => r.state === 'running' || r.state === 'stopping');
  const past = all.filter((r) => !open.includes(r)).reverse();
  const newest = all[all.length - 1];
  return (
    <>
      {trouble.value === 'gone' && (
        <p class="banner bad" role="alert">
          The server does not answer; this is the last state it reported. If it has stopped, its recordings
          were completed.
        </p>
      )}
      <p class="sr" role="status">
        {newest ? `Recording ${newest.id} ${SAYS[newest.state]}` : ''}
      </p>
      {open.map((r) => (
        <Running r={r} key={r.id} />
      ))}
      {past.length > 0 && (
        <ul class="past" aria-label="Recorded here">
          {past.map((r) => (
            <Past r={r} key={r.id} />
          ))}
        </ul>
      )}
      <Build />
    </>
  );
}
