// Gestures and keys of the timeline and the graph, filters as chips, what a view says when it is empty,
// damaged, slow, or left alone. HW_SHOTS=dir keeps screenshots.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { axe, browse, copied, dir, done, drawn, go, graphOf, more, part, record, ripe, serve, settled, until, visit } from './lib.mjs';

let server, page, trace, moments, start;

before(async () => {
  trace = record();
  server = await serve(trace);
  page = await browse();
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.origin });
  await page.goto(server.url);
  await page.waitForSelector('.figures');
  const p = (await (await server.ask('/api/v1/traces/1/timeline')).json()).processes[0];
  moments = p.moments.map((m) => String(m.ts));
  start = p.start;
});
after(done);

const at = (name, query) => visit(page, name, query);
const is = (key, value) => part(page, key, value);
const q = (key) => is(key, () => true);

test('timeline: keys extend, mark, go to a time, find tracks', async () => {
  await at('timeline', `&at=${moments[2]}`);
  await page.keyboard.press('Shift+BracketLeft');
  await is('from', moments[1]);
  await is('at', moments[2]);
  await page.keyboard.press('Shift+BracketLeft');
  await is('from', moments[0]);
  await page.keyboard.press('Shift+BracketRight');
  await is('at', moments[3]);
  await is('from', moments[0]);
  await page.keyboard.press('BracketLeft');
  await is('at', moments[2]);
  await page.keyboard.press('m');
  await is('marks', moments[2]);
  await until('one mark on the ruler', async () => (await page.locator('.ruler .mark').count()) === 1);
  await page.keyboard.press('m');
  await is('marks', null);
  await page.keyboard.press('g');
  await page.waitForFunction(() => document.activeElement.id === 'goto');
  await page.keyboard.type('0.01');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.bar .hint:has-text("at the dump of")');
  if (String(start) === moments[0]) await is('at', moments[0]);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('/');
  await page.keyboard.type('nothing like it');
  await page.waitForFunction(() => document.querySelectorAll('.tracks').length === 0);
  await page.fill('#track-filter', 'grow');
  await page.waitForSelector('.tracks');
  await page.fill('#track-filter', '');
});

test('timeline: zoom and pan by keys, wheel and Shift+drag', async () => {
  await at('timeline');
  await page.evaluate(() => document.activeElement.blur());
  const ticks = () => page.locator('.ruler span').first().textContent();
  const left = () => page.locator('.ruler').evaluate((r) => Number(r.dataset.from));
  const moved = (what, where) => until(what, async () => where(await left()));
  await page.keyboard.press('0');
  await drawn(page);
  const whole = await left();
  await page.keyboard.press('w');
  await moved('w zooms', (x) => x !== whole);
  await drawn(page);
  const zoomed = await left();
  await page.keyboard.press('d');
  await moved('d goes on', (x) => x > zoomed);
  await page.keyboard.press('a');
  await page.keyboard.press('0');
  await moved('0 shows all', (x) => x === whole);
  const box = await page.locator('.track .chart').first().boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 30);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -300);
  await page.keyboard.up('Control');
  await moved('Ctrl+wheel zooms', (x) => x !== whole);
  await drawn(page);
  const near = await left();
  const before = page.url();
  await page.keyboard.down('Shift');
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 90, box.y + 30, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up('Shift');
  await moved('Shift+drag pans', (x) => x !== near);
  assert.equal(page.url(), before, 'panning selects nothing');
  assert.ok((await ticks()).length > 3);
  await page.keyboard.press('0');
});

test('timeline: an interval is prepared for dragging as soon as it stands, once', async () => {
  const fresh = await browse(); // nothing is prepared yet
  await fresh.clock.setFixedTime(Date.now()); // and nothing runs out, however slow the machine
  await fresh.goto(server.url);
  const asked = [];
  fresh.on('request', (r) => r.url().includes('stable=1') && asked.push(new URL(r.url()).searchParams));
  await visit(fresh, 'timeline', `&from=${moments[0]}&at=${moments.at(-1)}`);
  await until('a preparation', () => asked.length);
  assert.deepEqual(asked.map((q) => [q.get('from'), q.get('at')]), [[moments[0], moments.at(-1)]]);
  await fresh.locator('.handle').nth(1).hover(); // still warm
  await visit(fresh, 'timeline', `&from=${moments[1]}&at=${moments.at(-1)}`);
  await ripe(fresh, 100);
  assert.equal(asked.length, 1, 'other times are the same preparation');
  await visit(fresh, 'timeline', `&from=${moments[1]}&at=${moments.at(-1)}&f=P:main`);
  await visit(fresh, 'timeline', `&at=${moments.at(-1)}`);
  await ripe(fresh, 100);
  assert.equal(asked.length, 1, 'no drag can follow');
  await fresh.context().close();
});

test('timeline: the ruler selects, handles scrub, boxes keep their order meanwhile', async () => {
  await at('timeline');
  const ruler = await page.locator('.ruler').boundingBox();
  await page.mouse.move(ruler.x + ruler.width * 0.05, ruler.y + 10);
  await page.mouse.down();
  await page.mouse.move(ruler.x + ruler.width * 0.5, ruler.y + 10, { steps: 5 });
  await page.mouse.up();
  const before = await is('at', (t) => moments.includes(t)); // snapped to a dump
  await settled(page);
  assert.equal(await page.locator('.handle').count(), 2);
  const asked = [];
  page.on('request', (r) => r.url().includes('/flame?') && asked.push(new URL(r.url()).searchParams));
  const stable = (u) => u.get('stable') === '1';
  const h = await page.locator('.handle').nth(1).boundingBox();
  await page.mouse.move(h.x + h.width / 2, h.y + 20);
  await page.mouse.down();
  await page.mouse.move(ruler.x + ruler.width * 0.75, h.y + 20, { steps: 6 });
  await page.mouse.move(ruler.x + ruler.width * 0.99, h.y + 20, { steps: 6 });
  const step = await is('at', (t) => t !== before);
  await until('the graph follows', () => asked.some((u) => u.get('at') === step));
  assert.ok(asked.every(stable), asked.join('\n'));
  await page.mouse.up();
  await until('the graph at rest is asked for', () => asked.some((u) => !stable(u)));
  await settled(page);
  const end = await q('at');
  assert.ok(moments.indexOf(end) > moments.length - 3, 'where the hand was');
  assert.equal(asked.filter((u) => !stable(u)).at(-1).get('at'), end);
  await page.locator('.handle').nth(0).focus();
  const from = await q('from');
  await page.keyboard.press('ArrowRight');
  await is('from', (t) => t !== from);
  await settled(page);
  assert.deepEqual(await axe(page), []);
});

test('timeline: the head names the moment of the graph that is drawn, at each step of a drag', async () => {
  await at('timeline', `&from=${moments[0]}&at=${moments.at(-1)}`);
  await settled(page);
  await page.evaluate(() => {
    const canvas = document.querySelector('.explorer .flame canvas');
    const steps = (window.steps = []);
    window.watched = new MutationObserver(() =>
      steps.push({ drawn: canvas.dataset.key.split(' ')[0], head: document.querySelector('[aria-label="Moment"]').value }),
    );
    window.watched.observe(canvas, { attributeFilter: ['data-key'] });
  });
  const h = await page.locator('.handle').nth(1).boundingBox();
  const chart = await page.locator('.track .chart').first().boundingBox();
  const length = await page.evaluate(() => history.length);
  await page.mouse.move(h.x + h.width / 2, h.y + 20);
  await page.mouse.down();
  for (const share of [0.8, 0.4, 0.6, 0.3]) await page.mouse.move(chart.x + chart.width * share, h.y + 20, { steps: 10 });
  await until('the graph follows to where the hand is', async () => {
    const shown = await page.evaluate(() => window.steps.at(-1)?.head);
    return shown !== undefined && (await q('at')) === moments[shown] && shown < moments.length / 2;
  });
  const steps = await page.evaluate(() => window.steps);
  assert.deepEqual(steps.map((s) => s.drawn), steps.map((s) => String(Number(moments[s.head]))));
  assert.ok(new Set(steps.map((s) => s.drawn)).size > 1, JSON.stringify(steps));
  await page.evaluate(() => window.watched.disconnect());
  await page.mouse.up();
  await settled(page);
  const rest = await graphOf(server.ask(`/api/v1/traces/1/flame?from=${await q('from')}&at=${await q('at')}`));
  const key = await page.evaluate(() => document.querySelector('.explorer .flame canvas').dataset.key);
  assert.equal(Number(key.split(' ')[1]), rest.total, 'at rest: the graph of the address');
  assert.equal(await page.evaluate(() => history.length), length, 'a drag is no step back');
});

test('a stable order: the same functions from left to right in every selection', async () => {
  const names = async (query) => {
    const { nodes, total } = await graphOf(server.ask(`/api/v1/traces/1/flame?${query}`));
    const main = nodes.findIndex((x) => x.name === 'main');
    return { order: nodes.filter((x) => x.parent === main).map((x) => x.name), total };
  };
  const orders = [];
  for (const m of moments) {
    const stable = await names(`at=${m}&stable=1`), sorted = await names(`at=${m}`);
    assert.equal(stable.total, sorted.total);
    assert.deepEqual([...stable.order].sort(), [...sorted.order].sort());
    orders.push(stable.order);
  }
  const last = orders.at(-1);
  for (const o of orders) assert.deepEqual(o, last.filter((x) => o.includes(x)));
});

test('times beyond 2^53 ns are asked for digit by digit', async () => {
  const other = await browse();
  const late = (digits) => String(BigInt(digits) + 2n ** 60n + 1n);
  const asked = [];
  other.on('request', (r) => r.url().includes('/flame?') && asked.push(new URL(r.url()).searchParams.get('at')));
  await other.route('**/timeline', async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: (await answer.text()).replace(/"(ts|start)":(\d+)/g, (_, name, t) => `"${name}":${late(t)}`) });
  });
  await other.goto(server.url);
  await other.waitForSelector('.figures');
  await go(other, `#!/flame?trace=1&at=${late(moments[2])}`);
  await other.waitForFunction(() => document.querySelector('.flame canvas')?.dataset.nodes);
  await other.keyboard.press('BracketLeft');
  await other.waitForFunction((t) => location.hash.includes(`at=${t}`), late(moments[1]));
  await until('the moment is asked for', () => asked.at(-1) === late(moments[1]));
  await other.context().close();
});

test('graph: recursion collapses, the root may stand below, stacks are copied', async () => {
  await at('flame');
  await page.locator('.flame canvas').first().focus();
  const nodes = () => page.evaluate(() => Number(document.querySelector('.flame canvas').dataset.nodes));
  const before = await nodes();
  const [[deep]] = await server.sql(`select count(*) from heapwise_tree((select min(upid) from heap_profile)) where name = 'recurse'`);
  assert.ok(deep > 1);
  await page.keyboard.press('c');
  await page.waitForFunction((n) => Number(document.querySelector('.flame canvas').dataset.nodes) < n, before);
  assert.equal(await nodes(), before - deep + 1);
  const [[one]] = await server.sql(`select count(*) from heapwise_tree((select min(upid) from heap_profile), null, null, null, null, 'collapse') where name = 'recurse'`);
  assert.equal(one, 1);
  await page.locator('.flame canvas').first().focus();
  await page.keyboard.press('c');
  await page.waitForFunction((n) => Number(document.querySelector('.flame canvas').dataset.nodes) === n, before);
  await more(page);
  await page.click('button:has-text("Root below")');
  await page.waitForFunction(() => location.hash.includes('bottom=1'));
  await settled(page);
  await page.locator('.flame canvas').first().focus();
  for (const k of ['Home', 'ArrowUp', 'ArrowUp', ' ']) await page.keyboard.press(k);
  await page.click('[role=menuitem]:has-text("Markdown")');
  await copied(page, /^\| function \| total \| share \| self \|\n/);
});

test('filters: moved, taken away by Delete, kept under a name', async () => {
  await at('flame', '&f=HF%3Amain&f=SS%3Arecurse');
  const chips = () => page.locator('.chip').evaluateAll((all) => all.map((c) => c.textContent.replace(/ ×$/, '')));
  assert.deepEqual(await chips(), ['HF:main', 'SS:recurse']);
  await page.locator('.chip button').nth(1).focus();
  await page.keyboard.press('Alt+ArrowLeft');
  await settled(page);
  assert.deepEqual(await chips(), ['SS:recurse', 'HF:main']);
  await page.locator('.chip').nth(0).dragTo(page.locator('.chip').nth(1));
  await settled(page);
  assert.deepEqual(await chips(), ['HF:main', 'SS:recurse']);
  page.removeAllListeners('dialog');
  page.once('dialog', (d) => d.accept('mine'));
  await page.click('.filters button:has-text("Sets")');
  await page.click('[role=menuitem]:has-text("Keep these")');
  await page.locator('.chip button').nth(0).focus();
  await page.keyboard.press('Delete');
  await settled(page);
  assert.deepEqual(await chips(), ['SS:recurse']);
  await page.click('.filters button:has-text("Sets")');
  await page.click('[role=menuitem]:text-is("mine")');
  await settled(page);
  assert.deepEqual(await chips(), ['HF:main', 'SS:recurse']);
  await page.goBack();
  await settled(page);
  assert.deepEqual(await chips(), ['SS:recurse'], 'back takes a change of filters back');
});

test('filters that leave nothing say so, and offer a way out', async () => {
  await at('flame', '&f=SS%3Anowhere_at_all');
  assert.match(await page.textContent('.explorer .empty'), /Filters hide 100 % \([\d.]+ MiB\)/);
  await page.click('.explorer .empty button:has-text("last")');
  await settled(page);
  assert.equal(await page.locator('.chip').count(), 0);
  assert.deepEqual(page.problems, []);
});

test('empty, damaged, cut and foreign traces: each says what it is', async () => {
  const whole = readFileSync(trace);
  writeFileSync(join(dir, 'empty.trace'), '');
  writeFileSync(join(dir, 'foreign.bin'), Buffer.concat([Buffer.from('%PDF-1.7\n'), Buffer.alloc(300, 'x')]));
  writeFileSync(join(dir, 'cut.trace'), whole.subarray(0, Math.floor(whole.length * 0.7)));
  writeFileSync(join(dir, 'damaged.trace'), whole.map((b, i) => (i > 2000 && i % 11 === 0 ? b ^ 0x5a : b)));
  const s = await serve(...['empty.trace', 'foreign.bin', 'cut.trace', 'damaged.trace'].map((f) => join(dir, f)), trace);
  const p = await browse();
  await p.goto(s.url);
  const see = async (id) => {
    await go(p, `#!/overview?trace=${id}`);
    await p.waitForSelector('main .banner.bad, main .empty, main .figures');
    await settled(p);
    return p.textContent('main');
  };
  assert.match(await see(1), /empty/i);
  assert.match(await see(2), /first bytes: 25 50 44 46/);
  assert.match(await see(2), /pprof/);
  assert.match(await see(3), /ends in the middle|did not end cleanly|ends too early|Data is missing|missing/i);
  assert.ok((await see(4)).length > 20);
  assert.match(await see(5), /load_table/);
  for (const id of [1, 2, 3, 4])
    for (const name of ['timeline', 'flame', 'functions', 'query', 'info', 'symbols', 'source']) {
      await go(p, `#!/${name}?trace=${id}`);
      await drawn(p);
    }
  assert.deepEqual(p.problems, []);
  await s.stop();
});

test('two tabs do not disturb each other', async () => {
  const other = await page.context().newPage();
  await other.goto(server.url);
  await other.waitForSelector('.figures');
  await go(other, '#!/flame?trace=1&metric=objects');
  await at('flame', '&f=SS%3Arecurse');
  await other.waitForSelector('.statement');
  assert.match(await other.textContent('.statement'), /live allocations/);
  assert.match(await page.textContent('.explorer'), /root .* of /);
  // An endless query in one: the other still draws.
  await go(other, `#!/query?trace=1&sql=${encodeURIComponent('with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c')}`);
  await other.waitForFunction(() => /Running/.test(document.querySelector('.outcome')?.textContent ?? ''));
  await at('flame', '&metric=alloc_space');
  assert.match(await page.textContent('.statement'), /Ever allocated/);
  await other.close();
});

test('the server goes away: a banner, the view stays, and all is well when it is back', async () => {
  const first = await serve(trace);
  const { port } = new URL(first.origin);
  const p = await browse();
  await p.goto(first.url);
  await p.waitForSelector('.figures');
  await go(p, '#!/flame?trace=1&metric=objects');
  await p.waitForSelector('.statement');
  await first.stop('SIGKILL');
  await p.waitForSelector('.gone');
  assert.match(await p.textContent('.gone'), /does not answer/);
  assert.match(await p.textContent('.gone'), /Asking again/);
  assert.ok(await p.isVisible('.flame canvas'), 'what was drawn stays');
  await go(p, '#!/functions?trace=1&metric=objects');
  await drawn(p);
  assert.equal(await p.locator('.gone').count(), 1);
  assert.deepEqual(await axe(p), []);
  // A new server has a new token: the page says that its address is out of date.
  const second = await serve('--port', port, trace);
  await p.locator('.gone button').click({ timeout: 3000 }).catch(() => {}); // or the page has asked by itself
  await p.waitForFunction(() => /needs its address/.test(document.querySelector('main').textContent));
  await second.stop();
});
