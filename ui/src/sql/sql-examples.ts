// Queries to begin with.

export const EXAMPLES: { name: string; sql: string }[] = [
  {
    name: 'Functions that hold most now',
    sql: `select demangle(name) as name, map_name, self_space, space, objects, space_error
from heapwise_functions($upid, $ts)
where self_space > 0
order by self_space desc
limit 50`,
  },
  {
    name: 'Who grew from dump to dump',
    sql: `select verdict, demangle(name) as name, slope, tau, p, freed_ratio, space
from heapwise_leaks($upid)
order by slope desc`,
  },
  {
    name: 'Live and allocated bytes by dump',
    sql: `select p.ts_end as ts, p.heap_name,
  (select sum(size) from heap_profile_allocation a where a.upid = p.upid and a.heap_name = ifnull(p.heap_name, 'unknown') and a.ts <= p.ts_end) as live_bytes,
  (select sum(size) from heap_profile_allocation a where a.upid = p.upid and a.heap_name = ifnull(p.heap_name, 'unknown') and a.ts <= p.ts_end and size > 0) as allocated_bytes
from heap_profile p
where p.upid = $upid
order by 1`,
  },
  {
    name: 'Callers of a function',
    sql: `select depth, demangle(name) as name, map_name, space
from heapwise_callers($upid, $ts, '/main/')
order by id`,
  },
  {
    name: 'Flamegraph of the selection',
    sql: `select id, parent_id, depth, demangle(name) as name, self_space as self, space as value
from heapwise_tree($upid, $ts)
order by id`,
  },
  {
    name: 'Sizes of allocations',
    sql: `select up_to, sum(objects) as live, sum(space) as space, sum(alloc_objects) as allocated
from heapwise_sizes($upid, $ts)
group by up_to order by up_to`,
  },
  {
    name: 'Live bytes by callstack (callsite_id, value)',
    sql: `select callsite_id, sum(size) as value
from heap_profile_allocation
where upid = $upid and ts <= $ts
group by 1 having value > 0 order by 2 desc`,
  },
  {
    name: 'Memory counters over time',
    sql: `select c.ts, t.name, c.value
from counter c join process_counter_track t on t.id = c.track_id
order by c.ts`,
  },
  {
    name: 'Modules and how many of their frames have names',
    sql: `select m.name, m.build_id, count(*) as frames,
  sum(f.name <> '') as named
from stack_profile_frame f join stack_profile_mapping m on m.id = f.mapping
group by m.id order by frames desc`,
  },
  {
    name: 'Managed heap: sizes by class',
    sql: `select c.name, count(*) as objects, sum(o.self_size) as size
from heap_graph_object o join heap_graph_class c on c.id = o.type_id
where o.reachable group by 1 order by 3 desc limit 50`,
  },
  {
    name: 'What was lost',
    sql: `select name, idx, value, severity, description from stats where value <> 0`,
  },
];
