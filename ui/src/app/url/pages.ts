// What single pages keep, and the theme.
import { numbers, ofTrace, text } from './fields';

export const PAGE_FIELDS = {
  theme: text(/^(light|dark|contrast)$/),
  sql: ofTrace(text()), // the query of the SQL page
  file: ofTrace(text()), // of the Source page
  line: ofTrace(text()),
  view: ofTrace(text()), // '' = source, code = instructions
  form: text(), // of the Record page
  marks: numbers, // times on the timeline, in ns
  pins: ofTrace(text(/^\d+(\.\w+)?(,\d+(\.\w+)?)*$/)), // ... tracks that stay on top
  who: text(/^(self|total)$/), // ... the functions that held most over time: of themselves, with what they called
};
