// The page begins: what was kept, the server, and the frame.
import { render } from 'preact';
import { follow, loadKept } from './app/api';
import { takeUnits } from './app/format';
import { App } from './frame/frame';
import { applyTheme } from './frame/theme';
import { keepRecent } from './pages/home';

await loadKept();
takeUnits();
applyTheme();
follow();
keepRecent();
const app = document.getElementById('app')!;
app.replaceChildren(); // what stood there until now
render(<App />, app);
