// Which dump a page compares with.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dumpBefore, dumpsOf } from '../src/app/times';

const dumps = (...times) => times.map((t) => (t < 0 ? { ts: -t, for_peak: true } : { ts: t }));

test('the dump before the last is no dump of the peak, and clearly before', () => {
  assert.deepEqual(dumpBefore(dumps(1000, 2000, 3000), 0), { ts: 2000 });
  assert.deepEqual(dumpBefore(dumps(1000, -2000, 3000), 0), { ts: 1000 });
  assert.equal(dumpBefore(dumps(-2000, 3000), 0), undefined);
  assert.deepEqual(dumpBefore(dumps(1000, 2990, 3000), 0), { ts: 1000 });
  assert.equal(dumpBefore(dumps(3000), 0), undefined);
  assert.equal(dumpBefore([], 0), undefined);
});

test('dumps of the peak are not counted', () => {
  assert.equal(dumpsOf(dumps(1000, -2000, 3000)), 2);
});
