-- trace: dumps_together.txt
select id, ts, ts_end, dur, upid, heap_name from heap_profile;
select id, ts, upid, heap_name, callsite_id, count, size from heap_profile_allocation;
select id, name, mapping, rel_pc from stack_profile_frame;
select upid, pid from process;
select name, idx, value from stats where name in ('heapprofd_sampling_interval_adjusted', 'heapprofd_last_profile_timestamp');
include perfetto module android.memory.heap_profile.intervals;
select * from _android_heap_profile_intervals;
