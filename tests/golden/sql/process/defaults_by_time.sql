-- trace: defaults_by_time.txt
select s.ts, s.dur, s.name, t.tid from slice s left join thread_track k on k.id = s.track_id left join thread t using (utid) order by s.ts;
