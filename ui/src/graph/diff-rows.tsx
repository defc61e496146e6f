// Functions that changed.
import { exactly } from '../app/filters';
import { count, growth, isUnknown, safe } from '../app/format';
import { go, place } from '../app/state';
import { addFilter } from '../parts/filters';
import { Scroll } from '../parts/table';
import { change, fate, figure, plusMinus, type Table } from './diff-figures';

const COLUMNS: [id: string, label: string, hint: string][] = [
  ['name', 'Function', 'matched by its name and the stem of its module'],
  ['a', 'A', 'baseline'],
  ['b', 'B', 'compared'],
  ['change', 'Change', 'B less A, with two standard errors of the change'],
  ['percent', 'Relative', 'the change as a share of A'],
];

/** The order that a click on the head of a column gives. */
const turned = (id: string, sort: string, order: string) =>
  sort === id ? (order === 'desc' ? 'asc' : 'desc') : id === 'name' ? 'asc' : 'desc';

function Head() {
  const [sort, order] = (place.value.sort || 'change desc').split(' ');
  return (
    <thead>
      <tr>
        {COLUMNS.map(([id, label, hint]) => (
          <th
            scope="col"
            class={id === 'name' ? '' : 'num'}
            aria-sort={sort === id ? (order === 'asc' ? 'ascending' : 'descending') : 'none'}>
            <button
              type="button"
              class="plain"
              title={hint}
              onClick={() => go({ sort: `${id} ${turned(id, sort, order)}` }, true)}>
              {label}
              {sort === id ? (order === 'asc' ? ' ▲' : ' ▼') : ''}
            </button>
          </th>
        ))}
        <th scope="col">Verdict</th>
      </tr>
    </thead>
  );
}

export function Rows({ table, busy, onMore }: { table: Table; busy: boolean; onMore(): void }) {
  return (
    <Scroll label="Differences" busy={busy}>
      <table class="top diff">
        <Head />
        <tbody>
          {table.data.map(([name, module, a, b, by, err, sure, na, nb, callers]) => (
            <tr class={sure ? '' : 'few'}>
              <td class="site">
                <button
                  type="button"
                  class="plain"
                  title="Keep stacks with this"
                  onClick={() => addFilter(`SS:${exactly(name)}`)}>
                  {safe(name)}
                </button>{' '}
                <span class="dim">
                  {safe([table.a.program, table.b.program].includes(module) ? '' : module)}
                </span>
                {callers.length > 0 && (
                  <div class="callers dim" title="of the stack with most of the change">
                    {callers.map(safe).join(' ‹ ')}
                  </div>
                )}
              </td>
              <td class="num" title={`${count(na)} samples`}>
                {a > 0 ? figure(a) : '–'}
              </td>
              <td class="num" title={`${count(nb)} samples`}>
                {b > 0 ? figure(b) : '–'}
              </td>
              <td class={`num ${by > 0 ? 'grew' : 'shrank'}`}>
                <b>
                  {by > 0 ? '▲' : '▼'} {change(by)}
                </b>
                <span class="pm">{plusMinus(err)}</span>
              </td>
              <td class="num">{growth(a, b) || '–'}</td>
              <td>
                {fate(a, b)}
                {sure || isUnknown(err) ? '' : <span class="dim"> · within the error</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {table.data.length < table.rows && (
        <p>
          <button type="button" onClick={onMore}>
            {count(table.rows - table.data.length)} more rows
          </button>
        </p>
      )}
    </Scroll>
  );
}
