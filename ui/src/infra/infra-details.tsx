// One heap by callstack (ƒ) and by type (Ⓣ): a tree on the left, what is below the chosen row on the right.
// Places have keys that do not depend on the dump, so what is open stays open when the dump changes.
import { signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { bytes, count, safe } from '../app/format';
import { go, place } from '../app/state';
import { Choice } from '../parts/choice';
import { Head, Scroll } from '../parts/table';
import { Busy, Failed } from '../parts/words';
import type { InfraCell, InfraPlace, Part } from './infra-api';
import { Large } from './infra-large';
import { below, usePlaces } from './infra-places';
import { type Line, Tree } from './infra-tree';
import { Amount, hint, label, Sign } from './infra-words';

/** Open places, by cell. */
const open = signal<Record<string, string[]>>({});

function ChildRow({ r, at, diff, name }: { r: Part; at: string; diff: boolean; name: string }) {
  const to = below(at, r.key);
  const words = (
    <>
      <Sign of={r.kind} />
      {label(r, name)}
    </>
  );
  return (
    <tr title={hint(r)}>
      <td>
        {r.more ? (
          <button
            type="button"
            class="plain"
            title="Make it the root"
            onClick={() => go({ root: to, row: to })}>
            {words}
          </button>
        ) : (
          <span>{words}</span>
        )}
      </td>
      <td class="num">
        <Amount part={r} diff={diff} of="size" />
      </td>
      <td class="num">
        <Amount part={r} diff={diff} of="count" />
      </td>
    </tr>
  );
}

function Children({
  answer,
  diff,
  at,
  name,
}: {
  answer: InfraPlace | undefined;
  diff: boolean;
  at: string;
  name: string;
}) {
  if (!answer) return <p class="dim">Nothing is below the chosen row.</p>;
  const of = answer.path[answer.path.length - 1];
  return (
    <>
      <h3>Below {safe(of.kind === 'root' ? name : of.label)}</h3>
      <Scroll label="Below the chosen row">
        <table class="top">
          <Head columns={['Part', ['Size', 'num'], ['Count', 'num']]} />
          <tbody>
            {answer.rows.map((r) => (
              <ChildRow r={r} at={at} diff={diff} name={name} />
            ))}
          </tbody>
        </table>
      </Scroll>
      {answer.cut > 0 && <p class="dim">{count(answer.cut)} more are not listed.</p>}
      {!answer.rows.length && <p class="dim">Nothing is below it: it asked for all of this itself.</p>}
    </>
  );
}

/** Why the details do not add up to the cell. */
function Note({ root, cell }: { root: Part; cell: InfraCell }) {
  const rest = (cell.now ?? 0) - root.size;
  if (cell.now === undefined || cell.source === 'heap' || rest === 0) return null;
  return (
    <p class="banner note" role="note">
      The cell says {bytes(cell.now)}, the details {bytes(root.size)},{' '}
      {rest > 0 ? `${bytes(rest)} less` : `${bytes(-rest)} more`}: they count different things. The cell is
      what the allocator took from the system; the details are what the program asked for. Between them lie
      what was allocated before profiling began, the allocator’s overhead and what it keeps free, and the
      memory of tracing itself, which is taken off the cell.
    </p>
  );
}

/** What is open and asked for: the lines of the tree, and what is below a place. */
function useLines(trace: number, query: string) {
  const p = place.value;
  const mine = `${trace} ${p.cell} ${p.dims}`;
  const opened = new Set([p.root, ...(open.value[mine] ?? [])]);
  const inside = (at: string) => !p.root || at === p.root || at.startsWith(`${p.root}/`);
  // Types first: at the heap its types, inside a type functions.
  const by = (at: string) =>
    p.dims === 'frames' ? 'frames' : p.dims === 'types' ? (at === '' ? 'types' : 'frames') : 'both';
  const two = by('') !== by('x');
  const inOrder = `${query}&rule=${p.rule || 'threshold'}`;
  const wanted = [...new Set([...opened, p.row])].filter(inside);
  const bottom = usePlaces(
    trace,
    `${inOrder}&by=${by('x')}`,
    wanted.filter((at) => at !== '' || !two),
  );
  const top = usePlaces(trace, `${inOrder}&by=${by('')}`, two && wanted.includes('') ? [''] : []);
  const find = (at: string) => (at === '' && two ? top.places.get('') : bottom.places.get(at));
  const first = find(p.root);
  const lines = useMemo(() => {
    const out: Line[] = [];
    const add = (part: Part, at: string, level: number) => {
      out.push({ part, at, level });
      if (opened.has(at)) for (const r of find(at)?.rows ?? []) add(r, below(at, r.key), level + 1);
    };
    if (first) add({ ...first.path[first.path.length - 1], more: true }, p.root, 0);
    return out;
  }, [bottom.places, top.places, p.root, open.value, mine]);
  const toggle = (at: string, want?: boolean) => {
    const set = new Set(open.value[mine] ?? []);
    if (want ?? !set.has(at)) set.add(at);
    else set.delete(at);
    open.value = { ...open.value, [mine]: [...set] };
  };
  return {
    lines,
    opened,
    toggle,
    find,
    first,
    error: bottom.error || top.error,
    busy: bottom.busy || top.busy,
  };
}

const DIMENSIONS = [
  { id: 'both', label: 'Functions and types', hint: 'callstacks, and at each place its types' },
  { id: 'frames', label: 'Functions', hint: 'callstacks only' },
  { id: 'types', label: 'Types, then functions', hint: 'types, and who asked for each' },
];

/** From the heap to the root of what is shown. */
function RootPath({ path, name }: { path: Part[]; name: string }) {
  return (
    <nav class="crumbs" aria-label="Root of the details">
      {path.map((x, i) => {
        const at = path
          .slice(1, i + 1)
          .map((y) => y.key)
          .join('/');
        const words = (
          <>
            <Sign of={x.kind} />
            {label(x, name)}
          </>
        );
        return (
          <>
            {i > 0 && (
              <span class="dim" aria-hidden="true">
                {' '}
                ›{' '}
              </span>
            )}
            {i < path.length - 1 ? (
              <button type="button" class="plain" onClick={() => go({ root: at, row: at })}>
                {words}
              </button>
            ) : (
              <b>{words}</b>
            )}
          </>
        );
      })}
    </nav>
  );
}

function DetailsBar({ first, name }: { first: InfraPlace | undefined; name: string }) {
  const p = place.value;
  return (
    <div class="bar">
      <Choice
        label="Break down by"
        value={p.dims || 'both'}
        onChange={(v) => go({ dims: v === 'both' ? '' : v, root: '', row: '' })}
        options={DIMENSIONS}
      />
      <label>
        Small ones{' '}
        <select
          value={p.rule || 'threshold'}
          onChange={(e) => go({ rule: e.currentTarget.value === 'threshold' ? '' : e.currentTarget.value })}>
          <option value="threshold">below 1 KiB</option>
          <option value="fraction">below 0.8 % of what stands before</option>
          <option value="rows">below 16 KiB and 1024 objects</option>
          <option value="all">all have a line</option>
        </select>
      </label>
      {first && first.path.length > 1 && <RootPath path={first.path} name={name} />}
      <span class="grow" />
      <span class="dim hint">Enter: make it the root · Backspace: back · → ←: open, close</span>
    </div>
  );
}

export function HeapDetails({
  trace,
  query,
  diff,
  name,
  cell,
}: {
  trace: number;
  query: string;
  diff: boolean;
  name: string;
  cell: InfraCell;
}) {
  const p = place.value;
  const { lines, opened, toggle, find, first, error, busy } = useLines(trace, query);
  const gone = !first && !busy && !error && p.root !== '';
  const chosen = lines.find((l) => l.at === p.row)?.at ?? p.root;
  return (
    <div class="infra-details" aria-busy={busy}>
      <DetailsBar first={first} name={name} />
      {error && <Failed text={error} />}
      {gone && (
        <p class="empty small" role="note">
          That place holds nothing at this dump.{' '}
          <button type="button" onClick={() => go({ root: '', row: '' })}>
            Show the whole heap
          </button>
        </p>
      )}
      {!first && busy && <Busy what="Breaking down" />}
      {first && (
        <div class="split">
          <Tree lines={lines} root={p.root} diff={diff} name={name} opened={opened} toggle={toggle} />
          <div class="infra-children">
            <Children answer={find(chosen)} diff={diff} at={chosen} name={name} />
          </div>
        </div>
      )}
      {first && <Large trace={trace} query={query} diff={diff} />}
      {first && p.root === '' && !diff && <Note root={first.path[0]} cell={cell} />}
    </div>
  );
}
