// A curve of the size of a word.

export function Spark({ values, tone }: { values: number[]; tone?: string }) {
  const most = Math.max(1, ...values);
  const x = (i: number) => (values.length > 1 ? (100 * i) / (values.length - 1) : 50);
  const points = values.map((v, i) => `${x(i).toFixed(1)},${(22 - (20 * v) / most).toFixed(1)}`).join(' ');
  return (
    <svg class={`spark ${tone ?? ''}`} viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`0,24 ${points} 100,24`} />
      <polyline points={points} />
    </svg>
  );
}
