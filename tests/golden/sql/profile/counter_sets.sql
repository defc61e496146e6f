-- trace: ../../trace/native/cpu_samples.txt
-- what was counted with each sample: the timebase first, then its followers; samples without counts have no set
select s.id, s.ts, s.counter_set_id, v.id as counter, t.name, v.value from __intrinsic_profiler_sample s left join __intrinsic_profiler_counter_set c using (counter_set_id)
  left join counter v on v.id = c.counter_id left join perf_counter_track t on t.id = v.track_id order by s.id, v.id;
select * from __intrinsic_profiler_counter_set;
select * from stack_sample_counter order by id;
select id, name, unit, session_id, cpu, is_timebase from stack_sample_counter_track;
select * from stack_sample_async_context;
select count(*) as n from stack_sample_counter_track where type is null and parent_id is null and source_arg_set_id is null and description = '' and machine_id = 0;
