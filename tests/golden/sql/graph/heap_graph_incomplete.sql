-- trace: ../../trace/graph/heap_graph_native.txt
select id, parent_id, name, count, size, cumulative_count, cumulative_size from experimental_flamegraph(100, 1, 'graph');
select * from experimental_flamegraph(200, 2, 'graph');
include perfetto module android.memory.heap_graph.heap_graph_stats;
select * from android_heap_graph_stats;
