// What is told above a page: the server is gone, the address named something that is not there.
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { strayed } from '../app/entry';
import { base, safe } from '../app/format';
import { connect, nextTry, trouble } from '../app/server';
import { href, place } from '../app/state';
import { chosen } from '../app/together';
import type { Timeline, Trace } from '../app/types';
import type { Place } from '../app/url/place';
import { currentTrace, nameOfTracks } from '../parts/selected';
import { CloseNote } from '../parts/words';
import { isPage } from './pages';

/** What the address wanted and the trace does not have; what is shown in its place stands in the
 * address then. */
export const without = signal<{ trace: number; page: string; text: string; change: Partial<Place> } | null>(
  null,
);

export function notHere(all: Timeline): { text: string; change: Partial<Place> } | null {
  const p = place.value;
  const has = (upid: number) => all.processes.some((x) => x.upid === upid);
  const lost = [
    ...(p.upid === null ? [] : [p.upid]),
    ...p.with.split(',').filter(Boolean).map(Number),
  ].filter((x) => !has(x));
  if (lost.length) {
    const kept = p.with
      .split(',')
      .filter((x) => x && has(Number(x)))
      .join(',');
    return {
      text: `The trace has no heap profile of process ${lost.join(', ')} (upid) of this address`,
      change: {
        upid: p.upid !== null && has(p.upid) ? p.upid : null,
        with: kept,
        heap: '',
        at: '',
        max: false,
        from: '',
        zoom: '',
      },
    };
  }
  if (p.heap && !chosen(all).some((t) => t.heaps.some((h) => h.heap === p.heap)))
    return {
      text: `${nameOfTracks(chosen(all)[0])} has no heap ${safe(p.heap)}`,
      change: { heap: '', zoom: '' },
    };
  return null;
}

/** Names what was asked for as long as the substitute is looked at. */
export function Without() {
  const w = without.value;
  const p = place.value;
  const same =
    w &&
    w.trace === p.trace &&
    w.page === p.page &&
    (Object.keys(w.change) as (keyof Place)[]).every((k) => w.change[k] === p[k]);
  return same ? (
    <div class="banner note" role="status">
      {w.text}; {w.change.upid === undefined ? 'all its heaps are shown' : 'another one is shown'}.
    </div>
  ) : null;
}

/** A page that was saved as a file is a part of what a server shows. */
export const NotSaved = ({ label }: { label: string }) => (
  <div class="empty">
    <p>
      <b>{label}</b> is not in this file.
    </p>
    <p class="dim">
      <code>heapwise ui TRACE</code> shows it. <a href={href({ page: 'overview' })}>Overview</a>
    </p>
  </div>
);

/** What is on screen stays; the server is asked again by itself. */
export function Gone() {
  const [, tick] = useState(0);
  const gone = trouble.value === 'gone';
  useEffect(() => {
    const timer = gone ? setInterval(() => tick((n) => n + 1), 1000) : 0;
    return () => clearInterval(timer);
  }, [gone]);
  if (!gone) return null;
  const left = Math.max(0, Math.ceil((nextTry.value - Date.now()) / 1000));
  return (
    <div class="banner bad gone" role="alert">
      <span>
        <b>The server does not answer.</b> What is shown stays as it was.{' '}
        <span aria-hidden="true">Asking again {left > 1 ? `in ${left} s` : 'now'}.</span>
      </span>
      <button type="button" onClick={connect}>
        Ask now
      </button>
    </div>
  );
}

/** The address named a trace that is closed, or of another server: what is shown is not what was asked
 * for. */
export function Strayed({ trace }: { trace: Trace }) {
  const s = strayed.value;
  const there = s?.shown === trace.id && s.page === place.value.page;
  useEffect(() => {
    if (s && !there) strayed.value = null; // it was read: whoever goes on knows
  }, [there]);
  if (!there) return null;
  return (
    <div class="banner note closable" role="status">
      <span>
        Trace {s.wanted} of this address is not open here; this is {safe(base(trace.name))}.{' '}
        <a href={href({ page: 'home' })}>Open traces</a>
      </span>
      <CloseNote onClose={() => (strayed.value = null)} />
    </div>
  );
}

export function Unknown() {
  const page = place.value.page;
  if (!page || isPage(page)) return null;
  return (
    <div class="banner note" role="status">
      There is no page “{safe(page)}”; this is {currentTrace() ? 'the overview' : 'the beginning'}.
    </div>
  );
}
