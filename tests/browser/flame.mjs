// The flamegraph's page: its controls, the panel of the chosen frame, the zoom with its map, whose code it is.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, browse, done, drawn, inspect, more, record, serve, settled, until, visit } from './lib.mjs';

let server, page, functions;
const panel = '.frame-panel';
const heard = () => page.textContent('.flame .sr');
const press = async (...keys) => {
  for (const k of keys) await page.keyboard.press(k);
};
/** The frame that the panel is about, once it is this one. */
const told = async (name) => {
  await page.waitForFunction(([s, n]) => document.querySelector(`${s} h2`)?.textContent === n, [panel, name]);
  return page.textContent(panel);
};
const chosen = async (...keys) => {
  await page.locator('.flame canvas').first().focus();
  await press('Home', ...keys);
};
const TO_MAIN = Array(4).fill('ArrowDown');

before(async () => {
  server = await serve(record());
  page = await browse({ viewport: { width: 1440, height: 900 } });
  await page.goto(server.url);
  await page.waitForSelector('.figures');
  functions = await server.sql('select name, self_space, space from heapwise_functions((select min(upid) from heap_profile))');
});
after(done);

test('controls stand in one line, the rest behind a button', async () => {
  await visit(page, 'flame');
  const tops = await page.$$eval('.graph-bar > *', (all) => all.map((e) => Math.round(e.getBoundingClientRect().top + e.getBoundingClientRect().height / 2)));
  assert.equal(new Set(tops).size, 1, String(tops));
  assert.ok(!(await page.isVisible('text=Collapse recursion')));
  await page.click('.popover-toggle');
  await page.waitForSelector('text=Collapse recursion');
  assert.deepEqual(await axe(page), []);
  await page.focus('.popover select');
  await press('Escape');
  await page.waitForSelector('.popover', { state: 'hidden' });
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'More…');
  await more(page);
  await page.waitForSelector('.popover', { state: 'visible' });
  await page.mouse.click(700, 700); // elsewhere
  await page.waitForSelector('.popover', { state: 'hidden' });
});

test('the panel says of the chosen frame what SQL says, and leads to its callers', async () => {
  await visit(page, 'flame');
  const [, self, total] = functions.find(([n]) => n === 'load_table');
  await chosen(...TO_MAIN, 'ArrowDown');
  const text = await told('load_table');
  const spaced = (v) => v.toLocaleString('en-US').replace(/,/g, '\u202f');
  assert.ok(text.includes(`${spaced(total)} B`), text);
  assert.equal(self, total);
  assert.match(text, /Own8\.00 MiB/);
  assert.match(text, /Your code/);
  assert.match(text, /Errorexact/);
  await page.click(`${panel} .callers button:text-is("main")`);
  await told('main');
  await until('the graph follows', async () => /^main, /.test(await heard()));
  assert.equal(await page.locator('[role=menu]').count(), 0);
});

test('a click chooses, the same stack stays chosen at another dump', async () => {
  await visit(page, 'flame');
  const box = await page.locator('.flame canvas').first().boundingBox();
  await page.mouse.click(box.x + 60, box.y + 5 * 20 + 10);
  await told('load_table');
  assert.equal(await page.locator('[role=menu]').count(), 0);
  await page.click('[aria-label="Previous dump"]');
  await settled(page);
  await told('load_table');
  await page.click(`${panel} button:text-is("Menu")`);
  await page.waitForSelector('[role=menuitem]:has-text("Copy stack")');
  await press('Escape');
});

test('hide, focus, open as root', async () => {
  for (const [button, filter] of [['Hide', 'HS'], ['Focus', 'SS'], ['Open as root', 'SFF']]) {
    await visit(page, 'flame');
    await chosen(...TO_MAIN, 'ArrowDown');
    await told('load_table');
    await page.click(`${panel} button:text-is("${button}")`);
    await page.waitForSelector(`.chip:has-text('${filter}:"load_table"')`);
    await settled(page);
    assert.deepEqual(page.problems, []);
  }
});

test('a zoomed graph has a map of the whole, and leads out of it', async () => {
  await visit(page, 'flame');
  assert.equal(await page.locator('.minimap').count(), 0);
  await chosen(...TO_MAIN, 'ArrowDown', 'Enter');
  await page.waitForSelector('.minimap');
  await page.waitForFunction(() => { // the mark goes where it belongs
    const [mark, map] = ['.minimap b', '.minimap'].map((s) => document.querySelector(s).getBoundingClientRect());
    return Math.abs(mark.left - map.left) < 2 && mark.width < map.width * 0.9;
  });
  const share = await page.$eval('.minimap b', (e) => Number.parseFloat(/([\d.]+)%/.exec(e.style.width)[1]));
  const [[all]] = await server.sql('select space from heapwise_tree((select min(upid) from heap_profile)) where id = 0');
  assert.ok(Math.abs(share - (100 * functions.find(([n]) => n === 'load_table')[2]) / all) < 0.01, String(share));
  await page.click('.minimap canvas', { position: { x: 5, y: 1 } });
  await page.waitForFunction(() => !location.hash.includes('zoom='));
  await page.waitForSelector('.minimap', { state: 'detached' });
});

test('the zoom moves, but not for who wants less motion', async () => {
  const moved = () => page.$eval('.flame canvas', (c) => Number(c.dataset.moved ?? 0));
  for (const reducedMotion of ['reduce', 'no-preference']) {
    await page.emulateMedia({ reducedMotion });
    await visit(page, 'flame');
    await visit(page, 'functions'); // the canvas begins anew
    await visit(page, 'flame');
    await chosen(...TO_MAIN, 'ArrowDown', 'Enter');
    await page.waitForSelector('.minimap');
    if (reducedMotion === 'no-preference') await until('it moves', async () => (await moved()) > 0);
    await drawn(page);
    if (reducedMotion === 'reduce') assert.equal(await moved(), 0);
  }
});

test('whose code it is: sums by colour, and the same as boxes', async () => {
  await visit(page, 'flame');
  const own = await server.sql(`select sum(self_space) from heapwise_functions((select min(upid) from heap_profile)) where map_name like '%/grow'`);
  const [[all]] = await server.sql('select space from heapwise_tree((select min(upid) from heap_profile)) where id = 0');
  assert.match(await page.textContent('.owners'), new RegExp(`Your code ${((100 * own[0][0]) / all).toFixed(1)} %`));
  await more(page);
  await page.selectOption('[aria-label="Group by"]', 'owner');
  await page.waitForFunction(() => location.hash.includes('group=owner'));
  await settled(page);
  await chosen('ArrowDown');
  assert.match(await told('your code'), new RegExp(`Share${((100 * own[0][0]) / all).toFixed(1)} %`));
  await visit(page, 'flame', '&group=');
  assert.match(await page.textContent('.owners'), /Libraries .*Runtime/s);
  for (const by of ['By module', 'By function', 'By owner']) {
    await more(page);
    await page.click(`.popover button:text-is("${by}")`);
    assert.equal(await page.locator('.owners').count(), by === 'By owner' ? 1 : 0);
  }
});

test('a screen reader has the graph as a tree: where the focus is, and what is around it', async () => {
  await visit(page, 'flame');
  await chosen(...TO_MAIN);
  await until('main has the focus', async () => /^main, /.test(await heard()));
  const client = await page.context().newCDPSession(page);
  const { nodes } = await client.send('Accessibility.getFullAXTree');
  await client.detach();
  const value = (n, name) => n.properties?.find((p) => p.name === name)?.value.value;
  const role = (n) => n.role?.value;
  const tree = nodes.find((n) => role(n) === 'tree' && value(n, 'focused'));
  assert.match(tree.name.value, /^Flamegraph, .* MiB/);
  const items = nodes.filter((n) => role(n) === 'treeitem');
  const main = items.find((n) => value(n, 'selected'));
  const [[all]] = await server.sql('select space from heapwise_tree((select min(upid) from heap_profile)) where id = 0');
  const [id, total] = (await server.sql(`select id, space from heapwise_tree((select min(upid) from heap_profile)) where name = 'main'`))[0];
  assert.match(main.name.value, new RegExp(`^main, [\\d.]+ MiB, ${((100 * total) / all).toFixed(1)} % of all, self `));
  assert.equal(value(main, 'level'), 5);
  assert.equal(value(main, 'expanded'), true);
  assert.equal(value(tree, 'activedescendant') !== undefined || (await page.$eval('.flame canvas', (c) => c.getAttribute('aria-activedescendant'))) === (await page.$eval('.flame .sr', (e) => e.id)), true);
  // What it calls is there, each with its place among them.
  const callees = (await server.sql(`select name from heapwise_tree((select min(upid) from heap_profile)) where parent_id = ${id} and space > 0`)).map((r) => r[0]);
  const shown = await page.locator('.flame canvas [role=treeitem][aria-level="6"]').evaluateAll((list) => list.map((e) => [e.textContent.split(',')[0], Number(e.getAttribute('aria-posinset')), Number(e.getAttribute('aria-setsize'))]));
  assert.equal(shown.length, callees.length);
  assert.deepEqual(shown.map((x) => x[1]), callees.map((_, i) => i + 1));
  assert.ok(shown.every((x) => x[2] === callees.length));
  for (const name of ['load_table', 'cache_insert']) assert.ok(callees.includes(name) && shown.some((x) => x[0] === name), name);
  await press('ArrowDown', 'ArrowRight');
  await until('the second callee', async () => (await page.$eval('.flame .sr', (e) => e.getAttribute('aria-posinset'))) === '2');
  await press('ArrowLeft', 'ArrowUp');
  await until('back at main', async () => /^main, /.test(await heard()));
  assert.deepEqual(await axe(page), []);
});

test('looks', async () => {
  const zoomed = async () => {
    await visit(page, 'flame');
    await chosen(...TO_MAIN, 'ArrowDown', 'Enter');
    await page.waitForSelector('.minimap');
    await drawn(page);
  };
  assert.deepEqual([...(await inspect(page, 'flame', () => visit(page, 'flame'))), ...(await inspect(page, 'flame-zoomed', zoomed))], []);
  await page.setViewportSize({ width: 390, height: 844 });
  await zoomed();
  const over = await page.evaluate(() => document.getElementById('main').scrollWidth - document.getElementById('main').clientWidth);
  assert.ok(over <= 0, `${over} px too wide`);
  assert.deepEqual(await axe(page), []);
  assert.ok(await page.isVisible(panel));
  await page.click(`${panel} .close`);
  await page.waitForSelector(panel, { state: 'hidden' });
  assert.deepEqual(page.problems, []);
});
