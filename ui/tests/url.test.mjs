// The URL is the state: what an address says, and what is written of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changed, format, fresh, parse } from '../src/app/url/place';

test('an address that is read and written again is the same', () => {
  for (const address of [
    '#!/',
    '#!/live/4711',
    '#!/flame?trace=1&upid=2&with=3%2C4&heap=libc.malloc&at=123&from=100&metric=objects&frames=all&invert=1&zoom=a%1Fb&f=SS%3A%22x%22&f=M%3Alib',
    '#!/heap?trace=2&tab=objects&graph=5&heapmetric=object_count&cls=a.B&cut=r1%2Co2',
    '#!/memory-infra?trace=1&dump=-5&cell=3+malloc&dims=types',
  ])
    assert.equal(format(parse(address)), address);
});

test('no address is no wish; an empty one is Home', () => {
  assert.equal(parse('').page, '');
  assert.equal(parse('#!/').page, 'home');
  assert.equal(parse('#nothing').page, '');
});

test('what makes no sense is as if it were not there', () => {
  const p = parse(
    '#!/flame/x?trace=-3&upid=abc&at=soon&metric=none&frames=no&group=thread&theme=pink&f=&max=yes&cut=z9&unknown=1',
  );
  assert.deepEqual(p, { ...parse('#!/flame'), trace: 0 });
  assert.equal(format(p), '#!/flame');
});

test('what is left as it is needs no place in the address', () => {
  assert.equal(format({ ...parse('#!/flame'), metric: 'space', upid: null, filters: [] }), '#!/flame');
  assert.equal(format({ ...parse('#!/flame'), upid: 0 }), '#!/flame?upid=0');
});

test('another page has its own number, open row and form', () => {
  const p = parse('#!/live/7?open=x&form=y&metric=objects');
  assert.equal(format(changed(p, { page: 'leaks' })), '#!/leaks?metric=objects');
  assert.equal(format(changed(p, { metric: 'space' })), '#!/live/7?open=x&form=y');
});

test('another trace keeps what is no part of the one before', () => {
  const p = parse('#!/flame?trace=1&upid=2&at=5&zoom=a&tab=x&metric=objects&theme=dark&sort=name&f=SS%3Ax');
  assert.equal(format({ ...p, ...fresh, trace: 2 }), '#!/flame?trace=2&metric=objects&sort=name&theme=dark');
});
