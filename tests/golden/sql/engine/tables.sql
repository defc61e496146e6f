-- trace: ../../trace/native/profile.txt
select * from stack_profile_mapping;
select * from stack_profile_frame;
select * from stack_profile_callsite;
select * from stack_profile_symbol;
select * from heap_profile_allocation;
select id, callsite_id, count, estimated_count, heap_profile_id from heap_profile_allocation where upid = 1;
select * from heap_profile;
select * from process;
select * from stats;
select * from metadata;
select * from profiler_smaps;
select * from process_counter_track;
select * from counter;
select * from trace_bounds;
