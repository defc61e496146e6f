-- trace: account.txt
select part, rss, pss, swap from heapwise_account((select upid from process where pid = 7)) where name is null;
select part, name, rss, swap, size, mappings, ts from heapwise_account((select upid from process where pid = 7)) where name is not null;
select sum(iif(name is null, rss, 0)) - (select sum(rss_kb) * 1024 from profiler_smaps where ts = 2000) as rest from heapwise_account((select upid from process where pid = 7));
select c.name, value from counter join process_counter_track c on c.id = track_id where c.name like 'account%' or c.name like 'cgroup%' order by 1;
