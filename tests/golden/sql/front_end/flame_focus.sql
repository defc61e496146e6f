-- trace: flame_focus.txt
-- what a focus keeps, and which graphs and dumps there must be
-- each
select id, parent_id, depth, name, count, size, alloc_count, alloc_size, cumulative_size, cumulative_alloc_size, source_file, line_number from experimental_flamegraph('native', 110, null, 1, null, null);
select id, parent_id, depth, name, count, size, alloc_count, alloc_size, cumulative_count, cumulative_size, cumulative_alloc_count, cumulative_alloc_size, source_file, line_number from experimental_flamegraph('native', 110, null, 1, null, 'FOO');
select id, parent_id, depth, name, size, cumulative_size from experimental_flamegraph('native', 110, null, 1, null, 'BA');
select count(*) as n from experimental_flamegraph('native', 110, null, 1, null, 'nobody');
select count(*) as n from experimental_flamegraph('native', 104, null, 1, null, null);
select name, size from experimental_flamegraph('graph', 200, null, 1, null, null);
select name, size from experimental_flamegraph('graph', 201, null, 1, null, null);
select name, size from experimental_flamegraph('graph', 300, null, 1, null, null);
select name, size from experimental_flamegraph('graph', 400, null, 1, null, null);
include perfetto module android.memory.heap_graph.experimental_flamegraph; select 200 as ts, * from _experimental_flamegraph_heap_graph_state!(1, 200); select 300 as ts, * from _experimental_flamegraph_heap_graph_state!(1, 300); select 400 as ts, * from _experimental_flamegraph_heap_graph_state!(1, 400); select 401 as ts, * from _experimental_flamegraph_heap_graph_state!(1, 401);
