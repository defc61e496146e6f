// What is recorded now, and what was.
import { useRef, useState } from 'preact/hooks';
import { base, bytes, count, duration, percent, safe } from '../app/format';
import { href } from '../app/state';
import type { Recording, Target } from '../app/types';
import { fresh } from '../app/url/place';
import { Head, Scroll } from '../parts/table';
import { Figure } from '../parts/words';
import { act, awaited } from './form';
import { MarkForm } from './mark';

function useRate(r: Recording): number {
  const seen = useRef<[number, number][]>([]);
  const list = seen.current;
  if (!list.length || list[list.length - 1][0] !== r.elapsed_ms) list.push([r.elapsed_ms, r.samples]);
  while (list.length > 2 && list[0][0] < r.elapsed_ms - 5000) list.shift();
  const [first, last] = [list[0], list[list.length - 1]];
  return last[0] > first[0] ? ((last[1] - first[1]) * 1000) / (last[0] - first[0]) : 0;
}

/** Both remedies of a buffer that overran, by what was seen. */
function Overrun({ r }: { r: Recording }) {
  const more = Math.min(2 ** 29, Math.max(r.shmem * 4, 2 ** 23));
  const factor = 2 ** Math.ceil(Math.log2(Math.max(2, (2 * (r.samples + r.lost)) / Math.max(1, r.samples))));
  return (
    <p class="banner bad" role="alert">
      {count(r.lost)} samples are lost: the buffer was full. Next time a larger buffer,{' '}
      <code>--shmem-size {more / 2 ** 20}M</code>, or fewer samples,{' '}
      <code>-i {Math.max(1, r.interval) * factor}</code>.
    </p>
  );
}

function TargetRow({ t }: { t: Target }) {
  const used = t.buffered ?? 0;
  return (
    <tr>
      <td>
        <a href={href({ page: 'live', arg: String(t.pid) })}>{safe(t.name)}</a>
      </td>
      <td class="num">{t.pid}</td>
      <td>{safe(t.state)}</td>
      <td class="num">{count(t.samples)}</td>
      <td class="num">{t.rss ? bytes(t.rss) : '–'}</td>
      <td>
        {t.buffer ? (
          <>
            <span class={`fill ${used > t.buffer / 2 ? 'high' : ''}`}>
              <i style={{ width: `${(100 * used) / t.buffer}%` }} />
            </span>{' '}
            {percent(used, t.buffer)} <span class="dim">of {bytes(t.buffer)}</span>
          </>
        ) : (
          '–'
        )}
      </td>
    </tr>
  );
}

function Targets({ r }: { r: Recording }) {
  if (!r.targets.length)
    return (
      <p class="dim" role="status">
        {r.launched
          ? 'The program begins…'
          : 'Waiting for the process to answer: it does at its next allocations.'}
      </p>
    );
  return (
    <Scroll label="Recorded processes">
      <table class="top">
        <Head
          columns={[
            'Process',
            ['PID', 'num'],
            'State',
            ['Samples', 'num'],
            ['Resident', 'num'],
            'Buffer in use',
          ]}
        />
        <tbody>
          {r.targets.map((t) => (
            <TargetRow t={t} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Figures({ r }: { r: Recording }) {
  const rate = useRate(r);
  const left = r.duration_ms ? Math.max(0, r.duration_ms - r.elapsed_ms) : 0;
  return (
    <div class="figures">
      <Figure
        label="Elapsed"
        value={duration(r.elapsed_ms * 1e6)}
        note={left ? `${duration(left * 1e6)} to go` : 'until stopped'}
      />
      <Figure label="Samples" value={count(r.samples)} note={`${count(rate)} a second`} />
      <Figure
        label="Written"
        value={bytes(r.bytes)}
        note={r.file ? <span title={safe(r.file)}>{safe(base(r.file))}</span> : ''}
      />
      <Figure label="Dumps" value={count(r.dumps)} note="one more at the end" />
      <Figure
        label="Lost"
        value={count(r.lost)}
        note={r.lost ? percent(r.lost, r.lost + r.samples) : 'nothing'}
      />
    </div>
  );
}

/** What can be done with it. */
function Orders({ r }: { r: Recording }) {
  const [problem, setProblem] = useState('');
  const stopping = r.state === 'stopping';
  const send = (verb: string) => {
    setProblem('');
    if (verb === 'stop') awaited.value = r.id;
    act(verb, r.id).catch((e: Error) => setProblem(e.message));
  };
  return (
    <div class="bar">
      <button type="button" class="primary" disabled={stopping} onClick={() => send('stop')}>
        Stop and open
      </button>
      {r.targets.length > 0 && (
        <a class="button" href={href({ page: 'live', arg: String(r.targets[0].pid) })}>
          Watch live
        </a>
      )}
      <button type="button" disabled={stopping} onClick={() => send('dump')} title="D">
        Dump now
      </button>
      <MarkForm id={r.id} made={r.marks} off={stopping} />
      <button
        type="button"
        disabled={stopping}
        onClick={() => confirm('Throw away what was recorded?') && send('discard')}>
        Discard
      </button>
      {r.program_runs && (
        <button type="button" onClick={() => send('end')}>
          End the program
        </button>
      )}
      <span class="dim">{r.launched ? '' : 'The process runs on when the recording ends.'}</span>
      {problem && (
        <span class="bad" role="alert">
          {safe(problem)}
        </span>
      )}
    </div>
  );
}

export function Running({ r }: { r: Recording }) {
  return (
    <section class="rec running" aria-label={`Recording ${r.id}`}>
      <div class="title">
        <h2>
          <span class="dot" aria-hidden="true" />
          {r.state === 'stopping' ? 'Writing the last dumps' : 'Recording'}{' '}
          {safe(r.targets[0]?.name || r.target)}
        </h2>
        <code>{safe(r.command)}</code>
      </div>
      <Figures r={r} />
      <Targets r={r} />
      {r.lost > 0 && <Overrun r={r} />}
      {r.warnings.map((w) => (
        <p class="banner note">{safe(w)}</p>
      ))}
      <Orders r={r} />
    </section>
  );
}

export function Past({ r }: { r: Recording }) {
  return (
    <li>
      {r.trace ? (
        <a href={href({ ...fresh, page: 'overview', trace: r.trace })}>
          <b>{safe(base(r.file ?? r.target))}</b>
        </a>
      ) : (
        <b>{safe(r.file ? base(r.file) : r.target)}</b>
      )}
      <span class="dim">
        {duration(r.elapsed_ms * 1e6)} · {count(r.samples)} samples · {bytes(r.bytes)}
      </span>
      {r.state === 'empty' && (
        <span class="bad">
          Nothing was recorded: {safe(r.error ?? '')}.{r.remedy && ` ${r.remedy}`}
        </span>
      )}
      {r.state === 'failed' && (
        <span class="bad">
          {safe(r.error ?? 'failed')}
          {r.remedy && ` ${r.remedy}`}
        </span>
      )}
      {r.state === 'discarded' && <span class="dim">thrown away</span>}
      {r.program_runs && (
        <span>
          its program runs on (pid {r.program}){' '}
          <button type="button" onClick={() => act('end', r.id)}>
            End the program
          </button>
        </span>
      )}
      {r.warnings.map((w) => (
        <span class="dim">{safe(w)}</span>
      ))}
    </li>
  );
}
