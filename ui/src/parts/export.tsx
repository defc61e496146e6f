// Saving what is selected.
import { useState } from 'preact/hooks';
import { download } from '../app/files';
import { safe } from '../app/format';
import { selection } from '../app/selection';
import { place } from '../app/state';
import { Menu } from './menu';

const EXPORTS: [string, string][] = [
  ['pprof', 'pprof'],
  ['svg', 'SVG'],
  ['folded', 'Folded stacks'],
  ['html', 'HTML page'],
  ['speedscope', 'speedscope'],
  ['csv', 'CSV, a line a node'],
  ['json', 'JSON'],
];

export function ExportButton({ picture }: { picture?: () => void }) {
  const [open, setOpen] = useState<{ x: number; y: number } | null>(null);
  const [problem, setProblem] = useState('');
  return (
    <>
      <button
        type="button"
        id="export"
        aria-haspopup="menu"
        onClick={(e) => {
          const r = e.currentTarget.getBoundingClientRect();
          setOpen({ x: r.left, y: r.bottom + 4 });
        }}>
        Export
      </button>
      {open && (
        <Menu
          title="Save this selection as"
          x={open.x}
          y={open.y}
          onClose={() => setOpen(null)}
          items={[
            ...(picture ? [{ label: 'PNG picture', act: picture }] : []),
            ...EXPORTS.map(([id, label]) => ({
              label,
              act: () => {
                setProblem('');
                download(
                  id,
                  place.peek().trace,
                  selection.peek() + (picture && place.peek().group ? `&group=${place.peek().group}` : ''),
                ).catch((e: Error) => setProblem(e.message));
              },
            })),
          ]}
        />
      )}
      {problem && (
        <span class="bad" role="alert">
          {safe(problem)}
        </span>
      )}
    </>
  );
}
