-- trace: ../../trace/graph/hprof_hotspot.hprof
-- contents of arrays
select array_element_type, array_element_count, hex(__intrinsic_heap_graph_array(array_data_id)) as bytes, __intrinsic_heap_graph_array_json(array_data_id) as json
  from heap_graph_object_data where array_data_id is not null;
select __intrinsic_heap_graph_array(null) as a, __intrinsic_heap_graph_array(-1) as b, __intrinsic_heap_graph_array(1000000) as c, __intrinsic_heap_graph_array_json('x') as d;
