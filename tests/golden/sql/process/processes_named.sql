-- trace: processes_named.txt
select upid, pid, name, parent_upid, start_ts, uid, android_appid, android_user_id from process;
select utid, tid, name, upid, is_main_thread, is_idle from thread;
select upid, path from profiler_smaps;
select upid, value from counter c join process_counter_track t on t.id = c.track_id;
select ts, utid from perf_sample;
select name, value from stats where name = 'process_tracker_parent_pid_changed';
