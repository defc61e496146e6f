// The tree of a heap's details.
import { go, place } from '../app/state';
import { revealRow, ROW, useWindow } from '../parts/window';
import type { Part } from './infra-api';
import { above } from './infra-places';
import { Amount, hint, KIND, label, Sign } from './infra-words';

export interface Line {
  part: Part;
  at: string;
  level: number;
  last?: string;
}

interface Props {
  lines: Line[];
  root: string;
  diff: boolean;
  name: string;
  opened: Set<string>;
  toggle(at: string, want?: boolean): void;
}

const has = (l: Line) => l.part.kind === 'root' || !!l.part.more;
const enter = (l: Line, root: string) => has(l) && l.at !== root && go({ root: l.at, row: l.at });

function Row({ l, i, on, p }: { l: Line; i: number; on: boolean; p: Props }) {
  const open = p.opened.has(l.at);
  const click = () => {
    go({ row: l.at }, true);
    if (has(l) && l.at !== p.root) p.toggle(l.at);
  };
  return (
    <div
      role="treeitem"
      id={`part-${i}`}
      aria-level={l.level + 1}
      aria-selected={on}
      aria-expanded={has(l) ? open : undefined}
      class={`row ${on ? 'on' : ''}`}
      style={{ top: `${i * ROW}px` }}
      title={hint(l.part)}
      onClick={click}
      onDblClick={() => enter(l, p.root)}>
      <span class="num">
        <Amount part={l.part} diff={p.diff} of="size" />
      </span>
      <span class="num dim">
        <Amount part={l.part} diff={p.diff} of="count" />
      </span>
      <span style={{ paddingLeft: `${Math.min(40, l.level) * 14}px` }}>
        <i class="twist" aria-hidden="true">
          {!has(l) ? '·' : open ? '▾' : '▸'}
        </i>
        <Sign of={l.part.kind} />
        <span class="sr">{KIND[l.part.kind]}: </span>
        {label(l.part, p.name)}
      </span>
    </div>
  );
}

/** Does what a key says; false: it says nothing here. */
function pressed(
  key: string,
  index: number,
  show: (i: number) => void,
  { lines, root, opened, toggle }: Props,
): boolean {
  const l = lines[index];
  const acts: Record<string, () => unknown> = {
    ArrowDown: () => show(index + 1),
    ArrowUp: () => show(index - 1),
    PageDown: () => show(index + 15),
    PageUp: () => show(index - 15),
    Home: () => show(0),
    End: () => show(lines.length - 1),
    ArrowRight: () => has(l) && (opened.has(l.at) ? show(index + 1) : toggle(l.at, true)),
    ArrowLeft: () => {
      if (l.at === root) return;
      if (opened.has(l.at)) toggle(l.at, false);
      else show(lines.findIndex((x) => x.at === above(l.at)));
    },
    Enter: () => enter(l, root),
    Backspace: () => root && go({ root: above(root), row: root }),
    ' ': () => has(l) && toggle(l.at),
  };
  acts[key]?.();
  return !!acts[key];
}

export function Tree(p: Props) {
  const { lines, diff } = p;
  const row = place.value.row;
  const index = Math.max(
    0,
    lines.findIndex((l) => l.at === row),
  );
  const w = useWindow(lines.length);
  const show = (to: number) => {
    const i = Math.max(0, Math.min(lines.length - 1, to));
    go({ row: lines[i].at }, true);
    revealRow(w.ref.current!, i);
  };
  const onKey = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.altKey || e.metaKey || !pressed(e.key, index, show, p)) return;
    e.preventDefault();
  };
  return (
    <div class="table tree infra-tree">
      <div class="row head" aria-hidden="true">
        <span class="num">{diff ? 'Size ±' : 'Size'}</span>
        <span class="num">{diff ? 'Count ±' : 'Count'}</span>
        <span>Place</span>
      </div>
      <div
        class="rows"
        role="tree"
        aria-label="Heap details"
        tabIndex={0}
        aria-activedescendant={`part-${index}`}
        ref={w.ref}
        onScroll={w.look}
        onKeyDown={onKey}>
        <div role="presentation" style={{ height: `${lines.length * ROW}px` }}>
          {lines.slice(w.first, w.last).map((l, k) => (
            <Row l={l} i={w.first + k} on={w.first + k === index} p={p} />
          ))}
        </div>
      </div>
    </div>
  );
}
