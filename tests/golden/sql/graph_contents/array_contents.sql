-- trace: array_contents.hex
-- bytes as they lie in memory; JSON: booleans as words, whole numbers and floats as numbers, long numbers as texts
select array_element_type as type, array_element_count as n, hex(__intrinsic_heap_graph_array(array_data_id)) as bytes, __intrinsic_heap_graph_array_json(array_data_id) as json
  from heap_graph_object_data where array_data_id is not null order by id;
select __intrinsic_heap_graph_array_json(null) as a, __intrinsic_heap_graph_array_json(-1) as b, __intrinsic_heap_graph_array(99) as c;
