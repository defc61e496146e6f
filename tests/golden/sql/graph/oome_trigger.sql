-- trace: oome_trigger.txt
select name, str_value from metadata where name = 'trace_trigger';
include perfetto module android.memory.heap_graph.heap_graph_stats;
select graph_sample_ts, is_out_of_memory_error, oome_failing_allocation_size from android_heap_graph_stats;
select id, dump_reason from heap_graph;
