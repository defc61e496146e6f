// The URL is the state: #!/page/arg?key=value. Everything a page shows can be sent as a link. Each area
// has its
// fields in a file beside this one; here they become one flat place, and a place becomes an address. Pure.
import { remembered } from '../store';
import type { Field, Fields, Values } from './fields';
import { FINDINGS } from './findings';
import { FLEET } from './fleet';
import { GRAPH } from './graph-fields';
import { HEAP } from './heap';
import { INFRA } from './infra';
import { PAGE_FIELDS } from './pages';
import { SELECTION } from './selection-fields';

const FIELDS = {
  ...SELECTION,
  ...GRAPH,
  ...FINDINGS,
  ...PAGE_FIELDS,
  ...HEAP,
  ...INFRA,
  ...FLEET,
} satisfies Fields;
type Named = Values<typeof FIELDS>;
type Key = keyof Named;

export interface Place extends Named {
  page: string;
  arg: string; // the number behind it: #!/live/4711
  filters: string[]; // in the address: f=…&f=…
}

const KEYS = Object.keys(FIELDS) as Key[];
const emptyOf = (keys: Key[]) =>
  Object.fromEntries(keys.map((key) => [key, FIELDS[key].empty])) as unknown as Named;
const EMPTY: Place = { page: '', arg: '', filters: [], ...emptyOf(KEYS) };

export const defaultFilters = (): string[] => remembered<string[]>('default-filters', []);

/** What another trace begins with. */
export const fresh: Partial<Place> = {
  ...emptyOf(KEYS.filter((key) => (FIELDS[key] as Field<unknown>).ofTrace)),
  get filters() {
    return defaultFilters();
  },
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
    if (text !== null) Object.assign(p, { [key]: FIELDS[key].read(text) });
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

/** The place after a change; the number behind a page's name, what is open and a form are that page's. */
export const changed = (p: Place, change: Partial<Place>): Place => ({
  ...p,
  ...(change.page ? { arg: '', open: '', form: '' } : {}),
  ...change,
});
