-- trace: ../../trace/native/symbols.txt
-- what a browser's page asks of native profiles, in its order
select value from stats where name = 'heap_graph_non_finalized_graph';
select exists(select 1 from sched) as sched, exists(select 1 from slice) as slice, exists(select 1 from heap_profile_allocation) as heap, exists(select 1 from perf_sample) as cpu;
include perfetto module android.memory.heap_profile.callstacks;
create virtual table native using __intrinsic_flamegraph((
  select s.id, s.parent_id, s.name, s.value, s.mapping_name, s.source_file, s.line_number, s.self_count
  from (select id, parent_id, ifnull(name, '[unknown]') as name, mapping_name, source_file, cast_string!(line_number) as line_number, self_size as value, self_count
    from _android_heap_profile_callstacks_for_allocations!((
      select callsite_id, size, count, max(size, 0) as alloc_size, max(count, 0) as alloc_count
      from heap_profile_allocation where upid = 1))) s));
select cumulative_value from native(__intrinsic_flamegraph_config('value', 'value', 'view', 'TOP_DOWN')) where __intrinsic_flamegraph_find(_tree_id, 'SUPER_ROOT');
select _tree_id, ifnull(_tree_parent_id, -1) as parent, depth, iif(ifnull(name, '') = '', 'unknown', name) as name, self_value, cumulative_value,
  parent_cumulative_value, x_start, x_end, mapping_name, source_file, line_number, self_count
  from native(__intrinsic_flamegraph_config('value', 'value', 'view', 'TOP_DOWN', 'grouping', 'mapping_name',
    'aggregate', 'ONE_OR_SUMMARY', 'source_file', 'source_file', 'aggregate', 'CONCAT_WITH_COMMA', 'line_number', 'line_number', 'aggregate', 'SUM', 'self_count', 'self_count'))
  where cumulative_value > 0;
select depth, name, self_value, cumulative_value, x_start, x_end from native(__intrinsic_flamegraph_config('value', 'value', 'view', 'BOTTOM_UP', 'grouping', 'mapping_name',
    'filter', 'SHOW_STACK', 'Cache', '', 'filter', 'HIDE_FRAME', '^a\.b', '', 'filter', 'HIDE_STACK', 'nobody', 'i')) where cumulative_value > 0;
select depth, name, cumulative_value from native(__intrinsic_flamegraph_config('value', 'value', 'view', 'PIVOT', 'view_pattern', '^outer\(char\)$', ''));
drop table native;
create perfetto table _dataset as select id as callsite, depth from stack_profile_callsite order by id desc;
select _auto_id, callsite from _dataset where depth > 2;
include perfetto module android.oom_adjuster;
select android_oom_adj_score_to_bucket_name(cast_int!(v.value)) from counters v where v.name = 'oom_score_adj';
