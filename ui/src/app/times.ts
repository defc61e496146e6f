// Times are nanoseconds, and numbers of JavaScript are exact up to 2^53 of them: 104 days after a machine's
// start. Beyond that the page draws with the rounded number, and names a moment by the digits that came.

const digits = new Map<number, string>();

/** Reads an answer's times; of two that round to one number the later is meant. */
export function readTimes(json: string): void {
  for (const [, text] of json.matchAll(/"(?:ts|start)":(-?\d{16,19})\b/g)) {
    const rounded = Number(text);
    const known = digits.get(rounded);
    if (!Number.isSafeInteger(rounded) && (known === undefined || BigInt(text) > BigInt(known)))
      digits.set(rounded, text);
  }
}

/** A time as the server knows it. */
export const ns = (time: number): string => digits.get(time) ?? String(time);

interface DumpTime {
  ts: number;
  for_peak?: boolean;
}

/** The dump before the last. One that was made only because most was live then is no base: what follows it is
 * the end. Several dumps may be made of nearly one moment (at an exit): the one before is clearly before. */
export function dumpBefore<M extends DumpTime>(moments: M[], start: number): M | undefined {
  const last = moments.at(-1);
  return last && moments.findLast((m) => !m.for_peak && last.ts - m.ts > (last.ts - start) / 100);
}

/** Dumps over which verdicts are found. */
export const dumpsOf = (moments: DumpTime[]): number => moments.filter((m) => !m.for_peak).length;
