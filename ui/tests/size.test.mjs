// What a browser has to fetch before the first page is there: the script and all that it imports, packed as
// the server sends it. Pages that are visited later come in scripts of their own.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

const DIST = join(process.cwd(), 'dist');
const MOST = 60_000;

test('the script that shows the overview is at most 60 KB packed', () => {
  const [, first] = /<script type="module" src="assets\/([^"]+)"/.exec(
    readFileSync(join(DIST, 'index.html'), 'utf8'),
  );
  const sizes = new Map();
  for (const open = [first]; open.length;) {
    const name = open.pop();
    if (sizes.has(name)) continue;
    const bytes = readFileSync(join(DIST, 'assets', name));
    sizes.set(name, gzipSync(bytes, { level: 9 }).length);
    for (const [, other] of bytes.toString().matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g)) open.push(other);
  }
  const all = [...sizes.values()].reduce((a, n) => a + n, 0);
  const list = [...sizes].sort((a, b) => b[1] - a[1]).map(([name, n]) => `${name} ${n}`);
  console.log(`${all} bytes packed in ${sizes.size} files`);
  assert.ok(sizes.size > 1, 'the imports are found');
  assert.ok(all <= MOST, `${all} bytes:\n${list.join('\n')}`);
});
