// What the server tells of tracked processes, and orders to it (doc/design/memory-internals.md).
import { ask } from '../app/server';

export interface Detail {
  role: string;
  user: string;
  rss: number;
  recording: string | null;
  code: string | null;
  reason: string | null;
  remedy: string | null;
  command?: string;
  state?: string;
  seconds?: number;
  sampling_rate?: number;
  stack_mode?: string;
  samples?: number;
  live?: number;
  dropped?: number;
}
export interface Internals {
  message: string;
  mode: string;
  stack_mode: string;
  sampling_rate: number;
  modes: string[];
  stack_modes: string[];
  sampling_rates: number[];
  unsupported: { code: string; reason: string; remedy: string | null } | null;
  processes: [pid: number, name: string, tracked: boolean][];
  details: Record<string, Detail>;
  saving: boolean;
}
export interface Saved {
  id: number;
  trace_id: number;
  json: string;
  trace: string;
  processes: number;
  failed: { pid: number; name: string; why: string }[];
}

export const PATH = '/api/v1/memory-internals/';
export const WORDS = 'words';

export async function command(verb: string, words: object): Promise<Record<string, number>> {
  return (await ask(PATH + verb, { method: 'POST', body: JSON.stringify(words) })).json();
}

/** The events of an answer, as they come. */
export async function* events(r: Response): AsyncGenerator<{ name: string; data: unknown }> {
  const reader = r.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    text += value ?? '';
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const lines = text.slice(0, end).split('\n');
      const data = lines
        .filter((l) => l.startsWith('data:'))
        .map((l) => l.slice(5).trimStart())
        .join('\n');
      if (data)
        yield {
          name:
            lines
              .find((l) => l.startsWith('event:'))
              ?.slice(6)
              .trim() ?? 'message',
          data: JSON.parse(data),
        };
    }
    if (done) return;
  }
}
