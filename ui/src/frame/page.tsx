// The page that the URL names, or why it is not shown.
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { base, safe } from '../app/format';
import { isSaved, status, trouble } from '../app/server';
import { go, href, place } from '../app/state';
import type { Trace, Tracks } from '../app/types';
import { useDumpKeys } from '../parts/keys';
import { Losses } from '../parts/losses';
import { currentTrace, tracksOf, useTimeline } from '../parts/selected';
import { Busy, Failed } from '../parts/words';
import { NotSaved, notHere, Strayed, without, Without } from './notices';
import { hasTimes, pageOf, type PageRow, PAGES } from './pages';
import { Reading, Unnamed, Unreadable } from './states';

/** Where nearly everything was freed at the end, pages show the peak until another moment is chosen; the
 * address says so. */
function useFirstMoment(tracks: Tracks | null): void {
  const p = place.value;
  const atPeak = !!tracks?.cleaned_up && !!tracks.peak && !p.at && !p.from && p.heap === '';
  useEffect(() => {
    if (atPeak) go({ at: 'peak', max: false }, true);
  }, [atPeak]);
}

function NeedsProfile({ row, trace }: { row: PageRow & { needs: 'profile' }; trace: Trace }) {
  const answer = useTimeline();
  const tracks = tracksOf(answer.value, row.sum);
  useDumpKeys(tracks);
  useFirstMoment(tracks);
  const lost = answer.value && tracks ? notHere(answer.value) : null;
  useEffect(() => {
    if (!lost) return;
    without.value = { ...lost, trace: place.peek().trace, page: place.peek().page };
    go(lost.change, true);
  });
  if (lost) return <Busy what="Reading dumps" />;
  if (answer.error) return <Failed text={answer.error} />;
  if (!answer.value) return <Busy what="Reading dumps" />;
  if (!tracks && row.other && hasTimes(trace)) return <row.other trace={trace} />;
  if (!tracks)
    return (
      <div class="empty">
        <p>{safe(base(trace.name))} holds no native heap profile.</p>
        <p class="dim">
          {trace.heap_graphs ? (
            <>
              It has{' '}
              {trace.heap_graphs === 1 ? 'a managed heap graph' : `${trace.heap_graphs} managed heap graphs`}:{' '}
              <a href={href({ page: 'heap' })}>Managed heap</a>
            </>
          ) : (
            <>
              <code>heapwise stats</code> tells what is in it.
            </>
          )}
        </p>
      </div>
    );
  return <row.view tracks={tracks} all={answer.value} trace={trace} key={row.id} />;
}

export function Page() {
  const trace = currentTrace();
  const row = pageOf(place.value.page);
  if (trouble.value === 'token')
    return (
      <div class="empty" role="alert">
        <p>
          <b>This page needs its address.</b>
        </p>
        <p>
          Open the one that <code>heapwise ui</code> printed, or the one in the file that it named: it ends in{' '}
          <code>#token=…</code> and is known only to whoever started it.
        </p>
      </div>
    );
  if (!status.value) return <Busy what="Asking the server" />;
  if (isSaved() && !row.saved) return <NotSaved label={row.label} />;
  const title = row.id !== 'overview' && row.id !== 'home' && <h1 class="sr">{row.label}</h1>;
  if (row.needs === 'nothing')
    return (
      <>
        {title}
        <row.view />
      </>
    );
  if (!trace) {
    const Home = PAGES[0].view as ComponentType;
    return <Home />;
  }
  if (trace.state === 'loading') return <Reading trace={trace} />;
  if (trace.state === 'failed') return <Unreadable trace={trace} />;
  return (
    <>
      {title}
      <Strayed trace={trace} />
      <Without />
      <Losses trace={trace} />
      <Unnamed trace={trace} />
      {row.needs === 'trace' ? (
        <row.view trace={trace} key={`${row.id} ${trace.id}`} />
      ) : (
        <NeedsProfile row={row} trace={trace} key={trace.id} />
      )}
    </>
  );
}
