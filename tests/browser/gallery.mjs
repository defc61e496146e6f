// The gallery: every component in its states, in each theme, against gallery.json. Compared are computed colours, borders, sizes
// of letters, distances, and heights with a tolerance: fonts differ between machines, so pixels do not compare.
// HW_UPDATE=1 writes the reference anew; HW_SHOTS=dir keeps pictures of it.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { browse, dir, done, drawn, here } from './lib.mjs';

const ui = resolve(here, '../../ui');
const KEPT = join(here, 'gallery.json');
const THEMES = ['light', 'dark', 'contrast'];
const HEIGHT = 6; // pixels, of a line of text in another font
let page;

before(async () => {
  const { build } = await import(pathToFileURL(join(ui, 'node_modules/esbuild/lib/main.js')).href);
  const common = { bundle: true, write: false, nodePaths: [join(ui, 'node_modules')], target: 'es2022', logLevel: 'warning' };
  const js = await build({ ...common, entryPoints: [join(here, 'gallery.jsx')], format: 'iife', jsx: 'automatic', jsxImportSource: 'preact' });
  const css = await build({ ...common, entryPoints: [join(ui, 'src/style.css')] });
  const html = `<!doctype html><meta charset="utf-8"><style>${css.outputFiles[0].text}
    #app, body { height: auto; display: block } section { margin: 8px; width: 900px }</style><div id="app"></div>
    <script>${js.outputFiles[0].text.replaceAll('</script', '<\\/script')}</script>`;
  writeFileSync(join(dir, 'gallery.html'), html);
  page = await browse({ viewport: { width: 1000, height: 800 }, reducedMotion: 'reduce' });
  await page.goto(pathToFileURL(join(dir, 'gallery.html')).href);
  await page.waitForSelector('[data-name=legend]');
});
after(done);

/** What of the style is a decision of ours, by component and place in it. */
const measured = () => page.evaluate(() => {
  const KINDS = ['color', 'background-color', 'border-top-color', 'border-top-width', 'border-radius', 'font-size', 'font-weight', 'padding', 'margin', 'gap', 'display', 'opacity', 'fill', 'stroke', 'outline-style'];
  const out = {};
  for (const box of document.querySelectorAll('[data-name]'))
    [...box.querySelectorAll('*')].forEach((e, i) => {
      const s = getComputedStyle(e);
      const style = Object.fromEntries(KINDS.map((k) => [k, s.getPropertyValue(k)]));
      out[`${box.dataset.name} ${i} ${e.localName}`] = { ...style, height: Math.round(e.getBoundingClientRect().height) };
    });
  return out;
});

/** Values that most have are left out: the reference stays one that people can read. */
const USUAL = { 'background-color': 'rgba(0, 0, 0, 0)', 'border-top-width': '0px', 'border-radius': '0px', margin: '0px', padding: '0px', gap: 'normal', opacity: '1', fill: 'rgb(0, 0, 0)', stroke: 'none', 'font-weight': '400', 'outline-style': 'none' };
const short = (all) => Object.fromEntries(Object.entries(all).map(([k, v]) => [k, Object.fromEntries(Object.entries(v).filter(([p, x]) => USUAL[p] !== x && !(p === 'border-top-color' && v['border-top-width'] === '0px')))]));

async function look(theme) {
  await page.evaluate((t) => (document.documentElement.dataset.theme = t), theme);
  await drawn(page);
  if (process.env.HW_SHOTS) await page.screenshot({ path: join(process.env.HW_SHOTS, `gallery-${theme}.png`), fullPage: true });
  const found = await measured();
  // What is pointed at, and what has the focus.
  for (const [name, selector] of [['button', 'button'], ['link', 'a'], ['figure that leads', 'a'], ['text', 'input'], ['list', 'button']]) {
    const e = page.locator(`[data-name="${name}"] ${selector}`).first();
    for (const state of ['hover', 'focus']) {
      await e[state]();
      await drawn(page);
      for (const [k, v] of Object.entries(await measured())) if (k.startsWith(`${name} 0 `)) found[`${k}:${state}`] = v;
      await page.mouse.move(990, 2);
      await page.evaluate(() => document.activeElement?.blur());
    }
  }
  return short(found);
}

function differences(have, want, theme) {
  const out = [];
  for (const key of new Set([...Object.keys(have), ...Object.keys(want)])) {
    const [a, b] = [have[key], want[key]];
    if (!a || !b) out.push(`${theme}, ${key}: ${a ? 'is new' : 'is gone'}`);
    else
      for (const k of new Set([...Object.keys(a), ...Object.keys(b)]))
        if (k === 'height' ? Math.abs(a[k] - b[k]) > HEIGHT + b[k] / 10 : a[k] !== b[k]) out.push(`${theme}, ${key}: ${k} is ${a[k]}, was ${b[k]}`);
  }
  return out;
}

test('every component looks as it did, in every theme', async () => {
  await page.evaluate(() => window.openMenu());
  const have = {};
  for (const theme of THEMES) have[theme] = await look(theme);
  if (process.env.HW_UPDATE) writeFileSync(KEPT, `{${THEMES.map((t) => `\n"${t}": {\n${Object.entries(have[t]).map(([k, v]) => `${JSON.stringify(k)}: ${JSON.stringify(v)}`).join(',\n')}\n}`).join(',')}\n}\n`);
  const want = JSON.parse(readFileSync(KEPT, 'utf8'));
  const found = THEMES.flatMap((t) => differences(have[t], want[t], t));
  assert.deepEqual(found.slice(0, 20), [], 'HW_UPDATE=1 accepts what was meant');
  assert.ok(Object.keys(want.light).length > 60);
  assert.deepEqual(page.problems, []);
});

test('a control that is pointed at, has the focus or is pressed looks otherwise', async () => {
  const want = JSON.parse(readFileSync(KEPT, 'utf8'));
  for (const theme of THEMES) {
    const t = want[theme];
    assert.notDeepEqual(t['button 0 button:hover'], t['button 0 button'], theme);
    assert.notDeepEqual(t['button, pressed 0 button'], t['button 0 button'], theme);
    assert.notDeepEqual(t['button, not now 0 button'], t['button 0 button'], theme);
    assert.notDeepEqual(t['button, first choice 0 button'], t['button 0 button'], theme);
  }
});

test('in every component text has enough contrast', async () => {
  const { default: axe } = await import('axe-core');
  await page.evaluate(axe.source);
  for (const theme of THEMES) {
    await page.evaluate((t) => (document.documentElement.dataset.theme = t), theme);
    const r = await page.evaluate(() => window.axe.run(document.body, { runOnly: ['color-contrast'] }));
    assert.deepEqual(r.violations.flatMap((v) => v.nodes.map((n) => `${theme}: ${n.target} ${n.failureSummary}`)), []);
  }
});

test('a page that is loaded while it is drawn for the first time comes up', async () => {
  await page.evaluate(() => window.openLate());
  await page.waitForSelector('#late', { timeout: 5000 });
});
