// Every name in every page: what a trace, a source file or a running program calls itself reaches the screen with its
// unseen characters made visible, in text and in attributes, and no markup of it becomes an element.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, dir, done, drawn, go, heapwise, here, serve, settled as answered, until } from './lib.mjs';

const MARK = 'QQQ', TURN = '\u202e'; // three bytes each, so that a trace stays one when they are exchanged
const [source, program] = [`src_${MARK}<b>.c`, `bin_${MARK}<b>`];
let server, page;

function run(cmd, ...args) {
  const r = spawnSync(cmd, args, { cwd: dir, encoding: 'utf8', timeout: 60_000 });
  assert.equal(r.status, 0, `${cmd} ${args.join(' ')}: ${r.stderr}`);
}
function turned(name) {
  const bytes = readFileSync(join(dir, name)).toString('latin1').replaceAll(MARK, Buffer.from(TURN).toString('latin1'));
  writeFileSync(join(dir, name), bytes, 'latin1');
  return join(dir, name);
}

before(async () => {
  copyFileSync(join(here, 'targets/names.c'), join(dir, source));
  run('cc', '-g', '-O1', '-fno-omit-frame-pointer', '-rdynamic', '-pthread', `-I${join(here, '../../include')}`, '-o', program, source);
  run(heapwise, 'record', '-q', '-i', '4096', '-c', '150ms', '--all-heaps', '--malloc-info', '100ms', '--smaps', '200ms', '--stack-mode', 'native-with-thread-names', '-o', 'native.trace', '--', `./${program}`);
  run(heapwise, 'record', '-q', '-i', '4096', '-c', '150ms', '--memory-infra', 'mixed.json', '--types', '--slices', '-o', 'mixed.trace', '--', `./${program}`);
  // Its first line is longer than before; only what is shown matters.
  writeFileSync(join(dir, source.replaceAll(MARK, TURN)), readFileSync(join(dir, source), 'utf8').replace('static size_t n_kept;', `static size_t n_kept; /* admin ${TURN} } if (a) { ${TURN} */`));
  copyFileSync(join(dir, program), join(dir, program.replaceAll(MARK, TURN)));
  writeFileSync(join(dir, 'folded'), `main;fn_${TURN}_<img src=x>;=cmd|' /C calc'!A0 100\nmain;javascript:alert(1) 50\n`);
  const files = ['native.trace', 'mixed.trace', 'mixed.json'].map(turned);
  server = await serve('--sources', dir, ...files, join(dir, 'folded'));
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('nav.side');
});
after(done);

/** Texts and attributes in which something unseen stands, and elements that only a name can have brought. */
const unsafe = () => page.evaluate(() => {
  const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
  const found = [];
  const where = (e) => `${e.closest('section[aria-label], [class]')?.className ?? ''} <${e.localName}>`;
  const seek = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  for (let n = seek.currentNode; n; n = seek.nextNode()) {
    if (n.nodeType === 3 && unseen.test(n.data)) found.push(`text ${JSON.stringify(n.data.slice(0, 90))} in ${where(n.parentElement)}`);
    for (const a of n.attributes ?? [])
      if (unseen.test(a.value) && !['value', 'd'].includes(a.name)) found.push(`${a.name}=${JSON.stringify(a.value.slice(0, 90))} of ${where(n)}`);
    if (n.nodeType === 1 && (n.getAttribute('src') === 'x' || /^javascript:/i.test(n.getAttribute('href') ?? ''))) found.push(`an element ${n.outerHTML.slice(0, 80)}`);
    if (n.nodeType === 1 && ['INPUT', 'TEXTAREA'].includes(n.tagName) && unseen.test(n.value)) found.push(`a field ${JSON.stringify(n.value.slice(0, 90))} in ${where(n)}`);
  }
  if (unseen.test(document.title)) found.push(`title ${JSON.stringify(document.title)}`);
  return [...new Set(found)];
});
const settled = async () => {
  await answered(page).catch(() => {}); // some pages go on asking
};

const fn = encodeURIComponent(`fn_${TURN}_caller`);
const every = [['home', ''], ['record', ''], ['live', ''], ['memory-internals', ''], ['settings', '']];
const ofTrace = [
  ['overview', ''], ['timeline', ''], ['flame', `&f=${fn}`], ['functions', `&fn=${fn}`], ['tree', ''], ['diff', ''], ['diff', '&by=total'], ['leaks', ''], ['sizes', ''], ['accounting', ''],
  ['memory-infra', ''], ['memory-infra', '&cell=0+malloc'], ['source', ''], ['source', `&fn=${fn}`], ['symbols', ''], ['info', ''],
];
const visible = () => page.evaluate(() => (document.body.textContent.match(/u202e/g) ?? []).length);

async function look(name, query, trace) {
  await go(page, `#!/${name}?trace=${trace}${query}`);
  await settled();
  const canvas = page.locator('main canvas').first();
  if (await canvas.count()) { // what the pointer shows
    await canvas.hover({ position: { x: 60, y: 60 }, timeout: 2000 }).catch(() => {});
    await drawn(page);
  }
  for (const d of await page.locator('main details:not([open]) > summary').all()) await d.click({ timeout: 1000 }).catch(() => {});
  assert.deepEqual(await unsafe(), [], `${name}${query} of trace ${trace}`);
  assert.deepEqual(page.problems, []);
  return visible();
}

for (const [trace, what] of [[1, 'a native profile'], [2, 'types and slices'], [3, 'memory dumps'], [4, 'folded stacks']])
  test(`pages of ${what}`, async () => {
    let seen = 0;
    for (const [name, query] of ofTrace) seen += await look(name, query, trace);
    assert.ok(seen > 5, `the names were there: ${seen}`);
  });

test('threads, slices and their details', async () => {
  await look('timeline', '', 2);
  for (let i = 0; i < 4; i++) // processes, then their threads
    for (const b of await page.locator('main [aria-expanded=false]').all()) await b.click({ timeout: 1000 }).catch(() => {});
  await settled();
  for (const c of (await page.locator('main canvas').all()).slice(0, 12))
    for (const y of [6, 20, 40]) {
      await c.hover({ position: { x: 200, y }, timeout: 500 }).catch(() => {});
      await c.click({ position: { x: 200, y }, timeout: 500 }).catch(() => {});
      await drawn(page);
      assert.deepEqual(await unsafe(), []);
    }
  await settled();
  assert.deepEqual(await unsafe(), []);
});

test('what a query answers', async () => {
  await look('query', '&sql=' + encodeURIComponent("select name, 9223372036854775807 as big, -9223372036854775807 - 1 as small, 9e999 as infinite, x'e280ae' as blob, char(0x202e) || name as turned from stack_profile_frame"), 1);
  await page.click('button:has-text("Run all")');
  await page.waitForSelector('main [role=grid], main table');
  await settled();
  assert.ok(await visible() > 0);
  assert.deepEqual(await unsafe(), []);
});

test('cells of a file for spreadsheets are no formulas', async () => {
  await look('query', '&sql=' + encodeURIComponent("select name, -5 as n, -9223372036854775807 as big from stack_profile_frame where name like '=%'"), 4);
  await page.click('button:has-text("Run all")');
  await page.waitForSelector('.grid-body [role=row]');
  await page.click('button:has-text("Save, copy")');
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:has-text("CSV")')]);
  assert.match(readFileSync(await file.path(), 'utf8'), /^name,n,big\n'=cmd\|.*,-5,-9223372036854775807\n$/);
});

test('a source file that reads otherwise than it compiles', async () => {
  await look('source', `&fn=${fn}`, 1);
  await page.waitForSelector('.code-row');
  assert.match(await page.textContent('main'), /admin.*u202e/);
  assert.deepEqual(await unsafe(), []);
});

test('programs that run', async () => {
  const child = spawn('bash', ['-c', `exec -a "$0" sleep 600`, `run_${TURN}<img src=x>`], { cwd: dir, stdio: 'ignore' });
  const recorded = spawn(heapwise, ['record', '-q', '-o', 'live.trace', '--', `./${program.replaceAll(MARK, TURN)}`], { cwd: dir, stdio: 'ignore' });
  try {
    await until('the recording', () => existsSync(join(dir, 'live.trace')));
    for (const [name, query] of every) await look(name, query, 1);
    await look('record', '', 1);
    await page.waitForFunction(() => document.body.textContent.includes('u202e'));
    assert.deepEqual(await unsafe(), []);
  } finally {
    child.kill();
    recorded.kill('SIGINT');
  }
});
