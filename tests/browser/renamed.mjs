// A program that is a link to a file of another name goes by what it was started as.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browse, cli, dir, done, part, serve, settled, visit } from './lib.mjs';

const SOURCE = `
#include <stdlib.h>
#include <unistd.h>
void *volatile kept[64];
__attribute__((noinline)) static void without_a_name(int i) { kept[i] = malloc(100000); }
__attribute__((noinline)) void with_a_name(int i) { kept[i] = malloc(50000); }
int main(void) { for (int i = 0; i < 60; i += 2) { without_a_name(i); with_a_name(i + 1); usleep(20000); } return 0; }
`;
let server, page, nameless;

before(async () => {
  const run = (cmd, ...args) => assert.equal(spawnSync(cmd, args, { cwd: dir }).status, 0, cmd);
  writeFileSync(join(dir, 'renamed.c'), SOURCE);
  run('cc', '-O1', '-rdynamic', '-o', 'check-rdb', 'renamed.c');
  run('strip', 'check-rdb');
  symlinkSync('check-rdb', join(dir, 'server'));
  cli('record', '-q', '-i', '1', '-c', '100ms', '-o', 'renamed.trace', '--', './server');
  server = await serve(join(dir, 'renamed.trace'));
  page = await browse();
  await page.goto(server.url);
  await page.waitForSelector('.figures');
  const { data } = await (await server.ask('/api/v1/traces/1/table/functions?sort=self')).json();
  nameless = data[0][0];
});
after(done);

const main = () => page.textContent('main');

test('lists: the program has no module beside its functions, and never the file as name', async () => {
  assert.match(nameless, /^server\+0x/);
  for (const name of ['overview', 'tree', 'leaks', 'sizes', 'functions', 'flame', 'diff']) {
    await visit(page, name, '&all=1');
    await settled(page);
    const text = await main();
    assert.ok(!text.includes('check-rdb'), `${name}: ${text}`);
    if (name === 'tree') await page.keyboard.press('e');
  }
  for (const [name, cell] of [['overview', 'td:has(a)'], ['sizes', 'td.site'], ['leaks', 'td.site']]) {
    await visit(page, name);
    await settled(page);
    const beside = await page.locator(`${cell}:has-text("with_a_name") > .dim`).first().textContent();
    assert.equal(beside.trim(), '', name);
  }
  await visit(page, 'functions');
  const row = page.locator('.grid-body [role=row]:has-text("with_a_name")').first();
  assert.match(await row.textContent(), /with_a_name.*server/);
});

test('filters and SQL of what is shown find it', async () => {
  await visit(page, 'functions');
  await page.click(`[aria-label="Menu of ${nameless}"]`);
  await page.click('[role=menuitem]:has-text("Keep stacks in this module")');
  await page.waitForFunction(() => location.hash.includes('f='));
  await settled(page);
  assert.ok((await main()).includes('with_a_name'));
  await visit(page, 'functions');
  await page.click(`[aria-label="Menu of ${nameless}"]`);
  await page.click('[role=menuitem]:has-text("SQL for this function")');
  await page.waitForFunction(() => location.hash.startsWith('#!/query'));
  const query = await part(page, 'sql', Boolean);
  const rows = await server.sql(query);
  assert.equal(rows.length, 1);
  assert.equal(rows[0][2], 3000000);
  await visit(page, 'flame', `&f=${encodeURIComponent(`SS:"${nameless}"`)}`);
  await settled(page);
  assert.ok(!/leave nothing|Nothing is/.test(await main()), await main());
  assert.deepEqual(page.problems, []);
});
