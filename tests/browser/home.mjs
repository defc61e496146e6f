// Home: what is open, what was, samples; and what a page keeps from server to server. The form of Record in the URL.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { address, browse, dir, done, go, inspect, part, record, serve, settled, soon, until, visit } from './lib.mjs';

let server, page, first, second;

before(async () => {
  first = record();
  second = join(dir, 'other.trace');
  copyFileSync(first, second);
  server = await serve('--allow-commands', first, second);
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures');
});
after(done);

const at = (hash) => go(page, hash);
const kept = async () => (await (await server.ask('/api/v1/kept')).text()).split('\n').filter(Boolean).map((l) => l.split('\t'));

test('#!/ is Home, an address without a wish is the first trace', async () => {
  assert.match(await address(page), /#!\/overview/);
  await at('#!/');
  await page.waitForSelector('.home');
  await page.reload();
  await page.waitForSelector('.home');
  await soon(async () => assert.equal(await page.locator('nav [aria-current=page]').textContent(), 'Home'));
  await page.click('nav a:has-text("Timeline")');
  await page.waitForSelector('.tracks');
  await page.click('.brand');
  await page.waitForSelector('.home');
  assert.match(await address(page), /#!\/(\?|$)/);
});

test('a trace is closed by its button, stays in the list of recent ones, and opens again', async () => {
  await at('#!/');
  await page.click('button[aria-label="Close other.trace"]');
  await page.waitForFunction(() => document.querySelectorAll('.with-close').length === 1);
  await until('one trace is open', async () => (await (await server.ask('/api/v1/status')).json()).traces.length === 1);
  assert.ok(existsSync(second), 'the file stays');
  await page.waitForSelector('[aria-label=Recent] >> text=other.trace');
  // The one that is looked at: by the button beside its name.
  await page.click('nav a:has-text("Overview")');
  await page.click('header button[aria-label="Close grow.trace"]');
  await page.waitForSelector('.home');
  await page.waitForFunction(() => document.querySelectorAll('[aria-label=Recent] li').length === 2);
  await soon(async () => assert.equal(await page.locator('.with-close').count(), 0));
  assert.deepEqual(await inspect(page, 'home-recent', () => page.waitForSelector('[aria-label=Recent]')), []);
  await page.click('[aria-label=Recent] button:has-text("other.trace")');
  await page.waitForSelector('.figures');
  const s = await (await server.ask('/api/v1/status')).json();
  assert.deepEqual(s.traces.map((t) => t.path), [second]);
});

test('what a user keeps is there with the next server, of another port; and goes on a wish', async () => {
  const recent = async () => JSON.parse((await kept()).find((l) => l[0] === 'recent')?.[1] ?? '[]');
  await until('both are kept', async () => existsSync(join(dir, 'state/heapwise/page')) && (await recent()).length === 2);
  assert.equal(statSync(join(dir, 'state/heapwise/page')).mode & 0o777, 0o600);
  assert.deepEqual((await recent()).map((r) => r.path).sort(), [first, second].sort());
  const next = await serve();
  const p = await browse();
  await p.goto(next.url);
  await p.waitForSelector('[aria-label=Recent] >> text=other.trace');
  await soon(async () => assert.equal(await p.locator('[aria-label=Recent] li').count(), 2));
  rmSync(second);
  await p.click('[aria-label=Recent] button:has-text("other.trace")');
  await p.waitForSelector('main [role=alert]');
  await go(p, '#!/');
  await p.click('button:has-text("Forget them")');
  await p.waitForFunction(() => !document.querySelector('[aria-label=Recent]'));
  await until('they are forgotten', async () => (await recent()).length === 0);
  assert.deepEqual(p.problems, []);
  await next.stop();
});

test('what is kept: keys, lines and size are checked, foreign text does no harm', async () => {
  const put = (key, body) => server.ask(`/api/v1/kept?key=${encodeURIComponent(key)}`, { method: 'POST', body });
  for (const key of ['', '../x', 'A', 'a\tb', 'x'.repeat(41)]) assert.equal((await put(key, '1')).status, 400, key);
  assert.equal((await put('a', '1\nrecent\t[]')).status, 400);
  assert.equal((await put('big', 'x'.repeat(300 << 10))).status, 413);
  for (let i = 0; i < 3; i++) assert.equal((await put(`big${i}`, 'x'.repeat(200 << 10))).status, 204);
  assert.equal((await put('recent', '[7,{"path":3},{"path":"<b>/x","words":{},"bytes":"y"}]')).status, 204);
  assert.equal((await put('units', '{"broken')).status, 204);
  const p = await browse();
  await p.goto(server.url);
  await p.waitForSelector('.figures');
  await go(p, '#!/');
  await p.waitForSelector('.home');
  assert.deepEqual(p.problems, []);
  for (let i = 0; i < 3; i++) assert.equal((await put(`big${i}`, '')).status, 204);
  assert.ok(!(await kept()).some((l) => l[0].startsWith('big')));
  // Many at once: none is lost.
  await Promise.all(Array.from({ length: 12 }, (_, i) => put(`k${i}`, String(i))));
  assert.deepEqual((await kept()).filter((l) => /^k\d/.test(l[0])).map((l) => l[1]).sort(), Array.from({ length: 12 }, (_, i) => String(i)).sort());
});

test('record: the form is in the URL; the allocator of each process is told', async () => {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' });
  try {
    await at('#!/record');
    await page.fill('#find-process', String(child.pid));
    const row = page.locator('.procs tbody tr', { hasText: String(child.pid) });
    await row.waitFor();
    const maps = readFileSync(`/proc/${child.pid}/maps`, 'utf8');
    assert.ok(/libc\.so\.6/.test(maps));
    assert.match(await row.textContent(), /glibc/);
    await row.locator('input').check();
    await page.fill('#f-interval', '64K');
    await page.selectOption('label.field:has-text("Dumps") select', 'every');
    await page.fill('#f-every', '2s');
    const q = async () => new URLSearchParams(new URLSearchParams((await page.evaluate(() => location.hash)).split('?')[1]).get('form'));
    await soon(async () => assert.deepEqual(Object.fromEntries(await q()), { interval: '64K', dumps: 'every', every: '2s', pids: String(child.pid) }));
    await page.reload();
    await page.waitForFunction(() => document.getElementById('f-interval')?.value === '64K');
    await soon(async () => assert.equal(await page.inputValue('#f-every'), '2s'));
    await page.waitForFunction((pid) => document.querySelector('[aria-label="As a command"] pre, pre[aria-label="As a command"]')?.textContent.includes(`-i 64K -c 2s ${pid}`), child.pid);
    await page.click('nav a:has-text("Home")');
    await page.waitForSelector('.home');
    await soon(async () => assert.ok(!(await address(page)).includes('form=')));
    await page.click('nav a:has-text("Record")');
    await page.waitForFunction(() => document.getElementById('f-interval')?.value === '64K');
    // Links with nonsense give an empty form, never a script.
    await at(`#!/record?form=${encodeURIComponent('kind=x&dumps=never&shmem=3&pids=a,-1,7.5&interval=<script>&nothing=1')}`);
    await page.waitForFunction(() => document.getElementById('f-interval')?.value === '<script>');
    assert.equal(await page.locator('.procs input:checked').count(), 0);
    await page.click('button:text-is("A command")');
    await page.fill('#command', 'sleep 1');
    await soon(async () => assert.equal((await q()).get('command'), 'sleep 1'));
    assert.deepEqual(page.problems, []);
  } finally {
    child.kill();
  }
});

test('the line in the top bar: functions, pages, commands, SQL, searches; units and the address', async () => {
  const s = await serve(first);
  const p = await browse();
  await p.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: s.origin });
  await p.goto(s.url);
  await p.waitForSelector('.figures');
  const options = () => p.locator('.omnibox [role=option]').allTextContents();
  await p.keyboard.press('Control+k');
  await p.keyboard.type('load_tab');
  await p.waitForSelector('.omnibox [role=option]:has-text("function in")');
  assert.deepEqual(await inspect(p, 'omnibox', async () => {}), []);
  const [[name]] = await s.sql(`select distinct name from heapwise_functions((select min(upid) from heap_profile)) where name like '%load_tab%'`);
  await p.click(`.omnibox [role=option]:has-text("${name}")`);
  await p.waitForFunction((n) => location.hash.startsWith('#!/functions') && location.hash.includes(`fn=${n}`), name);
  await p.keyboard.press('Control+k');
  await p.keyboard.type('>bottom');
  await soon(async () => assert.equal((await options()).length, 1));
  await p.keyboard.press('Enter');
  await part(p, 'invert', '1');
  await p.keyboard.press('Control+k');
  await p.keyboard.type('>');
  await until('all commands', async () => (await options()).length > 10);
  await p.keyboard.press('ArrowDown');
  await soon(async () => assert.equal(await p.locator('.omnibox [aria-selected=true]').getAttribute('id'), 'found-1'));
  await p.keyboard.press('Escape');
  await p.keyboard.press('Control+k');
  await p.keyboard.type('/recur.*/i');
  await p.keyboard.press('Enter');
  await p.waitForSelector('.match');
  await part(p, 'search', '/recur.*/i');
  await soon(async () => assert.match(await p.textContent('.match'), /^[1-9]\d* matches/));
  await p.keyboard.press('Control+k');
  await p.keyboard.type(': select 6 * 7 as x');
  await p.keyboard.press('Enter');
  await p.waitForFunction(() => /42/.test(document.querySelector('main').textContent));
  await go(p, '#!/overview?trace=1');
  await p.waitForSelector('.figures');
  const live = () => p.locator('.figures .value').first().textContent();
  await settled(p);
  assert.match(await live(), /MiB/);
  await p.click('button.units');
  await soon(async () => assert.match(await live(), /MB/));
  await p.click('button.units');
  const [[bytes]] = await s.sql('select sum(size) from heap_profile_allocation');
  await soon(async () => assert.equal((await live()).replace(/\D/g, ''), String(bytes)));
  await p.click('button.units');
  await p.click('header button:has-text("Share")');
  await p.waitForSelector('header button:has-text("Copied")');
  assert.equal(await p.evaluate(() => navigator.clipboard.readText()), await address(p));
  assert.ok(!(await address(p)).includes('token'));
  assert.deepEqual(p.problems, []);
  await s.stop();
});

// ---- samples ----

const status = async (s) => (await s.ask('/api/v1/status')).json();

test('--demo opens all samples, the first one in front, each with what its program is about', async () => {
  const demo = await serve('--demo');
  const page = await browse();
  await page.goto(demo.url);
  await page.waitForSelector('.figures');
  const s = await status(demo);
  assert.deepEqual(s.traces.map((t) => [t.name, t.state, t.path]), [
    ['server (sample)', 'ready', null], ['report (sample)', 'ready', null], ['shop (sample)', 'ready', null]]);
  await settled(page);
  assert.match(await address(page), /#!\/overview\?trace=1/);
  assert.match(await page.textContent('main'), /note_visit/);
  await visit(page, 'leaks');
  assert.match(await page.textContent('main'), /likely leak[^]*note_visit/i);
  await visit(page, 'functions', '', 2);
  assert.match(await page.textContent('main'), /read_sales/);
  await visit(page, 'heap', '', 3);
  await page.waitForFunction(() => document.querySelector('main').textContent.includes('PictureCache'));
  assert.deepEqual(page.problems, []);
  await demo.stop();
});

test('Home offers the samples where nothing is open', async () => {
  const s = await serve();
  const p = await browse();
  await p.goto(s.url);
  const list = p.locator('[aria-label=Samples]');
  await list.waitFor();
  assert.deepEqual(await inspect(p, 'home-samples', () => list.waitFor()), []);
  const { samples } = await status(s);
  assert.deepEqual(await list.locator('b').allTextContents(), samples.map((x) => x.name));
  await list.locator('button:has-text("server")').click();
  await p.waitForSelector('.figures');
  await settled(p);
  assert.match(await p.textContent('main'), /note_visit/);
  assert.deepEqual((await status(s)).traces.map((t) => t.name), ['server (sample)']);
  const wrong = await s.ask('/api/v1/traces?sample=../etc/passwd', { method: 'POST' });
  assert.equal(wrong.status, 400);
  assert.deepEqual(p.problems, []);
  await s.stop();
});
