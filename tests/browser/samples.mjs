// Sample traces: what `ui --demo` opens, what Home offers, and that each shows what its program is about.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { address, browse, done, inspect, serve, settled, visit } from './lib.mjs';

let demo, page;
before(async () => {
  demo = await serve('--demo');
  page = await browse();
  await page.goto(demo.url);
  await page.waitForSelector('.figures');
});
after(done);
const status = async (s) => (await s.ask('/api/v1/status')).json();

test('--demo opens all of them, the first one in front', async () => {
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
});

test('Home offers them where nothing is open', async () => {
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
