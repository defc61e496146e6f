// The first page: what to open, what is open, how to record.
import { useRef, useState } from 'preact/hooks';
import { closeTrace, openFile, openPath, openSample } from '../app/files';
import { base, bytes, safe } from '../app/format';
import { type Recent, recent, words } from '../app/recent';
import { refresh, status } from '../app/server';
import { go, href } from '../app/state';
import { remember } from '../app/store';
import type { Trace } from '../app/types';
import { fresh } from '../app/url/place';

/** When, in few words. */
function ago(at: number): string {
  const days = Math.floor(Date.now() / 864e5) - Math.floor(at / 864e5);
  const time = new Date(at);
  return days <= 0
    ? `today ${time.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' })}`
    : days === 1
      ? 'yesterday'
      : time.toLocaleDateString();
}

/** Opens a trace and shows it when it is there. */
function useOpening() {
  const [problem, setProblem] = useState('');
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
  return { problem, open };
}

type Opener = (p: Promise<number>) => void;

function PathForm({ open }: { open: Opener }) {
  const [path, setPath] = useState('');
  return (
    <form
      class="bar"
      onSubmit={(e) => {
        e.preventDefault();
        if (path.trim()) open(openPath(path.trim()));
      }}>
      <input
        type="text"
        aria-label="Path on this machine"
        placeholder="or a path on this machine"
        value={path}
        onInput={(e) => setPath(e.currentTarget.value)}
      />
      <button type="submit" disabled={!path.trim()}>
        Open
      </button>
    </form>
  );
}

function Drop({ problem, open }: { problem: string; open: Opener }) {
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const openAll = (files: FileList | null | undefined) => {
    for (const f of files ?? []) open(openFile(f));
  };
  const onDrop = (e: DragEvent) => {
    e.preventDefault();
    setOver(false);
    openAll(e.dataTransfer?.files);
  };
  return (
    <div
      class={`drop ${over ? 'over' : ''}`}
      onDragOver={(e) => {
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}>
      <p>
        <b>Drop a trace here</b>, or a pprof or heaptrack file
      </p>
      <p>
        <button type="button" class="primary" onClick={() => input.current!.click()}>
          Choose a file
        </button>
        <input
          ref={input}
          type="file"
          hidden
          aria-label="Trace file"
          onChange={(e) => openAll(e.currentTarget.files)}
        />
      </p>
      <PathForm open={open} />
      {problem && (
        <p class="bad" role="alert">
          {safe(problem)}
        </p>
      )}
    </div>
  );
}

function OpenTraces({ traces }: { traces: Trace[] }) {
  return (
    <section>
      <h2>Open traces</h2>
      <ul class="list">
        {traces.map((t) => (
          <li class="with-close">
            <a href={href({ ...fresh, page: 'overview', trace: t.id })} title={safe(t.path ?? t.name)}>
              <b>{safe(base(t.name))}</b>{' '}
              <span class="dim">
                {bytes(t.bytes)} · {words(t)}
              </span>
            </a>
            <button
              type="button"
              aria-label={`Close ${safe(base(t.name))}`}
              title="Close; the file stays"
              onClick={() => void closeTrace(t.id)}>
              ×
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Closed({ closed, open }: { closed: Recent[]; open: Opener }) {
  const forget = () => {
    recent.value = [];
    remember('recent', []);
  };
  return (
    <section>
      <h2>
        Recent{' '}
        <button type="button" class="small" onClick={forget}>
          Forget them
        </button>
      </h2>
      <ul class="list" aria-label="Recent">
        {closed.map((r) => (
          <li>
            <button type="button" class="item" title={safe(r.path)} onClick={() => open(openPath(r.path))}>
              <b>{safe(base(r.path))}</b>{' '}
              <span class="dim">
                {bytes(Number(r.bytes) || 0)} · {safe(String(r.words))} · {ago(Number(r.at) || 0)} ·{' '}
                {safe(r.path.slice(0, r.path.lastIndexOf('/') + 1))}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Samples({ open }: { open: Opener }) {
  return (
    <section>
      <h2>Open a sample</h2>
      <ul class="list" aria-label="Samples">
        {status.value!.samples.map((s) => (
          <li>
            <button type="button" class="item" onClick={() => open(openSample(s.name))}>
              <b>{s.name}</b> <span class="dim">{s.about}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Home() {
  const { problem, open } = useOpening();
  const traces = status.value?.traces ?? [];
  const closed = recent.value.filter((r) => !traces.some((t) => t.path === r.path));
  return (
    <div class="home">
      <h1>Where is the memory?</h1>
      <Drop problem={problem} open={open} />
      {traces.length > 0 && <OpenTraces traces={traces} />}
      {closed.length > 0 && <Closed closed={closed} open={open} />}
      {status.value && <Samples open={open} />}
      <section>
        <h2>Record one</h2>
        {status.value?.records && (
          <p>
            <a class="button" href={href({ page: 'record' })}>
              Choose a running process or a command
            </a>{' '}
            <span class="dim">or in a terminal:</span>
          </p>
        )}
        <pre tabIndex={0} aria-label="Commands that record">
          {'heapwise record -- ./server --port 7000\nheapwise record -c 5s -- ./server      '}
          <span class="dim"># a dump every five seconds</span>
        </pre>
      </section>
    </div>
  );
}
