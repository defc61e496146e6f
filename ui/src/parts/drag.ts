// A pointer that is held.

/** Follows it until it is let go, at most once a frame. */
export function whileHeld(
  move: (e: PointerEvent) => void,
  released: (e: PointerEvent) => void = () => {},
): void {
  let last: PointerEvent | null = null;
  const take = () => {
    const e = last;
    last = null;
    if (e) move(e);
  };
  const moved = (e: PointerEvent) => {
    if (!last) requestAnimationFrame(take);
    last = e;
  };
  const up = (e: PointerEvent) => {
    removeEventListener('pointermove', moved);
    removeEventListener('pointerup', up);
    take();
    released(e);
  };
  addEventListener('pointermove', moved);
  addEventListener('pointerup', up);
}
