// What the views of a result share: which column is in bytes, numbers in few characters. Pure.
import { bytes } from '../app/format';
import type { Cell } from '../parts/cells';

export const COLOURS = ['--accent', '--blue', '--green', '--violet', '--bad', '--note'];
export const isBytesName = (n: string) =>
  /(^|_)(size|space|bytes|rss|resident|total|self|live|freed)$/.test(n);
export const number = (v: Cell) => (v === null || v === '' ? NaN : Number(v));
export const short = (v: number, inBytes: boolean) =>
  inBytes
    ? bytes(v)
    : Math.abs(v) >= 1e15 || (v !== 0 && Math.abs(v) < 1e-3)
      ? v.toExponential(2)
      : Number(v.toPrecision(4)).toLocaleString('en-US');
