-- trace: ../../trace/native/symbols.txt
select * from stack_profile_frame;
select * from stack_profile_symbol;
select ts, upid, callsite_id, size from heap_profile_allocation;
select id, depth, name, size, cumulative_size, parent_id, source_file, line_number from experimental_flamegraph
  where ts = (select max(ts) from heap_profile_allocation) and upid = 1 and profile_type = 'native';
include perfetto module android.memory.heap_profile.callstacks;
select * from _android_heap_profile_callstacks_for_allocations!(
  (select callsite_id, size, count, max(size, 0) as alloc_size, max(count, 0) as alloc_count from heap_profile_allocation)) order by id;
-- every function of every callsite; what the names and numbers of inlined ones are
select * from _callstack_spc_forest;
select id, callsite_id, name, inlined from _callstacks_for_stack_profile_samples!((select 4 as callsite_id)) order by id;
select id, name, self_count from _callstacks_for_callsites!((select 4 as callsite_id union all select 3 union all select 3)) order by id;
select id, self_value from _callstacks_for_callsites_weighted!((select 4 as callsite_id, 7 as value union all select 3, 1 union all select 4, 2)) order by id;
select * from _callstacks_self_to_cumulative!(_callstacks_for_callsites!((select 4 as callsite_id union all select 3))) order by id;
select * from experimental_ancestor_stack_profile_callsite(4);
