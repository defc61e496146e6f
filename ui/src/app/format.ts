// Numbers, times and names as people read them. Names come from traces: control and direction
// characters are made visible before they reach the screen.
import { signal } from '@preact/signals';
import { remembered } from './store';

export type UsualMetric = 'space' | 'objects' | 'alloc_space' | 'alloc_objects';
export type TemporaryMetric = 'temporary_space' | 'temporary_objects';
export type Metric = UsualMetric | TemporaryMetric;

export const METRICS: { id: UsualMetric; label: string; hint: string }[] = [
  { id: 'space', label: 'Live size', hint: 'bytes allocated and not yet freed' },
  { id: 'objects', label: 'Live count', hint: 'allocations not yet freed' },
  { id: 'alloc_space', label: 'Total size', hint: 'bytes ever allocated, freed ones included' },
  { id: 'alloc_objects', label: 'Total count', hint: 'allocations ever made, freed ones included' },
];

/** Of profiles that know them. */
export const TEMPORARY: { id: TemporaryMetric; label: string; hint: string }[] = [
  {
    id: 'temporary_space',
    label: 'Temporary size',
    hint: 'bytes freed again within a second of their allocation',
  },
  {
    id: 'temporary_objects',
    label: 'Temporary count',
    hint: 'allocations freed again within a second',
  },
];

export const isBytes = (m: Metric) => m.endsWith('space');
export const isLive = (m: Metric) => m === 'space' || m === 'objects';
export const isTemporary = (m: Metric): m is TemporaryMetric => m.startsWith('temporary');
/** What a page shows that has no temporary allocations. */
export const usual = (m: Metric): UsualMetric =>
  m === 'temporary_space' ? 'alloc_space' : m === 'temporary_objects' ? 'alloc_objects' : m;

export type Units = 'iec' | 'si' | 'raw';
export const UNITS_CHOICES: { id: Units; label: string; hint: string }[] = [
  { id: 'iec', label: 'KiB, MiB', hint: 'powers of 1024' },
  { id: 'si', label: 'kB, MB', hint: 'powers of 1000' },
  { id: 'raw', label: 'bytes', hint: 'exact figures' },
];
const rememberedUnits = (): Units =>
  UNITS_CHOICES.find((u) => u.id === remembered<string[]>('units', [])[0])?.id ?? 'iec';
export const units = signal<Units>(rememberedUnits());
/** Again, when what was kept has come. */
export const takeUnits = () => (units.value = rememberedUnits());

const NAMES: Record<Units, string[]> = {
  iec: ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'],
  si: ['B', 'kB', 'MB', 'GB', 'TB', 'PB'],
  raw: ['B'],
};

export function bytes(v: number): string {
  const sign = v < 0 ? '−' : '';
  let x = Math.abs(v);
  let u = 0;
  const names = NAMES[units.value];
  const step = units.value === 'si' ? 1000 : 1024;
  while (x >= step - 0.5 && u < names.length - 1) {
    x /= step;
    u++;
  }
  return `${sign}${u === 0 ? exact(x) : three(x)} ${names[u]}`;
}

function three(x: number): string {
  return x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2);
}

/** Narrow spaces at which no line ends. */
export const exact = (v: number) => Math.round(v).toLocaleString('en-US').replace(/,/g, '\u202f');

export function count(v: number): string {
  const x = Math.abs(v);
  const sign = v < 0 ? '−' : '';
  if (x >= 999.5e6) return `${sign}${three(x / 1e9)} G`;
  if (x >= 999.5e3) return `${sign}${three(x / 1e6)} M`;
  return sign + exact(x);
}

/** 1 dump, 2 dumps. */
export const of = (n: number, one: string, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export const amount = (v: number, m: Metric) => (isBytes(m) ? bytes(v) : count(v));

/** Nobody knows the error: infinite, which is null in JSON. */
export const isUnknown = (err: number | null): boolean => err === null || err === Infinity;

/** ± two standard errors; nothing if the figure is exact. */
export function error(err: number | null, total: number): string {
  if (err === null || isUnknown(err)) return total > 0 ? 'error unknown' : '';
  if (!(err > 0) || !(total > 0)) return '';
  const p = (100 * err) / total;
  if (p >= 10000) return '±>999 %';
  if (p < 0.05) return '±<0.1 %';
  return `±${p >= 9.95 ? p.toFixed(0) : p.toFixed(1)} %`;
}

/** The error, or why there is none: files of other tools do not say how they sampled. */
export const certainty = (err: number | null, total: number, interval: number): string =>
  error(err, total) || (interval > 0 ? 'exact' : 'error unknown');

/** So few samples, and so large an error, that the figure is a hint, not a measurement. Blocks above the
 * interval are always sampled: a few of them can be precise. */
export const isRough = (samples: number, err: number | null, total: number) =>
  samples < 10 && (err === null || err > 0.1 * total);

/** Labels of a scale: round values without decimals. */
export const round = (v: number) => bytes(v).replace(/\.0+ /, ' ');

/** How much more or less B is than A: "+12.5 %", "×1638" when it is many times as much. */
export function growth(a: number, b: number): string {
  if (!(a > 0)) return '';
  if (b >= 10 * a) return `×${b < 99.5 * a ? (b / a).toFixed(1) : count(b / a)}`;
  return `${b >= a ? '+' : '−'}${percent(Math.abs(b - a), a)}`;
}

export function percent(part: number, whole: number): string {
  if (!(whole > 0)) return '–';
  const p = (100 * part) / whole;
  return p !== 0 && p < 0.05 ? '<0.1 %' : `${p.toFixed(1)} %`;
}

export function duration(ns: number): string {
  const s = ns / 1e9;
  if (s < 1) return `${(s * 1000).toFixed(s < 0.01 ? 2 : 0)} ms`;
  if (s < 60) return `${s.toFixed(s < 10 ? 2 : 1)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} m ${Math.floor(s % 60)} s`;
  return `${Math.floor(m / 60)} h ${m % 60} m`;
}

/** Time since the start of the trace; `apart`: the distance between two such times, which are to differ. */
export function clock(ns: number, apart = Infinity): string {
  const s = Math.max(0, ns) / 1e9;
  const m = Math.floor(s / 60);
  const digits = Math.max(s < 600 ? 2 : 1, Math.min(9, Math.ceil(9 - Math.log10(apart))));
  return `${String(m).padStart(2, '0')}:${(s - 60 * m).toFixed(digits).padStart(digits + 3, '0')}`;
}

// C0, DEL, C1, marks of direction, invisible joiners, line and paragraph separators.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function safe(text: string): string {
  return text.replace(UNSEEN, (c) => {
    const v = c.codePointAt(0)!;
    return v < 0x100 ? `\\x${v.toString(16).padStart(2, '0')}` : `\\u${v.toString(16).padStart(4, '0')}`;
  });
}

export const base = (path: string) => path.slice(path.lastIndexOf('/') + 1);

/** Shown next to a function in a list: its module, except for the program's own functions. */
export const besides = (module: string, of: { program?: string }) =>
  module === of.program ? '' : base(module);

/** Truncated in the middle; the last part of the name says most. */
export function fit(name: string, chars: number): string {
  if (name.length <= chars) return name;
  if (chars < 4) return name.slice(0, Math.max(0, chars));
  const tail = Math.ceil((chars - 1) * 0.6);
  return `${name.slice(0, chars - 1 - tail)}…${name.slice(name.length - tail)}`;
}
