-- trace: ../../trace/native/interning.txt
select p.pid, ts, ts_end, dur, heap_name from heap_profile join process p using (upid) order by ts_end, p.pid;
select p.pid, a.ts, a.size, group_concat(f.name, ' < ') as stack from heap_profile_allocation a join process p using (upid)
  join stack_profile_callsite c on c.id = a.callsite_id join stack_profile_frame f on f.id = c.frame_id
  group by a.id order by a.ts, p.pid;
select name, build_id, start, "end", load_bias from stack_profile_mapping order by name;
select p.pid, f.name, f.cumulative_size, f.map_name from process p, experimental_flamegraph(1300, p.upid, 'native') f
  where p.pid in (7, 8) order by p.pid, f.id;
select p.pid, f.name, f.cumulative_size from process p, experimental_flamegraph(1100, p.upid, 'native') f where p.pid = 7;
select name, idx, value from stats where value and severity <> 'info';
