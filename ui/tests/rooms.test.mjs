// The drawing of ui/src: which folder may import from which, and no circles between files. Types are free.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { test } from 'node:test';

const SRC = join(process.cwd(), 'src');
const MAY = {
  app: [],
  parts: ['app', 'graph/graph'],
  graph: ['app', 'parts'],
  heap: ['app', 'parts', 'graph'],
  infra: ['app', 'parts', 'graph'],
  timeline: ['app', 'parts', 'graph', 'heap', 'infra'],
  record: ['app', 'parts', 'graph', 'timeline'],
  sql: ['app', 'parts', 'graph', 'timeline'],
  pages: ['app', 'parts', 'graph', 'timeline'],
  frame: ['app', 'parts', 'graph', 'heap', 'infra', 'timeline', 'record', 'sql', 'pages'],
  saved: ['app', 'graph', 'pages', 'frame'],
};

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((f) => /\.tsx?$/.test(f));
const nameOf = (f) => f.replace(/\.tsx?$/, '');
const imports = (f) =>
  [
    ...readFileSync(join(SRC, f), 'utf8').matchAll(
      /^import (?!type )[^;]*?from '(\.[^']+)'|import\('(\.[^']+)'\)/gms,
    ),
  ].map((m) => relative('.', normalize(join(dirname(f), m[1] ?? m[2]))));

test('a folder imports from those below it only', () => {
  for (const f of files.filter((x) => x.includes('/'))) {
    const room = f.split('/')[0];
    assert.ok(MAY[room], `${room}/ has no row here`);
    for (const to of imports(f)) {
      const other = to.split('/')[0];
      assert.ok(other === room || MAY[room].includes(other) || MAY[room].includes(to), `${f} imports ${to}`);
    }
  }
});

test('no file imports itself by way of others', () => {
  const of = new Map(files.map((f) => [nameOf(f), imports(f)]));
  const done = new Set();
  const walk = (name, above) => {
    assert.ok(!above.includes(name), `${[...above, name].join(' > ')}`);
    if (done.has(name)) return;
    for (const next of of.get(name) ?? []) walk(next, [...above, name]);
    done.add(name);
  };
  for (const name of of.keys()) walk(name, []);
});

test('no room with more than thirty files', () => {
  for (const room of Object.keys(MAY))
    assert.ok(files.filter((f) => f.startsWith(`${room}/`)).length <= 30, room);
});
