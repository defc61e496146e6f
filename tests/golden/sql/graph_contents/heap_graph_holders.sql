-- trace: ../../trace/graph/heap_graph_holders.txt
select * from heap_graph_java_thread;
select * from heap_graph_root_holder;
select h.object_id, h.depth, c.depth, f.name, s.source_file, s.line_number from heap_graph_root_holder h join stack_profile_frame f on f.id = h.frame_id join heap_graph_java_thread t on t.id = h.thread_id join stack_profile_callsite c on c.id = t.callsite_id left join stack_profile_symbol s on s.symbol_set_id = f.symbol_set_id;
select name, idx, value from stats where value > 0;
