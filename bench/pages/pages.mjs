// HW_BUILD=build node bench/pages/pages.mjs [NODES[:SHAPE] | load:MB:STACKS]...: what the page costs, in
// a headless Chromium with software rendering. One row a graph; times in ms, medians of what repeats.
// load: a trace of many dumps by bench/load: from the server's start to the overview, and scrubbing.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const here = dirname(fileURLToPath(import.meta.url));
const { browse, dir, done, serve } = await import(join(here, '../../tests/browser/lib.mjs'));
const median = (a) => [...a].sort((x, y) => x - y)[a.length >> 1];
const high = (a) => [...a].sort((x, y) => x - y)[Math.floor(a.length * 0.95)];

const assets = join(here, '../../ui/dist/assets');
const packed = readdirSync(assets).map((f) => [f, gzipSync(readFileSync(join(assets, f)), { level: 9 }).length]);
console.log(`packed: ${packed.map(([f, n]) => `${f.replace(/-.*\./, '.')} ${(n / 1024).toFixed(1)} KiB`).join(', ')}`);

/** A trace of many dumps: how soon its overview is there, how fast the graph follows a dragged end. */
async function dumps(what) {
  const [, mb, stacks] = what.split(':');
  const file = join(dir, 'load.trace');
  execFileSync(join(process.env.HW_BUILD, 'bench/load/load'), ['gen', file, mb, stacks], { stdio: 'ignore' });
  const begin = performance.now();
  const server = await serve(file);
  const page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures', { timeout: 120_000 });
  const there = performance.now() - begin;
  const t = (await (await server.ask('/api/v1/traces/1/timeline')).json()).processes[0];
  const at = t.moments.filter((_, i) => i % Math.ceil(t.moments.length / 40) === 0).map((m) => String(m.ts));
  // The page prepares the drag as soon as the interval stands (ui/src/graph/follow.ts).
  const warm = page.waitForResponse((r) => r.url().includes('stable=1'), { timeout: 120_000 }).then((r) => r.finished());
  const chosen = performance.now();
  await page.evaluate(([u, m]) => (location.hash = `#!/timeline?trace=1&upid=${u}&from=${m[0]}&at=${m.at(-1)}`), [t.upid, at]);
  await page.waitForFunction(() => document.querySelector('.flame canvas')?.dataset.nodes);
  const graph = performance.now() - chosen;
  await warm;
  const prepared = performance.now() - chosen;
  await page.waitForTimeout(500);
  const handle = await page.locator('.handle').nth(1).boundingBox();
  const nodes = await page.evaluate(() => Number(document.querySelector('.flame canvas').dataset.nodes));
  const track = await page.locator('.track .chart').first().boundingBox();
  await page.evaluate(() => {
    const seen = (window.drawn = []);
    const watch = () => {
      const c = document.querySelector('.flame canvas');
      if (c && c.dataset.key !== seen.at(-1)?.key) seen.push({ key: c.dataset.key, at: performance.now() });
      requestAnimationFrame(watch);
    };
    watch();
  });
  const client = await page.context().newCDPSession(page);
  await client.send('Performance.enable', { timeDomain: 'threadTicks' });
  const rendered = async () => (await client.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ThreadTime').value * 1000;
  const served = () => Number(readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1].split(' ')[11]) * 10;
  await page.mouse.move(handle.x + handle.width / 2, handle.y + 20);
  await page.mouse.down();
  const [cpuOfPage, cpuOfServer] = [await rendered(), served()];
  // A hand moves on whether the page keeps up or not: nothing waits for what a move does.
  const started = performance.now();
  for (let i = 1; performance.now() - started < 3000; i++) {
    const t = (performance.now() - started) / 600;
    page.mouse.move(track.x + track.width * (0.55 + 0.4 * Math.sin(t)), handle.y + 20).catch(() => {});
    await new Promise((ok) => setTimeout(ok, Math.max(1, started + 16 * i - performance.now())));
  }
  const took = performance.now() - started;
  const cpu = [served() - cpuOfServer, (await rendered()) - cpuOfPage];
  await page.mouse.up();
  const seen = await page.evaluate(() => window.drawn.map((d) => d.at));
  const graphs = seen.length - 1;
  console.log(`${what}: overview ${there.toFixed(0)} after the start; ${nodes} nodes after ${graph.toFixed(0)}, prepared for dragging after ${prepared.toFixed(0)}; longest wait for a frame ${Math.max(0, ...seen.slice(1).map((t, i) => t - (i ? seen[i] : t))).toFixed(0)}, scrubbing ${((graphs * 1000) / took).toFixed(1)} graphs/s, each ${cpu.map((ms) => (ms / graphs).toFixed(1)).join(' and ')} of user CPU (server) and CPU (page's thread); load ${loadavg()[0].toFixed(1)}`);
  await page.context().close();
  await server.stop();
}

for (const what of process.argv.length > 2 ? process.argv.slice(2) : ['10000', '100000', '1000000', '100000:deep', '100000:comb', 'load:30:20000', 'load:1000:200000']) {
  if (what.startsWith('load:')) {
    await dumps(what);
    continue;
  }
  const [nodes, shape] = what.split(':');
  const file = join(dir, `g${what.replace(':', '-')}.folded`);
  writeFileSync(file, execFileSync('python3', [join(here, 'gen.py'), nodes, shape ?? 'mix'], { maxBuffer: 2 ** 31 }));
  const begin = performance.now();
  const server = await serve(file);
  const loaded = performance.now() - begin;
  const page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures');
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN);
  await page.goto(`${server.origin}/#!/overview?trace=1`);
  await page.reload();
  await page.waitForSelector('.figures');
  const ready = await page.evaluate(() => performance.now());
  let t = performance.now();
  const bytes = (await (await server.ask('/api/v1/traces/1/flame?metric=space')).arrayBuffer()).byteLength;
  const answer = performance.now() - t;
  t = performance.now();
  await (await server.ask('/api/v1/traces/1/flame?metric=space&invert=1&min_share=0.0001')).arrayBuffer();
  const inverted = performance.now() - t;
  t = performance.now();
  await (await server.ask('/api/v1/traces/1/flame?metric=space&filters=HS%3Amethod_1')).arrayBuffer();
  const filtered = performance.now() - t;
  await page.evaluate(() => (location.hash = '#!/flame?trace=1'));
  const drawn = () => page.waitForFunction(() => document.querySelector('.flame canvas')?.dataset.drawMs, null, { polling: 20 });
  await drawn();
  await page.waitForTimeout(300);
  const draws = [];
  const first = Number(await page.evaluate(() => document.querySelector('.flame canvas').dataset.firstMs));
  const n = Number(await page.evaluate(() => document.querySelector('.flame canvas').dataset.nodes));
  const decoded = Number(await page.evaluate(() => document.querySelector('.flame canvas').dataset.decodeMs));
  await page.focus('.flame canvas');
  for (const key of ['ArrowDown', 'ArrowDown', 'Enter', 'ArrowDown', 'Enter', 'Escape', 'Escape', 'ArrowRight', 'Enter', 'ArrowDown', 'Enter', 'Escape', 'Escape', 'Escape', 'Home', 'ArrowDown', 'ArrowRight', 'Enter', 'Escape']) {
    await page.keyboard.press(key);
    await page.waitForTimeout(60);
    draws.push(Number(await page.evaluate(() => document.querySelector('.flame canvas').dataset.drawMs)));
  }
  const client = await page.context().newCDPSession(page);
  await client.send('HeapProfiler.collectGarbage');
  const { usedSize, backingStorageSize } = await client.send('Runtime.getHeapUsage');
  console.log(`${what}: nodes ${n}; server ready after ${loaded.toFixed(0)}; first paint ${paint.toFixed(0)}, overview ${ready.toFixed(0)}; ` +
    `graph answer ${answer.toFixed(0)} (${(bytes / 1e6).toFixed(1)} MB), bottom-up ${inverted.toFixed(0)}, filtered ${filtered.toFixed(0)}; decode ${decoded.toFixed(1)}, first draw ${first.toFixed(1)}, ` +
    `frames median ${median(draws).toFixed(1)}, 95 % ${high(draws).toFixed(1)}; page memory ${((usedSize + (backingStorageSize ?? 0)) / 1e6).toFixed(0)} MB`);
  await page.context().close();
  await server.stop();
}
await done();
