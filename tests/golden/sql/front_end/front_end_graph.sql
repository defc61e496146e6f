-- trace: ../../trace/graph/heap_graph_paths.txt
-- what a browser's page asks of heap graphs: paths to roots, hierarchies of classes, flamegraphs of classes
include perfetto module android.memory.heap_graph.class_tree;
include perfetto module android.memory.heap_graph.object_tree;
include perfetto module graphs.search;
include perfetto module graphs.hierarchy;
create virtual table classes using __intrinsic_flamegraph((select id, parent_id, name, self_size as value, self_count, heap_type, root_type, path_hash_stable from _heap_graph_class_tree where graph_sample_ts = 3000000000 and upid = 1));
select depth, name, self_value, cumulative_value, x_start, x_end, root_type, heap_type, self_count, self_self_count, cumulative_self_count
  from classes(__intrinsic_flamegraph_config('value', 'value', 'view', 'TOP_DOWN', 'value', 'self_count', 'grouping', 'root_type', 'grouping', 'heap_type', 'aggregate', 'SUM', 'self_count', 'self_count'));
select c.name, count(*) as objects from classes(__intrinsic_flamegraph_config('value', 'value', 'aggregate', 'CONCAT_WITH_COMMA', 'path_hash_stable', 'path_hash_stable')) c
  join _heap_graph_path_hashes h on c.path_hash_stable = cast_string!(h.path_hash) group by 1 order by 1;
select depth, name, cumulative_value from classes(__intrinsic_flamegraph_config('value', 'value', 'view', 'FROM_FRAME', 'view_pattern', 'a.node', 'i'));
drop table classes;
select n.node_id, n.parent_node_id, c.name from graph_reachable_bfs!((select owned_id as source_node_id, owner_id as dest_node_id from heap_graph_reference where owned_id is not null), (select 5 as node_id)) n
  join heap_graph_object o on o.id = n.node_id join heap_graph_class c on c.id = o.type_id;
select id from _tree_reachable_ancestors_or_self!(_heap_graph_object_min_depth_tree, (select 5 as id)) order by id;
select c.name from graph_reachable_dfs!((select superclass_id as source_node_id, id as dest_node_id from heap_graph_class where superclass_id is not null), (select id as node_id from heap_graph_class where name = 'a.Node')) join heap_graph_class c on c.id = node_id;
select __intrinsic_heap_graph_array(d.array_data_id), __intrinsic_heap_graph_array_json(d.array_data_id) from heap_graph_object_data d;
