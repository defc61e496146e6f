-- trace: heap_graph_metadata.txt
select * from heap_graph;
select upid, pid, name, uid, android_appid, android_user_id from process;
select package_name, uid, debuggable, profileable_from_shell, version_code from package_list;
select * from android_heap_graph_java_oome_details;
select t.id, heap_graph_id, utid, tid, callsite_id from heap_graph_thread_callsite t join thread using (utid);
select c.id, depth, parent_id, f.name, rel_pc, m.name as mapping, m.build_id, s.name as symbol, s.source_file, s.line_number from stack_profile_callsite c
  join stack_profile_frame f on f.id = c.frame_id join stack_profile_mapping m on m.id = f.mapping left join stack_profile_symbol s using (symbol_set_id);
select count(*) from heap_graph_object;
select name, severity, idx, value from stats where name glob 'heap_graph*';
