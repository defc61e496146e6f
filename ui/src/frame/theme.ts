// Light, dark, high contrast: what the address says, else what was chosen, else the system.
import { effect } from '@preact/signals';
import { go, place } from '../app/state';
import { remembered } from '../app/store';

export const dark = matchMedia('(prefers-color-scheme: dark)');

export const applyTheme = () =>
  effect(() => {
    const theme = place.value.theme || remembered<string[]>('theme', [])[0];
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    dispatchEvent(new Event('themechange'));
  });

export function toggleTheme(): void {
  const now = place.peek().theme || (dark.matches ? 'dark' : 'light');
  go({ theme: now === 'dark' ? 'light' : 'dark' }, true);
}
