// The SQL page, and that "SQL" beside a figure gives just that figure. HW_SHOTS=dir keeps screenshots.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { address, axe, browse, copied, done, go, graphOf, looks, more, quiet, record, serve, settled, soon, until } from './lib.mjs';

let server, page;

before(async () => {
  server = await serve(record());
  page = await browse();
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.origin });
  await page.goto(server.url);
  await page.waitForSelector('.figures');
});
after(done);

test('table/NAME: any table, sorted, filtered, a window of it; as SQL has it', async () => {
  const table = async (name, params = {}) => {
    const r = await server.ask(`/api/v1/traces/1/table/${name}?${new URLSearchParams(params)}`);
    return r.ok ? r.json() : r.status;
  };
  const rows = (t) => (t.columns[0]?.values ?? []).map((_, i) => t.columns.map((c) => c.values[i]));
  const cases = [
    ['process', {}, 'select * from process'],
    ['heap_profile_allocation', { sort: '-size,id', offset: '3', limit: '5', filter: 'size>1KiB\ncount>=1' }, 'select * from heap_profile_allocation where size > 1024 and count >= 1 order by size desc, id limit 5 offset 3', 'select count(*) from heap_profile_allocation where size > 1024 and count >= 1'],
    ['stack_profile_frame', { sort: 'name', filter: 'name~^main$' }, "select * from stack_profile_frame where name = 'main' order by name"],
    ['stack_profile_frame', { filter: 'name:MAI\nname!=main', limit: '10000' }, "select * from stack_profile_frame where name like '%mai%' and name <> 'main'"],
    ['stack_profile_callsite', { filter: 'parent_id=null' }, 'select * from stack_profile_callsite where parent_id is null'],
  ];
  for (const [name, params, text, n] of cases) {
    const t = await table(name, params);
    const want = await server.sql(text);
    assert.deepEqual(rows(t), want, `${name} ${JSON.stringify(params)}`);
    assert.equal(t.rows, n ? (await server.sql(n))[0][0] : want.length);
  }
  for (const [name, params] of [['none', {}], ['process]; drop', {}], ['process', { sort: 'none' }], ['process', { filter: 'none>1' }], ['process', { filter: 'none~x' }], ['process', { filter: 'pid' }], ['process', { filter: 'pid>x' }], ['process', { filter: 'name~(' }]])
    assert.equal(await table(encodeURIComponent(name), params), 400, `${name} ${JSON.stringify(params)}`);
});

const at = async (name, query = '') => {
  await go(page, `#!/${name}?trace=1${query}`);
  await settled(page);
};
const idle = () => page.waitForFunction(() => document.querySelector('.outcome') && !/Running/.test(document.querySelector('.outcome').textContent) && !document.querySelector('.sql-bar .primary')?.textContent.startsWith('Cancel'));
const ask = async (sql) => {
  await at('overview');
  await at('query', `&sql=${encodeURIComponent(sql)}`);
  await page.waitForSelector('.editor');
  await page.waitForFunction(() => document.querySelector('.result, .banner.bad, p.sr[role=alert], .outcome span:not(.dim)'));
  await idle();
};
const cells = () => page.locator('.grid-body [role=row]').evaluateAll((rows) => rows.map((r) => [...r.children].map((c) => c.title)));

test('a query is run, its rows are those of the server', async () => {
  await at('query');
  await page.waitForSelector('.cm-content');
  await page.click('.cm-content');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('select upid, count(*) as n, sum(size) as size from heap_profile_allocation group by upid;\nselect 2 as two');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Home');
  await page.keyboard.press('Control+Enter');
  await page.waitForSelector('.grid-body [role=row]');
  const want = (await server.sql('select upid, count(*), sum(size) from heap_profile_allocation group by upid')).map((r) => r.map(String));
  await soon(async () => assert.deepEqual(await cells(), want));
  await page.click('.cm-content');
  await page.keyboard.press('Control+Shift+Enter');
  await page.waitForFunction(() => document.querySelectorAll('.result').length === 2);
  await page.keyboard.press('Control+End');
  await page.keyboard.press('Control+Enter');
  await page.waitForFunction(() => document.querySelectorAll('.result').length === 1);
  await soon(async () => assert.deepEqual(await cells(), [['2']]));
});

test('completion knows tables, columns, functions and modules', async () => {
  await page.click('.cm-content');
  const offers = async (text, wanted) => {
    await page.keyboard.press('Control+a');
    await page.keyboard.type(text, { delay: 5 });
    await page.waitForFunction((w) => [...(document.querySelector('.editor').shadowRoot?.querySelectorAll('.cm-completionLabel') ?? [])].some((x) => x.textContent === w), wanted);
    await page.keyboard.press('Escape');
  };
  await offers('select * from heap_prof', 'heap_profile_allocation');
  await offers('select stack_profile_frame.rel', 'rel_pc');
  await offers('select dema', 'demangle');
  await offers('select * from heapwise_t', 'heapwise_tree');
  await offers('include perfetto module graphs.', 'graphs.dominator_tree');
  await page.fill('.schema input', 'rel_pc');
  await soon(async () => {
    const list = await page.textContent('.schema-list');
    assert.match(list, /stack_profile_frame/);
    assert.doesNotMatch(list, /heap_profile_allocation/);
  });
  await page.fill('.schema input', '');
});

test('an error is shown at its place, with what was meant', async () => {
  const wrong = () => page.evaluate(() => {
    const root = document.querySelector('.editor').shadowRoot;
    return { word: root.querySelector('.cm-wrong')?.textContent, problem: root.querySelector('.cm-problem')?.textContent };
  });
  await ask('select name\nfrom proces');
  // Once to be seen, at its place, without the excerpt; and once to be heard.
  assert.deepEqual(await wrong(), { word: 'proces', problem: 'no such table: proces Did you mean process?' });
  assert.equal(await page.textContent('p.sr[role=alert]'), 'no such table: proces Did you mean process?');
  assert.equal(await page.locator('.banner.bad').count(), 0);
  await ask('include perfetto module nope'); // without a place
  assert.match(await page.textContent('.banner.bad'), /unknown module 'nope'/);
  await ask('select 1,\n  2 form x\n');
  assert.deepEqual(await wrong(), { word: 'x', problem: 'near "x": syntax error' });
});

test('an endless query: limited, and cancelled', async () => {
  await ask('with recursive c(x) as (select 1 union all select x + 1 from c) select x from c');
  assert.match(await page.textContent('.result'), /only the first 10/);
  assert.match(await page.textContent('.rows-count'), /10.?000 rows/);
  const drawn = await page.locator('.grid-body [role=row]').count();
  assert.ok(drawn < 120, `${drawn} rows are drawn`);
  await page.focus('.grid');
  await page.keyboard.press('End');
  await page.waitForFunction(() => [...document.querySelectorAll('.grid-body [role=gridcell]')].some((c) => c.title === '10000'));
  await go(page, `#!/query?trace=1&sql=${encodeURIComponent('with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c')}`);
  await page.waitForFunction(() => /Running/.test(document.querySelector('.outcome')?.textContent ?? ''));
  await quiet(400); // only Escape ends it, not time
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => /Cancelled/.test(document.querySelector('.outcome').textContent));
  const begin = Date.now();
  await server.sql('select 1');
  assert.ok(Date.now() - begin < 30_000, 'the server is free again');
});

test('rows are sorted, filtered, copied and saved', async () => {
  await ask(`select * from (values ('b', 2000000, null), ('a', 10, 1.5), ('c"x', 3000, -2)) as t`);
  const column = (i, want) => soon(async () => assert.deepEqual((await cells()).map((x) => x[i]), want));
  await page.click('.grid-head button >> nth=1');
  await column(1, ['2000000', '3000', '10']);
  await page.click('.grid-head button >> nth=1');
  await column(1, ['10', '3000', '2000000']);
  await page.click('.grid-tools button:has-text("Filter")');
  await page.fill('.filter input >> nth=1', '>1KiB');
  await page.waitForFunction(() => document.querySelectorAll('.grid-body [role=row]').length === 2);
  await page.fill('.filter input >> nth=0', '~^b$');
  await page.waitForFunction(() => document.querySelectorAll('.grid-body [role=row]').length === 1);
  await page.click('.grid-tools button:has-text("Filter")');
  await page.focus('.grid');
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Control+c');
  await copied(page, /^[^\n]*(\n[^\n]*){4}$/);
  await page.click('button:has-text("Save, copy")');
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:has-text("CSV")')]);
  assert.equal(readFileSync(await file.path(), 'utf8'), 'column1,column2,column3\nb,2000000,\na,10,1.5\n"c""x",3000,-2\n');
  await page.click('button:has-text("Save, copy")');
  await page.click('[role=menuitem]:has-text("Markdown")');
  await copied(page, /^\| column1 \| column2 \| column3 \|\n\|---\|--:\|--:\|/);
});

test('pivot, chart and flamegraph of a result', async () => {
  await ask(`select m.name as module, f.name as fn, length(f.name) as size from stack_profile_frame f join stack_profile_mapping m on m.id = f.mapping`);
  await page.click('[aria-label=View] button:has-text("Pivot")');
  const [[sum]] = await server.sql('select sum(length(f.name)) from stack_profile_frame f join stack_profile_mapping m on m.id = f.mapping');
  await soon(async () => assert.equal(await page.getAttribute('.pivot-table .sum td:last-child', 'title'), String(sum)));
  const groups = await server.sql('select m.name, count(distinct f.name) from stack_profile_frame f join stack_profile_mapping m on m.id = f.mapping group by 1');
  await soon(async () => assert.equal(await page.locator('.pivot-table tbody tr:not(.sum)').count(), groups.length));
  await page.click('[aria-label="fn: to rows"]');
  await page.selectOption('[aria-label="Summed up as"]', 'count');
  await page.click('.pivot-table tbody tr:first-child button');
  await until('rows of the pivot', async () => (await page.locator('.pivot-table tbody tr').count()) > groups.length + 1);
  await page.click('[aria-label=View] button:has-text("Chart")');
  await soon(async () => assert.equal(await page.locator('.result-chart canvas').count(), 1));
  await page.selectOption('.result-chart select >> nth=0', 'histogram');
  await ask(`select id, parent_id, name, self_space as self from heapwise_tree((select min(upid) from heap_profile))`);
  await page.click('[aria-label=View] button:has-text("Flamegraph")');
  const [[live]] = await server.sql('select sum(size) from heap_profile_allocation');
  await page.focus('.result .flame canvas');
  await soon(async () => assert.match(await page.textContent('.result .flame [role=treeitem][aria-selected=true]'), new RegExp(`${(live / 1048576).toFixed(1)} MiB`)));
  await ask('select callsite_id, sum(size) as value from heap_profile_allocation group by 1');
  await page.click('button:has-text("As flamegraph")');
  await page.waitForSelector('[aria-label=View] button:has-text("Flamegraph")');
  await ask('select 1 as id, 2 as parent_id, \'x\' as name, 1 as value union all select 2, 1, \'y\', 1');
  await page.click('[aria-label=View] button:has-text("Flamegraph")');
  await page.waitForSelector('.result [role=alert]:has-text("circle")');
});

/** Goes to a page, follows its SQL, gives the rows. */
const follow = async (click) => {
  await click();
  await page.waitForFunction(() => location.hash.startsWith('#!/query'));
  await settled(page);
  await page.waitForSelector('.result');
  await idle();
  return until('a result with a number', async () => { // the one before it may still stand there
    const rows = await cells();
    return rows[0]?.some((c) => c !== '' && !Number.isNaN(Number(c))) && rows;
  });
};

test('SQL of the overview gives its figures', async () => {
  await at('overview');
  const figures = await page.locator('.figure:has(.sql-link)').evaluateAll((all) => all.map((f) => [f.querySelector('.label').textContent, f.querySelector('.value').textContent]));
  assert.ok(figures.length >= 6, `${figures.length} figures have a query`);
  for (const [label, shown] of figures) {
    await at('overview');
    const rows = await follow(() => page.click(`[aria-label="SQL of: ${label}"]`, { force: true }));
    const v = Number(rows[0][/Resident/.test(label) ? 1 : 0]);
    const same = /^[\d\u202f]+$/.test(shown) ? v === Number(shown.replace(/\D/g, '')) : near(shown, v);
    assert.ok(same, `${label}: ${shown} on the page, ${v} by SQL`);
  }
});
function near(shown, v) {
  const m = /^([−+]?)([\d.]+) (\w+)/.exec(shown);
  const unit = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, M: 1e6 }[m[3]];
  return Math.abs(Number(m[2]) * unit - Math.abs(v)) <= Math.abs(v) * 0.006;
}

test('SQL of a flamegraph gives its total under filters, intervals and inverted', async () => {
  const moments = (await (await server.ask('/api/v1/traces/1/timeline')).json()).processes[0].moments;
  const selections = ['', '&metric=alloc_space', '&invert=1', '&f=SS%3A%22cache_insert%22&f=HF%3A%22main%22', '&f=P%3A%22recurse%22', `&at=${moments[1].ts}`,
    `&from=${moments[0].ts}&at=${moments[2].ts}`, '&at=peak', '&frames=all', '&heap=libc.malloc&metric=objects'];
  for (const s of selections) {
    const { n, total } = await graphOf(server.ask(`/api/v1/traces/1/flame?${questionOf(s)}`));
    await at('flame', s);
    await more(page);
    const rows = await follow(() => page.click('.explorer button:has-text("SQL")'));
    assert.equal(Number(rows[0][6]), total, `total of ${s}: ${rows[0].join(' | ')} at ${await address(page)}`);
    if (!s.includes('invert')) assert.match(await page.textContent('.rows-count'), new RegExp(`^${n} `), `nodes of ${s}`);
    const [[self]] = await server.sql(`select sum(self) from (${await page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).get('sql'))})`);
    assert.equal(self, total, `sum of self of ${s}`);
  }
});
/** The page's parameters as the server's. */
const questionOf = (s) => {
  const q = new URLSearchParams(s);
  const f = q.getAll('f');
  q.delete('f');
  if (f.length) q.set('filters', f.join('\n'));
  return q;
};

test('SQL of one stack and of the functions', async () => {
  await at('flame');
  await page.locator('.flame canvas').first().focus();
  for (const k of ['Home', 'ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown', ' ']) await page.keyboard.press(k);
  const said = await page.textContent('.flame [role=treeitem][aria-selected=true]');
  const rows = await follow(() => page.click('[role=menuitem]:has-text("SQL for this stack")'));
  const [name, , self, value] = [rows.at(-1)[2], 0, rows.at(-1)[4], rows.at(-1)[5]];
  assert.ok(said.startsWith(name), `${said}: ${name}`);
  assert.ok(said.includes(`${(value / 1048576).toFixed(2)} MiB`), `${said}: ${value}, self ${self}`);
  await at('functions', '&sort=total+desc');
  const shown = await page.locator('.grid-body [role=row]').evaluateAll((all) => all.map((r) => [r.querySelector('.with-menu > span').textContent, r.children[5].textContent.replace(/\D/g, '')]));
  const sql = await follow(() => page.click('.split button:has-text("SQL")'));
  assert.deepEqual(sql.map((r) => r[0]).sort(), shown.map((r) => r[0]).sort());
  for (const r of sql) assert.equal(r[4], shown.find((x) => x[0] === r[0])[1], r[0]);
});

test('what was asked comes back: history, tabs, the address', async () => {
  await ask('select 42 as answer');
  await page.reload();
  await page.waitForSelector('.grid-body [role=row]');
  assert.deepEqual(await cells(), [['42']]);
  await page.click('[aria-label="New query"]');
  assert.equal(await page.locator('.result').count(), 0);
  await page.click('button:has-text("History")');
  await page.click('[role=menuitem]:has-text("select 42 as answer")');
  await page.waitForSelector('.grid-body [role=row]');
  await page.keyboard.press('Escape');
});

test('looks and accessibility', async () => {
  await ask(`select demangle(name) as name, map_name, self_space, space, objects, space_error from heapwise_functions($upid, $ts) where space > 0 order by self_space desc`);
  assert.deepEqual(await looks(page, 'sql'), []);
  await page.click('[aria-label=View] button:has-text("Pivot")');
  assert.deepEqual(await axe(page), []);
  await page.click('[aria-label=View] button:has-text("Chart")');
  assert.deepEqual(await looks(page, 'sql-chart'), []);
  assert.deepEqual(page.problems, []);
});
