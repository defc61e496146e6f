-- trace: ../../trace/native/profile.txt
-- graphs.scan: values go along edges; rows of a node with several ways to it arrive one by one, or together
-- each
create perfetto table edges as select 1 as source_node_id, 2 as dest_node_id union all select 1, 3 union all select 2, 4 union all select 3, 4 union all select 4, 5; include perfetto module graphs.scan; select * from _graph_scan!(edges, (select 1 as id, 10 as total, 'a' as path), (total, path), (select t.id, t.total + t.id as total, t.path || t.id as path from $table t)) order by id, path;
create perfetto table edges as select 1 as source_node_id, 2 as dest_node_id union all select 1, 3 union all select 2, 4 union all select 3, 4 union all select 4, 5; include perfetto module graphs.scan; select * from _graph_aggregating_scan!(edges, (select 1 as id, 10 as total, 1.5 as x), (total, x), (select t.id, sum(t.total) as total, max(t.x) + 1 as x from $table t group by t.id));
include perfetto module graphs.scan; select * from _graph_scan!((select 1 as source_node_id, 2 as dest_node_id where 0), (select 7 as id, null as v), (v), (select id, v from $table));
include perfetto module graphs.scan; select * from _graph_scan!((select 1 as source_node_id, 2 as dest_node_id), (select 7 as id, 1 as v where 0), (v), (select id, v from $table));
include perfetto module graphs.scan; select * from _graph_scan!((select 1 as source_node_id, 2 as dest_node_id union all select 2, 1), (select 1 as id, 0 as n), (n), (select id, n + 1 as n from $table where n < 3));
include perfetto module graphs.scan; select * from _graph_aggregating_scan!((select 1 as source_node_id, 2 as dest_node_id union all select 2, 3 union all select 3, 2), (select 1 as id, 1 as n), (n), (select id, sum(n) as n from $table group by id));
include perfetto module graphs.scan; select * from _graph_scan!((select 1 as source_node_id, -2 as dest_node_id), (select 1 as id, 1 as a, 2 as b, 3 as c, 4 as d, 5 as e, 6 as f, 7 as g), (a, b, c, d, e, f, g), (select t.* from $table t));
include perfetto module graphs.scan; create perfetto macro twice(x Expr) returns Expr as ($x + $x); select * from _graph_scan!((select 1 as source_node_id, 2 as dest_node_id), (select 1 as id, 4 as a), (a), (select id, twice!(a) as a from $table));
include perfetto module graphs.scan; select * from _graph_scan!((select 1 as source_node_id, 2 as dest_node_id), (select 1 as id, 'it''s' as a), (a), (select id, a || ' o''clock' as a from $table));
include perfetto module graphs.scan; select * from _graph_scan!((select 1 as source_node_id, 2 as dest_node_id), (select 1 as id, 1 as a), (a), (select id, b from $table));
include perfetto module graphs.scan; select * from _graph_scan!((select 1 as source_node_id, 2 as dest_node_id), (select 1 as id, 1 as a), (a), (select id, x'00' as a from $table));
select * from _hw_graph_scan((select _hw_gather(1, 2)), (select _hw_gather(1, 5)), 'heap_profile; drop table x');
select * from _hw_graph_scan((select _hw_gather(1, 2)), (select _hw_gather(1, 5)), 'heap_profile');
select * from _hw_graph_scan((select _hw_gather(1, 2)), (select _hw_gather(1, 5)), null);
select * from _hw_graph_scan((select _hw_gather(1, 2)), (select _hw_gather(1, 2, 3, 4, 5, 6, 7, 8, 9)), '(select 1)');
create view deep as select * from _hw_graph_scan((select _hw_gather(1, 2)), (select _hw_gather(1, 5)), '(select c0, c1 from deep)'); select * from deep;
select __intrinsic_stringify!(select 'a' || "b") as text, __intrinsic_stringify!(cast_int!(1)) as expanded;
select __intrinsic_stringify!(a, b);
