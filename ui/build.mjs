// Builds dist/: index.html, assets/NAME-HASH.js and .css, favicon.svg. `npm ci && npm run build`.
import { build } from 'esbuild';
import { mkdirSync, readFileSync, rmSync, writeFileSync, copyFileSync } from 'node:fs';
import { basename } from 'node:path';
import { gzipSync } from 'node:zlib';

rmSync('dist', { recursive: true, force: true });
mkdirSync('dist/assets', { recursive: true });
const result = await build({
  entryPoints: { main: 'src/main.tsx', style: 'src/style.css' },
  outdir: 'dist/assets',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  bundle: true,
  splitting: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  metafile: true,
  legalComments: 'none',
  logLevel: 'warning',
});
const outputs = Object.entries(result.metafile.outputs);
const entry = (source) => basename(outputs.find(([, o]) => o.entryPoint === source)[0]);
const html = readFileSync('src/index.html', 'utf8')
  .replace('{{script}}', `assets/${entry('src/main.tsx')}`)
  .replace('{{style}}', `assets/${entry('src/style.css')}`);
writeFileSync('dist/index.html', html);
copyFileSync('src/favicon.svg', 'dist/favicon.svg');
for (const [path] of outputs)
  console.log(`${path}: ${gzipSync(readFileSync(path), { level: 9 }).length} bytes packed`);
