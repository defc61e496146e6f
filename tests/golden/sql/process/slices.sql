-- trace: slices.txt
select * from slice;
select * from thread_track;
select * from track;
select t.tid, t.name as thread, p.name as process, s.name from slice s join thread_track k on s.track_id = k.id
  join thread t using (utid) join process p using (upid) where s.ts between 1100 and 1200 order by s.ts;
select c.name as outer_name, s.name from slice s join slice c on s.parent_id = c.id order by s.id;
select name, value from stats where name in ('misplaced_end_event', 'slice_drop_overlapping_complete_event');
