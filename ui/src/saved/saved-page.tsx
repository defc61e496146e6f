// A page that was saved as a file: the same pages, answered by what the file holds. No request leaves it.
import { render } from 'preact';
import { followEntry } from '../app/entry';
import { takeUnits } from '../app/format';
import { answerBy } from '../app/server';
import { App } from '../frame/frame';
import { applyTheme } from '../frame/theme';
import { type Answers, NOT_HERE, readAnswers } from './packed-answers';
import { BadFilter } from './narrow';

/** /api/v1/traces/ID/NAME?… and /api/v1/NAME */
const QUESTION = /^\/api\/v1\/(?:traces\/\d+\/)?([a-z/-]+)(?:\?(.*))?$/s;

async function respond(answers: Answers, path: string, init: RequestInit): Promise<Response> {
  const [, name, query] = QUESTION.exec(path) ?? [];
  try {
    const found = name && !init.method ? await answers.find(name, query ?? '') : null;
    return found === null ? new Response(NOT_HERE, { status: 404 }) : new Response(found);
  } catch (e) {
    if (e instanceof BadFilter) return new Response(e.message, { status: 400 });
    throw e;
  }
}

async function begin(app: HTMLElement): Promise<void> {
  const answers = await readAnswers(document.getElementById('answers')!.textContent!);
  takeUnits();
  applyTheme();
  await answerBy((path, init) => respond(answers, path, init));
  followEntry();
  app.replaceChildren(); // what stood there until now
  render(<App />, app);
}

const app = document.getElementById('app')!;
begin(app).catch((e: Error) => {
  app.textContent = `This file cannot be shown: ${e.message}`;
});
