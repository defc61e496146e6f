// Numbers, times and names as people read them.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import * as f from '../src/app/format';
import { marksBelow } from '../src/app/scale';

afterEach(() => (f.units.value = 'iec'));
const rows = (of, table) => table.forEach(([value, text]) => assert.equal(of(value), text, `${value}`));

test('bytes in three digits', () => {
  rows(f.bytes, [
    [0, '0 B'],
    [1023, '1\u202f023 B'],
    [1024, '1.00 KiB'],
    [10 * 1024, '10.0 KiB'],
    [100 * 1024, '100 KiB'],
    [1024 ** 2, '1.00 MiB'],
    [-1536, '−1.50 KiB'],
    [2 ** 60, '1024 PiB'],
  ]);
});

test('bytes in other units', () => {
  f.units.value = 'si';
  rows(f.bytes, [
    [1000, '1.00 kB'],
    [2_500_000, '2.50 MB'],
  ]);
  f.units.value = 'raw';
  rows(f.bytes, [[1_234_567, '1\u202f234\u202f567 B']]);
});

test('counts', () => {
  rows(f.count, [
    [999, '999'],
    [12_345, '12\u202f345'],
    [1_000_000, '1.00 M'],
    [2.5e9, '2.50 G'],
    [-5, '−5'],
  ]);
  assert.equal(f.of(1, 'dump'), '1 dump');
  assert.equal(f.of(2, 'process', 'processes'), '2 processes');
  assert.equal(f.amount(2048, 'space'), '2.00 KiB');
  assert.equal(f.amount(2048, 'objects'), '2\u202f048');
});

test('errors and shares', () => {
  assert.equal(f.error(5, 100), '±5.0 %');
  assert.equal(f.error(25, 100), '±25 %');
  assert.equal(f.error(0.04, 100), '±<0.1 %');
  assert.equal(f.error(0, 100), '');
  assert.equal(f.certainty(0, 100, 4096), 'exact');
  assert.equal(f.certainty(0, 100, 0), 'error unknown');
  for (const unknown of [null, Infinity]) assert.equal(f.certainty(unknown, 100, 4096), 'error unknown');
  assert.equal(f.error(1e20, 100), '±>999 %');
  assert.equal(f.percent(1, 3), '33.3 %');
  assert.equal(f.percent(1, 1e6), '<0.1 %');
  assert.equal(f.percent(1, 0), '–');
});

test('times', () => {
  rows(f.duration, [
    [5e5, '0.50 ms'],
    [0.5e9, '500 ms'],
    [1.5e9, '1.50 s'],
    [65e9, '1 m 5 s'],
    [3_700e9, '1 h 1 m'],
  ]);
  rows(f.clock, [
    [0, '00:00.00'],
    [61.5e9, '01:01.50'],
    [601e9, '10:01.0'],
    [-5, '00:00.00'],
  ]);
  assert.deepEqual(
    [1e9, 5e6, 2e3, 1].map((apart) => f.clock(61.5e9, apart)),
    ['01:01.50', '01:01.500', '01:01.500000', '01:01.500000000'],
  );
});

test('names: what cannot be seen is shown, what is long is cut in its middle', () => {
  assert.equal(f.safe('a\u202eb\n'), 'a\\u202eb\\x0a');
  assert.equal(f.base('/usr/lib/libx.so'), 'libx.so');
  assert.equal(f.fit('abcdefghij', 7), 'ab…ghij');
  assert.equal(f.fit('short', 7), 'short');
});

test('lines of a scale stand at round values', () => {
  assert.deepEqual(marksBelow(4.75 * 1024 ** 2, 3).map(f.round), ['2 MiB', '4 MiB']);
  assert.deepEqual(marksBelow(1.4 * 1024 ** 2, 3).map(f.round), ['512 KiB', '1 MiB']);
  assert.deepEqual(marksBelow(2600, 3, false).map(f.count), ['1\u202f000', '2\u202f000']);
  assert.deepEqual(marksBelow(1, 3), []);
  f.units.value = 'si';
  assert.deepEqual(marksBelow(34e6, 3).map(f.round), ['10 MB', '20 MB', '30 MB']);
});

test('growth: per cent, or how many times as much', () => {
  assert.equal(f.growth(100, 150), '+50.0 %');
  assert.equal(f.growth(100, 50), '−50.0 %');
  assert.equal(f.growth(10, 150), '×15.0');
  assert.equal(f.growth(1, 1638), '×1\u202f638');
  assert.equal(f.growth(0, 5), '');
});

test('few samples are rough only where the error is large', () => {
  assert.equal(f.isRough(3, 3, 1000), false); // "≈ ±0.3 %" contradicted itself
  assert.equal(f.isRough(3, 400, 1000), true);
  assert.equal(f.isRough(30, 400, 1000), false);
});
