// Several processes looked at as one, and what the timeline says of each, against SQL.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, belowRoot, browse, done, drawn, go, graphOf, inspect, part, recordFamily, serve, settled, soon, visit } from './lib.mjs';

let server, page, timeline, upids;
const json = async (path) => (await server.ask(path)).json();
const q = (key) => part(page, key, () => true);

/** Header and first level of a graph. */
async function graph(query) {
  const g = await graphOf(server.ask(`/api/v1/traces/1/flame?${query}`));
  return { total: g.total, ts: g.ts, below: belowRoot(g) };
}

before(async () => {
  server = await serve(recordFamily());
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures');
  timeline = await json('/api/v1/traces/1/timeline');
  upids = timeline.processes.map((p) => p.upid);
  assert.equal(upids.length, 3);
});
after(done);

test('the sum of processes is that of SQL, metric by metric, at any moment', async () => {
  const [first, ...rest] = upids;
  const ends = timeline.processes.map((p) => p.moments.at(-1).ts);
  for (const metric of ['space', 'objects', 'alloc_space', 'alloc_objects'])
    for (const at of [null, ...timeline.processes[0].moments.slice(0, 3).map((m) => m.ts)]) {
      const ts = at ?? Math.max(...ends);
      const g = await graph(`upid=${first}&with=${rest}&group=process&metric=${metric}${at ? `&at=${at}` : ''}`);
      const parts = {};
      for (const p of timeline.processes) {
        const [row] = await server.sql(`select ${metric} from heapwise_tree(${p.upid + 1}, ${ts}) where id = 0`);
        if (row?.[0] > 0) parts[`${p.name} (${p.pid})`] = row[0];
      }
      assert.deepEqual(g.below, parts, `${metric} at ${at}`);
      assert.equal(g.total, Object.values(parts).reduce((a, b) => a + b, 0));
      assert.equal(g.ts, ts);
      const f = await json(`/api/v1/traces/1/table/functions?upid=${first}&with=${rest}&metric=${metric}&limit=1000${at ? `&at=${at}` : ''}`);
      const sql = await server.sql(`select demangle(name), sum(self_${metric}), sum(${metric}) from (${upids.map((u) => `select * from heapwise_functions(${u + 1}, ${ts})`).join(' union all ')}) group by name, map_name having sum(${metric}) > 0`);
      assert.deepEqual(Object.fromEntries(f.data.map((r) => [r[0], [r[2], r[3]]])), Object.fromEntries(sql.map((r) => [r[0] || '', [r[1], r[2]]])));
    }
  // An interval, a heap that all have, a file.
  const [from, at] = [timeline.processes[0].moments[0].ts, timeline.processes[0].moments[4].ts];
  const alone = await Promise.all(upids.map((u) => graph(`upid=${u}&from=${from}&at=${at}&heap=libc.malloc`)));
  assert.equal((await graph(`upid=${first}&with=${rest}&from=${from}&at=${at}&heap=libc.malloc`)).total, alone.reduce((a, g) => a + g.total, 0));
  const folded = await (await server.ask(`/api/v1/export/folded?trace=1&upid=${first}&with=${rest}`)).text();
  const whole = await graph(`upid=${first}&with=${rest}`);
  assert.equal(folded.trim().split('\n').reduce((a, l) => a + Number(/ (\d+)$/.exec(l)[1]), 0), whole.total);
  for (const bad of ['with=99', 'with=x', `with=${rest[0]}%3B1`]) assert.ok((await server.ask(`/api/v1/traces/1/flame?upid=${first}&${bad}`)).status >= 400, bad);
});

test('what an interval kept is what its graph draws', async () => {
  for (const series of await json('/api/v1/traces/1/retained')) {
    const p = timeline.processes.find((x) => x.upid === series.upid);
    let from = p.start;
    for (const [ts, bytes] of series.dumps) {
      const g = await graph(`upid=${series.upid}&heap=${encodeURIComponent(series.heap)}&from=${from}&at=${ts}`);
      assert.equal(bytes, g.total, `${series.heap} at ${ts}`);
      from = ts;
    }
  }
});

test('timeline: the largest process first, with its user, and from when on it is known', async () => {
  await visit(page, 'timeline');
  const shown = await page.locator('.tracks').evaluateAll((all) => all.map((el) => Number(el.dataset.upid)));
  const rss = (await server.sql(`select t.upid - 1, max(c.value) from counter c join process_counter_track t on t.id = c.track_id where t.name = 'mem.rss' group by 1 order by 2 desc`)).map((r) => r[0]);
  assert.deepEqual(shown, rss);
  const [[uid]] = await server.sql('select uid from process where uid is not null limit 1');
  const head = await page.locator('.tracks h2').first().textContent();
  assert.ok(head.includes(`uid ${uid}`), head);
  assert.match(head, /from start/);
  // Rounds of work and dumps come at about the same rate: an interval may have none of them.
  const titles = await page.locator('.slice').evaluateAll((all) => all.map((el) => el.title));
  assert.ok(titles.some((t) => /Retained ≥ [\d.]+ KiB · Allocated [\d.]+ KiB · Δ/.test(t)), titles.join('\n'));
  for (let i = 0; i < 5; i++) await page.keyboard.press('w');
  await page.waitForFunction(() => [...document.querySelectorAll('.slice')].some((s) => /^Retained ≥ .* · Allocated .* · Δ/.test(s.textContent)));
  await page.keyboard.press('0');
  await soon(async () => assert.match(await page.locator('.flags').first().textContent(), /the program started.*the process ended/));
  // A process that ran when the profile began.
  const other = await browse();
  await other.route('**/timeline', async (route) => {
    const answer = await route.fetch();
    const t = await answer.json();
    for (const p of t.processes) {
      p.began = p.start - 12_300_000_000;
      for (const h of p.heaps) for (const d of h.dumps) d.flags &= ~1;
    }
    await route.fulfill({ response: answer, body: JSON.stringify(t) });
  });
  await other.goto(server.url);
  await other.waitForSelector('.figures');
  await go(other, '#!/timeline?trace=1');
  await other.waitForSelector('.tracks');
  assert.match(await other.locator('.tracks h2').first().textContent(), /attached \+12\.3 s/);
  await other.context().close();
});

test('timeline: ticked processes are one graph with a box each; so are those a drag goes over', async () => {
  await visit(page, 'timeline', `&upid=${upids[0]}`);
  const boxes = page.locator('.join input');
  assert.equal(await boxes.count(), 3);
  for (let i = 0; i < 3; i++) await boxes.nth(i).check();
  await settled(page);
  await part(page, 'with', (w) => w && String(w.split(',').map(Number).sort()) === String(upids.slice(1).sort()));
  assert.match(await page.textContent('.explorer .statement'), /3 processes: /);
  assert.match(await page.textContent('[aria-label=Selection]'), /3 processes/);
  const live = await page.evaluate(() => document.querySelector('.flame canvas').dataset.key);
  const [[sum]] = await server.sql(`select sum(size) from heap_profile_allocation`);
  assert.equal(live.split(' ')[1], String(sum));
  // A diamond is a moment of all of them.
  await page.locator('.diamond:not(:has(em))').nth(2).click();
  await settled(page);
  await part(page, 'at', Boolean);
  assert.equal((await q('with')).split(',').length, 2);
  assert.equal(await q('heap'), null);
  // The last one stays.
  for (let i = 0; i < 3; i++) await boxes.nth(i).uncheck().catch(() => {});
  await part(page, 'with', null);
  assert.equal(await page.locator('.join input:checked').count(), 1);
  const [one, two] = [await page.locator('.tracks .chart').first().boundingBox(), await page.locator('.tracks').nth(1).locator('.chart').first().boundingBox()];
  await page.mouse.move(one.x + one.width * 0.2, one.y + 40);
  await page.mouse.down();
  await page.mouse.move(two.x + two.width * 0.7, two.y + 40, { steps: 8 });
  await page.mouse.up();
  await part(page, 'from', Boolean);
  await settled(page);
  await part(page, 'with', (w) => w?.split(',').length === 1);
  await part(page, 'from', Boolean);
  assert.equal(await page.locator('.handle').count(), 4);
  assert.match(await page.textContent('.explorer .statement'), /2 processes: /);
  // Every page of figures follows; those about one process say so.
  await page.click('nav a:has-text("Functions")');
  await page.waitForFunction(() => location.hash.startsWith('#!/functions'));
  await settled(page);
  const rows = await page.textContent('.statement');
  await page.click('button:text-is("SQL")');
  await page.waitForSelector('.outcome, .grid');
  await part(page, 'sql', (text) => /union all/.test(text ?? ''));
  const result = await server.sql(await q('sql'));
  assert.ok(rows.startsWith(`${result.length} functions`), `${rows} against ${result.length}`);
  await page.goBack();
  await page.waitForFunction(() => location.hash.startsWith('#!/functions'));
  await page.click('nav a:has-text("Leaks")');
  await page.waitForFunction(() => location.hash.startsWith('#!/leaks'));
  await settled(page);
  assert.match(await page.textContent('[aria-label=Selection]'), /without the other/);
  await visit(page, 'flame', `&upid=${upids[0]}`);
  await page.selectOption('[aria-label=Selection] select >> nth=0', 'all');
  await settled(page);
  await part(page, 'with', (w) => w?.split(',').length === 2);
  assert.deepEqual(page.problems, []);
});

test('pinned tracks stay on top, in the address, and lead where they led', async () => {
  await visit(page, 'timeline', `&upid=${upids[0]}`);
  const [first, second] = timeline.processes;
  const group = (p) => page.locator(`.tracks[data-upid="${p.upid}"]:not(.on-top .tracks)`);
  const rows = await group(second).locator('.track').count();
  await group(second).locator('.track .name').first().hover();
  await group(second).locator('.pin[aria-label^="Pin Live heap"]').click();
  await part(page, 'pins', `${second.upid}.live`);
  await page.waitForSelector('.on-top .track');
  assert.match(await page.textContent('.on-top .track .name'), new RegExp(`Live heap.*${second.pid}`));
  assert.equal(await group(second).locator('.track').count(), rows - 1, 'it moved');
  // It is seen wherever the page is scrolled to.
  await page.evaluate(() => document.getElementById('main').scrollTo(0, 1e6));
  const box = await page.locator('.on-top .track').boundingBox();
  const main = await page.locator('#main').boundingBox();
  assert.ok(box.y >= main.y - 1 && box.y < main.y + 60, `${box.y} in ${main.y}`);
  assert.ok(await page.evaluate(({ x, y }) => !!document.elementFromPoint(x, y)?.closest('.on-top'), { x: box.x + 200, y: box.y + 30 }));
  // A drag over it is one of its process.
  await page.mouse.move(box.x + 170, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, box.y + 40, { steps: 5 });
  await page.mouse.up();
  await part(page, 'from', Boolean);
  await part(page, 'upid', String(second.upid));
  await part(page, 'with', null);
  // By keys, all of a process, and after a reload.
  await group(first).locator('h2 .pin').focus();
  await page.keyboard.press('Enter');
  await part(page, 'pins', `${second.upid}.live,${first.upid}`);
  await page.reload();
  await page.waitForSelector('.on-top .tracks:nth-child(2)');
  await settled(page);
  assert.equal(await group(first).locator('.track .pin').count(), 0);
  assert.equal(await page.locator(`.on-top .tracks[data-upid="${first.upid}"] .diamond`).count() > 0, true);
  await page.locator(`.on-top .tracks[data-upid="${first.upid}"] .diamond:not(:has(em))`).first().click();
  await part(page, 'at', Boolean);
  await page.waitForFunction(() => /Live at/.test(document.querySelector('.explorer .statement')?.textContent));
  assert.deepEqual(await inspect(page, 'pinned', () => drawn(page)), []);
  await page.locator('.on-top .pin').first().click();
  await part(page, 'pins', String(first.upid));
  await group(first).locator('h2 .pin').click();
  await part(page, 'pins', null);
  assert.equal(await page.locator('.on-top').count(), 0);
  assert.deepEqual(page.problems, []);
});

test('processes without a heap profile have tracks, too', async () => {
  const tab = await browse();
  await tab.route('**/timeline', async (route) => {
    const answer = await route.fetch();
    const t = await answer.json();
    const p = t.processes.pop();
    t.others = [{ upid: p.upid, pid: p.pid, name: 'without', counters: { 'mem.rss': p.moments.map((m, i) => [m.ts, (i + 1) << 20]) } }];
    await route.fulfill({ response: answer, body: JSON.stringify(t) });
  });
  await tab.goto(server.url);
  await tab.waitForSelector('.figures');
  await visit(tab, 'timeline');
  await tab.click('.others > button:has-text("1 process without a heap profile")');
  await tab.waitForSelector('section[aria-label="Tracks of without"] canvas');
  assert.match(await tab.textContent('section[aria-label="Tracks of without"] .name'), /Resident.*MiB at most/);
  assert.deepEqual(await axe(tab), []);
  assert.deepEqual(tab.problems, []);
  await tab.context().close();
});

test('looks', async () => {
  assert.deepEqual(await inspect(page, 'processes', () => visit(page, 'timeline', `&upid=${upids[0]}&with=${upids.slice(1)}&from=${timeline.processes[0].moments[1].ts}&at=${timeline.processes[0].moments[5].ts}`)), []);
});
