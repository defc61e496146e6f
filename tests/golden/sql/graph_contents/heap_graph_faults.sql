-- trace: ../../trace/graph/heap_graph_faults.txt
-- each
select name, count from experimental_flamegraph(100, 1, 'graph');
select count(*) from experimental_flamegraph(300, 3, 'graph');
select count(*) from experimental_flamegraph('graph', null, null, 1, null, null);
select count(*) from experimental_flamegraph('graph', 100, null, null, null, null);
select name, idx, value from stats where name glob 'heap_graph*';
select id, truncated from heap_graph;
