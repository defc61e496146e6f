// The managed heap.
import { flag, number, numbers, ofTrace, text } from './fields';

export const HEAP = {
  tab: ofTrace(text()),
  graph: ofTrace(number), // the dump, in ns
  heapmetric: text(/^(object|dominated)_(size|count)$/),
  objs: ofTrace(numbers), // objects with a tab of their own
  cls: ofTrace(text()), // conditions on objects: class,
  only: ofTrace(text()), // ... root, heap, reachability, or same contents
  of: ofTrace(number), // the object whose dominated ones are listed
  cut: ofTrace(text(/^[ro]\d+(,[ro]\d+)*$/)), // references and roots that the release simulation cuts
  against: ofTrace(text()), // the dump compared with
  anyway: ofTrace(flag), // an incomplete dump is shown
};
