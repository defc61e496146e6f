-- trace: window_from_zero.txt
select heap_name, ts, ts_end, dur from heap_profile;
include perfetto module android.memory.heap_profile.intervals;
select heap_name, ts, dur, delta from _android_heap_profile_intervals;
