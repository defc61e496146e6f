// The table of functions: conditions, columns, order, the menu of a row, copies, against SQL.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browse, cli, copied, done, inspect, part, record, serve, settled, soon, visit } from './lib.mjs';

let server, page, sql, trace;

before(async () => {
  trace = record();
  server = await serve(trace);
  page = await browse({ permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(server.url);
  await page.waitForSelector('.figures');
  sql = await server.sql('select demangle(name), map_name, self_space, space, objects from heapwise_functions((select min(upid) from heap_profile)) where space > 0 order by self_space desc');
});
after(done);

const names = () => page.locator('.grid-body .with-menu > span').allTextContents();

test('rows, order, conditions', async () => {
  await visit(page, 'functions');
  assert.equal((await names())[0], sql[0][0]);
  await soon(async () => assert.equal((await names()).length, sql.length));
  await page.click('.grid-head button:has-text("Each")');
  await page.waitForFunction(() => location.hash.includes('sort=average'));
  await settled(page);
  const each = Object.fromEntries(sql.map((r) => [r[0], r[3] / r[4]]));
  await soon(async () => {
    const shown = (await names()).map((n) => each[n]).filter((v) => v !== undefined);
    assert.deepEqual(shown, [...shown].sort((x, y) => y - x));
  });
  await page.click('.grid-tools button:has-text("Filter")');
  await page.fill('[aria-label="Condition on Total"]', '>1MiB');
  const want = sql.filter((r) => r[3] > 1048576).length;
  assert.ok(want > 0 && want < sql.length);
  await page.waitForFunction((n) => document.querySelectorAll('.grid-body [role=row]').length === n, want);
  await page.fill('[aria-label="Condition on Function"]', '~^load');
  await page.waitForFunction(() => document.querySelectorAll('.grid-body [role=row]').length === 1);
  assert.deepEqual(await names(), ['load_table']);
  await page.click('.grid-tools button:has-text("Filter")');
});

test('counts have the error of the report', async () => {
  const report = JSON.parse(cli('report', '--json', trace));
  const site = report.sites.find((x) => x.objects_error > 0 && x.alloc_objects_error > 0);
  const near = (a, b) => assert.ok(b > 0 && Math.abs(a - b) < 1e-6 * b, `${a}, ${b}`);
  for (const m of ['objects', 'alloc_objects']) {
    const graph = new DataView(await (await server.ask(`/api/v1/traces/1/flame?metric=${m}`)).arrayBuffer());
    near(graph.getFloat64(48, true), report.end[`${m}_error`]);
    const { data } = await (await server.ask(`/api/v1/traces/1/table/functions?metric=${m}&at=${report.sites_at === 'peak' ? 'peak' : ''}`)).json();
    near(data.find((r) => r[0] === site.function && r[2] === site[m])[7], site[`${m}_error`]);
  }
});

test('a column is made wider', async () => {
  await visit(page, 'functions', '&sort=total+desc');
  const wide = () => page.locator('.grid-head [role=columnheader]').first().evaluate((e) => e.getBoundingClientRect().width);
  const was = await wide();
  const grip = await page.locator('.grid-head .grip').first().boundingBox();
  await page.mouse.move(grip.x + 3, grip.y + 5);
  await page.mouse.down();
  await page.mouse.move(grip.x + 63, grip.y + 5);
  await page.mouse.up();
  await soon(async () => assert.ok(Math.abs((await wide()) - was - 60) < 2, `${was}, then ${await wide()}`));
});

test('the menu of a row: by button, by key; copies, SQL, graph', async () => {
  await visit(page, 'functions');
  await page.click('[aria-label="Menu of load_table"]');
  await page.click('[role=menuitem]:has-text("Copy row as Markdown")');
  const text = await copied(page, /^\| Function/);
  const row = sql.find((r) => r[0] === 'load_table');
  assert.match(text, /^\| Function \| Module \| Self \| Total /);
  assert.ok(text.includes(`| load_table | ${row[1]} | ${row[2]} | ${row[3]} |`), text);
  await page.click('button:has-text("Save, copy")');
  await page.click('[role=menuitem]:has-text("Copy as TSV")');
  assert.equal((await copied(page, /\t/)).trim().split('\n').length, sql.length + 1);
  await page.locator('.grid').focus();
  await page.keyboard.press('ArrowDown');
  await page.waitForFunction(() => /fn=/.test(location.hash));
  await page.keyboard.press(' ');
  await page.click('[role=menuitem]:has-text("SQL for this function")');
  await page.waitForFunction(() => location.hash.startsWith('#!/query'));
  const query = await part(page, 'sql', Boolean);
  assert.equal((await server.sql(query))[0][3], sql[1][3]);
  await visit(page, 'functions');
  await page.click('[aria-label="Menu of load_table"]');
  await page.click('[role=menuitem]:has-text("Flamegraph from here")');
  await page.waitForFunction(() => location.hash.startsWith('#!/flame') && location.hash.includes('SFF'));
});

test('no figure is cut, and bars begin at one edge', async () => {
  await page.setViewportSize({ width: 1600, height: 900 });
  for (const metric of ['space', 'alloc_objects']) {
    await visit(page, 'functions', `&metric=${metric}`);
    const cut = await page.$$eval('.grid-body [role=gridcell]:nth-child(n+3)', (all) => all.filter((c) => c.scrollWidth > c.clientWidth).map((c) => c.textContent));
    assert.deepEqual(cut, []);
    const edges = await page.$$eval('.grid-body .share', (all) => [...new Set(all.map((x) => Math.round(x.getBoundingClientRect().left)))]);
    assert.equal(edges.length, 1);
  }
});

test('the overview counts dumps as the report does, and names no module for the program itself', async () => {
  const told = JSON.parse(cli('report', '--json', '--top', '0', trace));
  await visit(page, 'overview');
  await page.waitForSelector('table.top tbody tr');
  assert.match(await page.textContent('h1'), new RegExp(`· ${told.dumps} dumps? over`));
  const row = await page.textContent('table.top tr:has(a:text-is("load_table")) td:last-child');
  assert.equal(row.trim(), 'load_table'); // of the program itself: no module; called by main: no caller
});

test('looks', async () => {
  assert.deepEqual(await inspect(page, 'functions', () => visit(page, 'functions')), []);
  assert.deepEqual(page.problems, []);
});
