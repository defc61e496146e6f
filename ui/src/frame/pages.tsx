// Every page is a row: where it stands in the sidebar, what it needs, and what draws it. All but the first
// one are loaded when they are visited: `lazy`.
import type { ComponentType } from 'preact';
import { isSaved, status } from '../app/server';
import type { Status, Trace } from '../app/types';
import { OverviewPage } from '../pages/overview';
import type { ProfileProps } from '../parts/selected';
import { type Lazy, lazy } from './lazy';

/** Parts of the sidebar. */
export const GROUPS = ['Record', 'Explore', 'Tools'] as const;
type Group = (typeof GROUPS)[number];

interface Common {
  id: string; // in the URL
  label: string;
  group: Group;
  icon: string; // path in a box of 24 by 24
  /** A page that was saved as a file has it, too. */
  saved?: true;
  /** Why it does not apply to the trace; '' or none: it does. */
  missing?(trace: Trace): string;
}

/** Shown always; absent: why the server has none, '' = it has. */
type FreePage = Common & { needs: 'nothing'; absent?(s: Status | null): string; view: ComponentType };
/** Shown for any trace that could be read. */
type TracePage = Common & { needs: 'trace'; view: ComponentType<{ trace: Trace }> };
/** Shown for a trace with a native heap profile. */
type ProfilePage = Common & {
  needs: 'profile';
  other?: ComponentType<{ trace: Trace }>; // draws it when there is none, but something else that has a time
  sum?: true; // it can show several processes as one
  view: ComponentType<ProfileProps>;
};
export type PageRow = FreePage | TracePage | ProfilePage;

export const PAGES: PageRow[] = [
  {
    id: 'home',
    group: 'Record',
    label: 'Home',
    icon: 'M3 11l9-8 9 8v10h-6v-6h-6v6H3z',
    needs: 'nothing',
    view: lazy(async () => (await import('../pages/home')).Home),
  },
  {
    id: 'record',
    group: 'Record',
    label: 'Record',
    icon: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 5a4 4 0 1 1 0 8 4 4 0 0 1 0-8z',
    needs: 'nothing',
    view: lazy(async () => (await import('../record/record')).RecordPage),
  },
  {
    id: 'live',
    group: 'Record',
    label: 'Live',
    icon: 'M3 13h4l2-6 4 12 3-9 2 3h3v2h-4l-1-1.500-4 11-4-12-1 2.500H3z',
    needs: 'nothing',
    view: lazy(async () => (await import('../record/live')).LivePage),
  },
  {
    id: 'fleet',
    group: 'Explore',
    label: 'Fleet',
    icon: 'M3 3h7v5H3zM14 3h7v5h-7zM3 16h7v5H3zM14 16h7v5h-7zM6 8h1.500v3h9V8H18v3.500h-5V13h5v3h-1.500v-2h-9v2H6v-3h5v-1.500H6z',
    needs: 'nothing',
    absent: (s) => (s?.fleet ? '' : 'no store is configured'),
    view: lazy(async () => (await import('../pages/fleet')).FleetPage),
  },
  {
    id: 'memory-internals',
    group: 'Record',
    label: 'Memory internals',
    icon: 'M6 3h12v3h3v2h-3v3h3v2h-3v3h3v2h-3v3H6v-3H3v-2h3v-3H3v-2h3V8H3V6h3zM9 7v10h6V7z',
    needs: 'nothing',
    view: lazy(async () => (await import('../record/internals')).InternalsPage),
  },
  {
    id: 'overview',
    saved: true,
    group: 'Explore',
    label: 'Overview',
    icon: 'M3 3h7v7H3zM14 3h7v4h-7zM14 11h7v10h-7zM3 14h7v7H3z',
    needs: 'profile',
    view: OverviewPage,
  },
  {
    id: 'timeline',
    saved: true,
    group: 'Explore',
    label: 'Timeline',
    icon: 'M3 18l5-7 4 4 5-9 4 5v8H3z',
    needs: 'profile',
    sum: true,
    view: lazy(async () => (await import('../timeline/timeline-page')).TimelinePage),
    other: lazy(async () => (await import('../timeline/other-timeline')).OtherTimeline),
  },
  {
    id: 'flame',
    saved: true,
    group: 'Explore',
    label: 'Flamegraph',
    icon: 'M3 3h18v4H3zM3 9h12v4H3zM3 15h7v4H3z',
    needs: 'profile',
    sum: true,
    view: lazy(async () => (await import('../graph/flame-page')).FlamePage),
  },
  {
    id: 'functions',
    group: 'Explore',
    label: 'Functions',
    icon: 'M3 4h18v3H3zM3 10h18v3H3zM3 16h18v3H3z',
    needs: 'profile',
    sum: true,
    view: lazy(async () => (await import('../graph/functions')).FunctionsPage),
  },
  {
    id: 'tree',
    saved: true,
    group: 'Explore',
    label: 'Call tree',
    icon: 'M3 3h8v4H3zM11 10h10v4H11zM11 17h10v4H11zM6 8h2v11h2v2H6z',
    needs: 'profile',
    sum: true,
    view: lazy(async () => (await import('../graph/call-tree')).TreePage),
  },
  {
    id: 'diff',
    saved: true,
    group: 'Explore',
    label: 'Diff',
    icon: 'M3 4h8v4H3zM3 10h5v4H3zM3 16h8v4H3zM13 4h8v4h-8zM13 10h8v4h-8zM13 16h4v4h-4z',
    needs: 'profile',
    view: lazy(async () => (await import('../graph/diff')).DiffPage),
  },
  {
    id: 'leaks',
    saved: true,
    group: 'Explore',
    label: 'Leaks',
    icon: 'M12 2l7 11a7 7 0 1 1-14 0zM9 14a3 3 0 0 0 3 3v-2a1 1 0 0 1-1-1z',
    needs: 'profile',
    view: lazy(async () => (await import('../pages/leaks')).LeaksPage),
  },
  {
    id: 'sizes',
    group: 'Explore',
    label: 'Sizes',
    icon: 'M3 20h18v1H3zM4 14h3v5H4zM8 8h3v11H8zM12 4h3v15h-3zM16 10h3v9h-3z',
    needs: 'profile',
    view: lazy(async () => (await import('../pages/sizes')).SizesPage),
  },
  {
    id: 'accounting',
    saved: true,
    group: 'Explore',
    label: 'Accounting',
    icon: 'M3 20V4h2v14h16v2zM7 13h3v4H7zM12 9h3v8h-3zM17 5h3v12h-3z',
    needs: 'profile',
    view: lazy(async () => (await import('../pages/accounting')).AccountingPage),
  },
  {
    id: 'heap',
    saved: true,
    group: 'Explore',
    label: 'Managed heap',
    icon: 'M12 2l4 4-4 4-4-4zM5 13l4 4-4 4-4-4zM19 13l4 4-4 4-4-4zM11 10h2v3h5v2H6v-2h5z',
    needs: 'trace',
    view: lazy(() => import('../heap/heap').then((m) => m.HeapPage)),
    missing: (t) => (t.heap_graphs ? '' : 'the trace holds no dump of a managed heap'),
  },
  {
    id: 'memory-infra',
    group: 'Explore',
    label: 'MemoryInfra',
    icon: 'M12 2a10 10 0 1 0 .01 0zM7 17V7h2l3 5 3-5h2v10h-2v-6l-3 5-3-5v6z',
    needs: 'trace',
    view: lazy(() => import('../infra/infra').then((m) => m.InfraPage)),
    missing: (t) => (t.memory_dumps ? '' : 'the trace holds no memory dump'),
  },
  {
    id: 'query',
    group: 'Tools',
    label: 'SQL',
    icon: 'M4 5c0-4 16-4 16 0v14c0 4-16 4-16 0zm2 3.2v2.6c3 2 9 2 12 0V8.2c-3 1.4-9 1.4-12 0z',
    needs: 'trace',
    view: lazy(() => import('../sql/sql').then((m) => m.SqlPage)),
  },
  {
    id: 'source',
    group: 'Tools',
    label: 'Source',
    icon: 'M8 5l-6 7 6 7 1.8-1.5L5 12l4.8-5.5zM16 5l6 7-6 7-1.8-1.5L19 12l-4.8-5.5z',
    needs: 'profile',
    view: lazy(() => import('../pages/source').then((m) => m.SourcePage)),
  },
  {
    id: 'symbols',
    group: 'Tools',
    label: 'Symbols',
    icon: 'M3 4h7l2 3h9v13H3zM7 11v2h10v-2zM7 15v2h7v-2z',
    needs: 'trace',
    view: lazy(() => import('../pages/symbols').then((m) => m.SymbolsPage)),
  },
  {
    id: 'info',
    group: 'Tools',
    label: 'Info',
    icon: 'M12 2a10 10 0 1 0 .01 0zM11 10h2v8h-2zM11 6h2v2h-2z',
    needs: 'trace',
    view: lazy(() => import('../pages/info').then((m) => m.InfoPage)),
  },
  {
    id: 'settings',
    group: 'Tools',
    label: 'Settings',
    icon: 'M3 6h9v2H3zM16 6h5v2h-5zM12 4h3v6h-3zM3 16h4v2H3zM11 16h10v2H11zM7 14h3v6H7z',
    needs: 'nothing',
    view: lazy(() => import('../pages/settings').then((m) => m.SettingsPage)),
  },
];

export const isPage = (id: string): boolean => PAGES.some((x) => x.id === id);

/** Begins to load what draws a page; who visits it is told if that fails. */
export function fetchPage(id: string): void {
  const view = PAGES.find((x) => x.id === id)?.view as Partial<Lazy<object>> | undefined;
  view?.fetch?.().catch(() => {});
}

/** The row that a place names; an unknown one is the overview. */
export const pageOf = (id: string): PageRow =>
  PAGES.find((x) => x.id === id) ?? PAGES.find((x) => x.id === 'overview')!;

/** Whether there is more to a timeline than native heap profiles. */
export const hasTimes = (trace: Trace): boolean =>
  !!(trace.heap_graphs || trace.memory_dumps || trace.slices);

/** '' when the page applies to the trace, otherwise why not. */
export function whyMissing(row: PageRow, trace: Trace | null): string {
  if (isSaved() && !row.saved) return 'this file does not hold it';
  if (row.needs === 'nothing') return row.absent?.(status.value) ?? '';
  if (trace?.state !== 'ready') return 'no trace is open';
  if (row.needs === 'profile' && !trace.processes?.length && !(row.other && hasTimes(trace)))
    return 'the trace holds no native heap profile';
  return row.missing?.(trace) ?? '';
}
