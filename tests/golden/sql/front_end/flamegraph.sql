-- trace: ../../trace/native/profile.txt
select * from experimental_flamegraph(1200, 1, 'native');
select id, ts, upid, depth, name, count, size, alloc_size, cumulative_size, parent_id from experimental_flamegraph
  where profile_type = 'native' and upid = 1 and ts = 1100;
select id, name, size from experimental_flamegraph('native', 1200, NULL, 1, NULL, NULL);
select id, name, size, cumulative_size from experimental_flamegraph('native', 1200, NULL, 1, NULL, 'FOO');
select id, name, size, cumulative_size from experimental_flamegraph(1200, 1, 'native', 'foo');
select name from experimental_flamegraph where ts = 1200 and upid = 1 and profile_type = 'native' and focus_str = 'nothing';
select h.id, f.name, f.size from heap_profile h, experimental_flamegraph(h.ts_end, h.upid, 'native') f
  where h.heap_name = 'libc.malloc' and f.size > 0;
