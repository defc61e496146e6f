// Memory internals: processes of our own are tracked from the page, saved as one dump, opened, stopped; a
// mode takes those that start; figures against the command line; refusals. HW_SHOTS=dir keeps screenshots.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { axe, browse, cli, dir, done, heapwise, serve, soon, until } from './lib.mjs';

const PATH = '/api/v1/memory-internals/';
// Not a script that becomes it: an exec is another program, which is not tracked any more.
const PYTHON = spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).stdout.trim();
const children = [];
let server, page, redis, python, port;
const start = (cmd, args, env = {}) => {
  const child = spawn(cmd, args, { cwd: dir, stdio: 'ignore', env: { ...process.env, ...env } });
  children.push(child);
  return child;
};
const post = (verb, words, init = {}) => server.ask(PATH + verb, { method: 'POST', body: JSON.stringify(words), ...init });
const list = async () => (await server.ask(`${PATH}processes`)).json();
const ours = async () => (await list()).processes.filter(([pid, , tracked]) => tracked && children.some((c) => c.pid === pid)).map(([pid]) => pid);
const row = (pid) => `.internals-table tr:has(td.num:text-is("${pid}"))`;
const fill = (n) => spawnSync('redis-cli', ['-p', port, 'eval', `for i=1,${n} do redis.call('set','k'..math.random(1000000000),string.rep('x',200)) end`, '0'], { timeout: 20_000 });
const holder = (name) => ['-c', `import time\nkept = []\nwhile True:\n    kept.append(bytearray(20000))\n    kept = kept[-1000:]\n    time.sleep(0.005)\n`, name];
const pictures = async (name) => {
  if (!process.env.HW_SHOTS) return;
  for (const [w, h] of [[1600, 900], [390, 844]])
    for (const colorScheme of ['light', 'dark']) {
      await page.setViewportSize({ width: w, height: h });
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(200);
      await page.screenshot({ path: join(process.env.HW_SHOTS, `${name}-${w}-${colorScheme}.png`) });
    }
  await page.setViewportSize({ width: 1600, height: 900 });
  await page.emulateMedia({ colorScheme: 'light' });
};

before(async () => {
  port = await new Promise((ok) => {
    const s = createServer().listen(0, '127.0.0.1', () => {
      const p = String(s.address().port);
      s.close(() => ok(p));
    });
  });
  redis = start('redis-server', ['--port', port, '--save', '']);
  python = start(PYTHON, holder('one'));
  server = await serve();
  await post('mode', { mode: 'manual' }); // a run that was killed may have left one
  page = await browse();
  await page.goto(`${server.url}`);
});
after(async () => {
  for (const c of children) {
    await post('stop', { pid: c.pid }).catch(() => {});
    c.kill('SIGKILL');
  }
  await post('mode', { mode: 'manual' }).catch(() => {});
  await done();
});

test('who is there, what the mode is, nothing to save yet', async () => {
  await page.click('nav a[aria-label="Memory internals"]');
  await page.waitForSelector(row(redis.pid));
  await soon(async () => assert.match(await page.textContent('.internals-message'), /no trace has heap dumps|enabled/));
  if (!(await list()).processes.some((p) => p[2])) assert.ok(await page.isDisabled('button.internals-go'));
  await page.fill('#find-tracked', '1');
  await page.waitForSelector('.internals-table tr.cannot:has-text("never profiled")');
  assert.deepEqual(await axe(page), []);
  await page.fill('#find-tracked', '');
  await page.evaluate(() => document.activeElement.blur());
});

test('start: tracked from now on, with rate and stacks; starting again does nothing', async () => {
  await page.selectOption('#rate', '10000');
  await page.selectOption('#stacks', 'native-with-thread-names');
  await page.click(`${row(redis.pid)} button`);
  await page.waitForSelector(`${row(redis.pid)}.on`);
  await soon(async () => assert.match(await page.textContent(row(redis.pid)), /sampling.*10.000 bytes, native-with-thread-names/));
  await page.selectOption('#stacks', 'native');
  await page.click(`${row(python.pid)} button`);
  await page.waitForSelector(`${row(python.pid)}.on`);
  assert.deepEqual(await (await post('start', { pid: redis.pid })).json(), { already: 1 });
  fill(20000);
  await until('live bytes', async () => (await list()).details[redis.pid].live > 3e6);
  const d = (await list()).details[redis.pid];
  assert.equal(d.sampling_rate, 10000);
  assert.ok(d.samples > 100 && d.live < 40e6, JSON.stringify(d));
  await pictures('internals');
  await page.fill('#find-tracked', 'redis');
  await page.waitForSelector(row(python.pid), { state: 'detached' });
  assert.deepEqual(await axe(page), []);
  await page.fill('#find-tracked', '');
  await page.evaluate(() => document.activeElement.blur());
});

test('the command line shows the same, as it shows what it began to the page', async () => {
  const said = cli('memory-internals', 'list');
  assert.match(said, new RegExp(`${redis.pid} +redis-server.*10000 B, native-with-thread-names`));
  const json = JSON.parse(cli('memory-internals', '--json'));
  assert.deepEqual(json.processes.find((p) => p[0] === python.pid).slice(0, 1).concat(true), [python.pid, true]);
  cli('memory-internals', 'stop', String(python.pid));
  await page.keyboard.press('r');
  await page.waitForSelector(`${row(python.pid)}:not(.on)`);
  cli('memory-internals', 'start', String(python.pid), '--memlog-sampling-rate', '10000');
  await page.waitForSelector(`${row(python.pid)}.on`);
  await until('samples', async () => (await list()).details[python.pid].samples > 50);
});

test('a dump of the chosen ones is a memory-infra trace, and a trace', async () => {
  await page.check(`${row(redis.pid)} input`);
  await page.check(`${row(python.pid)} input`);
  redis.kill('SIGSTOP'); // the recorder knows all that is needed
  await page.click('button.internals-go:has-text("Save dump of 2")');
  await page.waitForSelector('.banner.good:has-text("Save successful")');
  redis.kill('SIGCONT');
  const text = await page.textContent('.banner.good');
  const name = /trace_with_heap_dump(\.\d+)?\.json\.gz/.exec(text)[0];
  const trace = JSON.parse(gunzipSync(readFileSync(join(dir, name))));
  const dumps = trace.traceEvents.filter((e) => e.ph === 'v');
  assert.deepEqual(dumps.map((e) => e.pid).sort(), [redis.pid, python.pid].sort());
  assert.equal(new Set(dumps.map((e) => e.id)).size, 1, 'one global dump');
  for (const e of dumps) {
    assert.equal(e.name, 'explicitly_triggered');
    assert.equal(e.args.dumps.level_of_detail, 'detailed');
    assert.ok(e.args.dumps.heaps_v2.allocators.malloc.nodes.length > 0);
    assert.ok(parseInt(e.args.dumps.process_totals.resident_set_bytes, 16) > 1e6);
  }
  const got = await page.waitForEvent('download', { timeout: 1 }).catch(() => null);
  assert.equal(got, null);
  const [download] = await Promise.all([page.waitForEvent('download'), page.click(`.banner.good a:has-text("${name}")`)]);
  assert.deepEqual(readFileSync(await download.path()), readFileSync(join(dir, name)));
  assert.ok(existsSync(join(dir, name.replace('.json.gz', '.trace'))));
  assert.match(cli('infra', name), /bytearray|PyByteArray|malloc/);
  const heap = await (await server.ask(`${PATH}heap/${redis.pid}/malloc?by=frames&rule=all`)).json();
  assert.match(heap.rows[0].label, /Thread: redis/); // its stack mode
  assert.ok(heap.rows[0].size > 2e6);
  assert.equal((await server.ask(`${PATH}heap/${redis.pid}/nothing`)).status, 400);
  assert.equal((await server.ask(`${PATH}heap/1/malloc`)).status, 400);
  assert.equal((await server.ask(`${PATH}heap/x`)).status, 404);
  await pictures('internals-saved');
  await page.click('.banner.good a:has-text("Open it")');
  await page.waitForURL(/#!\/memory-infra/);
  await page.waitForSelector('.infra-dumps');
  await page.waitForFunction(() => /redis-server/.test(document.querySelector('main').textContent) && !document.querySelector('[aria-busy=true]'));
  await page.goBack();
  await page.waitForURL(/#!\/memory-internals/); // the history is the browser's: it takes its time
  await page.waitForSelector(row(redis.pid));
});

test('stop; the key s saves all that is left', async () => {
  await page.click(`${row(redis.pid)} button:has-text("Stop")`);
  await page.waitForSelector(`${row(redis.pid)}:not(.on)`);
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('s');
  await page.waitForSelector('.banner.good:has-text("Save successful")');
  assert.deepEqual(await ours(), [python.pid]);
});

test('a process that ends is a row no more', async () => {
  python.kill('SIGKILL');
  await page.waitForSelector(row(python.pid), { state: 'detached' });
});

test('a mode takes processes that start and that it means', async () => {
  await page.selectOption('#mode', 'words');
  await page.fill('#mode-words', 'role:internals-test');
  await page.click('.internals-mode button');
  await until('the mode', async () => (await list()).mode === 'role:internals-test');
  const meant = start(PYTHON, holder('meant'), { MEMLOG_ROLE: 'internals-test' });
  const other = start(PYTHON, holder('other'));
  await page.waitForSelector(`${row(meant.pid)}.on`);
  await soon(async () => assert.match(await page.textContent(row(meant.pid)), /internals-test/));
  await soon(async () => assert.match(await page.textContent('.internals-message'), /role:internals-test/));
  assert.deepEqual(await ours(), [meant.pid]);
  assert.equal((await list()).details[other.pid].recording, null);
  // One of a mode leaves; the others would stay.
  await page.click(`${row(meant.pid)} button:has-text("Stop")`);
  await page.waitForSelector(`${row(meant.pid)}:not(.on)`);
  assert.equal((await list()).mode, 'role:internals-test');
  await page.selectOption('#mode', 'manual');
  await page.click('.internals-mode button');
  await until('no mode', async () => (await list()).mode === 'manual');
});

test('what cannot be done is refused with its reason', async () => {
  const said = async (r, status, text) => {
    assert.equal(r.status, status);
    assert.match(await r.text(), text);
  };
  await said(await post('start', { pid: 1 }), 403, /never profiled/);
  await said(await post('start', { pid: 4194304 }), 400, /no process 4194304/);
  await said(await post('start', { pid: 'some' }), 400, /"all" or "new"/);
  await said(await post('start', { pid: redis.pid, sampling_rate: 0 }), 400, /from 1/);
  await said(await post('start', { pid: redis.pid, sampling_rate: -5 }), 400, /from 1/);
  await said(await post('start', { pid: redis.pid, stack_mode: 'x' }), 400, /native, /);
  await said(await post('stop', { pid: redis.pid }), 400, /is not tracked/);
  await said(await post('mode', { mode: 'nothing' }), 400, /is not a mode/);
  await said(await post('mode', {}), 400, /must be a string/);
  await said(await server.ask(`${PATH}start`, { method: 'POST', body: 'x' }), 400, /not a JSON/);
  await said(await server.ask(`${PATH}what`), 404, /no such/);
  await said(await server.ask(`${PATH}file/99/json`), 404, /no dump/);
  const save = async (words) => (await post('save-dump', words)).text();
  assert.match(await save({ path: '/tmp/x' }), /event: ?failed[^]*cannot name files/);
  assert.match(await save({ level: 'light' }), /failed[^]*must be detailed/);
  assert.match(await save({ processes: [redis.pid] }), /failed[^]*is not tracked/);
  assert.deepEqual(await ours(), []);
});

test('what may not be done is told beside what is shown', async () => {
  await page.route('**/memory-internals/start', (route) => route.fulfill({ status: 403, body: 'process 7 is never profiled' }));
  await page.click(`${row(redis.pid)} button`);
  await page.waitForSelector('.banner.bad:has-text("process 7 is never profiled")');
  await page.unroute('**/memory-internals/start');
  await (await fetch(`${server.origin}/api/v1/status`)).text(); // the page's question came first
  assert.equal(await page.inputValue('#mode'), 'manual');
});

test('the token, the host and the origin are asked for', async () => {
  const bare = (path, init) => fetch(server.origin + path, init);
  assert.equal((await bare(`${PATH}processes`)).status, 403);
  assert.equal((await bare(`${PATH}start`, { method: 'POST', body: '{"pid":"all"}' })).status, 403);
  assert.equal((await post('stop', { pid: 'all' }, { headers: { Origin: 'http://elsewhere.example' } })).status, 403);
  assert.equal((await server.ask(`${PATH}start`)).status, 404); // an order is no question
});

test('where nothing can be profiled the page says so at its top', async () => {
  const all = await list();
  await page.route('**/memory-internals/processes', async (route) => {
    const unsupported = { code: 'not-permitted', reason: 'process 7 may not be looked at', remedy: 'Ask an administrator.' };
    await route.fulfill({ json: { ...all, unsupported } });
  });
  await page.keyboard.press('r');
  await page.waitForSelector('.internals > .banner.bad:first-child:has-text("Nothing can be profiled here")');
  assert.match(await page.textContent('.internals > .banner.bad'), /may not be looked at.*Ask an administrator/);
  await pictures('internals-unsupported');
  await page.unroute('**/memory-internals/processes');
  assert.deepEqual(page.problems, []);
});

test('what was tracked stays so when the server ends', async () => {
  const kept = start(PYTHON, holder('kept'));
  assert.equal((await post('start', { pid: kept.pid })).status, 200);
  const stopped = await server.stop();
  assert.equal(stopped.code, 0);
  const tracked = (json) => JSON.parse(json).processes.some((p) => p[0] === kept.pid && p[2]);
  assert.ok(tracked(cli('memory-internals', '--json')));
  cli('memory-internals', 'stop', String(kept.pid));
  assert.ok(!tracked(cli('memory-internals', '--json')));
  assert.equal(spawnSync(heapwise, ['memory-internals', 'nonsense']).status, 2);
});
