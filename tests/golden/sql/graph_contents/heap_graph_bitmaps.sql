-- trace: ../../trace/graph/heap_graph_bitmaps.txt
include perfetto module android.memory.heap_graph.bitmap;
select object_id, width, height, density, bitmap_id, bitmap_pid, bitmap_storage_type, source_id, source_pid, source_storage_type, source_process_name, reachable from heap_graph_bitmaps order by 1;
select field_set_id, field_name, field_type, int_value, long_value from heap_graph_primitive;
select o.id, object_data_id, field_set_id, value_string, array_element_count from heap_graph_object o left join heap_graph_object_data d on d.id = o.object_data_id;
