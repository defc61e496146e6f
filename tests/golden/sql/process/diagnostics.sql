-- trace: diagnostics.txt
select id, key, confidence, trace_id, length(title) > 0 as has_title, length(description) > 0 as has_description, length(remediation) > 0 as has_remedy from __intrinsic_trace_diagnostics;
select * from trace_diagnostics;
select name, severity, idx, value from stats where name = 'heap_graph_non_finalized_graph';
select id, name, machine_id, trace_id from stats where name glob 'heapprofd_client_error';
