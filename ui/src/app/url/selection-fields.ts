// What is looked at: trace, processes, heap, moment, metric. Other pages show the same of it.
import { type Metric, METRICS, TEMPORARY } from '../format';
import { type Field, flag, number, numbers, ofTrace, text } from './fields';

const trace: Field<number> = { empty: 0, read: (t) => Math.max(0, Number(t) || 0) };
const upid: Field<number | null> = { empty: null, read: (t) => (/^\d+$/.test(t) ? Number(t) : null) };
const metric: Field<Metric> = {
  empty: 'space',
  read: (t) => [...METRICS, ...TEMPORARY].find((x) => x.id === t)?.id ?? 'space',
};
const frames: Field<'site' | 'all'> = { empty: 'site', read: (t) => (t === 'all' ? 'all' : 'site') };

export const SELECTION = {
  trace,
  upid: ofTrace(upid),
  with: ofTrace(numbers), // further processes, added to it
  heap: ofTrace(text()),
  at: ofTrace(text(/^(peak|\d+)$/)), // ns, "peak" or "" = the server's choice
  max: ofTrace(flag), // at is a recorded maximum
  from: ofTrace(number), // ns: begin of an interval
  metric,
  frames, // where stacks end: at the program's own code, or not
  collapse: flag, // direct recursion as one frame
};
