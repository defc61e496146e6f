-- trace: ../../trace/graph/heap_graph_blocks.txt
select c.name, o.native_size from heap_graph_object o join heap_graph_class c on c.id = o.type_id;
select b.*, c.name from heap_graph_native_block b join heap_graph_object o on o.id = b.object_id join heap_graph_class c on c.id = o.type_id;
select l.*, f.name from heap_graph_native_link l join stack_profile_callsite c on c.id = l.callsite_id join stack_profile_frame f on f.id = c.frame_id;
select name from heap_graph_class;
select name, idx, value from stats where value > 0;
