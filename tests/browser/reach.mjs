// Every page of every sample, as people come to it who have no mouse, no large screen, or no eyes for it: rules of accessibility (axe), names of
// controls, heads of tables, contrast in each theme, nothing beyond the edge. HW_LONG=1 looks at all sizes in all themes.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { axe, browse, done, drawn, go, here, long, serve, settled } from './lib.mjs';

const SIZES = { desk: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };
const THEMES = ['light', 'dark', 'contrast'];
let server, page, traces, native;

before(async () => {
  server = await serve('--demo', join(here, '../golden/memory_infra/cases/slices.json'));
  page = await browse({ viewport: SIZES.desk });
  await page.goto(server.url);
  await page.waitForSelector('nav.side .group a');
  traces = (await (await server.ask('/api/v1/status')).json()).traces;
  native = traces.find((t) => t.dumps > 3);
});
after(done);

/** What the page breaks of our own rules. */
const broken = () => page.evaluate(() => {
  const out = [];
  const seen = (e) => e.checkVisibility({ checkOpacity: false }) && e.getClientRects().length > 0;
  const words = (e) => (e.getAttribute('aria-label') || e.textContent || e.getAttribute('title') || '').trim();
  const byId = (ids) => (ids ?? '').split(' ').map((id) => document.getElementById(id)?.textContent ?? '').join(' ').trim();
  const tell = (e, what) => out.push(`${what}: ${e.outerHTML.slice(0, 140)}`);
  for (const e of document.querySelectorAll('button, a[href], input, select, textarea, summary, [tabindex="0"]')) {
    if (!seen(e) || e.type === 'hidden') continue;
    const name = byId(e.getAttribute('aria-labelledby')) || (/^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName) ? e.getAttribute('aria-label') || [...(e.labels ?? [])].map((l) => l.textContent).join('') : words(e));
    if (!name.trim()) tell(e, 'no name');
  }
  for (const t of document.querySelectorAll('table')) {
    if (!seen(t)) continue;
    const heads = [...t.querySelectorAll('th')];
    if (!heads.length) tell(t, 'no heads');
    for (const th of heads) if (!th.getAttribute('scope')) tell(th, 'no scope');
  }
  // What is cut at the right edge, and not in a box that is scrolled.
  const main = document.getElementById('main');
  if (main.scrollWidth > main.clientWidth) out.push(`${main.scrollWidth - main.clientWidth} px too wide`);
  if (document.documentElement.scrollWidth > innerWidth) out.push('the window is scrolled sideways');
  const scrolls = (e) => { for (let p = e; p && p !== main; p = p.parentElement) if (/auto|scroll|hidden|clip/.test(getComputedStyle(p).overflowX)) return true; return false; };
  for (const e of main.querySelectorAll('button, a, td, th, h1, h2, p, dd, input, select')) {
    const r = e.getBoundingClientRect();
    if (seen(e) && r.right > innerWidth + 1 && !scrolls(e)) tell(e, 'beyond the edge');
  }
  // Fixed and absolute boxes that stand outside of the window.
  for (const e of document.querySelectorAll('.menu, .tip, .popover'))
    if (seen(e) && (e.getBoundingClientRect().right > innerWidth || e.getBoundingClientRect().left < 0)) tell(e, 'outside of the window');
  return [...new Set(out)];
});

async function look(label) {
  const found = [...(await axe(page)), ...(await broken())];
  if (process.env.HW_SHOTS) await page.screenshot({ path: join(process.env.HW_SHOTS, `${label}.png`) });
  return found.map((x) => `${label}: ${x}`);
}

test('every page of every sample', async () => {
  const all = [];
  const done = new Set();
  for (const t of traces) {
    await go(page, `#!/?trace=${t.id}`);
    await go(page, `#!/info?trace=${t.id}`);
    await settled(page);
    const names = await page.$$eval('nav.side .group a', (list) => list.map((a) => /#!\/([\w-]*)/.exec(a.getAttribute('href'))[1]));
    for (const name of names) {
      // Pages that are about no trace are the same for each.
      if (/^(|record|live|memory-internals|settings)$/.test(name) && done.has(name)) continue;
      for (const [size, viewport] of Object.entries(SIZES))
        for (const theme of THEMES) {
          const short = size === 'desk' ? 'light' : done.has(name) ? 'contrast' : 'dark';
          if (!long && theme !== short) continue;
          await page.setViewportSize(viewport);
          await go(page, `#!/${name}?trace=${t.id}&theme=${theme}`);
          await settled(page);
          all.push(...(await look(`${name || 'home'}-${t.id}-${size}-${theme}`)));
        }
      done.add(name);
    }
  }
  assert.ok(done.size >= 18, [...done].join(' '));
  assert.deepEqual(all, []);
  assert.deepEqual(page.problems, []);
});

test('? lists the keys, on every page, and gives the focus back', async () => {
  await page.setViewportSize(SIZES.desk);
  await go(page, `#!/flame?trace=${native.id}&theme=dark`);
  await settled(page);
  await page.locator('.flame canvas').first().focus();
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open]');
  const keys = await page.locator('dialog kbd').allTextContents();
  for (const k of ['?', 'Ctrl+K', '/', 'Enter · Esc', 'Space']) assert.ok(keys.includes(k), k);
  assert.deepEqual(await look('help'), []);
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'hidden' });
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'CANVAS');
});

test('nothing moves for who wants less motion', async () => {
  await page.emulateMedia({ reducedMotion: 'reduce' });
  const moving = await page.evaluate(() => [...document.styleSheets].flatMap((s) => [...s.cssRules]).flatMap(function rules(r) {
    if (r.media && !matchMedia(r.media.mediaText).matches) return [];
    return r.cssRules ? [r, ...[...r.cssRules].flatMap(rules)] : [r];
  }).filter((r) => r.style && (/[1-9]/.test(r.style.transitionDuration) || (r.style.animationName && r.style.animationName !== 'none'))).map((r) => r.cssText));
  assert.deepEqual(moving, []);
  await page.emulateMedia({ reducedMotion: 'no-preference' });
});

test('menus on a touch screen have their figures: nothing is shown to a pointer only', async () => {
  const touch = await browse({ viewport: SIZES.phone, hasTouch: true, isMobile: true });
  await touch.goto(server.url);
  await touch.waitForSelector('nav.side .group a');
  await go(touch, `#!/flame?trace=${native.id}`);
  await settled(touch);
  const box = await touch.locator('.flame canvas').first().boundingBox();
  await touch.touchscreen.tap(box.x + 40, box.y + 70);
  await touch.waitForSelector('.frame-panel:not(.idle)');
  const text = await touch.textContent('.frame-panel');
  assert.match(text, /Total[\d.]+ [KM]iB.*Own.*Share[\d.]+ %/s);
  await touch.locator('.frame-panel button:text-is("Menu")').tap();
  await touch.waitForSelector('[role=menu]');
  const menu = await touch.locator('[role=menu]').boundingBox();
  assert.ok(menu.x >= 0 && menu.x + menu.width <= 390 && menu.y >= 0 && menu.y + menu.height <= 844, JSON.stringify(menu));
  await touch.keyboard.press('Escape');
  await go(touch, `#!/overview?trace=${native.id}`);
  await settled(touch);
  assert.equal(await touch.locator('.sql-link').first().evaluate((e) => getComputedStyle(e).opacity), '1');
  await go(touch, `#!/timeline?trace=${native.id}`);
  await settled(touch);
  assert.equal(await touch.locator('.pin').first().evaluate((e) => getComputedStyle(e).opacity), '1');
  assert.deepEqual(touch.problems, []);
  await touch.context().close();
});

test('Ctrl+K leads to the line above from any field, and back', async () => {
  await go(page, `#!/functions?trace=${native.id}`);
  await settled(page);
  await page.focus('input[aria-label="Find functions"]');
  await page.keyboard.press('Control+k');
  await page.waitForFunction(() => document.activeElement.matches('.omnibox input'));
  await page.keyboard.press('Escape');
  await go(page, `#!/query?trace=${native.id}`);
  await settled(page);
  await page.locator('.sql-editor, .cm-editor, .editor').first().waitFor();
  await page.evaluate(() => { // the editor lives in a shadow root
    for (const e of document.querySelectorAll('*')) e.shadowRoot?.querySelector('.cm-content')?.focus();
  });
  await page.keyboard.press('Control+k');
  await page.waitForFunction(() => document.activeElement.matches('.omnibox input'));
  await page.keyboard.press('Escape');
  await drawn(page);
});

// ---- what was once seen to be wrong ----

const to = async (name, viewport, query = '') => {
  await page.setViewportSize(viewport);
  await go(page, `#!/${name}?trace=${native.id}${query}`);
  await settled(page);
};
const tops = (selector) => page.$$eval(selector, (all) => new Set(all.filter((e) => e.getClientRects().length).map((e) => Math.round((e.getBoundingClientRect().top + e.getBoundingClientRect().bottom) / 8))).size);

test('toolbars: nothing stands alone in a second line', async () => {
  await to('overview', SIZES.phone);
  assert.equal(await tops('header > :not(.omnibox, .grow)'), 1, 'the line at the top of a phone');
  for (const name of ['diff', 'flame', 'timeline', 'tree']) {
    await to(name, SIZES.desk);
    const lone = await page.$$eval('main .bar', (bars) => bars.flatMap((bar) => {
      const lines = new Map();
      for (const e of bar.children) if (e.getClientRects().length && e.getBoundingClientRect().width) {
        const at = Math.round((e.getBoundingClientRect().top + e.getBoundingClientRect().bottom) / 8);
        lines.set(at, [...(lines.get(at) ?? []), e.textContent.slice(0, 30)]);
      }
      return [...lines.values()].slice(1).filter((l) => l.length === 1 && lines.size > 1).flat();
    }));
    assert.deepEqual(lone, [], name);
  }
});

test('times have at least two labels, also on a phone', async () => {
  for (const name of ['overview', 'timeline']) {
    await to(name, SIZES.phone);
    const labels = await page.$$eval('.ruler span', (all) => all.map((e) => [e.getBoundingClientRect().left, e.getBoundingClientRect().right]));
    assert.ok(labels.length >= 2, `${name}: ${labels.length}`);
    for (let i = 1; i < labels.length; i++) assert.ok(labels[i][0] >= labels[i - 1][1], `${name}: labels overlap`);
  }
});

test('columns: heads stand over them, and those that matter are in sight', async () => {
  await to('accounting', SIZES.desk);
  const tables = await page.$$eval('main table', (all) => all.map((t) => {
    const edges = (row) => [...row.cells].map((c) => Math.round(c.getBoundingClientRect().left));
    return { name: t.className, head: edges(t.tHead.rows[0]), body: edges(t.tBodies[0].rows[0]) };
  }));
  assert.ok(tables.length > 1);
  for (const t of tables) assert.deepEqual(t.head, t.body, t.name);
  for (const size of ['desk', 'phone']) {
    await to('overview', SIZES[size]); // a table that stands keeps its columns
    await to('functions', SIZES[size]);
    const seen = await page.$eval('.grid', (g) => [...g.querySelectorAll('.grid-head button')].filter((b) => b.getBoundingClientRect().right <= g.getBoundingClientRect().right + 1).map((b) => b.textContent.replace(/\W/g, '')));
    for (const name of ['Function', 'Self', 'Total', ...(size === 'desk' ? ['Error', 'Count', 'Each'] : [])]) assert.ok(seen.includes(name), `${size}: ${seen}`);
  }
  await page.click('button:has-text("hidden")'); // the others are a tap away
  await page.waitForFunction(() => document.querySelectorAll('.grid-head [role=columnheader]').length === 7);
});

test('cards on a phone begin with what they are about', async () => {
  await to('accounting', SIZES.phone);
  const first = await page.$$eval('.waterfall tbody tr', (rows) => rows.map((r) => [...r.cells].filter((c) => c.getClientRects().length).sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0].dataset.name));
  assert.deepEqual([...new Set(first)], ['Step']);
  const bar = await page.$eval('.waterfall .fall', (e) => e.getBoundingClientRect().width);
  assert.ok(bar > 150, `${bar} px for the bars`);
  await to('symbols', SIZES.phone);
  assert.equal(await page.$eval('.modules tbody tr', (r) => [...r.cells].filter((c) => c.getClientRects().length).sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0].dataset.name), 'Module');
});

test('labels below bars do not run into each other', async () => {
  await to('sizes', SIZES.phone);
  const boxes = await page.$$eval('.histogram', (all) => all.map((h) => [...h.querySelectorAll('em')].filter((e) => getComputedStyle(e).visibility === 'visible').map((e) => [e.getBoundingClientRect().left, e.getBoundingClientRect().right])));
  for (const list of boxes) for (let i = 1; i < list.length; i++) assert.ok(list[i][0] >= list[i - 1][1] - 1, JSON.stringify(list));
});
