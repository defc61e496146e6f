// What can be asked: tables with their columns, functions, modules, as the engine itself tells.
import { query } from '../app/answers';

export interface Column {
  name: string;
  type: string;
  hidden: boolean;
}
export interface Schema {
  columns: Map<string, Column[]>; // by table, sorted
  tables: Record<string, { label: string; type: string; detail: string }[]>; // for completion
  functions: string[];
  modules: string[];
}

const NAMES = `with names as (
  select name, 0 as asks from pragma_table_list where name not like 'sqlite_%'
  union select name, 1 from pragma_module_list where name not glob 'pragma_*' and name not glob 'fts*'
    and name not in ('bytecode', 'completion', 'dbstat', 'generate_series', 'json_each', 'json_tree', 'rtree', 'rtree_i32', 'sqlite_stmt', 'tables_used'))
select n.name, x.name, x.type, x.hidden from names n, pragma_table_xinfo(n.name) x
union all select 'json_each', name, type, hidden from pragma_table_xinfo('json_each')`;

const kept = new Map<number, Promise<Schema>>();

async function load(trace: number): Promise<Schema> {
  const r = await query(
    trace,
    `${NAMES};\nselect distinct name from pragma_function_list where name not glob '*_*_*' or name like 'experimental%' order by 1;\nselect name from heapwise_modules where name <> 'prelude' order by 1`,
    100_000,
  );
  if (r.error) throw new Error(r.error);
  const columns = new Map<string, Column[]>();
  const modules = r.results[2].rows.map((x) => String(x[0]));
  for (const [table, name, type, hidden] of r.results[0].rows as [string, string, string, number][]) {
    if (table.startsWith('_hw_')) continue;
    const list = columns.get(table) ?? [];
    list.push({ name, type: type || 'any', hidden: Number(hidden) !== 0 });
    columns.set(table, list);
  }
  const sortedColumns = new Map([...columns].sort(([a], [b]) => (a < b ? -1 : 1)));
  const tables: Schema['tables'] = {};
  for (const [table, list] of sortedColumns)
    tables[table] = list
      .filter((c) => !/^arg\d$|^last_hidden$/.test(c.name))
      .map((c) => ({ label: c.name, type: 'property', detail: c.type.toLowerCase() }));
  const functions = r.results[1].rows.map((x) => String(x[0])).filter((f) => /^[a-z_]\w*$/i.test(f));
  return { columns: sortedColumns, tables, functions, modules };
}

export function schemaOf(trace: number, again = false): Promise<Schema> {
  let p = again ? undefined : kept.get(trace);
  if (!p) {
    kept.set(trace, (p = load(trace)));
    p.catch(() => kept.delete(trace));
  }
  return p;
}
