-- trace: heap_graph_superclasses.txt
select c.id, c.name, c.location, s.name as super, s.location as super_location from heap_graph_class c left join heap_graph_class s on s.id = c.superclass_id order by c.id;
