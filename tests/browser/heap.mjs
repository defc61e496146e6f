// The managed heap, on dumps of a running JVM and on a file that the JVM wrote itself, against SQL.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, dir, done, graphOf, heapwise, here, inspect, long, serve, settled, until, visit } from './lib.mjs';

const has = (tool) => spawnSync(tool, ['-version']).error === undefined;
const skip = has('java') && has('javac') ? false : 'no JDK';
let server, page;

/** three.trace: dumps of one JVM between which its cache grew; the last moment as one.hprof, too. */
async function dumpJvm() {
  spawnSync('javac', ['--release', '11', '-Xlint:-options', '-d', dir, join(here, 'targets/Managed.java')], { timeout: 60_000 });
  const jvm = spawn('java', ['-Xmx128m', '-cp', dir, 'Managed'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ready = () => new Promise((ok, no) => { jvm.stdout.once('data', ok); jvm.once('exit', () => no(new Error('the JVM ended'))); });
  await ready();
  const dumps = spawn(heapwise, ['java', 'dump', '-f', '-c', '1500ms', '-o', join(dir, 'three.trace'), String(jvm.pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((ok) => dumps.on('exit', ok));
  let text = '', said = 0;
  // A dump says when it is made: the cache grows between two.
  dumps.stderr.on('data', (d) => {
    text += d;
    for (const made = text.split(' objects, ').length - 1; said < Math.min(made, 3); said++) {
      void ready();
      jvm.stdin.write('\n');
    }
    if (said === 3) dumps.kill('SIGINT');
  });
  assert.equal(await ended, 0);
  const r = spawnSync('jcmd', [String(jvm.pid), 'GC.heap_dump', join(dir, 'one.hprof')], { timeout: 60_000, encoding: 'utf8' });
  assert.equal(r.status, 0, r.stdout + r.stderr);
  jvm.stdin.end();
  jvm.kill();
}

/** both.trace: native samples, heap graphs and mappings of one JVM; one of its buffers has a sample. */
async function recordBoth() {
  const env = { ...process.env, PERFETTO_PRODUCER_SOCK_NAME: join(dir, 'p'), PERFETTO_CONSUMER_SOCK_NAME: join(dir, 'c') };
  const tool = (name) => join(process.env.HW_BUILD, 'src/cli', name);
  const service = spawn(tool('traced'), [], { env, stdio: 'ignore' });
  const jvm = spawn('java', ['-Xmx128m', '-cp', dir, 'Managed'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const line = () => new Promise((ok, no) => { jvm.stdout.once('data', ok); jvm.once('exit', () => no(new Error('the JVM ended'))); });
  await line();
  await until('the service listens', () => existsSync(env.PERFETTO_CONSUMER_SOCK_NAME));
  writeFileSync(join(dir, 'config'), `buffers { size_kb: 65536 } duration_ms: 600000
    data_sources { config { name: "android.heapprofd" heapprofd_config { sampling_interval_bytes: 4096 pid: ${jvm.pid} } } }
    data_sources { config { name: "android.java_hprof" java_hprof_config { pid: ${jvm.pid} dump_smaps: true } } }`);
  const recorder = spawn(tool('perfetto'), ['-c', join(dir, 'config'), '--txt', '-o', join(dir, 'both.trace')], { env, stdio: 'ignore' });
  const ended = new Promise((ok) => recorder.on('exit', ok));
  const graph = (what, size) => until(what, () => statSync(join(dir, 'both.trace')).size > size + 100_000);
  await until('both libraries', () => { const maps = readFileSync(`/proc/${jvm.pid}/maps`, 'utf8'); return maps.includes('memfd:heapwise-ring') && maps.includes('libheapwise_java'); });
  await graph('the first graph', 0);
  jvm.stdin.write('\n');
  await line();
  const { size } = statSync(join(dir, 'both.trace'));
  service.kill('SIGUSR1');
  await graph('a graph behind what it said', size);
  recorder.kill('SIGINT');
  assert.equal(await ended, 0);
  jvm.kill();
  service.kill();
}

/** A dump that did not end, one with clear names, and one whose class names are an attacker's. */
function spoil() {
  const whole = readFileSync(join(dir, 'three.trace'));
  writeFileSync(join(dir, 'cut.trace'), whole.subarray(0, Math.floor(whole.length * 0.55)));
  writeFileSync(join(dir, 'map.txt'), 'com.example.Real -> Managed$Session:\n    java.lang.String login -> user\n');
  const r = spawnSync(heapwise, ['deobfuscate', 'three.trace', 'names'], { cwd: dir, env: { ...process.env, PERFETTO_PROGUARD_MAP: 'java=map.txt' }, encoding: 'utf8' });
  assert.equal(r.status, 0, r.stderr);
  writeFileSync(join(dir, 'names.trace'), Buffer.concat([whole, readFileSync(join(dir, 'names'))]));
  let text = readFileSync(join(dir, 'one.hprof')).toString('latin1');
  for (const [from, to] of [['Managed$Session', '<img/src=x/a=1>'], ['Managed$Cache', '\xe2\x80\xae=1.<b>\x1b[31'], ['user of many', '<svg onload>']]) {
    assert.equal(from.length, to.length);
    text = text.replaceAll(from, to);
  }
  writeFileSync(join(dir, 'hostile.hprof'), Buffer.from(text, 'latin1'));
}

before(async () => {
  if (skip) return;
  await dumpJvm();
  await recordBoth();
  spoil();
  server = await serve(...['three.trace', 'one.hprof', 'both.trace', 'cut.trace', 'names.trace', 'hostile.hprof'].map((f) => join(dir, f)));
  page = await browse({ permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(server.url);
  await page.waitForSelector('.figures');
});
after(done);

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
const graph = async (query, trace = 1) => (await graphOf(api(`flame?${query}`, trace))).nodes;

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
  const exact = reachable.toLocaleString('en-US').replace(/,/g, '\u202f');
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
  await settled(page);
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
    const rows = await server.sql(`select id, parent_id, name, ${v}, cumulative_${v} from experimental_flamegraph(${last}, (select max(upid) from heap_graph), 'graph') limit 100000`);
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
  await settled(page);
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
  await settled(page);
  const [[n]] = await server.sql(`select count(*) from heap_graph_object where graph_sample_ts = ${ts[0]}`);
  assert.ok((await page.textContent('[aria-label="Dump"]')).includes(n.toLocaleString('en-US').replace(/,/g, '\u202f')));
  await page.keyboard.press(']');
  await page.waitForFunction((t) => location.hash.includes(`graph=${t}`), String(ts[1]));
});

/** The number of the only object of a class in the last dump. */
const only = async (cls, trace = 1) => (await server.sql(`select o.id from heap_graph_object o join heap_graph_class c on c.id = o.type_id where c.name = '${cls}' and graph_sample_ts = ${last} limit 1`, trace))[0][0];
const DOMINATORS = 'include perfetto module android.memory.heap_graph.dominator_tree;';

test('objects: picked and sorted as by SQL', { skip }, async () => {
  const columns = 'o.id, ifnull(c.deobfuscated_name, c.name), max(o.self_size, 0), ifnull(d.dominated_size_bytes, 0), ifnull(d.dominated_obj_count, 0), o.reachable, ifnull(o.root_type, \'\')';
  const sql = (cond, order) => server.sql(`${DOMINATORS} select ${columns} from heap_graph_object o join heap_graph_class c on c.id = o.type_id left join heap_graph_dominator_tree d on d.id = o.id where o.graph_sample_ts = ${last}${cond} order by ${order}, o.id limit 60`);
  const cells = (r) => [r[0], r[1], r[3], r[5], r[7], r[8], r[10]];
  for (const [query, cond, order] of [
    ['sort=retained', '', '4 desc'], ['sort=size&order=asc', '', '3'], ['sort=class&order=asc', '', '2'], ['sort=retained_count&only=root', ' and root_type is not null', '5 desc'],
    ['sort=size&class=Managed$Session', " and c.name = 'Managed$Session'", '3 desc'], ['sort=id&order=asc&only=ROOT_STICKY_CLASS', " and root_type = 'ROOT_STICKY_CLASS'", '1'],
    ['of=top', ' and d.id is not null and idom_id is null', '4 desc'],
  ]) assert.deepEqual((await json(`objects?limit=60&${query}`)).data.map(cells), await sql(cond, order), query);
  const cache = await only('Managed$Cache');
  assert.deepEqual((await json(`objects?limit=60&of=${cache}`)).data.map(cells), await sql(` and d.idom_id = ${cache}`, '4 desc'));
  assert.equal((await json('objects?limit=1&class=Managed$Session')).rows, 400);
  assert.equal((await api('objects?only=nothing')).status, 400);
  await visit(page, 'heap', '&tab=objects&cls=Managed%24Session');
  assert.match(await page.textContent('.statement'), /^400 rows/);
  await page.click('.grid-body [role=row] a');
  await page.waitForFunction(() => /tab=o\d+/.test(location.hash));
  await page.waitForSelector('.object h1:has-text("Managed$Session")');
});

test('an object: path, dominators, both directions, values', { skip }, async () => {
  const session = await only('Managed$Session');
  const d = await json(`object?object=${session}`);
  assert.deepEqual(d.path.map((x) => x[1]).slice(-2), ['java.util.HashMap$Node', 'Managed$Session']);
  assert.equal(d.path.at(-1)[2], 'java.util.HashMap$Node.value');
  assert.ok(d.path[0][3].startsWith('ROOT_'));
  const [[local]] = await server.sql(`select h.object_id from heap_graph_root_holder h join heap_graph_java_thread t on t.id = h.thread_id join heap_graph_object o on o.id = h.object_id where o.root_type = h.root_type and h.line and t.name = 'main' and o.graph_sample_ts = ${last} limit 1`);
  const held = await json(`object?object=${local}`);
  assert.match(held.path[0][5], /^a variable of [\w.$]+ \(\w+\.java:\d+\) in thread "main"$/);
  await visit(page, 'heap', `&tab=o${local}&objs=${local}`);
  assert.equal(await page.textContent('.root-holder'), held.path[0][5]);
  assert.deepEqual(d.classes.map((c) => c[1]), ['Managed$Session', 'java.lang.Object']);
  const idoms = [session];
  for (let id = session; id !== null;) {
    [[id]] = await server.sql(`${DOMINATORS} select idom_id from heap_graph_dominator_tree where id = ${id}`);
    if (id !== null) idoms.unshift(id);
  }
  assert.deepEqual(d.dominators.map((x) => x[0]), idoms);
  const refs = await server.sql(`select r.id, r.field_name, r.owned_id from heap_graph_reference r where owner_id = ${session} order by 1`);
  assert.deepEqual((await json(`references?object=${session}`)).data.map((r) => [r[0], r[1], r[3]]), refs);
  const back = await server.sql(`select r.id, r.owner_id, r.field_name from heap_graph_reference r where owned_id = ${session} order by 1`);
  const referrers = await json(`referrers?object=${session}&limit=1000`);
  assert.deepEqual(referrers.data.map((r) => [r[0], r[1], r[3]]), back);
  assert.equal(d.referrers, back.length);
  const nodes = await graph(`metric=dominated_size&object=${session}`);
  assert.equal(nodes[0].cum, d.retained.size + d.retained.native);
  assert.equal((await api('object?object=99999999')).status, 400);
  const entry = await only('Managed$Session', 2);
  const values = await json(`object?object=${entry}`, 2);
  const user = (await json(`references?object=${entry}`, 2)).data.find((r) => r[1].endsWith('.user'));
  assert.equal(user[5], '"user of many"');
  assert.ok(Array.isArray(values.fields));
  // The page: what SQL retains is what the heading says.
  await visit(page, 'heap', `&tab=o${session}&objs=${session}`);
  const [[kept]] = await server.sql(`${DOMINATORS} select dominated_size_bytes + dominated_native_size_bytes from heap_graph_dominator_tree where id = ${session}`);
  assert.equal(kept, d.retained.size + d.retained.native);
  assert.ok((await page.textContent('.object .figures')).includes(`${d.retained.count} objects`));
  await page.locator(`[role=tab][aria-selected=true]`).focus();
  await page.keyboard.press('Delete');
  await page.waitForFunction(() => location.hash.includes('tab=objects') && !location.hash.includes('objs='));
});

test('release simulation: cutting the only way frees what is dominated', { skip }, async () => {
  const cache = await only('Managed$Cache');
  const [[ref]] = await server.sql(`select id from heap_graph_reference where owned_id = ${cache}`);
  const [[size, count]] = await server.sql(`${DOMINATORS} select dominated_size_bytes, dominated_obj_count from heap_graph_dominator_tree where id = ${cache}`);
  const r = await json(`release?cut=r${ref}`);
  assert.deepEqual([r.lost.size, r.lost.count], [size, count]);
  assert.equal(r.data.reduce((a, x) => a + x[2], 0), size);
  const [[first]] = await server.sql(`select o.id from heap_graph_object o where root_type is not null and graph_sample_ts = ${last} limit 1`);
  assert.equal((await api(`release?cut=o${first}`)).status, 200);
  for (const bad of ['x1', 'r', 'r99999999', 'o1;2']) assert.equal((await api(`release?cut=${bad}`)).status, 400, bad);
  await visit(page, 'heap', `&tab=o${cache}&objs=${cache}`);
  await page.click('[aria-label="Referrers"] input[type=checkbox]');
  await page.waitForFunction(() => location.hash.includes('cut=r'));
  await page.waitForSelector(`.release:has-text("${count.toLocaleString('en-US').replace(/,/g, '\u202f')} objects would become unreachable")`);
  await page.click('text=Focus the flamegraph on this object');
  await page.waitForSelector('.object .flame canvas');
  assert.deepEqual(page.problems, []);
});

test('contents that occur again; a dump without contents has no such tabs', { skip }, async () => {
  await visit(page, 'heap', '&tab=strings', 2);
  assert.match(await page.locator('.grid-body [role=row]').first().textContent(), /"user of many".*40[01]/);
  const rows = await server.sql(`select d.value_string, count(*) from heap_graph_object o join heap_graph_object_data d on d.id = o.object_data_id where o.reachable and d.value_string is not null group by 1 order by 2 desc, 1`, 2);
  const strings = await json('strings?limit=100000', 2);
  assert.equal(strings.rows, rows.length);
  assert.equal(strings.objects, rows.reduce((a, r) => a + r[1], 0));
  const arrays = await json('arrays?limit=100000', 2);
  const kinds = await server.sql(`select count(*), sum(n), sum(bytes - bytes / n) from (select count(*) as n, sum(o.self_size) as bytes from heap_graph_object o join heap_graph_object_data d on d.id = o.object_data_id where o.reachable and d.array_element_count > 0 and d.value_string is null group by o.type_id, d.array_element_count, d.array_data_hash)`, 2);
  assert.deepEqual([arrays.rows, arrays.objects, arrays.wasted], kinds[0]);
  const same = strings.data[0][0];
  assert.equal((await json(`objects?same=${same}`, 2)).rows, strings.data[0][3]);
  assert.deepEqual((await page.locator('[role=tab]').allTextContents()).slice(-2), ['Strings', 'Arrays']);
  await visit(page, 'heap', '');
  assert.ok(!(await page.locator('[role=tab]').allTextContents()).includes('Strings'));
});

test('different paths by class', { skip }, async () => {
  const all = await json('paths?limit=100000');
  const [[n, size, count]] = await server.sql(`select count(*), sum(size), sum(count) from experimental_flamegraph(${last}, (select max(upid) from heap_graph), 'graph') where name not like '[native]%'`);
  assert.deepEqual([all.rows, all.size, all.count], [n, size, count]);
  const one = await json('paths?class=Managed$Session');
  assert.deepEqual([one.count, one.data[0][0].at(-1)], [400, 'Managed$Session']);
  await visit(page, 'heap', '&tab=flame');
  await page.focus('.flame canvas');
  await page.keyboard.press(' ');
  await page.click('[role=menuitem]:has-text("Reference paths by class")');
  await page.waitForFunction(() => location.hash.includes('tab=paths'));
  await settled(page);
  assert.ok((await page.textContent('.statement')).startsWith(n.toLocaleString('en-US').replace(/,/g, '\u202f')));
});

test('two dumps side by side: classes and paths that changed', { skip }, async () => {
  const [[first], [end]] = [...(await server.sql('select min(ts) from heap_graph')), ...(await server.sql('select max(ts) from heap_graph'))];
  const side = (ts) => `select ifnull(c.deobfuscated_name, c.name) as name, count(*) as n, sum(max(self_size, 0) + native_size) as bytes from heap_graph_object o join heap_graph_class c on c.id = o.type_id where graph_sample_ts = ${ts} and reachable group by 1`;
  const rows = await server.sql(`with a as (${side(first)}), b as (${side(end)}) select name, sum(an), sum(bn), sum(ab), sum(bb) from (select name, n as an, 0 as bn, bytes as ab, 0 as bb from a union all select name, 0, n, 0, bytes from b) group by 1 having sum(an) <> sum(bn) or sum(ab) <> sum(bb) order by 1`);
  const [[upid]] = await server.sql('select min(upid) - 1 from heap_graph');
  const query = `upid=${upid}&at=${end}&a_upid=${upid}&a_at=${first}`;
  const d = await json(`diff?${query}&sort=name&order=asc&limit=10000`);
  assert.deepEqual(d.data, rows);
  assert.ok(rows.some((r) => r[0] === 'Managed$Entry' && r[2] - r[1] >= 500));
  const top = (await json(`diff?${query}&limit=3`)).data.map((r) => r[4] - r[3]);
  assert.deepEqual(top, rows.map((r) => r[4] - r[3]).sort((x, y) => y - x).slice(0, 3));
  // The tree of both: sides are those of each dump's own tree.
  const both = await graphOf(api(`diff-flame?${query}&metric=object_size`));
  assert.equal(both.flags & 16, 16);
  assert.equal(both.nodes[0].a, (await graph(`upid=${upid}&at=${first}`))[0].cum);
  assert.equal(both.nodes[0].b, (await graph(`upid=${upid}&at=${end}`))[0].cum);
  // Against the JVM's own file: another trace.
  assert.ok((await json(`diff?${query.replace(/a_upid.*/, '')}a_trace=2`)).rows > 0);
  await visit(page, 'heap', '&tab=diff');
  await page.waitForSelector('[role=grid][aria-label="Classes that changed"]');
  assert.match(await page.textContent('.heap-changes .statement'), /before, .* after: \+/);
  await page.click('[aria-label="Swap both"]');
  await page.waitForFunction(() => /after: −/.test(document.querySelector('.heap-changes .statement')?.textContent ?? ''));
  assert.deepEqual(page.problems, []);
});

test('a whole process: each part is that of its source, what is known twice counts once', { skip }, async () => {
  const w = await json('whole?', 3);
  const part = (kind) => w.parts.filter((x) => x[0] === kind).reduce((a, x) => a + x[2], 0);
  const [[managed, registered, lost]] = await server.sql(`select sum(iif(reachable, max(self_size, 0), 0)), sum(iif(reachable, native_size, 0)), sum(iif(reachable, 0, max(self_size, 0))) from heap_graph_object where graph_sample_ts = ${last}`, 3);
  assert.equal(part('managed'), managed + registered + lost);
  assert.equal(w.registered, registered);
  const [[space]] = await server.sql(`select sum(size) from heap_profile_allocation where heap_name <> 'com.android.art' and ts <= ${w.native_at}`, 3);
  assert.equal(part('native') + w.linked, space);
  assert.ok(w.native_at >= w.ts, 'samples were looked up in the dump behind the graph, which need not be the nearest');
  assert.ok(w.linked >= 2 << 20, `linked: ${w.linked}`);
  assert.equal(w.unlinked, Math.max(0, registered - w.linked));
  const [[rss, swap, others]] = await server.sql(`select sum(rss_kb) * 1024, sum(swap_kb) * 1024, sum(iif(path like '[heap]%' or path like '[anon%' or path = '', 0, rss_kb + swap_kb)) * 1024 from profiler_smaps where ts = ${w.mappings_at}`, 3);
  assert.deepEqual([w.resident, w.swapped, part('mapping')], [rss, swap, others]);
  assert.equal(part('unexplained') - w.over, rss + swap - part('native') - part('managed') - others);
  await visit(page, 'heap', '&tab=whole', 3);
  const whole = w.parts.reduce((a, x) => a + x[2], 0);
  assert.equal(Number((await page.getAttribute('.flame canvas', 'data-key')).split(' ')[1]), whole);
  assert.equal(await page.locator('[aria-label="Parts of the process"] tbody tr').count(), w.parts.length);
  assert.match(await page.textContent('.explorer'), /possibly counted twice/);
  await visit(page, 'heap', '&tab=whole', 1);
  assert.match(await page.textContent('.explorer'), /No native heap profile/);
  // Beside a native profile the diamond stands among its tracks.
  await visit(page, 'timeline', '', 3);
  assert.equal(await page.locator('.diamond.managed').count(), (await server.sql('select count(*) from heap_graph', 3))[0][0]);
  await page.locator('.diamond.managed').last().click();
  await page.waitForFunction(() => location.hash.startsWith('#!/heap'));
  assert.deepEqual(page.problems, []);
});

test('a dump that did not end says so before it shows anything', { skip }, async () => {
  await visit(page, 'heap', '', 4);
  await page.waitForSelector('[role=alert]:has-text("This dump is incomplete")');
  assert.equal(await page.locator('.figures').count(), 0);
  await page.click('summary:has-text("Show errors")');
  assert.match(await page.textContent('[role=alert]'), /heap_graph_non_finalized_graph: 1/);
  await page.click('text=View anyway');
  await page.waitForFunction(() => location.hash.includes('anyway=1'));
  await page.waitForSelector('.figures');
});

test('clear names are shown, recorded ones are told', { skip }, async () => {
  await visit(page, 'heap', '&tab=objects&cls=com.example.Real', 5);
  assert.match(await page.textContent('.statement'), /^400 rows/);
  assert.match(await page.locator('.grid-body [role=gridcell][title*="recorded as Managed$Session"]').first().textContent(), /com\.example\.Real/);
  const id = await only('Managed$Session', 5);
  await visit(page, 'heap', `&tab=o${id}`, 5);
  assert.match(await page.textContent('.object'), /recorded as Managed\$Session/);
  assert.match(await page.textContent('[aria-label="Fields"]'), /login/);
});

test('names of an attacker are text', { skip }, async () => {
  for (const tab of ['', 'flame', 'classes', 'objects', 'dominators', 'paths', 'strings']) await visit(page, 'heap', `&tab=${tab}`, 6);
  assert.match(await page.textContent('.grid-body'), /<svg onload>/);
  const [[id]] = await server.sql("select o.id from heap_graph_object o join heap_graph_class c on c.id = o.type_id where c.name = '<img.src=x.a=1>' limit 1", 6);
  await visit(page, 'heap', `&tab=o${id}`, 6);
  assert.match(await page.textContent('.object h1'), /<img\.src=x\.a=1>/);
  await visit(page, 'heap', '&tab=classes&match=%3D1.%3Cb', 6);
  assert.match(await page.textContent('.grid-body'), /\\u202e=1\.<b>\\x1b\[31/);
  assert.equal(await page.locator('main img, main svg[onload], main b:has-text("\u001b")').count(), 0);
  assert.deepEqual(page.problems, []);
});

test('looks', { skip }, async () => {
  const cache = await only('Managed$Cache');
  const some = [['heap-overview-hprof', '', 2], ['heap-flame', '&tab=flame', 1], ['heap-object', `&tab=o${cache}`, 1], ['heap-diff', '&tab=diff', 1], ['heap-whole', '&tab=whole', 3]];
  const others = [['heap-overview', '', 1], ['heap-classes', '&tab=classes', 1], ['heap-objects', '&tab=objects', 1], ['heap-dominators', '&tab=dominators', 1],
    ['heap-paths', '&tab=paths', 1], ['heap-strings', '&tab=strings', 2], ['heap-arrays', '&tab=arrays', 2]];
  for (const [label, query, trace] of [...some, ...(long ? others : [])]) assert.deepEqual(await inspect(page, label, () => visit(page, 'heap', query, trace)), []);
  if (long) assert.deepEqual(await inspect(page, 'heap-timeline', () => visit(page, 'timeline')), []);
  assert.deepEqual(page.problems, []);
});
