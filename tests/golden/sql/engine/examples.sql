-- trace: ../../trace/native/profile.txt
-- The questions of the documents.

-- live bytes by function at the end
select name, sum(size) from heap_profile_allocation a
  join stack_profile_callsite c on a.callsite_id = c.id
  join stack_profile_frame f on c.frame_id = f.id group by 1 order by 2 desc;

-- live bytes and count by callsite of one process at a time
select callsite_id, sum(size) as live, sum(count) as n from heap_profile_allocation
  where upid = (select upid from process where pid = 7) and ts <= 1100 group by callsite_id order by live desc;

-- ever allocated
select heap_name, sum(size) from heap_profile_allocation where size > 0 group by heap_name order by heap_name;

-- with modules
select f.name, m.name, f.rel_pc, sum(a.size) from heap_profile_allocation a
  join stack_profile_callsite c on a.callsite_id = c.id
  join stack_profile_frame f on c.frame_id = f.id
  join stack_profile_mapping m on f.mapping = m.id
  where m.build_id = '01020304' group by f.id order by f.id;

-- up the callstack
with recursive up(id, level) as (
  select 2, 0 union all
  select c.parent_id, level + 1 from up join stack_profile_callsite c using (id) where c.parent_id is not null)
select level, f.name from up join stack_profile_callsite c using (id) join stack_profile_frame f on f.id = c.frame_id
  order by level;

-- which dumps
select h.ts, h.ts_end, h.heap_name, p.pid, sum(a.size) as delta from heap_profile h
  join process p using (upid)
  left join heap_profile_allocation a on a.upid = h.upid and a.ts = h.ts_end and a.heap_name = h.heap_name
  group by h.id order by h.id;

-- what was lost
select name, idx, value from stats where severity in ('error', 'data_loss') and value > 0;
select 1 as suppress_query_output;
select x'00ff' as blob, 1.5 as half, null as none, 'a "quoted" text' as word;
select demangle('_Z3foov') as shown, demangle('main') as same, demangle(null) as none;
