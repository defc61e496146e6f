// The page's frame: sidebar, top bar, and the page that the URL names.
import { effect, signal } from '@preact/signals';
import { type ComponentType, render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { closeTrace, connect, loadKept, nextTry, follow, status, strayed, type Timeline, type Trace, trouble } from './app/api';
import { base, bytes, safe, takeUnits } from './app/format';
import { Help, help } from './frame/help';
import { keepRecent, words } from './pages/home';
import { hasTimes, isPage, PAGES, pageOf, type PageRow, whyMissing } from './frame/pages';
import { Busy, currentTrace, Failed, isTyping, Losses, nameOfTracks, tracksOf, useDumpKeys, useTimeline } from './parts/parts';
import { Omnibox, Share, UnitsToggle } from './frame/omnibox';
import { fresh, go, href, type Place, place } from './app/state';
import { Reading, Unnamed, Unreadable } from './frame/states';
import { remembered } from './app/store';
import { chosen } from './app/together';

const Icon = ({ d }: { d: string }) => <svg viewBox="0 0 24 24" width="16" height="16" aria-hidden="true"><path d={d} fill="currentColor" /></svg>;

const dark = matchMedia('(prefers-color-scheme: dark)');

const applyTheme = () => effect(() => {
  const theme = place.value.theme || remembered<string[]>('theme', [])[0];
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  dispatchEvent(new Event('themechange'));
});

function toggleTheme(): void {
  const now = place.peek().theme || (dark.matches ? 'dark' : 'light');
  go({ theme: now === 'dark' ? 'light' : 'dark' }, true);
}

// ---- what the URL names ----

/** What the address wanted and the trace does not have; what is shown in its place stands in the address then. */
const without = signal<{ trace: number; page: string; text: string; change: Partial<Place> } | null>(null);

function notHere(all: Timeline): { text: string; change: Partial<Place> } | null {
  const p = place.value;
  const has = (upid: number) => all.processes.some((x) => x.upid === upid);
  const lost = [...(p.upid === null ? [] : [p.upid]), ...p.with.split(',').filter(Boolean).map(Number)].filter((x) => !has(x));
  if (lost.length) {
    const kept = p.with.split(',').filter((x) => x && has(Number(x))).join(',');
    return { text: `The trace has no heap profile of process ${lost.join(', ')} (upid) of this address`, change: { upid: p.upid !== null && has(p.upid) ? p.upid : null, with: kept, heap: '', at: '', max: false, from: '', zoom: '' } };
  }
  if (p.heap && !chosen(all).some((t) => t.heaps.some((h) => h.heap === p.heap)))
    return { text: `${nameOfTracks(chosen(all)[0])} has no heap ${safe(p.heap)}`, change: { heap: '', zoom: '' } };
  return null;
}

/** Names what was asked for as long as the substitute is looked at. */
function Without() {
  const w = without.value;
  const p = place.value;
  const same = w && w.trace === p.trace && w.page === p.page && (Object.keys(w.change) as (keyof Place)[]).every((k) => w.change[k] === p[k]);
  return same ? <div class="banner note" role="status">{w.text}; {w.change.upid === undefined ? 'all its heaps are shown' : 'another one is shown'}.</div> : null;
}

function NeedsProfile({ row, trace }: { row: PageRow & { needs: 'profile' }; trace: Trace }) {
  const answer = useTimeline();
  const tracks = tracksOf(answer.value, row.sum);
  useDumpKeys(tracks);
  const lost = answer.value && tracks ? notHere(answer.value) : null;
  useEffect(() => {
    if (!lost) return;
    without.value = { ...lost, trace: place.peek().trace, page: place.peek().page };
    go(lost.change, true);
  });
  if (lost) return <Busy what="Reading dumps" />;
  if (answer.error) return <Failed text={answer.error} />;
  if (!answer.value) return <Busy what="Reading dumps" />;
  if (!tracks && row.other && hasTimes(trace)) return <row.other trace={trace} />;
  if (!tracks)
    return <div class="empty"><p>{safe(base(trace.name))} holds no native heap profile.</p><p class="dim">{trace.heap_graphs ? <>It has {trace.heap_graphs === 1 ? 'a managed heap graph' : `${trace.heap_graphs} managed heap graphs`}: <a href={href({ page: 'heap' })}>Managed heap</a></> : <><code>heapwise stats</code> tells what is in it.</>}</p></div>;
  return <row.view tracks={tracks} all={answer.value} trace={trace} key={row.id} />;
}

/** What is on screen stays; the server is asked again by itself. */
function Gone() {
  const [, tick] = useState(0);
  const gone = trouble.value === 'gone';
  useEffect(() => {
    const timer = gone ? setInterval(() => tick((n) => n + 1), 1000) : 0;
    return () => clearInterval(timer);
  }, [gone]);
  if (!gone) return null;
  const left = Math.max(0, Math.ceil((nextTry.value - Date.now()) / 1000));
  return (
    <div class="banner bad gone" role="alert"><span><b>The server does not answer.</b> What is shown stays as it was. <span aria-hidden="true">Asking again {left > 1 ? `in ${left} s` : 'now'}.</span></span>
      <button type="button" onClick={connect}>Ask now</button></div>
  );
}

/** The address named a trace that is closed, or of another server: what is shown is not what was asked for. */
function Strayed({ trace }: { trace: Trace }) {
  const s = strayed.value;
  if (s?.shown !== trace.id) return null;
  return <div class="banner note" role="status">Trace {s.wanted} of this address is not open here; this is {safe(base(trace.name))}. <a href={href({ page: 'home' })}>Open traces</a></div>;
}

function Unknown() {
  const page = place.value.page;
  if (!page || isPage(page)) return null;
  return <div class="banner note" role="status">There is no page “{safe(page)}”; this is {currentTrace() ? 'the overview' : 'the beginning'}.</div>;
}

function Page() {
  const trace = currentTrace();
  const row = pageOf(place.value.page);
  if (trouble.value === 'token')
    return <div class="empty" role="alert"><p><b>This page needs its address.</b></p><p>Open the one that <code>heapwise ui</code> printed: it ends in <code>#token=…</code> and is known only to whoever started it.</p></div>;
  if (!status.value) return <Busy what="Asking the server" />;
  const title = row.id !== 'overview' && row.id !== 'home' && <h1 class="sr">{row.label}</h1>;
  if (row.needs === 'nothing') return <>{title}<row.view /></>;
  if (!trace) {
    const Home = PAGES[0].view as ComponentType;
    return <Home />;
  }
  if (trace.state === 'loading') return <Reading trace={trace} />;
  if (trace.state === 'failed') return <Unreadable trace={trace} />;
  return <>{title}<Strayed trace={trace} /><Without /><Losses trace={trace} /><Unnamed trace={trace} />{row.needs === 'trace' ? <row.view trace={trace} key={`${row.id} ${trace.id}`} /> : <NeedsProfile row={row} trace={trace} key={trace.id} />}</>;
}

function App() {
  const p = place.value;
  const trace = currentTrace();
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key === '?' && !isTyping(e)) help.value = !help.value;
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
  useEffect(() => {
    document.title = `${trace ? `${safe(base(trace.name))} · ` : ''}${p.page === 'home' || !trace ? 'heapwise' : pageOf(p.page).label}`;
  }, [trace?.name, p.page]);
  const traces = status.value?.traces ?? [];
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to the page</a>
      <nav class="side" aria-label="Pages">
        <a class="brand" href={href({ page: 'home' })} aria-label="heapwise: home"><svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true"><rect y="1" width="16" height="4" rx="1" fill="#d9702b" /><rect y="6" width="11" height="4" rx="1" fill="#e8973f" /><rect y="11" width="6" height="4" rx="1" fill="#f2bb62" /></svg><span>heapwise</span></a>
        {PAGES.filter((x) => !whyMissing(x, trace)).map((x) => <a href={href({ page: x.id })} aria-current={p.page === x.id ? 'page' : undefined} title={x.label} aria-label={x.label}><Icon d={x.icon} /><span>{x.label}</span></a>)}
      </nav>
      <header>
        {traces.length > 1 && trace
          ? <select aria-label="Trace" value={String(trace.id)} onChange={(e) => go({ ...fresh, trace: Number(e.currentTarget.value) })}>{traces.map((t) => <option value={String(t.id)}>{safe(base(t.name))}</option>)}</select>
          : <b>{trace && p.page !== 'home' ? safe(base(trace.name)) : 'heapwise'}</b>}
        {trace && p.page !== 'home' && <button type="button" class="close" aria-label={`Close ${safe(base(trace.name))}`} title="Close this trace; the file stays" onClick={() => void closeTrace(trace.id).then(() => { go({ ...fresh, page: 'home', trace: 0 }); strayed.value = null; })}>×</button>}
        {trace && p.page !== 'home' && <span class="dim about">{bytes(trace.bytes)} · {words(trace)}</span>}
        <span class="grow" />
        <Omnibox trace={trace} />
        <UnitsToggle />
        <Share />
        <button type="button" onClick={toggleTheme}>{(p.theme || (dark.matches ? 'dark' : 'light')) === 'dark' ? 'Light' : 'Dark'}</button>
        <button type="button" aria-label="Help" title="Help (?)" onClick={() => (help.value = true)}>?</button>
      </header>
      <main id="main" tabIndex={-1}><Gone /><Unknown /><Page /></main>
      <Help />
    </>
  );
}

await loadKept();
takeUnits();
applyTheme();
follow();
keepRecent();
const app = document.getElementById('app')!;
app.replaceChildren(); // what stood there until now
render(<App />, app);
