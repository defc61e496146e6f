// Opening, closing and saving files.
import { ask } from './server';

export async function openPath(path: string): Promise<number> {
  return (await (await ask(`/api/v1/traces?path=${encodeURIComponent(path)}`, { method: 'POST' })).json()).id;
}

export async function openSample(name: string): Promise<number> {
  return (await (await ask(`/api/v1/traces?sample=${encodeURIComponent(name)}`, { method: 'POST' })).json())
    .id;
}

export async function openFile(file: File): Promise<number> {
  return (
    await (
      await ask(`/api/v1/traces?name=${encodeURIComponent(file.name)}`, { method: 'POST', body: file })
    ).json()
  ).id;
}

export async function download(format: string, trace: number, query: string): Promise<void> {
  const r = await ask(`/api/v1/export/${format}?trace=${trace}&${query}`);
  const name = /filename="([^"]+)"/.exec(r.headers.get('Content-Disposition') ?? '')?.[1] ?? `heap.${format}`;
  save(await r.blob(), name);
}

export function save(blob: Blob, name: string): void {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}

export const closeTrace = (id: number): Promise<unknown> => ask(`/api/v1/traces/${id}`, { method: 'DELETE' });
