// Parts of a graph: filters on heaps, groups below the root, against SQL.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { belowRoot, browse, done, go, graphOf, inspect, more as further, part, recordFamily, serve, settled, visit } from './lib.mjs';

let server, page, upid;
const flame = (query) => server.ask(`/api/v1/traces/1/flame?upid=${upid}&${query}`);

/** Totals of a graph and of the boxes right below its root. */
async function graph(query) {
  const g = await graphOf(flame(query));
  assert.equal(g.nodes[0].end, g.n);
  return { total: g.total, unfiltered: g.unfiltered, below: belowRoot(g) };
}

before(async () => {
  server = await serve(recordFamily());
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures');
  [[upid]] = await server.sql('select upid - 1 from heap_profile_allocation group by 1 having count(distinct heap_name) > 1 order by sum(size) desc limit 1');
});
after(done);

/** Modules of SQL as pages call them: the program by what it was started as. */
async function asShown(boxes) {
  const { processes } = await (await server.ask('/api/v1/traces/1/timeline')).json();
  const { program, program_file } = processes.find((x) => x.upid === upid);
  return Object.fromEntries(Object.entries(boxes).map(([m, v]) => [m === program_file ? program : m, v]));
}

test('groups and filters on heaps are those of SQL', async () => {
  const rows = await server.sql(`select heap_name, sum(size) from heap_profile_allocation where upid = ${upid + 1} group by 1 having sum(size) > 0`);
  assert.ok(rows.length > 1);
  const heaps = Object.fromEntries(rows);
  const all = rows.reduce((a, r) => a + r[1], 0);
  for (const more of ['', '&stable=1', '&invert=1', '&min_share=0.01']) {
    const g = await graph(`group=heap${more}`);
    assert.deepEqual(g.below, heaps, more);
    assert.equal(g.total, all);
  }
  const modules = await server.sql(`select map_name, sum(self_space) from heapwise_functions(${upid + 1}) where self_space > 0 group by 1`);
  assert.deepEqual((await graph('group=module')).below, await asShown(Object.fromEntries(modules.map(([m, v]) => [m || 'unknown', v]))));
  for (const [heap, space] of rows) {
    const f = (x) => `filters=${encodeURIComponent(x)}`;
    const kept = await graph(f(`H:"${heap}"`)), hidden = await graph(f(`!H:"${heap}"`));
    assert.equal(kept.total, space);
    assert.equal(hidden.total, all - space);
    assert.equal(kept.unfiltered, all);
    const [[sql]] = await server.sql(`select space from heapwise_tree(${upid + 1}, null, null, null, 'H:"${heap.replace(/'/g, "''")}"') where id = 0`);
    assert.equal(sql, space);
  }
  for (const bad of ['group=thread', 'group=x', 'filters=T%3Amain', 'filters=TY%3Aint']) assert.equal((await flame(bad)).status, 400, bad);
});

test('the graph is cut by heap, and one heap is kept', async () => {
  await visit(page, 'flame', `&upid=${upid}`);
  await further(page);
  await page.selectOption('[aria-label="Group by"]', 'heap');
  await page.waitForFunction(() => location.hash.includes('group=heap'));
  await settled(page);
  const canvas = page.locator('.flame canvas').first();
  await canvas.focus();
  await page.keyboard.press('ArrowDown');
  const heard = await page.textContent('.flame .sr');
  await page.keyboard.press(' ');
  await page.click('[role=menuitem]:has-text("Keep this heap")');
  await page.waitForSelector('.chip');
  await part(page, 'f', (f) => /^H:/.test(f));
  await page.waitForFunction(() => /root .* of /.test(document.querySelector('.explorer').textContent));
  assert.ok(heard.length > 0);
  assert.equal(await page.locator('[aria-label="Group by"] option:disabled').count(), 2);
  const broken = await inspect(page, 'groups', () => visit(page, 'flame', `&upid=${upid}&group=heap`));
  assert.deepEqual(broken, []);
  assert.deepEqual(page.problems, []);
});

test('the overview says why something may be missing', async () => {
  const open = async () => {
    await visit(page, 'overview', `&upid=${upid}&f=SS%3Awork`);
    await page.click('.missing summary');
  };
  await open();
  const text = await page.textContent('.missing');
  const [[frames]] = await server.sql('select count(*) from stack_profile_frame');
  assert.ok(text.includes(`${frames} frames`), text);
  assert.match(text, /1 filter narrows/);
  assert.match(await page.getAttribute('.missing a', 'href'), /^#!\/info/);
  assert.deepEqual(await inspect(page, 'overview-missing', open), []);
});

test('SQL beside a graph in groups gives its boxes', async () => {
  for (const group of ['heap', 'module'])
    for (const more of ['', '&invert=1', '&metric=alloc_objects']) {
      await go(page, `#!/flame?trace=1&upid=${upid}&group=${group}${more}`);
      await settled(page);
      await further(page);
      await page.click('.explorer button:text-is("SQL")');
      await page.waitForFunction(() => location.hash.startsWith('#!/query'));
      const sql = await part(page, 'sql', Boolean);
      const { results: [{ columns, rows }], error } = await (await server.ask('/api/v1/query?trace=1', { method: 'POST', body: sql })).json();
      assert.equal(error, null, sql);
      const value = columns.indexOf('value'), parent = columns.indexOf('parent_id');
      const boxes = Object.fromEntries(rows.filter((r) => parent < 0 || r[parent] === null).map((r) => [r[0], r[value]]));
      assert.deepEqual(await asShown(boxes), (await graph(`group=${group}${more}`)).below, `${group}${more}`);
    }
});

test('folded stacks honour groups: a frame for each, the sums of its box', async () => {
  const folded = (group) => server.ask(`/api/v1/export/folded?trace=1&upid=${upid}&group=${group}`);
  const plain = (await (await folded('')).text()).trim().split('\n');
  for (const group of ['heap', 'module', 'owner']) {
    const lines = (await (await folded(group)).text()).trim().split('\n');
    const sums = {};
    for (const l of lines) {
      const name = l.slice(0, l.indexOf(';'));
      sums[name] = (sums[name] ?? 0) + Number(l.slice(l.lastIndexOf(' ') + 1));
    }
    const boxes = (await graph(`group=${group}&frames=all`)).below;
    // What a line cannot say is a space there.
    if (group === 'heap') assert.deepEqual(sums, Object.fromEntries(Object.entries(boxes).map(([k, v]) => [k.replace(/[\x00-\x1f\x7f]/g, ' '), v])));
    const total = (all) => all.reduce((a, l) => a + Number(l.slice(l.lastIndexOf(' ') + 1)), 0);
    assert.equal(total(lines), total(plain));
    const inside = new Set(plain.map((l) => l.slice(0, l.lastIndexOf(' '))));
    assert.ok(lines.every((l) => inside.has(l.slice(l.indexOf(';') + 1, l.lastIndexOf(' ')))), group);
  }
  assert.equal((await server.ask(`/api/v1/export/svg?trace=1&upid=${upid}&group=heap`)).status, 400);
  assert.equal((await folded('thread')).status, 400);
});
