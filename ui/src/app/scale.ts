// Round values for the lines of a scale.
import { units } from './format';

const TENS = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const TWOS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/** The smallest round step of at least LEAST: powers of two where bytes are written in KiB, else of ten. */
function step(least: number, binary: boolean): number {
  const [list, power] = binary ? [TWOS, 1024] : [TENS, 1000];
  for (let unit = 1; ; unit *= power) {
    const k = list.find((r) => r * unit >= least);
    if (k) return k * unit;
  }
}

/** Round values above 0 and below MOST, at most N of them. */
export function marksBelow(most: number, n: number, isBytes = true): number[] {
  const by = step(Math.max(1, most / (n + 1)), isBytes && units.value === 'iec');
  const marks: number[] = [];
  for (let v = by; v < most && marks.length < n; v += by) marks.push(v);
  return marks;
}
