-- trace: intervals.txt
include perfetto module android.memory.heap_profile.intervals;
select * from _android_heap_profile_intervals;
