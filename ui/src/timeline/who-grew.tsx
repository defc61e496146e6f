// Timeline: the functions that held most, over time. Asked for on request: it reads every dump.
import { question } from '../app/answers';
import { besides, bytes, isLive, safe } from '../app/format';
import { selection } from '../app/selection';
import { go, href, place } from '../app/state';
import type { Tracks } from '../app/types';
import { useAnswer } from '../parts/answer';
import { Choice } from '../parts/choice';
import { Failed } from '../parts/words';
import { type Area, Stacked, StackTable } from './stacked';
import type { View } from './view';

interface Found {
  moments: number[];
  all: number[];
  functions: { name: string; module: string; values: number[] }[];
}

type Who = '' | 'self' | 'total';

/** Functions from the largest down, and what is left: of themselves they add up. */
export function areasOf(found: Found, tracks: Tracks): Area[] {
  const areas: Area[] = found.functions.map((f) => ({
    name: safe(f.name),
    title: `${safe(f.name)} ${safe(besides(f.module, tracks))}`.trim(),
    values: f.values,
  }));
  const rest = found.all.map((v, i) => Math.max(0, v - found.functions.reduce((a, f) => a + f.values[i], 0)));
  return rest.some((v) => v > 0) ? [...areas, { name: 'all others', values: rest }] : areas;
}

function Lines({ found, tracks, view }: { found: Found; tracks: Tracks; view: View }) {
  const own = place.value.who === 'self';
  const areas: Area[] = own
    ? areasOf(found, tracks)
    : found.functions.map((f) => ({ name: safe(f.name), title: safe(f.module), values: f.values }));
  const rest = own && areas.length > found.functions.length;
  const last = found.moments.length - 1;
  const label = `Functions that ${own ? 'held' : 'held, with what they called,'} most over time; at the end ${areas
    .map((a) => `${a.name} ${bytes(a.values[last])}`)
    .join(', ')}`;
  const common = { areas, rest, times: found.moments, view, label };
  return (
    <>
      <Stacked {...common} overlap={!own} />
      <StackTable {...common} label="Functions over time" zero={tracks.start} />
      <p class="dim small">
        {found.functions.slice(0, 10).map((f, i) => (
          <>
            {i > 0 && ' · '}
            <a href={href({ page: 'functions', fn: f.name })}>{safe(f.name)}</a>
          </>
        ))}
      </p>
    </>
  );
}

function Answer({ tracks, view }: { tracks: Tracks; view: View }) {
  const p = place.value;
  const query = new URLSearchParams(selection.value);
  for (const key of ['at', 'max', 'from', 'invert', 'group', 'stable']) query.delete(key);
  query.set('metric', isLive(p.metric) ? 'space' : 'alloc_space');
  query.set('upid', String(tracks.upid));
  if (p.who === 'total') query.set('total', '1');
  const text = query.toString();
  const answer = useAnswer(`who ${p.trace}?${text}`, () =>
    question<Found>(p.trace, 'functions-over-time', text),
  );
  if (answer.error) return <Failed text={answer.error} />;
  if (!answer.value)
    return (
      <p class="dim" aria-busy="true">
        Reading all dumps…
      </p>
    );
  if (answer.value.moments.length < 2)
    return <p class="dim">There is one dump: what grew takes at least two.</p>;
  return (
    <div aria-busy={answer.busy}>
      <Lines found={answer.value} tracks={tracks} view={view} />
    </div>
  );
}

export function WhoGrew({ tracks, view }: { tracks: Tracks; view: View }) {
  return (
    <section class="who-grew" aria-label="Top functions over time">
      <div class="bar">
        <Choice<Who>
          label="Top functions over time"
          value={place.value.who as Who}
          onChange={(who) => go({ who })}
          options={[
            { id: '', label: 'Top functions: off' },
            { id: 'self', label: 'Self', hint: 'the ten that asked for most themselves, and all others' },
            { id: 'total', label: 'Total', hint: 'the ten that held most with what they called' },
          ]}
        />
      </div>
      {place.value.who && <Answer tracks={tracks} view={view} />}
    </section>
  );
}
