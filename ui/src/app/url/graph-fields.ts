// How the graph of what is selected is drawn; the managed heap's graph has the same.
import { flag, ofTrace, text } from './fields';

export const GRAPH = {
  invert: flag,
  zoom: ofTrace(text()), // names from the root, joined by \u001f
  search: ofTrace(text()),
  fn: ofTrace(text()), // the function whose callers and callees, or instructions, are shown
  group: text(/^(module|owner|heap|process)$/), // by what the graph is cut below its root
  bottom: flag, // root at the bottom
};
