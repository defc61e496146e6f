// What stands around a page: sidebar and top bar.
import { useEffect } from 'preact/hooks';
import { strayed } from '../app/entry';
import { closeTrace } from '../app/files';
import { base, bytes, safe } from '../app/format';
import { words } from '../app/recent';
import { isSaved, status } from '../app/server';
import { go, href, place } from '../app/state';
import type { Trace } from '../app/types';
import { fresh } from '../app/url/place';
import { isTyping } from '../parts/keys';
import { currentTrace } from '../parts/selected';
import { ShareButton, UnitsToggle } from './buttons';
import { help, Help } from './help';
import { Gone, Unknown } from './notices';
import { Omnibox } from './omnibox';
import { Page } from './page';
import { GROUPS, pageOf, PAGES, whyMissing } from './pages';
import { dark, toggleTheme } from './theme';

const Icon = ({ d }: { d: string }) => (
  <svg viewBox="0 0 24 24" width="16" height="16" aria-hidden="true">
    <path d={d} fill="currentColor" />
  </svg>
);

function Sidebar({ trace }: { trace: Trace | null }) {
  const page = place.value.page;
  return (
    <nav class="side" aria-label="Pages">
      <a
        class="brand"
        href={href({ page: isSaved() ? 'overview' : 'home' })}
        aria-label={isSaved() ? 'heapwise: overview' : 'heapwise: home'}>
        <svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
          <rect y="1" width="16" height="4" rx="1" fill="#d9702b" />
          <rect y="6" width="11" height="4" rx="1" fill="#e8973f" />
          <rect y="11" width="6" height="4" rx="1" fill="#f2bb62" />
        </svg>
        <span>heapwise</span>
      </a>
      {GROUPS.map((group) => ({
        group,
        pages: PAGES.filter((x) => x.group === group && !whyMissing(x, trace)),
      }))
        .filter(({ pages }) => pages.length)
        .map(({ group, pages }) => (
          <div class="group" role="group" aria-label={group}>
            <h2 aria-hidden="true">{group}</h2>
            {pages.map((x) => (
              <a
                href={href({ page: x.id })}
                aria-current={page === x.id ? 'page' : undefined}
                title={x.label}
                aria-label={x.label}>
                <Icon d={x.icon} />
                <span>{x.label}</span>
              </a>
            ))}
          </div>
        ))}
    </nav>
  );
}

/** The trace: its name or one of several, how to close it, what is in it. */
function TraceName({ trace, traces }: { trace: Trace | null; traces: Trace[] }) {
  const shown = trace && place.value.page !== 'home';
  const close = (t: Trace) =>
    void closeTrace(t.id).then(() => {
      go({ ...fresh, page: 'home', trace: 0 });
      strayed.value = null;
    });
  return (
    <>
      {traces.length > 1 && trace ? (
        <select
          aria-label="Trace"
          value={String(trace.id)}
          onChange={(e) => go({ ...fresh, trace: Number(e.currentTarget.value) })}>
          {traces.map((t) => (
            <option value={String(t.id)}>{safe(base(t.name))}</option>
          ))}
        </select>
      ) : (
        <b>{shown ? safe(base(trace.name)) : 'heapwise'}</b>
      )}
      {shown && !isSaved() && (
        <button
          type="button"
          class="close"
          aria-label={`Close ${safe(base(trace.name))}`}
          title="Close this trace; the file stays"
          onClick={() => close(trace)}>
          ×
        </button>
      )}
      {shown && (
        <span class="dim about">
          {bytes(trace.bytes)} · {words(trace)}
        </span>
      )}
    </>
  );
}

function TopBar({ trace }: { trace: Trace | null }) {
  return (
    <header>
      <TraceName trace={trace} traces={status.value?.traces ?? []} />
      <span class="grow" />
      <Omnibox trace={trace} />
      <UnitsToggle />
      {!isSaved() && <ShareButton />}
      <button type="button" onClick={toggleTheme}>
        {(place.value.theme || (dark.matches ? 'dark' : 'light')) === 'dark' ? 'Light' : 'Dark'}
      </button>
      <button type="button" aria-label="Help" title="Help (?)" onClick={() => (help.value = true)}>
        ?
      </button>
    </header>
  );
}

function useTitle(trace: Trace | null): void {
  const page = place.value.page;
  useEffect(() => {
    document.title = `${trace ? `${safe(base(trace.name))} · ` : ''}${page === 'home' || !trace ? 'heapwise' : pageOf(page).label}`;
  }, [trace?.name, page]);
}

function skip(e: Event): void {
  e.preventDefault();
  document.getElementById('main')?.focus();
}

export function App() {
  const trace = currentTrace();
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key === '?' && !isTyping(e)) help.value = !help.value;
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
  useTitle(trace);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the page
      </a>
      <Sidebar trace={trace} />
      <TopBar trace={trace} />
      <main id="main" tabIndex={-1}>
        <Gone />
        <Unknown />
        <Page />
      </main>
      <Help />
    </>
  );
}
