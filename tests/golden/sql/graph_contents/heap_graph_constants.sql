-- trace: ../../trace/graph/heap_graph_constants.txt
select o.id, c.name, o.root_type, o.reachable from heap_graph_object o join heap_graph_class c on c.id = o.type_id;
select object_id, root_type, method from heap_graph_root_holder;
include perfetto module android.memory.heap_graph.dominator_tree; select id, idom_id, dominated_size_bytes from heap_graph_dominator_tree;
select name, cumulative_size from experimental_flamegraph((select max(graph_sample_ts) from heap_graph_object), (select max(upid) from heap_graph_object), 'graph') where depth = 0;
select name, idx, value from stats where value > 0;
