// Builds dist/: index.html, assets/NAME-HASH.js and .css, favicon.svg. `npm ci && npm run build`.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync, copyFileSync } from 'node:fs';
import { basename } from 'node:path';
import { gzipSync } from 'node:zlib';

rmSync('dist', { recursive: true, force: true });
mkdirSync('dist/assets', { recursive: true });
const common = {
  bundle: true,
  minify: true,
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  logLevel: 'warning',
};
const result = await build({
  ...common,
  entryPoints: { main: 'src/main.tsx', style: 'src/style.css' },
  outdir: 'dist/assets',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  splitting: true,
  format: 'esm',
  metafile: true,
});
const outputs = Object.entries(result.metafile.outputs);
const entry = (source) => basename(outputs.find(([, o]) => o.entryPoint === source)[0]);
const html = readFileSync('src/index.html', 'utf8')
  .replace('{{script}}', `assets/${entry('src/main.tsx')}`)
  .replace('{{style}}', `assets/${entry('src/style.css')}`);
writeFileSync('dist/index.html', html);
copyFileSync('src/favicon.svg', 'dist/favicon.svg');

// The page that is saved as a file: one script, without the pages that only a server can answer.
const absent = {
  name: 'absent',
  setup(b) {
    const pages =
      /\/(record|sql|infra\/infra|graph\/functions|pages\/(home|fleet|sizes|source|symbols|info|settings))(\/|$)/;
    b.onResolve({ filter: pages }, ({ kind, path }) =>
      kind === 'dynamic-import' ? { path, namespace: 'absent' } : undefined,
    );
    b.onLoad({ filter: /.*/, namespace: 'absent' }, () => ({ contents: 'module.exports = {}' }));
  },
};
const saved = await build({
  ...common,
  entryPoints: { script: 'src/saved/saved-page.tsx', style: 'src/style.css' },
  outdir: 'dist',
  format: 'iife',
  write: false,
  plugins: [absent],
});
const [script, style] = ['.js', '.css'].map(
  (end) => saved.outputFiles.find((f) => f.path.endsWith(end)).text,
);
const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; style-src-attr 'unsafe-inline'; img-src blob: data:; base-uri 'none'; form-action 'none'`;
const parts = {
  policy: `<meta http-equiv="Content-Security-Policy" content="${policy}" />`,
  style: `<style>${style}</style>`,
  answers: '<script type="text/plain" id="answers">@ANSWERS@</script>', // src/server/api/saved/saved_page.c
  script: `<script>${script}</script>`,
};
const page = readFileSync('src/saved/saved-page.html', 'utf8').replace(
  /<!-- (\w+) -->/g,
  (_, name) => parts[name],
);
if (script.includes('</script') || style.includes('</style'))
  throw new Error('the saved page would end too early');
if (!Object.values(parts).every((part) => page.includes(part)))
  throw new Error('the saved page lacks a part');
writeFileSync('dist/saved.html', page);
console.log(`saved.html: ${page.length} bytes`);
for (const [path] of outputs)
  console.log(`${path}: ${gzipSync(readFileSync(path), { level: 9 }).length} bytes packed`);
