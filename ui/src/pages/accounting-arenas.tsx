// Accounting: the arenas of glibc's malloc, each with what it has in use, free and cached.
import { useState } from 'preact/hooks';
import { bytes, clock, count, exact } from '../app/format';
import { ns } from '../app/times';
import type { Tracks } from '../app/types';
import { sqlHref } from '../parts/show-sql';
import { type Column, Head, Scroll, SqlLink } from '../parts/table';

type Figures = [
  system: number | null,
  in_use: number | null,
  free: number | null,
  top: number | null,
  cached: number | null,
  fast: number | null,
  returns: number | null,
];
/** The most that is not in use first; why: the figures are not known. */
type Arena = [name: string, threads: number, ...Figures, why: string];
export interface Arenas {
  at: number;
  rows: Arena[];
}

const AT_ONCE = 20;
const FIGURES = 7;

const COLUMNS: Column[] = [
  'Arena',
  ['From the kernel', 'num', 'in use, free, top, cached and fast together'],
  ['In use', 'num', 'blocks with their headers'],
  ['Free', 'num', 'in its free lists'],
  ['Top', 'num', 'the end that was not divided yet'],
  ['Cached', 'num', 'in the caches of threads (tcache)'],
  ['Fast', 'num', 'small free blocks that are not joined with their neighbours (fastbins)'],
  ['Returnable', 'num', 'what malloc_trim would give back: whole free pages in memory'],
  ['Threads', 'num', 'that use it'],
];

const figuresOf = (a: Arena) => a.slice(2, 2 + FIGURES) as Figures;
const whyOf = (a: Arena) => a[2 + FIGURES] as string;

/** Of those that are known. */
function sumOf(rows: Arena[]): Arena {
  const known = rows.filter((a) => !whyOf(a));
  const sums = Array.from({ length: FIGURES }, (_, i) =>
    known.reduce((sum, a) => sum + (figuresOf(a)[i] ?? 0), 0),
  ) as unknown as Figures;
  const threads = known.reduce((sum, a) => sum + a[1], 0);
  return [known.length < rows.length ? 'All that are known' : 'All', threads, ...sums, ''];
}

function Row({ arena, notes, total }: { arena: Arena; notes: boolean; total?: boolean }) {
  return (
    <tr class={total ? 'total' : ''}>
      <td>{arena[0]}</td>
      {figuresOf(arena).map((v) => (
        <td class="num" title={v === null ? 'not known' : `${exact(v)} B`}>
          {v === null ? '–' : bytes(v)}
        </td>
      ))}
      <td class="num">{count(arena[1])}</td>
      {notes && <td class="wide dim">{whyOf(arena)}</td>}
    </tr>
  );
}

const sqlOf = (tracks: Tracks, at: number) =>
  `select iif(is_main, 'main', arena) as arena, threads, system_bytes, in_use_bytes, free_bytes, top_bytes,\n  cached_bytes, fast_bytes, returnable_bytes, resident_bytes\nfrom malloc_arena where upid = ${tracks.upid + 1} and ts = ${ns(at)}\norder by system_bytes - coalesce(in_use_bytes, 0) desc`;

export function ArenaTable({ arenas, tracks }: { arenas: Arenas; tracks: Tracks }) {
  const [all, setAll] = useState(false);
  const { rows, at } = arenas;
  const notes = rows.some(whyOf);
  const shown = all ? rows : rows.slice(0, AT_ONCE);
  const columns: Column[] = notes ? [...COLUMNS, 'Why not known'] : COLUMNS;
  return (
    <section>
      <h2>
        malloc’s arenas{' '}
        <span class="dim">
          {count(rows.length)} at {clock(at - tracks.start)}, by what is not in use
        </span>{' '}
        <SqlLink to={sqlHref(sqlOf(tracks, at))} />
      </h2>
      <Scroll label="Arenas of malloc">
        <table class="top kinds arenas">
          <Head columns={columns} />
          <tbody>
            {shown.map((arena) => (
              <Row arena={arena} notes={notes} />
            ))}
            {rows.length > 1 && <Row arena={sumOf(rows)} notes={notes} total />}
          </tbody>
        </table>
      </Scroll>
      {shown.length < rows.length && (
        <button type="button" class="plain" onClick={() => setAll(true)}>
          {count(rows.length - shown.length)} more keep less
        </button>
      )}
    </section>
  );
}
