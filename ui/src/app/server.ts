// The connection to the server: requests, availability, events. Every request carries the
// token; nothing else leaves the page.
import { effect, signal, untracked } from '@preact/signals';
import { token } from './token';
import type { Recording, Status, Trace } from './types';

/** The traces that are open, and what the server can do. */
export const status = signal<Status | null>(null);
/** What this server records or has recorded, oldest first. */
export const recordings = signal<Recording[]>([]);
/** '' = fine; otherwise why the server cannot be asked: "token", "gone". */
export const trouble = signal('');

export class ApiError extends Error {
  constructor(
    readonly code: number,
    text: string,
  ) {
    super(text);
  }
}

const STATUS = '/api/v1/status';

/** Answers in place of a server: a page saved as a file contains its responses. */
let own: ((path: string, init: RequestInit) => Promise<Response>) | null = null;
export const isSaved = () => own !== null;
export function answerBy(answers: (path: string, init: RequestInit) => Promise<Response>): Promise<void> {
  own = answers;
  return refresh();
}

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  let r: Response;
  try {
    r = own
      ? await own(path, init)
      : await fetch(path, { ...init, headers: { Authorization: `Bearer ${token.peek()}` } });
  } catch (e) {
    if ((e as Error).name !== 'AbortError') lost();
    throw e;
  }
  // An order may be forbidden, too: whether it is the token says the question that is always allowed.
  if (r.status === 403 && path === STATUS) trouble.value = 'token';
  else if (r.status === 403) refresh().catch(() => {}); // `trouble` tells
  if (!r.ok) throw new ApiError(r.status, (await r.text()).trim());
  return r;
}

/** Answers and events overtake each other: an older one never replaces a newer one of the same connection. */
function take(s: Status): void {
  if (s.changes < newest) return;
  newest = s.changes;
  status.value = s;
}
let newest = 0;

export async function refresh(): Promise<void> {
  take(await (await ask(STATUS)).json());
}

/** Counts reconnects: failed requests are then repeated. */
export const returns = signal(0);
/** Time of the next attempt; 0 = connected. */
export const nextTry = signal(0);

let wait = 0;
let timer = 0;
let events: EventSource | null = null;

function alive(): void {
  if (wait) returns.value++;
  wait = 0;
  nextTry.value = 0;
  if (trouble.peek() === 'gone') trouble.value = '';
}

/** Tries at once, then less and less often. */
export function connect(): void {
  clearTimeout(timer);
  timer = 0;
  events?.close();
  newest = 0; // another server may be there, which counts from the beginning
  refresh().then(alive, () => {}); // `trouble` tells
  const mine = (events = new EventSource(`/api/v1/events?token=${token.peek()}`));
  mine.addEventListener('status', (e) => {
    alive();
    take(JSON.parse((e as MessageEvent<string>).data));
  });
  mine.addEventListener('loading', (e) => {
    alive();
    const told = JSON.parse((e as MessageEvent<string>).data) as Partial<Trace>[];
    const old = status.peek();
    if (old)
      status.value = {
        ...old,
        traces: old.traces.map((t) =>
          t.state === 'loading' ? { ...t, ...told.find((n) => n.id === t.id) } : t,
        ),
      };
  });
  mine.addEventListener('recordings', (e) => {
    alive();
    recordings.value = JSON.parse((e as MessageEvent<string>).data);
  });
  mine.onerror = () => mine === events && lost();
}

/** Nothing comes any more: asks again after 1, 2, 4 … 30 seconds. */
function lost(): void {
  if (timer || trouble.peek() === 'token') return;
  events?.close();
  trouble.value = 'gone';
  wait = Math.min(30, wait ? wait * 2 : 1);
  nextTry.value = Date.now() + 1000 * wait;
  timer = setTimeout(connect, 1000 * wait);
}

/** Connects with the current token, and again with every new one. */
export function followServer(): void {
  effect(() => {
    if (!token.value) {
      trouble.value = 'token';
      return;
    }
    untracked(() => {
      if (trouble.value === 'token') trouble.value = '';
      wait = 1; // what a wrong token could not ask is asked again
      connect();
    });
  });
}
