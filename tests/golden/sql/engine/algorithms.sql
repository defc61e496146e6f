-- trace: ../../trace/native/profile.txt
-- what newer scripts take for granted, and graphs of any kind
-- each
select if(1, 2, 3), if(0, 2), if(0.5, 'a', 'b'), if(null, 1, 2), if('0', 1, 2), if('x', 1, 2), if(-1, 1);
select cast_int!('12' || '3') + 1 as i, cast_double!(7) as d, cast_string!(1 + 1) as s;
create perfetto table edges as select 1 as source_node_id, 2 as dest_node_id union all select 1, 3 union all select 3, 4 union all select 2, 4 union all select 4, 1 union all select 9, 8; include perfetto module graphs.search; select 'dfs', * from graph_reachable_dfs!(edges, (select 1 as node_id)); select 'bfs', * from graph_reachable_bfs!(edges, (select 1 as node_id union all select 9)); select 'no edges', * from graph_reachable_bfs!((select 1 as source_node_id, 2 as dest_node_id where 0), (select 5 as node_id)); select 'nowhere', * from graph_reachable_dfs!(edges, (select 1 as node_id where 0));
include perfetto module graphs.search; select * from graph_reachable_dfs!((select 1 as source_node_id, -1 as dest_node_id union all select -1, -2 union all select -2, null), (select 1 as node_id union all select -1));
include perfetto module graphs.search; create perfetto table w as select 1 as source_node_id, 2 as dest_node_id, 5 as edge_weight union all select 2, 3, 5 union all select 3, 4, 1 union all select 1, 5, 20; select 'floor', * from graph_reachable_weight_bounded_dfs!(w, (select 1 as root_node_id, 9 as root_target_weight union all select 2, 0), 1); select 'ceiling', * from graph_reachable_weight_bounded_dfs!(w, (select 1 as root_node_id, 10 as root_target_weight union all select 2, 0), 0);
include perfetto module graphs.search; select * from graph_next_sibling!((select 1 as node_id, null as node_parent_id, 0 as sort_key union all select 2, 1, 30 union all select 3, 1, 10 union all select 4, 1, 20)) order by node_id;
include perfetto module graphs.hierarchy; create perfetto table tree as select 1 as id, null as parent_id union all select 2, 1 union all select 3, 2 union all select 4, 1 union all select 6, 5; select id from _tree_reachable_ancestors_or_self!(tree, (select 3 as id union all select 4)) order by id; select id from _tree_reachable_ancestors_or_self!(tree, (select 3 as id where 0));
include perfetto module graphs.partition; select * from tree_structural_partition_by_group!((select 1 as id, null as parent_id, 'a' as group_key union all select 2, 1, 'b' union all select 3, 2, 'a' union all select 4, 3, 'b' union all select 5, 1, 'b' union all select 6, 77, 'c' union all select 7, 6, 'c')) order by id;
include perfetto module callstacks.stack_profile; select * from _callstacks_self_to_cumulative!((select 1 as id, null as parent_id, 1 as self_count union all select 2, 1, 2 union all select 3, 2, 4 union all select 4, 99, 8)) order by id;
include perfetto module callstacks.stack_profile; select * from _callstacks_self_to_cumulative!((select 1 as id, 2 as parent_id, 1.5 as self_count union all select 2, 1, 2)) order by id;
select * from _hw_tree_sums(1);
select * from _hw_tree_sums;
select * from _hw_reach_bfs((select _hw_gather(1, 2)));
