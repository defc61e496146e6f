// Filters of a selection, and conditions on the rows of a table.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exactly, filterOf, movedFilter, withFilter, withoutFilter } from '../src/app/filters';
import { compare, condition, sorted, toCsv, toMarkdown, toTsv } from '../src/parts/cells';

test('a filter stands once; there is one beginning or pivot', () => {
  assert.deepEqual(withFilter(['SS:a', 'HF:b'], 'SS:a'), ['HF:b', 'SS:a']);
  assert.deepEqual(withFilter(['SFF:a', 'HF:b'], 'P:c'), ['HF:b', 'P:c']);
  assert.deepEqual(withFilter(['P:a'], 'SS:a'), ['P:a', 'SS:a']);
});

test('what is typed names its kind, or has the chosen one', () => {
  assert.equal(filterOf('main', 'SS:'), 'SS:main');
  assert.equal(filterOf('!M:libc', 'SS:'), '!M:libc');
  assert.equal(exactly('a b'), '"a b"');
});

test('filters are moved and taken away', () => {
  assert.deepEqual(movedFilter(['a', 'b', 'c'], 0, 2), ['b', 'c', 'a']);
  assert.deepEqual(movedFilter(['a', 'b', 'c'], 2, 0), ['c', 'a', 'b']);
  assert.deepEqual(movedFilter(['a', 'b'], 0, 5), ['a', 'b']);
  assert.deepEqual(withoutFilter(['a', 'b', 'c'], 1), ['a', 'c']);
});

test('conditions on a column', () => {
  const passes = (text, values) => values.filter((v) => condition(text)(v));
  assert.deepEqual(passes('>1MiB', [1048576, 1048577, null, 'x']), [1048577]);
  assert.deepEqual(passes('<=10', [9, 10, 11]), [9, 10]);
  assert.deepEqual(passes('=2k', [2048, 2000]), [2048]);
  assert.deepEqual(passes('!=a', ['a', 'b', null]), ['b', null]);
  assert.deepEqual(passes('~^m.*n$', ['main', 'man', 'other']), ['main', 'man']);
  assert.deepEqual(passes('AI', ['main', 'other']), ['main']);
  assert.equal(condition('~['), null);
  assert.equal(condition('>soon'), null);
});

test('order: nothing, numbers, times beyond 2^53, text', () => {
  assert.deepEqual(['b', 2, null, 'a', 1].sort(compare), [null, 1, 2, 'a', 'b']);
  assert.equal(compare('9007199254740993', '9007199254740992'), 1);
  assert.deepEqual(
    sorted(
      [
        [1, 'b'],
        [2, 'a'],
        [1, 'a'],
      ],
      [
        { column: 0, down: true },
        { column: 1, down: false },
      ],
    ),
    [
      [2, 'a'],
      [1, 'a'],
      [1, 'b'],
    ],
  );
});

test('rows as text', () => {
  assert.equal(toTsv(['a'], [['x\ty'], [null]]), 'a\nx y\n\n');
  assert.equal(
    toCsv(
      ['a', 'b'],
      [
        ['=1+1', 'x"y'],
        [-5, '-5'],
      ],
    ),
    'a,b\n\'=1+1,"x""y"\n-5,-5\n',
  );
  assert.equal(toMarkdown([{ name: 'n', numeric: true }], [['a|b']]), '| n |\n|--:|\n| a\\|b |\n');
});
