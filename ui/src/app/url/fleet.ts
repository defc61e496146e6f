// Many machines.
import { text } from './fields';

export const FLEET = {
  fleet: text(), // conditions, joined by \u001f
  range: text(), // begin of the time
  before: text(), // its end
};
