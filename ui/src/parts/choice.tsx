// One of a few, as buttons beside each other.
import { METRICS } from '../app/format';
import { go, place } from '../app/state';

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

export const MetricChoice = () => (
  <Choice label="Metric" value={place.value.metric} options={METRICS} onChange={(metric) => go({ metric })} />
);
