// Fleet: many machines, asked of the store. What it says of callstacks is opened as a trace, so that the
// other pages show it; here one chooses whose and when, and sees which hosts are unlike the rest.
import { useState } from 'preact/hooks';
import { amount, count, error, METRICS, safe } from '../app/format';
import { ask, refresh, status } from '../app/server';
import { written } from '../app/sides';
import { go, place } from '../app/state';
import { fresh } from '../app/url/place';
import { useAnswer } from '../parts/answer';
import { Choice } from '../parts/choice';
import { type Column, Head, Scroll } from '../parts/table';
import { Busy, Failed, Figure } from '../parts/words';

interface Host {
  host: string;
  deviates: boolean;
  value: number;
  error: number | null;
  score: number;
  processes: number;
  dumps: number;
}
interface Hosts {
  n: number;
  cut: boolean;
  median: number;
  spread: number;
  rows: Host[];
}
interface Words<T> {
  cut: boolean;
  words: T[];
}
interface Opened {
  id: number;
  hosts: number;
  processes: number;
  dumps: number;
  unknown: number;
  left_out: number;
  stacks: number;
}
type Value = [text: string, rows: number, last: number];

const SEPARATOR = '\u001f';
const RANGES: [id: string, label: string][] = [
  ['1h', '1 h'],
  ['24h', '24 h'],
  ['7d', '7 d'],
  ['14d', '14 d'],
  ['30d', '30 d'],
];
const SIGNS: [id: string, words: string][] = [
  ['=', 'is'],
  ['!=', 'is not'],
  ['~', 'fits'],
  ['!~', 'does not fit'],
];
const STEPS: Record<string, number> = { '1h': 300, '24h': 3600, '7d': 43_200 }; // seconds; others a day
const DAY = 86_400;

const conditions = (): string[] => place.value.fleet.split(SEPARATOR).filter(Boolean);
const keep = (list: string[]) => go({ fleet: list.join(SEPARATOR) });
const since = () => place.value.range || '24h';

function asked(more: string[] = [], span: Record<string, string> = {}): URLSearchParams {
  const p = place.value;
  return new URLSearchParams({
    where: [...conditions(), ...more].join(SEPARATOR),
    since: since(),
    ...(p.before ? { until: p.before } : {}),
    metric: p.metric,
    ...span,
  });
}

const get = async <T,>(what: string, q: URLSearchParams): Promise<T> =>
  (await ask(`/api/v1/fleet/${what}?${q}`)).json();

/** A profile of the store as a trace of the server, once that has read it. */
async function open(q: URLSearchParams): Promise<Opened> {
  const o: Opened = await (await ask(`/api/v1/fleet/profile?${q}`, { method: 'POST' })).json();
  for (;;) {
    await refresh();
    const t = status.peek()?.traces.find((x) => x.id === o.id);
    if (t && t.state !== 'loading') return o;
    await new Promise((ok) => setTimeout(ok, 50));
  }
}

function useValues(label: string) {
  // Values of a label depend on the other conditions, not on those on itself.
  const q = asked();
  q.set(
    'where',
    conditions()
      .filter((c) => !c.startsWith(label + '='))
      .join(SEPARATOR),
  );
  q.set('label', label);
  return useAnswer(`values ${q}`, () =>
    label ? get<Words<Value>>('values', q) : Promise.resolve({ cut: false, words: [] }),
  );
}

function ServiceSelect({ words }: { words: Value[] | undefined }) {
  const service =
    conditions()
      .find((c) => c.startsWith('service='))
      ?.slice(8) ?? '';
  const others = conditions().filter((c) => !c.startsWith('service='));
  const choose = (text: string) => keep([...(text ? [`service=${text}`] : []), ...others]);
  return (
    <label>
      Service{' '}
      <select id="service" value={service} onChange={(e) => choose(e.currentTarget.value)}>
        <option value="">all</option>
        {(words ?? []).map(([text]) => (
          <option value={text}>{safe(text)}</option>
        ))}
        {service && !words?.some(([text]) => text === service) && (
          <option value={service}>{safe(service)}</option>
        )}
      </select>
    </label>
  );
}

/** One more condition on a label. */
function AddCondition({
  names,
  label,
  onLabel,
  words,
}: {
  names: string[];
  label: string;
  onLabel(label: string): void;
  words: Value[];
}) {
  const [sign, setSign] = useState('=');
  const [value, setValue] = useState('');
  const add = (e: Event) => {
    e.preventDefault();
    if (value || sign === '=' || sign === '!=') keep([...conditions(), `${label}${sign}${value}`]);
    setValue('');
  };
  return (
    <form class="bar fleet-add" onSubmit={add}>
      <select aria-label="Label" value={label} onChange={(e) => onLabel(e.currentTarget.value)}>
        {names
          .filter((n) => n !== 'service')
          .map((n) => (
            <option value={n}>{safe(n)}</option>
          ))}
      </select>
      <select aria-label="How it is compared" value={sign} onChange={(e) => setSign(e.currentTarget.value)}>
        {SIGNS.map(([id, text]) => (
          <option value={id}>{text}</option>
        ))}
      </select>
      <input
        aria-label="Value"
        list="fleet-values"
        value={value}
        onInput={(e) => setValue(e.currentTarget.value)}
      />
      <datalist id="fleet-values">
        {words.map(([text, rows]) => (
          <option value={text}>{count(rows)} rows</option>
        ))}
      </datalist>
      <button type="submit">Add</button>
    </form>
  );
}

function Labels({ names }: { names: string[] }) {
  const [label, setLabel] = useState('version');
  const services = useValues('service');
  const values = useValues(label);
  const others = conditions().filter((c) => !c.startsWith('service='));
  return (
    <div class="bar" role="group" aria-label="Which processes">
      <ServiceSelect words={services.value?.words} />
      {others.map((c) => (
        <span class="chip">
          {safe(c)}
          <button
            type="button"
            aria-label={`Remove ${safe(c)}`}
            onClick={() => keep(conditions().filter((x) => x !== c))}>
            ×
          </button>
        </span>
      ))}
      <AddCondition names={names} label={label} onLabel={setLabel} words={values.value?.words ?? []} />
      {(services.error || values.error) && <Failed text={services.error || values.error} />}
    </div>
  );
}

function Range() {
  const p = place.value;
  const own = !RANGES.some(([id]) => id === since());
  return (
    <div class="bar" role="group" aria-label="When">
      <Choice
        label="Time"
        value={since()}
        onChange={(range) => go({ range, before: '' })}
        options={RANGES.map(([id, label]) => ({ id, label, hint: `the last ${label}` }))}
      />
      <label>
        from{' '}
        <input
          id="since"
          class={own ? 'on' : ''}
          size={18}
          value={since()}
          title="24h (before now), 2026-03-01, 2026-03-01T10:00"
          onChange={(e) => go({ range: e.currentTarget.value })}
        />
      </label>
      <label>
        to{' '}
        <input
          id="until"
          size={18}
          placeholder="now"
          value={p.before}
          onChange={(e) => go({ before: e.currentTarget.value })}
        />
      </label>
      <span class="grow" />
      <Choice
        label="Metric"
        value={p.metric}
        onChange={(metric) => go({ metric })}
        options={METRICS.map((m) => ({ id: m.id, label: m.label, hint: m.hint }))}
      />
    </div>
  );
}

interface Doing {
  what: string;
  error: string;
}

function useDoing(): [Doing, (what: string, act: () => Promise<void>) => void] {
  const [doing, set] = useState<Doing>({ what: '', error: '' });
  return [
    doing,
    (what, act) => {
      set({ what, error: '' });
      act().then(
        () => set({ what: '', error: '' }),
        (e: Error) => set({ what: '', error: e.message || 'The server gave no answer.' }),
      );
    },
  ];
}

const none = { trace: 0, upid: null, heap: '', at: '', max: false, from: '' };

async function compare(a: URLSearchParams, b: URLSearchParams): Promise<void> {
  const [left, right] = [await open(a), await open(b)];
  go({
    ...fresh,
    page: 'diff',
    trace: right.id,
    base: written({ ...none, trace: left.id }),
    metric: place.peek().metric,
  });
}

type Act = (what: string, f: () => Promise<void>) => void;

function SideSelect({
  name,
  value,
  words,
  onChoose,
}: {
  name: string;
  value: string;
  words: Value[];
  onChoose(v: string): void;
}) {
  return (
    <label>
      {name}{' '}
      <select aria-label={`Side ${name}`} value={value} onChange={(e) => onChoose(e.currentTarget.value)}>
        <option value="">choose</option>
        {words.map(([text]) => (
          <option value={text}>{safe(text) || '(none)'}</option>
        ))}
      </select>
    </label>
  );
}

interface Sides {
  a: string;
  b: string;
  setA(v: string): void;
  setB(v: string): void;
  busy: boolean;
  act: Act;
}

function ByTime({ a, b, setA, setB, busy, act }: Sides) {
  const start = () => act('Comparing', () => compare(asked([], { until: a }), asked([], { since: b })));
  return (
    <>
      <label>
        A until{' '}
        <input
          id="a-until"
          size={12}
          placeholder="7d"
          value={a}
          onInput={(e) => setA(e.currentTarget.value)}
        />
      </label>
      <label>
        B from{' '}
        <input
          id="b-since"
          size={12}
          placeholder="1d"
          value={b}
          onInput={(e) => setB(e.currentTarget.value)}
        />
      </label>
      <button type="button" disabled={busy || !a || !b} onClick={start}>
        Compare
      </button>
    </>
  );
}

function ByLabel({ label, words, a, b, setA, setB, busy, act }: Sides & { label: string; words: Value[] }) {
  const start = () => act('Comparing', () => compare(asked([`${label}=${a}`]), asked([`${label}=${b}`])));
  return (
    <>
      <SideSelect name="A" value={a} words={words} onChoose={setA} />
      <SideSelect name="B" value={b} words={words} onChoose={setB} />
      <button type="button" disabled={busy || a === b || !a || !b} onClick={start}>
        Compare
      </button>
    </>
  );
}

function Compare({ names, doing, act }: { names: string[]; doing: Doing; act: Act }) {
  const [label, setLabel] = useState('version');
  const [a, setA] = useState('');
  const [b, setB] = useState('');
  const values = useValues(label === 'time' ? '' : label);
  const sides = { a, b, setA, setB, busy: !!doing.what, act };
  const choose = (next: string) => {
    setLabel(next);
    setA('');
    setB('');
  };
  return (
    <div class="bar" role="group" aria-label="Compare">
      <b>Compare</b>
      <label>
        by{' '}
        <select aria-label="Compare by" value={label} onChange={(e) => choose(e.currentTarget.value)}>
          {names.map((n) => (
            <option value={n}>{safe(n)}</option>
          ))}
          <option value="time">time</option>
        </select>
      </label>
      {label === 'time' ? (
        <ByTime {...sides} />
      ) : (
        <ByLabel {...sides} label={label} words={values.value?.words ?? []} />
      )}
    </div>
  );
}

const HOST_COLUMNS: Column[] = [
  'Host',
  ['Holds', 'num'],
  ['Off the median', 'num'],
  ['Spreads', 'num'],
  ['Processes', 'num'],
  ['Dumps', 'num'],
  'Verdict',
];

function HostRow({ r, h, act }: { r: Host; h: Hosts; act: Act }) {
  const m = place.value.metric;
  const differs = () =>
    act('Comparing', () => compare(asked([`host!=${r.host}`]), asked([`host=${r.host}`])));
  return (
    <tr key={r.host} class={r.deviates ? '' : 'few'}>
      <td class="site">{safe(r.host)}</td>
      <td class="num">
        {amount(r.value, m)} <span class="pm">{error(r.error, r.value)}</span>
      </td>
      <td class="num">
        {r.value >= h.median ? '+' : '−'}
        {amount(Math.abs(r.value - h.median), m)}
      </td>
      <td class="num">{h.spread > 0 ? r.score.toFixed(1) : '–'}</td>
      <td class="num">{count(r.processes)}</td>
      <td class="num">{count(r.dumps)}</td>
      <td>
        {r.deviates ? (
          <>
            <b>▲ deviates</b>{' '}
            <button type="button" onClick={differs}>
              What differs
            </button>
          </>
        ) : (
          <span class="dim">as the others</span>
        )}
      </td>
    </tr>
  );
}

function HostTable({ act }: { act: Act }) {
  const p = place.value;
  const q = asked();
  const answer = useAnswer(`hosts ${q}`, () => get<Hosts>('hosts', q));
  const h = answer.value;
  if (answer.error) return <Failed text={answer.error} />;
  if (!h) return <Busy what="Asking the store" />;
  if (!h.n) return <p class="empty">No such process was sampled in this time.</p>;
  return (
    <section aria-label="Hosts" aria-busy={answer.busy}>
      <div class="figures">
        <Figure label="Hosts" value={count(h.n)} note={h.cut ? 'there are more' : ''} />
        <Figure label="Median" value={amount(h.median, p.metric)} note="of a process at a dump" />
        <Figure label="Spread" value={amount(h.spread, p.metric)} note="as a standard deviation" />
        <Figure
          label="Deviate"
          value={count(h.rows.filter((r) => r.deviates).length)}
          note="more than 3.5 spreads, and more than their error"
        />
      </div>
      <Scroll label="Each host">
        <table class="top">
          <Head columns={HOST_COLUMNS} />
          <tbody>
            {h.rows.map((r) => (
              <HostRow r={r} h={h} act={act} key={r.host} />
            ))}
          </tbody>
        </table>
      </Scroll>
      {h.rows.length < h.n && (
        <p class="dim">{count(h.n - h.rows.length)} more hosts are nearer to the median.</p>
      )}
    </section>
  );
}

export function FleetPage() {
  const p = place.value;
  const [doing, act] = useDoing();
  const q = asked();
  const labels = useAnswer(`labels ${q}`, () => get<Words<string>>('labels', q));
  const shown = status.value?.fleet;
  if (!shown)
    return (
      <div class="empty">
        <p>No store is configured.</p>
        <p class="dim">
          <code>heapwise ui --store clickhouse://USER@HOST:PORT/DATABASE</code>, or{' '}
          <code>HEAPWISE_STORE</code>. Nothing is asked of any machine before.
        </p>
      </div>
    );
  const show = (page: string, span: Record<string, string> = {}) =>
    act('Asking the store', async () => {
      const o = await open(asked([], span));
      go({ ...fresh, page, trace: o.id, metric: page === 'leaks' ? 'space' : p.metric });
    });
  const names = labels.value?.words ?? [];
  const step = STEPS[since()] ?? DAY;
  return (
    <div class="fleet">
      <p class="statement">
        Store {safe(shown)}. Figures are those of a mean process at a mean dump, so that unequal numbers of
        machines can be compared; errors are combined from all rows.
      </p>
      <Labels names={names} />
      <Range />
      <div class="bar" role="group" aria-label="Show">
        <button type="button" disabled={!!doing.what} onClick={() => show('flame')}>
          Flamegraph
        </button>
        <button type="button" disabled={!!doing.what} onClick={() => show('functions')}>
          Functions
        </button>
        <button
          type="button"
          disabled={!!doing.what}
          title={`growth per site, a point every ${step >= DAY ? 'day' : step >= 3600 ? `${step / 3600} h` : `${step / 60} min`}`}
          onClick={() => show('leaks', { step: String(step) })}>
          Leaks over time
        </button>
        {doing.what && <span role="status">{doing.what}…</span>}
      </div>
      {names.length > 0 && <Compare names={names} doing={doing} act={act} />}
      {labels.error && <Failed text={labels.error} />}
      {doing.error && <Failed text={doing.error} />}
      <HostTable act={act} />
    </div>
  );
}
