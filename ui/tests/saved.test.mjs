// What a saved page makes of the graphs that it holds: filters as the server has them, trees of what is left.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { childrenNear } from '../src/graph/frame-tree';
import { decode, nameOf, path } from '../src/graph/graph';
import { flameOf } from '../src/saved/made';
import { BadFilter, filtersOf, narrowed, patternOf } from '../src/saved/narrow';
import { NotWhole } from '../src/saved/stacks';
import { encode, SMALL } from './hfg.mjs';

test('patterns: text in either case, whole names, POSIX expressions', () => {
  const is = (pattern, text) => patternOf(pattern)(text);
  assert.ok(is('MAIN', 'my_main') && !is('"main"', 'my_main') && is('"main"', 'main'));
  assert.ok(is('/^ma[[:alpha:]]n$/', 'main') && !is('/^ma[[:digit:]]n$/', 'main') && is('/MAIN/i', 'main'));
  assert.ok(
    is('/a[.]b/', 'a.b') &&
      !is('/a[.]b/', 'axb') &&
      is('/[]x]/', ']') &&
      is('/[^]x]/', 'a') &&
      !is('/[^]x]/', ']'),
  );
  assert.ok(is('/a[\\\\.]b/', 'a\\b'), 'a backslash in brackets is a letter');
  assert.throws(() => patternOf('/(/'), BadFilter);
  assert.throws(() => patternOf(''), BadFilter);
});

test('filters apply in order', () => {
  const fns = ['main', 'work', 'work', 'alloc'].map((name, i) => ({
    name,
    module: i === 3 ? '/lib/libc.so' : '/bin/app',
    flags: 0,
  }));
  const left = (...texts) => narrowed(filtersOf(texts, fns, null), [0, 1, 2, 3]);
  assert.deepEqual(left('SS:work').path, [0, 1, 2, 3]);
  assert.equal(left('!SS:work'), null);
  assert.equal(left('HS:alloc'), null);
  assert.equal(left('!alloc'), null, 'without a kind it is hidden');
  assert.deepEqual(left('HF:work').path, [0, 3]);
  assert.deepEqual(left('SF:work').path, [1, 2]);
  assert.deepEqual(left('SFF:work', 'HF:alloc').path, [1, 2]);
  assert.deepEqual(left('P:work'), { path: [0, 1, 2, 3], pivot: 1 });
  assert.deepEqual(left('HF:main', 'P:work'), { path: [1, 2, 3], pivot: 0 });
  assert.equal(left('P:work', 'HF:work'), null, 'a later filter took the pivot away');
  assert.equal(left('HM:libc'), null);
  assert.deepEqual(left('M:libc').path, [0, 1, 2, 3]);
  for (const bad of [['!P:x'], ['SFF:a', 'P:b'], ['T:x'], ['TY:x'], ['H:x']])
    assert.throws(() => left(...bad), BadFilter, String(bad));
  const program = { shown: 'redis-server', file: '/usr/bin/redis-check-rdb' };
  const own = [{ name: 'redis-server+0x10', module: 'redis-server', flags: 0 }];
  for (const f of ['SS:redis-check-rdb+0x10', 'SS:redis-server', 'M:/usr/bin/', 'M:redis-server'])
    assert.ok(narrowed(filtersOf([f], own, program), [0]), f);
});

/** Errors that its stacks share out. */
const WHOLE = { ...SMALL, err: [3, Math.sqrt(8), 2, 1] };

const made = (q, graph = WHOLE) => {
  const bytes = flameOf(decode(encode(graph)), new URLSearchParams(q), null);
  const g = decode(bytes);
  return Array.from(
    { length: g.n },
    (_, i) => `${'  '.repeat(g.depth[i])}${nameOf(g, i)} ${g.cum[i]} ${g.self[i]} ${g.samples[i]}`,
  );
};

test('a graph is made again of its stacks', () => {
  assert.deepEqual(made(''), ['all 100 0 10', '  main 70 20 7', '    malloc_it 50 50 5', '  other 30 30 3']);
  assert.deepEqual(made('filters=HF:main'), ['all 100 20 10', '  malloc_it 50 50 5', '  other 30 30 3']);
  assert.deepEqual(made('invert=1'), [
    'all 100 0 10',
    '  malloc_it 50 0 5',
    '    main 50 50 5',
    '  other 30 30 3',
    '  main 20 20 2',
  ]);
  assert.deepEqual(made('invert=1&min_share=0.4'), [
    'all 100 0 10',
    '  malloc_it 50 0 5',
    '    main 50 50 5',
    '  (2 small ones) 50 50 5',
  ]);
  assert.deepEqual(made('filters=P:malloc_it&part=callers'), [
    'all 50 0 5',
    '  malloc_it 50 0 5',
    '    main 50 50 5',
  ]);
  assert.deepEqual(made('group=module'), [
    'all 100 0 10',
    '  libx.so 50 0 5',
    '    main 50 0 5',
    '      malloc_it 50 50 5',
    '  unknown 50 0 5',
    '    other 30 30 3',
    '    main 20 20 2',
  ]);
  assert.deepEqual(made('filters=nowhere'), ['all 0 0 0']);
  assert.equal(flameOf(decode(encode(WHOLE)), new URLSearchParams('group=heap'), null), null);
  assert.throws(() => made('', { ...WHOLE, flags: [0, 0, 0, 1] }), NotWhole, 'small parts are merged in it');
  assert.throws(() => made('', SMALL), NotWhole, 'its error is more than that of its stacks');
});

test('errors of what filters leave are as exact as the graph', () => {
  // Beside a stack with a large error, main's own part has a small one, and another none at all.
  const err = [Math.sqrt(1e12 + 9), Math.sqrt(1e12 + 9), 1e6, 0];
  const errors = (q) => {
    const g = decode(flameOf(decode(encode({ ...SMALL, err })), new URLSearchParams(q), null));
    return Array.from(g.err);
  };
  assert.deepEqual(errors('filters=HS:malloc_it\nHS:main'), [0, 0]);
  const [all] = errors('filters=HS:malloc_it');
  assert.ok(Math.abs(all - 3) < 1e-3, String(all));
});

test('siblings near a frame: each with its place, however many there are', () => {
  const n = 1000;
  const g = decode(
    encode({
      ...SMALL,
      parent: [-1, ...Array(n).fill(0)],
      end: [n + 1, ...Array.from({ length: n }, (_, i) => i + 2)],
      depth: [0, ...Array(n).fill(1)],
      ...Object.fromEntries(
        ['name', 'module', 'flags', 'self', 'cum', 'samples', 'err'].map((k) => [k, Array(n + 1).fill(1)]),
      ),
    }),
  );
  const near = childrenNear(g, 0, 500);
  assert.equal(near.find((x) => x.node === 500).place, 500);
  assert.ok(near.length <= 25 && near.every((x) => x.of === n));
  assert.deepEqual(
    childrenNear(g, 0).map((x) => x.place),
    Array.from({ length: 12 }, (_, i) => i + 1),
  );
  assert.deepEqual(childrenNear(g, 1), []);
  assert.deepEqual(path(g, 1), ['main']);
});
