// The URL is the state: #!/page?key=value. Everything a view shows can be sent as a link, and back
// and forward step through it. The token is no part of it: it stays in this tab.
import { computed, signal } from '@preact/signals';
import { type Metric, METRICS } from './format';
import { remembered } from './store';

export interface Place {
  page: string;
  arg: string; // the number behind it: #!/live/4711
  trace: number;
  upid: number | null;
  with: string; // further processes, added to it: upids with commas between
  heap: string;
  at: string; // ns, "peak" or "" = the server's choice
  max: boolean;
  from: string; // ns: begin of a stretch
  metric: Metric;
  invert: boolean;
  frames: 'site' | 'all';
  filters: string[];
  zoom: string; // names from the root, joined by \u001f
  search: string;
  fn: string; // the function whose callers and callees are shown
  sort: string;
  theme: string; // '', light, dark, contrast
  // Findings: the side compared with, how, known leaks, range of sizes, the open row, what is hidden.
  base: string; mode: string; key: string; by: string; known: string; sizes: string; open: string; all: string; match: string;
  sql: string; // the query of the SQL page
  file: string; line: string; // of the Source page
  view: string; // of the Source page: '' or code
  collapse: boolean; // direct recursion as one frame
  group: string; // by what the graph is cut below its root: '', module, heap, process
  bottom: boolean; // the root stands at the bottom
  form: string; // of the Record page
  marks: string; // times on the timeline, in ns, joined by ','
  // The managed heap: its tab, dump (ns), metric, open objects, class and other conditions on objects, the
  // object whose dominated ones are listed, references that are cut, the dump compared with, an incomplete one shown.
  tab: string; graph: string; heapmetric: string; objs: string; cls: string; only: string; of: string; cut: string; against: string; anyway: boolean;
  // MemoryInfra: dump and the one compared with (ns), cell as `upid heap`, dimensions, small ones, root and row
  // of the details (keys), order of the table.
  // Another cell, or another trace, that the details are compared with.
  other: string; otherfile: string;
  fleet: string; range: string; before: string; // conditions of the Fleet page, joined by \u001f; begin and end of its time
  dump: string; since: string; cell: string; dims: string; rule: string; root: string; row: string; order: string;
}

const EMPTY: Place = {
  page: '', arg: '', trace: 0, upid: null, with: '', heap: '', at: '', max: false, from: '', metric: 'space', invert: false,
  frames: 'site', filters: [], zoom: '', search: '', fn: '', sort: '', theme: '',
  base: '', mode: '', key: '', by: '', known: '', sizes: '', open: '', all: '', match: '',
  sql: '', file: '', line: '', view: '', collapse: false, group: '', bottom: false, form: '', marks: '',
  tab: '', graph: '', heapmetric: '', objs: '', cls: '', only: '', of: '', cut: '', against: '', anyway: false,
  other: '', otherfile: '',
  fleet: '', range: '', before: '',
  dump: '', since: '', cell: '', dims: '', rule: '', root: '', row: '', order: '',
};

type Key = Exclude<keyof Place, 'page' | 'arg' | 'filters'>;
const KEYS = Object.keys(EMPTY).filter((k) => k !== 'page' && k !== 'arg' && k !== 'filters') as Key[];

/** What another trace begins with. */
export const fresh = { upid: null, with: '', heap: '', at: '', max: false, from: '', get filters() { return remembered<string[]>('default-filters', []); }, zoom: '', search: '', fn: '', open: '', sql: '', file: '', line: '', view: '',
  tab: '', graph: '', objs: '', cls: '', only: '', of: '', cut: '', against: '', anyway: false, other: '', otherfile: '', dump: '', since: '', cell: '', root: '', row: '' };

/** How each part stands in the URL: its key, and how its text is read. The rest is plain text. */
const READERS: { [K in keyof Place]?: (text: string) => Place[K] } = {
  trace: (t) => Math.max(0, Number(t) || 0),
  upid: (t) => (/^\d+$/.test(t) ? Number(t) : null),
  with: (t) => (/^\d+(,\d+)*$/.test(t) ? t : ''),
  at: (t) => (/^(peak|\d+)$/.test(t) ? t : ''),
  max: (t) => t === '1',
  anyway: (t) => t === '1',
  graph: (t) => (/^\d+$/.test(t) ? t : ''),
  heapmetric: (t) => (/^(object|dominated)_(size|count)$/.test(t) ? t : ''),
  objs: (t) => (/^\d+(,\d+)*$/.test(t) ? t : ''),
  cut: (t) => (/^[ro]\d+(,[ro]\d+)*$/.test(t) ? t : ''),
  of: (t) => (/^\d+$/.test(t) ? t : ''),
  dump: (t) => (/^-?\d+$/.test(t) ? t : ''),
  since: (t) => (/^-?\d+$/.test(t) ? t : ''),
  other: (t) => (/^\d+ /.test(t) ? t : ''),
  otherfile: (t) => (/^\d+$/.test(t) ? t : ''),
  dims: (t) => (/^(frames|types)$/.test(t) ? t : ''),
  rule: (t) => (/^(fraction|rows|all)$/.test(t) ? t : ''),
  from: (t) => (/^\d+$/.test(t) ? t : ''),
  metric: (t) => METRICS.find((x) => x.id === t)?.id ?? 'space',
  invert: (t) => t === '1',
  collapse: (t) => t === '1',
  bottom: (t) => t === '1',
  group: (t) => (/^(module|heap|process)$/.test(t) ? t : ''),
  marks: (t) => (/^\d+(,\d+)*$/.test(t) ? t : ''),
  frames: (t) => (t === 'all' ? 'all' : 'site'),
  theme: (t) => (/^(light|dark|contrast)$/.test(t) ? t : ''),
};

export function parse(hash: string): Place {
  const p: Place = { ...EMPTY, filters: [] };
  const m = /^#!\/([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/s.exec(hash); // a page that is none is told as that
  if (!m) return p;
  const q = new URLSearchParams(m[3] ?? '');
  p.page = m[1] || 'home'; // no hash at all: no wish
  p.arg = /^\d+$/.test(m[2] ?? '') ? m[2] : '';
  p.filters = q.getAll('f').filter((f) => f !== '');
  for (const key of KEYS) {
    const text = q.get(key);
    if (text !== null) Object.assign(p, { [key]: READERS[key]?.(text) ?? (READERS[key] ? EMPTY[key] : text) });
  }
  return p;
}

export function format(p: Place): string {
  const q = new URLSearchParams();
  for (const key of KEYS) if (p[key] !== EMPTY[key]) q.set(key, p[key] === true ? '1' : String(p[key]));
  for (const f of p.filters) q.append('f', f);
  const text = q.toString();
  return `#!/${p.page === 'home' ? '' : p.page}${p.arg ? `/${p.arg}` : ''}${text ? `?${text}` : ''}`;
}

/** The token comes behind the '#' of the printed address, also in a tab that is open already, and leaves
 * the address at once. */
export const token = signal(sessionStorage.getItem('token') ?? '');
const tokenIn = (url: string) => /#token=([\w-]+)/.exec(url)?.[1];
function takeToken(): void {
  const here = tokenIn(location.hash);
  if (!here) return;
  history.replaceState(null, '', location.pathname);
  keepToken(here);
}
function keepToken(text: string): void {
  sessionStorage.setItem('token', text);
  token.value = text;
}
// The address may have changed before this script came.
const first = tokenIn(performance.getEntriesByType('navigation')[0]?.name ?? '');
if (first) keepToken(first);
takeToken();

export const place = signal<Place>(parse(location.hash));
function arrived(): void {
  takeToken();
  place.value = parse(location.hash);
}
addEventListener('hashchange', arrived);
addEventListener('popstate', arrived);

/** The number behind a page's name is that page's. */
const changed = (p: Place, change: Partial<Place>): Place => ({ ...p, ...(change.page ? { arg: '', open: '', form: '' } : {}), ...change });

/** Goes somewhere; replace: no step for the back button (typing, dragging). */
export function go(change: Partial<Place>, replace = false): void {
  const next = changed(place.peek(), change);
  const hash = format(next);
  if (hash === location.hash) return;
  takeToken(); // its event may be still to come: the address would be written over
  if (replace) history.replaceState(null, '', hash);
  else history.pushState(null, '', hash);
  place.value = next;
}

export const href = (change: Partial<Place>) => format(changed(place.value, change));

/** What a graph or table is made of; the server's parameters. */
/** Bottom-up trees are an order of magnitude larger: what is below a ten-thousandth is merged. */
export const INVERTED = '&invert=1&min_share=0.0001';

/** While an interval is dragged, boxes keep their order. */
export const scrubbing = signal(false);

/** Filters and what they see, for questions that have no whole selection. */
export function filtered(): Record<string, string> {
  const p = place.value;
  return p.filters.length ? { filters: p.filters.join('\n'), ...(p.frames === 'all' ? { frames: 'all' } : {}) } : {};
}

export const selection = computed(() => {
  const p = place.value;
  const q = new URLSearchParams();
  if (p.upid !== null) q.set('upid', String(p.upid));
  if (p.with) q.set('with', p.with);
  if (p.heap) q.set('heap', p.heap);
  if (p.at) q.set('at', p.at);
  if (p.max) q.set('max', '1');
  if (p.from) q.set('from', p.from);
  q.set('metric', p.metric);
  if (p.frames === 'all') q.set('frames', 'all');
  if (p.collapse) q.set('collapse', '1');
  if (p.filters.length) q.set('filters', p.filters.join('\n'));
  return q.toString();
});
