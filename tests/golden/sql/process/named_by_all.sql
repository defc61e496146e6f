-- trace: named_by_all.txt
select p.upid, p.pid, p.name, t.utid, t.tid, t.is_main_thread from process p left join thread t using (upid) order by p.upid;
select (select upid from profiler_smaps) as maps, (select upid from heap_profile) as dump, (select upid from heap_graph order by id limit 1) as graph, (select max(upid) from heap_graph) as metadata;
