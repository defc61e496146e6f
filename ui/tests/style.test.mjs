// The design sheet (doc/design/page-style.md): contrast in all themes, colours that everybody can tell apart,
// sizes of the scale.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { changeFill } from '../src/graph/diff-fill';

const SRC = join(process.cwd(), 'src');
const css = readFileSync(join(SRC, 'style.css'), 'utf8');
const sheets = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.css'));

/** The tokens of a block. */
function tokens(head) {
  const at = css.indexOf(head);
  assert.ok(at >= 0, head);
  const block = css.slice(at + head.length, css.indexOf('}', at));
  return Object.fromEntries([...block.matchAll(/--([\w-]+): ([^;]+);/g)].map((m) => [m[1], m[2]]));
}
const THEMES = {
  light: tokens(':root {\n  color-scheme'),
  dark: tokens(":root[data-theme='dark'] {"),
  contrast: tokens(":root[data-theme='contrast'] {"),
};

/** 0 to 1, of #rrggbb and hsl(h s% l%). */
function rgb(text) {
  const hex = /^#(\w\w)(\w\w)(\w\w)$/.exec(text);
  if (hex) return hex.slice(1).map((x) => parseInt(x, 16) / 255);
  const [h, s, l] = /^hsl\(([\d.]+) ([\d.]+)% ([\d.]+)%\)$/.exec(text).slice(1).map(Number);
  const a = (s / 100) * Math.min(l / 100, 1 - l / 100);
  return [0, 8, 4].map((n) => {
    const k = (n + h / 30) % 12;
    return l / 100 - a * Math.max(-1, Math.min(k - 3, 9 - k, 1));
  });
}
const linear = (c) => c.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
const luminance = (c) => linear(c).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);

/** As WCAG 2 has it. */
function contrast(a, b) {
  const [x, y] = [luminance(rgb(a)), luminance(rgb(b))].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}

test('text has a contrast of 4.5 on every ground that it stands on', () => {
  const pairs = [
    ...['text', 'dim', 'accent', 'bad', 'note', 'blue', 'green', 'violet'].map((t) => [t, 'bg']),
    ...['text', 'dim', 'accent'].map((t) => [t, 'bg2']),
    ['text', 'bg3'],
    ['on-accent', 'accent'],
    ['accent', 'accent-bg'],
    ['bad', 'bad-bg'],
    ['note', 'note-bg'],
    ['frame-text', 'merged'],
  ];
  for (const [theme, t] of Object.entries(THEMES))
    for (const [text, ground] of pairs) {
      const c = contrast(t[text], t[ground]);
      assert.ok(c >= 4.5, `${theme}: --${text} on --${ground} has ${c.toFixed(2)}`);
    }
});

test('what has the focus, and the edges of controls in high contrast, have 3', () => {
  for (const [theme, t] of Object.entries(THEMES))
    assert.ok(contrast(t.focus, t.bg) >= 3, `${theme}: --focus`);
  assert.ok(contrast(THEMES.contrast.line, THEMES.contrast.bg) >= 3);
});

test('names can be read on every colour of a difference', () => {
  for (const [theme, dark] of [
    ['light', false],
    ['dark', true],
  ])
    for (const delta of [-1, -0.6, -0.2, 0, 0.2, 0.6, 1]) {
      const c = contrast(THEMES[theme]['frame-text'], changeFill(delta, 1, dark));
      assert.ok(c >= 4.5, `${theme}, change ${delta}: ${c.toFixed(2)}`);
    }
});

// Machado, Oliveira, Fernandes (2009), severity 1, in linear RGB.
const SEEN = {
  'all colours': [1, 0, 0, 0, 1, 0, 0, 0, 1],
  'no red': [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  'no green': [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  'no blue': [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

/** CIE L*a*b*, by D65. */
function lab(text, matrix) {
  const c = linear(rgb(text));
  const [r, g, b] = [0, 3, 6].map((i) =>
    Math.min(1, Math.max(0, matrix[i] * c[0] + matrix[i + 1] * c[1] + matrix[i + 2] * c[2])),
  );
  const f = (v) => (v > 0.008856 ? Math.cbrt(v) : 7.787 * v + 16 / 116);
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047);
  const y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
const apart = (a, b, matrix) => {
  const [x, y] = [lab(a, matrix), lab(b, matrix)];
  return Math.hypot(...x.map((v, i) => v - y[i]));
};

test('growth and shrinkage differ for everybody', () => {
  for (const [who, matrix] of Object.entries(SEEN))
    for (const dark of [false, true]) {
      const d = apart(changeFill(1, 1, dark), changeFill(-1, 1, dark), matrix);
      assert.ok(d >= 15, `${who}, ${dark ? 'dark' : 'light'}: ${d.toFixed(1)}`);
    }
});

test('the dark theme is the same by wish and by system', () => {
  assert.deepEqual(tokens(":root:not([data-theme='light']) {\n    color-scheme"), THEMES.dark);
});

test('letters have the sizes of the scale', () => {
  const scale = ['10px', '11px', '12px', '13px', '14px', '15px', '16px', '18px', '20px', '22px', '26px'];
  for (const f of sheets)
    for (const [, size] of readFileSync(join(SRC, f), 'utf8').matchAll(/font-size: ([^;]+);/g))
      assert.ok(scale.includes(size), `${f}: ${size}`);
});
