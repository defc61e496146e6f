-- trace: cpu_views.txt
select id, ts, utid, cpu, cpu_mode, callsite_id, perf_session_id from perf_sample;
select * from __intrinsic_profiler_sample;
select * from __intrinsic_profiler_task_context;
select * from __intrinsic_profiler_execution_context;
select * from __intrinsic_profiler_session;
-- those with a stack, and what these use
select * from stack_sample;
select * from stack_sample_session;
select * from stack_sample_task_context;
select * from stack_sample_execution_context;
-- those that stand for time on a processor
include perfetto module stacks.cpu_profiling;
select * from cpu_profiling_samples;
select * from cpu_profiling_summary_tree;
select name, severity, value from stats where name = 'stack_samples_left_out';
