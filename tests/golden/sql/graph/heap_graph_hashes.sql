-- trace: ../../trace/graph/heap_graph_paths.txt
-- helpers: hashes of any tree of objects are those of the trees that are there
include perfetto module android.memory.heap_graph.class_tree;
include perfetto module android.memory.heap_graph.dominator_class_tree;
include perfetto module android.memory.heap_graph.raw_dominator_tree;
include perfetto module android.memory.heap_graph.helpers;
create perfetto table made as select * from _heap_graph_type_path_hash!(_heap_graph_object_min_depth_tree);
select count(*) as objects, sum(m.path_hash = h.path_hash and m.parent_path_hash = h.parent_path_hash) as equal from made m join _heap_graph_path_hashes h using (id);
select count(*) as objects, sum(m.path_hash = h.path_hash and m.parent_path_hash = h.parent_path_hash) as equal
  from _heap_graph_type_path_hash!((select id, idom_id as parent_id from _raw_heap_graph_dominator_tree)) m join _heap_graph_dominator_path_hashes h using (id);
-- a place for each hash, native memory beside; the class tree is the one that is there
create perfetto table places as select * from _heap_graph_path_hash_aggregate!(made);
select count(*) as places, count(a.path_hash) as known from places p left join _heap_graph_path_hashes_aggregated a using (graph_sample_ts, upid, path_hash, parent_path_hash, name, self_count, self_size);
select c.name, c.root_type, c.heap_type, c.self_count, c.self_size, p.name as parent from _heap_graph_path_hashes_to_class_tree!(places) c
  left join _heap_graph_path_hashes_to_class_tree!(places) p on p.id = c.parent_id join _heap_graph_class_tree t on t.path_hash_stable = c.path_hash_stable order by t.id;
-- a part of a tree; objects whose parents are not in it, or that are their own ancestors, have no place
select count(*) as n, min(id) = max(id) as one from _heap_graph_type_path_hash!((select 1 as id, null as parent_id union all select 2, 77 union all select 3, 4 union all select 4, 3 union all select 5, 6000000000 union all select 7000000, null));
-- the same by a scan
select count(*) as n, count(distinct path) as paths from _graph_scan!((select parent_id as source_node_id, id as dest_node_id from _heap_graph_object_min_depth_tree where parent_id is not null),
  (select t.id, c.name as path from _heap_graph_object_min_depth_tree t join heap_graph_object o using (id) join heap_graph_class c on c.id = o.type_id where t.parent_id is null), (path),
  (select t.id, t.path || '/' || c.name as path from $table t join heap_graph_object o using (id) join heap_graph_class c on c.id = o.type_id));
