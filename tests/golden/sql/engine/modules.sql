-- trace: ../../trace/native/profile.txt
include perfetto module android.memory.heap_profile.summary_tree;
select * from android_heap_profile_summary_tree;
INCLUDE PERFETTO MODULE android.memory.heap_profile.intervals;
select * from _android_heap_profile_intervals order by id;
include perfetto module android.memory.heap_profile.callstacks;
include perfetto module android.memory.heap_profile.callstacks; -- twice is once
select * from _android_heap_profile_callstacks_for_allocations!(
  (select callsite_id, size, count, max(size, 0) as alloc_size, max(count, 0) as alloc_count from heap_profile_allocation where upid = 1))
  order by id;
select name, self_count from _callstacks_for_callsites!(heap_profile_allocation) order by id;
