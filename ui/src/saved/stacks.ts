// The stacks of a graph that the file holds: what was asked for at each of its nodes. Graphs that the file
// does not hold are made of them (tree.ts), as views/flame makes them of callstacks.
import { GROUP, type Graph, MERGED, moduleOf, nameOf } from '../graph/graph';

const OF_FUNCTION = 0xff & ~(MERGED | GROUP | 16 | 32);

export interface Fn {
  name: string;
  module: string;
  flags: number;
}

/** Functions by number, in the order in which they are met. */
export class Functions {
  readonly all: Fn[] = [];
  private readonly number = new Map<string, number>();

  /** key: what is the same function; else its name and module. */
  of(name: string, module: string, flags: number, key = `${name}\0${module}`): number {
    let n = this.number.get(key);
    if (n === undefined) {
      this.number.set(key, (n = this.all.length));
      this.all.push({ name, module, flags });
    }
    return n;
  }
}

export interface Stack {
  path: number[]; // functions, the root's first
  value: number;
  samples: number;
  e2: number; // the square of its error
}

/** A graph that the file has without its small parts, or with an error that its stacks do not share out,
 * gives no others. */
export class NotWhole extends Error {}

const NAME = (name: string, module: string) => `${name}\0${module}`;

const ROUNDED = 1e-12; // share of a square: what sums of numbers may be off

/** By number of its nodes: what stands there and not at one of its children. */
function selves(g: Graph): { samples: Float64Array; e2: Float64Array } {
  const samples = Float64Array.from(g.samples);
  const e2 = Float64Array.from(g.err, (e) => e * e);
  const below = new Float64Array(g.n);
  for (let i = g.n - 1; i > 0; i--) {
    const p = g.parent[i];
    samples[p] -= g.samples[i];
    below[p] += g.err[i] * g.err[i];
  }
  for (let i = 0; i < g.n; i++) {
    const whole = e2[i];
    if (whole === Infinity) {
      if (below[i] === Infinity) e2[i] = 0; // unknown because of what is below
      continue;
    }
    e2[i] = Math.max(0, whole - below[i]);
    if (e2[i] <= ROUNDED * whole) e2[i] = 0;
    // What is more has another source than the stacks.
    if (g.self[i] <= 0 && e2[i] > 0.01 * whole) throw new NotWhole();
  }
  return { samples, e2 };
}

export function stacksOf(
  g: Graph,
  fns: Functions,
  key: (name: string, module: string) => string = NAME,
): Stack[] {
  if (g.flags.some((f) => f & MERGED)) throw new NotWhole();
  const own = selves(g);
  const of = new Int32Array(g.n);
  for (let i = 1; i < g.n; i++) {
    const [name, module] = [nameOf(g, i), moduleOf(g, i)];
    of[i] = fns.of(name, module, g.flags[i] & OF_FUNCTION, key(name, module));
  }
  const stacks: Stack[] = [];
  for (let i = 0; i < g.n; i++) {
    if (g.self[i] <= 0) continue;
    const path: number[] = [];
    for (let k = i; k > 0; k = g.parent[k]) path.push(of[k]);
    stacks.push({ path: path.reverse(), value: g.self[i], samples: own.samples[i], e2: own.e2[i] });
  }
  return stacks;
}
