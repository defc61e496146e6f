-- trace: ../../trace/native/memory_dumps.txt
select * from memory_snapshot;
select * from process_memory_snapshot;
select * from memory_snapshot_node;
select s.path as source, t.path as target, e.importance from memory_snapshot_edge e
  join memory_snapshot_node s on s.id = e.source_node_id join memory_snapshot_node t on t.id = e.target_node_id;
select * from args;
select path, extract_arg(arg_set_id, 'object_count.value') as n, extract_arg(arg_set_id, 'object_count.unit') as unit,
  extract_arg(arg_set_id, 'kind.value') as kind from memory_snapshot_node where arg_set_id is not null;
select extract_arg(null, 'x'), extract_arg(0, null), extract_arg(99, 'x');
select * from track;
select name, value from stats where name = 'memory_snapshot_parser_failure';
select p.pid, n.path, n.size, n.effective_size from memory_snapshot s join process_memory_snapshot q on q.snapshot_id = s.id
  join process p using (upid) join memory_snapshot_node n on n.process_snapshot_id = q.id
  where s.timestamp = 2000 and n.parent_node_id is null;
