/*
 * Modules about the memory of processes, from counters. Low memory kills, kswapd and single dmabufs
 * have none: they are ftrace events, which no importer reads.
 */
#include "sql/modules/module_texts.h"

#include "base/banned.h"

/* One line of C per line of SQL. */
/* clang-format off */
const char hw_module_counter_intervals[] =
    /* consecutive equal values form one interval; the last one lasts until the trace ends */
    "CREATE PERFETTO MACRO counter_leading_intervals(counter_table TableOrSubquery)"
    " RETURNS TableOrSubquery AS ("
    "  SELECT id, ts, lead(ts, 1, trace_end()) OVER w - ts AS dur, track_id, value,"
    "   lead(value) OVER w AS next_value, delta_value"
    "  FROM (SELECT id, ts, track_id, value, value - lag(value) OVER v AS delta_value,"
    "    lag(value) OVER v AS before FROM $counter_table WINDOW v AS (PARTITION BY track_id ORDER BY ts, id))"
    "  WHERE before IS NULL OR before != value WINDOW w AS (PARTITION BY track_id ORDER BY ts, id));";

/* The last known value: rows up to the next known one are a group. */
#define KNOWN(column) " count(" #column ") OVER w AS g_" #column
#define LAST(column)  " max(" #column ") OVER (PARTITION BY upid, g_" #column ") AS " #column
#define MEMORY(column, name) " max(iif(t.name = '" name "', v.value, NULL)) AS " #column

const char hw_module_memory_general[] =
    /* a value lasts until the next one, the last one until just after the end of the process or
     * trace */
    "CREATE PERFETTO VIEW _all_counters_per_process AS SELECT v.ts, lead(v.ts, 1, ifnull(p.end_ts, trace_end()) + 1)"
    "  OVER (PARTITION BY v.track_id ORDER BY v.ts) - v.ts AS dur, t.upid, v.value, v.track_id, t.name"
    " FROM process_counter_track t JOIN counter v ON v.track_id = t.id LEFT JOIN process p ON p.upid = t.upid;";

const char hw_module_memory_process[] =
    "INCLUDE PERFETTO MODULE linux.memory.general;"
    "CREATE PERFETTO VIEW memory_rss_and_swap_per_process AS"
    " WITH changes AS (SELECT t.upid, v.ts," MEMORY(anon_rss, "mem.rss.anon") "," MEMORY(file_rss, "mem.rss.file") ","
    MEMORY(shmem_rss, "mem.rss.shmem") "," MEMORY(swap, "mem.swap")
    "  FROM process_counter_track t JOIN counter v ON v.track_id = t.id"
    "  WHERE t.name IN ('mem.rss.anon', 'mem.rss.file', 'mem.rss.shmem', 'mem.swap') GROUP BY t.upid, v.ts),"
    " groups AS (SELECT *," KNOWN(anon_rss) "," KNOWN(file_rss) "," KNOWN(shmem_rss) "," KNOWN(swap)
    "  FROM changes WINDOW w AS (PARTITION BY upid ORDER BY ts)),"
    " spans AS (SELECT upid, ts," LAST(anon_rss) "," LAST(file_rss) "," LAST(shmem_rss) "," LAST(swap) " FROM groups)"
    " SELECT s.ts, lead(s.ts, 1, ifnull(p.end_ts, trace_end()) + 1) OVER (PARTITION BY s.upid ORDER BY s.ts) - s.ts AS dur,"
    "  s.upid, p.pid, p.name AS process_name, CAST(anon_rss AS INT) AS anon_rss, CAST(file_rss AS INT) AS file_rss,"
    "  CAST(shmem_rss AS INT) AS shmem_rss, CAST(anon_rss + file_rss + ifnull(shmem_rss, 0) AS INT) AS rss,"
    "  CAST(swap AS INT) AS swap, CAST(anon_rss + ifnull(swap, 0) AS INT) AS anon_rss_and_swap,"
    "  CAST(anon_rss + file_rss + ifnull(shmem_rss, 0) + ifnull(swap, 0) AS INT) AS rss_and_swap"
    " FROM spans s JOIN process p ON p.upid = s.upid;";

const char hw_module_memory_high_watermark[] =
    "INCLUDE PERFETTO MODULE counters.intervals;"
    "INCLUDE PERFETTO MODULE linux.memory.process;"
    "CREATE PERFETTO VIEW memory_rss_high_watermark_per_process AS"
    " WITH highest AS (SELECT 0 AS id, ts, upid AS track_id, max(ifnull(file_rss, 0) + ifnull(anon_rss, 0)"
    "   + ifnull(shmem_rss, 0)) OVER (PARTITION BY upid ORDER BY ts) AS value FROM memory_rss_and_swap_per_process)"
    " SELECT i.ts, i.dur, i.track_id AS upid, p.pid, p.name AS process_name, i.value AS rss_high_watermark"
    " FROM counter_leading_intervals!(highest) i JOIN process p ON p.upid = i.track_id;";

const char hw_module_dmabuf_spans[] =
    "INCLUDE PERFETTO MODULE counters.intervals;"
    "CREATE PERFETTO VIEW _dmabuf_spans AS"
    " WITH told AS (SELECT v.* FROM process_counter_track t JOIN counter v ON v.track_id = t.id"
    "  WHERE t.name = 'mem.dmabuf_rss')"
    " SELECT t.upid, i.ts, i.dur, CAST(i.value AS INT) AS dmabuf_rss"
    " FROM counter_leading_intervals!(told) i JOIN process_counter_track t ON t.id = i.track_id;";

/* The reasons for a score's changes are slices of the system server, which no importer reads. */
#define NO_REASON " NULL AS oom_adj_id, NULL AS oom_adj_ts, NULL AS oom_adj_dur, NULL AS oom_adj_track_id,"         \
    " NULL AS oom_adj_thread_name, NULL AS oom_adj_reason, NULL AS oom_adj_trigger"

const char hw_module_oom_adjuster[] =
    "INCLUDE PERFETTO MODULE counters.intervals;"
    "CREATE PERFETTO FUNCTION android_oom_adj_score_to_bucket_name(oom_score LONG) RETURNS STRING AS"
    " SELECT CASE WHEN $oom_score IS NULL THEN NULL WHEN $oom_score >= 900 THEN 'cached'"
    "  WHEN $oom_score >= 250 THEN 'background' WHEN $oom_score > 200 THEN 'job'"
    "  WHEN $oom_score = 200 THEN 'foreground_service' WHEN $oom_score >= 100 THEN 'bfgs'"
    "  WHEN $oom_score >= 0 THEN 'foreground' ELSE 'system' END;"
    "CREATE PERFETTO VIEW android_oom_adj_intervals AS"
    " WITH told AS (SELECT v.* FROM process_counter_track t JOIN counter v ON v.track_id = t.id"
    "  WHERE t.name = 'oom_score_adj')"
    " SELECT i.ts, i.dur, CAST(i.value AS INT) AS score,"
    "  android_oom_adj_score_to_bucket_name(CAST(i.value AS INT)) AS bucket, p.upid, p.name AS process_name," NO_REASON
    " FROM counter_leading_intervals!(told) i JOIN process_counter_track t ON t.id = i.track_id"
    " JOIN process p ON p.upid = t.upid;";

/*
 * Intersects two lists of intervals: each start, and the end (0) of a process's last interval, is a
 * row; the value at that time is the last one before it.
 */
const char hw_module_android_memory_process[] =
    "INCLUDE PERFETTO MODULE android.oom_adjuster;"
    "INCLUDE PERFETTO MODULE linux.memory.process;"
    "CREATE PERFETTO VIEW memory_oom_score_with_rss_and_swap_per_process AS"
    " WITH scores AS MATERIALIZED (SELECT row_number() OVER () AS n, * FROM android_oom_adj_intervals),"
    " sizes AS MATERIALIZED (SELECT row_number() OVER () AS n, * FROM memory_rss_and_swap_per_process),"
    " told AS (SELECT upid, ts, n AS score, NULL AS size FROM scores"
    "  UNION ALL SELECT upid, max(ts + dur), 0, NULL FROM scores GROUP BY upid"
    "  UNION ALL SELECT upid, ts, NULL, n FROM sizes"
    "  UNION ALL SELECT upid, max(ts + dur), NULL, 0 FROM sizes GROUP BY upid),"
    " moments AS (SELECT upid, ts, max(score) AS score, max(size) AS size FROM told GROUP BY upid, ts),"
    " groups AS (SELECT *, count(score) OVER w AS g_score, count(size) OVER w AS g_size,"
    "   lead(ts) OVER w AS until FROM moments WINDOW w AS (PARTITION BY upid ORDER BY ts)),"
    " held AS (SELECT upid, ts, until, max(score) OVER (PARTITION BY upid, g_score) AS score,"
    "   max(size) OVER (PARTITION BY upid, g_size) AS size FROM groups)"
    " SELECT h.ts, h.until - h.ts AS dur, o.score, o.bucket, h.upid, p.name AS process_name, p.pid," NO_REASON
    "  , m.anon_rss, m.file_rss, m.shmem_rss, m.rss, m.swap, m.anon_rss_and_swap, m.rss_and_swap"
    " FROM held h JOIN process p ON p.upid = h.upid LEFT JOIN scores o ON o.n = h.score"
    " LEFT JOIN sizes m ON m.n = h.size WHERE o.n IS NOT NULL OR m.n IS NOT NULL ORDER BY h.upid, h.ts;";

#define PART_OF_ZYGOTE "('mem.rss.anon', 'mem.swap', 'mem.rss.file', 'mem.heap')"

const char hw_module_memory_breakdown[] =
    "INCLUDE PERFETTO MODULE android.oom_adjuster;"
    "INCLUDE PERFETTO MODULE counters.intervals;"
    "CREATE PERFETTO VIEW _hw_memory_tracks AS"
    " SELECT id AS track_id, iif(name = 'Heap size (KB)', 'mem.heap', name) AS name, upid FROM process_counter_track"
    " WHERE name IN ('mem.rss.anon', 'mem.swap', 'mem.rss.file', 'mem.rss.shmem', 'Heap size (KB)', 'mem.dmabuf_rss',"
    "  'mem.locked', 'GPU Memory');"
    "CREATE PERFETTO VIEW _hw_memory_counters AS"
    " SELECT v.id, v.ts, v.track_id, CAST(v.value AS INT) * iif(t.name = 'mem.heap', 1024, 1) AS value"
    " FROM _hw_memory_tracks t JOIN counter v ON v.track_id = t.track_id;"
    /* minus the average of its zygote, which the process inherited */
    "CREATE PERFETTO VIEW android_process_memory_intervals AS"
    " WITH told AS MATERIALIZED (SELECT * FROM counter_leading_intervals!(_hw_memory_counters)),"
    " zygotes AS MATERIALIZED (SELECT upid FROM process WHERE name IN ('zygote', 'zygote64')),"
    " inherited AS MATERIALIZED (SELECT t.upid, t.name, CAST(avg(v.value) AS INT) AS value FROM zygotes z"
    "  JOIN _hw_memory_tracks t ON t.upid = z.upid JOIN _hw_memory_counters v ON v.track_id = t.track_id"
    "  WHERE t.name IN " PART_OF_ZYGOTE " GROUP BY 1, 2),"
    " jumps AS MATERIALIZED (SELECT DISTINCT track_id FROM told WHERE abs(delta_value) > 104857600),"
    " clipped AS (SELECT i.id, max(i.ts, ifnull(p.start_ts, i.ts)) AS ts,"
    "   min(i.ts + i.dur, ifnull(p.end_ts, i.ts + i.dur)) AS until, p.name AS process_name, p.upid, p.pid,"
    "   t.name AS memory_track_name, i.track_id, i.value, p.parent_upid"
    "  FROM told i JOIN _hw_memory_tracks t ON t.track_id = i.track_id JOIN process p ON p.upid = t.upid)"
    " SELECT c.id, c.ts, c.until - c.ts AS dur, c.process_name, c.upid, c.pid, c.memory_track_name, c.track_id, c.value,"
    "  iif(c.upid IN (SELECT upid FROM zygotes), c.value, max(0, c.value - ifnull(h.value, 0))) AS zygote_adjusted_value,"
    "  c.track_id IN (SELECT track_id FROM jumps) AS track_has_spike_gt_100mib"
    " FROM clipped c LEFT JOIN inherited h ON h.upid = c.parent_upid AND h.name = c.memory_track_name"
    " WHERE c.until > c.ts;"
    /* split where the process's bucket changes */
    "CREATE PERFETTO VIEW android_process_memory_intervals_by_oom_bucket AS"
    " WITH sizes AS MATERIALIZED (SELECT row_number() OVER () AS n, * FROM android_process_memory_intervals),"
    " buckets AS MATERIALIZED (SELECT row_number() OVER () AS n, * FROM android_oom_adj_intervals WHERE dur > 0),"
    " tracks AS MATERIALIZED (SELECT DISTINCT track_id, upid FROM sizes),"
    " told AS (SELECT track_id, ts, n AS size, NULL AS bucket FROM sizes"
    "  UNION ALL SELECT track_id, ts + dur, 0, NULL FROM sizes"
    "  UNION ALL SELECT t.track_id, b.ts, NULL, b.n FROM tracks t JOIN buckets b ON b.upid = t.upid"
    "  UNION ALL SELECT t.track_id, max(b.ts + b.dur), NULL, 0 FROM tracks t JOIN buckets b ON b.upid = t.upid"
    "   GROUP BY t.track_id),"
    " moments AS (SELECT track_id, ts, max(size) AS size, max(bucket) AS bucket FROM told GROUP BY track_id, ts),"
    " groups AS (SELECT *, count(size) OVER w AS g_size, count(bucket) OVER w AS g_bucket, lead(ts) OVER w AS until"
    "  FROM moments WINDOW w AS (PARTITION BY track_id ORDER BY ts)),"
    " held AS (SELECT track_id, ts, until, max(size) OVER (PARTITION BY track_id, g_size) AS size,"
    "   max(bucket) OVER (PARTITION BY track_id, g_bucket) AS bucket FROM groups)"
    " SELECT row_number() OVER () AS id, h.ts, h.until - h.ts AS dur, m.process_name, m.upid, m.pid,"
    "  ifnull(b.bucket, 'unknown') AS bucket, m.memory_track_name, m.track_id, m.id AS counter_id, m.value,"
    "  m.zygote_adjusted_value, m.track_has_spike_gt_100mib"
    " FROM held h JOIN sizes m ON m.n = h.size LEFT JOIN buckets b ON b.n = h.bucket;";
/* clang-format on */
