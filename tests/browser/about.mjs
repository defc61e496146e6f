// Symbols, Source, Info, Settings; which files the Source page may read. HW_SHOTS=dir keeps screenshots.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, cli, dir, done, go, here, looks, record, serve, settled, soon, until } from './lib.mjs';

let server, page, trace, bare; // bare: a server without --symbols
const sources = join(dir, 'sources');

before(async () => {
  trace = record();
  execFileSync('cc', ['-g', '-O1', '-fno-omit-frame-pointer', '-rdynamic', '-o', 'lines', join(here, 'targets/grow.c')], { cwd: dir });
  execFileSync(join(process.env.HW_BUILD, 'src/cli/heapwise'), ['record', '-q', '-i', '4096', '-c', '250ms', '-o', 'lines.trace', '--', './lines'], { cwd: dir });
  execFileSync('cc', ['-g', '-O1', '-fno-omit-frame-pointer', '-Wl,--build-id', '-o', 'with-lines', join(here, 'targets/grow.c')], { cwd: dir });
  execFileSync('strip', ['-o', 'stripped', 'with-lines'], { cwd: dir });
  execFileSync(join(process.env.HW_BUILD, 'src/cli/heapwise'), ['record', '-q', '-i', '4096', '-o', 'stripped.trace', '--', './stripped'], { cwd: dir });
  mkdirSync(join(dir, 'symbols'));
  copyFileSync(join(dir, 'lines'), join(dir, 'symbols/other-name'));
  server = await serve('--symbols', join(dir, 'symbols'), '--sources', here, join(dir, 'lines.trace'), trace); // a server of root's shows no others
  writeFileSync(join(dir, 'plain.folded'), 'main;a 100\nmain;b 50\n');
  bare = await serve(join(dir, 'stripped.trace'), join(dir, 'plain.folded'));
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures');
});
after(done);

const at = async (name, query = '', trace_id = 1) => {
  await go(page, `#!/${name}?trace=${trace_id}${query}`);
  await settled(page);
};

test('source: lines with the memory of their stacks', async () => {
  await at('source');
  await page.waitForSelector('.code-row.has');
  const text = readFileSync(join(here, 'targets/grow.c'), 'utf8').split('\n');
  const rows = await page.locator('.code-row.has').evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.textContent)));
  const line = text.findIndex((l) => l.includes('malloc(8 << 20)')) + 1;
  const row = rows.find((r) => Number(r[3]) === line);
  assert.deepEqual(row.slice(0, 3), ['8.00 MiB', '8.00 MiB', '1']);
  assert.equal(row[4].trim(), text[line - 1].trim());
  // Every line against SQL: the site's line has the self of its stacks; here each line is one function.
  const lines = await (await server.ask('/api/v1/traces/1/lines?metric=space')).json();
  const self = lines.filter((l) => l[0].endsWith('grow.c')).reduce((a, l) => a + l[2], 0);
  const [[live]] = await server.sql('select sum(size) from heap_profile_allocation');
  assert.equal(self, live);
  for (const [name, marker] of [['load_table', 'malloc(8 << 20)'], ['cache_insert', '200 + i % 300']]) {
    const [[want]] = await server.sql(`select self_space from heapwise_functions((select min(upid) from heap_profile)) where name = '${name}'`);
    const n = text.findIndex((l) => l.includes(marker)) + 1;
    assert.equal(lines.find((l) => l[0].endsWith('grow.c') && l[1] === n)[2], want, name);
  }
  // Each line is both: bytes and how many allocations they are, whichever is the metric.
  const many = await (await server.ask('/api/v1/traces/1/lines?metric=objects')).json();
  for (const l of lines) {
    const n = many.find((x) => x[0] === l[0] && x[1] === l[1]);
    assert.deepEqual([l[6], l[7]], [l[3], n[3]], `${l[0]}:${l[1]}`);
    assert.deepEqual(n.slice(6), l.slice(6));
  }
  // Recursion counts once.
  const call = text.findIndex((l) => l.includes('recurse(depth - 1)')) + 1;
  const [[recursion]] = await server.sql(`select space from heapwise_functions((select min(upid) from heap_profile)) where name = 'recurse'`);
  assert.equal(lines.find((l) => l[0].endsWith('grow.c') && l[1] === call)[3], recursion);
  await page.focus('.code');
  await page.keyboard.press('n');
  await page.waitForFunction(() => /line=\d+/.test(location.hash));
  await page.click('.files a:has-text("libc-start.c")');
  await page.waitForSelector('.text [role=alert]:has-text("--sources DIR")');
  await at('flame');
  await page.locator('.flame canvas').first().focus();
  for (const k of ['Home', 'ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown', ' ']) await page.keyboard.press(k);
  await page.click('[role=menuitem]:text-is("Source")');
  await page.waitForFunction(() => location.hash.startsWith('#!/source') && /file=/.test(location.hash));
});

test('source: each function with the sum of its lines, as SQL has it', async () => {
  const functions = (await (await server.ask('/api/v1/traces/1/lines?by=function')).json()).filter((f) => f[0].endsWith('grow.c'));
  const sql = await server.sql(`select name, self_space, space, objects from heapwise_functions((select min(upid) from heap_profile)) where space > 0 and map_name like '%/lines'`);
  assert.ok(functions.length > 5);
  for (const [, , self, total, , , bytes, count, name] of functions) {
    const want = sql.find((r) => r[0] === name);
    assert.deepEqual([self, total, bytes, count], [want[1], want[2], want[2], want[3]], name);
  }
  assert.equal((await server.ask('/api/v1/traces/1/lines?by=nonsense')).status, 400);
  await at('source');
  await page.waitForSelector('.functions a');
  assert.deepEqual((await page.locator('.functions a').allTextContents()).length, functions.length);
  assert.match(await page.textContent('.functions a:has-text("load_table")'), /load_table8\.00 MiB/);
  await page.click('.functions a:has-text("load_table")');
  await page.waitForFunction(() => /line=\d+/.test(location.hash));
  await page.waitForSelector('.code-row.on');
  const heat = await page.locator('.code-row.has').evaluateAll((all) => all.map((r) => Number(r.style.getPropertyValue('--heat'))));
  assert.ok(Math.max(...heat) === 1 && heat.some((h) => h < 0.1), String(heat));
});

test('source: the first file that can be shown is shown, though another holds more', async () => {
  writeFileSync(join(dir, 'away.c'), '#include <stdlib.h>\nvoid *hold_more(void) { return malloc(16 << 20); }\n');
  writeFileSync(join(dir, 'stays.c'), '#include <stdlib.h>\nvoid *hold_more(void);\nvoid *kept[2];\nint main(void) {\n  kept[0] = hold_more();\n  kept[1] = malloc(1 << 20);\n  return !kept[0] || !kept[1];\n}\n');
  execFileSync('cc', ['-g', '-O0', '-rdynamic', '-o', 'two-files', 'away.c', 'stays.c'], { cwd: dir });
  rmSync(join(dir, 'away.c'));
  execFileSync(join(process.env.HW_BUILD, 'src/cli/heapwise'), ['record', '-q', '-f', '-i', '1', '-o', 'two-files.trace', '--', './two-files'], { cwd: dir });
  const other = await serve('--sources', dir, join(dir, 'two-files.trace'));
  const tab = await browse();
  await tab.goto(other.url);
  await tab.waitForSelector('.figures');
  await go(tab, '#!/source?trace=1');
  await tab.waitForSelector('.code-row.has');
  assert.match(await tab.textContent('.text .path'), /stays\.c$/);
  assert.match(await tab.locator('.files a').first().textContent(), /away\.c16\.0 MiB/);
  assert.equal(await tab.locator('[role=alert]').count(), 0);
  await tab.click('.files a:has-text("away.c")'); // who asks for the other is told
  await tab.waitForSelector('.text [role=alert]:has-text("is not here")');
  assert.deepEqual(tab.problems, []);
  await other.stop();
});

const codeOf = async (s, fn, id = 1) => {
  const r = await s.ask(`/api/v1/traces/${id}/code?metric=space&fn=${encodeURIComponent(fn)}`);
  const text = await r.text();
  return r.ok ? JSON.parse(text) : { status: r.status, text };
};
/** The same by hand: [address, text] of a function, from the whole file. */
const byHand = (file, name) => {
  const all = execFileSync('objdump', ['-d', '-z', '-w', '--no-show-raw-insn', file], { encoding: 'utf8' });
  const lines = all.slice(all.indexOf(`<${name}>:\n`)).split('\n').slice(1);
  return lines.slice(0, lines.indexOf('')).map((l) => /^ *([0-9a-f]+):\s*(.*?)\s*$/.exec(l).slice(1).map((x) => x.replace(/\t/g, ' ')));
};

test('instructions: those of objdump, with the bytes of SQL', async () => {
  for (const name of ['main', 'load_table', 'cache_insert', 'recurse']) {
    const code = await codeOf(server, name);
    assert.deepEqual(code.rows.map((r) => [r[0], r[1]]), byHand(join(dir, 'lines'), name), name);
    const through = await server.sql(`with recursive up(id, at) as (select id, id from stack_profile_callsite union all select up.id, c.parent_id from up join stack_profile_callsite c on c.id = up.at where c.parent_id is not null)
      select f.rel_pc, sum(a.size) from (select distinct up.id, c.frame_id from up join stack_profile_callsite c on c.id = up.at) s join stack_profile_frame f on f.id = s.frame_id join heap_profile_allocation a on a.callsite_id = s.id where f.name = '${name}' group by 1 having sum(a.size) > 0 order by 1`);
    const want = through.map(([pc, bytes]) => [code.rows.findLast((r) => parseInt(r[0], 16) <= pc)[0], bytes]);
    assert.ok(want.length > 0);
    assert.deepEqual(code.rows.filter((r) => r[5] > 0).map((r) => [r[0], r[5]]), want, name);
    const [[self]] = await server.sql(`select self_space from heapwise_functions((select min(upid) from heap_profile)) where name = '${name}'`);
    assert.equal(code.rows.reduce((a, r) => a + r[4], 0), self, name);
    // Lines, by addr2line.
    const lines = execFileSync('addr2line', ['-e', join(dir, 'lines'), ...code.rows.map((r) => r[0])], { encoding: 'utf8' }).trim().split('\n');
    assert.deepEqual(code.rows.map((r) => `${r[2]}:${r[3]}`), lines.map((l) => l.replace(/ .*/, '')), name);
  }
  await at('source', '&view=code&fn=load_table');
  await page.waitForSelector('.code-row.instructions.has');
  const row = await page.locator('.code-row.has').first().locator(':scope > *').allTextContents();
  assert.deepEqual([row[0], row[1]], ['8.00 MiB', '8.00 MiB']);
  assert.match(row[3], /^call.*malloc/);
  assert.match(await page.locator('.code-row.line code').allTextContents().then((t) => t.join('\n')), /malloc\(8 << 20\)/);
  await page.click('.files a[title="main"]');
  await page.waitForSelector('.text[aria-label="Instructions of main"]');
  await page.waitForSelector('.code-row.on.has');
  const first = await page.locator('.code-row.on').textContent();
  await page.focus('.code');
  await page.keyboard.press('n');
  await page.waitForFunction((was) => document.querySelector('.code-row.on')?.textContent !== was, first);
  assert.deepEqual(await looks(page, 'instructions'), []);
  await page.click('[aria-label=Show] button:has-text("Source")');
  await page.waitForSelector('.code-row:not(.instructions)');
});

test('instructions: without a tool, with a broken one, of the wrong file, of hostile names', async () => {
  const tools = join(dir, 'tools');
  const path = process.env.PATH;
  mkdirSync(tools);
  process.env.PATH = tools;
  const none = await serve(join(dir, 'lines.trace'));
  process.env.PATH = path;
  assert.match((await codeOf(none, 'main')).text, /install binutils/);
  const tab = await browse();
  await tab.goto(none.url);
  await tab.waitForSelector('.figures');
  await go(tab, '#!/source?trace=1&view=code&fn=main');
  await tab.waitForSelector('.text [role=alert]:has-text("install binutils")');
  await tab.context().close();
  // One that floods is ended; one that fails, or tells nonsense, is left for the next.
  writeFileSync(join(tools, 'objdump'), '#!/bin/sh\nwhile :; do echo "                                                                                     "; done | /usr/bin/tr " " "x"\n', { mode: 0o755 });
  assert.match((await codeOf(none, 'main')).text, /limits of time and output/);
  writeFileSync(join(tools, 'objdump'), '#!/bin/sh\necho "zz: x"; echo " 0: nop"; echo " ffffffffffffffffff: x"; printf " 1"; exit 1\n', { mode: 0o755 });
  assert.match((await codeOf(none, 'main')).text, /does not know this file's processor/);
  symlinkSync(execFileSync('which', ['objdump'], { encoding: 'utf8' }).trim(), join(tools, 'llvm-objdump'));
  assert.equal((await codeOf(none, 'main')).tool, 'llvm-objdump');
  await none.stop();
  assert.equal((await codeOf(server, 'nobody')).status, 400);
  assert.match((await codeOf(server, '<script>alert(1)</script>', 2)).rows.map((r) => r[1]).join('\n'), /call/);
  // A name that is words of a command line; then another build in its place.
  const odd = '--help; $(touch pwned) "\'\\';
  mkdirSync(join(dir, odd));
  copyFileSync(join(dir, 'lines'), join(dir, odd, '-x'));
  execFileSync(join(process.env.HW_BUILD, 'src/cli/heapwise'), ['record', '-q', '-i', '4096', '-o', 'odd.trace', '--', join(dir, odd, '-x')], { cwd: dir });
  const other = await serve(join(dir, 'odd.trace'));
  assert.deepEqual((await codeOf(other, 'main')).rows.map((r) => r[1]), byHand(join(dir, 'lines'), 'main').map((r) => r[1]));
  assert.ok(!existsSync(join(dir, 'pwned')));
  rmSync(join(dir, odd, '-x'));
  copyFileSync(join(dir, 'with-lines'), join(dir, odd, '-x'));
  const refused = await codeOf(other, 'main');
  assert.equal(refused.status, 400);
  assert.match(refused.text, /no file with the code .* build id is here/);
  await other.stop();
  const listed = await (await bare.ask('/api/v1/traces/1/table/functions?metric=space&match=stripped%2B')).json();
  assert.match((await codeOf(bare, listed.data[0][0])).text, /no symbol of .* says where the function/);
});

test('source: without lines it says what to do', async () => {
  const other = await browse();
  await other.goto(bare.url);
  await other.waitForSelector('.figures');
  await go(other, '#!/source?trace=2');
  await other.waitForSelector('.empty a');
  await soon(async () => assert.match(await other.textContent('.empty'), /heapwise ui --symbols/));
  await other.context().close();
});

test('source: only what symbols name, only source, only from where it may be', async () => {
  mkdirSync(join(sources, 'rel'), { recursive: true });
  writeFileSync(join(sources, 'rel/there.c'), 'int there;\n');
  writeFileSync(join(dir, 'outside.c'), 'int secret;\n');
  writeFileSync(join(dir, 'secret.key'), 'secret\n');
  writeFileSync(join(sources, 'binary.c'), Buffer.from([1, 0, 2]));
  writeFileSync(join(sources, 'huge.c'), Buffer.alloc(9 << 20, 32));
  symlinkSync(join(dir, 'outside.c'), join(sources, 'rel/leads-out.c'));
  symlinkSync(join(sources, 'rel/there.c'), join(sources, 'link.c'));
  mkdirSync(join(sources, 'folder.c'));
  execFileSync('mkfifo', [join(sources, 'pipe.c')]);
  const cases = [
    ['/etc/passwd', 400], [join(dir, 'secret.key'), 400], [`${sources}/../outside.c`, 400], ['rel/../../outside.c', 400], ['../outside.c', 400], ['..', 400],
    [join(dir, 'outside.c'), process.getuid() === 0 ? 404 : 200], [`${sources}/binary.c`, 400], [`${sources}/huge.c`, 400], [`${sources}/folder.c`, 404], [`${sources}/pipe.c`, 404],
    ['/build/elsewhere/rel/there.c', 200], ['rel/there.c', 200], ['rel/leads-out.c', 404], ['link.c', 404], [`${sources}/rel/there.c`, 200], ['/proc/self/environ', 400], ['/nowhere/x.c', 404], ['<script>.c', 404],
  ];
  const frames = (await server.sql(`select distinct f.rel_pc, m.build_id, m.name from stack_profile_frame f join stack_profile_mapping m on m.id = f.mapping where m.name like '%/grow'`, 2)).slice(0, 12);
  const evil = join(dir, 'evil.trace');
  const proto = join(here, '../../proto');
  // One trace for each group of as many cases as there are frames.
  const results = new Map();
  for (let from = 0; from < cases.length; from += frames.length) {
    const part = cases.slice(from, from + frames.length);
    const text = part.map(([file], i) => {
      const [pc, id, path] = frames[i];
      return `packet { module_symbols { path: "${path}" build_id: "${id.replace(/../g, '\\x$&')}" address_symbols { address: ${pc} lines { function_name: "f" source_file_name: "${file}" line_number: 1 } } } }`;
    }).join('\n');
    const bytes = execFileSync('protoc', [`-I${proto}`, '--encode=perfetto.protos.Trace', 'trace.proto', 'heapwise.proto', 'art.proto'], { cwd: proto, input: text });
    copyFileSync(trace, evil);
    appendFileSync(evil, bytes);
    const s = await serve('--sources', sources, evil);
    const named = (await s.sql('select distinct source_file from stack_profile_symbol')).map((r) => r[0]);
    for (const [file] of part) {
      assert.ok(named.includes(file), `${file} is named`);
      const r = await s.ask(`/api/v1/traces/1/source?file=${encodeURIComponent(file)}`);
      results.set(file, { status: r.status, text: await r.text() });
    }
    // Named by nobody.
    for (const file of ['/etc/hostname', join(dir, 'grow.c'), '', 'there.c'])
      assert.equal((await s.ask(`/api/v1/traces/1/source?file=${encodeURIComponent(file)}`)).status, 404, file);
    await s.stop();
  }
  for (const [file, status] of cases) assert.equal(results.get(file).status, status, `${file}: ${results.get(file).text}`);
  assert.equal(JSON.parse(results.get('/build/elsewhere/rel/there.c').text).text, 'int there;\n');
});

test('symbols: shares as SQL counts them, places in order, names read again', async () => {
  await at('symbols');
  const [[frames, lines]] = await server.sql('select count(*), sum(symbol_set_id is not null) from stack_profile_frame');
  const text = await page.textContent('.doc .figures');
  assert.ok(text.includes(`of ${frames} frames`), text);
  assert.ok(lines > 0);
  await page.click('.modules button:has-text("lines")');
  await page.waitForSelector('.tries li');
  await settled(page);
  const tries = await page.locator('.tries li').allTextContents();
  assert.match(tries[0], /\/lines ✓ fits/);
  assert.ok(tries.some((t) => /\.build-id\/[0-9a-f]{2}\/[0-9a-f]+\.debug not there/.test(t)), tries.join('\n'));
  assert.deepEqual(await looks(page, 'symbols'), []);
  // The other trace has no lines; its program lies elsewhere under another name.
  page = await browse();
  await page.goto(bare.url);
  await page.waitForSelector('.figures');
  await go(page, '#!/symbols?trace=1');
  await page.waitForSelector('.doc .figures');
  const [[few]] = await bare.sql('select count(symbol_set_id) from stack_profile_frame');
  mkdirSync(join(dir, 'store'));
  copyFileSync(join(dir, 'with-lines'), join(dir, 'store/any.debug'));
  await page.fill('.doc form input', join(dir, 'store'));
  await page.click('button:has-text("Read names again")');
  await page.waitForFunction(() => /trace=3/.test(location.hash));
  await page.waitForFunction(() => /\d frames/.test(document.querySelector('.doc .figures')?.textContent ?? ''));
  const [[named]] = await bare.sql('select count(symbol_set_id) from stack_profile_frame', 3);
  assert.ok(named > few + 5, `${few}, then ${named} frames with lines`);
  // What was found goes into a file of its own, which has the names elsewhere, too.
  const save = async (name, id = 3) => bare.ask(`/api/v1/traces/${id}/save?name=${encodeURIComponent(name)}`, { method: 'POST' });
  for (const name of ['', '../out.trace', `${dir}/out.trace`, '.hidden.trace', 'Makefile', '.trace', 'a\nb.trace', `${'x'.repeat(300)}.trace`])
    assert.equal((await save(name)).status, 400, name);
  assert.match(await (await save('out.trace', 2)).text(), /no names were found/);
  const before = readFileSync(join(dir, 'stripped.trace'));
  assert.match(await (await save('stripped.trace')).text(), /'stripped.trace' already exists/);
  symlinkSync(join(dir, 'led-here'), join(dir, 'link.trace'));
  assert.equal((await save('link.trace')).status, 400);
  assert.deepEqual(readFileSync(join(dir, 'stripped.trace')), before);
  await soon(async () => assert.equal(await page.inputValue('form.save input'), 'stripped-symbols.trace'));
  await page.click('button:has-text("Save trace with symbols")');
  await page.waitForSelector('.doc [role=status]:has-text("stripped-symbols.trace")');
  const saved = readFileSync(join(dir, 'stripped-symbols.trace'));
  assert.deepEqual(saved.subarray(0, before.length), before);
  // Stripped code, symbols apart: the instructions come from one, the range from the other.
  const apart = await codeOf(bare, 'load_table', 3);
  assert.deepEqual(apart.rows.map((r) => r[0]), byHand(join(dir, 'with-lines'), 'load_table').map((r) => r[0]));
  assert.match(apart.path, /stripped$/);
  assert.ok(apart.rows.every((r) => r[2].endsWith('grow.c') && r[3] > 0));
  const elsewhere = await serve(join(dir, 'stripped-symbols.trace'));
  const known = 'select f.rel_pc, m.name, s.name, s.source_file, s.line_number from stack_profile_frame f join stack_profile_mapping m on m.id = f.mapping left join stack_profile_symbol s on s.symbol_set_id = f.symbol_set_id order by 1, 2, 3, 4, 5';
  assert.deepEqual(await elsewhere.sql(known), await bare.sql(known, 3));
  await elsewhere.stop();
  await page.click('button:has-text("Save trace with symbols")');
  await page.waitForSelector('.doc .banner:has-text("already exists")');
  assert.deepEqual(page.problems, []);
  await page.context().close();
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures');
});

test('info: metadata, configuration, processes', async () => {
  await at('info');
  const text = await page.textContent('.doc');
  assert.match(text, /heapprofd_config/);
  assert.match(text, /heapwise \d/);
  const [[dumps]] = await server.sql('select count(*) from heap_profile');
  assert.match(await page.locator('.plain-table').last().textContent(), /libc\.malloc|heap/);
  assert.ok(dumps > 0);
  const recorded = /samples (\d+)/.exec(cli('stats', join(dir, 'lines.trace')))[1]; // all of them, not only what still lives
  const row = await page.locator('.plain-table:has(th:text-is("Samples")) tbody tr').first().locator('td').allTextContents();
  assert.equal(row[4].replace(/\D/g, ''), recorded);
  assert.deepEqual(await looks(page, 'info'), []);
});

test('settings are kept: theme, units, filters', async () => {
  await at('settings');
  assert.deepEqual(await looks(page, 'settings'), []);
  await page.click('[aria-label=Units] button:has-text("bytes")');
  await at('overview');
  const [[live]] = await server.sql('select sum(size) from heap_profile_allocation');
  await settled(page);
  assert.ok((await page.textContent('.figures')).includes(`${String(live).replace(/\B(?=(\d{3})+$)/g, '\u202f')} B`));
  await at('settings');
  await page.click('[aria-label=Units] button:has-text("KiB")');
  await page.fill('textarea', 'HS:load_table');
  await page.click('[aria-label=Theme] button:has-text("High contrast")');
  const other = await page.context().newPage();
  await other.goto(server.url);
  await other.waitForSelector('.figures');
  await other.waitForFunction(() => document.documentElement.dataset.theme === 'contrast');
  await other.evaluate(() => (location.hash = location.hash.replace('overview', 'flame')));
  await other.waitForSelector('.chip:has-text("HS:load_table")');
  await other.close();
  await page.click('button:has-text("Forget all of it")');
  await page.waitForSelector('[role=status]:has-text("is gone")');
  await until('the server keeps nothing', async () => (await (await server.ask('/api/v1/kept')).text()) === '');
  await page.reload();
  await page.waitForSelector('textarea');
  await settled(page);
  assert.equal(await page.inputValue('textarea'), '');
});

test('source looks', async () => {
  await go(page, '#!/source?trace=1');
  await page.waitForSelector('.code-row.has');
  assert.deepEqual(await looks(page, 'source'), []);
  assert.deepEqual(page.problems, []);
  assert.match(cli('report', trace), /load_table/);
});

test('a trace of managed heap graphs alone says what it holds', async () => {
  const proto = join(here, '../../proto');
  const text = readFileSync(join(here, '../golden/trace/graph/heap_graph.txt'));
  const made = execFileSync('protoc', [`-I${proto}`, '--encode=perfetto.protos.Trace', 'trace.proto', 'heapwise.proto', 'art.proto'], { cwd: proto, input: text });
  writeFileSync(join(dir, 'managed.trace'), made);
  const other = await serve(join(dir, 'managed.trace'));
  const [[processes, graphs]] = await other.sql('select count(distinct upid), count(distinct upid || \' \' || graph_sample_ts) from heap_graph_object');
  const tab = await browse();
  await tab.goto(other.url);
  await tab.waitForSelector('header .about');
  const n = (k, one, many) => `${k} ${k === 1 ? one : many}`;
  const about = ` · ${n(processes, 'process', 'processes')}, ${n(graphs, 'managed heap graph', 'managed heap graphs')}`;
  await soon(async () => assert.equal((await tab.textContent('header .about')).slice(-about.length), about));
});
