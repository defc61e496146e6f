// What went up and down, and what did so at once (temporary allocations): memory by owner and what pins free memory on the Accounting page, the top functions on the timeline, and rows
// that are told apart by their callers. Figures are those of the command line and SQL.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { spawn, spawnSync } from 'node:child_process';
import { axe, browse, cli, dir, done, drawn, heapwise, here, inspect, part, run, serve, settled, until, visit } from './lib.mjs';

let server, page, trace, brief, threads;

/** Eight threads keep what they have freed in their arenas; it ends when all of them were read. */
async function recordArenas() {
  const file = join(dir, 'arenas.trace');
  const target = join(process.env.HW_BUILD, 'tests/targets/t_arenas');
  const p = spawn(heapwise, ['record', '-q', '-c', '100ms', '--force', '-o', file, '--', target, 'bursts', join(dir, 'arenas.xml')], { stdio: ['pipe', 'ignore', 'ignore'] });
  const ended = new Promise((ok) => p.on('exit', ok));
  const known = () => spawnSync(heapwise, ['query', `${file}.part`, 'select max(n) from (select count(*) as n from malloc_arena where in_use_bytes > 0 group by ts)'], { encoding: 'utf8' }).stdout;
  try {
    await until('nine arenas are known', () => /^9$/m.test(known()));
  } finally {
    p.stdin.end();
    await ended;
  }
  return file;
}

before(async () => {
  run('cc', ['-O1', '-g', '-fno-omit-frame-pointer', '-o', 'phases', join(here, 'targets/phases.c')]);
  run(heapwise, ['record', '-q', '-i', '1', '-c', '100ms', '--pinned', '--force', '-o', 'phases.trace', '--', './phases']);
  trace = join(dir, 'phases.trace');
  run(heapwise, ['record', '-q', '-i', '1', '--force', '-o', 'brief.trace', '--', join(process.env.HW_BUILD, 'tests/targets/t_temporary')]);
  brief = join(dir, 'brief.trace');
  cli('convert', '-t', 'pprof', brief, 'without.pb.gz');
  cli('convert', '-t', 'page', brief, 'brief.html');
  threads = await recordArenas();
  server = await serve('--sources', join(here, '../targets'), trace, brief, join(dir, 'without.pb.gz'), threads);
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures');
});
after(done);

const ask = async (path) => (await server.ask(`/api/v1/traces/1/${path}`)).json();

test("malloc's arenas: the rows are those of the command, and add up", async () => {
  const want = JSON.parse(cli('account', '--json', '--at', 'last', threads)).arenas;
  const { arenas, ts } = await (await server.ask('/api/v1/traces/4/accounting')).json();
  const names = ['system', 'in_use', 'free', 'top', 'cached', 'fast', 'returnable'].map((n) => `${n}_bytes`);
  assert.equal(arenas.rows.length, 9);
  assert.deepEqual(arenas.rows.map((r) => r[0]).sort(), [1, 2, 3, 4, 5, 6, 7, 8].map(String).concat('main'));
  for (const [name, n, ...row] of arenas.rows) {
    const a = want.find((w) => (w.main ? 'main' : String(w.arena)) === name);
    assert.deepEqual([n, ...row], [a.threads, ...names.map((k) => a[k] ?? null), a.unknown ?? '']);
    assert.equal(row[0], row.slice(1, 6).reduce((sum, x) => sum + x, 0), name);
  }
  const unused = arenas.rows.map((r) => r[2] - r[3]);
  assert.deepEqual(unused, [...unused].sort((a, b) => b - a), 'most first');
  await visit(page, 'accounting', `&at=${ts}`, 4);
  const shown = await page.$$eval('.arenas tbody tr', (rows) => rows.map((tr) => [...tr.children].map((td) => [td.textContent, Number(td.title.replace(/\D/g, ''))])));
  assert.equal(shown.length, 10);
  for (const [i, [name, , ...row]] of arenas.rows.entries()) {
    assert.equal(shown[i][0][0], name);
    assert.deepEqual(shown[i].slice(1, 8).map((x) => x[1]), row.slice(0, 7));
  }
  assert.equal(shown[9][0][0], 'All');
  assert.deepEqual(shown[9].slice(1, 8).map((x) => x[1]), names.map((_, k) => arenas.rows.reduce((sum, r) => sum + r[k + 2], 0)));
  assert.deepEqual(await inspect(page, 'growth-arenas', () => visit(page, 'accounting', `&at=${ts}`, 4)), []);
  await page.setViewportSize({ width: 390, height: 844 });
  await visit(page, 'accounting', `&at=${ts}`, 4);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'it fits a phone');
  if (process.env.HW_SHOTS) await (await page.$('.arenas')).screenshot({ path: join(process.env.HW_SHOTS, 'growth-arenas-390.png') });
  await page.setViewportSize({ width: 1600, height: 900 });
  await page.click('h2:has-text("arenas") a');
  await until('the query has its rows', async () => (await page.textContent('main')).includes('returnable_bytes'));
  await visit(page, 'overview');
});

test('memory by owner over time: the points are those of the command, and the page shows all of them', async () => {
  const want = JSON.parse(cli('account', '--json', '--at', 'all', trace));
  const parts = await ask('parts');
  assert.ok(parts.points.length > 2, `${parts.points.length} readings`);
  assert.equal(parts.points.length, want.readings.length);
  for (const [i, point] of parts.points.entries()) {
    const [, rss, ...own] = point;
    assert.ok(Math.abs(own.reduce((a, x) => a + x, 0) - rss) < 1, 'parts add up to what is resident');
    assert.equal(rss, want.readings[i].rss_bytes);
    // the command writes six digits
    for (const [k, name] of parts.names.entries()) assert.ok(Math.abs(own[k] - want.readings[i].parts[name]) <= Math.abs(own[k]) * 1e-5 + 1, name);
  }
  await visit(page, 'accounting');
  await page.waitForSelector('.parts canvas');
  const legend = await page.locator('.parts .legend li').allTextContents();
  for (const [k, name] of parts.names.entries())
    assert.equal(legend.some((x) => x.endsWith(name)), parts.points.some((x) => x[k + 2] !== 0), name);
  await page.click('.parts + details summary');
  await page.waitForSelector('.stack-table tbody tr:visible');
  assert.equal(await page.locator('.stack-table tbody tr').count(), parts.points.length);
  assert.match(await page.locator('.parts canvas').getAttribute('aria-label'), /Resident memory by owner over time.*live/);
  assert.deepEqual(await inspect(page, 'growth-accounting', () => visit(page, 'accounting')), []);
});

test('what pins free memory: sites, blocks and live bytes are those of the command', async () => {
  const { moments } = (await ask('timeline')).processes[0];
  let measured = 0;
  for (const m of moments.filter((x) => !x.max)) {
    const { pinned } = await ask(`parts?at=${m.ts}`);
    if (!pinned) continue;
    const [[sum]] = await server.sql(`select coalesce(sum(size), 0) from heap_profile_allocation where heap_name = 'malloc.pinned' and ts <= ${pinned.at}`);
    assert.equal(pinned.bytes, sum);
    assert.equal(pinned.sites.reduce((a, s) => a + s[2], 0), pinned.sites.length === pinned.rows ? pinned.bytes : 0);
    measured += pinned.sites.some((s) => s[0] === 'keep_few' && s[2] > s[4]);
  }
  assert.ok(measured > 0, 'a site that pins more than it holds');
  const at = moments.findLast((x) => !x.max && x.space > 0).ts;
  await visit(page, 'accounting', `&at=${at}`);
  await page.waitForSelector('.pins tbody tr:has-text("keep_few")');
  assert.match(await page.locator('.pins tbody tr:has-text("keep_few")').textContent(), /keep_few ‹ spread/);
  await page.click('.pins a:has-text("keep_few")');
  await part(page, 'fn', 'keep_few');
});

test('top functions over time: who held how much at each dump, of itself and with what it called', async () => {
  const own = await ask('functions-over-time'), total = await ask('functions-over-time?total=1');
  const { moments } = (await ask('timeline')).processes[0];
  assert.deepEqual(own.moments, moments.map((m) => m.ts));
  assert.deepEqual(own.all, moments.map((m) => m.space));
  assert.deepEqual(total.all, own.all);
  assert.ok(own.functions.length <= 10);
  for (const [i, m] of moments.entries()) {
    const rows = (await ask(`table/functions?at=${m.ts}${m.max ? '&max=1' : ''}&limit=1000`)).data;
    for (const [list, column] of [[own, 2], [total, 3]])
      for (const f of list.functions) assert.equal(f.values[i], rows.find((r) => r[0] === f.name)?.[column] ?? 0, `${f.name} at ${m.ts}`);
  }
  const names = (list) => list.functions.map((f) => f.name);
  for (const name of ['grow_early', 'grow_late', 'same_site']) assert.ok(names(own).includes(name), name);
  assert.ok(names(total).includes('twice'), 'which calls itself: a stack counts once');
  assert.equal((await server.ask('/api/v1/traces/1/functions-over-time?upid=77')).status, 400);
  await visit(page, 'timeline');
  assert.equal(await page.locator('.who-grew canvas').count(), 0, 'only on request');
  await page.click('.who-grew button:has-text("Self")');
  await part(page, 'who', 'self');
  await page.waitForSelector('.who-grew canvas');
  assert.deepEqual((await page.locator('.who-grew .legend li').allTextContents()).reverse().slice(0, own.functions.length), own.functions.map((f) => f.name));
  await page.click('.who-grew button:has-text("Total")');
  await page.waitForSelector('.who-grew canvas[aria-label*="with what they called"]');
  await settled(page);
  assert.deepEqual(await axe(page), []);
  assert.deepEqual(await inspect(page, 'growth-timeline', () => visit(page, 'timeline', '&who=self')), []);
});

test('a click on a diamond shows the graph of that dump below the timeline', async () => {
  await visit(page, 'timeline');
  const { moments } = (await ask('timeline')).processes[0];
  const first = page.locator('.diamond[aria-label*="Dump at"]').first();
  const said = await first.getAttribute('aria-label');
  await first.click();
  const at = await part(page, 'at', (v) => /^\d+$/.test(v ?? ''));
  await settled(page);
  assert.ok(moments.some((m) => String(m.ts).slice(0, 12) === at.slice(0, 12)), `${said}: ${at}`);
  assert.match(await page.textContent('.explorer'), /Live at/);
  const box = await page.locator('.explorer').boundingBox();
  assert.ok(box.y < page.viewportSize().height, 'it is in sight');
});

test('rows of one function are told apart by the first callers that differ', async () => {
  await visit(page, 'leaks');
  const rows = (await page.locator('table.leaks tbody tr:has(b:text-is("same_site")) .callers').allTextContents()).map((x) => x.split(' ‹ '));
  assert.ok(rows.length >= 2, `${rows.length} rows`);
  for (const [i, a] of rows.entries()) for (const b of rows.slice(i + 1)) assert.notDeepEqual(a, b);
  assert.ok(rows.some((r) => r.includes('grow_a')) && rows.some((r) => r.includes('grow_b')), JSON.stringify(rows));
  const { moments } = (await ask('timeline')).processes[0];
  const { data } = await ask(`table/diff?at=${moments.at(-2).ts}&a_at=${moments[0].ts}&all=1`);
  const row = data.find((r) => r[0] === 'keep_few') ?? data.find((r) => r[0] === 'same_site');
  assert.ok(row[9].length > 0 && row[9].every((x) => typeof x === 'string'), JSON.stringify(row));
  await visit(page, 'diff', `&at=${moments.at(-2).ts}&base=at%3D${moments[0].ts}&all=1`);
  await page.waitForSelector('table.diff .callers:has-text("‹")');
  await drawn(page);
  assert.deepEqual(page.problems, []);
});

const METRICS = ['Live size', 'Live count', 'Total size', 'Total count'];
const metrics = (on) => on.locator('[aria-label=Metric] button').allTextContents();

/** Six metrics, and what two of them show of each page is what the command says. */
async function temporary(on, number, names) {
  const { end, sites } = JSON.parse(cli('report', '--json', '-m', 'temporary', '--top', '0', brief));
  const bytes = (v) => `${(v / 1024).toFixed(v < 10 * 1024 ? 2 : v < 100 * 1024 ? 1 : 0)} KiB`;
  await visit(on, 'flame', '', number);
  assert.deepEqual(await metrics(on), [...METRICS, 'Temporary']);
  await on.click('[aria-label=Metric] button >> text=Temporary');
  await settled(on);
  assert.deepEqual(await metrics(on), [...METRICS, 'Temporary size', 'Temporary count']);
  assert.match(on.url(), /metric=temporary_space/);
  const text = await on.textContent('.statement');
  assert.ok(text.startsWith('Temporary until ') && text.includes(`freed again within a second: ${bytes(end.temporary_space)}`), text);
  await on.click('.metric-note summary');
  assert.match(await on.textContent('.metric-note p'), /at most a second after its allocation/);
  await on.keyboard.press('6');
  await settled(on);
  assert.match(on.url(), /metric=temporary_objects/);
  assert.ok((await on.textContent('.statement')).includes(end.temporary_objects.toLocaleString('en-US').replace(',', '\u202f')));
  for (const name of names) {
    await visit(on, name, '&metric=temporary_space', number);
    assert.equal((await metrics(on)).length, 6, name);
    for (const closed of name === 'tree' ? ['move_on', 'made'] : []) {
      await on.click(`[role=treeitem]:has-text("${closed}")`);
      await on.keyboard.press('ArrowRight');
    }
    await settled(on);
    const all = await on.textContent('main');
    for (const s of sites.filter((x) => x.temporary_space > 0)) assert.ok(all.includes(s.function) && all.includes(bytes(s.temporary_space)), `${name}: ${s.function} ${bytes(s.temporary_space)}`);
    assert.ok(!all.includes('fn_kept') && !all.includes('fn_late'), `${name}: what stayed is not there`);
  }
}

test('temporary allocations: offered where they are recorded, with the figures of the command', async () => {
  await temporary(page, 2, ['tree', 'functions']);
  await visit(page, 'source', '&metric=temporary_space', 2);
  await page.waitForSelector('.code-row.has');
  assert.equal((await metrics(page)).length, 6);
  await visit(page, 'sizes', '&metric=temporary_space', 2);
  assert.equal((await metrics(page)).length, 6);
  assert.equal(await page.textContent('[aria-label=Metric] [aria-pressed=true]'), 'Temporary size');
  for (const name of ['flame', 'tree', 'functions', 'source', 'sizes']) {
    await visit(page, name, '', 3);
    assert.deepEqual(await metrics(page), METRICS, `${name} of a profile without`);
  }
  await visit(page, 'flame', '&metric=temporary_space', 3);
  assert.match(await page.textContent('.empty'), /or the recording does not say/);
  assert.deepEqual(await inspect(page, 'temporary', () => visit(page, 'flame', '&metric=temporary_space', 2)), []);
});

test('temporary allocations in a saved page', async () => {
  const file = await browse();
  await file.goto(pathToFileURL(join(dir, 'brief.html')).href);
  await file.waitForSelector('.figures');
  await temporary(file, 1, ['tree']); // it has no Functions page
  assert.deepEqual(file.problems, []);
});

test('temporary allocations in a drawn page: two more metrics, with its figures; none where they are not known', async () => {
  const { end } = JSON.parse(cli('report', '--json', brief));
  cli('convert', '-t', 'html', brief, 'drawn.html');
  cli('convert', '-t', 'html', join(dir, 'without.pb.gz'), 'bare.html');
  const file = await browse();
  await file.goto(pathToFileURL(join(dir, 'bare.html')).href);
  assert.equal(await file.locator('#metric option').count(), 4);
  await file.goto(pathToFileURL(join(dir, 'drawn.html')).href);
  assert.equal(await file.locator('#metric option').count(), 6);
  for (const [key, figure] of [['5', `${(end.temporary_space / 1024).toFixed(1)} KiB`], ['6', `${(end.temporary_objects / 1000).toFixed(2)} k`], ['4', `${(end.alloc_objects / 1000).toFixed(2)} k`]]) {
    await file.keyboard.press(key);
    await drawn(file);
    assert.equal(await file.inputValue('#metric'), String(key - 1));
    assert.ok((await file.textContent('body')).includes(figure), figure);
  }
  assert.deepEqual(file.problems, []);
});
