// The MemoryInfra page: figures against the command line and the file's own, keys, what survives a change
// of dump, traces recorded here. HW_SHOTS=dir keeps screenshots.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, cli, dir, done, here, inspect, part, record, serve, settled, soon, until, visit } from './lib.mjs';

const golden = (name) => join(here, '../golden/memory_infra', name === 'v2_second.json' ? 'inputs' : 'cases', name);
let server, page, recorded;

before(async () => {
  recorded = record('grow.trace', '-c', '250ms', '--malloc-info', '100ms', '--smaps', '200ms');
  server = await serve(golden('v2.json'), golden('processes.json'), recorded, golden('v2_second.json'));
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('nav.side');
});
after(done);

const at = (query = '', trace = 1) => visit(page, 'memory-infra', query, trace);
const about = async (query, trace = 1) => (await server.ask(`/api/v1/traces/${trace}/infra/${query}`)).json();
const lines = () => page.locator('.infra-tree [role=treeitem]').evaluateAll((all) => all.map((x) => [...x.children].map((c) => c.textContent.replace(/\s+/g, ' ').trim()).join(' | ')));
/** heapwise infra: lines of bytes, objects, place. */
const said = (...args) => cli('infra', '-q', ...args).trim().split('\n').slice(1).map((l) => l.trim().split(/\s+/));

test('the table: cells are effective sizes and totals of the file', async () => {
  await at();
  const cells = await page.locator('table.infra tbody tr').first().evaluate((tr) => [...tr.cells].map((c) => c.textContent.trim()));
  const heads = await page.locator('table.infra thead th').allTextContents();
  assert.deepEqual(heads.map((h) => h.replace(/ [▴▾]$/, '')), ['Process', 'malloc', 'tracing', 'resident', 'peak resident', 'PSS', 'private dirty', 'swapped']);
  assert.match(cells[0], /^demo \(100\) a,b$/);
  // 0x120000 − 0x2000 of tracing; 0x2000; 0xa00000; 0xb00000; 0x2000
  assert.deepEqual(cells.slice(1, 6), ['1.12 MiB☰', '8.00 KiB', '10.0 MiB', '11.0 MiB', '8.00 KiB']);
  const [[effective]] = await server.sql("select n.effective_size from memory_snapshot_node n where path = 'malloc' order by n.id desc limit 1");
  assert.equal((await about('table')).rows[0].cells[0].now, effective);
});

test('only where there are memory dumps', async () => {
  const shown = () => page.locator('nav.side a[aria-label=MemoryInfra]').count();
  await at();
  assert.equal(await shown(), 1);
  const native = record('native.trace');
  const opened = await (await server.ask(`/api/v1/traces?path=${native}`, { method: 'POST' })).json();
  await page.waitForFunction(() => /native\.trace/.test(document.querySelector('header select')?.textContent ?? ''));
  await visit(page, 'overview', '', opened.id);
  await page.waitForFunction(() => document.title.startsWith('native.trace') && document.querySelector('.figures'));
  await until('the page is not offered', async () => (await shown()) === 0);
  await server.ask(`/api/v1/traces/${opened.id}`, { method: 'DELETE' });
  await at();
});

test('a figure of another dump is not told as one of this', async () => {
  const t = await about('table?dump=200000000');
  assert.deepEqual(t.columns.map((c) => c.name), ['malloc', 'tracing', 'resident']);
});

test('heap details are those of the command, in each order', async () => {
  await at();
  await page.locator('table.infra .menu-cell').click();
  await page.waitForSelector('.infra-tree [role=treeitem]');
  await settled(page);
  for (const [dims, by, first] of [['both', 'backtrace,type', /ƒfunction: main$/], ['frames', 'backtrace', /ƒfunction: main$/], ['types', 'type,backtrace', /Ttype: Node$/]]) {
    const want = said('--by', by, '--max-depth', '1', golden('v2.json'));
    const q = `details?upid=0&heap=malloc&by=${dims}`;
    const have = await about(q);
    assert.deepEqual([have.path[0], ...have.rows].map((r) => [String(r.size), String(r.count)]), want.map((w) => w.slice(0, 2)), by);
    await at(`&cell=0+malloc${dims === 'both' ? '' : `&dims=${dims}`}`);
    assert.equal((await lines()).length, want.length);
    assert.match((await lines())[1], first);
  }
  const whole = await about('details?upid=0&heap=malloc&dump=200000000');
  assert.deepEqual([whole.path[0].size, whole.path[0].count], [406064, 2004]); // the file's sums
});

test('keys: open, close, make it the root, back', async () => {
  await at('&cell=0+malloc');
  await page.locator('.infra-tree [role=tree]').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await settled(page);
  const open = await lines();
  assert.ok(open.some((l) => /parse$/.test(l)), open.join('\n'));
  await page.keyboard.press('Enter');
  await settled(page);
  assert.match((await lines())[0], /main$/);
  await soon(async () => assert.match(await page.textContent('.crumbs'), /malloc › ƒmain/));
  await page.keyboard.press('Backspace');
  await settled(page);
  assert.match((await lines())[0], /malloc$/);
  assert.equal(await page.locator('.infra-tree [aria-selected=true]').count(), 1);
  await page.keyboard.press('End');
  await soon(async () => assert.equal(await page.locator('.infra-tree [role=treeitem]').last().getAttribute('aria-selected'), 'true'));
});

test('order, what is open and the chosen row survive a change of dump', async () => {
  await at('&cell=0+malloc&order=malloc-');
  const tree = page.locator('.infra-tree [role=tree]');
  await tree.focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown'); // main, opened before
  if (!(await lines()).some((l) => /parse$/.test(l))) await page.keyboard.press('ArrowRight');
  await settled(page);
  await page.keyboard.press('ArrowDown');
  const chosen = () => page.locator('.infra-tree [aria-selected=true]').evaluate((x) => x.lastElementChild.textContent);
  const before = await chosen();
  assert.match(before, /parse/);
  await page.locator('.m').first().click();
  await settled(page);
  assert.equal(await chosen(), before);
  assert.ok((await lines()).some((l) => /391 KiB \| 2\s?000 \| .*parse$/.test(l)), (await lines()).join('\n'));
  assert.equal(await page.locator('table.infra thead th').nth(1).getAttribute('aria-sort'), 'descending');
});

test('ctrl+click: changes in every cell and in the details', async () => {
  await at('&cell=0+malloc');
  await page.locator('.m').first().click({ modifiers: ['Control'] });
  await settled(page);
  const cells = await page.locator('table.infra tbody tr').first().evaluate((tr) => [...tr.cells].map((c) => c.textContent.trim()));
  assert.deepEqual(cells.slice(1, 5), ['+572 KiB☰', '+4.00 KiB', '+2.00 MiB', '–']); // no peak was told before
  const want = said('--diff', '1', '--max-depth', '1', golden('v2.json'));
  const have = await about('details?upid=0&heap=malloc&base=200000000');
  assert.deepEqual([have.path[0], ...have.rows].map((r) => r.size - r.size_before), want.map((w) => Number(w[0])));
  assert.match((await lines())[0], /^\+635 KiB \| \+4\s999/);
  await page.locator('.m').first().click({ modifiers: ['Control'] });
  await settled(page);
  assert.doesNotMatch((await lines())[0], /\+/);
});

test('ctrl+click on another cell: another process, another heap; and another file', async () => {
  const q = 'details?upid=0&heap=malloc&rule=all&by=frames';
  const figures = (d) => [d.path[0], ...d.rows].map((r) => r.size - (r.size_before ?? 0));
  const want = (...args) => said('--by', 'backtrace', '--max-depth', '1', '--other', 'all', '--pid', '1', '--heap', 'malloc', ...args, golden('processes.json')).map((w) => Number(w[0]));
  assert.deepEqual(figures(await about(`${q}&base_upid=1`, 2)), want('--diff-pid', '2'));
  assert.deepEqual(figures(await about(`${q}&base_upid=1&base=1000000`, 2)), want('--diff-pid', '2', '--diff', 'first'));
  const custom = await about(`${q}&base_heap=custom&dump=1000000`, 2);
  assert.deepEqual([custom.path[0].size, custom.path[0].size_before], [100, 50]);
  // the same pid of another file; no such pid but a name and labels (both have none); a process of its own
  const file = await about('details?upid=0&heap=malloc&dump=200000000&base_trace=4');
  assert.deepEqual([file.path[0].size, file.path[0].size_before], [406064, 1056000]);
  const named = await about('details?upid=0&heap=malloc&base_trace=2&base_upid=1');
  assert.equal(named.path[0].size_before, 600);
  for (const wrong of ['base_trace=2', 'base_trace=2&base_upid=9', 'base_upid=x', 'base_trace=4&base=7'])
    assert.equal((await server.ask(`/api/v1/traces/1/infra/details?upid=0&heap=malloc&${wrong}`)).status, 400, wrong);
  assert.equal((await server.ask('/api/v1/traces/1/infra/details?upid=0&heap=malloc&base_trace=77')).status, 404);
  const large = await about('large?upid=0&heap=malloc&base_upid=1&min_size=1', 2);
  assert.deepEqual(large.map((r) => [r.size, r.stackframes[0]]), [[500, 'deep'], [100, 'mainA']]);

  await at('&cell=0+malloc', 2);
  const cells = page.locator('table.infra .menu-cell');
  await cells.filter({ has: page.locator('xpath=self::*[contains(@aria-label, "malloc")][contains(@aria-label, " 2;")]') }).click({ modifiers: ['Control'] });
  await settled(page);
  assert.match(await page.textContent('.infra-page h2'), /against malloc of process \(2\)/);
  assert.match((await lines())[0], /^0 B \| \+1 /);
  await page.locator('text=Stop comparing with 2').click();
  await settled(page);
  assert.match((await lines())[0], /^600 B \| 2 /);
  await at('&cell=0+malloc&dump=200000000', 1);
  await page.selectOption('select[aria-label="Compare with a file"]', { value: '4' });
  await settled(page);
  assert.match(await page.textContent('.infra-page h2'), /against the end of v2_second\.json/);
  assert.match((await lines())[0], /^-635 KiB|^−635 KiB/);
});

test('what diff_heap_profiler draws opens without a server', async () => {
  cli('diff_heap_profiler', '--flame-graph', golden('v2.json'), golden('v2_second.json'));
  const other = await page.context().newPage();
  const said = [];
  other.on('console', (m) => m.type() === 'error' && said.push(m.text()));
  await other.goto(`file://${join(dir, 'output/graph/index.html')}`);
  assert.match(await other.textContent('tbody'), /100demoa,bmalloc25000/);
  await other.click('text=malloc');
  const frame = other.frameLocator('iframe');
  await frame.locator('canvas, svg, table').first().waitFor();
  await soon(async () => assert.match(await frame.locator('body').textContent(), /parse/));
  assert.deepEqual(said, []);
  await other.close();
});

test('<other> says what it stands for', async () => {
  await at('&cell=0+malloc&rule=rows');
  const text = (await lines()).join('\n');
  const d = await about('details?upid=0&heap=malloc&rule=rows');
  const other = d.rows.find((r) => r.kind === 'other');
  if (other) assert.ok(text.includes(`<other> (${other.folded}`), text);
  const small = await about('details?upid=0&heap=malloc&by=types&min=100000');
  assert.deepEqual(small.rows.map((r) => [r.kind, r.folded ?? 0]), [['type', 0], ['other', 1]]);
});

test('large allocations: the file that diff_heap_profiler writes', async () => {
  cli('diff_heap_profiler', '--threshold', '1', golden('v2_second.json'));
  const want = JSON.parse(readFileSync(join(dir, 'output/process_100_malloc-leaks.json'), 'utf8'));
  const large = await (await server.ask('/api/v1/traces/4/infra/large?upid=0&heap=malloc&dump=700000000&min_count=1')).json();
  assert.deepEqual(large, want);
  await at('&cell=0+malloc');
  const [file] = await Promise.all([page.waitForEvent('download'), page.locator('text=Extract large allocations').click()]);
  const saved = JSON.parse(readFileSync(await file.path(), 'utf8'));
  assert.deepEqual(saved.map((r) => [r.count, r.size, r.stackframes[0]]), [[5000, 1000000, 'parse'], [2000, 50000, 'late']]);
  const grown = await about('large?upid=0&heap=malloc&base=200000000&min_count=1000');
  assert.deepEqual(grown.map((r) => [r.count, r.size]), [[3000, 600000], [2000, 50000]]);
  assert.equal((await server.ask('/api/v1/traces/1/infra/large?upid=0&min_size=x')).status, 400);
});

test('processes without memory dumps, and traces of ours', async () => {
  await at('', 2);
  assert.equal(await page.locator('table.infra tbody tr').count(), 2);
  assert.match(await page.textContent('.infra-page'), /\* no memory dump was written/);
  await at('', 3);
  const t = await about('table', 3);
  const malloc = t.columns.findIndex((c) => c.name === 'malloc');
  assert.equal(t.rows[0].cells[malloc].source, 'malloc_info');
  await page.locator('table.infra .menu-cell').first().click();
  await page.waitForSelector('.infra-tree [role=treeitem]');
  await settled(page);
  const d = await about(`details?upid=${t.rows[0].upid}&heap=malloc`, 3);
  const [[live]] = await server.sql(`select sum(size) from heap_profile_allocation where ts <= ${t.ts}`, 3);
  assert.equal(d.path[0].size, live);
  await page.waitForSelector('[role=note]:has-text("The cell is what the allocator took")');
  const body = await page.textContent('body');
  assert.ok(!/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u001b]/.test(body));
});

test('the timeline: an M for each memory dump, with Ctrl what changed since', async () => {
  await visit(page, 'timeline');
  assert.equal(await page.locator('.m-mark').count(), 2);
  await page.locator('.m-mark').first().click();
  await page.waitForSelector('table.infra');
  await part(page, 'dump', '200000000');
  await visit(page, 'timeline', '&dump=700000000');
  await page.locator('.m-mark').first().click({ modifiers: ['Control'] });
  await page.waitForSelector('table.infra .up');
  await part(page, 'dump', '700000000');
  await part(page, 'since', '200000000');
  await visit(page, 'timeline', '', 3);
  assert.equal(await page.locator('.m-mark').count(), 0); // no memory dumps were written
});

test('wrong questions are answered with a reason', async () => {
  for (const q of ['table?dump=5', 'details?upid=9', 'details?upid=0&heap=none', 'details?upid=0&place=f', 'details?upid=0&place=x/../y', 'details?upid=0&rule=q', 'details?upid=0&min=x', 'details?upid=0&by=q', 'details'])
    assert.equal((await server.ask(`/api/v1/traces/1/infra/${q}`)).status, 400, q);
  assert.equal((await server.ask('/api/v1/traces/1/infra/none')).status, 404);
  await at('&dump=5');
  assert.match(await page.textContent('main'), /There is no dump at that time/);
});

test('looks: rules of accessibility, both themes, both sizes', async () => {
  const broken = [];
  broken.push(...await inspect(page, 'infra', () => at('')));
  broken.push(...await inspect(page, 'infra-timeline', () => visit(page, 'timeline')));
  broken.push(...await inspect(page, 'infra-details', () => at('&cell=0+malloc')));
  broken.push(...await inspect(page, 'infra-diff', () => at('&cell=0+malloc&since=200000000')));
  assert.deepEqual(broken, []);
  assert.deepEqual(page.problems, []);
});
