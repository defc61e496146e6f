// Modules: which have names and lines, where their files were looked for, and what was found there.
import { useEffect, useState } from 'preact/hooks';
import { query, question } from '../app/answers';
import { base, count, percent, safe } from '../app/format';
import { ask, refresh } from '../app/server';
import { go } from '../app/state';
import type { Trace } from '../app/types';
import { fresh } from '../app/url/place';
import { useAnswer } from '../parts/answer';
import { Head, Scroll } from '../parts/table';
import { Busy, Failed } from '../parts/words';

interface Module {
  id: number;
  name: string;
  build: string;
  frames: number;
  named: number;
  lines: number;
}
type Try = [path: string, how: string, id: string];

const MODULES = `select min(m.id), m.name, coalesce(m.build_id, ''), count(*) as frames,
  sum(coalesce(f.deobfuscated_name, f.name, '') <> '' or s.id is not null) as named, sum(s.line_number is not null) as lines
from stack_profile_frame f join stack_profile_mapping m on m.id = f.mapping
left join (select symbol_set_id, min(id) as id, max(line_number) as line_number from stack_profile_symbol group by 1) s on s.symbol_set_id = f.symbol_set_id
where m.name <> '' or m.build_id <> ''
group by m.name, m.build_id order by frames desc`;

const HOW: Record<string, string> = {
  fits: 'fits: the same build',
  'not there': 'not there',
  'no ELF file': 'is no ELF file',
  'another build': 'another build',
};

function Tries({ trace, module }: { trace: Trace; module: Module }) {
  const a = useAnswer(`tries ${trace.id} ${module.id}`, () =>
    question<Try[]>(trace.id, 'binaries', `mapping=${module.id}`),
  );
  if (a.error) return <Failed text={a.error} />;
  if (!a.value) return <Busy what="Looking" />;
  const fits = a.value.some((t) => t[1] === 'fits');
  return (
    <div class="tries">
      <p class="statement">
        {module.build ? (
          <>
            build id <code>{module.build}</code>
          </>
        ) : (
          'no build id: only a file of just this path counts'
        )}
      </p>
      {!a.value.length && (
        <p class="dim">
          There is nowhere to look: it is not a file on this machine, and no directory was given.
        </p>
      )}
      <ol>
        {a.value.map(([path, how, id]) => (
          <li class={how === 'fits' ? 'fits' : ''}>
            <code>{safe(path)}</code>{' '}
            <span class={how === 'fits' ? '' : 'dim'}>
              {how === 'fits' ? '✓ ' : ''}
              {HOW[how] ?? how}
              {id ? ` ${id}` : ''}
            </span>
          </li>
        ))}
      </ol>
      {fits && module.named < module.frames && (
        <p class="dim">
          The file is here: <i>Read names again</i> asks it. Frames that stay without a name are in code that
          its symbol table does not list.
        </p>
      )}
    </div>
  );
}

/** The trace with what was found, as a file that has the names wherever it is opened. */
function Save({ trace }: { trace: Trace }) {
  const [name, setName] = useState(
    `${base(trace.name).replace(/(\.(gz|trace|pftrace|perfetto-trace))+$/, '')}-symbols.trace`,
  );
  const [done, setDone] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    setDone('');
    setProblem('');
    try {
      setDone(
        (
          await (
            await ask(`/api/v1/traces/${trace.id}/save?name=${encodeURIComponent(name)}`, { method: 'POST' })
          ).json()
        ).path,
      );
    } catch (e) {
      setProblem((e as Error).message);
    }
    setBusy(false);
  };
  return (
    <>
      <form
        class="bar save"
        onSubmit={(e) => {
          e.preventDefault();
          void save();
        }}>
        <label class="grow">
          New file{' '}
          <input type="text" class="wide" value={name} onInput={(e) => setName(e.currentTarget.value)} />
        </label>
        <button type="submit" disabled={busy || !trace.found || !name.trim()}>
          Save trace with symbols
        </button>
      </form>
      <p class="statement">
        {trace.found
          ? 'The trace and the names that were found, in the directory of the server. A file that is there already stays as it is.'
          : 'Nothing to save: all names that are known stand in the trace itself.'}
      </p>
      {problem && <Failed text={problem} />}
      {done && (
        <p class="banner note" role="status">
          Saved: <code>{safe(done)}</code>
        </p>
      )}
    </>
  );
}

async function modulesOf(trace: number): Promise<Module[]> {
  const r = await query(trace, MODULES, 100_000);
  if (r.error) throw new Error(r.error);
  return r.results[0].rows.map((x) => ({
    id: Number(x[0]),
    name: String(x[1]),
    build: String(x[2]),
    frames: Number(x[3]),
    named: Number(x[4]),
    lines: Number(x[5]),
  }));
}

function Sums({ modules }: { modules: Module[] }) {
  const sum = (f: (m: Module) => number) => modules.reduce((x, m) => x + f(m), 0);
  const [frames, named, lines] = [sum((m) => m.frames), sum((m) => m.named), sum((m) => m.lines)];
  return (
    <>
      <h2 class="first">Names of {count(frames)} frames</h2>
      <div class="figures">
        <div class="figure">
          <span class="label">With a function</span>
          <span class="value">{percent(named, frames)}</span>
          <span class="note">
            {count(named)} of {count(frames)} frames
          </span>
        </div>
        <div class="figure">
          <span class="label">With a line of source</span>
          <span class="value">{percent(lines, frames)}</span>
          <span class="note">{lines ? `${count(lines)} frames` : 'debug info was not read'}</span>
        </div>
        <div class="figure">
          <span class="label">Files</span>
          <span class="value">{count(modules.length)}</span>
          <span class="note">
            {count(modules.filter((m) => m.named < m.frames).length)} with frames that lack a name
          </span>
        </div>
      </div>
    </>
  );
}

/** Opens the trace once more, with files of these directories. */
function Again({ trace, onProblem }: { trace: Trace; onProblem(text: string): void }) {
  const [dirs, setDirs] = useState('');
  const [busy, setBusy] = useState(false);
  const again = async () => {
    setBusy(true);
    onProblem('');
    try {
      const list = dirs
        .split(/[\n:]/)
        .map((d) => d.trim())
        .filter(Boolean)
        .join('\n');
      const r = await (
        await ask(`/api/v1/traces?again=${trace.id}&symbols=${encodeURIComponent(list)}`, { method: 'POST' })
      ).json();
      await refresh();
      go({ ...fresh, page: 'symbols', trace: r.id });
    } catch (e) {
      onProblem((e as Error).message);
    }
    setBusy(false);
  };
  return (
    <>
      <form
        class="bar"
        onSubmit={(e) => {
          e.preventDefault();
          void again();
        }}>
        <label class="grow">
          Directories with symbols{' '}
          <input
            type="text"
            class="wide"
            placeholder="/srv/symbols:/home/me/build"
            value={dirs}
            onInput={(e) => setDirs(e.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary" disabled={busy || !dirs.trim()}>
          Read names again
        </button>
      </form>
      <p class="statement">
        Every file below them is looked at by its build id. The trace is opened once more with the names that
        are found; <code>heapwise symbolize {safe(base(trace.name))}</code> writes them into a file.
      </p>
    </>
  );
}

function ModuleRows({ m, trace, on, onOpen }: { m: Module; trace: Trace; on: boolean; onOpen(): void }) {
  return (
    <>
      <tr class={on ? 'on' : ''}>
        <td>
          <button type="button" class="plain" aria-expanded={on} onClick={onOpen} title={safe(m.name)}>
            {on ? '▾' : '▸'} {safe(base(m.name)) || 'no file'}{' '}
            <span class="dim">{safe(m.name.slice(0, m.name.lastIndexOf('/')))}</span>
          </button>
        </td>
        <td class="num">{count(m.frames)}</td>
        <td>
          <span class="share">
            <i style={{ width: `${(100 * m.named) / m.frames}%` }} />
            <b>{percent(m.named, m.frames)}</b>
          </span>
        </td>
        <td>
          <span class="share">
            <i style={{ width: `${(100 * m.lines) / m.frames}%` }} />
            <b>{percent(m.lines, m.frames)}</b>
          </span>
        </td>
        <td>
          <code class="dim">{m.build.slice(0, 16) || '–'}</code>
        </td>
      </tr>
      {on && (
        <tr>
          <td colSpan={5}>
            <Tries trace={trace} module={m} />
          </td>
        </tr>
      )}
    </>
  );
}

export function SymbolsPage({ trace }: { trace: Trace }) {
  const a = useAnswer(`modules ${trace.id}`, () => modulesOf(trace.id));
  const [open, setOpen] = useState<number>(-1);
  const [problem, setProblem] = useState('');
  useEffect(() => setOpen(-1), [trace.id]);
  if (a.error) return <Failed text={a.error} />;
  if (!a.value) return <Busy what="Counting frames" />;
  return (
    <div class="doc">
      <Sums modules={a.value} />
      <Again trace={trace} onProblem={setProblem} />
      <Save trace={trace} key={trace.id} />
      {problem && <Failed text={problem} />}
      <Scroll label="Modules">
        <table class="top modules">
          <Head columns={['Module', ['Frames', 'num'], 'Named', 'With lines', 'Build id']} />
          <tbody>
            {a.value.map((m) => (
              <ModuleRows
                m={m}
                trace={trace}
                on={open === m.id}
                onOpen={() => setOpen(open === m.id ? -1 : m.id)}
              />
            ))}
          </tbody>
        </table>
      </Scroll>
    </div>
  );
}
