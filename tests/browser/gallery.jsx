// Every component of the page in its states, drawn by the page's own code and styles (gallery.mjs). Each stands in a
// box with a name; `at` is what of it is pointed at or has the focus.
import { render } from 'preact';
import { Choice } from '../../ui/src/parts/choice';
import { Menu } from '../../ui/src/parts/menu';
import { Spark } from '../../ui/src/parts/spark';
import { Head, Scroll, SqlLink } from '../../ui/src/parts/table';
import { Busy, CloseNote, Failed, Figure } from '../../ui/src/parts/words';
import { lazy } from '../../ui/src/frame/lazy';
import { NotSaved } from '../../ui/src/frame/notices';
import { Reading, Unreadable } from '../../ui/src/frame/states';

const trace = { id: 1, name: 'app.trace', path: null, bytes: 1 << 20, state: 'loading', seconds: 1, read: 1 << 19, stage: 'reading' };
const nothing = () => {};
const VERDICTS = ['leak', 'grow', 'calm'];
const COMPONENTS = {
  heading: <h1>redis-server <span class="dim">pid 1 · 8 dumps</span></h1>,
  section: <h2>Who holds it</h2>,
  statement: <p class="statement">Live at 00:01.00</p>,
  link: <a href="#!/overview">Overview</a>,
  button: <button type="button">Add</button>,
  'button, first choice': <button type="button" class="primary">Record</button>,
  'button, not now': <button type="button" disabled>Add</button>,
  'button, small': <button type="button" class="small">Forget</button>,
  'button, pressed': <button type="button" class="toggle" aria-pressed>Collapse</button>,
  'button, plain': <button type="button" class="plain">name</button>,
  choice: <Choice label="Metric" value="a" onChange={nothing} options={[{ id: 'a', label: 'Live size' }, { id: 'b', label: 'Live count' }]} />,
  text: <input type="text" placeholder="text" />,
  'text, filled': <input type="text" value="main" />,
  search: <input type="search" placeholder="Search" />,
  select: <select><option>none</option></select>,
  tick: <label class="tick"><input type="checkbox" checked /> hide noise</label>,
  figure: <Figure label="Live" value="8.68 MiB" note="±3.6 %" />,
  'figure that leads': <Figure label="Live" value="8.68 MiB" note="±3.6 %" to="#!/flame" sql="#!/query" />,
  empty: <p class="empty">No function changed.</p>,
  busy: <Busy what="Drawing" />,
  failed: <Failed text="the server says no" />,
  note: <div class="banner note closable" role="status"><span>33 % have no name. <a href="#!/symbols">Symbols</a></span><CloseNote onClose={nothing} /></div>,
  bad: <div class="banner bad" role="alert"><span>Data is missing.</span></div>,
  reading: <Reading trace={trace} />,
  unreadable: <Unreadable trace={{ ...trace, state: 'failed', error: 'not a trace', head: '7f 45' }} />,
  'not in this file': <NotSaved label="SQL" />,
  chip: <span class="chip">since 00:01.00 <button type="button" aria-label="Remove">×</button></span>,
  'sql link': <SqlLink to="#!/query" />,
  table: (
    <Scroll label="Table">
      <table class="top">
        <Head columns={[['Live', 'num'], 'Share', 'Function']} />
        <tbody>
          <tr><td class="num">8.00 MiB</td><td><span class="share"><i style={{ width: '50%' }} /><b>50.0 %</b></span></td><td>main</td></tr>
          <tr class="few"><td class="num">4.00 KiB</td><td><span class="share rough"><i style={{ width: '1%' }} /><b>0.1 %</b></span></td><td>few samples</td></tr>
          <tr><td class="num grew">▲ +1 MiB</td><td class="num shrank">▼ −1 MiB</td><td>grew, shrank</td></tr>
        </tbody>
      </table>
    </Scroll>
  ),
  verdicts: VERDICTS.map((tone) => <button type="button" class={`verdict ${tone}`}>{tone}</button>),
  curve: <Spark values={[1, 2, 3]} tone="leak" />,
  list: <ul class="list"><li><button type="button" class="item"><b>server</b> <span class="dim">a server</span></button></li></ul>,
  legend: <ul class="legend"><li><i class="grew" />grew</li><li><i class="shrank" />shrank</li><li><i class="same" />same</li><li><i class="lone" />one side</li></ul>,
};

render(
  <main>{Object.entries(COMPONENTS).map(([name, drawn]) => <section data-name={name}>{drawn}</section>)}</main>,
  document.getElementById('app'),
);
window.openMenu = () => {
  const box = document.createElement('section');
  box.dataset.name = 'menu';
  document.body.append(box);
  render(<Menu title="main" x={20} y={20} onClose={nothing} items={[{ label: 'Zoom in', key: '↵', act: nothing }, null, { label: 'Copy name', act: nothing }]} />, box);
};
/** A page that somebody else has loaded between its first drawing and what happens behind that. */
window.openLate = () => {
  const Late = lazy(async () => () => <p id="late">here</p>);
  const box = document.body.appendChild(document.createElement('section'));
  render(<Late />, box);
  void Late.fetch();
};
