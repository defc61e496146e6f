// What the SQL page does to queries and their results.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aggregate, pivot } from '../src/sql/pivot';
import { bind, pointed, sortedSql, suggest } from '../src/sql/sql-text';

test('$ts and $upid are put in, but not into texts, comments and functions', () => {
  const values = { ts: '5', upid: '2' };
  assert.equal(bind('select $ts, $upid', values), 'select 5, 2');
  assert.equal(bind("select '$ts' -- $ts", values), "select '$ts' -- $ts");
  assert.equal(
    bind('create perfetto function f(ts int) as select $ts', values),
    'create perfetto function f(ts int) as select $ts',
  );
});

test('a result in another order is asked for around the query', () => {
  assert.equal(
    sortedSql('select a from t;', [{ name: 'a"b', down: true }]),
    'select * from (\nselect a from t\n) order by "a""b" desc',
  );
  assert.equal(sortedSql('create table t(a)', [{ name: 'a', down: true }]), '');
});

test('where an error stands', () => {
  assert.deepEqual(pointed('no such column: fo', 'select 1,\n fo'), {
    message: 'no such column: fo',
    at: 11,
  });
  assert.equal(pointed('database is locked', 'select 1').at, null);
});

test('a name that was nearly written', () => {
  const schema = {
    tables: { stats: [], heap_graph_object: [] },
    columns: new Map(),
    functions: [],
    modules: [],
  };
  assert.equal(suggest('no such table: stat', schema), ' Did you mean stats?');
  assert.equal(suggest('no such table: something', schema), '');
});

test('rows are summed up by columns', () => {
  assert.deepEqual(
    ['sum', 'count', 'min', 'max', 'avg', 'p50', 'p95', 'distinct'].map((by) =>
      aggregate([3, 1, 1, null], by),
    ),
    [5, 4, 1, 3, 5 / 3, 1, 3, 2],
  );
  const p = pivot(
    [
      ['a', 'x', 1],
      ['a', 'y', 2],
      ['b', 'x', 4],
    ],
    { rows: [0], columns: [1], value: 2, by: 'sum' },
    new Set(),
  );
  assert.deepEqual(p.columns, [['x'], ['y']]);
  assert.deepEqual(
    p.rows.map((r) => [r.keys, r.cells, r.total]),
    [
      [['b'], [4, null], 4],
      [['a'], [1, 2], 3],
    ],
  );
  assert.deepEqual(p.total.cells, [5, 2]);
});
