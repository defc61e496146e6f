// What the SQL page does to the text of a query: its parameters, where an error stands, queries made of
// queries. Pure.
import type { Schema } from './sql-schema';

/** The frames of one callstack. */
export const stackSql = (callsite: number) =>
  `-- the frames of one callstack, outermost first\nwith recursive up(id) as (values (${callsite}) union all\n  select c.parent_id from stack_profile_callsite c join up on c.id = up.id where c.parent_id is not null)\nselect c.depth, demangle(f.name) as name, m.name as module, f.rel_pc, s.source_file, s.line_number\nfrom up join stack_profile_callsite c using (id)\njoin stack_profile_frame f on f.id = c.frame_id\njoin stack_profile_mapping m on m.id = f.mapping\nleft join stack_profile_symbol s on s.symbol_set_id = f.symbol_set_id and not s.inlined\norder by c.depth`;

/** A result of (callsite_id, value) as the tree of its callstacks. */
export const callsitesSql = (sql: string) =>
  `with recursive v(callsite_id, value) as (select callsite_id, sum(value) from (\n${sql.replace(/[\s;]+$/, '')}\n) group by 1),\n up(id) as (select callsite_id from v union select c.parent_id from up join stack_profile_callsite c on c.id = up.id where c.parent_id is not null)\nselect c.id, c.parent_id, coalesce(nullif(demangle(coalesce(f.deobfuscated_name, f.name)), ''), m.name || printf('+0x%x', f.rel_pc)) as name, coalesce(v.value, 0) as value\nfrom up join stack_profile_callsite c using (id)\njoin stack_profile_frame f on f.id = c.frame_id\njoin stack_profile_mapping m on m.id = f.mapping\nleft join v on v.callsite_id = c.id`;

/** A result again in another order; '' where it is none of one question. */
export function sortedSql(sql: string, by: { name: string; down: boolean }[]): string {
  const inner = sql.replace(/[\s;]+$/, '');
  if (!/^\s*(--[^\n]*\n\s*)*(select|with|values)\b/i.test(inner)) return '';
  return `select * from (\n${inner}\n) order by ${by.map((s) => `"${s.name.replace(/"/g, '""')}" ${s.down ? 'desc' : 'asc'}`).join(', ')}`;
}

/** $ts, $upid: what is selected. Not inside functions that a script defines: there they are its own. */
export function bind(sql: string, values: Record<string, string>): string {
  if (/create\s+(or\s+replace\s+)?perfetto\s+(function|macro)/i.test(sql)) return sql;
  return sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\$(ts|upid)\b/g, (all, name) =>
    name ? values[name] : all,
  );
}

/** Where in the text the server's message points: "line N:  text" with a caret below. */
export function pointed(error: string, sql: string): { message: string; at: number | null } {
  const alone = error.replace(/\n\s*line \d+:[\s\S]*$/, ''); // the editor has the line itself
  const m = /^([\s\S]*?)\n\s*line (\d+):  (.*)\n( *)\^/.exec(error);
  if (!m) {
    // SQLite names what it does not know, without saying where
    const word = /no such \w+: (?:\w+\.)?(\w+)|near "([^"]+)"/.exec(error);
    const found = word && new RegExp(`\\b${(word[1] ?? word[2]).replace(/\W/g, '\\$&')}\\b`, 'i').exec(sql);
    return { message: alone, at: found ? found.index : null };
  }
  const lines = sql.split('\n');
  const line = Math.min(lines.length, Number(m[2])) - 1;
  const before = lines.slice(0, line).reduce((a, l) => a + l.length + 1, 0);
  const head = /^\s*line \d+:  /m.exec(error.slice(m[1].length + 1))![0].length;
  const shown = lines[line].indexOf(m[3].trim()) >= 0 ? lines[line].indexOf(m[3]) : 0;
  return { message: m[1], at: before + Math.max(0, shown) + Math.max(0, m[4].length - head) };
}

/** A name that was nearly written. */
export const suggest = (message: string, schema: Schema | null): string => {
  const m = /no such (table|column|function): (?:\w+\.)?(\w+)/.exec(message);
  if (!m || !schema) return '';
  const words =
    m[1] === 'table'
      ? Object.keys(schema.tables)
      : m[1] === 'function'
        ? schema.functions
        : [...new Set([...schema.columns.values()].flat().map((c) => c.name))];
  const near = words.map((w) => [distance(w, m[2].toLowerCase()), w] as const).sort((a, b) => a[0] - b[0])[0];
  return near && near[0] <= Math.max(2, m[2].length / 3) ? ` Did you mean ${near[1]}?` : '';
};

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let k = 1; k <= b.length; k++)
      next[k] = Math.min(row[k] + 1, next[k - 1] + 1, row[k - 1] + (a[i - 1] === b[k - 1] ? 0 : 1));
    row = next;
  }
  return row[b.length];
}
