// A pointer that is held.

/** Follows it until it is let go. */
export function whileHeld(
  move: (e: PointerEvent) => void,
  released: (e: PointerEvent) => void = () => {},
): void {
  const up = (e: PointerEvent) => {
    removeEventListener('pointermove', move);
    removeEventListener('pointerup', up);
    released(e);
  };
  addEventListener('pointermove', move);
  addEventListener('pointerup', up);
}
