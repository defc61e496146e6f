// HW_BUILD=build node bench/pages/pages.mjs [NODES...]: what the page costs, in a headless Chromium
// with software rendering. One row a graph; times in ms, medians of what repeats.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
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

for (const what of process.argv.length > 2 ? process.argv.slice(2) : ['10000', '100000', '1000000', '100000:deep', '100000:comb']) {
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
