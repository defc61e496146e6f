# name: SQL; what pages and people ask of native profiles
dumps: select upid, heap_name, ts, count(*), sum(size) from heap_profile_allocation group by 1, 2, 3
live by time: select d.ts_end, (select sum(size) from heap_profile_allocation a where a.heap_profile_id = d.id) from heap_profile d
sums by callsite: select callsite_id, sum(size), sum(count), sum(max(size, 0)) from heap_profile_allocation group by 1 order by 2 desc limit 100
top functions: select * from heapwise_top(2) limit 100
first flamegraph: include perfetto module android.memory.heap_profile.callstacks; create virtual table t using __intrinsic_flamegraph((select id, parent_id, ifnull(name, '[unknown]') as name, self_size as value, mapping_name, source_file, cast_string!(line_number) as line_number, self_count from _android_heap_profile_callstacks_for_allocations!((select callsite_id, size, count, max(size, 0) as alloc_size, max(count, 0) as alloc_count from heap_profile_allocation a where a.ts <= 900000000000000000 and a.upid = 2)))); select * from t(__intrinsic_flamegraph_config('value', 'value', 'view', 'TOP_DOWN'))
experimental_flamegraph: select * from experimental_flamegraph('native', 900000000000000000, null, 2, null, null)
intervals: include perfetto module android.memory.heap_profile.intervals; select * from _android_heap_profile_intervals
summary tree: include perfetto module android.memory.heap_profile.summary_tree; select * from android_heap_profile_summary_tree
