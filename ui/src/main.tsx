// Entry point: loads stored settings, connects to the server, shows the frame.
import { render } from 'preact';
import { followEntry } from './app/entry';
import { takeUnits } from './app/format';
import { loadKept } from './app/kept';
import { keepRecent } from './app/recent';
import { followServer } from './app/server';
import { place } from './app/state';
import { App } from './frame/frame';
import { fetchPage } from './frame/pages';
import { applyTheme } from './frame/theme';

fetchPage(place.peek().page); // comes beside the settings
await loadKept();
takeUnits();
applyTheme();
followServer();
followEntry();
keepRecent();
const app = document.getElementById('app')!;
app.replaceChildren(); // what stood there until now
render(<App />, app);

// What is visited next is there by then.
const idle = window.requestIdleCallback ?? setTimeout;
idle(() => ['flame', 'timeline'].forEach(fetchPage));
