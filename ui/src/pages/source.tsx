// Source with the memory of each line in its gutter.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { amount, base, error, percent, safe } from '../app/format';
import { selection } from '../app/selection';
import { ask } from '../app/server';
import { go, href, place } from '../app/state';
import { useAnswer } from '../parts/answer';
import { MetricChoice } from '../parts/choice';
import { nextKeys, useLines } from '../parts/lines';
import type { ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { Busy, Failed } from '../parts/words';
import { CodeSwitch, CodeView } from './code';

type Line = [file: string, line: number, self: number, total: number, samples: number, error: number];
interface FileAnswer {
  path: string;
  text: string;
}

const ROW = 20;

export function SourcePage(props: ProfileProps) {
  const p = place.value;
  if (p.view !== 'code') return <Lines {...props} />;
  return (
    <>
      <SelectionBar tracks={props.tracks} all={props.all} />
      <div class="bar">
        <CodeSwitch />
        <MetricChoice />
        {p.filters.length > 0 && <span class="dim">filters choose the functions of the list only</span>}
      </div>
      <CodeView />
    </>
  );
}

type FileSum = [file: string, sum: { self: number; most: number }];

/** Files by what their lines hold. */
function filesOf(lines: Line[]): FileSum[] {
  const by = new Map<string, { self: number; most: number }>();
  for (const [file, , self, total] of lines) {
    const f = by.get(file) ?? { self: 0, most: 0 };
    by.set(file, { self: f.self + self, most: Math.max(f.most, total) });
  }
  return [...by].sort((a, b) => b[1].self - a[1].self || b[1].most - a[1].most);
}

function Files({ files, file }: { files: FileSum[]; file: string }) {
  const [match, setMatch] = useState('');
  const shown = files.filter(([f]) => f.toLowerCase().includes(match.toLowerCase()));
  const m = place.value.metric;
  return (
    <nav class="files" aria-label="Files">
      <input
        type="search"
        aria-label="Find files"
        placeholder="Find files"
        value={match}
        onInput={(e) => setMatch(e.currentTarget.value)}
      />
      <ul>
        {shown.slice(0, 500).map(([f, v]) => (
          <li>
            <a
              href={href({ file: f, line: '' })}
              aria-current={f === file ? 'true' : undefined}
              title={safe(f)}>
              <span>{safe(base(f))}</span>
              <b>{amount(v.self || v.most, m)}</b>
              <small class="dim">
                <bdi>{safe(f.slice(0, f.lastIndexOf('/')))}</bdi>
              </small>
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

const NoLines = () => (
  <div class="empty">
    <p>No frame of this selection has a line of source.</p>
    <p class="dim">
      Lines come from debug info:{' '}
      <code>heapwise ui --symbols DIR {safe(base(document.title.split(' · ')[0]))}</code> reads it while it
      opens the trace, <code>heapwise symbolize</code> puts it into a file.
    </p>
    <p>
      <a href={href({ page: 'symbols' })}>Which files were looked for</a>
    </p>
  </div>
);

function Lines({ tracks, all }: ProfileProps) {
  const p = place.value;
  const key = `${p.trace} ${selection.value}`;
  const lines = useAnswer(
    `lines ${key}`,
    async () => (await ask(`/api/v1/traces/${p.trace}/lines?${selection.value}`)).json() as Promise<Line[]>,
  );
  const files = useMemo(() => filesOf(lines.value ?? []), [lines.value]);
  const file = p.file || files[0]?.[0] || '';
  const whole = useMemo(() => (lines.value ?? []).reduce((a, l) => Math.max(a, l[3]), 0), [lines.value]);
  return (
    <>
      <SelectionBar tracks={tracks} all={all} />
      <div class="bar">
        <CodeSwitch />
        <MetricChoice />
        {p.filters.length > 0 && <span class="dim">filters do not count here</span>}
      </div>
      {lines.error && <Failed text={lines.error} />}
      {!lines.value && !lines.error && <Busy what="Adding up lines" />}
      {lines.value && !files.length && <NoLines />}
      {files.length > 0 && (
        <div class="source">
          <Files files={files} file={file} />
          <FileText
            file={file}
            lines={(lines.value ?? []).filter((l) => l[0] === file)}
            whole={whole}
            key={file}
          />
        </div>
      )}
    </>
  );
}

/** The lines with most, where the text itself is not there. */
function Hot({ file, ranked }: { file: string; ranked: Line[] }) {
  const m = place.value.metric;
  return (
    <ol class="hot">
      {ranked.slice(0, 12).map((l) => (
        <li>
          <button type="button" class="plain" onClick={() => go({ file, line: String(l[1]) }, true)}>
            <b>line {l[1]}</b> self {amount(l[2], m)}, total {amount(l[3], m)} {error(l[5], l[3])}
          </button>
        </li>
      ))}
    </ol>
  );
}

function LineRow({
  text,
  n,
  l,
  on,
  whole,
}: {
  text: string;
  n: number;
  l: Line | undefined;
  on: boolean;
  whole: number;
}) {
  const m = place.value.metric;
  return (
    <div
      class={`code-row ${l ? 'has' : ''} ${on ? 'on' : ''}`}
      style={{ top: `${(n - 1) * ROW}px` }}
      title={
        l ? `${percent(l[3], whole)} of the largest line; ${l[4]} samples ${error(l[5], l[3])}` : undefined
      }>
      <span class="num">{l && l[2] > 0 ? amount(l[2], m) : ''}</span>
      <span class="num bar-cell">
        {l && <i style={{ width: `${whole ? (100 * l[3]) / whole : 0}%` }} />}
        {l ? <em>{amount(l[3], m)}</em> : ''}
      </span>
      <span class="num dim">{n}</span>
      <code>{safe(text.replace(/\t/g, '    '))}</code>
    </div>
  );
}

function Text({
  rows,
  wanted,
  by,
  whole,
  onNext,
}: {
  rows: string[];
  wanted: number;
  by: Map<number, Line>;
  whole: number;
  onNext(step: number): void;
}) {
  const { box, range, look, center } = useLines(ROW);
  useEffect(() => {
    if (box.current && rows.length) center(wanted - 1);
  }, [rows, wanted]);
  return (
    <>
      <div class="code-head" aria-hidden="true">
        <span>Self</span>
        <span>Total</span>
        <span>Line</span>
        <span>Source</span>
      </div>
      <div
        class="code"
        ref={box}
        tabIndex={0}
        role="region"
        aria-label="Lines"
        onScroll={look}
        onKeyDown={(e) => nextKeys(e, onNext)}>
        <div style={{ height: `${rows.length * ROW}px` }}>
          {rows.slice(range.first, range.first + range.n).map((row, i) => {
            const n = range.first + i + 1;
            return <LineRow text={row} n={n} l={by.get(n)} on={n === wanted} whole={whole} />;
          })}
        </div>
      </div>
    </>
  );
}

function FileText({ file, lines, whole }: { file: string; lines: Line[]; whole: number }) {
  const p = place.value;
  const text = useAnswer(
    `source ${p.trace} ${file}`,
    async () =>
      (
        await ask(`/api/v1/traces/${p.trace}/source?file=${encodeURIComponent(file)}`)
      ).json() as Promise<FileAnswer>,
  );
  const by = useMemo(() => new Map(lines.map((l) => [l[1], l])), [lines]);
  const rows = useMemo(
    () => (text.value ? text.value.text.replace(/\n$/, '').split('\n') : []),
    [text.value],
  );
  const ranked = useMemo(() => [...lines].sort((a, b) => b[2] - a[2] || b[3] - a[3]), [lines]);
  const wanted = Number(p.line) || ranked[0]?.[1] || 1;
  const next = (step: number) => {
    const order = [...lines].sort((a, b) => a[1] - b[1]).map((l) => l[1]);
    const to =
      step > 0
        ? (order.find((n) => n > wanted) ?? order[0])
        : (order.findLast((n) => n < wanted) ?? order[order.length - 1]);
    if (to) go({ file, line: String(to) }, true);
  };
  return (
    <section class="text" aria-label={`Source ${safe(file)}`}>
      <div class="bar">
        <b class="path" title={safe(text.value?.path ?? file)}>
          <bdi>{safe(text.value?.path ?? file)}</bdi>
        </b>
        <span class="grow" />
        <button type="button" onClick={() => next(-1)} title="the line with memory before (p)">
          ‹ line
        </button>
        <button type="button" onClick={() => next(1)} title="the next line with memory (n)">
          line ›
        </button>
      </div>
      {text.busy && !text.value && <Busy what="Reading" />}
      {text.error && (
        <>
          <p class="banner note" role="alert">
            {safe(text.error)}
          </p>
          <h2>Its lines with memory</h2>
          <Hot file={file} ranked={ranked} />
        </>
      )}
      {text.value && <Text rows={rows} wanted={wanted} by={by} whole={whole} onNext={next} />}
    </section>
  );
}
