// Recording from the page: a redis of our own, chosen in the table, watched, stopped, opened; figures
// against SQL; a command; refusals; who may not ask. HW_SHOTS=dir keeps screenshots.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { axe, browse, cli, dir, done, go, heapwise, serve, soon, until } from './lib.mjs';

let server, page, redis, port;
const shot = async (name) => process.env.HW_SHOTS && page.screenshot({ path: join(process.env.HW_SHOTS, `${name}.png`) });
const bothThemes = async (name) => {
  if (!process.env.HW_SHOTS) return;
  for (const [w, h] of [[1600, 900], [800, 600]])
    for (const colorScheme of ['light', 'dark']) {
      await page.setViewportSize({ width: w, height: h });
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(150);
      await shot(`${name}-${w}-${colorScheme}`);
    }
  await page.setViewportSize({ width: 1600, height: 900 });
  await page.emulateMedia({ colorScheme: 'light' });
};
const load = (n) => spawnSync('redis-benchmark', ['-p', port, '-n', String(n), '-r', '100000', '-t', 'set', '-d', '200', '-q'], { timeout: 30_000 });
const post = (path, body, init = {}) => server.ask(path, { method: 'POST', body: JSON.stringify(body), ...init });
const recordings = () => page.$$eval('.rec', (all) => all.length);

before(async () => {
  port = await new Promise((ok) => {
    const s = createServer().listen(0, '127.0.0.1', () => {
      const p = String(s.address().port);
      s.close(() => ok(p));
    });
  });
  redis = spawn('redis-server', ['--port', port, '--save', ''], { cwd: dir, stdio: 'ignore' });
  server = await serve('--allow-commands');
  page = await browse();
  page.removeAllListeners('dialog');
  page.on('dialog', (d) => void d.accept());
  await page.goto(server.url);
});
after(async () => {
  redis?.kill('SIGKILL');
  await done();
});

test('home leads there; the table says who can be profiled, and why not', async () => {
  await page.click('a:has-text("Choose a running process")');
  await page.waitForSelector('.procs tbody tr');
  await page.waitForSelector('.procs:has-text("redis-server")');
  assert.ok(await page.isDisabled('button.go'));
  await page.fill('#find-process', '1');
  await page.waitForSelector('.procs tr.cannot:has-text("never")');
  assert.match(await page.textContent('.procs tr.cannot:has-text("never")'), /process 1 is never profiled.*Choose another process/s);
  await page.fill('#find-process', 'redis');
  await page.click(`.procs tr:has-text("${redis.pid}")`);
  await page.waitForSelector('.checks .ok');
  await page.waitForSelector('button.go:not(:disabled)');
  assert.deepEqual(await axe(page), []);
  await page.fill('#find-process', '');
  await bothThemes('record');
});

test('the preview is what the command line gives', async () => {
  await page.selectOption('label:has-text("Dumps") select', 'every');
  await page.fill('#f-every', '300ms');
  await page.fill('#f-interval', '512');
  await page.waitForFunction(() => /-i 512 -c 300ms/.test(document.querySelector('[aria-label="As a command"] pre')?.textContent ?? ''));
  const said = await page.textContent('[aria-label="As a command"] pre');
  const want = cli(...said.trim().split(' ').slice(1), '--print-config');
  assert.equal((await page.textContent('[aria-label="As a configuration"] pre')).trim(), want.trim());
});

test('refused in place', async () => {
  await page.fill('#f-interval', '0');
  await page.waitForSelector('#f-interval[aria-invalid=true]');
  await page.waitForSelector('#h-interval:has-text("zero sampling interval")');
  await page.waitForSelector('button.go:disabled');
  await page.fill('#f-interval', '512');
  await page.waitForSelector('button.go:not(:disabled)');
});

test('a recording: live figures, a dump, stop; the trace opens by itself and agrees with SQL', async () => {
  await page.focus('button.go');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.rec.running');
  assert.match(await page.textContent('.rec h2'), /Recording redis-server/); // before it answered, too
  await soon(async () => assert.match(await page.textContent('.rec .figure:has-text("Written") .note'), new RegExp(`^heap\\.redis-server.*\\.${redis.pid}\\.trace\\.part$`)));
  load(20000);
  await page.waitForFunction((pid) => [...document.querySelectorAll('.rec tbody tr')].some((r) => r.textContent.includes(String(pid)) && /profiled/.test(r.textContent)), redis.pid);
  await page.waitForFunction(() => Number(document.querySelectorAll('.rec .value')[1].textContent.replace(/\D/g, '')) > 1000);
  await bothThemes('recording');
  assert.deepEqual(await axe(page), []);
  const rival = await (await post('/api/v1/record/plan', { words: ['attach', String(redis.pid)] })).json();
  assert.equal(rival.ready, false);
  assert.match(rival.checks[0].text, /recording .* has it/);
  await page.click('button:has-text("Dump now")');
  await page.fill('[aria-label="Name of the mark"]', 'cache <warm>');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /1 mark|Marked 'cache <warm>'/.test(document.querySelector('.markform').textContent));
  const id = Number(/Recording (\d+)/.exec(await page.getAttribute('.rec', 'aria-label'))[1]);
  for (const bad of ['', 'x'.repeat(201)]) assert.equal((await server.ask(`/api/v1/record/mark?id=${id}`, { method: 'POST', body: bad })).status, 400);
  assert.equal((await server.ask('/api/v1/record/mark?id=99', { method: 'POST', body: 'x' })).status, 400);
  await page.reload(); // the tab may go: the recording does not
  await page.waitForSelector('.rec.running');
  await page.click('button:has-text("Stop and open")');
  await page.waitForFunction(() => location.hash.startsWith('#!/overview'));
  await page.waitForSelector('.figures');
  await soon(async () => assert.equal(await recordings(), 0));
  const [[live]] = await server.sql('select sum(size) from heap_profile_allocation');
  await soon(async () => assert.match(await page.textContent('.figures'), new RegExp(`· ${String(live).replace(/\B(?=(\d{3})+$)/g, '\\u202f')} B`)));
  // The mark is between the dump that was asked for before it and the last one.
  const [[name, before, after]] = await server.sql('select name, (select count(distinct ts) from heap_profile where ts < m.ts) > 0, (select max(ts) from heap_profile) > m.ts from profiler_mark m');
  assert.deepEqual([name, before, after], ['cache <warm>', 1, 1]);
  await page.click('nav a:has-text("Timeline")');
  await page.click('.named button:has-text("cache <warm>")');
  await page.waitForFunction(() => /at=\d/.test(location.hash));
  assert.deepEqual(await axe(page), []);
  await bothThemes('marks');
  const file = readdirSync(dir).find((f) => /^heap\.redis-server.*\.trace$/.test(f));
  assert.ok(file, 'the file has its final name');
  assert.match(cli('report', join(dir, file)), /redis-server/);
  assert.equal(redis.exitCode, null, 'the process runs on');
});

test('live: figures move, growth from a baseline, pause, another recorder, the end', async () => {
  await page.goto(`${server.origin}/#!/live`);
  await page.waitForSelector('.empty:has-text("No process is being recorded")');
  assert.deepEqual(await axe(page), []);
  const child = spawn(heapwise, ['attach', '-q', '-i', '512', '-o', 'other.trace', String(redis.pid)], { cwd: dir, stdio: 'ignore' });
  const ended = new Promise((ok) => child.on('exit', ok));
  await page.waitForSelector(`.list a:has-text("${redis.pid}")`);
  await page.click('.list a');
  await page.waitForFunction((pid) => location.hash === `#!/live/${pid}` || location.hash.startsWith(`#!/live/${pid}?`), redis.pid);
  load(8000);
  await page.waitForFunction(() => /dictAddRaw|createEmbedded|sdsnewlen|sdsnew/.test(document.querySelector('.growers')?.textContent ?? ''));
  const live = () => page.$eval('.figures .note', (e) => Number(/· (.*) B/.exec(e.textContent)[1].replace(/\D/g, '')));
  await page.waitForFunction(() => document.querySelector('.flame canvas'));
  load(8000);
  assert.deepEqual(await axe(page), []);
  await bothThemes('live');
  await page.click('[aria-label=Metric] button:has-text("Temporary size")'); // of what redis-server freed at once
  await page.waitForSelector('[aria-label=Metric] button:has-text("Temporary size")[aria-pressed=true]');
  await page.click('[aria-label=Metric] button:has-text("Live size")');
  await page.evaluate(() => document.activeElement.blur()); // keys are the page's again
  // Nothing happens now, so what the page shows is what SQL finds at the end of the recording.
  const rest = await page.evaluate((pid) => new Promise((ok) => {
    let last = NaN;
    const looks = new EventSource(`/api/v1/live/${pid}/events?every=1000&token=${sessionStorage.getItem('token')}`);
    looks.addEventListener('look', ({ data }) => {
      const { space } = JSON.parse(data);
      if (Math.abs(space - last) < 5000) ok((looks.close(), space));
      last = space;
    });
  }), redis.pid);
  await until('the page has looked, too', async () => Math.abs((await live()) - rest) < 10_000);
  await page.keyboard.press('b');
  await page.waitForFunction(() => document.querySelectorAll('.figures .value')[1].textContent === '0');
  const shown = await live();
  await page.keyboard.press(' ');
  await page.waitForSelector('button[aria-pressed=true]:has-text("Go on")');
  await page.keyboard.press(' ');
  child.kill('SIGINT');
  await ended;
  await page.waitForSelector('.banner.note:has-text("last look")');
  const report = JSON.parse(cli('report', '--json', join(dir, 'other.trace')));
  assert.ok(Math.abs(report.end.space - shown) < 20_000, `${report.end.space} is near ${shown}`);
});

test('a command: it is started, recorded to its end, and opened', async () => {
  await page.goto(`${server.origin}/#!/record`);
  await page.click('button:has-text("A command")');
  await page.fill('#command', `python3 -c "x = [bytes(3000) for i in range(3000)]"`);
  await page.waitForFunction(() => /heapwise record .*-- python3 -c .*'x = \[bytes/.test(document.querySelector('[aria-label="As a command"] pre')?.textContent ?? ''));
  await page.waitForSelector('button.go:not(:disabled)');
  await page.click('button.go');
  await page.waitForFunction(() => location.hash.startsWith('#!/overview') && /trace=2/.test(location.hash));
  await page.waitForSelector('.figures');
  const [[bytes]] = await server.sql('select sum(size) from heap_profile_allocation where size > 0', 2);
  assert.ok(bytes > 3000 * 3000, `${bytes}`);
});

test('nothing recorded says why; a recording thrown away leaves no file', async () => {
  await page.goto(`${server.origin}/#!/record`);
  const before = readdirSync(dir).length;
  const { id } = await (await post('/api/v1/record/start', { words: ['attach', String(redis.pid)] })).json();
  await page.waitForSelector('.rec.running');
  await page.click('button:has-text("Discard")');
  await page.waitForSelector('.past li:has-text("thrown away")');
  await until('its file is gone', () => readdirSync(dir).length === before);
  assert.equal((await post(`/api/v1/record/stop?id=${id}`, {})).status, 409);
  const sleeper = spawn('sleep', ['600']);
  await post('/api/v1/record/start', { words: ['attach', '-d', '300ms', String(sleeper.pid)] });
  await page.waitForSelector('.past li:has-text("Nothing was recorded")');
  sleeper.kill();
  await bothThemes('recorded');
});

test('a process tells its samples before its first dump', async () => {
  const { id } = await (await post('/api/v1/record/start', { words: ['attach', '-i', '512', String(redis.pid)] })).json();
  await go(page, '#!/record');
  await page.waitForSelector(`.rec.running[aria-label="Recording ${id}"] tbody tr:has-text("profiled")`);
  load(5000);
  await page.waitForFunction((n) => {
    const rec = document.querySelector(`.rec[aria-label="Recording ${n}"]`);
    const told = (x) => Number(x.textContent.replace(/\D/g, ''));
    return told(rec.querySelectorAll('.value')[3]) === 0 && told(rec.querySelector('tbody tr').cells[3]) > 100;
  }, id);
  await server.ask(`/api/v1/record/discard?id=${id}`, { method: 'POST' });
  await page.waitForSelector(`.rec.running[aria-label="Recording ${id}"]`, { state: 'detached' });
});

test('only the token, only POST, only what a page may say', async () => {
  const bare = (path, init) => fetch(server.origin + path, init);
  for (const path of ['/api/v1/processes', '/api/v1/events', '/api/v1/status']) assert.equal((await bare(path)).status, 403, path);
  for (const verb of ['plan', 'start', 'stop?id=1', 'dump?id=1', 'discard?id=1', 'end?id=1']) {
    const path = `/api/v1/record/${verb}`;
    const body = JSON.stringify({ words: ['attach', String(redis.pid)] });
    assert.equal((await bare(path, { method: 'POST', body })).status, 403, path);
    assert.equal((await bare(path, { method: 'POST', body, headers: { Authorization: 'Bearer 00' } })).status, 403, path);
    assert.equal((await post(path, { words: [] }, { headers: { Origin: 'http://evil.example', Authorization: `Bearer ${server.token}` } })).status, 403, path);
    assert.equal((await server.ask(path)).status, 405, path);
  }
  const elsewhere = `/tmp/heapwise-elsewhere.${process.pid}`;
  for (const words of [['attach', '-o', elsewhere, '1'], ['record', '--preload-library', '/tmp/x.so', '--', 'ls'], ['attach', '--symbols', '/', '1']])
    assert.equal((await post('/api/v1/record/start', { words })).status, 403, String(words));
  for (const words of [['rm', '-rf'], ['serve'], [], ['attach', 7], ['attach', '-i', 'x', '1'], ['attach', '1'], ['record', '--', 'no-such-program-here']])
    assert.equal((await post('/api/v1/record/start', { words })).status, 400, String(words));
  assert.equal((await server.ask('/api/v1/record/start', { method: 'POST', body: '{' })).status, 400);
  assert.equal((await server.ask('/api/v1/record/start', { method: 'POST', body: 'x'.repeat(100_000) })).status, 413);
  assert.ok(!existsSync(elsewhere));
});

test('the server ends its recordings: their files are complete', async () => {
  await post('/api/v1/record/start', { words: ['attach', '-i', '1K', String(redis.pid)] });
  load(3000);
  await page.waitForFunction(() => /profiled/.test(document.querySelector('.rec')?.textContent ?? ''));
  assert.deepEqual(await server.stop('SIGINT'), { code: 0, signal: null });
  await page.waitForSelector('.banner.bad:has-text("does not answer")');
  assert.ok(!readdirSync(dir).some((f) => f.endsWith('.part')));
  assert.deepEqual(page.problems.filter((p) => !p.startsWith('a dialog')), []);
  assert.equal(redis.exitCode, null);
});
