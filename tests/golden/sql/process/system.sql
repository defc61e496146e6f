-- trace: ../../trace/native/system.txt
select * from thread;
select t.tid, t.name, p.name as process, p.pid from thread t left join process p using (upid) where t.tid = 8;
select upid, pid, name, uid, android_appid, android_user_id from process;
select * from package_list;
select * from profiler_smaps;
select count(*) as n from process_memory_mappings;
select name, idx, severity, source, value from stats where value != 0;
select name, value from stats where idx is null and value = 0 order by name;
select name, int_value, str_value from metadata where name not like 'trace_config%';
select * from trace_diagnostics;
