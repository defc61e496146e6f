-- trace: memory_counters.txt
-- each
include perfetto module linux.memory.general; select ts, dur, upid, name, value from _all_counters_per_process where name in ('mem.rss.anon', 'oom_score_adj') order by upid, name, ts;
include perfetto module linux.memory.process; select * from memory_rss_and_swap_per_process order by upid, ts;
include perfetto module linux.memory.high_watermark; select * from memory_rss_high_watermark_per_process order by upid, ts;
include perfetto module android.memory.dmabuf_spans; select * from _dmabuf_spans;
include perfetto module android.oom_adjuster; select ts, dur, score, bucket, upid, process_name, oom_adj_id, oom_adj_ts, oom_adj_dur, oom_adj_track_id, oom_adj_thread_name, oom_adj_reason, oom_adj_trigger from android_oom_adj_intervals;
include perfetto module android.memory.process; select ts, dur, score, bucket, upid, process_name, pid, anon_rss, file_rss, shmem_rss, rss, swap, anon_rss_and_swap, rss_and_swap from memory_oom_score_with_rss_and_swap_per_process;
include perfetto module android.memory.process; select oom_adj_id, oom_adj_ts, oom_adj_dur, oom_adj_track_id, oom_adj_thread_name, oom_adj_reason, oom_adj_trigger from memory_oom_score_with_rss_and_swap_per_process limit 1;
include perfetto module android.memory.memory_breakdown; select ts, dur, process_name, upid, pid, memory_track_name, value, zygote_adjusted_value, track_has_spike_gt_100mib from android_process_memory_intervals order by upid, memory_track_name, ts;
include perfetto module android.memory.memory_breakdown; select ts, dur, process_name, bucket, memory_track_name, value, zygote_adjusted_value, track_has_spike_gt_100mib from android_process_memory_intervals_by_oom_bucket order by upid, memory_track_name, ts;
include perfetto module android.memory.memory_breakdown; select count(*) = count(distinct i.id) as ids, sum(i.track_id = c.track_id) = count(*) as counters from android_process_memory_intervals_by_oom_bucket i join counter c on c.id = i.counter_id;
include perfetto module android.memory.lmk;
include perfetto module android.memory.dmabuf;
