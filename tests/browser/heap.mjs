// The managed heap, on dumps of a running JVM and on a file that the JVM wrote itself, against SQL.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, dir, done, heapwise, here, inspect, serve, visit } from './lib.mjs';

const has = (tool) => spawnSync(tool, ['-version']).error === undefined;
const skip = has('java') && has('javac') ? false : 'no JDK';
let server, page;

/** three.trace: dumps of one JVM between which its cache grew; the last moment as one.hprof, too. */
async function dumpJvm() {
  spawnSync('javac', ['--release', '11', '-Xlint:-options', '-d', dir, join(here, 'Managed.java')], { timeout: 60_000 });
  const jvm = spawn('java', ['-Xmx128m', '-cp', dir, 'Managed'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ready = () => new Promise((ok, no) => { jvm.stdout.once('data', ok); jvm.once('exit', () => no(new Error('the JVM ended'))); });
  await ready();
  const dumps = spawn(heapwise, ['java', 'dump', '-f', '-c', '1500ms', '-d', '4s', '-o', join(dir, 'three.trace'), String(jvm.pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((ok) => dumps.on('exit', ok));
  let said = 0;
  // A dump says when it is made: the cache grows between two.
  dumps.stderr.on('data', (d) => { if (/objects/.test(d) && said++ < 3) { void ready(); jvm.stdin.write('\n'); } });
  assert.equal(await ended, 0);
  const r = spawnSync('jcmd', [String(jvm.pid), 'GC.heap_dump', join(dir, 'one.hprof')], { timeout: 60_000, encoding: 'utf8' });
  assert.equal(r.status, 0, r.stdout + r.stderr);
  jvm.stdin.end();
  jvm.kill();
}

before(async () => {
  if (skip) return;
  await dumpJvm();
  server = await serve(join(dir, 'three.trace'), join(dir, 'one.hprof'));
  page = await browse({ permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(server.url);
  await page.waitForSelector('.figures');
});
after(done);

const settle = () => page.waitForFunction(() => !document.querySelector('[aria-busy=true], [role=status].empty'));
const api = async (path, trace = 1) => {
  for (;;) {
    const r = await server.ask(`/api/v1/traces/${trace}/heap/${path}`);
    if (r.status === 202) continue;
    return r;
  }
};
const json = async (path, trace) => (await api(path, trace)).json();
const last = '(select max(ts) from heap_graph)';
const AGGREGATION = 'include perfetto module android.memory.heap_graph.heap_graph_class_aggregation;';

/** Names of the boxes from the root down, with what each holds in all. */
async function graph(query, trace = 1) {
  const b = Buffer.from(await (await api(`flame?${query}`, trace)).arrayBuffer());
  const n = b.readUInt32LE(12), s = b.readUInt32LE(16), sides = b.readUInt32LE(8) & 16;
  let o = 72;
  const take = (width) => [o, (o += Math.ceil((n * width) / 8) * 8)][0];
  const [parent, , , name] = [take(4), take(4), take(2), take(4)];
  take(4), take(1);
  const self = take(8), cum = take(8);
  take(4), take(4);
  if (sides) take(8), take(8);
  const texts = o + Math.ceil(((s + 1) * 4) / 8) * 8;
  const string = (i) => b.toString('utf8', texts + b.readUInt32LE(o + 4 * i), texts + b.readUInt32LE(o + 4 * (i + 1)));
  const out = [];
  for (let i = 0; i < n; i++) out.push({ parent: b.readInt32LE(parent + 4 * i), name: string(b.readUInt32LE(name + 4 * i)), self: b.readDoubleLE(self + 8 * i), cum: b.readDoubleLE(cum + 8 * i) });
  return out;
}

const paths = (nodes, value) => nodes.map((x, i) => {
  const names = [];
  for (let k = i; k >= 0 && nodes[k]; k = nodes[k].parent ?? -1) names.unshift(nodes[k].name);
  return `${names.join(' > ')} ${value(x)}`;
});

test('a trace of heap graphs opens on them; the overview has the figures of SQL', { skip }, async () => {
  await page.waitForFunction(() => location.hash.startsWith('#!/heap'));
  const [[n, reachable, lost]] = await server.sql(`select count(*), sum(iif(reachable, max(self_size, 0), 0)), sum(not reachable) from heap_graph_object where graph_sample_ts = ${last}`);
  const o = await json('overview?');
  assert.equal(o.all.count, n);
  assert.equal(o.reachable.size, reachable);
  assert.equal(o.unreachable.count, lost);
  const exact = reachable.toLocaleString('en-US').replace(/,/g, '\u2009');
  assert.ok((await page.textContent('.figures')).includes(`${exact} B managed`));
  const roots = await server.sql(`include perfetto module android.memory.heap_graph.dominator_tree; select root_type, count(*), sum(dominated_obj_count), sum(dominated_size_bytes) from heap_graph_object o join heap_graph_dominator_tree d using (id) where graph_sample_ts = ${last} and idom_id is null and root_type is not null group by 1 order by 1`);
  assert.deepEqual(o.roots.map((r) => [r.name, r.own.count, r.retained.count, r.retained.size]).sort(), roots.sort());
  const [[rest]] = await server.sql(`include perfetto module android.memory.heap_graph.dominator_tree; select coalesce(sum(dominated_size_bytes), 0) from heap_graph_object o join heap_graph_dominator_tree d using (id) where graph_sample_ts = ${last} and idom_id is null and root_type is null`);
  assert.equal(o.shared.size, rest);
  assert.deepEqual(page.problems, []);
});

test('classes are those of the aggregation, however they are sorted', { skip }, async () => {
  const rows = await server.sql(`${AGGREGATION} select type_id, type_name, reachable_obj_count, reachable_size_bytes, reachable_native_size_bytes, dominated_size_bytes, dominated_native_size_bytes, dominated_obj_count, obj_count - reachable_obj_count from android_heap_graph_class_aggregation where graph_sample_ts = ${last}`);
  const all = (await json('classes?limit=100000&sort=name&order=asc')).data;
  const cells = (r) => [r[0], r[1], r[5], r[6], r[7], r[8], r[9], r[10], r[11]];
  assert.deepEqual(all.map(cells).sort((a, b) => a[0] - b[0]), rows);
  for (const [sort, k] of [['count', 5], ['size', 6], ['retained', 8], ['retained_count', 10]])
    for (const order of ['asc', 'desc']) {
      const v = (await json(`classes?limit=50&sort=${sort}&order=${order}`)).data.map((r) => r[k]);
      assert.deepEqual(v, all.map((r) => r[k]).sort((a, b) => (order === 'asc' ? a - b : b - a)).slice(0, 50), sort);
    }
  await visit(page, 'heap', '&tab=classes');
  const first = [...rows].sort((a, b) => b[5] - a[5] || a[0] - b[0])[0];
  assert.equal(await page.locator('.grid-body [role=gridcell] a').first().textContent(), first[1]);
  await page.fill('[aria-label="Find classes"]', 'Managed$');
  await page.waitForFunction(() => location.hash.includes('match=Managed'));
  await settle();
  const mine = rows.filter((r) => r[1].includes('Managed$'));
  await page.waitForFunction((n) => document.querySelectorAll('.grid-body [role=row]').length === n, mine.length);
  await page.reload();
  await page.waitForFunction((n) => document.querySelectorAll('.grid-body [role=row]').length === n, mine.length);
  assert.equal(await page.inputValue('[aria-label="Find classes"]'), 'Managed$');
});

test('the flamegraph is that of SQL: paths and dominators', { skip }, async () => {
  const value = (r) => `${r[3]} ${r[4]}`;
  const sqlPaths = (rows) => {
    const at = new Map(rows.map((r) => [r[0], r]));
    return rows.map((r) => {
      const names = [];
      for (let k = r; k; k = k[1] === null ? null : at.get(k[1])) names.unshift(k[2]);
      return `all > ${names.join(' > ')} ${value(r)}`;
    }).sort();
  };
  for (const [metric, v] of [['object_size', 'size'], ['object_count', 'count']]) {
    const rows = await server.sql(`select id, parent_id, name, ${v}, cumulative_${v} from experimental_flamegraph(${last}, 1, 'graph') limit 100000`);
    const mine = (await graph(`metric=${metric}`)).slice(1);
    assert.equal(mine.length, rows.filter((r) => r[4] > 0).length);
    assert.deepEqual(paths([{ name: 'all', parent: -1 }, ...mine], (x) => `${x.self} ${x.cum}`).slice(1).sort(), sqlPaths(rows.filter((r) => r[4] > 0)), metric);
  }
  const folded = await server.sql(`include perfetto module android.memory.heap_graph.dominator_class_tree; select name, sum(self_size) from _heap_graph_dominator_class_tree where graph_sample_ts = ${last} group by 1 having sum(self_size) > 0 order by 1`);
  const by = {};
  for (const x of (await graph('metric=dominated_size&collapse=1')).slice(1)) {
    const name = x.name.replace(/ \[ROOT_[A-Z_]+\]$/, '');
    by[name] = (by[name] ?? 0) + x.self;
  }
  assert.deepEqual(Object.fromEntries(Object.entries(by).filter(([, s]) => s > 0)), Object.fromEntries(folded));
  assert.equal((await api('flame?metric=space')).status, 400);
});

test('the graph by keys: metrics, chains, menu', { skip }, async () => {
  await visit(page, 'heap', '&tab=flame');
  await page.keyboard.press('3');
  await page.waitForFunction(() => location.hash.includes('heapmetric=dominated_size'));
  await page.keyboard.press('c');
  await page.waitForFunction(() => location.hash.includes('collapse=1'));
  await settle();
  const canvas = page.locator('.flame canvas').first();
  await canvas.focus();
  await page.keyboard.press('ArrowDown');
  assert.match(await page.textContent('.flame .sr'), /objects$/);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('zoom='));
  await page.keyboard.press(' ');
  await page.waitForSelector('[role=menuitem]:has-text("Objects of this class")');
  await page.keyboard.press('Escape');
  await page.goBack();
  await page.waitForFunction(() => !location.hash.includes('zoom='));
  assert.deepEqual(page.problems, []);
});

test('diamonds lead to the dumps; brackets step through them', { skip }, async () => {
  await visit(page, 'timeline');
  const ts = (await server.sql('select ts from heap_graph order by 1')).map((r) => r[0]);
  assert.ok(ts.length > 1);
  await page.locator('.diamond.managed').first().click();
  await page.waitForFunction((t) => location.hash.includes(`graph=${t}`), String(ts[0]));
  await settle();
  const [[n]] = await server.sql(`select count(*) from heap_graph_object where graph_sample_ts = ${ts[0]}`);
  assert.ok((await page.textContent('[aria-label="Dump"]')).includes(n.toLocaleString('en-US').replace(/,/g, '\u2009')));
  await page.keyboard.press(']');
  await page.waitForFunction((t) => location.hash.includes(`graph=${t}`), String(ts[1]));
});

test('looks', { skip }, async () => {
  for (const [label, query, trace] of [['heap-overview', '', 1], ['heap-flame', '&tab=flame', 1], ['heap-classes', '&tab=classes', 1], ['heap-overview-hprof', '', 2]])
    assert.deepEqual(await inspect(page, label, () => visit(page, 'heap', query, trace)), []);
  assert.deepEqual(await inspect(page, 'heap-timeline', () => visit(page, 'timeline')), []);
  assert.deepEqual(page.problems, []);
});
