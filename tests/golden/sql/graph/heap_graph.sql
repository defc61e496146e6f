-- trace: ../../trace/graph/heap_graph.txt
select * from heap_graph;
select * from heap_graph_object;
select id, name, deobfuscated_name, location, superclass_id, classloader_id, kind from heap_graph_class;
select * from heap_graph_reference;
-- searches in columns that rise, without an index
select id from heap_graph_reference where reference_set_id = 3;
select id from heap_graph_reference where owner_id >= 5 and owner_id < 8;
select count(*) from heap_graph_reference where owner_id = 99;
select o.id, count(r.id) from heap_graph_object o left join heap_graph_reference r using (reference_set_id) group by 1;
select id from heap_graph_object where graph_sample_ts = 100 and upid = 2;
select distinct field_name from heap_graph_reference where owned_id = 0;
select name, count(*), sum(self_size) from heap_graph_object o join heap_graph_class c on o.type_id = c.id group by 1 order by 1;
