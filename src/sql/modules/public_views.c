/*
 * Names that scripts for Perfetto's trace processor rely on. Tables about data that no importer
 * reads are here, empty, only where front ends query them in any case.
 */
#include "sql/modules/module_texts.h"

#include "base/banned.h"

/* One line of C per line of SQL. */
/* clang-format off */
#define TRACK "NULL AS type, NULL AS parent_id, NULL AS source_arg_set_id, 0 AS machine_id"

const char hw_sql_public_views[] =
    "CREATE PERFETTO MACRO cast_int(value Expr) RETURNS Expr AS CAST($value AS INT);"
    "CREATE PERFETTO MACRO cast_double(value Expr) RETURNS Expr AS CAST($value AS REAL);"
    "CREATE PERFETTO MACRO cast_string(value Expr) RETURNS Expr AS CAST($value AS TEXT);"
    /* tracks */
    "CREATE VIEW counter_track AS"
    " SELECT id, name, type, parent_id, dimension_arg_set_id, source_arg_set_id, machine_id, NULL AS unit,"
    "  NULL AS description FROM process_counter_track"
    " UNION ALL SELECT id, name, type, parent_id, dimension_arg_set_id, source_arg_set_id, machine_id, unit,"
    "  description FROM perf_counter_track;"
    "CREATE VIEW track AS"
    " SELECT id, name, type, parent_id, dimension_arg_set_id, source_arg_set_id, machine_id,"
    "  NULL AS track_group_id FROM counter_track"
    " UNION ALL SELECT track_id, 'memory_snapshot', NULL, NULL, NULL, NULL, 0, NULL FROM memory_snapshot"
    "  GROUP BY track_id"
    " UNION ALL SELECT id, name, NULL, NULL, NULL, NULL, 0, NULL FROM _hw_slice_track;"
    "CREATE VIEW thread_track AS SELECT id, name, utid, " TRACK " FROM _hw_slice_track"
    " WHERE utid IS NOT NULL;"
    "CREATE VIEW process_track AS SELECT id, name, 0 AS upid, " TRACK " FROM _hw_slice_track WHERE 0;"
    "CREATE VIEW thread_counter_track AS SELECT id, name, 0 AS utid, " TRACK " FROM _hw_slice_track WHERE 0;"
    "CREATE VIEW counters AS SELECT v.id, v.ts, v.track_id, v.value, v.arg_set_id, t.name, t.unit"
    " FROM counter v JOIN counter_track t ON t.id = v.track_id;"
    "CREATE VIEW slices AS SELECT * FROM slice;"
    "CREATE VIEW instant AS SELECT id, ts, track_id, name, arg_set_id FROM slice WHERE dur = 0;"
    /* data that no importer reads */
    "CREATE VIEW sched AS SELECT 0 AS id, 0 AS ts, 0 AS dur, 0 AS utid, '' AS end_state, 0 AS priority,"
    " 0 AS ucpu, 0 AS cpu WHERE 0;"
    "CREATE VIEW cpu AS SELECT 0 AS id, 0 AS ucpu, 0 AS cpu, 0 AS cluster_id, '' AS processor, 0 AS machine_id,"
    " 0 AS capacity, 0 AS arg_set_id WHERE 0;"
    "CREATE VIEW machine AS SELECT 0 AS id, 0 AS raw_id;"
    "CREATE VIEW trace_file AS SELECT 0 AS id, 0 AS parent_id, '' AS name, 0 AS size, '' AS trace_type,"
    " 0 AS processing_order WHERE 0;"
    "CREATE VIEW vulkan_memory_allocations AS SELECT 0 AS id, 0 AS arg_set_id, '' AS source, '' AS operation,"
    " 0 AS timestamp, 0 AS upid, 0 AS device, 0 AS device_memory, 0 AS memory_type, 0 AS heap,"
    " '' AS function_name, 0 AS object_handle, 0 AS memory_address, 0 AS memory_size, '' AS scope WHERE 0;"
    "CREATE VIEW cpu_profile_stack_sample AS SELECT 0 AS id, 0 AS ts, 0 AS callsite_id, 0 AS utid,"
    " 0 AS process_priority WHERE 0;"
    "CREATE VIEW __intrinsic_jit_frame AS SELECT 0 AS jit_code_id, 0 AS frame_id WHERE 0;"
    "CREATE VIEW trace_metrics AS SELECT column1 AS name FROM (VALUES ('heap_profile_callsites'),"
    " ('java_heap_class_stats'), ('java_heap_histogram'), ('java_heap_stats'), ('profiler_smaps'),"
    " ('unsymbolized_frames'));"
    /* a callsite's callers, nearest first */
    "CREATE PERFETTO FUNCTION experimental_ancestor_stack_profile_callsite(start_id LONG)"
    " RETURNS TABLE(id LONG, depth LONG, parent_id LONG, frame_id LONG) AS"
    " SELECT c.id, c.depth, c.parent_id, c.frame_id"
    " FROM _hw_callsites_above((SELECT _hw_gather($start_id))) w"
    " CROSS JOIN stack_profile_callsite c ON c.id = w.id WHERE w.id != $start_id ORDER BY c.depth DESC;";
/* clang-format on */
