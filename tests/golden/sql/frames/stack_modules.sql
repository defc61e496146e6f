-- trace: ../../trace/native/symbols.txt
-- sums are those of the columns given, at each callsite's innermost function
include perfetto module android.memory.heap_profile.callstacks;
select id, parent_id, name, self_size, self_count, self_alloc_size, self_alloc_count from _android_heap_profile_callstacks_for_allocations!((
  select 3 as callsite_id, -7 as size, 2 as count, 1000 as alloc_size, 30 as alloc_count union all select 3, 5, 1, -1, 0 union all select 4, 1.5, 0, 0, 0)) order by id;
select count(*) as none from _android_heap_profile_callstacks_for_allocations!((select 3 as callsite_id, 1 as size, 1 as count, 1 as alloc_size, 1 as alloc_count where 0));
-- the outermost function's parent is the innermost one of the callsite above
select f.id, f.name, p.name as parent, p.callsite_id = (select parent_id from stack_profile_callsite c where c.id = f.callsite_id) as of_callsite_above, p.is_leaf_function_in_callsite_frame as is_leaf
  from _callstack_spc_forest f left join _callstack_spc_forest p on p.id = f.parent_id order by f.id;
select id, name, self_value from _callstacks_for_callsites_weighted!((select 3 as callsite_id, 0.5 as value union all select 3, null union all select 1, 2)) order by id;
select c.name, s.cumulative_count from _callstacks_self_to_cumulative!((select id, parent_id, self_value as self_count from _callstacks_for_callsites_weighted!((select 3 as callsite_id, 4 as value union all select 1, 2)))) s
  join _callstack_spc_forest c using (id) order by s.id;
select * from experimental_ancestor_stack_profile_callsite(0);
select depth, frame_id from experimental_ancestor_stack_profile_callsite(3);
include perfetto module android.memory.heap_profile.summary_tree;
select name, self_size, cumulative_size, self_alloc_size, cumulative_alloc_size from android_heap_profile_summary_tree order by id;
