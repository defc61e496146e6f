/* Modules about processes and their CPU samples. */
#include "sql/modules/module_texts.h"

#include "base/banned.h"

#define CPU_MODE_NUMBER                                                                            \
    "CASE cpu_mode WHEN 'kernel' THEN 1 WHEN 'user' THEN 2 WHEN 'hypervisor' THEN 3"               \
    " WHEN 'guest_kernel' THEN 4 WHEN 'guest_user' THEN 5 ELSE 0 END"

/* One line of C per line of SQL. */
/* clang-format off */
const char hw_module_process_metadata[] =
    "CREATE PERFETTO FUNCTION android_is_kernel_task(upid LONG) RETURNS BOOL AS"
    " SELECT p.pid = 0 OR ifnull(q.name = 'kthreadd', 0) OR ifnull(q.pid = 0, 0)"
    " FROM process p LEFT JOIN process q ON q.upid = p.parent_upid WHERE p.upid = $upid;"
    /*
     * Ids from 20000 on are derived from an app's id (10000 above it each); those from 90000 on are
     * assigned to isolated processes and identify no app. An app's id may be shared: then the name
     * decides.
     */
    "CREATE PERFETTO VIEW android_process_metadata AS"
    " WITH base AS (SELECT upid, pid, cmdline, android_appid, android_user_id,"
    /* the kernel truncates names to 15 bytes; the command line has the full one */
    "   iif(length(name) = 15 AND (cmdline IN ('zygote', 'zygote64', '<pre-initialized>')"
    "    OR substr(cmdline, -15) = name), cmdline, name) AS process_name,"
    "   CASE WHEN android_appid BETWEEN 20000 AND 29999 THEN android_appid - 10000"
    "    WHEN android_appid BETWEEN 30000 AND 39999 THEN android_appid - 20000 ELSE android_appid END AS app,"
    "   android_appid BETWEEN 90000 AND 99999 AS is_isolated FROM process),"
    " shared AS MATERIALIZED (SELECT uid, count(*) AS n FROM package_list GROUP BY uid),"
    " found AS (SELECT b.*, s.n, (SELECT l.id FROM package_list l"
    "    WHERE instr(iif(b.is_isolated, substr(b.process_name, 1, instr(b.process_name || ':', ':') - 1),"
    "      b.process_name), l.package_name) = 1 AND (b.is_isolated OR l.uid = b.app)"
    "     OR NOT b.is_isolated AND l.uid = b.app AND s.n = 1"
    "    ORDER BY length(l.package_name) DESC LIMIT 1) AS package"
    "   FROM base b LEFT JOIN shared s ON s.uid = b.app)"
    " SELECT f.upid, f.pid, f.process_name, f.android_appid AS uid, iif(f.n > 1, 1, NULL) AS shared_uid,"
    "  f.android_user_id AS user_id, u.type AS user_type, l.package_name, l.version_code, l.debuggable,"
    "  android_is_kernel_task(f.upid) AS is_kernel_task"
    " FROM found f LEFT JOIN package_list l ON l.id = f.package"
    " LEFT JOIN __intrinsic_android_user_list u ON u.android_user_id = f.android_user_id;";

const char hw_module_user_list[] =
    "CREATE PERFETTO VIEW android_user_list AS SELECT android_user_id, type FROM __intrinsic_android_user_list;";

const char hw_module_cpu_profiling[] =
    "INCLUDE PERFETTO MODULE callstacks.stack_profile;"
    "CREATE PERFETTO VIEW cpu_profiling_samples AS"
    " SELECT s.id, s.ts, s.utid, t.tid, t.name AS thread_name, s.cpu AS ucpu, s.cpu, s.callsite_id,"
    "  'linux.perf' AS source FROM perf_sample s LEFT JOIN thread t ON t.utid = s.utid"
    " WHERE s.callsite_id IS NOT NULL AND s.perf_session_id IN ("
    "  SELECT id FROM __intrinsic_profiler_session"
    "  WHERE ifnull(timebase_unit, 'ns') IN ('ns', 'cycles', 'instructions'))"
    " ORDER BY s.ts;"
    "CREATE PERFETTO VIEW cpu_profiling_summary_tree AS"
    " WITH c AS MATERIALIZED (SELECT * FROM _callstacks_for_callsites!(cpu_profiling_samples))"
    " SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number, c.self_count,"
    "  s.cumulative_count FROM _callstacks_self_to_cumulative!(c) s JOIN c ON c.id = s.id ORDER BY c.id;";

const char hw_sql_sample_views[] =
    "CREATE VIEW __intrinsic_profiler_session AS SELECT s.id, 'linux.perf' AS source,"
    " (SELECT CASE WHEN t.name IN ('cpu-clock', 'task-clock') THEN 'ns' WHEN t.name LIKE '%cycles%' THEN 'cycles'"
    "   WHEN t.name LIKE '%instructions%' THEN 'instructions' ELSE 'count' END"
    "  FROM perf_counter_track t WHERE t.perf_session_id = s.id AND t.is_timebase LIMIT 1) AS timebase_unit,"
    " s.cmdline FROM perf_session s;"
    "CREATE VIEW __intrinsic_profiler_task_context AS SELECT t.utid AS id, t.upid, t.utid, NULL AS async_context_id"
    " FROM (SELECT DISTINCT utid FROM perf_sample) s CROSS JOIN thread t ON t.utid = s.utid;"
    "CREATE VIEW __intrinsic_profiler_execution_context AS SELECT DISTINCT cpu * 8 + " CPU_MODE_NUMBER " AS id,"
    " cpu AS ucpu, nullif(cpu_mode, 'unknown') AS cpu_mode FROM perf_sample;"
    "CREATE VIEW __intrinsic_profiler_sample AS SELECT id, ts, 'linux.perf' AS source, utid AS task_context_id,"
    " cpu * 8 + " CPU_MODE_NUMBER " AS execution_context_id, callsite_id, unwind_error,"
    " perf_session_id AS session_id, counter_set_id FROM perf_sample;"
    "CREATE VIEW stack_sample AS SELECT id, ts, source, task_context_id, execution_context_id, callsite_id, session_id"
    " FROM __intrinsic_profiler_sample WHERE callsite_id IS NOT NULL;"
    "CREATE VIEW stack_sample_session AS SELECT * FROM __intrinsic_profiler_session"
    " WHERE id IN (SELECT session_id FROM stack_sample);"
    "CREATE VIEW stack_sample_task_context AS SELECT * FROM __intrinsic_profiler_task_context"
    " WHERE id IN (SELECT task_context_id FROM stack_sample);"
    "CREATE VIEW stack_sample_execution_context AS SELECT * FROM __intrinsic_profiler_execution_context"
    " WHERE id IN (SELECT execution_context_id FROM stack_sample);"
    "CREATE VIEW __intrinsic_profiler_async_context AS SELECT 0 AS id, '' AS name, '' AS kind, 0 AS parent_id WHERE 0;"
    "CREATE VIEW stack_sample_async_context AS SELECT * FROM __intrinsic_profiler_async_context;"
    /* the counters recorded with samples that have a stack */
    "CREATE VIEW stack_sample_counter AS SELECT v.id, s.id AS stack_sample_id, v.track_id, v.value"
    " FROM __intrinsic_profiler_counter_set c CROSS JOIN perf_sample s ON s.counter_set_id = c.counter_set_id"
    " CROSS JOIN counter v ON v.id = c.counter_id WHERE s.callsite_id IS NOT NULL;"
    "CREATE VIEW stack_sample_counter_track AS"
    " SELECT id, name, type, parent_id, source_arg_set_id, machine_id, unit, description,"
    "  perf_session_id AS session_id, cpu, is_timebase FROM perf_counter_track"
    " WHERE id IN (SELECT track_id FROM stack_sample_counter);";
/* clang-format on */
