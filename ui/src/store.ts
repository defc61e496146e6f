// What the browser keeps of a user's own things between visits. Any of it may be missing or foreign.
export function remembered<T>(key: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(`heapwise.${key}`);
    const v = text === null ? otherwise : JSON.parse(text);
    return Array.isArray(v) === Array.isArray(otherwise) && typeof v === typeof otherwise ? v : otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(key: string, value: unknown): void {
  try {
    localStorage.setItem(`heapwise.${key}`, JSON.stringify(value));
  } catch {
    /* full or forbidden: it is only convenience */
  }
}
