// What the server makes of the form: checks, the command, the configuration; and the start.
import { useEffect, useState } from 'preact/hooks';
import { safe } from '../app/format';
import { usePolled } from '../app/polled';
import { recordings } from '../app/server';
import { Choice } from '../parts/choice';
import { Failed } from '../parts/words';
import { awaited, form, order, set, wordsOf } from './form';
import { fieldOf, Options } from './options';
import { type Process, Processes } from './processes';

interface Check {
  state: 'ok' | 'warn' | 'bad';
  what: string;
  text: string;
  code: string | null;
  remedy: string | null;
}
interface Plan {
  commands: boolean;
  error: string | null;
  checks: Check[];
  ready: boolean;
  command: string;
  config: string;
}

const MARK = { ok: '✓', warn: '!', bad: '✗' };
const SAID = { ok: 'fine', warn: 'warning', bad: 'forbids the start' };

function Preview({ title, text, file }: { title: string; text: string; file?: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <section class="preview" aria-label={title}>
      <header>
        {title}
        <span class="grow" />
        {file && (
          <button
            type="button"
            disabled={!text}
            onClick={() => {
              const a = document.createElement('a');
              a.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
              a.download = file;
              a.click();
            }}>
            Download
          </button>
        )}
        {navigator.clipboard && (
          <button
            type="button"
            disabled={!text}
            onClick={() =>
              navigator.clipboard.writeText(text).then(() => {
                setCopied(true);
                setTimeout(() => setCopied(false), 1500);
              })
            }>
            {copied ? 'Copied' : 'Copy'}
          </button>
        )}
      </header>
      <pre tabIndex={0} aria-label={title}>
        {safe(text).replace(/\\x0a/g, '\n') || '–'}
      </pre>
    </section>
  );
}

function usePlan(words: string[]): { plan: Plan | null; busy: boolean; problem: string } {
  const key = JSON.stringify(words);
  const [state, setState] = useState<{ key: string; plan: Plan | null; problem: string }>({
    key: '',
    plan: null,
    problem: '',
  });
  useEffect(() => {
    let current = true;
    const timer = setTimeout(() => {
      order('plan', { words })
        .then((r) => r.json())
        .then(
          (plan: Plan) => current && setState({ key, plan, problem: '' }),
          (e: Error) => current && setState({ key, plan: null, problem: e.message }),
        );
    }, 200);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [key]);
  return { plan: state.plan, busy: state.key !== key, problem: state.problem };
}

type Planned = ReturnType<typeof usePlan>;

/** Starts what the form says; its trace is opened when it is there. */
function useStart(words: string[]) {
  const [failed, setFailed] = useState('');
  const [starting, setStarting] = useState(false);
  const start = () => {
    setFailed('');
    setStarting(true);
    order('start', { words })
      .then((r) => r.json())
      .then(
        ({ id }: { id: number }) => {
          awaited.value = id;
          set({ pids: [] });
          setStarting(false);
          document.getElementById('main')?.scrollTo({ top: 0 });
        },
        (e: Error) => {
          setStarting(false);
          setFailed(e.message);
        },
      );
  };
  return { failed, starting, start };
}

function Checks({ none, plan }: { none: boolean; plan: Plan | null }) {
  return (
    <ul class="checks" aria-label="Checks" aria-live="polite">
      {none ? (
        <li class="warn">
          <i aria-hidden="true">→</i>
          <span>{form.value.kind === 'attach' ? 'Choose a process.' : 'Say which command.'}</span>
        </li>
      ) : (
        plan?.checks.map((c) => (
          <li class={c.state}>
            <i role="img" aria-label={SAID[c.state]}>
              {MARK[c.state]}
            </i>
            <span>
              <b>{safe(c.what)}</b> {safe(c.text)}
              {c.remedy && <span class="dim">{c.remedy}</span>}
            </span>
          </li>
        ))
      )}
    </ul>
  );
}

function Aside({ words, planned: { plan, busy, problem } }: { words: string[]; planned: Planned }) {
  const f = form.value;
  const { failed, starting, start } = useStart(words);
  const none = f.kind === 'attach' ? !f.pids.length && !f.names.trim() : !f.command.trim();
  const refused = plan?.error ?? '';
  return (
    <div class="side-by">
      {problem && <Failed text={problem} />}
      {!none && refused && !fieldOf(refused) && <Failed text={refused} />}
      <Checks none={none} plan={plan} />
      <button
        type="button"
        class="primary go"
        disabled={none || busy || starting || !plan?.ready}
        onClick={start}>
        {starting ? 'Starting…' : 'Start recording'}
      </button>
      {failed && (
        <p class="bad" role="alert">
          {safe(failed)}
        </p>
      )}
      <p class="dim">
        The file is written on the server’s machine and stays there when this tab is closed or crashes; the
        recording ends with the server.
      </p>
      <Preview title="As a command" text={plan?.command ?? ''} />
      <Preview title="As a configuration" text={plan?.config ?? ''} file="heapwise-config.txt" />
    </div>
  );
}

/** Running processes, or a command. */
function What({ plan }: { plan: Plan | null }) {
  const f = form.value;
  const list = usePolled<Process[]>(
    '/api/v1/processes',
    4000,
    recordings.value.filter((r) => r.state === 'running').length,
  );
  const forbidden = plan ? !plan.commands : false;
  return (
    <fieldset>
      <legend>
        <i>1</i>What
      </legend>
      <div class="bar">
        <Choice
          label="Kind of target"
          value={f.kind}
          options={[
            { id: 'attach', label: 'A running process' },
            { id: 'record', label: 'A command' },
          ]}
          onChange={(kind) => set({ kind })}
        />
      </div>
      {f.kind === 'attach' ? (
        <>
          <Processes list={list.value} problem={list.value ? '' : list.error} />
          <label class="field" style={{ marginTop: '10px' }}>
            <span>And every process named</span>
            <input
              type="text"
              value={f.names}
              placeholder="nginx, postgres"
              onInput={(e) => set({ names: e.currentTarget.value })}
            />
          </label>
        </>
      ) : (
        <label class="field">
          <span>Command line</span>
          <input
            type="text"
            id="command"
            value={f.command}
            placeholder="./server --port 7000"
            disabled={forbidden}
            onInput={(e) => set({ command: e.currentTarget.value })}
          />
          <small>
            {forbidden
              ? 'This server starts no programs: heapwise serve --allow-commands'
              : 'Started on the server’s machine, in its directory, without a shell. The program’s output goes to the server’s terminal.'}
          </small>
        </label>
      )}
    </fieldset>
  );
}

export function Build() {
  const words = wordsOf(form.value);
  const planned = usePlan(words);
  return (
    <div class="record">
      <div>
        <h1>{recordings.value.length ? 'Record another' : 'Record'}</h1>
        <What plan={planned.plan} />
        <Options problem={planned.plan?.error ?? ''} />
      </div>
      <Aside words={words} planned={planned} />
    </div>
  );
}
