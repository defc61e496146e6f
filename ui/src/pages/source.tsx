// Source with the memory of each line in its gutter.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { question } from '../app/answers';
import { amount, base, bytes, count, error, isBytes, of, percent, safe } from '../app/format';
import { selection } from '../app/selection';
import { ApiError } from '../app/server';
import { go, href, place } from '../app/state';
import { useAnswer } from '../parts/answer';
import { MetricChoice, MetricNote } from '../parts/choice';
import { nextKeys, useLines } from '../parts/lines';
import type { ProfileProps } from '../parts/selected';
import { SelectionBar } from '../parts/selection-bar';
import { Busy, Failed } from '../parts/words';
import { CodeSwitch, CodeView } from './code';

type Line = [
  file: string,
  line: number,
  self: number,
  total: number,
  samples: number,
  error: number | null,
  bytes: number, // of the total
  count: number, // how many allocations they are
];
/** The same of a function: the line is its first. */
type FunctionLine = [...Line, name: string];
interface FileAnswer {
  path: string;
  text: string;
}

const textOf = (trace: number, file: string): Promise<FileAnswer> =>
  question(trace, 'source', `file=${encodeURIComponent(file)}`);

/** Beside the metric: how many they are, or how large. */
const beside = (l: Line) => (isBytes(place.value.metric) ? count(l[7]) : bytes(l[6]));

const ROW = 20;

export function SourcePage(props: ProfileProps) {
  const p = place.value;
  if (p.view !== 'code') return <Lines {...props} />;
  return (
    <>
      <SelectionBar tracks={props.tracks} all={props.all} />
      <div class="bar">
        <CodeSwitch />
        <MetricChoice tracks={props.tracks} />
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

/** The functions of a file: each with the sum of its lines, and a way to the first of them. */
function Functions({ list }: { list: FunctionLine[] }) {
  const m = place.value.metric;
  if (!list.length) return null;
  return (
    <ul class="functions" aria-label="Functions of the file">
      {list.slice(0, 100).map(([file, line, self, total, , , , , name]) => (
        <li>
          <a
            href={href({ file, line: String(line) })}
            title={`${safe(name)}\nself ${amount(self, m)}, total ${amount(total, m)}`}>
            <span>{safe(name)}</span>
            <b>{amount(total, m)}</b>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Files({ files, file, functions }: { files: FileSum[]; file: string; functions: FunctionLine[] }) {
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
            {f === file && <Functions list={functions} />}
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

/** So many files are tried before the one that holds most is shown without its text. */
const TRIED = 30;

/** The file of most memory that can be read. */
async function firstShown(trace: number, files: FileSum[]): Promise<string> {
  for (const [file] of files.slice(0, TRIED))
    try {
      await textOf(trace, file);
      return file;
    } catch (e) {
      if (!(e instanceof ApiError)) throw e;
    }
  return files[0]?.[0] ?? '';
}

/** Lines and functions of what is selected, and the file that is looked at. */
function useFiles() {
  const p = place.value;
  const key = `${p.trace} ${selection.value}`;
  const lines = useAnswer(`lines ${key}`, () => question<Line[]>(p.trace, 'lines', selection.value));
  const functions = useAnswer(`functions ${key}`, () =>
    question<FunctionLine[]>(p.trace, 'lines', `${selection.value}&by=function`),
  );
  const files = useMemo(() => filesOf(lines.value ?? []), [lines.value]);
  const first = useAnswer(`first ${p.file ? '' : `${key} ${files.length}`}`, () =>
    p.file ? Promise.resolve('') : firstShown(p.trace, files),
  );
  const file = p.file || (first.busy ? '' : (first.value ?? ''));
  const inFile = useMemo(
    () => (functions.value ?? []).filter((f) => f[0] === file).sort((a, b) => b[3] - a[3]),
    [functions.value, file],
  );
  return { lines, files, file, inFile };
}

function Lines({ tracks, all }: ProfileProps) {
  const p = place.value;
  const { lines, files, file, inFile } = useFiles();
  const whole = useMemo(() => (lines.value ?? []).reduce((a, l) => Math.max(a, l[3]), 0), [lines.value]);
  return (
    <>
      <SelectionBar tracks={tracks} all={all} />
      <div class="bar">
        <CodeSwitch />
        <MetricChoice tracks={tracks} />
        {p.filters.length > 0 && <span class="dim">filters do not count here</span>}
      </div>
      <MetricNote />
      {lines.error && <Failed text={lines.error} />}
      {!lines.value && !lines.error && <Busy what="Adding up lines" />}
      {lines.value && !files.length && <NoLines />}
      {files.length > 0 && !file && <Busy what="Looking for the files" />}
      {files.length > 0 && file && (
        <div class="source">
          <Files files={files} file={file} functions={inFile} />
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
            <b>line {l[1]}</b>{' '}
            {[
              `self ${amount(l[2], m)}`,
              `total ${amount(l[3], m)} ${error(l[5], l[3])}`.trim(),
              isBytes(m) ? of(l[7], 'allocation') : bytes(l[6]),
            ].join(', ')}
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
  most,
}: {
  text: string;
  n: number;
  l: Line | undefined;
  on: boolean;
  whole: number; // of the largest line
  most: number; // the same in this file
}) {
  const m = place.value.metric;
  return (
    <div
      class={`code-row ${l ? 'has' : ''} ${on ? 'on' : ''}`}
      style={{ top: `${(n - 1) * ROW}px`, '--heat': l && most ? (l[3] / most).toFixed(3) : 0 }}
      title={
        l
          ? `${percent(l[3], whole)} of the largest line; ${bytes(l[6])} in ${of(l[7], 'allocation')}; ${l[4]} samples ${error(l[5], l[3])}`
          : undefined
      }>
      <span class="num">{l && l[2] > 0 ? amount(l[2], m) : ''}</span>
      <span class="num bar-cell">
        {l && <i style={{ width: `${whole ? (100 * l[3]) / whole : 0}%` }} />}
        {l ? <em>{amount(l[3], m)}</em> : ''}
      </span>
      <span class="num">{l ? beside(l) : ''}</span>
      <span class={`num ${l ? 'heat' : 'dim'}`}>{n}</span>
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
  const most = useMemo(() => [...by.values()].reduce((a, l) => Math.max(a, l[3]), 0), [by]);
  useEffect(() => {
    if (box.current && rows.length) center(wanted - 1);
  }, [rows, wanted]);
  return (
    <>
      <div class="code-head" aria-hidden="true">
        <span>Self</span>
        <span>Total</span>
        <span>{isBytes(place.value.metric) ? 'Count' : 'Size'}</span>
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
            return <LineRow text={row} n={n} l={by.get(n)} on={n === wanted} whole={whole} most={most} />;
          })}
        </div>
      </div>
    </>
  );
}

function FileText({ file, lines, whole }: { file: string; lines: Line[]; whole: number }) {
  const p = place.value;
  const text = useAnswer(`source ${p.trace} ${file}`, () => textOf(p.trace, file));
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
