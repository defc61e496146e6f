// The Fleet page over a real store: whose and when, graphs, leaks over days, sides, hosts that deviate; each figure
// against `heapwise fleet`.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, dir, done, graphOf, heapwise, here, inspect, part, serve, settled, soon, until, visit } from './lib.mjs';

let store, url, server, page;
const answered = () => settled(page, '[aria-busy=true], [role=status].empty, .bar [role=status]');
const q = (key) => part(page, key, () => true);
const at = (name) => page.waitForFunction((n) => location.hash.startsWith(`#!/${n}`), name);
const cli = (...words) => {
  const r = spawnSync(heapwise, ['fleet', ...words, '--store', url, '--json'], { cwd: dir, encoding: 'utf8' });
  assert.equal(r.status, 0, r.stderr);
  return JSON.parse(r.stdout);
};
const total = async (query) => (await graphOf(server.ask(`/api/v1/traces/${await q('trace')}/flame?${query}`))).total;
const fleet = (query = '') => visit(page, 'fleet', `&range=14d${query}`, 0);

before(async () => {
  store = spawn('python3', ['-B', join(here, 'targets/store.py')], { stdio: ['pipe', 'pipe', 'inherit'] });
  url = await new Promise((ok, no) => {
    store.stdout.on('data', (d) => ok(String(d).trim()));
    store.on('exit', () => no(new Error('the store did not start')));
  });
  server = await serve('--store', url);
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('nav a[aria-label=Fleet]');
});
after(async () => {
  store.stdin.end();
  await done();
});

test('hosts: who deviates, as the command says', async () => {
  await fleet('&fleet=service%3Dcheckout');
  const want = cli('hosts', '--service', 'checkout', '--since', '14d', '--top', '0');
  assert.deepEqual(want.rows.filter((r) => r.deviates).map((r) => r.host), ['h07']);
  const rows = await page.$$eval('section[aria-label=Hosts] tbody tr', (all) => all.map((r) => [r.cells[0].textContent, r.cells[6].textContent.includes('deviates')]));
  assert.deepEqual(rows, want.rows.map((r) => [r.host, r.deviates]));
  // A count has an error of its own.
  await page.click('[aria-label=Metric] button:text-is("Live count")');
  await answered();
  const first = cli('hosts', '--service', 'checkout', '--since', '14d', '-m', 'objects').rows[0];
  const shown = await page.$eval('section[aria-label=Hosts] tbody tr .pm', (e) => e.textContent);
  assert.ok(first.error > 0);
  assert.match(shown, new RegExp(`± ?${(100 * first.error / first.value).toFixed(1)}`));
});

test('a graph is that of the command; conditions are chosen and taken back', async () => {
  await fleet();
  await page.selectOption('#service', 'checkout');
  await answered();
  await part(page, 'fleet', 'service=checkout');
  await page.selectOption('[aria-label=Label]', 'pod');
  await answered();
  await until('values of the label', async () => (await page.$$eval('#fleet-values option', (o) => o.map((x) => x.value))).includes("it's <b>"));
  await page.fill('[aria-label=Value]', "it's <b>");
  await page.click('.fleet-add button');
  await answered();
  await soon(async () => assert.equal(await page.locator('.chip').first().evaluate((c) => c.firstChild.textContent), "pod=it's <b>"));
  await page.click('button:text-is("Flamegraph")');
  await at('flame');
  await answered();
  const want = cli('top', '--service', 'checkout', '-l', "pod=it's <b>", '--since', '14d');
  assert.equal(want.hosts, 5);
  assert.equal(await total('metric=space'), want.total);
  // Of a metric of what was asked for, the same way; and the address of the Fleet page is kept.
  await page.goBack();
  await answered();
  await page.click('.chip button');
  await answered();
  await part(page, 'fleet', 'service=checkout');
  await page.click('[aria-label=Metric] button:text-is("Total size")');
  await answered();
  await page.click('button:text-is("Functions")');
  await at('functions');
  await answered();
  assert.equal(await total('metric=alloc_space'), cli('top', '--service', 'checkout', '--since', '14d', '-m', 'alloc_space').total);
  assert.deepEqual(page.problems, []);
});

test('leaks over days', async () => {
  await fleet('&fleet=service%3Dcheckout');
  await page.click('button:text-is("Leaks over time")');
  await at('leaks');
  await answered();
  const text = await page.textContent('#main');
  assert.match(text, /leaky/);
  assert.match(text, /likely leak|growing/);
  const want = cli('leaks', '--service', 'checkout', '--since', '14d').rows.find((r) => r.function === 'leaky');
  const have = await (await server.ask(`/api/v1/traces/${await q('trace')}/leaks?upid=0`)).json();
  const row = have.rows.find((r) => r.name === 'leaky');
  assert.equal(have.moments.length, 12);
  assert.deepEqual([row.verdict, row.space], [want.verdict, want.space]);
});

test('two builds, a host and the others', async () => {
  await fleet('&fleet=service%3Dcheckout');
  const side = async (name, value) => page.selectOption(`[aria-label="Side ${name}"]`, value);
  await side('A', '1.41');
  await side('B', '1.42');
  await page.click('[role=group][aria-label=Compare] button:text-is("Compare")');
  await at('diff');
  await answered();
  const want = cli('diff', '--service', 'checkout', '--since', '14d', '--a', 'version=1.41', '--b', 'version=1.42').rows[0];
  const row = await page.$eval('table.diff tbody tr', (r) => [r.cells[0].textContent, r.cells[5].textContent]);
  assert.match(row[0], /^grown/);
  assert.equal(want.function, 'grown');
  assert.equal(row[1], 'grew');
  await fleet('&fleet=service%3Dcheckout');
  await page.click('button:text-is("What differs")');
  await at('diff');
  await answered();
  assert.match(await page.$eval('table.diff tbody tr', (r) => r.cells[0].textContent), /^grown/);
  assert.deepEqual(page.problems, []);
});

test('errors are shown, nothing is asked without a token, and the page is accessible', async () => {
  await fleet('&fleet=host~%28');
  assert.match(await page.textContent('[role=alert]'), /answered/);
  await page.fill('#until', 'soon');
  await page.press('#until', 'Enter');
  await answered();
  await page.waitForSelector('[role=alert]:has-text("is not a time")');
  for (const path of ['labels', 'values?label=pod', 'hosts']) assert.equal((await fetch(`${server.origin}/api/v1/fleet/${path}`)).status, 403);
  assert.equal((await fetch(`${server.origin}/api/v1/fleet/profile`, { method: 'POST' })).status, 403);
  for (const bad of ['values?label=a%27b', 'hosts?metric=x', 'hosts?since=x', 'nothing', 'hosts?where=a%20b%3D1']) assert.equal((await server.ask(`/api/v1/fleet/${bad}`)).status, 400, bad);
  assert.deepEqual(await inspect(page, 'fleet', () => fleet('&fleet=service%3Dcheckout')), []);
});

test('without a store there is no such page', async () => {
  const other = await serve();
  const p = await browse();
  await p.goto(other.url);
  await p.waitForSelector('nav a[aria-label=Settings]');
  assert.equal(await p.$('nav a[aria-label=Fleet]'), null);
  const r = await other.ask('/api/v1/fleet/labels');
  assert.equal(r.status, 400);
  assert.match(await r.text(), /--store/);
});
