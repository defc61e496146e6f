-- trace: ../../trace/native/profile.txt
-- every public table and column (doc/design/sql.md); a missing one is an error
select id, build_id, exact_offset, start_offset, start, end, load_bias, name from stack_profile_mapping limit 0;
select id, name, mapping, rel_pc, symbol_set_id, deobfuscated_name, type from stack_profile_frame limit 0;
select id, depth, parent_id, frame_id from stack_profile_callsite limit 0;
select id, symbol_set_id, name, source_file, line_number, inlined from stack_profile_symbol limit 0;
select id, ts, upid, heap_name, callsite_id, count, size from heap_profile_allocation limit 0;
select id, ts, ts_end, dur, upid, heap_name from heap_profile limit 0;
select id, upid, ts, path, size_kb, private_dirty_kb, swap_kb, file_name, start_address, module_timestamp,
  module_debugid, module_debug_path, protection_flags, private_clean_resident_kb, shared_dirty_resident_kb,
  shared_clean_resident_kb, locked_kb, proportional_resident_kb, path_trimmed, aggregate_count, is_deleted, rss_kb,
  anonymous_kb, pss_dirty_kb, swap_pss_kb from profiler_smaps limit 0;
select id, upid, ts, path, aggregate_count, is_deleted, size_kb, rss_kb, anonymous_kb, swap_kb, shared_clean_kb,
  shared_dirty_kb, private_clean_kb, private_dirty_kb, locked_kb, pss_kb, pss_dirty_kb, swap_pss_kb
  from process_memory_mappings limit 0;
select package_name, uid, debuggable, profileable_from_shell, version_code from package_list limit 0;
select id, upid, graph_sample_ts, self_size, native_size, reference_set_id, reachable, heap_type, type_id, root_type,
  root_distance, object_data_id from heap_graph_object limit 0;
select id, name, deobfuscated_name, location, superclass_id, classloader_id, kind from heap_graph_class limit 0;
select id, reference_set_id, owner_id, owned_id, field_name, field_type_name, deobfuscated_field_name
  from heap_graph_reference limit 0;
select id, ts, upid, dump_reason, heap_size, truncated from heap_graph limit 0;
select id, field_set_id, field_name, field_type, bool_value, byte_value, char_value, short_value, int_value, long_value,
  float_value, double_value from heap_graph_primitive limit 0;
select id, field_set_id, value_string, array_element_type, array_element_count, array_data_id, array_data_hash
  from heap_graph_object_data limit 0;
select id, heap_graph_id, utid, callsite_id from heap_graph_thread_callsite limit 0;
select id, heap_graph_id, allocation_size_bytes, total_bytes_free, free_bytes_until_oom, error_msg
  from android_heap_graph_java_oome_details limit 0;
select id, ts, upid, depth, name, map_name, count, cumulative_count, size, cumulative_size, alloc_count,
  cumulative_alloc_count, alloc_size, cumulative_alloc_size, parent_id, source_file, line_number
  from experimental_flamegraph(1, 1, 'native') limit 0;
select id, upid, pid, name, start_ts, end_ts, parent_upid, uid, android_appid, android_user_id, cmdline, arg_set_id,
  machine_id from process limit 0;
select id, utid, tid, name, start_ts, end_ts, upid, is_main_thread, is_idle, machine_id, arg_set_id from thread limit 0;
select id, arg_set_id, flat_key, key, int_value, string_value, real_value, value_type, display_value from args limit 0;
select name, key, idx, severity, source, value, description from stats limit 0;
select id, name, key_type, int_value, str_value from metadata limit 0;
select id, timestamp, track_id, detail_level from memory_snapshot limit 0;
select id, snapshot_id, upid from process_memory_snapshot limit 0;
select id, process_snapshot_id, parent_node_id, path, size, effective_size, arg_set_id from memory_snapshot_node limit 0;
select id, source_node_id, target_node_id, importance from memory_snapshot_edge limit 0;
select id, depth, parent_id, frame_id, annotation from experimental_annotated_callstack(0) limit 0;
include perfetto module android.memory.heap_profile.summary_tree;
select id, parent_id, name, mapping_name, source_file, line_number, self_size, cumulative_size, self_alloc_size,
  cumulative_alloc_size from android_heap_profile_summary_tree limit 0;
include perfetto module android.memory.heap_profile.intervals;
select id, upid, heap_name, ts, dur, retained, allocated, delta from _android_heap_profile_intervals limit 0;
include perfetto module android.memory.heap_profile.callstacks;
include perfetto module stacks.symbolization_candidates;
select upid, module, build_id, rel_pc, breakpad_module_id from _stacks_symbolization_candidates limit 0;
-- modules: each object by the names of its public columns
include perfetto module android.memory.heap_profile.callstacks;
select * from _android_heap_profile_callstacks_for_allocations!(
  (select callsite_id, size, count, max(size, 0) as alloc_size, max(count, 0) as alloc_count from heap_profile_allocation)) limit 0;
include perfetto module android.memory.heap_graph.class_summary_tree;
select graph_sample_ts, upid, id, parent_id, name, root_type, self_count, self_size, cumulative_count, cumulative_size from android_heap_graph_class_summary_tree limit 0;
include perfetto module android.memory.heap_graph.class_tree;
select * from _heap_graph_class_tree limit 0;
include perfetto module android.memory.heap_graph.dominator_tree;
select id, idom_id, dominated_obj_count, dominated_size_bytes, dominated_native_size_bytes, depth from heap_graph_dominator_tree limit 0;
include perfetto module android.memory.heap_graph.raw_dominator_tree;
select * from _raw_heap_graph_dominator_tree limit 0;
include perfetto module android.memory.heap_graph.dominator_class_tree;
select * from _heap_graph_dominator_class_tree limit 0;
include perfetto module android.memory.heap_graph.heap_graph_class_aggregation;
select upid, graph_sample_ts, type_id, type_name, is_libcore_or_array, obj_count, size_bytes, native_size_bytes, reachable_obj_count, reachable_size_bytes, reachable_native_size_bytes, dominated_obj_count, dominated_size_bytes, dominated_native_size_bytes from android_heap_graph_class_aggregation limit 0;
include perfetto module android.memory.heap_graph.heap_graph_stats;
select upid, graph_sample_ts, process_uptime, total_heap_size, total_native_alloc_registry_size, total_obj_count, reachable_heap_size, reachable_native_alloc_registry_size, reachable_obj_count, oom_score_adj, anon_rss_and_swap_size, dmabuf_rss_size, art_bytes_allocated, is_out_of_memory_error, oome_failing_allocation_size, oome_remaining_art_free_bytes from android_heap_graph_stats limit 0;
include perfetto module android.memory.heap_graph.class_relationship;
include perfetto module android.memory.heap_graph.object_tree;
include perfetto module android.memory.heap_graph.excluded_refs;
include perfetto module android.memory.heap_graph.bitmap;
select * from heap_graph_bitmaps limit 0;
include perfetto module android.memory.heap_graph.oome;
include perfetto module android.memory.heap_graph.helpers;
include perfetto module callstacks.stack_profile;
select * from _callstacks_for_callsites!((select callsite_id from heap_profile_allocation)) limit 0;
include perfetto module graphs.dominator_tree;
select node_id, dominator_node_id from graph_dominator_tree!((select 1 as source_node_id, 2 as dest_node_id), 1) limit 0;
select * from experimental_annotated_callstack(1) limit 0;
select length(experimental_profile(stack_from_stack_profile_callsite(0))) limit 0;
select length(cat_stacks('a', 'b')) limit 0;
select extract_arg(0, 'a') limit 0;
select * from trace_diagnostics limit 0;
select id, track_id, ts, value from counter limit 0;
select * from process_counter_track limit 0;
-- names for tables of data that is not read, and second names
select id, ts, dur, utid, end_state, priority, ucpu, cpu from sched limit 0;
select id, ts, clock_id, clock_name, clock_value, snapshot_id, machine_id from clock_snapshot limit 0;
select id, ts, track_id, value, arg_set_id, name, unit from counters limit 0;
select id, name, type, parent_id, dimension_arg_set_id, source_arg_set_id, machine_id, unit, description from counter_track limit 0;
select id, name, type, parent_id, source_arg_set_id, machine_id, upid from process_track limit 0;
select id, name, type, parent_id, source_arg_set_id, machine_id, utid from thread_counter_track limit 0;
select id, name, type, parent_id, source_arg_set_id, machine_id, utid from thread_track limit 0;
select id, cat, slice_id, thread_ts, thread_dur, thread_instruction_count, thread_instruction_delta from slices limit 0;
select id, ts, name from instant limit 0;
select * from cpu limit 0;
select id, raw_id from machine;
select * from trace_file limit 0;
select name from trace_metrics;
select * from vulkan_memory_allocations limit 0;
select * from cpu_profile_stack_sample limit 0;
select perf_session_id from perf_session limit 0;
select count(*) from (select 1 from __intrinsic_args union all select 1 from __intrinsic_heap_graph
  union all select 1 from __intrinsic_heap_graph_class union all select 1 from __intrinsic_heap_graph_object
  union all select 1 from __intrinsic_heap_graph_object_data union all select 1 from __intrinsic_heap_graph_primitive
  union all select 1 from __intrinsic_heap_graph_reference union all select 1 from __intrinsic_heap_graph_thread_callsite
  union all select 1 from __intrinsic_memory_snapshot union all select 1 from __intrinsic_memory_snapshot_edge
  union all select 1 from __intrinsic_memory_snapshot_node union all select 1 from __intrinsic_process_memory_snapshot
  union all select 1 from __intrinsic_heap_graph_java_oome_details union all select 1 from __intrinsic_counter
  union all select 1 from __intrinsic_profiler_smaps union all select 1 from __intrinsic_package_list) where 0;
select (select count(*) from heap_profile) = (select count(*) from __intrinsic_heap_profile)
  and (select count(*) from heap_profile_allocation) = (select count(*) from __intrinsic_heap_profile_allocation)
  and (select count(*) from metadata) = (select count(*) from __intrinsic_metadata)
  and (select count(*) from stats) = (select count(*) from __intrinsic_stats)
  and (select count(*) from process) = (select count(*) from __intrinsic_process)
  and (select count(*) from thread) = (select count(*) from __intrinsic_thread)
  and (select count(*) from stack_profile_callsite) = (select count(*) from __intrinsic_stack_profile_callsite)
  and (select count(*) from stack_profile_frame) = (select count(*) from __intrinsic_stack_profile_frame)
  and (select count(*) from stack_profile_mapping) = (select count(*) from __intrinsic_stack_profile_mapping)
  and (select count(*) from stack_profile_symbol) = (select count(*) from __intrinsic_stack_profile_symbol) as same;
