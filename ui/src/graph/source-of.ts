// Where a function's source is, as symbols name it.
import { once, query } from '../app/answers';
import { go, place } from '../app/state';
import { quote } from '../parts/show-sql';

export interface SourcePlace {
  file: string;
  line: string;
  more: number; // further lines of the same function that symbols name
}

/** The file and the first line that symbols name for a function. */
export const sourceOf = (trace: number, name: string): Promise<SourcePlace | null> =>
  once(`source of ${trace} ${name}`, async () => {
    const r = await query(
      trace,
      `select source_file, min(line_number), count(distinct line_number) from stack_profile_symbol where source_file is not null and name = ${quote(name)} group by 1 order by 3 desc limit 1`,
    );
    const row = r.results[0]?.rows[0];
    return row ? { file: String(row[0]), line: String(row[1]), more: Number(row[2]) - 1 } : null;
  });

/** Goes there. */
export async function toSource(name: string): Promise<void> {
  const s = await sourceOf(place.peek().trace, name);
  go({ page: 'source', view: '', file: s?.file ?? '', line: s?.line ?? '' });
}
