// Unit tests of the page: each file of tests/, bundled as the page is, run by Node's own runner.
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const names = readdirSync(join(here, 'tests')).filter((n) => n.endsWith('.test.mjs'));
const out = mkdtempSync(join(tmpdir(), 'heapwise-ui-'));
try {
  await build({
    entryPoints: names.map((n) => join(here, 'tests', n)),
    outdir: out,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    absWorkingDir: here,
    logLevel: 'warning',
  });
  const r = spawnSync(process.execPath, ['--test', ...names.map((n) => join(out, n))], { stdio: 'inherit' });
  process.exitCode = r.status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
