-- trace: ../../trace/native/profile.txt
-- the statement of front ends is recognised; written otherwise (a plus, other conditions) it is left to SQLite: the same rows
include perfetto module android.memory.heap_profile.callstacks;
create perfetto macro recognised(cond Expr) returns TableOrSubquery as (select * from _android_heap_profile_callstacks_for_allocations!((
  SELECT callsite_id, size, count, MAX(size, 0) AS alloc_size, max( count , 0 ) as alloc_count from heap_profile_allocation a where $cond)));
create perfetto macro plain(cond Expr) returns TableOrSubquery as (select * from _android_heap_profile_callstacks_for_allocations!((
  select callsite_id, +size as size, count, max(size, 0) as alloc_size, max(count, 0) as alloc_count from heap_profile_allocation a where $cond)));
create perfetto macro same(cond Expr) returns TableOrSubquery as (
  select count(*) as rows, ifnull(sum(in_both = 2), 0) as equal from (select count(*) as in_both from (select * from recognised!($cond) union all select * from plain!($cond))
    group by id, parent_id, name, mapping_name, source_file, line_number, self_size, self_count, self_alloc_size, self_alloc_count));
select 'all of one', * from same!(upid = 1);
select 'nobody', * from same!(upid = 77);
select 'another', * from same!(a.upid = 2);
select 'until', * from same!(a.ts <= 1100 and a.upid = 1);
select 'before', * from same!(ts < 1101);
select 'first', * from same!(ts = 1100);
select 'after', * from same!(ts > 1000 and ts >= 1101 and ts <= 999999999999999999);
select 'between', * from same!(ts >= 1100 and ts < 1101 and heap_name = 'libc.malloc');
select 'heap', * from same!(heap_name = 'custom' and upid = 1);
select 'unknown heap', * from same!(heap_name = 'unknown');
select 'its name', * from same!(heap_name = 'it''s');
-- left to SQLite
select 'twice', * from same!(upid = 1 and upid = 2);
select 'or', * from same!(upid = 1 or upid = 2);
select 'sum', * from same!(upid = 1 + 1);
select 'negative', * from same!(ts >= -5);
select 'text', * from same!(upid = '1');
