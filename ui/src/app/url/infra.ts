// MemoryInfra.
import { number, ofTrace, text, time } from './fields';

export const INFRA = {
  dump: ofTrace(time),
  since: ofTrace(time), // the dump compared with
  cell: ofTrace(text()), // "upid heap" of the details
  other: ofTrace(text(/^\d+ /)), // another cell that they are compared with,
  otherfile: ofTrace(number), // ... or another trace
  dims: text(/^(frames|types)$/), // by what they are broken down
  rule: text(/^(fraction|rows|all)$/), // what is small
  root: ofTrace(text()), // keys of places in them
  row: ofTrace(text()),
  order: text(), // of the table: "column+" rises, "column-" falls
};
