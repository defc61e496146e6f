-- trace: packets_by_time.txt
-- Rows have the order of time, whatever the file's (doc/formats/reading.md 1.5).
select upid, pid, name from process order by upid;
select c.ts, p.pid, c.value from counter c join process_counter_track t on c.track_id = t.id join process p using (upid) order by c.id;
select a.ts, p.pid, a.count, a.size from heap_profile_allocation a join process p using (upid);
