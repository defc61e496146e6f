# name: SQL; what pages and people ask of heap graphs
class histogram: include perfetto module android.memory.heap_graph.heap_graph_class_aggregation; select * from android_heap_graph_class_aggregation order by dominated_size_bytes desc
dominators: include perfetto module android.memory.heap_graph.dominator_tree; select * from heap_graph_dominator_tree order by dominated_size_bytes desc limit 100
class tree: include perfetto module android.memory.heap_graph.class_summary_tree; select * from android_heap_graph_class_summary_tree
referrers by class: select o.type_id, count(*) from heap_graph_reference r join heap_graph_object o on o.id = r.owned_id group by 1
