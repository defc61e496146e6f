// Makes doc/images: the pages of redis-server under load. HW_BUILD=build node tests/browser/pictures.mjs
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { browse, dir, done, heapwise, here, serve } from './lib.mjs';

const out = join(here, '../../doc/images');
const port = process.env.HW_PORT ?? '7391';
mkdirSync(out, { recursive: true });
const trace = join(dir, 'redis.trace');
const recorded = spawn(heapwise, ['record', '-q', '-c', '1s', '-o', trace, '--', 'redis-server', '--port', port, '--save', ''], { stdio: 'ignore' });
const ended = new Promise((ok) => recorded.on('exit', ok));
await new Promise((ok) => setTimeout(ok, 1500));
spawnSync('redis-benchmark', ['-p', port, '-t', 'set,lpush,zadd,hset', '-n', '60000', '-r', '60000', '-q'], { timeout: 6000 });
spawnSync('redis-cli', ['-p', port, 'shutdown', 'nosave'], { timeout: 5000 });
await ended;
const server = await serve(trace);
for (const [name, colorScheme] of [['overview', 'light'], ['flame', 'light'], ['timeline', 'dark']]) {
  const page = await browse({ viewport: { width: 1280, height: 720 }, colorScheme });
  await page.goto(server.url);
  await page.waitForSelector('.figures');
  await page.evaluate((n) => (location.hash = `#!/${n}?trace=1`), name);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: join(out, `${name}.png`) });
}
await server.stop();
await done();
