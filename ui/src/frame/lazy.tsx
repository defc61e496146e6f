// A page in a file of its own, loaded when it is visited, or before.
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Busy, Failed } from '../parts/words';

export type Lazy<P> = ComponentType<P> & { fetch(): Promise<void> };

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): Lazy<P> {
  let there: ComponentType<P> | null = null;
  const fetch = async () => {
    there ??= await load();
  };
  function Loaded(props: P) {
    const [state, set] = useState<'' | 'ready' | 'failed'>('');
    useEffect(() => {
      // Also if it is there by now: it may have come between the drawing and this, and then nothing
      // else draws it.
      fetch().then(
        () => set('ready'),
        () => set('failed'),
      );
    }, []);
    const View = there;
    if (View) return <View {...props} />;
    return state === 'failed' ? (
      <Failed text="Part of the page could not be loaded. Is the server still running? Reload to try again." />
    ) : (
      <Busy what="Loading" />
    );
  }
  return Object.assign(Loaded, { fetch });
}
