-- trace: heap_graph_numbers.txt
select o.id, c.name, self_size, native_size, reachable, root_type, reference_set_id from heap_graph_object o join heap_graph_class c on c.id = o.type_id order by o.id;
select id, name from heap_graph_class;
select reference_set_id, owner_id, owned_id, field_name from heap_graph_reference;
