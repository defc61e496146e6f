// A page that was saved as a file (`convert -t page`): it shows what the server shows, asks nobody, runs nothing
// that a name brings, and is small.
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { browse, cli, dir, done, drawn, heapwise, here, inspect, record, run, serve, settled, soon, visit } from './lib.mjs';

let server, live, file, requests, trace;

async function open(path) {
  const page = await browse();
  requests = [];
  page.on('request', (r) => requests.push(r.url()));
  await page.goto(pathToFileURL(path).href);
  return page;
}
before(async () => {
  trace = record();
  cli('convert', '-t', 'page', trace, 'saved.html');
  server = await serve(trace);
  live = await browse();
  await live.goto(server.url);
  await live.waitForSelector('.figures');
  file = await open(join(dir, 'saved.html'));
  await file.waitForSelector('.figures');
  await settled(file);
});
after(done);

/** What stands on the page, without what only a server offers. */
const shown = (page) => page.evaluate(() => {
  const main = document.querySelector('main').cloneNode(true);
  for (const e of main.querySelectorAll('a[href^="#!/query"], .rest, button, select, input, .filters, .missing, .popover, .tabs')) e.remove();
  return main.textContent.replace(/\s+/g, ' ').trim();
});

const moments = async () => (await (await server.ask('/api/v1/traces/1/timeline')).json()).processes[0].moments;
async function same(name, query = '') {
  await visit(live, name, query);
  await visit(file, name, query);
  const text = await shown(file);
  assert.equal(text, await shown(live), `${name}${query}`);
  assert.ok(text.length > 20, text);
  return text;
}

test('every page shows what the server shows', async () => {
  assert.match(await same('overview'), /Live at the/);
  await same('timeline');
  await same('leaks');
  await same('accounting');
  for (const query of ['&who=self', '&who=total', '&who=self&metric=alloc_space']) assert.match(await same('timeline', query), /load_table/);
  assert.deepEqual(file.problems, []);
});

test('the flamegraph of every dump in every metric', async () => {
  const all = await moments();
  assert.ok(all.length > 3);
  const metrics = ['space', 'objects', 'alloc_space', 'alloc_objects'];
  for (const [i, m] of all.entries()) await same('flame', `&at=${m.ts}&metric=${metrics[i % 4]}`);
  for (const metric of metrics) await same('flame', `&at=peak&metric=${metric}`);
  await same('flame', '&invert=1');
  await same('tree');
  await same('timeline', `&from=${all[1].ts}&at=${all[2].ts}&metric=alloc_space`);
});

test('boxes are those of the server', async () => {
  const [{ ts }] = (await moments()).slice(-1);
  const boxes = (page) => page.evaluate(() => [...document.querySelectorAll('.flame [role=treeitem], .flame [aria-label]')].map((e) => e.getAttribute('aria-label')));
  for (const name of ['flame', 'diff']) {
    await same(name, `&at=${ts}`);
    assert.deepEqual(await boxes(file), await boxes(live));
  }
});

test('a difference, its order and what is looked for', async () => {
  assert.match(await same('diff'), /Change/);
  await same('diff', '&by=total&all=1');
  await same('diff', '&sort=name+asc&all=1');
  await same('diff', '&match=table&all=1');
});

/** The graph as it is drawn: every box, its place, width, colour and name. */
const picture = async (page) => {
  await page.locator('.flame canvas').first().waitFor();
  await drawn(page);
  return page.$eval('.flame canvas', (c) => c.toDataURL());
};

test('filters, groups, pivots, bottom-up and collapsed recursion are those of the server', async () => {
  const all = await moments();
  const f = (...list) => list.map((x) => `&f=${encodeURIComponent(x)}`).join('');
  const questions = [f('SS:cache'), f('HS:"load_table"'), f('HF:main'), f('SFF:main'), f('SF:/^(main|recurse)$/'), f('P:"recurse"'), f('M:grow'), f('!M:/libc/'),
    f('HM:libc', 'SS:/CACHE|recurse/i'), f('SS:nowhere'), '&group=module', '&group=owner', `&group=owner${f('HS:load_table')}`, '&collapse=1', '&invert=1', `&invert=1${f('HF:main')}`];
  for (const [i, q] of questions.entries()) {
    const at = `&at=${all[1 + (i % (all.length - 1))].ts}&metric=${['space', 'objects', 'alloc_space', 'alloc_objects'][i % 4]}`;
    const text = await same('flame', at + q);
    if (q.includes('nowhere')) assert.match(text, /Filters hide 100 %/);
    if (!/Filters hide 100 %/.test(text)) assert.equal(await picture(file), await picture(live), q);
    await same('tree', at + q.replace(/&group=\w+/, ''));
  }
  for (const [filter, words] of [['SS:/(/', /regular expression/], ['!P:main', /cannot be inverted/], ['T:x', /no threads/]]) {
    await visit(file, 'flame', f(filter));
    await file.waitForSelector('.filters [role=alert]');
    assert.match(await file.textContent('.filters [role=alert]'), words);
  }
  // By hand: what a frame's panel and menu offer.
  await visit(file, 'flame');
  await file.locator('.flame canvas').first().focus();
  for (const k of ['Home', ...Array(5).fill('ArrowDown')]) await file.keyboard.press(k);
  await file.click('.frame-panel button:text-is("Hide")');
  await file.waitForSelector('.chip:has-text("HS:")');
  await file.waitForFunction(() => /root .* of /.test(document.querySelector('.explorer').textContent));
  assert.deepEqual(file.problems, []);
});

test('any two dumps are compared, also filtered, as shares, by name', async () => {
  const all = await moments();
  const [a, b] = [all[1].ts, all[2].ts]; // a pair that the file does not hold
  const base = (ts) => `&base=${encodeURIComponent(`at=${ts}`)}`;
  for (const metric of ['space', 'objects', 'alloc_space', 'alloc_objects'])
    for (const q of ['', '&by=total', '&all=1']) assert.match(await same('diff', `&at=${b}${base(a)}&metric=${metric}${q}`), /Change|same/);
  for (const q of ['&mode=share&all=1', '&mode=rate&all=1', '&key=name&all=1', `&f=${encodeURIComponent('SS:cache')}&all=1`])
    await same('diff', `&at=${b}${base(a)}${q}`);
  await same('diff', `&at=${a}${base(b)}&all=1`); // backwards in time
  await same('diff', `&at=${b}${base(a)}&open=sides`);
});

test('a managed heap is in the file: sums, classes in any order, graphs, strings', async () => {
  const shop = join(here, '../../samples/shop.trace.gz');
  cli('convert', '-t', 'page', shop, 'shop.html');
  assert.ok(statSync(join(dir, 'shop.html')).size <= 3_000_000);
  const other = await serve(shop);
  const there = await browse();
  await there.goto(other.url);
  await there.waitForSelector('.figures');
  const alone = await open(join(dir, 'shop.html'));
  await alone.waitForSelector('.figures');
  const { dumps } = await (await other.ask('/api/v1/traces/1/heap/dumps')).json();
  const contents = ['strings', 'arrays'].filter((t) => dumps.at(-1)[t]);
  const queries = [...['', 'flame', 'classes', ...contents].map((t) => `&tab=${t}`),
    ...['object_count', 'dominated_size', 'dominated_count'].map((m) => `&tab=flame&heapmetric=${m}`), '&tab=classes&match=Picture'];
  for (const q of queries) {
    for (const p of [there, alone]) await visit(p, 'heap', q);
    if (q.includes('tab=flame')) for (const p of [there, alone]) await p.waitForSelector('.flame canvas');
    assert.equal(await shown(alone), await shown(there), q);
    if (q.includes('tab=flame')) assert.deepEqual(await alone.textContent('.flame canvas'), await there.textContent('.flame canvas'));
  }
  for (const p of [there, alone]) {
    await visit(p, 'heap', '&tab=classes');
    await p.click('.grid-head button:has-text("Class")');
    await settled(p);
    await drawn(p);
  }
  await soon(async () => assert.equal(await shown(alone), await shown(there)));
  await visit(alone, 'heap', '&tab=objects');
  await alone.waitForSelector('text=This view is not in this file');
  assert.deepEqual(await inspect(alone, 'saved-heap', () => visit(alone, 'heap')), []);
  assert.deepEqual([...alone.problems, ...there.problems], []);
  await other.stop();
});

test('what is not in the file says so', async () => {
  await visit(file, 'flame', '&frames=all');
  await file.waitForSelector('text=does not hold the answer');
  await visit(file, 'query');
  await file.waitForSelector('text=is not in this file');
  await visit(file, 'flame', `&f=${encodeURIComponent('H:libc')}`);
  await file.waitForSelector('text=does not hold each heap');
  for (const label of ['SQL', 'Record', 'Symbols', 'Functions', 'Home'])
    assert.equal(await file.locator(`nav a:has-text("${label}")`).count(), 0, label);
  assert.deepEqual(await file.locator('nav .group').evaluateAll((l) => l.map((e) => [e.getAttribute('aria-label'), e.querySelectorAll('a').length > 0])),
    [['Explore', true]], 'a group without a page has no heading');
});

test('no request but for the file itself; nothing runs that a name brings', async () => {
  await visit(file, 'flame');
  assert.deepEqual(requests.filter((u) => !u.startsWith('file:') && !u.startsWith('blob:')), []);
  assert.deepEqual(file.problems, []);
  const html = readFileSync(join(dir, 'saved.html'), 'utf8');
  assert.ok(!html.includes('alert(1)'), 'names are in the packed answers only');
  assert.match(html, /default-src 'none'; script-src 'sha256-/);
  // A script that somebody adds is not run.
  writeFileSync(join(dir, 'evil.html'), html.replace('<div id="app">', '<script>document.title="evil"</script><img src=x onerror="document.title=\'evil\'"><div id="app">'));
  const page = await open(join(dir, 'evil.html'));
  await page.waitForSelector('.figures');
  assert.ok(!(await page.title()).includes('evil'));
});

test('both themes, both sizes', async () => {
  assert.deepEqual(await inspect(file, 'saved-overview', () => visit(file, 'overview')), []);
});

test('a tree of 50,000 functions is at most 3 MB', async () => {
  const lines = [];
  for (let i = 0; i < 50_000; i++) lines.push(`main;layer_${i % 7};module_${i % 211}::part_${i % 1709};function_number_${i} ${1000 + ((i * 7919) % 100_003)}`);
  writeFileSync(join(dir, 'large.folded'), `${lines.join('\n')}\n`);
  run(heapwise, ['convert', '-t', 'page', 'large.folded', 'large.html'], { timeout: 300_000 });
  const { size } = statSync(join(dir, 'large.html'));
  console.log(`${size} bytes`);
  assert.ok(size <= 3_000_000, String(size));
  const page = await open(join(dir, 'large.html'));
  await page.waitForSelector('.figures');
  await visit(page, 'flame');
  assert.match(await page.textContent('.statement'), /Live at .* GiB/);
});

test('a file that was cut says so', async () => {
  const html = readFileSync(join(dir, 'saved.html'), 'utf8');
  const at = html.indexOf('id="answers">') + 13;
  writeFileSync(join(dir, 'cut.html'), html.slice(0, at) + html.slice(at, at + 400) + html.slice(html.indexOf('</script>', at)));
  const page = await open(join(dir, 'cut.html'));
  await page.waitForSelector('text=cannot be shown');
});
