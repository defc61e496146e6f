// What the browser tests share: a trace recorded now, a server of ours, a page in Chromium.
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

function run(cmd, args, options = {}) {
  const r = spawnSync(cmd, args, { cwd: dir, encoding: 'utf8', timeout: 60_000, ...options });
  if (r.status !== 0) throw new Error(`${cmd} ${args.join(' ')}: ${r.status} ${r.stderr}`);
  return r.stdout;
}

/** Builds grow.c, gives three functions names of an attacker, records it. */
export function record(name = 'grow.trace', ...options) {
  run('cc', ['-O1', '-fno-omit-frame-pointer', '-c', join(here, 'grow.c'), '-o', 'grow.o']);
  run('objcopy', [...Object.entries(HOSTILE).flatMap(([from, to]) => ['--redefine-sym', `${from}=${to}`]), 'grow.o']);
  run('cc', ['-rdynamic', '-o', 'grow', 'grow.o']);
  run(heapwise, ['record', '-q', '-i', '4096', '-c', '250ms', '--force', '-o', name, ...options, '--', './grow']);
  return join(dir, name);
}

/** Three processes with two heaps each (family.c). */
export function recordFamily() {
  run('cc', ['-O1', '-g', '-fno-omit-frame-pointer', '-rdynamic', `-I${join(here, '../../include')}`, '-o', 'family', join(here, 'family.c')]);
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

let browser;
export async function browse(options = {}) {
  browser ??= await chromium.launch({
    executablePath: process.env.HW_CHROMIUM || '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--font-render-hinting=none'],
  });
  const context = await browser.newContext({ viewport: { width: 1600, height: 900 }, acceptDownloads: true, ...options });
  context.setDefaultTimeout(HANGS);
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
  throw new Error(`not within ${ms / 1000} s: ${what}`);
}

/** Where nothing shall happen there is no event to wait for. */
export const quiet = (ms) => new Promise((ok) => setTimeout(ok, ms));

/** Two frames were drawn: what was pressed, sized or hovered before is seen. */
export const drawn = (page) => page.evaluate(() => new Promise((ok) => requestAnimationFrame(() => requestAnimationFrame(ok))));

/** A page has its answers (none of BUSY is there) and has drawn them. */
export async function settled(page, busy = '[aria-busy=true], [role=status].empty') {
  for (let i = 0; i < 2; i++) { // what was drawn may ask for more
    await page.waitForFunction((s) => !document.querySelector(s), busy);
    await drawn(page);
  }
  await page.waitForFunction((s) => !document.querySelector(s), busy);
}

/** What was copied, when it is what is looked for. */
export const copied = (page, pattern) => until(`a copy like ${pattern}`, async () => {
  const text = await page.evaluate(() => navigator.clipboard.readText());
  return pattern.test(text) && text;
});

/** Goes to a page and waits until it has its answers. */
export async function visit(page, name, query = '', trace = 1) {
  await page.evaluate((h) => (location.hash = h), `#!/${name}?trace=${trace}${query}`);
  await page.waitForFunction((n) => location.hash.startsWith(`#!/${n}`), name);
  await settled(page);
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
  await client.send('Runtime.evaluate', { expression: axeSource });
  const r = await client.send('Runtime.evaluate', {
    expression: `axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html.slice(0, 120) + ' ' + n.any.map((a) => a.message).join(' ')).slice(0, 3).join(' | ')))`,
    awaitPromise: true, returnByValue: true,
  });
  return r.result.value;
}

/** The same of the page that is there. */
export const looks = (page, name) => inspect(page, name, () => drawn(page));

export async function done() {
  await browser?.close();
  for (const end of ends) end();
  if (!process.env.HW_KEEP) rmSync(dir, { recursive: true, force: true });
}
