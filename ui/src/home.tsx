// The first page: what to open, what is open, how to record.
import { useRef, useState } from 'preact/hooks';
import { openFile, openPath, refresh, status, type Trace } from './api';
import { base, bytes, count, safe } from './format';
import { fresh, go, href } from './state';
import { howFar } from './states';

const of = (n: number, one: string, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A trace in a few words. */
export const words = (t: Trace) =>
  t.state === 'loading' ? howFar(t) : t.state === 'failed' ? safe(t.error ?? 'cannot be read')
    : [of(t.n_processes ?? 0, 'process', 'processes'), (t.dumps || !t.heap_graphs) && of(t.dumps ?? 0, 'dump'), t.heap_graphs && of(t.heap_graphs, 'managed heap graph')].filter(Boolean).join(', ');

export function Home() {
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
            <li><a href={href({ ...fresh, page: 'overview', trace: t.id })}><b>{safe(base(t.name))}</b> <span class="dim">{bytes(t.bytes)} · {words(t)}</span></a></li>
          ))}</ul></section>
      )}
      <section><h2>Record one</h2>
        {status.value?.records && <p><a class="button" href={href({ page: 'record' })}>Choose a running process or a command</a> <span class="dim">or in a terminal:</span></p>}
        <pre tabIndex={0} aria-label="Commands that record">heapwise record -- ./server --port 7000{'\n'}heapwise record -c 5s -- ./server      <span class="dim"># a dump every five seconds</span></pre></section>
    </div>
  );
}
