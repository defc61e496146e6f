// Threads on the timeline: a recorded program's scopes, a JSON trace's events; traces without heap profiles
// have a timeline, too.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, dir, done, heapwise, here, looks, serve, settled, soon, until, visit } from './lib.mjs';

let server, page, scopes;

/** Light memory dumps of two processes, no heap dump, and a thread with 20,000 short slices. */
function lightTrace() {
  const events = [{ ph: 'M', cat: '__metadata', pid: 7, tid: 8, ts: 0, name: 'thread_name', args: { name: '<b>worker' } },
    { ph: 'M', cat: '__metadata', pid: 7, tid: 7, ts: 0, name: 'process_name', args: { name: 'light' } }];
  for (let i = 0; i < 5; i++)
    for (const pid of [7, 9])
      events.push({ ph: 'v', cat: 'disabled-by-default-memory-infra', name: 'periodic_interval', pid, tid: -1, ts: 1000000 + i * 250000, id: `0x${i + 1}`,
        args: { dumps: { level_of_detail: 'light', process_totals: { resident_set_bytes: (0x100000 * (i + 1)).toString(16) }, allocators: { malloc: { guid: `${pid}${i}`, attrs: { size: { type: 'scalar', units: 'bytes', value: '1000' } } } } } } });
  events.push({ ph: 'B', cat: 'app', pid: 7, tid: 8, ts: 1000000, name: 'Outer' });
  for (let i = 0; i < 20000; i++) events.push({ ph: 'X', cat: 'app', pid: 7, tid: 8, ts: 1000000 + i * 40, dur: 30, name: `step ${i % 7}` });
  events.push({ ph: 'E', pid: 7, tid: 8, ts: 1900000 });
  const path = join(dir, 'light.json');
  writeFileSync(path, JSON.stringify({ traceEvents: events, metadata: {} }));
  return path;
}

before(async () => {
  scopes = join(dir, 'scopes.trace');
  const r = spawnSync(heapwise, ['record', '-q', '-f', '-i', '1', '--slices', '-o', scopes, '--', join(process.env.HW_BUILD, 'tests/targets/t_marks'), '20'], { encoding: 'utf8' });
  assert.equal(r.status, 0, r.stderr);
  server = await serve(scopes, lightTrace(), join(here, '../golden/memory_infra/cases/slices.json'));
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('nav.side');
});
after(done);

const about = async (query, trace = 1) => (await server.ask(`/api/v1/traces/${trace}/${query}`)).json();
const painted = (n = 0) => page.locator('.slices canvas').nth(n).evaluate((c) => { // distinct colours
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const seen = new Set();
  for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);
  return seen.size;
});
const open = async () => {
  const button = page.locator('.threads > button').first();
  assert.equal(await button.getAttribute('aria-expanded'), 'false');
  await button.click();
  await page.waitForSelector('.slices canvas');
  await settled(page);
};

test('threads are collapsed; open, each is a flame chart of its scopes', async () => {
  await visit(page, 'timeline', '', 1);
  await page.waitForSelector('.threads');
  await page.waitForSelector('.threads > button:has-text("3 threads with slices")');
  await open();
  const threads = (await about('threads')).threads;
  assert.equal(threads.length, 3);
  assert.equal(threads.reduce((a, t) => a + t.slices, 0), 20 * (8 + 301) + 2);
  await soon(async () => assert.equal(await page.locator('.slices canvas').count(), 3));
  await page.waitForFunction(() => [...document.querySelectorAll('.slices canvas')].every((c) => c.height > 10));
  await until('slices are painted', async () => (await painted()) > 1);
  assert.deepEqual(await looks(page, 'threads'), []);
  await page.setViewportSize({ width: 1600, height: 900 });
});

test('arrow keys go from slice to slice and say the pseudo-stack', async () => {
  // Where the scopes are wide enough to be told apart.
  const main = (await about('threads')).threads.find((t) => t.levels > 100);
  const some = await about(`slices?track=${main.track}&from=${main.first}&to=${main.first + 1}&min=1`);
  assert.deepEqual(some.boxes.slice(0, 1).map((b) => [b[0], some.names[b[3]], some.names[b[4]], b[5]]), [[0, 'Document', 'page', 1]]);
  const chart = page.locator('.slices canvas').first();
  const status = page.locator('.slice-words').first();
  await chart.focus();
  await page.keyboard.press('ArrowRight');
  await until('the slice is told', () => status.textContent());
  const from = await page.locator('.ruler').first().getAttribute('data-from');
  await page.keyboard.press('Enter');
  await page.waitForFunction((f) => document.querySelector('.ruler').dataset.from !== f, from);
});

test('what is too narrow is merged, none is left out', async () => {
  const [t] = (await about('threads', 2)).threads;
  assert.equal(t.slices, 20001);
  const wide = await about(`slices?track=${t.track}&from=${t.first}&to=${t.last + 1}&min=1000000`, 2);
  assert.ok(wide.boxes.length < 2000, `${wide.boxes.length} boxes`);
  assert.equal(wide.boxes.reduce((a, b) => a + b[5], 0), 20001);
  const near = await about(`slices?track=${t.track}&from=${t.first}&to=${t.first + 100000}&min=100`, 2);
  assert.deepEqual(near.boxes.map((b) => near.names[b[3]]), ['Outer', 'step 0', 'step 1', 'step 2']);
  assert.equal((await server.ask('/api/v1/traces/2/slices?track=99&from=0&to=1&min=1')).status, 400);
  assert.equal((await server.ask('/api/v1/traces/2/slices?track=0&from=0')).status, 400);
});

test('memory dumps alone have a timeline: M circles, counters, threads', async () => {
  await visit(page, 'timeline', '', 2);
  await page.waitForSelector('.m-mark');
  await soon(async () => assert.equal(await page.locator('.m-mark').count(), 5));
  assert.equal(await page.locator('.m-mark.light').count(), 5);
  await page.waitForSelector('section[aria-label="Tracks of light"] canvas.chart');
  await soon(async () => assert.match(await page.textContent('section[aria-label="Tracks of light"] .name'), /Resident.*5\.00 MiB/));
  await page.waitForSelector('.threads');
  await open();
  assert.match(await page.textContent('.threads .track .name'), /<b>worker/);
  await page.waitForFunction(() => document.querySelector('.slices canvas').height > 10);
  await settled(page);
  assert.deepEqual(await looks(page, 'light'), []);
  const from = await page.locator('.ruler').first().getAttribute('data-from');
  await page.getByLabel('Zoom in').click();
  await until('it is zoomed', async () => (await page.locator('.ruler').first().getAttribute('data-from')) !== from);
  await page.locator('.m-mark').first().click();
  await page.waitForFunction(() => document.title.endsWith('MemoryInfra'));
});

test('slices alone have one, too', async () => {
  await visit(page, 'timeline', '', 3);
  await page.waitForSelector('.threads');
  assert.equal(await page.locator('nav.side a[aria-label=Timeline]').count(), 1);
  await open();
  await soon(async () => assert.equal(await page.locator('.slices canvas').count(), 2));
});
