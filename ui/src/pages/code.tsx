// A function's instructions with the memory of each in its gutter, the source between them.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { amount, base, error, percent, safe } from '../app/format';
import { selection } from '../app/selection';
import { ask } from '../app/server';
import { go, href, place } from '../app/state';
import type { Functions } from '../app/types';
import { useAnswer } from '../parts/answer';
import { nextKeys, useLines } from '../parts/lines';
import { Busy, Failed } from '../parts/words';

type Instruction = [
  address: string,
  text: string,
  file: string,
  line: number,
  self: number,
  total: number,
  samples: number,
  error: number | null,
];
interface Code {
  symbol: string;
  path: string;
  tool: string;
  cut: boolean;
  elsewhere: number;
  rows: Instruction[];
}
type Row = { at: Instruction } | { file: string; line: number };

const ROW = 20;

export function CodeView() {
  const p = place.value;
  const list = useAnswer(
    `code-functions ${p.trace} ${selection.value}`,
    async () =>
      (
        await ask(`/api/v1/traces/${p.trace}/table/functions?${selection.value}&sort=self&limit=500`)
      ).json() as Promise<Functions>,
  );
  const [match, setMatch] = useState('');
  const rows = list.value?.data ?? [];
  const fn = p.fn || rows[0]?.[0] || '';
  if (list.error) return <Failed text={list.error} />;
  if (!list.value) return <Busy what="Adding up functions" />;
  if (!fn)
    return (
      <div class="empty">
        <p>No function of this selection holds memory.</p>
      </div>
    );
  return (
    <div class="source">
      <nav class="files" aria-label="Functions">
        <input
          type="search"
          aria-label="Find functions"
          placeholder="Find functions"
          value={match}
          onInput={(e) => setMatch(e.currentTarget.value)}
        />
        <ul>
          {rows
            .filter((r) => r[0].toLowerCase().includes(match.toLowerCase()))
            .map((r) => (
              <li>
                <a
                  href={href({ fn: r[0] })}
                  aria-current={r[0] === fn ? 'true' : undefined}
                  title={safe(r[0])}>
                  <span>{safe(r[0])}</span>
                  <b>{amount(r[2] || r[3], p.metric)}</b>
                  <small class="dim">
                    <bdi>{safe(base(r[1]))}</bdi>
                  </small>
                </a>
              </li>
            ))}
        </ul>
      </nav>
      <Instructions fn={fn} key={fn} />
    </div>
  );
}

/** The texts of the files that lines name; one that cannot be read has none. */
function useTexts(trace: number, files: string[]): Map<string, string[]> {
  const a = useAnswer(`code-texts ${trace} ${files.join('\n')}`, async () => {
    const texts = new Map<string, string[]>();
    await Promise.all(
      files.slice(0, 20).map(async (file) => {
        try {
          const r = await (
            await ask(`/api/v1/traces/${trace}/source?file=${encodeURIComponent(file)}`)
          ).json();
          texts.set(file, String(r.text).split('\n'));
        } catch {
          /* its name and number are shown */
        }
      }),
    );
    return texts;
  });
  return a.value ?? new Map();
}

/** Instructions with the lines of source that they begin between them. */
function rowsOf(code: Code | null): Row[] {
  const out: Row[] = [];
  let was = '';
  for (const at of code?.rows ?? []) {
    const here = at[2] ? `${at[2]}:${at[3]}` : '';
    if (here && here !== was) out.push({ file: at[2], line: at[3] });
    if (here) was = here;
    out.push({ at });
  }
  return out;
}

function SourceRow({
  r,
  style,
  texts,
}: {
  r: { file: string; line: number };
  style: { top: string };
  texts: Map<string, string[]>;
}) {
  return (
    <div class="code-row instructions line" style={style}>
      <span />
      <span />
      <span class="num">
        <a href={href({ view: '', file: r.file, line: String(r.line) })} title={safe(`${r.file}:${r.line}`)}>
          {r.line}
        </a>
      </span>
      <code>{safe((texts.get(r.file)?.[r.line - 1] ?? base(r.file)).replace(/\t/g, '    '))}</code>
    </div>
  );
}

function InstructionRow({
  at,
  style,
  on,
  whole,
}: {
  at: Instruction;
  style: { top: string };
  on: boolean;
  whole: number;
}) {
  const m = place.value.metric;
  const [address, text, , , self, total, samples, err] = at;
  return (
    <div
      class={`code-row instructions ${total > 0 ? 'has' : ''} ${on ? 'on' : ''}`}
      style={style}
      title={
        total > 0
          ? `${percent(total, whole)} of the largest; ${samples} samples ${error(err, total)}`
          : undefined
      }>
      <span class="num">{self > 0 ? amount(self, m) : ''}</span>
      <span class="num bar-cell">
        {total > 0 && <i style={{ width: `${whole ? (100 * total) / whole : 0}%` }} />}
        {total > 0 ? <em>{amount(total, m)}</em> : ''}
      </span>
      <span class="num dim">{address}</span>
      <code>{safe(text)}</code>
    </div>
  );
}

const hasMemory = (r: Row | undefined) => !!r && 'at' in r && r.at[5] > 0;

/** Rows that are seen, and the one that is looked at: at first the one with most. */
function useRows(rows: Row[], whole: number) {
  const { box, range, look, center } = useLines(ROW);
  const [on, setOn] = useState(-1);
  const show = (i: number) => {
    setOn(i);
    center(i);
  };
  useEffect(() => {
    if (rows.length) show(rows.findIndex((r) => 'at' in r && r.at[5] === whole));
  }, [rows]);
  const next = (step: number) => {
    const n = rows.length;
    for (let k = 1; k <= n; k++) {
      const i = (on + step * k + n * 2) % n;
      if (hasMemory(rows[i])) return show(i);
    }
  };
  return { box, range, look, on, next };
}

function CodeBar({ c, next }: { c: Code; next(step: number): void }) {
  return (
    <>
      <div class="bar">
        <b class="path" title={safe(c.path)}>
          <bdi>
            {safe(c.symbol)} in {safe(base(c.path))}
          </bdi>
        </b>
        <span class="dim">{c.tool}</span>
        <span class="grow" />
        <button type="button" onClick={() => next(-1)} title="the instruction with memory before (p)">
          ‹ call
        </button>
        <button type="button" onClick={() => next(1)} title="the next instruction with memory (n)">
          call ›
        </button>
      </div>
      {c.cut && <p class="banner note">Only its first 256 KiB are shown.</p>}
      {c.elsewhere > 0 && (
        <p class="statement">
          {amount(c.elsewhere, place.value.metric)} of it went through other code, where it was inlined or
          split off.
        </p>
      )}
    </>
  );
}

const HEAD = ['Self', 'Total', 'Address', 'Instruction'];

function Instructions({ fn }: { fn: string }) {
  const p = place.value;
  const code = useAnswer(
    `code ${p.trace} ${selection.value} ${fn}`,
    async () =>
      (
        await ask(`/api/v1/traces/${p.trace}/code?${selection.value}&fn=${encodeURIComponent(fn)}`)
      ).json() as Promise<Code>,
  );
  const files = useMemo(
    () => [...new Set((code.value?.rows ?? []).map((r) => r[2]).filter(Boolean))],
    [code.value],
  );
  const texts = useTexts(p.trace, files);
  const rows = useMemo(() => rowsOf(code.value), [code.value]);
  const whole = useMemo(() => (code.value?.rows ?? []).reduce((a, r) => Math.max(a, r[5]), 0), [code.value]);
  const { box, range, look, on, next } = useRows(rows, whole);
  if (code.error)
    return (
      <section class="text" aria-label="Instructions">
        <p class="banner note" role="alert">
          {safe(code.error)}
        </p>
      </section>
    );
  if (!code.value) return <Busy what="Disassembling the function" />;
  const c = code.value;
  return (
    <section class="text" aria-label={`Instructions of ${safe(c.symbol)}`}>
      <CodeBar c={c} next={next} />
      <div class="code-head instructions" aria-hidden="true">
        {HEAD.map((h) => (
          <span>{h}</span>
        ))}
      </div>
      <div
        class="code"
        ref={box}
        tabIndex={0}
        role="region"
        aria-label="Instructions"
        onScroll={look}
        onKeyDown={(e) => nextKeys(e, next)}>
        <div style={{ height: `${rows.length * ROW}px` }}>
          {rows.slice(range.first, range.first + range.n).map((r, i) => {
            const n = range.first + i;
            const top = { top: `${n * ROW}px` };
            return 'at' in r ? (
              <InstructionRow at={r.at} style={top} on={n === on} whole={whole} />
            ) : (
              <SourceRow r={r} style={top} texts={texts} />
            );
          })}
        </div>
      </div>
    </section>
  );
}

/** Which of the two is shown. */
export function CodeSwitch() {
  const p = place.value;
  return (
    <span class="toggles" role="group" aria-label="Show">
      <button type="button" class="toggle" aria-pressed={p.view !== 'code'} onClick={() => go({ view: '' })}>
        Source
      </button>
      <button
        type="button"
        class="toggle"
        aria-pressed={p.view === 'code'}
        onClick={() => go({ view: 'code' })}>
        Instructions
      </button>
    </span>
  );
}
