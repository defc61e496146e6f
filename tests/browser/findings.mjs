// The findings pages on traces recorded here: figures against SQL and the command line, keys, hostile
// names, empty states, accessibility. HW_SHOTS=dir keeps screenshots.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browse, cli, done, HOSTILE, inspect, record, serve, visit } from './lib.mjs';

let server, trace, page;

before(async () => {
  trace = record('grow.trace', '-c', '100ms', '--smaps', '200ms', '--malloc-info', '100ms');
  server = await serve(trace);
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures');
});
after(done);

const at = (name, query, id) => visit(page, name, query, id);
const bytes = (v) => {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let x = Math.abs(v), u = 0;
  for (; x >= 1023.5 && u < 3; u++) x /= 1024;
  return `${v < 0 ? '−' : ''}${u === 0 ? Math.round(x) : x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2)} ${units[u]}`;
};
/** Nothing that changes direction or controls a terminal, and names as text. */
async function isTame(names = true) {
  const body = await page.textContent('body');
  assert.ok(!/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u001b]/.test(body));
  if (names) for (const name of [HOSTILE.name_markup, 'bidi_\\u202egnp.exe', 'ctl_\\x1b[31m_\\x01end']) assert.ok(body.includes(name), name);
  assert.equal(await page.locator('#app script').count(), 0);
  assert.deepEqual(page.problems, []);
}

test('leaks: rows and verdicts are those of the command, live bytes those of SQL', async () => {
  await at('leaks');
  const want = JSON.parse(cli('leaks', '--json', '--top', '0', trace));
  const rows = await page.locator('table.leaks tbody tr').evaluateAll((all) => all.map((tr) => [...tr.cells].map((c) => c.textContent)));
  assert.equal(rows.length, want.rows.length);
  for (const [i, r] of want.rows.entries()) {
    assert.ok(rows[i][0].endsWith(r.verdict), rows[i][0]);
    assert.ok(rows[i][3].includes(bytes(r.space)), `${rows[i][3]}: ${r.space}`);
    assert.equal(rows[i][5].replace(/\s/g, ''), String(r.samples));
  }
  assert.match(await page.textContent('.figures'), new RegExp(`Likely leaks\\+${bytes(want.likely_leaks_grown)}`));
  const answer = await (await server.ask('/api/v1/traces/1/leaks')).json();
  const [[live]] = await server.sql(`select sum(size) from heap_profile_allocation where ts <= ${answer.moments.at(-1)}`);
  assert.equal(want.rows.reduce((a, r) => a + r.space, 0), live);
  assert.equal(answer.space, live);
  for (const bad of ['upid=77', 'known=nonsense']) assert.equal((await server.ask(`/api/v1/traces/1/leaks?${bad}`)).status, 400, bad);
  await isTame();
});

test('leaks: opened by keys, reasons in words, a way to the graph and back', async () => {
  await at('leaks');
  const rows = page.locator('.verdict');
  const i = (await page.locator('table.leaks tbody tr').allTextContents()).findIndex((t) => t.includes('cache_insert'));
  await rows.first().focus();
  for (let k = 0; k < i; k++) await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.details');
  assert.match(await page.textContent('.details'), /held more than before in \d+ of \d+ intervals/);
  const url = page.url();
  await page.reload();
  await page.waitForSelector('.details');
  assert.equal(page.url(), url);
  await page.click('.details a:has-text("Flamegraph")');
  await page.waitForSelector('.crumbs button:disabled');
  assert.equal(await page.textContent('.crumbs button:disabled'), 'cache_insert');
  await page.goBack();
  await page.click('.details button:has-text("I know")');
  await page.waitForFunction(() => /1 row left out/.test(document.querySelector('.known summary').textContent));
  assert.ok(!(await page.textContent('table.leaks')).includes('cache_insert'));
  await page.click('.known summary');
  await page.click('.known summary');
  await page.fill('textarea', 'nonsense');
  await page.click('.known button:has-text("Apply")');
  await page.waitForSelector('[role=alert]');
  assert.match(await page.textContent('[role=alert]'), /leak:PATTERN/);
});

test('accessibility and looks: every page, both themes, both sizes', async () => {
  const broken = [];
  const pages = { leaks: () => at('leaks'), 'leaks-open': async () => { await at('leaks'); await page.locator('.verdict').first().click(); } };
  for (const [name, go] of Object.entries(pages)) broken.push(...(await inspect(page, name, go)));
  assert.deepEqual(broken, []);
});
