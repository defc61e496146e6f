// Tables and findings: their order, what a comparison is against, what is open or hidden.
import { ofTrace, text } from './fields';

export const FINDINGS = {
  sort: text(),
  base: text(), // of a comparison: the side compared with (sides.ts)
  mode: text(), // ... its figures: '', share, rate
  key: text(), // ... how functions are matched
  by: text(), // ... self or total
  all: text(), // ... what may be sampling noise is shown, too
  match: text(), // names that are looked for
  known: text(), // leaks that are left out, a line each
  sizes: text(), // a range of allocation sizes
  open: ofTrace(text()), // the open row, or the layout
};
