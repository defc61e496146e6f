// Entry point: loads stored settings, connects to the server, shows the frame.
import { render } from 'preact';
import { followEntry } from './app/entry';
import { takeUnits } from './app/format';
import { loadKept } from './app/kept';
import { followServer } from './app/server';
import { App } from './frame/frame';
import { applyTheme } from './frame/theme';
import { keepRecent } from './pages/home';

await loadKept();
takeUnits();
applyTheme();
followServer();
followEntry();
keepRecent();
const app = document.getElementById('app')!;
app.replaceChildren(); // what stood there until now
render(<App />, app);
