// What the browser tests share: a trace recorded now, a server of ours, a page in Chromium.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const here = dirname(fileURLToPath(import.meta.url));
export const heapwise = join(process.env.HW_BUILD, 'src/cli/heapwise');
export const dir = mkdtempSync(join(tmpdir(), 'heapwise-browser-'));
const ends = [];

/** Milliseconds after which what does not come counts as hung: a machine with other work takes many times what an idle one does. */
const HANGS = 60_000;

export const HOSTILE = {
  name_markup: '<script>alert(1)</script>',
  name_bidi: 'bidi_\u202egnp.exe',
  name_control: 'ctl_\u001b[31m_\u0001end',
};

export function run(cmd, args, options = {}) {
  const r = spawnSync(cmd, args, { cwd: dir, encoding: 'utf8', timeout: 60_000, ...options });
  if (r.status !== 0) throw new Error(`${cmd} ${args.join(' ')}: ${r.status} ${r.stderr}`);
  return r.stdout;
}

/** Builds grow.c, gives three functions names of an attacker, records it. */
export function record(name = 'grow.trace', ...options) {
  run('cc', ['-O1', '-fno-omit-frame-pointer', '-c', join(here, 'targets/grow.c'), '-o', 'grow.o']);
  run('objcopy', [...Object.entries(HOSTILE).flatMap(([from, to]) => ['--redefine-sym', `${from}=${to}`]), 'grow.o']);
  run('cc', ['-rdynamic', '-o', 'grow', 'grow.o']);
  run(heapwise, ['record', '-q', '-i', '4096', '-c', '250ms', '--force', '-o', name, ...options, '--', './grow']);
  return join(dir, name);
}

/** Three processes with two heaps each (family.c). */
export function recordFamily() {
  run('cc', ['-O1', '-g', '-fno-omit-frame-pointer', '-rdynamic', `-I${join(here, '../../include')}`, '-o', 'family', join(here, 'targets/family.c')]);
  run(heapwise, ['record', '-q', '-i', '4096', '-c', '100ms', '--follow-fork', '--all-heaps', '--force', '-o', 'family.trace', '--', './family']);
  return join(dir, 'family.trace');
}

/** redis-server while it is filled; null where there is none. */
export async function recordRedis() {
  if (spawnSync('redis-server', ['--version']).status !== 0) return null;
  const socket = join(dir, 'redis.sock');
  const trace = join(dir, 'redis.trace');
  const recorded = spawn(heapwise, ['record', '-q', '-c', '100ms', '--malloc-info', '100ms', '--smaps', '200ms', '-o', trace, '--', 'redis-server', '--port', '0', '--unixsocket', socket, '--save', '', '--dir', dir], { stdio: 'ignore' });
  const ended = new Promise((ok) => recorded.on('exit', ok));
  await until('redis-server listens', () => existsSync(socket));
  spawnSync('redis-benchmark', ['-s', socket, '-t', 'set,lpush,hset', '-n', '20000', '-r', '20000', '-q'], { timeout: 20_000 });
  spawnSync('redis-cli', ['-s', socket, 'shutdown', 'nosave'], { timeout: 5000 });
  await ended;
  return trace;
}

export const cli = (...args) => run(heapwise, args);

/** A server; {url, origin, token, stop}. */
export async function serve(...args) {
  const child = spawn(heapwise, ['serve', '--traces', dir, ...args], { cwd: dir, stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, XDG_STATE_HOME: join(dir, 'state') } });
  const ended = new Promise((ok) => child.on('exit', (code, signal) => ok({ code, signal })));
  ends.push(() => child.kill('SIGKILL'));
  let said = '';
  const url = await new Promise((ok, no) => {
    child.stderr.on('data', (d) => {
      said += d;
      const m = /address is in '(.+)'/.exec(said) ?? /token in '(.+)': (\S+#token=)/.exec(said);
      const kept = m && readFileSync(resolve(dir, m[1]), 'utf8').trim(); // an absolute path stays one
      if (m) ok(m[2] ? `${m[2]}${kept}` : kept);
    });
    child.on('exit', () => no(new Error(`serve ended: ${said}`)));
  });
  const [origin, token] = [new URL(url).origin, /token=([\w-]+)/.exec(url)[1]];
  const ask = (path, init = {}) =>
    fetch(origin + path, { ...init, headers: { Authorization: `Bearer ${token}`, ...init.headers } });
  const sql = async (text, trace = 1) => {
    const r = await (await ask(`/api/v1/query?trace=${trace}`, { method: 'POST', body: text })).json();
    if (r.error) throw new Error(r.error);
    return r.results.at(-1).rows;
  };
  await until('the traces are read', async () => (await (await ask('/api/v1/status')).json()).traces.every((t) => t.state !== 'loading'), 60_000);
  return {
    url, origin, token, ask, sql, pid: child.pid,
    stop: (signal = 'SIGINT') => {
      child.kill(signal);
      return ended;
    },
  };
}

/**
 * HW_SLOW=n: pages as on a slow, busy machine, so that a test that counts on speed or on an order of answers fails by it, and not
 * now and then. Their thread has an nth of its speed; every question to the server waits 0 to 400 ms, so answers overtake each
 * other. HW_SEED=s draws other delays, HW_BUSY=k keeps k processors busy beside.
 */
const slow = Number(process.env.HW_SLOW) || 0;
let seed = Number(process.env.HW_SEED) || 1;
const drawnMs = (below) => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 8) % below;

for (let k = Number(process.env.HW_BUSY) || 0; k > 0; k--) {
  const busy = spawn('sh', ['-c', 'while kill -0 $PPID; do for i in 0 1 2 3 4 5 6 7 8 9; do :; done; done'], { stdio: 'ignore' });
  busy.unref();
  ends.push(() => busy.kill());
}

async function slowDown(context) {
  const throttle = async (page) => (await context.newCDPSession(page)).send('Emulation.setCPUThrottlingRate', { rate: slow });
  context.on('page', (page) => void throttle(page).catch(() => {})); // it may be closed already
  await context.route('**/api/**', async (route) => {
    await quiet(drawnMs(400));
    await route.continue().catch(() => {}); // given up meanwhile
  });
}

/** Runs in a page before its own script: `unanswered` counts its questions to the server until what came is read and drawn. */
function countQuestions() {
  window.unanswered = 0;
  const ask = window.fetch;
  const end = () => setTimeout(() => unanswered--); // behind everything that an answer sets off at once
  window.fetch = async (...args) => {
    unanswered++;
    try {
      const r = await ask(...args);
      let read = false;
      for (const how of ['json', 'text', 'arrayBuffer', 'blob'])
        r[how] = () => {
          read = true;
          const body = Response.prototype[how].call(r);
          body.then(end, end);
          return body;
        };
      setTimeout(() => read || unanswered--); // nobody wants to know
      return r;
    } catch (e) {
      end();
      throw e;
    }
  };
}

let browser;
export async function browse(options = {}) {
  browser ??= await chromium.launch({
    executablePath: process.env.HW_CHROMIUM || '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--font-render-hinting=none'],
  });
  const context = await browser.newContext({ viewport: { width: 1600, height: 900 }, acceptDownloads: true, ...options });
  context.setDefaultTimeout(HANGS);
  await context.addInitScript(countQuestions);
  if (slow) await slowDown(context);
  const page = await context.newPage();
  page.problems = [];
  page.on('pageerror', (e) => page.problems.push(String(e)));
  page.on('dialog', (d) => {
    page.problems.push(`a dialog: ${d.message()}`);
    void d.dismiss();
  });
  page.on('request', (r) => {
    const u = new URL(r.url());
    if (u.protocol.startsWith('http') && u.hostname !== '127.0.0.1') page.problems.push(`a request to ${u.host}`);
  });
  return page;
}

// What a page showed when its test failed.
afterEach(async (t) => {
  if (t.passed !== false) return;
  for (const context of browser?.contexts() ?? [])
    for (const page of context.pages()) console.log(`at the end of '${t.name}': ${page.url()}\n${(await page.textContent('main').catch(String))?.slice(0, 600)}`);
});

/** Waits until something is so. */
export async function until(what, holds, ms = HANGS) {
  for (const end = Date.now() + ms; Date.now() < end; await new Promise((ok) => setTimeout(ok, 20))) {
    const v = await holds();
    if (v) return v;
  }
  throw new Error(`not within ${ms / 1000} s: ${typeof what === 'function' ? what() : what}`);
}

/** Waits until what `check` asserts is so; what it said last is the error. */
export async function soon(check) {
  let last;
  await until(() => last.message, () => check().then(() => true, (e) => void (last = e))).catch(() => {
    throw last;
  });
}

/** Where nothing shall happen there is no event to wait for. */
export const quiet = (ms) => new Promise((ok) => setTimeout(ok, ms));

/** Two frames were drawn, and what the page does behind each is done: what was pressed, sized or hovered before is seen and heard. */
export const drawn = (page) => page.evaluate(async () => {
  for (let i = 0; i < 2; i++) await new Promise((ok) => requestAnimationFrame(() => setTimeout(ok)));
});

/** What the page waits for with timers of up to `ms` has been done: where nothing shall happen there is no event. */
export const ripe = (page, ms) => page.evaluate((n) => new Promise((ok) => setTimeout(ok, n)), ms);

/** A page has its answers (nothing is asked, none of BUSY is there) and has drawn them. */
export const settled = (page, busy = '[aria-busy=true], [role=status].empty') => until('the page has its answers', async () => {
  await page.waitForFunction((s) => !(unanswered > 0 || document.querySelector(s)), busy);
  await drawn(page); // what was drawn may ask for more
  return page.evaluate((s) => unanswered === 0 && !document.querySelector(s), busy);
});

/** What was copied, when it is what is looked for. */
export const copied = (page, pattern) => until(`a copy like ${pattern}`, async () => {
  const text = await page.evaluate(() => navigator.clipboard.readText());
  return pattern.test(text) && text;
});

/** A graph's bytes as the server answers them (doc/design/pages.md): what the page's own decoder must agree with. */
export async function graphOf(answer) {
  const r = await answer;
  assert.equal(r.status, 200, r.status === 200 ? '' : await r.text());
  const b = Buffer.from(await r.arrayBuffer());
  const flags = b.readUInt32LE(8), n = b.readUInt32LE(12), nTexts = b.readUInt32LE(16);
  let end = 72;
  const take = (width, count = n) => [end, (end += Math.ceil((count * width) / 8) * 8)][0];
  const i32 = (at) => (i) => b.readInt32LE(at + 4 * i), u32 = (at) => (i) => b.readUInt32LE(at + 4 * i);
  const f32 = (at) => (i) => b.readFloatLE(at + 4 * i), f64 = (at) => (i) => b.readDoubleLE(at + 8 * i);
  const u16 = (at) => (i) => b.readUInt16LE(at + 2 * i), u8 = (at) => (i) => b[at + i];
  const columns = { parent: i32(take(4)), end: u32(take(4)), depth: u16(take(2)), name: u32(take(4)), module: u32(take(4)), flags: u8(take(1)),
    self: f64(take(8)), cum: f64(take(8)), samples: u32(take(4)), error: f64(take(8)),
    ...(flags & 32 ? { shown: f32(take(4)) } : {}),
    ...(flags & 16 ? { a: f64(take(8)), b: f64(take(8)) } : {}) };
  const begins = take(4, nTexts + 1), texts = end;
  const text = (i) => b.toString('utf8', texts + b.readUInt32LE(begins + 4 * i), texts + b.readUInt32LE(begins + 4 * (i + 1)));
  const nodes = Array.from({ length: n }, (_, i) => {
    const node = Object.fromEntries(Object.entries(columns).map(([k, of]) => [k, of(i)]));
    return { ...node, name: text(node.name), module: text(node.module) };
  });
  const [total, unfiltered, error, ts] = [32, 40, 48, 56].map((at) => b.readDoubleLE(at));
  return { flags, n, total, unfiltered, error, ts, nodes };
}

/** What each box right above the root's holds, by name. */
export const belowRoot = (g) => Object.fromEntries(g.nodes.filter((x) => x.parent === 0).map((x) => [x.name, x.cum]));

/** Goes to an address within the page, which knows of it when this ends. */
export const go = (page, hash) => page.evaluate(async (h) => {
  const before = location.href;
  const heard = new Promise((ok) => addEventListener('hashchange', ok, { once: true }));
  location.hash = h;
  if (location.href !== before) await heard;
}, hash);

/** Goes to a page and waits until it has its answers. */
export async function visit(page, name, query = '', trace = 1) {
  await go(page, `#!/${name}?trace=${trace}${query}`);
  await settled(page);
}

/** The address as the page has it: what the driver knows of it comes later. */
export const address = (page) => page.evaluate(() => location.href);

/** A part of the address, once it is `is`: a text, null, or what a function says yes to. */
export async function part(page, key, is) {
  const holds = typeof is === 'function' ? is : (v) => v === is;
  const read = (k) => new URLSearchParams(location.hash.split('?')[1]).get(k);
  let now;
  await until(() => `${key} is ${is}; it is ${now}`, async () => holds(now = await page.evaluate(read, key)));
  return now;
}

/** Every page in every form: with HW_LONG=1, and where screenshots are kept. */
export const long = Boolean(process.env.HW_LONG || process.env.HW_SHOTS);

/** What is broken on a page in both themes at both sizes; HW_SHOTS=dir keeps the screenshots. */
export async function inspect(page, label, go) {
  const broken = [];
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const [width, height] of [[1600, 900], [800, 600]]) {
      if (!long && (width === 800) !== (colorScheme === 'dark')) continue;
      await page.setViewportSize({ width, height });
      await go();
      broken.push(...(await axe(page)).map((v) => `${label} ${colorScheme} ${width}: ${v}`));
      const over = await page.evaluate(() => Math.max(document.documentElement.scrollWidth - innerWidth, document.getElementById('main').scrollWidth - document.getElementById('main').clientWidth));
      if (over > 0) broken.push(`${label} is ${over} px too wide at ${width}`);
      if (process.env.HW_SHOTS) await page.screenshot({ path: join(process.env.HW_SHOTS, `${label}-${width}-${colorScheme}.png`) });
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1600, height: 900 });
  return broken;
}

const axeSource = readFileSync(join(here, 'node_modules/axe-core/axe.min.js'), 'utf8');

/** Rules of accessibility that the page breaks, as text. Run by the debugger: the page's own policy forbids scripts. */
export async function axe(page) {
  const client = await page.context().newCDPSession(page);
  const there = await client.send('Runtime.evaluate', { expression: "typeof axe === 'object'", returnByValue: true });
  if (!there.result.value) await client.send('Runtime.evaluate', { expression: axeSource });
  const r = await client.send('Runtime.evaluate', {
    expression: `axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html.slice(0, 120) + ' ' + n.any.map((a) => a.message).join(' ')).slice(0, 3).join(' | ')))`,
    awaitPromise: true, returnByValue: true,
  });
  await client.detach();
  return r.result.value;
}

/** The same of the page that is there. */
export const looks = (page, name) => inspect(page, name, () => drawn(page));

export async function done() {
  await browser?.close();
  for (const end of ends) end();
  if (!process.env.HW_KEEP) rmSync(dir, { recursive: true, force: true });
}

/** The further controls of the graph, behind its "More…". */
export const more = async (page) => {
  if (!(await page.isVisible('.popover'))) await page.click('.popover-toggle');
};
