// One of a few, as buttons beside each other.
import { isTemporary, METRICS, TEMPORARY } from '../app/format';
import { go, place } from '../app/state';
import type { Tracks } from '../app/types';

export function Choice<T extends string>({
  label,
  value,
  options,
  rest,
  onChange,
}: {
  label: string;
  rest?: boolean; // on a phone behind "More"
  value: T;
  options: { id: T; label: string; hint?: string }[];
  onChange(v: T): void;
}) {
  return (
    <div class={rest ? 'choice rest' : 'choice'} role="group" aria-label={label}>
      {options.map((o) => (
        <button type="button" aria-pressed={o.id === value} title={o.hint} onClick={() => onChange(o.id)}>
          {o.label}
        </button>
      ))}
    </div>
  );
}

const knows = (tracks: Tracks | null) =>
  tracks?.moments.some((m) => m.temporary_space !== undefined) || isTemporary(place.value.metric);

/** What the process knows. */
export const metricsOf = (tracks: Tracks | null) => (knows(tracks) ? [...METRICS, ...TEMPORARY] : METRICS);

/** Temporary ones are one button until it is chosen. */
const shownOf = (tracks: Tracks | null) =>
  knows(tracks) && !isTemporary(place.value.metric)
    ? [...METRICS, { ...TEMPORARY[0], label: 'Temporary' }]
    : metricsOf(tracks);

export const MetricChoice = ({ tracks }: { tracks: Tracks | null }) => (
  <Choice
    label="Metric"
    value={place.value.metric}
    options={shownOf(tracks)}
    onChange={(metric) => go({ metric })}
  />
);

/** For the metrics that do not explain themselves. */
export const MetricNote = () =>
  isTemporary(place.value.metric) ? (
    <details class="metric-note">
      <summary>How is this computed?</summary>
      <p>
        Temporary is what was freed again at most a second after its allocation, on any thread. A block that{' '}
        <code>realloc</code> gives up is freed then. The recorder knows the order of all samples and when each
        tick of 4 ms began: 1.004 s count as longer. Where allocations are sampled, each temporary sample
        stands for as many bytes as any other, and the error is theirs. Mappings and Java objects are not
        counted.
      </p>
    </details>
  ) : null;
