// What a page's graph is zoomed to, and its menu: the same on every page that has one.
import { useMemo, useState } from 'preact/hooks';
import { fit, safe } from '../app/format';
import { go, place } from '../app/state';
import { type Item, Menu } from '../parts/menu';
import { find, type Graph, nameOf, path, search } from './graph';

const SEPARATOR = '\u001f';

/** Names from the root, as text of the URL. */
export const zoomOf = (names: string[]) => names.join(SEPARATOR);

/** What of the URL concerns a graph: the node that it is zoomed to, and what the search found. */
export function useZoom(g: Graph | null) {
  const p = place.value;
  const zoom = useMemo(() => (g && p.zoom ? find(g, p.zoom.split(SEPARATOR)) : 0), [g, p.zoom]);
  const found = useMemo(() => (g ? search(g, p.search) : null), [g, p.search]);
  const onZoom = (node: number) => void (g && node < g.n && go({ zoom: zoomOf(path(g, node)) }));
  return { zoom, found, onZoom };
}

interface Spot {
  node: number;
  x: number;
  y: number;
}

/** A menu for a frame: how it is opened, and what is drawn for it. */
export function useFrameMenu(g: Graph | null, items: (node: number) => (Item | null)[]) {
  const [menu, setMenu] = useState<Spot | null>(null);
  return {
    onMenu: (node: number, x: number, y: number) => setMenu({ node, x, y }),
    menu: menu && g && menu.node < g.n && (
      <Menu
        title={fit(safe(nameOf(g, menu.node)), 60)}
        x={menu.x}
        y={menu.y}
        onClose={() => setMenu(null)}
        items={items(menu.node)}
      />
    ),
  };
}
