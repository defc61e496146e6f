// Figures of a comparison, in the words of its mode: as they are, as shares, per second.
import { amount, base, isUnknown, safe } from '../app/format';
import { place } from '../app/state';

export type Figures = [
  a: number,
  b: number,
  change: number,
  error: number | null,
  significant: boolean,
  samplesA: number,
  samplesB: number,
];
export type Row = [name: string, module: string, ...Figures, callers: string[]];
export interface SideInfo {
  trace: number;
  file: string;
  upid: number;
  pid: number;
  name: string;
  program?: string;
  ts: number;
  interval: number;
  seconds: number;
}
export interface Table {
  a: SideInfo;
  b: SideInfo;
  same_run: boolean;
  total: Figures;
  rows: number;
  hidden: number;
  data: Row[];
}

export function figure(v: number): string {
  const p = place.value;
  if (p.mode === 'share') return `${(100 * v).toFixed(Math.abs(v) < 0.0995 ? 2 : 1)} %`;
  return amount(v, p.metric) + (p.mode === 'rate' ? '/s' : '');
}
export const sideWords = (s: SideInfo) =>
  `${safe(base(s.file))}${s.name ? ` · ${safe(base(s.name))} (${s.pid})` : ''}`;
export const points = (v: number) =>
  place.value.mode === 'share'
    ? `${(100 * Math.abs(v)).toFixed(Math.abs(v) < 0.0995 ? 2 : 1)} points`
    : figure(Math.abs(v));
export const change = (v: number) => `${v > 0 ? '+' : v < 0 ? '−' : ''}${points(v)}`;
export const plusMinus = (e: number | null) =>
  e === null || isUnknown(e) ? 'error unknown' : e > 0 ? `±${points(e)}` : '';

/** How a row changed. */
export function fate(a: number, b: number): string {
  return a <= 0 && b > 0 ? 'new' : b <= 0 && a > 0 ? 'gone' : b > a ? 'grew' : b < a ? 'shrank' : 'same';
}
