// The findings pages on traces recorded here: figures against SQL and the command line, keys, hostile
// names, empty states, accessibility. HW_SHOTS=dir keeps screenshots.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { address, axe, browse, cli, dir, done, drawn, go, graphOf, here, HOSTILE, inspect, long, more, part, record, recordFamily, recordRedis, serve, settled, soon, visit } from './lib.mjs';

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

test('leaks: dumps that are not compared are told, with the reason', async () => {
  await at('leaks');
  const l = await (await server.ask('/api/v1/traces/1/leaks')).json();
  const { moments } = (await (await server.ask('/api/v1/traces/1/timeline')).json()).processes[0];
  const peaks = moments.filter((m) => m.for_peak).length, cleaned = moments.length - peaks - l.moments.length;
  assert.ok(cleaned >= 0);
  const text = (await page.locator('.left-out').count()) ? await page.textContent('.left-out') : '';
  if (peaks + cleaned === 0) assert.equal(text, '');
  else assert.ok(text.startsWith(`${l.moments.length} of ${moments.length} dumps are compared.`), text);
  assert.equal(/larger than ever/.test(text), peaks > 0);
  assert.equal(/freeing its memory/.test(text), cleaned > 0);
});

test('filters choose what sizes, lifetimes and leaks are about', async () => {
  const { upid } = (await (await server.ask('/api/v1/traces/1/timeline')).json()).processes[0];
  const whole = await (await server.ask(`/api/v1/traces/1/leaks?upid=${upid}`)).json();
  const some = await (await server.ask(`/api/v1/traces/1/leaks?upid=${upid}&filters=SS%3Acache`)).json();
  const none = await (await server.ask(`/api/v1/traces/1/leaks?upid=${upid}&filters=HS%3Acache`)).json();
  assert.ok(some.space > 0 && none.space > 0);
  assert.equal(some.space + none.space, whole.space);
  assert.ok(some.rows.every((r) => r.path.some((f) => /cache/i.test(f)) || r.rest));
  for (const metric of ['space', 'alloc_space']) {
    const s = await (await server.ask(`/api/v1/traces/1/sizes?upid=${upid}&metric=${metric}&filters=SS%3Acache`)).json();
    const f = await (await server.ask(`/api/v1/traces/1/table/functions?upid=${upid}&metric=${metric}&filters=SS%3Acache`)).json();
    assert.equal(s.total, f.total);
  }
  for (const name of ['sizes', 'leaks']) {
    await at(name, '&f=SS%3Acache');
    await page.waitForSelector('.filters [aria-label="Remove filter SS:cache"]');
    assert.deepEqual(await axe(page), []);
  }
});

test('leaks: opened by keys, reasons in words, a way to the graph and back', async () => {
  await at('leaks');
  const rows = page.locator('.verdict');
  const i = (await page.locator('table.leaks tbody tr').allTextContents()).findIndex((t) => t.includes('cache_insert'));
  await rows.first().focus();
  for (let k = 0; k < i; k++) await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.details');
  await settled(page);
  assert.match(await page.textContent('.details'), /held more than before in \d+ of \d+ intervals/);
  const url = await address(page);
  await page.reload();
  await page.waitForSelector('.details');
  assert.equal(await address(page), url);
  await page.click('.details a:has-text("Flamegraph")');
  await page.waitForSelector('.crumbs button:disabled');
  await soon(async () => assert.equal(await page.textContent('.crumbs button:disabled'), 'cache_insert'));
  await page.goBack();
  await page.click('.details button:has-text("I know")');
  await page.waitForSelector('.known summary:has-text("1 row left out")');
  await soon(async () => assert.ok(!(await page.textContent('table.leaks')).includes('cache_insert')));
  await page.click('.known summary');
  await page.click('.known summary');
  await page.fill('textarea', 'nonsense');
  await page.click('.known button:has-text("Apply")');
  await page.waitForSelector('[role=alert]:has-text("leak:PATTERN")');
});

/** The dumps of a trace's first process; those made of a maximum only are left out. */
const moments = async (id = 1) => (await (await server.ask(`/api/v1/traces/${id}/timeline`)).json()).processes[0].moments.filter((m) => !m.for_peak);
const table = async (query, id = 1) => {
  const r = await server.ask(`/api/v1/traces/${id}/table/diff?${query}`);
  assert.equal(r.status, 200, r.status === 200 ? '' : await r.text());
  return r.json();
};

test('diff: sides are those of SQL, rows those of the command', async () => {
  const m = await moments();
  const [first, last] = [m[0].ts, m.at(-1).ts];
  for (const [metric, condition] of [['space', '1'], ['alloc_space', 'size > 0']]) {
    const t = await table(`a_at=${first}&at=${last}&metric=${metric}&all=1`);
    for (const [k, ts] of [[0, first], [1, last]]) {
      const [[want]] = await server.sql(`select sum(size) from heap_profile_allocation where ts <= ${ts} and ${condition}`);
      assert.equal(t.total[k], want, `${metric} of side ${'AB'[k]}`);
    }
    const command = JSON.parse(cli('diff', '--json', '--all', '--top', '0', '--metric', metric, trace));
    assert.equal(t.same_run, true);
    assert.equal(t.data.length, command.rows.length);
    assert.ok(t.data.length >= 6);
    for (const [i, r] of command.rows.entries()) assert.deepEqual(t.data[i].slice(0, 6), [r.function, r.module, r.a, r.b, r.change, r.error], r.function);
  }
  const some = await table(`a_at=${first}&at=${last}&filters=${encodeURIComponent('SS:"cache_insert"')}`);
  assert.deepEqual(some.data.map((r) => r[0]), ['cache_insert']);
  assert.equal(some.total[2], some.data[0][4]);
  const share = await table(`a_at=${first}&at=${last}&mode=share&all=1`);
  assert.ok(Math.abs(share.data.reduce((a, r) => a + r[4], 0)) < 1e-9, 'shares only move');
  share.total.slice(0, 3).forEach((v, i) => assert.ok(Math.abs(v - [1, 1, 0][i]) < 1e-9, 'totals are 100 %'));
  const rate = await table(`a_at=${m[1].ts}&at=${last}&mode=rate&metric=alloc_space`);
  assert.ok(Math.abs(rate.total[1] * rate.b.seconds - m.at(-1).alloc_space) < 1);
  for (const bad of ['mode=nonsense', 'a_upid=9', 'a_at=x', 'match=/(/', 'filters=P%3Amain', 'a_heap=none'])
    assert.equal((await server.ask(`/api/v1/traces/1/table/diff?${bad}`)).status, 400, bad);
  assert.equal((await server.ask('/api/v1/traces/1/diff?a_trace=77')).status, 404);
});

test('diff: the graph holds together and adds up to both sides', async () => {
  const m = await moments();
  const { flags, nodes } = await graphOf(server.ask(`/api/v1/traces/1/diff?a_at=${m[0].ts}&at=${m.at(-1).ts}`));
  assert.equal(flags, 16);
  assert.equal(nodes[0].a, m[0].space);
  assert.equal(nodes[0].b, m.at(-1).space);
  for (const [i, x] of nodes.entries()) {
    let below = x.self, a = 0, b = 0;
    for (let c = i + 1; c < x.end; c = nodes[c].end) {
      assert.equal(nodes[c].parent, i);
      below += nodes[c].cum;
      a += nodes[c].a;
      b += nodes[c].b;
    }
    assert.ok(Math.abs(below - x.cum) < 1, 'as wide as what stands on it');
    assert.ok(x.cum >= Math.max(x.a, x.b) && a <= x.a && b <= x.b);
  }
});

test('diff: sides from the timeline, swapped, shared by address, undone by going back', async () => {
  await at('timeline');
  const single = page.locator('.diamond:not(.peak):not([aria-label*="zooms"])');
  await single.nth(Math.min(1, (await single.count()) - 2)).click({ modifiers: ['Control'] });
  await page.waitForFunction(() => location.hash.startsWith('#!/diff'));
  await page.waitForSelector('.figures');
  const all = (await (await server.ask('/api/v1/traces/1/timeline')).json()).processes[0].moments;
  const from = new URLSearchParams(await part(page, 'base', Boolean)).get('at');
  const m = [null, all.find((x) => String(x.ts) === from), all.at(-1)];
  const figure = async () => (await page.locator('.figures .value').allTextContents());
  await soon(async () => assert.deepEqual((await figure()).slice(0, 2), [bytes(m[1].space), bytes(m.at(-1).space)]));
  await settled(page);
  await page.keyboard.press('x');
  const swapped = () => soon(async () => assert.deepEqual((await figure()).slice(0, 2), [bytes(m.at(-1).space), bytes(m[1].space)]));
  await page.waitForSelector('.figures .figure:nth-child(3) .value:text-matches("^−")');
  await swapped();
  const url = await address(page);
  await page.reload();
  await page.waitForSelector('.figures .value');
  assert.equal(await address(page), url);
  await swapped();
  await page.goBack();
  await page.waitForSelector('.figures .figure:nth-child(3) .value:text-matches("^[+]")');
  await settled(page);
  const canvas = page.locator('.flame canvas').first();
  await canvas.focus();
  for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowDown');
  await soon(async () => assert.match(await page.textContent('.flame .sr'), /before, .* after, /));
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('zoom='));
  await page.keyboard.press('Escape');
  await page.click('table.diff tbody tr:first-child td.site button');
  await page.waitForFunction(() => location.hash.includes('f=SS'));
  await page.waitForFunction(() => document.querySelectorAll('table.diff tbody tr').length === 1);
  await isTame(false);
});

test('diff: an uploaded pprof file is the base; equal sides and empty ones say so', async () => {
  await at('diff');
  const file = await server.ask('/api/v1/export/pprof?trace=1&metric=space');
  await page.setInputFiles('input[aria-label="File to compare with"]', { name: 'other.pb.gz', mimeType: 'application/gzip', buffer: Buffer.from(await file.arrayBuffer()) });
  await page.waitForFunction(() => decodeURIComponent(location.hash).includes('base=trace=2'));
  await page.waitForSelector('.banner.note:has-text("same")');
  const s = await (await server.ask('/api/v1/status')).json();
  assert.match(s.traces[1].name, /other\.pb\.gz/);
  await isTame(false);
  const m = await moments();
  await at('diff', `&at=${m[2].ts}&base=${encodeURIComponent(`trace=1&at=${m[2].ts}`)}`);
  assert.match(await page.textContent('.banner.note'), /same dump/);
  await at('diff', `&f=${encodeURIComponent('SS:nowhere')}`);
  assert.match(await page.textContent('.findings'), /filters leave nothing/);
  await at('diff', '&all=1&by=total&mode=share');
  assert.match(await page.textContent('table.diff'), /points/);
  const [{ upid }] = (await (await server.ask('/api/v1/traces/1/timeline')).json()).processes;
  await at('diff', `&base=trace%3D1%26upid%3D${upid}&match=` + encodeURIComponent('/(/'));
  await page.waitForSelector('[role=alert]');
  await at('diff', '&all=1&by=total');
  await isTame();
});

test('accounting: every line is that of SQL, steps add up, and the page shows them', async () => {
  const m = (await moments()).at(-1);
  const a = await (await server.ask(`/api/v1/traces/1/accounting?at=${m.ts}`)).json();
  assert.equal(a.now.requested.bytes, m.space);
  const counter = async (name, ts) => (await server.sql(`select c.value from counter c join process_counter_track t on c.track_id = t.id where t.name = '${name}' and c.ts = ${ts}`))[0][0];
  const lines = { in_use: ['malloc_info.in_use', 'malloc_info.mmap'], mapped: ['malloc_info.arena', 'malloc_info.mmap'], anonymous: ['mem.rss.anon'], resident: ['mem.rss'] };
  for (const [line, names] of Object.entries(lines)) {
    let want = 0;
    for (const name of names) want += await counter(name, a.now[line].at);
    assert.equal(a.now[line].bytes, want, line);
  }
  const shown = a.steps.filter((s) => s.total);
  assert.deepEqual(shown.map((s) => s.name), ['requested', 'in_use', 'mapped', 'anonymous', 'resident']);
  assert.ok(Math.abs(a.steps.filter((s) => !s.total).reduce((x, s) => x + s.bytes, m.space) - a.now.resident.bytes) < 1);
  const [[rss]] = await server.sql(`select sum(rss_kb) * 1024 from profiler_smaps where ts = ${a.kinds_at}`);
  assert.equal(Object.values(a.kinds).reduce((x, k) => x + k[2], 0), rss);
  await at('accounting');
  const text = await page.textContent('.waterfall');
  for (const s of a.steps) assert.ok(text.includes(bytes(s.bytes)), s.name);
  const { account } = a;
  assert.ok(Math.abs(account.parts.reduce((x, p) => x + p.rss, 0) - account.rss) < 1);
  const [[resident]] = await server.sql(`select sum(rss_kb) * 1024 from profiler_smaps where ts = ${account.at}`);
  assert.equal(account.rss, resident);
  const owners = await page.textContent('.owners');
  for (const p of account.parts.filter((x) => x.rss !== 0)) assert.ok(owners.includes(p.name) && owners.includes(bytes(p.rss)), p.name);
  await page.click('.owners button:has-text("program and libraries")');
  await page.waitForSelector('.owners:has-text("libc.so")');
  await page.click('.over:not(.parts) + details summary');
  await soon(async () => assert.equal(await page.locator('.over:not(.parts) + details tbody tr').count(), a.points.length));
  await page.keyboard.press('[');
  await page.waitForFunction(() => /at=\d+/.test(location.hash));
  await isTame(false);
});

test('sizes: classes are those of the command, sums those of SQL, a range filters the table', async () => {
  const s = await (await server.ask('/api/v1/traces/1/sizes?metric=alloc_space')).json();
  const want = JSON.parse(cli('stats', '--json', trace)).processes[0];
  assert.deepEqual(s.classes.filter((c) => c[2] || c[5]).map((c) => [...c.slice(1, 6), c[8]]), want.sizes.map((c) => [c.up_to, c.alloc_objects, c.alloc_space, c.objects, c.space, c.exact_objects]));
  const [[allocated]] = await server.sql('select sum(size) from heap_profile_allocation where size > 0');
  assert.equal(s.total, allocated);
  const short = await (await server.ask('/api/v1/traces/1/sizes?metric=temporary_space')).json();
  const [[temporary]] = await server.sql('select temporary_space from heapwise_tree((select min(upid) from heap_profile)) where parent_id is null');
  assert.ok(temporary > 0);
  assert.equal(short.total, temporary);
  await at('sizes', '&metric=temporary_space');
  assert.match(await page.textContent('.findings h2'), /temporary size/);
  assert.match(await page.textContent('.by-function'), /handle_request/);
  await at('sizes', '&metric=alloc_space');
  const bars = page.locator('.by-size button');
  await bars.first().focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('sizes='));
  await page.waitForFunction(() => !document.querySelector('.by-function')?.textContent.includes('load_table'));
  for (let i = 1; i < (await bars.count()); i++) await page.keyboard.press('Shift+ArrowRight');
  await page.waitForSelector('.by-function:has-text("load_table")');
  const url = await address(page);
  await page.reload();
  await page.waitForSelector('.by-size [aria-pressed=true]');
  assert.equal(await address(page), url);
  await page.locator('.by-size button').first().focus();
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !location.hash.includes('sizes='));
  await settled(page);
  const box = await page.locator('.by-size').boundingBox();
  await page.mouse.move((await page.locator('.by-size button').first().boundingBox()).x + 8, box.y + 100);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 100, { steps: 8 });
  await page.mouse.up();
  await page.waitForFunction(() => /sizes=\d+-\d+/.test(location.hash));
  await at('sizes', '&metric=alloc_space');
  await isTame();
});

test('lifetimes: what was asked for is that of SQL, bounds hold', async () => {
  const l = await (await server.ask('/api/v1/traces/1/lifetimes')).json();
  const [[allocated]] = await server.sql('select sum(size) from heap_profile_allocation where size > 0');
  assert.equal(l.functions.reduce((a, f) => a + f[2], 0), allocated);
  assert.equal(l.buckets.reduce((a, b) => a + b[1], 0), allocated);
  const row = (name) => l.functions.find((f) => f[0] === name);
  for (const f of l.functions) assert.ok(f[6] <= f[7] && f[7] <= f[2] && f[5] >= 0, f[0]);
  assert.equal(row('load_table')[7], 0);
  assert.ok(row('handle_request')[7] > 0.6 * row('handle_request')[2], 'three of four requests are freed at once');
  assert.ok(row('load_table')[5] > row('handle_request')[5]);
  await at('sizes');
  assert.match(await page.textContent('.by-stay ~ .scroll'), /handle_request/);
});

test('errors: variances add up, every page says how sure a figure is', async () => {
  const f = await (await server.ask('/api/v1/traces/1/table/functions?sort=error&order=desc&limit=100')).json();
  const m = (await moments()).at(-1);
  const total = f.data.find((r) => r[0] === 'main');
  assert.ok(Math.abs(total[5] - m.error) < 1e-6 * m.error && m.error > 0);
  assert.ok(Math.abs(Math.sqrt(f.data.reduce((a, r) => a + r[7] ** 2, 0)) - m.error) < 1e-6 * m.error, 'variances of the parts are that of the whole');
  const shares = f.data.map((r) => r[5] / r[3]);
  assert.deepEqual(shares, [...shares].sort((a, b) => b - a));
  assert.equal(f.data.find((r) => r[0] === 'load_table')[5], 0, 'larger than the interval: exact');
  const shown = `±${((100 * m.error) / m.space).toFixed(1)} %`;
  for (const name of ['overview', 'functions', 'tree', 'flame', 'accounting', 'leaks']) {
    await at(name);
    assert.ok((await page.textContent('main')).includes(shown), `${name}: ${shown}`);
  }
  await at('timeline');
  const labels = await page.locator('.diamond').evaluateAll((all) => all.map((x) => x.getAttribute('aria-label'))); // near ones are merged
  assert.ok(labels.some((x) => /live ±\d/.test(x)), labels.join('\n'));
});

test('show SQL: each finding has a query that gives its figures', async () => {
  const first = async (name, click) => {
    await at(name);
    await click();
    await page.waitForFunction(() => location.hash.startsWith('#!/query'));
    return server.sql(await part(page, 'sql', Boolean));
  };
  const m = await moments();
  const l = await (await server.ask('/api/v1/traces/1/leaks')).json();
  const figure = (i) => () => page.locator('.figures a[href*="query"]').nth(i).click();
  assert.deepEqual((await first('leaks', figure(0)))[0], [l.likely, l.rows.filter((r) => r.verdict === 'likely leak').length]);
  assert.deepEqual((await first('leaks', figure(1))).map((r) => r[10]), l.rows.map((r) => r.space));
  assert.equal((await first('leaks', figure(2)))[0][0], l.space);
  const d = await table(`a_at=${m[0].ts}&all=1`);
  assert.deepEqual((await first('diff', () => page.click('.bar button:has-text("SQL")'))).map((r) => [r[0], ...r.slice(2, 6)]), d.data.map((r) => [r[0], ...r.slice(2, 6)]));
  const a = await (await server.ask('/api/v1/traces/1/accounting')).json();
  assert.deepEqual((await first('accounting', figure(1))).map((r) => [r[0], r[2]]), a.steps.map((s) => [s.name, s.bytes]));
  const s = await (await server.ask('/api/v1/traces/1/sizes?metric=space')).json();
  assert.deepEqual((await first('sizes', () => page.locator('h2 a').first().click())).map((r) => [r[0], r[1]]), s.classes.map((c) => [c[1], c[5]]));
  const life = await (await server.ask('/api/v1/traces/1/lifetimes')).json();
  assert.deepEqual((await first('sizes', () => page.locator('h2 a').last().click())).map((r) => [r[0], ...r.slice(2)]), life.functions.map((f) => [f[0], ...f.slice(2)]));
});

test('exports: every format from the menu, names as text, figures of the graph', async () => {
  await at('flame');
  const save = async (label) => {
    await more(page);
    await page.click('#export');
    const [file] = await Promise.all([page.waitForEvent('download'), page.click(`[role=menuitem]:has-text("${label}")`)]);
    return { name: file.suggestedFilename(), bytes: readFileSync(await file.path()) };
  };
  const [[live]] = await server.sql('select sum(size) from heap_profile_allocation');
  const png = await save('PNG');
  assert.deepEqual([...png.bytes.subarray(0, 8)], [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  assert.ok(png.bytes.readUInt32BE(16) > 800 && png.bytes.readUInt32BE(20) >= 100, 'the size of the graph');
  const csv = (await save('CSV')).bytes.toString();
  const rows = csv.trim().split('\r\n').slice(1);
  const cells = (line) => [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map((m) => (m[1] ?? m[2]).replaceAll('""', '"'));
  assert.equal(rows.reduce((a, l) => a + Number(cells(l)[5]), 0), live);
  assert.equal(Number(cells(rows[0])[9]), live);
  const pprof = await save('pprof');
  assert.equal(pprof.name, 'heap.pb.gz');
  assert.equal(JSON.parse((await save('speedscope')).bytes).profiles[0].weights.reduce((a, w) => a + w, 0), live);
  for (const label of ['SVG', 'HTML']) {
    const file = await save(label);
    const path = join(dir, file.name);
    writeFileSync(path, file.bytes);
    const alone = await browse({ offline: true });
    await alone.goto(`file://${path}`);
    await alone.waitForFunction((l) => l === 'SVG' || document.querySelectorAll('tbody tr').length > 3, label);
    const text = await alone.evaluate(() => document.documentElement.textContent);
    assert.ok(!/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u001b]/.test(text), label);
    assert.ok(text.includes(HOSTILE.name_markup), label);
    assert.ok(text.includes('bidi_\\u{202e}gnp.exe'), label);
    if (label === 'HTML') {
      assert.match(await alone.textContent('tbody tr'), /load_table/);
      await alone.keyboard.press('/');
      await alone.keyboard.type('cache_insert');
      await alone.waitForFunction(() => document.getElementById('found').textContent.includes('%'));
      assert.deepEqual(await axe(alone), []);
      for (const colorScheme of ['light', 'dark']) {
        await alone.emulateMedia({ colorScheme });
        await drawn(alone);
        if (process.env.HW_SHOTS) await alone.screenshot({ path: join(process.env.HW_SHOTS, `export-html-1600-${colorScheme}.png`) });
      }
    } else if (process.env.HW_SHOTS) await alone.screenshot({ path: join(process.env.HW_SHOTS, 'export-svg-1600.png') });
    assert.deepEqual(alone.problems, []);
    await alone.close();
  }
  await at('flame', `&f=${encodeURIComponent('SS:"cache_insert"')}`);
  await more(page);
  await page.click('#export');
  await page.click('[role=menuitem]:has-text("pprof")');
  await page.waitForSelector('.bar [role=alert]:has-text("remove the filters")');
  await isTame(false);
});

test('several processes: heaps and names of an attacker, each process and each heap by itself', async () => {
  const family = await serve(recordFamily());
  const p = await browse();
  await p.goto(family.url);
  await p.waitForSelector('.figures');
  const rows = await family.sql('select upid - 1, name, heap_name, sum(a.size) from heap_profile_allocation a join process using (upid) group by upid, heap_name');
  const upids = [...new Set(rows.map((r) => r[0]))];
  assert.equal(upids.length, 3);
  assert.ok(rows.every((r) => /<b>heap<\/b>|libc/.test(r[2])));
  for (const upid of upids) {
    const want = rows.filter((r) => r[0] === upid).reduce((a, r) => a + r[3], 0);
    const a = await (await family.ask(`/api/v1/traces/1/accounting?upid=${upid}`)).json();
    assert.equal(a.now.requested.bytes, want);
    for (const [, , heap, size] of rows.filter((r) => r[0] === upid)) {
      const s = await (await family.ask(`/api/v1/traces/1/sizes?upid=${upid}&heap=${encodeURIComponent(heap)}`)).json();
      assert.equal(s.total, size, heap);
      const l = await (await family.ask(`/api/v1/traces/1/lifetimes?upid=${upid}&heap=${encodeURIComponent(heap)}`)).json();
      assert.equal(l.functions.reduce((x, f) => x + f[2], 0), size);
    }
  }
  const [grows, once] = ['onerror', 'once'].map((w) => rows.find((r) => r[1].includes(w))[0]);
  const t = await (await family.ask(`/api/v1/traces/1/table/diff?a_upid=${once}&upid=${grows}&all=1`)).json();
  assert.equal(t.same_run, false);
  const keep = t.data.find((r) => r[0] === 'keep_block');
  assert.deepEqual(keep.slice(2, 5), [200000, 1600000, 1400000]);
  for (const name of ['diff', 'leaks', 'sizes', 'accounting', 'timeline', 'flame']) {
    await visit(p, name, `&upid=${grows}`);
    const body = await p.textContent('body');
    assert.ok(!/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u001b]/.test(body), name);
    assert.ok(body.includes('<img src=x onerror=alert(1)>'), name);
    assert.equal(await p.locator('#app img, #app b:has-text("heap<")').count(), 0);
  }
  await visit(p, 'leaks', `&upid=${grows}`);
  assert.match(await p.textContent('table.leaks'), /keep_block/);
  await visit(p, 'diff', `&upid=${grows}&base=${encodeURIComponent(`trace=1&upid=${once}`)}`);
  const picked = await p.locator('.side-A select').first().evaluate((e) => e.selectedOptions[0].textContent);
  assert.ok(picked.startsWith('once\\u202etxt'), picked);
  const broken = await inspect(p, 'family-diff', () => visit(p, 'diff', `&upid=${grows}&base=${encodeURIComponent(`trace=1&upid=${once}`)}`));
  broken.push(...(await inspect(p, 'family-accounting', () => visit(p, 'accounting', `&upid=${grows}`))));
  assert.deepEqual(broken, []);
  assert.deepEqual(p.problems, []);
  await family.stop();
});

test('redis: findings of a real server agree with the command and SQL', async (t) => {
  const file = await recordRedis();
  if (!file) return t.skip('no redis-server');
  const redis = await serve(file);
  const sites = JSON.parse(cli('report', '--json', '--top', '0', file)).sites.filter((x) => x.callers.length > 1);
  const { data } = await (await redis.ask('/api/v1/traces/1/table/functions?sort=self&limit=1000&callers=1')).json();
  const [{ program, program_file }] = (await (await redis.ask('/api/v1/traces/1/timeline')).json()).processes;
  assert.ok(sites.length > 3);
  assert.ok(program === program_file || program === 'redis-server', program); // Debian's is a link to redis-check-rdb
  for (const x of sites.slice(0, 4)) {
    const row = data.find((r) => r[0] === x.function);
    assert.deepEqual(row[10].map(([name]) => name), x.callers.map((c) => c.function), x.function);
  }
  const p = await browse();
  await p.goto(redis.url);
  await p.waitForSelector('.figures');
  const [[live]] = await redis.sql('select sum(size) from heap_profile_allocation where ts <= (select max(ts) from heap_profile_allocation)');
  const l = await (await redis.ask('/api/v1/traces/1/leaks')).json();
  const want = JSON.parse(cli('leaks', '--json', '--top', '0', file));
  assert.deepEqual(l.rows.map((r) => [r.verdict, r.space, r.slope]), want.rows.map((r) => [r.verdict, r.space, r.slope_bytes_per_s]));
  const d = await (await redis.ask('/api/v1/traces/1/table/diff?limit=1')).json();
  assert.equal(d.total[1], live);
  const s = await (await redis.ask('/api/v1/traces/1/sizes?metric=space')).json();
  assert.equal(s.total, live);
  const broken = [];
  const pages = [['leaks', ''], ['accounting', ''], ...(long ? [['diff', ''], ['sizes', '&metric=alloc_objects'], ['overview', ''], ['functions', ''], ['tree', '']] : [])];
  for (const [name, query] of pages)
    broken.push(...(await inspect(p, `redis-${name}`, () => visit(p, name, query))));
  assert.deepEqual(broken, []);
  assert.deepEqual(p.problems, []);
  await redis.stop();
});

test('states: one dump, no figures of others, nothing left by filters', async () => {
  writeFileSync(join(dir, 'alone.pb.gz'), Buffer.from(await (await server.ask('/api/v1/export/pprof?trace=1')).arrayBuffer()));
  const other = await serve(join(dir, 'alone.pb.gz'));
  const p = await browse();
  await p.goto(other.url);
  await p.waitForSelector('.figures');
  const says = async (name, words, query = '') => {
    await visit(p, name, query);
    assert.match(await p.textContent('main'), words, name);
    if (process.env.HW_SHOTS) await p.screenshot({ path: join(process.env.HW_SHOTS, `empty-${name}-1600-light.png`) });
    assert.deepEqual(await axe(p), [], name);
  };
  await says('leaks', /One dump: growth takes two, a verdict four/);
  await says('diff', /Both sides hold the same: they are the same dump/);
  await says('sizes', /One dump does not tell how long/);
  await says('accounting', /no figures of the allocator or the kernel/);
  await says('diff', /filters leave nothing/, '&f=SS%3Anowhere');
  await says('diff', /one side is a single moment/, '&mode=rate');
  await says('leaks', /no heap profile of process|Live at the last dump/, '&upid=77');
  assert.deepEqual(p.problems, []);
  await other.stop();
});

test('the server goes away and comes back: what is shown stays; two tabs do not mind each other', async () => {
  const other = await browse();
  await other.goto(server.url);
  await other.waitForSelector('.figures');
  await at('leaks');
  await visit(other, 'diff');
  await page.route('**/api/**', (r) => r.abort());
  await go(page, '#!/sizes?trace=1&sizes=2-30');
  await page.waitForSelector('.banner.gone');
  if (process.env.HW_SHOTS) await page.screenshot({ path: join(process.env.HW_SHOTS, 'gone-1600-light.png') });
  assert.deepEqual(await axe(page), []);
  assert.ok((await address(page)).includes('#!/sizes'));
  assert.equal(await other.locator('.banner.gone').count(), 0);
  await other.keyboard.press('x');
  await other.waitForFunction(() => location.hash.includes('base='));
  await page.unroute('**/api/**');
  await page.evaluate(() => document.querySelector('.banner.gone button')?.click()); // or it came back by itself
  await page.waitForSelector('.by-size');
  await page.waitForFunction(() => !document.querySelector('.banner.gone'));
  page.problems.length = 0; // what was aborted above
  assert.deepEqual(other.problems, []);
});

test('the decoder of graphs: whatever the bytes are, a graph or its own error', async () => {
  const { build } = await import(join(here, '../../ui/node_modules/esbuild/lib/main.js')).then((m) => m.default ?? m);
  await build({ entryPoints: [join(here, '../../ui/src/graph/graph.ts')], bundle: true, format: 'esm', outfile: join(dir, 'graph.mjs'), logLevel: 'silent' });
  const { decode, BrokenGraph, search, path, nameOf } = await import(join(dir, 'graph.mjs'));
  const good = [];
  for (const q of ['flame?metric=space', 'flame?metric=space&invert=1', 'diff']) good.push(new Uint8Array(await (await server.ask(`/api/v1/traces/1/${q}`)).arrayBuffer()));
  let seed = 1, broken = 0;
  const dice = (n) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % n;
  for (let round = 0; round < 4000; round++) {
    let bytes = good[round % good.length].slice();
    for (let k = dice(6); k >= 0; k--) bytes[dice(dice(3) ? 400 : bytes.length)] = dice(256);
    if (dice(4) === 0) bytes = bytes.slice(0, dice(bytes.length));
    try {
      const g = decode(bytes.buffer);
      for (let i = 0; i < Math.min(g.n, 50); i++) assert.equal(typeof nameOf(g, i), 'string');
      search(g, 'main');
      if (g.n) path(g, g.n - 1);
    } catch (e) {
      assert.ok(e instanceof BrokenGraph, `round ${round}: ${e}`);
      broken++;
    }
  }
  assert.ok(broken > 500 && broken < 3900, `${broken} broken`);
});

test('by keys alone: from the overview to the top leak, its graph and a file', async () => {
  await at('overview');
  await page.evaluate(() => document.activeElement?.blur());
  const tabTo = async (selector) => {
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate((s) => document.activeElement?.matches(s), selector)) return;
    }
    assert.fail(`Tab does not reach ${selector}`);
  };
  await tabTo('.side a[href*="leaks"]');
  await page.keyboard.press('Enter');
  await page.waitForSelector('table.leaks');
  await tabTo('.verdict');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.details');
  await tabTo('.details a');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.crumbs button:disabled');
  await tabTo('.flame canvas');
  await page.keyboard.press('e');
  await page.waitForFunction(() => document.activeElement?.closest('[role=menu]')); // it takes the focus once it is drawn
  const [file] = await Promise.all([page.waitForEvent('download'), (async () => { await page.keyboard.press('ArrowDown'); await page.keyboard.press('Enter'); })()]);
  assert.match(file.suggestedFilename(), /^heap\./);
});

test('narrow windows lose nothing: 390 px and 320 px', async () => {
  for (const [width, names] of [[390, ['overview', 'diff', 'leaks', 'sizes', 'accounting']], [320, ['overview', 'flame', 'leaks']]]) {
    await page.setViewportSize({ width, height: 844 });
    for (const name of names) {
      await at(name);
      const over = await page.evaluate(() => { const m = document.getElementById('main'); return Math.max(m.scrollWidth - m.clientWidth, document.documentElement.scrollWidth - innerWidth); });
      assert.ok(over <= 0, `${name} is ${over} px too wide at ${width}`);
      const out = await page.$$eval('header button, header input, header select', (all) => all.filter((e) => { const r = e.getBoundingClientRect(); return r.left < 0 || r.right > innerWidth || r.width < 24; }).map((e) => e.getAttribute('aria-label') || e.textContent));
      assert.deepEqual(out, [], `out of sight at ${width}`);
      const tall = await page.$$eval('.scroll td.num', (all) => all.filter((e) => e.innerText.trim() && e.getBoundingClientRect().width < 40).map((e) => e.innerText));
      assert.deepEqual(tall, [], `figures of ${name} have no room at ${width}`);
    }
  }
  await page.setViewportSize({ width: 1600, height: 900 });
});

test('a phone shows every figure and name: rows are cards, further controls are behind a button', async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  for (const name of ['tree', 'leaks', 'info', 'symbols', 'diff', 'sizes']) {
    await at(name);
    const hidden = await page.$$eval('.scroll td, .tree .row > span', (all) => all.filter((e) => e.offsetWidth > 0 && e.getBoundingClientRect().right > innerWidth).map((e) => e.textContent));
    assert.deepEqual(hidden, [], `out of sight on ${name}`);
  }
  await at('leaks');
  assert.equal(await page.locator('.scroll td[data-name="Verdict"]').first().evaluate((e) => getComputedStyle(e, '::before').content), '"Verdict"');
  await at('flame');
  await page.waitForSelector('.flame canvas');
  const top = () => page.$eval('.flame canvas', (c) => c.getBoundingClientRect().top);
  assert.ok((await top()) < 400, `controls take ${await top()} px`);
  assert.ok(!(await page.isVisible('#filter')));
  await page.click('text=More…');
  for (const x of ['#filter', 'text=Collapse recursion']) await page.waitForSelector(x, { state: 'visible' });
  assert.deepEqual(await axe(page), []);
  await page.click('text=More…');
  assert.deepEqual(await axe(page), []);
  await page.setViewportSize({ width: 1600, height: 900 });
});

test('accessibility and looks: every page, both themes, both sizes', async () => {
  const broken = [];
  const pages = {
    sizes: () => at('sizes'), 'sizes-range': () => at('sizes', '&sizes=9-15&metric=alloc_objects'), accounting: () => at('accounting'), diff: () => at('diff'), 'diff-sides': () => at('diff', '&open=sides&mode=share&all=1'),
    leaks: () => at('leaks'), 'leaks-open': async () => { await at('leaks'); await page.locator('.verdict').first().click(); } };
  for (const [name, go] of Object.entries(pages)) broken.push(...(await inspect(page, name, go)));
  assert.deepEqual(broken, []);
});
