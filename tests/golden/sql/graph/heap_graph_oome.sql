-- trace: ../../trace/graph/heap_graph_native.txt
select * from heap_graph;
select * from android_heap_graph_java_oome_details;
select t.*, f.name from heap_graph_thread_callsite t join stack_profile_callsite c on c.id = t.callsite_id join stack_profile_frame f on f.id = c.frame_id;
select id, native_size from heap_graph_object where native_size > 0;
select * from heap_graph_primitive;
select * from heap_graph_object_data;
select name, idx, severity, source, value from stats where name glob 'heap_graph*';
