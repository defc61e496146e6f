// The server's graphs: bytes as arrays, and what is asked of them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BrokenGraph,
  decode,
  errorOf,
  find,
  MERGED,
  moduleOf,
  nameOf,
  path,
  search,
} from '../src/graph/graph';
import { encode, SMALL } from './hfg.mjs';

test('a block of two functions below the root', () => {
  const g = decode(encode(SMALL));
  assert.equal(g.n, 4);
  assert.deepEqual([...g.cum], [100, 70, 50, 30]);
  assert.deepEqual([...g.begin], [0, 0, 0, 70]);
  assert.deepEqual(
    [nameOf(g, 0), nameOf(g, 2), moduleOf(g, 2), moduleOf(g, 0)],
    ['all', 'malloc_it', 'libx.so', ''],
  );
  assert.deepEqual([g.total, g.unfiltered, g.error, g.ts, g.interval], [100, 120, 3, 17, 4096]);
  assert.equal(g.a, undefined);
});

test('a difference has the figures of both sides', () => {
  const g = decode(encode({ ...SMALL, a: [90, 60, 40, 30], b: [100, 70, 50, 20] }));
  assert.deepEqual([...g.a], [90, 60, 40, 30]);
  assert.deepEqual([...g.b], [100, 70, 50, 20]);
  assert.equal(nameOf(g, 3), 'other');
});

test('counts have an error to show beside the one that adds up', () => {
  const g = decode(encode({ ...SMALL, shown: [4, 3, 3, 2] }));
  assert.deepEqual([...g.err], SMALL.err);
  assert.deepEqual([errorOf(g, 0), errorOf(g, 3)], [4, 2]);
  assert.equal(errorOf(decode(encode(SMALL)), 3), 1);
  assert.equal(nameOf(g, 3), 'other');
});

test('names that are no ASCII', () => {
  const g = decode(encode({ ...SMALL, strings: ['all', 'größe', '函数', 'm', '', ''] }));
  assert.deepEqual([nameOf(g, 1), nameOf(g, 2)], ['größe', '函数']);
});

test('what is cut, of another version, or points outside is refused', () => {
  const good = encode(SMALL);
  for (const n of [0, 8, 71, 72, 100, good.byteLength - 60])
    assert.throws(() => decode(good.slice(0, n)), BrokenGraph, `${n} bytes`);
  const bad = (change) => {
    const copy = structuredClone(SMALL);
    change(copy);
    assert.throws(() => decode(encode(copy)), BrokenGraph);
  };
  bad((g) => (g.parent[1] = 3));
  bad((g) => (g.parent[0] = 0));
  bad((g) => (g.end[1] = 1));
  bad((g) => (g.end[3] = 9));
  bad((g) => (g.name[2] = 99));
  bad((g) => (g.module[2] = 99));
  const version = encode(SMALL);
  new DataView(version).setUint32(4, 99, true);
  assert.throws(() => decode(version), /different versions/);
});

test('a path of names leads to its node and back', () => {
  const g = decode(encode(SMALL));
  assert.deepEqual(path(g, 2), ['main', 'malloc_it']);
  assert.equal(find(g, ['main', 'malloc_it']), 2);
  assert.equal(find(g, ['other']), 3);
  assert.equal(find(g, ['main', 'gone']), 0);
  assert.equal(find(g, []), 0);
});

test('a search counts each stack once', () => {
  const g = decode(encode(SMALL));
  assert.deepEqual(search(g, 'M'), { node: new Uint8Array([0, 1, 1, 0]), nodes: [1, 2], sum: 70 });
  assert.deepEqual(search(g, '/^other$/').nodes, [3]);
  assert.equal(search(g, '/[/'), null);
  assert.equal(search(g, ''), null);
  assert.deepEqual(search(decode(encode({ ...SMALL, flags: [0, 0, 0, MERGED] })), 'other').nodes, []);
});
