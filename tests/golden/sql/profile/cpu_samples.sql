-- trace: ../../trace/native/cpu_samples.txt
-- each
select * from perf_session;
select * from perf_sample;
select p.ts, tid, thread.name as thread, process.pid, cpu, cpu_mode from perf_sample p join thread using (utid) left join process using (upid) order by p.id;
select id, name, perf_session_id, cpu, is_timebase from perf_counter_track;
select ts, cpu, name, value from counter c join perf_counter_track t on t.id = c.track_id;
select name, idx, severity, value from stats where name like 'perf_%' or name = 'stackprofile_invalid_callstack_id' order by 1, 2;
select depth, name, map_name, count, cumulative_count, size, alloc_size, parent_id from experimental_flamegraph('perf', NULL, NULL, NULL, NULL, NULL);
select depth, name, count, cumulative_count from experimental_flamegraph('perf', NULL, '>=1110,<1125', NULL, NULL, NULL);
select depth, name, count, cumulative_count from experimental_flamegraph('perf', NULL, '> 1110 , <= 1200', NULL, '3', NULL);
select depth, name, count, cumulative_count from experimental_flamegraph('perf', NULL, NULL, 2, NULL, NULL);
select depth, name, count, cumulative_count from experimental_flamegraph('perf', NULL, NULL, NULL, '2,3', 'SYSCALL');
select depth, name, count from experimental_flamegraph('perf', 1100, NULL, NULL, NULL, NULL);
select count(*) as none from experimental_flamegraph('perf', NULL, '=77', NULL, NULL, NULL);
select 1 from experimental_flamegraph('perf', NULL, 'about 5', NULL, NULL, NULL);
select 1 from experimental_flamegraph('perf', NULL, '>=', NULL, NULL, NULL);
select 1 from experimental_flamegraph('perf', NULL, NULL, NULL, 'me', NULL);
