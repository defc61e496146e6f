// Buttons of the top bar.
import { useState } from 'preact/hooks';
import { units, type Units, UNITS_CHOICES } from '../app/format';
import { remember } from '../app/store';

/** The address of this view, for somebody who may ask this server. */
export function ShareButton() {
  const [said, setSaid] = useState('');
  const share = () => {
    const done = () => {
      setSaid('Copied');
      setTimeout(() => setSaid(''), 1500);
    };
    if (navigator.clipboard)
      navigator.clipboard
        .writeText(location.href)
        .then(done, () => prompt('The address of this view', location.href));
    else prompt('The address of this view', location.href);
  };
  return (
    <button
      type="button"
      title="Copy the address of this view; it opens where the server's token is known"
      onClick={share}>
      <span role="status">{said || 'Share'}</span>
    </button>
  );
}

/** KiB, kB, bytes, in turn. */
export function UnitsToggle() {
  const now = UNITS_CHOICES.findIndex((u) => u.id === units.value);
  const next = UNITS_CHOICES[(now + 1) % UNITS_CHOICES.length];
  return (
    <button
      type="button"
      class="units"
      aria-label={`Units: ${UNITS_CHOICES[now].label}; change to ${next.label}`}
      title={`${UNITS_CHOICES[now].hint}; next: ${next.label}`}
      onClick={() => setUnits(next.id)}>
      {['KiB', 'kB', 'B'][now]}
    </button>
  );
}

export function setUnits(u: Units): void {
  units.value = u;
  remember('units', [u]);
}
