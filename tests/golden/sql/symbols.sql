-- trace: ../trace/symbols.txt
select * from stack_profile_frame;
select * from stack_profile_symbol;
select ts, upid, callsite_id, size from heap_profile_allocation;
select id, depth, name, size, cumulative_size, parent_id, source_file, line_number from experimental_flamegraph
  where ts = (select max(ts) from heap_profile_allocation) and upid = 1 and profile_type = 'native';
include perfetto module android.memory.heap_profile.callstacks;
select * from _android_heap_profile_callstacks_for_allocations!(heap_profile_allocation) order by id;
