// A field of the URL's state: what it is where the URL does not name it, and how its text is read. Pure.

export interface Field<T> {
  empty: T;
  read(text: string): T; // what makes no sense is as if it were not there
  ofTrace?: true; // another trace begins without it
}
export type Fields = Record<string, Field<string> | Field<boolean> | Field<number> | Field<number | null>>;
export type Values<F> = { [K in keyof F]: F[K] extends Field<infer T> ? T : never };

/** Any text, or text of one form. */
export const text = (form?: RegExp): Field<string> => ({
  empty: '',
  read: (t) => (!form || form.test(t) ? t : ''),
});
export const flag: Field<boolean> = { empty: false, read: (t) => t === '1' };
export const number: Field<string> = text(/^\d+$/);
/** Nanoseconds; memory dumps may be before the clock's begin. */
export const time: Field<string> = text(/^-?\d+$/);
export const numbers: Field<string> = text(/^\d+(,\d+)*$/);

export const ofTrace = <T>(field: Field<T>): Field<T> => ({ ...field, ofTrace: true });
