// Where the boxes of a flamegraph stand.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromRows } from '../src/graph/from-rows';
import { decode } from '../src/graph/graph';
import { deepestDrawn, layout, ROW } from '../src/graph/layout';
import { encode, SMALL } from './hfg.mjs';

const g = decode(encode(SMALL));
const pane = (change = {}) => ({ zoom: 0, width: 1000, height: 400, top: 0, up: false, ...change });
const shape = (boxes) => boxes.map((b) => [b.node, b.x, b.w, b.y, b.merged]);

test('widths are shares of the root, children stand below their parent', () => {
  assert.deepEqual(shape(layout(g, pane())), [
    [0, 0, 1000, 0, 0],
    [1, 0, 700, ROW, 0],
    [2, 0, 500, 2 * ROW, 0],
    [3, 700, 300, ROW, 0],
  ]);
});

test('zoomed: what is above spans the width, what is beside is left out', () => {
  assert.deepEqual(shape(layout(g, pane({ zoom: 1 }))), [
    [1, 0, 1000, ROW, 0],
    [0, 0, 1000, 0, 0],
    [2, 0, (1000 * 50) / 70, 2 * ROW, 0],
  ]);
});

test('the root at the bottom', () => {
  assert.deepEqual(
    layout(g, pane({ up: true })).map((b) => b.y),
    [380, 360, 340, 360],
  );
});

test('rows out of sight are not laid out', () => {
  const nodes = (p) => layout(g, pane(p)).map((b) => b.node);
  assert.deepEqual(nodes({ height: ROW - 1 }), [0]);
  assert.deepEqual(nodes({ height: ROW, top: 2 * ROW }), [0, 1, 2, 3]);
});

test('narrow neighbours of one parent are one box', () => {
  const rows = [{ id: 0, parent: null, name: 'top', value: 0 }];
  for (let i = 1; i <= 10; i++) rows.push({ id: i, parent: 0, name: `f${i}`, value: 1 });
  rows.push({ id: 11, parent: 0, name: 'wide', value: 990 });
  const boxes = layout(fromRows(rows), pane());
  assert.deepEqual(
    boxes.filter((b) => b.merged).map((b) => [b.merged, Math.round(b.x), Math.round(b.w), b.y]),
    [[10, 990, 10, 2 * ROW]],
  );
});

test('nothing is drawn below a box that is too narrow', () => {
  assert.equal(deepestDrawn(g, 0, 1000), 2);
  assert.equal(deepestDrawn(g, 0, 5), 2); // 2.5 px: its row counts, what is below it does not
  assert.equal(deepestDrawn(g, 0, 3), 1);
});

test('rows of a query as a graph: the largest first, sums from below', () => {
  const t = fromRows([
    { id: 'a', parent: null, name: 'a', value: 1 },
    { id: 'b', parent: 'a', name: 'b', value: 2 },
    { id: 'c', parent: 'a', name: 'c', value: 5 },
    { id: 'none', parent: 'a', name: 'none', value: 0 },
  ]);
  const names = Array.from({ length: t.n }, (_, i) => t.string(t.name[i]));
  assert.deepEqual(names, ['all', 'a', 'c', 'b']);
  assert.deepEqual([...t.cum], [8, 8, 5, 2]);
  assert.deepEqual([...t.end], [4, 4, 3, 4]);
  assert.throws(
    () =>
      fromRows([
        { id: 1, parent: 2, name: '', value: 1 },
        { id: 2, parent: 1, name: '', value: 1 },
      ]),
    /circle/,
  );
  assert.throws(
    () =>
      fromRows([
        { id: 1, parent: null, name: '', value: 1 },
        { id: 1, parent: null, name: '', value: 1 },
      ]),
    /same id/,
  );
});
