// Makes doc/images: the pages of redis-server under load, the leak and the managed heap of the samples. HW_BUILD=build node tests/browser/pictures.mjs
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { browse, dir, done, drawn, heapwise, here, serve, visit } from './lib.mjs';

const out = join(here, '../../doc/images');
const port = process.env.HW_PORT ?? '7391';
mkdirSync(out, { recursive: true });
const trace = join(dir, 'redis.trace');
const recorded = spawn(heapwise, ['record', '-q', '-c', '1s', '--smaps', '1s', '--malloc-info', '1s', '-o', trace, '--', 'redis-server', '--port', port, '--save', ''], { stdio: 'ignore' });
const ended = new Promise((ok) => recorded.on('exit', ok));
while (!spawnSync('redis-cli', ['-p', port, 'ping']).stdout?.includes('PONG') && recorded.exitCode === null) await new Promise((ok) => setTimeout(ok, 50));
spawnSync('redis-benchmark', ['-p', port, '-t', 'set,lpush,zadd,hset', '-n', '60000', '-r', '60000', '-q'], { timeout: 90_000 }); // whole, also on a busy machine
spawnSync('redis-cli', ['-p', port, 'shutdown', 'nosave'], { timeout: 5000 });
await ended;
const server = await serve(trace, '--demo');
const [redis, leaking, shop] = [1, 2, 4]; // numbers of the traces: the samples follow
for (const [name, colorScheme, on, query = ''] of [
  ['overview', 'light', redis], ['flame', 'light', redis], ['timeline', 'dark', redis], ['accounting', 'light', redis],
  ['leaks', 'light', leaking], ['heap', 'light', shop, '&view=dominators']]) {
  const page = await browse({ viewport: { width: 1280, height: 720 }, colorScheme });
  await page.goto(server.url);
  await page.waitForSelector('.figures');
  await visit(page, name, query, on);
  for (const note of await page.locator('.banner.note.closable .close').all()) await note.click();
  await drawn(page);
  await page.screenshot({ path: join(out, `${name}.png`) });
}
await server.stop();
await done();
