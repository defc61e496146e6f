// The URL is the state: #!/page?key=value. Everything a view shows can be sent as a link, and back
// and forward step through it. The token is no part of it: it stays in this tab.
import { computed, signal } from '@preact/signals';
import type { Metric } from './format';
import { METRICS } from './format';

export interface Place {
  page: string;
  trace: number;
  upid: number | null;
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
  theme: string; // '', light, dark
}

const EMPTY: Place = {
  page: '', trace: 0, upid: null, heap: '', at: '', max: false, from: '', metric: 'space', invert: false,
  frames: 'site', filters: [], zoom: '', search: '', fn: '', sort: '', theme: '',
};

export function parse(hash: string): Place {
  const p: Place = { ...EMPTY, filters: [] };
  const m = /^#!\/([a-z-]*)(?:\?(.*))?$/s.exec(hash);
  if (!m) return p;
  const q = new URLSearchParams(m[2] ?? '');
  p.page = m[1];
  p.trace = Math.max(0, Number(q.get('trace')) || 0);
  const upid = q.get('upid');
  p.upid = upid !== null && /^\d+$/.test(upid) ? Number(upid) : null;
  p.heap = q.get('heap') ?? '';
  const at = q.get('at') ?? '';
  p.at = /^(peak|\d+)$/.test(at) ? at : '';
  p.max = q.get('max') === '1';
  const from = q.get('from') ?? '';
  p.from = /^\d+$/.test(from) ? from : '';
  const metric = q.get('metric');
  p.metric = METRICS.find((x) => x.id === metric)?.id ?? 'space';
  p.invert = q.get('invert') === '1';
  p.frames = q.get('frames') === 'all' ? 'all' : 'site';
  p.filters = q.getAll('f').filter((f) => f !== '');
  p.zoom = q.get('zoom') ?? '';
  p.search = q.get('search') ?? '';
  p.fn = q.get('fn') ?? '';
  p.sort = q.get('sort') ?? '';
  const theme = q.get('theme');
  p.theme = theme === 'light' || theme === 'dark' ? theme : '';
  return p;
}

export function format(p: Place): string {
  const q = new URLSearchParams();
  if (p.trace) q.set('trace', String(p.trace));
  if (p.upid !== null) q.set('upid', String(p.upid));
  if (p.heap) q.set('heap', p.heap);
  if (p.at) q.set('at', p.at);
  if (p.max) q.set('max', '1');
  if (p.from) q.set('from', p.from);
  if (p.metric !== 'space') q.set('metric', p.metric);
  if (p.invert) q.set('invert', '1');
  if (p.frames === 'all') q.set('frames', 'all');
  for (const f of p.filters) q.append('f', f);
  if (p.zoom) q.set('zoom', p.zoom);
  if (p.search) q.set('search', p.search);
  if (p.fn) q.set('fn', p.fn);
  if (p.sort) q.set('sort', p.sort);
  if (p.theme) q.set('theme', p.theme);
  const text = q.toString();
  return `#!/${p.page}${text ? `?${text}` : ''}`;
}

/** The token comes behind the '#' of the first address and leaves it at once. */
function takeToken(): string {
  const m = /^#token=([0-9a-f]+)/.exec(location.hash);
  if (m) {
    sessionStorage.setItem('token', m[1]);
    history.replaceState(null, '', location.pathname + '#!/');
  }
  return sessionStorage.getItem('token') ?? '';
}
export const token = takeToken();

export const place = signal<Place>(parse(location.hash));
addEventListener('hashchange', () => (place.value = parse(location.hash)));
addEventListener('popstate', () => (place.value = parse(location.hash)));

/** Goes somewhere; replace: no step for the back button (typing, dragging). */
export function go(change: Partial<Place>, replace = false): void {
  const next = { ...place.peek(), ...change };
  const hash = format(next);
  if (hash === location.hash) return;
  if (replace) history.replaceState(null, '', hash);
  else history.pushState(null, '', hash);
  place.value = next;
}

export const href = (change: Partial<Place>) => format({ ...place.value, ...change });

/** What a graph or table is made of; the server's parameters. */
/** Bottom-up trees are an order of magnitude larger: what is below a ten-thousandth is merged. */
export const INVERTED = '&invert=1&min_share=0.0001';

export const selection = computed(() => {
  const p = place.value;
  const q = new URLSearchParams();
  if (p.upid !== null) q.set('upid', String(p.upid));
  if (p.heap) q.set('heap', p.heap);
  if (p.at) q.set('at', p.at);
  if (p.max) q.set('max', '1');
  if (p.from) q.set('from', p.from);
  q.set('metric', p.metric);
  if (p.frames === 'all') q.set('frames', 'all');
  if (p.filters.length) q.set('filters', p.filters.join('\n'));
  return q.toString();
});
