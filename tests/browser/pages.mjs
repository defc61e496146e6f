// Every page on a trace recorded here: figures against SQL and the command line, keys, hostile names,
// accessibility, who may ask. HW_SHOTS=dir keeps screenshots.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { address, axe, browse, cli, dir, done, drawn, go, graphOf, HOSTILE, more, part, quiet, record, run, serve, settled, soon, visit } from './lib.mjs';

let server, trace, page;
const spaced = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, '\u202f');
const LIVE = `select sum(size) from heap_profile_allocation`;

before(async () => {
  trace = record();
  writeFileSync(join(dir, 'broken.trace'), readFileSync(trace).subarray(0, 900).map((b, i) => (i > 40 && i % 7 === 0 ? b ^ 0xff : b)));
  writeFileSync(join(dir, 'foreign.bin'), 'this is no trace at all\n'.repeat(20));
  writeFileSync(join(dir, 'empty.trace'), '');
  server = await serve(trace);
  page = await browse();
  await page.goto(server.url);
});
after(done);

const at = (name, query) => visit(page, name, query);
const shot = async (name) => process.env.HW_SHOTS && page.screenshot({ path: join(process.env.HW_SHOTS, `${name}.png`) });
/** The graph's header and arrays, by a reader of its own. */
const graph = (query = '') => graphOf(server.ask(`/api/v1/traces/1/flame?${query}`));

test('rows of the call tree stand below each other', async () => {
  await at('tree');
  const rows = await page.locator('.tree [role=treeitem]').evaluateAll((all) => all.map((x) => x.getBoundingClientRect()).map((r) => [r.top, r.bottom]));
  assert.ok(rows.length > 2);
  for (let i = 1; i < rows.length; i++) assert.ok(rows[i][0] >= rows[i - 1][1] - 0.5, `row ${i} begins at ${rows[i][0]}, the one before ends at ${rows[i - 1][1]}`);
  await at('overview');
});

test('the token leaves the address and a reload works', async () => {
  await page.waitForSelector('.figures');
  assert.ok(!(await address(page)).includes('token='));
  await page.reload();
  await page.waitForSelector('.figures');
});

test('a tab without a token goes on when it is given the address', async () => {
  const tab = await browse();
  await tab.goto(`${server.origin}/#!/flame?trace=1`);
  await tab.waitForSelector('[role=alert]:has-text("needs its address")');
  await tab.evaluate(() => (location.hash = 'token=00'));
  await tab.waitForFunction(() => location.hash === '');
  await tab.waitForSelector('[role=alert]:has-text("needs its address")');
  await tab.goto(server.url); // only the hash is another
  await tab.waitForSelector('.figures');
  assert.ok(!(await address(tab)).includes('token='));
  await tab.reload();
  await tab.waitForSelector('.figures');
  assert.deepEqual(tab.problems, []);
});

test('every token that the server takes opens the page', async () => {
  const kept = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_';
  writeFileSync(join(dir, 'kept-token'), `${kept}\n`, { mode: 0o600 });
  const own = await serve('--token-file', join(dir, 'kept-token'), trace);
  assert.equal(own.token, kept);
  const tab = await browse();
  await tab.goto(own.url);
  await tab.waitForSelector('.figures');
  assert.ok(!(await address(tab)).includes('token='));
  await own.stop();
});

test('the token is kept whatever the address becomes before or after the page runs', async () => {
  for (const when of ['commit', 'domcontentloaded', 'load']) {
    const tab = await browse();
    await tab.goto(server.url, { waitUntil: when });
    await tab.evaluate(() => (location.hash = '#!/functions?trace=1'));
    await tab.waitForSelector('h1:has-text("Functions")', { state: 'attached' });
    assert.match(await address(tab), /#!\/functions\?trace=1/, when);
    await tab.context().close();
  }
  const tab = await browse();
  await tab.goto(server.origin, { waitUntil: 'load' });
  await tab.evaluate((h) => (location.hash = h), new URL(server.url).hash);
  await tab.waitForSelector('.figures');
  // The script comes late: the address changes first.
  const slow = await browse();
  await slow.route('**/*.js', async (r) => { await new Promise((ok) => setTimeout(ok, 400)); await r.continue(); });
  await slow.goto(server.url, { waitUntil: 'commit' });
  await slow.evaluate(() => (location.hash = '#!/functions?trace=1'));
  await slow.waitForSelector('h1:has-text("Functions")', { state: 'attached' });
});

test('home stands first among the pages', async () => {
  await at('overview');
  await page.click('nav.side a[title=Home]');
  await page.waitForSelector('.home');
  await soon(async () => assert.equal(await page.textContent('nav.side a[aria-current=page]'), 'Home'));
  await soon(async () => assert.match(await page.textContent('.home'), /Open traces.*Record one/s));
  await page.click('.home li a');
  await page.waitForSelector('.figures');
});

test('overview: figures are those of SQL', async () => {
  await at('overview');
  const [[live]] = await server.sql(LIVE);
  const [[allocated]] = await server.sql('select sum(size) from heap_profile_allocation where size > 0');
  const text = await page.textContent('.figures');
  assert.ok(text.includes(`· ${spaced(live)} B`), `${live} in ${text}`);
  assert.ok(text.includes(`${(allocated / 1048576).toFixed(1)} MiB`), `${allocated} in ${text}`);
  const first = await page.textContent('table.top tbody tr:first-child');
  assert.match(first, /load_table/);
  for (const row of await page.$$eval('table.top tbody tr', (all) => all.map((r) => ({ name: r.querySelector('a').textContent, n: r.cells[3].textContent })))) {
    const found = await server.sql(`select self_objects from heapwise_functions((select min(upid) from heap_profile)) where demangle(name) = '${row.name}' and self_space > 0`);
    if (found.length === 1) assert.equal(row.n, spaced(found[0][0]), `${row.name}: the count is of what it asked for itself, as the bytes are`);
  }
  await shot('overview');
});

test('graph: the arrays hold together and agree with SQL and pprof', async () => {
  const where = { space: ['sum(size)', '1'], alloc_space: ['sum(size)', 'size > 0'] };
  for (const [metric, [sum, condition]] of Object.entries(where)) {
    const [[want]] = await server.sql(`select ${sum} from heap_profile_allocation where ${condition}`);
    const g = await graph(`metric=${metric}`);
    assert.equal(g.total, want, metric);
    g.nodes.forEach((x, i) => {
      let below = 0;
      for (let c = i + 1; c < x.end; c = g.nodes[c].end) {
        assert.equal(g.nodes[c].parent, i);
        assert.equal(g.nodes[c].depth, x.depth + 1);
        below += g.nodes[c].cum;
      }
      assert.equal(below + x.self, x.cum);
    });
    const inverted = await graph(`metric=${metric}&invert=1`);
    assert.equal(inverted.total, want);
  }
  const folded = await (await server.ask('/api/v1/export/folded?trace=1&metric=space')).text();
  const sum = folded.trim().split('\n').reduce((a, l) => a + Number(l.slice(l.lastIndexOf(' ') + 1)), 0);
  assert.equal(sum, (await graph()).total);
});

test('graph: filters, pivot, small shares, dump ranges', async () => {
  const f = (x) => `filters=${encodeURIComponent(x)}`;
  const all = await graph();
  const kept = await graph(f('SS:"cache_insert"')), hidden = await graph(f('HS:"cache_insert"'));
  assert.equal(kept.total + hidden.total, all.total);
  assert.equal(kept.unfiltered, all.total);
  assert.ok(!hidden.nodes.some((x) => x.name === 'cache_insert'));
  const callers = await graph(`${f('P:"recurse"')}&part=callers`), callees = await graph(f('P:"recurse"'));
  assert.equal(callers.total, callees.total);
  const merged = await graph('min_share=0.1');
  assert.equal(merged.total, all.total);
  assert.ok(merged.nodes.some((x) => /^\(\d+ small ones\)$/.test(x.name)));
  const dumps = await server.sql('select distinct ts from heap_profile_allocation order by ts');
  const from = dumps[0][0];
  const since = await graph(`from=${from}&metric=alloc_space`);
  const [[want]] = await server.sql(`select sum(size) from heap_profile_allocation where size > 0 and ts > ${from}`);
  assert.equal(since.total, want);
  for (const bad of ['metric=nonsense', 'upid=77', 'at=x', 'filters=SS%3A%2F(%2F', 'part=callers', 'heap=none'])
    assert.equal((await server.ask(`/api/v1/traces/1/flame?${bad}`)).status, 400, bad);
});

test('flamegraph: zoom, keys, search, filters and the URL', async () => {
  await at('flame');
  await shot('flame');
  const canvas = page.locator('.flame canvas').first();
  await canvas.focus();
  const heard = (what) => soon(async () => assert.match(await page.textContent('.flame .sr'), what));
  await heard(/^all, /);
  for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowDown');
  await heard(/^main, /);
  await page.keyboard.press('ArrowDown');
  await heard(/^load_table, /);
  await page.keyboard.press('ArrowRight');
  await heard(/^cache_insert, /);
  await page.keyboard.press('ArrowLeft');
  await heard(/^load_table, /);
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await part(page, 'zoom', Boolean);
  await page.reload();
  await page.waitForSelector('.crumbs button:disabled');
  await soon(async () => assert.equal(await page.textContent('.crumbs button:disabled'), 'main'));
  await page.goBack();
  await page.waitForFunction(() => !location.hash.includes('zoom='));
  await settled(page);
  await canvas.focus();
  await page.keyboard.press('2');
  await page.waitForFunction(() => location.hash.includes('metric=objects'));
  await page.keyboard.press('1');
  await page.keyboard.press('i');
  await page.waitForFunction(() => location.hash.includes('invert=1'));
  await page.keyboard.press('i');
  await part(page, 'invert', null);
  await settled(page);
  await page.keyboard.press('/');
  await page.waitForFunction(() => document.activeElement.id === 'search');
  await page.keyboard.type('recurse');
  await page.waitForSelector('.match');
  const recurse = (await graph()).nodes.find((x) => x.name === 'recurse');
  await soon(async () => assert.match(await page.textContent('.match'), new RegExp(`${(recurse.cum / 1024).toFixed(0)} KiB`)));
  await page.keyboard.press('Enter');
  await page.keyboard.press('n');
  await heard(/^recurse, /);
  await page.keyboard.press('k');
  await page.waitForFunction(() => location.hash.includes('f=SS'));
  await page.waitForSelector('.chip');
  await page.waitForFunction(() => /root .* of /.test(document.querySelector('.explorer').textContent));
  await settled(page);
  await page.locator('.flame canvas').first().focus();
  await page.keyboard.press('z');
  await page.waitForFunction(() => !location.hash.includes('f=SS'));
  await settled(page);
  await page.keyboard.press(' ');
  await page.waitForSelector('[role=menu]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Escape');
  await page.waitForSelector('[role=menu]', { state: 'detached' });
  await page.fill('#filter', '/(/');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.filters [role=alert]');
});

test('flamegraph: what the pointer hovers and clicks', async () => {
  await at('flame');
  const box = await page.locator('.flame canvas').first().boundingBox();
  await page.mouse.move(box.x + 60, box.y + 5 * 20 + 10);
  await page.waitForSelector('.tip');
  await page.waitForSelector('.tip:has-text("load_table")');
  const tip = await page.textContent('.tip');
  assert.ok(tip.includes(`${spaced(8388608)} B`), tip);
  await page.mouse.dblclick(box.x + 60, box.y + 5 * 20 + 10);
  await page.waitForFunction(() => location.hash.includes('zoom='));
  await page.keyboard.press('Escape');
});

test('timeline: diamonds, slices and a dragged interval', async () => {
  await at('timeline');
  await shot('timeline');
  const diamonds = page.locator('.diamond:not(:has(em))'); // of one dump: others zoom in
  assert.ok((await diamonds.count()) >= 3);
  await diamonds.nth(1).click();
  await page.waitForFunction(() => /at=\d+/.test(location.hash));
  const ts = await part(page, 'at', Boolean);
  const [[live]] = await server.sql(`select sum(size) from heap_profile_allocation where ts <= ${ts}`);
  assert.equal((await graph(`at=${ts}`)).total, live);
  await page.waitForFunction((t) => document.querySelector('.statement')?.textContent.includes(t), (live / 1048576).toFixed(1));
  await page.locator('.slice').nth(2).click();
  await page.waitForFunction(() => /from=\d+/.test(location.hash));
  await soon(async () => assert.match(await page.textContent('.statement'), /^Growth between/));
  await settled(page);
  const box = await page.locator('.track .chart').first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 6 });
  await page.mouse.move(box.x + box.width * 0.98, box.y + 40, { steps: 6 });
  await page.mouse.up();
  const moments = (await (await server.ask('/api/v1/traces/1/timeline')).json()).processes[0].moments.map((m) => String(m.ts));
  await part(page, 'at', (t) => moments.includes(t)); // the end snaps to a dump
  await page.keyboard.press('[');
});

test('functions: sorted by the server, callers and callees', async () => {
  await at('functions');
  await shot('functions');
  const names = () => page.locator('.grid-body [role=gridcell]:first-child .with-menu > span').allTextContents();
  assert.equal((await names())[0], 'load_table');
  await page.click('.grid-head button:has-text("Function")');
  await page.waitForFunction(() => location.hash.includes('sort=name'));
  await page.waitForFunction(() => document.querySelector('.grid-body .with-menu > span')?.textContent !== 'load_table');
  await soon(async () => {
    const sorted = await names();
    assert.equal(sorted.length, 11);
    assert.deepEqual(sorted, [...sorted].sort((a, b) => (a < b ? -1 : 1))); // all ASCII here
  });
  await page.fill('input[aria-label="Find functions"]', 'recurse');
  await page.waitForFunction(() => document.querySelectorAll('.grid-body [role=row]').length === 1);
  await page.click('.grid-body [role=row]');
  await page.waitForFunction(() => document.querySelectorAll('.sandwich canvas').length === 2);
  await page.waitForSelector('.sandwich:has-text("recurse")');
});

test('call tree: opened and closed by keys', async () => {
  await at('tree');
  await shot('tree');
  await page.focus('[role=tree]');
  const selected = () => page.textContent('[role=treeitem][aria-selected=true]');
  await page.keyboard.press('End');
  await soon(async () => assert.match(await selected(), /recurse/));
  const before = await page.locator('[role=treeitem]').count();
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction((n) => document.querySelectorAll('[role=treeitem]').length > n, before);
  await page.keyboard.press('ArrowLeft');
  await page.waitForFunction((n) => document.querySelectorAll('[role=treeitem]').length === n, before);
});

test('hostile names are text', async () => {
  for (const name of ['overview', 'flame', 'functions', 'tree', 'timeline']) {
    await at(name);
    const body = await page.textContent('body');
    assert.ok(!/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u001b]/.test(body), name);
    if (['overview', 'functions', 'tree'].includes(name)) {
      assert.ok(body.includes(HOSTILE.name_markup), name);
      assert.ok(body.includes('bidi_\\u202egnp.exe'), name);
      assert.ok(body.includes('ctl_\\x1b[31m_\\x01end'), name);
    }
  }
  assert.equal(await page.locator('#app script').count(), 0);
  await at('functions', `&fn=${encodeURIComponent(HOSTILE.name_markup)}`);
  assert.match(await page.textContent('.sandwich h2'), /<script>/);
});

test('exports: pprof, svg, html are those of the command', async () => {
  for (const [format, option] of [['pprof', 'pprof'], ['folded', 'folded'], ['svg', 'svg'], ['html', 'html'], ['speedscope', 'speedscope']]) {
    const r = await server.ask(`/api/v1/export/${format}?trace=1&metric=space`);
    assert.equal(r.status, 200, format);
    assert.match(r.headers.get('content-disposition'), /attachment; filename="heap\./);
    assert.ok((await r.arrayBuffer()).byteLength > 300, option);
  }
  assert.equal((await server.ask('/api/v1/export/nonsense?trace=1')).status, 404);
  await at('flame');
  await more(page);
  await page.click('#export');
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:has-text("Folded")')]);
  assert.match(readFileSync(await file.path(), 'utf8'), /main;load_table 8388608/);
});

test('accessibility: no rule is broken, in both themes', async () => {
  const broken = [];
  for (const scheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const name of ['overview', 'timeline', 'flame', 'functions', 'tree', 'home']) {
      await at(name);
      broken.push(...(await axe(page)).map((v) => `${name} ${scheme}: ${v}`));
      await page.setViewportSize({ width: 800, height: 600 });
      await drawn(page);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 0) broken.push(`${name} is ${over} px too wide at 800`);
      await shot(`${name}-800-${scheme}`);
      await page.setViewportSize({ width: 1600, height: 900 });
      await drawn(page);
      await shot(`${name}-1600-${scheme}`);
    }
  }
  assert.deepEqual(broken, []);
});

test('who may ask', async () => {
  const endpoints = [['GET', '/api/v1/status'], ['GET', '/api/v1/events'], ['POST', '/api/v1/traces?path=/etc/passwd'], ['GET', '/api/v1/traces/1/timeline'],
    ['GET', '/api/v1/traces/1/flame'], ['GET', '/api/v1/traces/1/table/functions'], ['POST', '/api/v1/query?trace=1'], ['GET', '/api/v1/export/pprof?trace=1']];
  const raw = (method, path, headers) => new Promise((ok, no) => {
    const r = http.request(server.origin + path, { method, headers }, (a) => {
      ok(a.statusCode);
      a.destroy();
    });
    r.on('error', no);
    r.end();
  });
  for (const [method, path] of endpoints) {
    assert.equal(await raw(method, path, {}), 403, `${path} without a token`);
    assert.equal(await raw(method, path, { Authorization: 'Bearer 00' }), 403, `${path} with a wrong one`);
    const good = { Authorization: `Bearer ${server.token}` };
    assert.equal(await raw(method, path, { ...good, Origin: 'http://evil.example' }), 403, `${path} from another page`);
    assert.equal(await raw(method, path, { ...good, Host: 'evil.example' }), 403, `${path} by a foreign name`);
  }
  const stranger = await browse();
  await stranger.goto(server.origin);
  await stranger.waitForSelector('[role=alert]');
  assert.match(await stranger.textContent('main'), /needs its address/);
  // Nothing that others can read holds the token: command lines of our processes.
  assert.ok(!readFileSync(`/proc/${server.pid}/cmdline`, 'utf8').includes(server.token));
});

test('SQL is read-only, limited, and ends with its asker', async () => {
  const ask = async (sql, limit = '') => (await server.ask(`/api/v1/query?trace=1${limit}`, { method: 'POST', body: sql })).json();
  for (const sql of [`attach database '/tmp/x' as x`, `vacuum into '/tmp/x'`, 'pragma writable_schema=1', `select load_extension('x')`])
    assert.ok((await ask(sql)).error, sql);
  const r = await ask('with recursive c(x) as (select 1 union all select x+1 from c limit 100) select x from c', '&limit=7');
  assert.equal(r.results[0].rows.length, 7);
  assert.equal(r.results[0].truncated, true);
  assert.deepEqual((await ask('select 9007199254740993 a, null b, 1.5 c')).results[0].rows, [['9007199254740993', null, 1.5]]);
  const stop = new AbortController();
  const endless = server.ask('/api/v1/query?trace=1', { method: 'POST', body: 'with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c', signal: stop.signal })
    .then((a) => a.text()).catch(() => 'left');
  await quiet(300); // it may be at work
  stop.abort();
  assert.equal(await endless, 'left');
  const begin = Date.now();
  assert.equal((await ask('select 1')).error, null);
  assert.ok(Date.now() - begin < 30_000, 'the endless query ended');
});

test('bad traces are told, good ones opened beside them', async () => {
  const second = await serve(join(dir, 'foreign.bin'), join(dir, 'empty.trace'), join(dir, 'broken.trace'));
  const s = await (await second.ask('/api/v1/status')).json();
  assert.equal(s.traces.length, 3);
  for (const t of s.traces) assert.ok(['failed', 'ready'].includes(t.state));
  const p = await browse();
  await p.goto(second.url);
  await p.waitForSelector('.banner.bad, .empty');
  await p.goto(`${second.origin}/#!/home`);
  await p.setInputFiles('input[type=file]', trace);
  await p.waitForSelector('.figures');
  const opened = await (await second.ask('/api/v1/status')).json();
  assert.equal(opened.traces[3].state, 'ready');
  assert.equal((await second.ask('/api/v1/traces?path=/nowhere', { method: 'POST' })).status, 400);
  assert.deepEqual(p.problems, []);
  assert.deepEqual(await second.stop('SIGINT'), { code: 0, signal: null });
  await p.waitForSelector('.banner.gone');
});

test('an answer about open traces that comes late does not replace a newer one', async () => {
  const p = await browse();
  let held = null, let_go;
  const gone = new Promise((ok) => (let_go = ok));
  await p.route('**/api/v1/status', async (route) => { // the one after the upload: as it was while the trace was read
    if (route.request().method() !== 'GET' || !held) return route.continue();
    const answer = await route.fetch();
    const old = await answer.json();
    const now = old.traces.at(-1);
    await gone;
    await route.fulfill({ response: answer, json: { ...old, changes: held.changes, traces: [...old.traces.slice(0, -1), { ...now, state: 'loading', stage: 'naming' }] } });
  });
  const s = await serve(trace);
  await p.goto(s.url);
  await p.waitForSelector('.figures');
  held = await (await s.ask('/api/v1/status')).json();
  await go(p, '#!/home');
  await p.setInputFiles('input[type=file]', trace);
  const done = async () => (await (await s.ask('/api/v1/status')).json()).traces.filter((t) => t.state === 'ready').length === 2;
  while (!(await done())) await quiet(20);
  await p.waitForFunction(() => [...document.querySelectorAll('.with-close')].filter((x) => /\d dumps/.test(x.textContent)).length === 2); // the event that it is ready has come
  let_go();
  await p.waitForSelector('.figures');
  await settled(p); // where the late answer would show
  assert.ok(await p.isVisible('.figures'));
  assert.deepEqual(p.problems, []);
  await p.unrouteAll({ behavior: 'ignoreErrors' }); // it asks on when the server has gone
  await p.close();
  await s.stop();
});

test('an address with a trace that is not open says what is shown in its place', async () => {
  await go(page, '#!/flame?trace=99');
  await page.waitForSelector('.banner:has-text("Trace 99 of this address is not open here; this is grow.trace")');
  await page.click('.banner [aria-label=Dismiss]');
  await page.waitForSelector('.banner:has-text("Trace 99")', { state: 'detached' });
  await go(page, '#!/flame?trace=98');
  await page.waitForSelector('.banner:has-text("Trace 98 of this address")');
  await at('leaks'); // whoever goes on has read it
  assert.equal(await page.locator('.banner:has-text("Trace 98")').count(), 0);
  await go(page, '#!/No-such?trace=1');
  await page.waitForSelector('.banner:has-text("There is no page “No-such”; this is the overview")');
  await page.waitForSelector('.figures');
  await go(page, '#!/flame?trace=1&upid=77');
  await page.waitForSelector('.banner:has-text("no heap profile of process 77")');
  await page.waitForSelector('.flame canvas');
  assert.doesNotMatch(await address(page), /upid=77/);
  await go(page, '#!/functions?trace=1&heap=' + encodeURIComponent('no\u202eheap'));
  await page.waitForSelector('.banner:has-text("has no heap no\\\\u202eheap; all its heaps are shown")');
  await page.waitForSelector('.grid-body [role=row]');
  await at('leaks');
  assert.equal(await page.locator('.banner:has-text("has no heap")').count(), 0);
  await at('overview');
  await page.setViewportSize({ width: 320, height: 844 });
  await at('timeline');
  const labels = await page.$$eval('.ruler span', (all) => all.map((x) => x.getBoundingClientRect()).map((r) => [r.left, r.right]));
  assert.ok(labels.length > 0 && labels.every(([left], i) => i === 0 || left >= labels[i - 1][1]), 'labels of the ruler lie on each other');
  await page.setViewportSize({ width: 1600, height: 900 });
});

test('when most is freed at the end, every page opens at the peak, and the end can be chosen', async () => {
  writeFileSync(join(dir, 'freed.c'), `#include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    int main(void) { static char *p[4000]; for (int i = 0; i < 4000; i++) p[i] = memset(malloc(10000), 1, 10000);
      usleep(1500000); for (int i = 0; i < 4000; i++) free(p[i]); usleep(300000); }`);
  run('cc', ['-O1', '-o', 'freed', 'freed.c']);
  cli('record', '-q', '-c', '100ms', '--force', '-o', 'freed.trace', '--', './freed');
  const s = await serve(join(dir, 'freed.trace'));
  const p = await browse();
  await p.goto(s.url);
  for (const name of ['flame', 'tree', 'functions', 'sizes']) {
    await visit(p, name);
    await p.waitForFunction(() => /[?&]at=peak/.test(location.hash));
    await p.waitForFunction(() => /the peak, 38\.\d MiB/.test(document.querySelector('[aria-label=Moment]').selectedOptions[0].textContent));
  }
  await p.selectOption('[aria-label=Moment]', { label: await p.$eval('[aria-label=Moment] option:last-child', (o) => o.textContent) });
  await visit(p, 'tree', `&at=${await part(p, 'at', (t) => /^\d+$/.test(t ?? ''))}`);
  await part(p, 'at', (t) => /^\d+$/.test(t ?? ''));
  await p.focus('#filter');
  await p.keyboard.press('Control+k');
  await p.waitForFunction(() => document.activeElement?.matches('.omnibox input')); // Ctrl+K leads out of a field
  await p.keyboard.type('>the end');
  await p.keyboard.press('Enter');
  await p.waitForFunction(() => /at=\d+/.test(location.hash));
  assert.deepEqual(p.problems, []);
  await s.stop();
});

test('two pages at once, and the end', async () => {
  const other = await browse();
  await other.goto(server.url);
  await other.waitForSelector('.figures');
  await Promise.all(Array.from({ length: 20 }, (_, i) => graph(`metric=${i % 2 ? 'space' : 'alloc_space'}&invert=${i % 3 ? 1 : 0}`)));
  assert.deepEqual(page.problems, []);
  assert.deepEqual(other.problems, []);
  assert.deepEqual(await server.stop('SIGTERM'), { code: 0, signal: null });
  assert.match(cli('report', trace), /load_table/);
});
