// The page's frame: sidebar, top bar, and the page that the URL names.
import { effect, signal } from '@preact/signals';
import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { follow, functions, openFile, openPath, refresh, status, type Timeline, type Trace, type Tracks, trouble } from './api';
import { Explorer } from './explore';
import { amount, base, bytes, clock, count, duration, error, exact, percent, safe } from './format';
import { Busy, currentTrace, Failed, Figure, figureError, isTyping, Losses, SelectionBar, tracksOf, useAnswer, useDumpKeys, useTimeline } from './parts';
import { format, go, href, place } from './state';
import { FunctionsPage, TreePage } from './tables';
import { Chart, GUTTER, liveBand, liveLine, Ruler, TrackGroup, type View, wholeView } from './timeline';

const PAGES: { id: string; label: string; icon: string }[] = [
  { id: 'overview', label: 'Overview', icon: 'M3 3h7v7H3zM14 3h7v4h-7zM14 11h7v10h-7zM3 14h7v7H3z' },
  { id: 'timeline', label: 'Timeline', icon: 'M3 18l5-7 4 4 5-9 4 5v8H3z' },
  { id: 'flame', label: 'Flamegraph', icon: 'M3 3h18v4H3zM3 9h12v4H3zM3 15h7v4H3z' },
  { id: 'functions', label: 'Functions', icon: 'M3 4h18v3H3zM3 10h18v3H3zM3 16h18v3H3z' },
  { id: 'tree', label: 'Call tree', icon: 'M3 3h8v4H3zM11 10h10v4H11zM11 17h10v4H11zM6 8h2v11h2v2H6z' },
];

const Icon = ({ d }: { d: string }) => <svg viewBox="0 0 24 24" width="16" height="16" aria-hidden="true"><path d={d} fill="currentColor" /></svg>;

const help = signal(false);
const dark = matchMedia('(prefers-color-scheme: dark)');

effect(() => {
  const theme = place.value.theme;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  dispatchEvent(new Event('themechange'));
});

function toggleTheme(): void {
  const now = place.peek().theme || (dark.matches ? 'dark' : 'light');
  go({ theme: now === 'dark' ? 'light' : 'dark' }, true);
}

// ---- home ----

function Home() {
  const [path, setPath] = useState('');
  const [problem, setProblem] = useState('');
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const traces = status.value?.traces ?? [];
  const open = (p: Promise<number>) => {
    setProblem('');
    p.then(
      async (id) => {
        await refresh();
        go({ ...fresh, page: 'overview', trace: id });
      },
      (e: Error) => setProblem(e.message),
    );
  };
  return (
    <div class="home">
      <h1>Where is the memory?</h1>
      <div class={`drop ${over ? 'over' : ''}`} onDragOver={(e) => { e.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
        onDrop={(e) => {
          e.preventDefault();
          setOver(false);
          for (const f of e.dataTransfer?.files ?? []) open(openFile(f));
        }}>
        <p><b>Drop a trace here</b>, or a pprof or heaptrack file</p>
        <p><button type="button" class="primary" onClick={() => input.current!.click()}>Choose a file</button>
          <input ref={input} type="file" hidden aria-label="Trace file" onChange={(e) => { for (const f of e.currentTarget.files ?? []) open(openFile(f)); }} /></p>
        <form class="bar" onSubmit={(e) => { e.preventDefault(); if (path.trim()) open(openPath(path.trim())); }}>
          <input type="text" aria-label="Path on this machine" placeholder="or a path on this machine" value={path} onInput={(e) => setPath(e.currentTarget.value)} />
          <button type="submit" disabled={!path.trim()}>Open</button>
        </form>
        {problem && <p class="bad" role="alert">{safe(problem)}</p>}
      </div>
      {traces.length > 0 && (
        <section><h2>Open traces</h2>
          <ul class="list">{traces.map((t) => (
            <li><a href={format({ ...place.value, ...fresh, page: 'overview', trace: t.id })}><b>{safe(base(t.name))}</b> <span class="dim">{bytes(t.bytes)} · {words(t)}</span></a></li>
          ))}</ul></section>
      )}
      <section><h2>Record one</h2>
        <pre tabIndex={0} aria-label="Commands that record">heapwise record -- ./server --port 7000{'\n'}heapwise record -c 5s -- ./server      <span class="dim"># a dump every five seconds</span></pre></section>
    </div>
  );
}

const fresh = { upid: null, heap: '', at: '', max: false, from: '', filters: [] as string[], zoom: '', search: '', fn: '' };
const words = (t: Trace) =>
  t.state === 'loading' ? `being read, ${t.seconds.toFixed(0)} s` : t.state === 'failed' ? safe(t.error ?? 'cannot be read')
    : `${count(t.processes?.length ?? 0)} ${t.processes?.length === 1 ? 'process' : 'processes'}, ${count(t.dumps ?? 0)} dumps`;

// ---- overview ----

function rssAt(t: Tracks, ts: number): number | null {
  const rss = t.counters['mem.rss'];
  if (!rss?.length) return null;
  return rss.reduce((a, b) => (Math.abs(b[0] - ts) < Math.abs(a[0] - ts) ? b : a))[1];
}

function Overview({ tracks, all, trace }: { tracks: Tracks; all: Timeline; trace: Trace }) {
  const moments = tracks.moments;
  const last = moments[moments.length - 1] ?? tracks.peak!;
  const shown = tracks.cleaned_up && tracks.peak ? tracks.peak : last;
  const atPeak = shown === tracks.peak && tracks.cleaned_up;
  // Several dumps may be made of nearly one moment (at an exit): the one before is clearly before.
  const apart = (last.ts - tracks.start) / 100;
  const before = moments.findLast((m) => last.ts - m.ts > apart);
  const where = { upid: tracks.upid, at: atPeak ? 'peak' : String(last.ts), max: !atPeak && last.max, from: '', metric: 'space' as const };
  const query = new URLSearchParams({ upid: String(tracks.upid), at: where.at, ...(where.max ? { max: '1' } : {}), metric: 'space', sort: 'self', limit: '12' }).toString();
  const top = useAnswer(`${trace.id}?${query}`, () => functions(trace.id, query));
  const rss = rssAt(tracks, shown.ts);
  const view = wholeView({ ...all, processes: [tracks] });
  return (
    <div class="overview">
      {all.processes.length > 1 && <SelectionBar tracks={tracks} all={all} />}
      <h1>{safe(base(tracks.name)) || 'unknown'} <span class="dim">pid {tracks.pid} · {moments.length} {moments.length === 1 ? 'dump' : 'dumps'} over {duration(last.ts - tracks.start)} · one sample every {bytes(tracks.interval)}{tracks.interval === 1 ? ' (exact)' : ''}</span></h1>
      <div class="figures">
        <Figure label={atPeak ? 'Live at the peak' : 'Live at the end'} value={bytes(shown.space)} note={`${figureError(shown)} · ${exact(shown.space)} B`} to={href({ page: 'flame', ...where, zoom: '' })} />
        <Figure label="Allocations live" value={count(shown.objects)} note={shown.objects > 0 ? `${bytes(shown.space / shown.objects)} each` : ''} to={href({ page: 'flame', ...where, metric: 'objects', zoom: '' })} />
        <Figure label="Allocated in all" value={bytes(last.alloc_space)} note={`${count(last.alloc_objects)} allocations`} to={href({ page: 'flame', ...where, at: String(last.ts), max: last.max, metric: 'alloc_space', zoom: '' })} />
        {tracks.peak && <Figure label="Peak" value={bytes(tracks.peak.space)} note={`at ${clock(tracks.peak.ts - tracks.start)}`} to={href({ page: 'flame', ...where, at: 'peak', max: false, zoom: '' })} />}
        {before && <Figure label="Since the dump before" value={`${last.space >= before.space ? '+' : ''}${bytes(last.space - before.space)}`} note={`in ${duration(last.ts - before.ts)}`} to={href({ page: 'flame', ...where, at: String(last.ts), max: last.max, from: String(before.ts), zoom: '' })} />}
        {rss !== null && <Figure label="Resident" value={bytes(rss)} note={shown.space <= rss ? `${percent(shown.space, rss)} of it explained` : 'not all that lives was touched'} />}
      </div>
      {moments.length > 1 && <a class="card" href={href({ page: 'timeline' })} aria-label="Live heap over time: open the timeline"><Chart lines={[liveLine(tracks)]} band={liveBand(tracks)} view={view} height={120} label="Live heap over time" /></a>}
      <h2>Who holds it</h2>
      {top.error && <Failed text={top.error} />}
      {top.value && (
        <table class="top"><thead><tr><th scope="col" class="num">Live</th><th scope="col">Share</th><th scope="col" class="num">Count</th><th scope="col">Function that asked</th></tr></thead>
          <tbody>{top.value.data.filter((r) => r[2] > 0).map((r) => (
            <tr><td class="num">{amount(r[2], 'space')}</td><td><span class="share"><i style={{ width: `${(100 * r[2]) / Math.max(1, top.value!.total)}%` }} /><b>{percent(r[2], top.value!.total)}</b></span></td><td class="num">{count(r[4])}</td>
              <td><a href={href({ page: 'functions', fn: r[0], ...where })}>{safe(r[0])}</a> <span class="dim">{safe(base(r[1]))}{r[2] === r[3] && error(r[5], r[3]) ? ` · ${error(r[5], r[3])}` : ''}</span></td></tr>
          ))}</tbody></table>
      )}
    </div>
  );
}

// ---- timeline ----

function TimelinePage({ tracks, all }: { tracks: Tracks; all: Timeline }) {
  const whole = wholeView(all);
  const [view, setView] = useState<View>(whole);
  const zoom = (factor: number, middle = (view.from + view.to) / 2) => {
    const from = middle - (middle - view.from) * factor;
    const to = middle + (view.to - middle) * factor;
    setView({ from: Math.max(whole.from, from), to: Math.min(whole.to, Math.max(to, from + 1e5)) });
  };
  const pan = (share: number) => {
    const by = Math.max(whole.from - view.from, Math.min(whole.to - view.to, (view.to - view.from) * share));
    setView({ from: view.from + by, to: view.to + by });
  };
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || isTyping(e)) return;
      const p = place.peek();
      const acts: Record<string, () => void> = {
        w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.2), d: () => pan(0.2), 0: () => setView(whole),
        f: () => p.from && p.at && setView({ from: Number(p.from), to: Number(p.at) }),
      };
      acts[e.key.toLowerCase()]?.();
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, [view]);
  return (
    <div class="column">
      <div onWheel={(e) => {
        if (!e.ctrlKey) return;
        e.preventDefault();
        const r = e.currentTarget.getBoundingClientRect();
        zoom(e.deltaY > 0 ? 1.2 : 1 / 1.2, view.from + (view.to - view.from) * ((e.clientX - r.left - GUTTER) / (r.width - GUTTER)));
      }}>
        <div class="bar"><span class="dim hint">Click a diamond for what was live then, a slice for what came in it; drag over a track for an interval.</span>
          <button type="button" title="Zoom in (W)" aria-label="Zoom in" onClick={() => zoom(0.7)}>+</button>
          <button type="button" title="Zoom out (S)" aria-label="Zoom out" onClick={() => zoom(1 / 0.7)}>−</button>
          <button type="button" title="Whole trace (0)" onClick={() => setView(whole)}>All</button></div>
        <Ruler view={view} zero={all.processes[0]?.start ?? all.first_ns} />
        {all.processes.map((t) => <TrackGroup tracks={t} view={view} onView={setView} />)}
      </div>
      <SelectionBar tracks={tracks} all={all} />
      <Explorer tracks={tracks} />
    </div>
  );
}

// ---- frame ----

function Loaded({ trace }: { trace: Trace }) {
  const answer = useTimeline();
  const tracks = tracksOf(answer.value);
  const page = place.value.page;
  useDumpKeys(tracks);
  if (answer.error) return <Failed text={answer.error} />;
  if (!answer.value) return <Busy what="Reading dumps" />;
  if (!tracks)
    return <div class="empty"><p>{safe(base(trace.name))} holds no native heap profile.</p><p class="dim">{trace.heap_graphs ? <>It has {trace.heap_graphs} managed heap graphs: <code>heapwise graph</code> shows them.</> : <><code>heapwise stats</code> tells what is in it.</>}</p></div>;
  const all = answer.value;
  switch (page) {
    case 'timeline': return <TimelinePage tracks={tracks} all={all} key={trace.id} />;
    case 'flame': return <div class="column"><SelectionBar tracks={tracks} all={all} /><Explorer tracks={tracks} /></div>;
    case 'functions': return <><SelectionBar tracks={tracks} all={all} /><FunctionsPage tracks={tracks} /></>;
    case 'tree': return <><SelectionBar tracks={tracks} all={all} /><TreePage /></>;
    default: return <Overview tracks={tracks} all={all} trace={trace} />;
  }
}

function Page() {
  const trace = currentTrace();
  if (trouble.value === 'token')
    return <div class="empty" role="alert"><p><b>This page needs its address.</b></p><p>Open the one that <code>heapwise ui</code> printed: it ends in <code>#token=…</code> and is known only to whoever started it.</p></div>;
  if (!status.value) return <Busy what="Asking the server" />;
  if (place.value.page === 'home' || !trace) return <Home />;
  if (trace.state === 'loading') return <Busy what={`Reading ${safe(base(trace.name))} (${bytes(trace.bytes)})`} />;
  if (trace.state === 'failed') return <Failed text={trace.error ?? 'The trace cannot be read.'} />;
  const title = PAGES.find((x) => x.id === place.value.page && x.id !== 'overview')?.label;
  return <>{title && <h1 class="sr">{title}</h1>}<Losses trace={trace} /><Loaded trace={trace} key={trace.id} /></>;
}

const KEYS: [string, string][] = [
  ['?', 'this page'], ['1 … 4', 'metric: live size, live count, total size, total count'], ['[  ]', 'previous, next dump'], ['I', 'bottom-up and back'], ['/', 'search'],
  ['↑ ↓ ← →', 'in a graph: caller, callee, siblings'], ['Enter · Esc', 'zoom in · out'], ['n · N', 'next, previous match'], ['Space', 'menu of a frame'],
  ['K · H · P', 'keep stacks with it · merge it into its caller · pivot'], ['Z · Shift+Z', 'undo, redo filters'], ['E', 'export'], ['W S A D · 0 · F', 'timeline: zoom, pan · all · to the selection'],
];

function Help() {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (help.value) ref.current?.showModal();
    else ref.current?.close();
  }, [help.value]);
  return (
    <dialog ref={ref} aria-label="Help" onClose={() => (help.value = false)}>
      <h2>Keys</h2>
      <dl class="keys">{KEYS.map(([k, what]) => <><dt><kbd>{k}</kbd></dt><dd>{what}</dd></>)}</dl>
      <h2>Words</h2>
      <dl class="keys"><dt>live</dt><dd>allocated and not yet freed at the dump</dd><dt>total</dt><dd>in figures of allocations: freed ones included; in tables: a function with all it calls</dd>
        <dt>self</dt><dd>what a function asked for itself</dd><dt>± 2 %</dt><dd>with 95 % probability the true figure is within; without it the figure is exact</dd></dl>
      <form method="dialog"><button class="primary">Close</button></form>
    </dialog>
  );
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
    document.title = `${trace ? `${safe(base(trace.name))} · ` : ''}${PAGES.find((x) => x.id === p.page)?.label ?? 'heapwise'}`;
  }, [trace?.name, p.page]);
  const traces = status.value?.traces ?? [];
  const usable = trace?.state === 'ready' && (trace.processes?.length ?? 0) > 0;
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to the page</a>
      <nav class="side" aria-label="Pages">
        <a class="brand" href={href({ page: 'home' })} aria-label="heapwise: home"><svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true"><rect y="1" width="16" height="4" rx="1" fill="#d9702b" /><rect y="6" width="11" height="4" rx="1" fill="#e8973f" /><rect y="11" width="6" height="4" rx="1" fill="#f2bb62" /></svg><span>heapwise</span></a>
        {usable && PAGES.map((x) => <a href={href({ page: x.id })} aria-current={p.page === x.id ? 'page' : undefined} title={x.label} aria-label={x.label}><Icon d={x.icon} /><span>{x.label}</span></a>)}
      </nav>
      <header>
        {traces.length > 1 && trace
          ? <select aria-label="Trace" value={String(trace.id)} onChange={(e) => go({ ...fresh, trace: Number(e.currentTarget.value) })}>{traces.map((t) => <option value={String(t.id)}>{safe(base(t.name))}</option>)}</select>
          : <b>{trace && p.page !== 'home' ? safe(base(trace.name)) : 'heapwise'}</b>}
        {trace && p.page !== 'home' && <span class="dim about">{bytes(trace.bytes)} · {words(trace)}</span>}
        <span class="grow" />
        {trouble.value === 'gone' && <span class="bad" role="alert">the server does not answer</span>}
        <button type="button" onClick={toggleTheme}>{(p.theme || (dark.matches ? 'dark' : 'light')) === 'dark' ? 'Light' : 'Dark'}</button>
        <button type="button" aria-label="Help" title="Help (?)" onClick={() => (help.value = true)}>?</button>
      </header>
      <main id="main" tabIndex={-1}><Page /></main>
      <Help />
    </>
  );
}

follow();
render(<App />, document.getElementById('app')!);
