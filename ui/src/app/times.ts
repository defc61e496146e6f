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
