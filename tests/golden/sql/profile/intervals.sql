-- trace: intervals.txt
include perfetto module android.memory.heap_profile.intervals;
select * from _android_heap_profile_intervals;
-- the same by SQLite's own groups
create perfetto view by_groups as
 with sites as (select min(a.id) as id, a.upid, a.heap_name, a.ts as end, sum(a.count) as count, sum(a.size) as delta, sum(max(a.size, 0)) as allocated
   from heap_profile_allocation a group by a.upid, a.heap_name, a.ts, a.callsite_id)
 select min(id) as id, upid, heap_name, end, sum(iif(count > 0, delta, 0)) as retained, sum(allocated) as allocated, sum(delta) as delta from sites group by upid, heap_name, end;
select count(*) as rows, sum(g.upid = i.upid and g.heap_name = i.heap_name and g.end = i.ts + i.dur and g.retained = i.retained and g.allocated = i.allocated and g.delta = i.delta) as equal
  from by_groups g left join _android_heap_profile_intervals i on i.id = g.id;
