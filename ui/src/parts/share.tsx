// A part of a whole as a bar with its percentage.
import { percent } from '../app/format';

export const Share = ({ part, whole, rough }: { part: number; whole: number; rough?: boolean }) => (
  <span class={`share ${rough ? 'rough' : ''}`}>
    <i style={{ width: `${whole > 0 ? Math.min(100, (100 * part) / whole) : 0}%` }} />
    <b>{percent(part, whole)}</b>
  </span>
);
