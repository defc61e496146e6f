// The nodes of one allocator in a memory dump.
import { bytes, safe } from '../app/format';
import { useAnswer } from '../parts/answer';
import { type Column, Head, Scroll } from '../parts/table';
import { type InfraNode, infraNodes } from './infra-api';
import { Change } from './infra-words';

function Node({ n, diff }: { n: InfraNode; diff: boolean }) {
  const parts = n.path.split('/');
  const text = (v: number | undefined) => (v === undefined ? '–' : bytes(v));
  return (
    <tr>
      <td style={{ paddingLeft: `${10 + 16 * Math.min(20, parts.length - 1)}px` }} title={safe(n.path)}>
        {safe(parts[parts.length - 1])}
      </td>
      <td class="num">{text(n.effective)}</td>
      <td class="num">{text(n.size)}</td>
      {diff && (
        <td class="num">
          {n.effective === undefined || n.base === undefined ? '–' : <Change v={n.effective - n.base} />}
        </td>
      )}
    </tr>
  );
}

export function AllocatorNodes({
  trace,
  query,
  name,
  diff,
}: {
  trace: number;
  query: string;
  name: string;
  diff: boolean;
}) {
  const nodes = useAnswer(`nodes ${trace}?${query}`, () => infraNodes(trace, query)).value;
  if (!nodes?.rows.length) return null;
  return (
    <details class="infra-nodes">
      <summary>What {safe(name)} says of itself</summary>
      <Scroll label="Nodes of the allocator">
        <table class="top">
          <Head
            columns={[
              'Node',
              ['Effective size', 'num'],
              ['Size', 'num'],
              ...(diff ? [['Change of effective size', 'num'] as Column] : []),
            ]}
          />
          <tbody>
            {nodes.rows.map((n) => (
              <Node n={n} diff={diff} />
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="dim small">
        An effective size charges each byte once: what a node shares with another is told at the one that owns
        it.
      </p>
    </details>
  );
}
