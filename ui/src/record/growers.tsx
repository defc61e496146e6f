// Who holds the memory of a live process, by what grew.
import { useMemo } from 'preact/hooks';
import { besides, bytes, count, error, exact, safe } from '../app/format';
import { Choice } from '../parts/choice';
import { Spark } from '../parts/spark';
import { Head, Scroll } from '../parts/table';
import { change, key, type LookRow, type Seen, SPARK } from './looks';

export type Order = 'growth' | 'live' | 'rate';
const ORDERS: { id: Order; label: string; hint?: string }[] = [
  { id: 'growth', label: 'Growth', hint: 'since the baseline' },
  { id: 'live', label: 'Live' },
  { id: 'rate', label: 'Rate', hint: 'bytes asked for in a second' },
];

interface Grower {
  r: LookRow;
  growth: number;
  rate: number;
}

function growersOf(
  seen: Seen,
  order: Order,
  was: Map<string, LookRow>,
  before: Map<string, LookRow>,
): Grower[] {
  const look = seen.look!;
  const seconds = seen.before ? Math.max(0.2, look.seconds - seen.before.seconds) : 1;
  const rows = look.rows.map((r) => ({
    r,
    growth: r[2] - (was.get(key(r))?.[2] ?? 0),
    rate: before.has(key(r)) ? Math.max(0, (r[4] - before.get(key(r))![4]) / seconds) : 0,
  }));
  return rows.sort(
    (a, b) =>
      (order === 'growth' ? b.growth - a.growth : order === 'rate' ? b.rate - a.rate : 0) || b.r[2] - a.r[2],
  );
}

function GrowerRow({ g: { r, growth, rate }, seen }: { g: Grower; seen: Seen }) {
  const few = r[7] > 0 && r[7] < 10 && r[6] !== 0;
  return (
    <tr key={key(r)}>
      <td class={`num ${growth > 0 ? 'up' : growth < 0 ? 'down' : 'dim'}`}>
        {growth ? change(growth) : '0'}
      </td>
      <td class="num" title={`${exact(r[2])} B`}>
        {few ? '≈ ' : ''}
        {bytes(r[2])} <span class="pm">{error(r[6], r[2])}</span>
      </td>
      <td class="num">{count(r[3])}</td>
      <td class="num">{rate ? `${bytes(rate)}/s` : '–'}</td>
      <td>
        <Spark values={seen.curves.get(key(r)) ?? []} tone={growth > 0 ? 'grow' : ''} />
      </td>
      <td>
        {safe(r[0])} <span class="dim">{safe(besides(r[1], seen.look!))}</span>
      </td>
    </tr>
  );
}

export function Growers({ seen, order, onOrder }: { seen: Seen; order: Order; onOrder(s: Order): void }) {
  const was = useMemo(() => new Map((seen.baseline?.rows ?? []).map((r) => [key(r), r])), [seen.baseline]);
  const before = useMemo(() => new Map((seen.before?.rows ?? []).map((r) => [key(r), r])), [seen.before]);
  const rows = growersOf(seen, order, was, before);
  return (
    <>
      <div class="bar">
        <h2>Who holds it</h2>
        <span class="grow" />
        <Choice label="Order" value={order} onChange={onOrder} options={ORDERS} />
      </div>
      <Scroll label="Who holds it">
        <table class="top growers">
          <Head
            columns={[
              ['Growth', 'num'],
              ['Live', 'num'],
              ['Count', 'num'],
              ['Asked for', 'num'],
              `Last ${SPARK} s`,
              'Function that asked',
            ]}
          />
          <tbody>
            {rows
              .filter((x) => x.r[2] || x.growth || x.rate)
              .slice(0, 25)
              .map((g) => (
                <GrowerRow g={g} seen={seen} key={key(g.r)} />
              ))}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}
