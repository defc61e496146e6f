-- trace: ../../trace/graph/heap_graph_paths.txt
include perfetto module android.memory.heap_graph.class_tree;
include perfetto module android.memory.heap_graph.object_tree;
include perfetto module android.memory.heap_graph.dominator_class_tree;
-- hashes are names of nodes here: their number in the class tree
create perfetto view h as select id, (select t.id from _heap_graph_class_tree t where t.path_hash_stable = path_hash and t.heap_type is not 'HEAP_TYPE_NATIVE') as node,
  (select t.id from _heap_graph_class_tree t where t.path_hash_stable = parent_path_hash) as above, path_hash from _heap_graph_path_hashes;
select id, parent_id, name, root_type, heap_type, self_count, self_size from _heap_graph_class_tree;
select id, node, above from h order by id;
select count(*) = count(distinct path_hash_stable) as all_differ from _heap_graph_class_tree;
select graph_sample_ts, upid, name, root_type, heap_type, self_count, self_size, path_hash in (select path_hash_stable from _heap_graph_class_tree) as known,
  parent_path_hash = 0 as is_top from _heap_graph_path_hashes_aggregated;
select d.id, t.id as node from _heap_graph_dominator_path_hashes d join _heap_graph_dominator_class_tree t on t.path_hash_stable = d.path_hash;
select name, self_count, self_size, parent_path_hash = 0 as is_top from _heap_graph_dominator_path_hashes_aggregated;
-- objects below and above the list's nodes
select * from _heap_graph_retained_object_count_agg!(_heap_graph_path_hashes, (select path_hash from h where id = 1));
select * from _heap_graph_retaining_object_count_agg!(_heap_graph_path_hashes, (select path_hash from h where id = 5));
select * from _heap_graph_retained_object_count_agg!(_heap_graph_path_hashes, (select path_hash from h where 0));
select * from _heap_graph_duplicate_objects_agg!((select * from _heap_graph_path_hashes));
create perfetto view chosen as select path_hash from h where id = 2;
select class_name, outgoing_reference_count, total_cumulative_size, cumulative_size, cumulative_native_size, cumulative_count, id, type_id, self_size, reachable
  from _heap_graph_object_references_agg!(_heap_graph_path_hashes, chosen);
select class_name, field_name, field_type_name, total_cumulative_size, cumulative_count, id, path_hash = (select path_hash from chosen) as is_chosen
  from _heap_graph_incoming_references_agg!(_heap_graph_path_hashes, chosen);
select class_name, field_name, field_type_name, total_cumulative_size, cumulative_size, cumulative_native_size, cumulative_count, id
  from _heap_graph_outgoing_references_agg!(_heap_graph_path_hashes, chosen);
include perfetto module android.memory.heap_graph.experimental_flamegraph;
select * from _experimental_flamegraph_heap_graph_frames!(1, 3000000000) order by id;
select * from _experimental_flamegraph_heap_graph_state!(1, 9000000000);
select * from _experimental_flamegraph_heap_graph_state!(1, 1);
include perfetto module android.memory.heap_graph.heap_graph_stats;
select graph_sample_ts, oom_score_adj, anon_rss_and_swap_size, is_out_of_memory_error from android_heap_graph_stats;
select type_name, is_libcore_or_array from android_heap_graph_class_aggregation where type_name like 'kotlinx%';
include perfetto module android.memory.heap_graph.class_summary_tree;
select * from _heap_graph_class_tree_cumulatives;
include perfetto module android.memory.heap_graph.raw_dominator_tree;
select _heap_graph_super_root_fn() > max(id) as is_free from heap_graph_object;
include perfetto module android.memory.heap_graph.helpers;
select count(*) = count(distinct name_hash) as each_its_own from (select min(name_hash) as name_hash from _heap_graph_class_name_hash join heap_graph_class using (id) group by name);
include perfetto module linux.memory.process;
select * from memory_rss_and_swap_per_process;
include perfetto module android.process_metadata;
select * from android_process_metadata;
select android_is_kernel_task(0) as idle, android_is_kernel_task(1) as app;
