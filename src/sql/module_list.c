/*
 * The views of every connection, and the modules of `INCLUDE PERFETTO MODULE`. Modules about data
 * that no importer reads are not in the list: including them is an error, not an empty result.
 */
#include "base/bytes.h"
#include "sql/engine.h"
#include "sql/graph_modules.h"
#include "sql/modules/module_texts.h"

#include "base/banned.h"

const char hw_sql_prelude[] =
    "CREATE VIEW trace_bounds AS SELECT trace_start() AS start_ts, trace_end() AS end_ts;"
    "CREATE PERFETTO FUNCTION trace_dur() RETURNS LONG AS SELECT trace_end() - trace_start();"
    "CREATE VIEW process_memory_mappings AS SELECT id, upid, ts, path_trimmed AS path,"
    " aggregate_count, is_deleted, size_kb, rss_kb, anonymous_kb, swap_kb,"
    " shared_clean_resident_kb AS shared_clean_kb, shared_dirty_resident_kb AS shared_dirty_kb,"
    " private_clean_resident_kb AS private_clean_kb, private_dirty_kb, locked_kb,"
    " proportional_resident_kb AS pss_kb, pss_dirty_kb, swap_pss_kb FROM profiler_smaps;"
    /* A callsite's path, outermost first, with the annotation of each frame. */
    "CREATE PERFETTO FUNCTION experimental_annotated_callstack(start_id LONG)"
    " RETURNS TABLE(id LONG, depth LONG, parent_id LONG, frame_id LONG, annotation STRING) AS"
    " WITH RECURSIVE path(id, depth, parent_id, frame_id) AS ("
    "  SELECT id, depth, parent_id, frame_id FROM stack_profile_callsite WHERE id = $start_id"
    "  UNION ALL"
    "  SELECT c.id, c.depth, c.parent_id, c.frame_id FROM path p"
    "  JOIN stack_profile_callsite c ON c.id = p.parent_id)"
    " SELECT id, depth, parent_id, frame_id, nullif(_callsite_annotation(id), 'none') FROM path "
    "ORDER BY depth;"
    /* Warnings about the trace as a whole. */
    "CREATE VIEW trace_diagnostics AS"
    " SELECT key AS name, iif(confidence > 0.5, 'high', 'low') AS confidence,"
    "  'sampling_interval_bytes is ' || interval_bytes || ': below 102400 the profiled program may"
    " become slow' AS message FROM __intrinsic_trace_diagnostics;";

static const char symbolization_candidates[] =
    /* Unsymbolized frames on the paths of samples, once per process. */
    "CREATE PERFETTO VIEW _stacks_symbolization_candidates AS"
    " WITH RECURSIVE sampled(upid, id) AS ("
    "  SELECT upid, callsite_id FROM heap_profile_allocation"
    "  UNION"
    "  SELECT t.upid, s.callsite_id FROM perf_sample s JOIN thread t USING (utid)"
    "  WHERE s.callsite_id IS NOT NULL"
    "  UNION"
    "  SELECT s.upid, c.parent_id FROM sampled s JOIN stack_profile_callsite c ON c.id = s.id"
    "  WHERE c.parent_id IS NOT NULL)"
    " SELECT s.upid, m.name AS module, m.build_id, f.rel_pc,"
    "  _to_breakpad_module(m.name, m.build_id) AS breakpad_module_id, m.load_bias"
    " FROM sampled s JOIN stack_profile_callsite c ON c.id = s.id"
    " JOIN stack_profile_frame f ON f.id = c.frame_id JOIN stack_profile_mapping m ON m.id = "
    "f.mapping"
    " WHERE f.symbol_set_id IS NULL AND m.build_id != ''"
    " GROUP BY s.upid, m.id, f.rel_pc;";

static const char summary_tree[] =
    "INCLUDE PERFETTO MODULE callstacks.stack_profile;"
    "CREATE PERFETTO VIEW _android_heap_profile_raw_callstacks AS"
    " WITH sums AS MATERIALIZED (SELECT callsite_id, sum(size) AS self_size,"
    "   sum(max(size, 0)) AS self_alloc_size FROM heap_profile_allocation GROUP BY callsite_id)"
    " SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number,"
    "  iif(c.is_leaf_function_in_callsite_frame, ifnull(s.self_size, 0), 0) AS self_size,"
    "  iif(c.is_leaf_function_in_callsite_frame, ifnull(s.self_alloc_size, 0), 0)"
    "   AS self_alloc_size FROM _callstacks_for_stack_profile_samples!(sums) c"
    " LEFT JOIN sums s USING (callsite_id);"
    "CREATE PERFETTO VIEW _android_heap_profile_cumulatives AS"
    " SELECT a.id, a.value AS cumulative_size, b.value AS cumulative_alloc_size"
    " FROM _hw_tree_sums((SELECT _hw_gather(id, parent_id, self_size)"
    "  FROM _android_heap_profile_raw_callstacks)) a"
    " JOIN _hw_tree_sums((SELECT _hw_gather(id, parent_id, self_alloc_size)"
    "  FROM _android_heap_profile_raw_callstacks)) b ON b.id = a.id;"
    "CREATE PERFETTO VIEW android_heap_profile_summary_tree AS"
    " SELECT id, parent_id, ifnull(nullif(demangle(name), ''), 'unknown') AS name,"
    "  map_name AS mapping_name, source_file, line_number,"
    "  size AS self_size, cumulative_size, alloc_size AS self_alloc_size,"
    "  cumulative_alloc_size FROM heap_profile_tree;";

static const char intervals[] =
    /* The changes of each dump; retained: of callsites with more allocations than frees. A window
     * without a start begins after the previous one, or after the start of the trace. */
    "CREATE PERFETTO VIEW _android_heap_profile_intervals AS"
    " WITH placed AS ("
    "  SELECT *, iif(start < end, start, min(end, 1 + ifnull("
    "    lag(end) OVER (PARTITION BY upid, heap_name ORDER BY end), trace_start()))) AS ts"
    "  FROM _hw_dump_sums)"
    " SELECT id, upid, heap_name, ts, end - ts AS dur, retained, allocated, delta"
    " FROM placed ORDER BY id;";

/* Modules that scripts include, although their contents are in every connection. */
#define HW_PRELUDE_MODULES(X)                                                                      \
    X(slices)                                                                                      \
    X(tables)                                                                                      \
    X(tables_views)                                                                                \
    X(trace_bounds)                                                                                \
    X(views)                                                                                       \
    X(before_eof.functions)                                                                        \
    X(before_eof.metadata)                                                                         \
    X(before_eof.stats)                                                                            \
    X(before_eof.tables)                                                                           \
    X(before_eof.trace_bounds)                                                                     \
    X(before_eof.trace_diagnostics)                                                                \
    X(before_eof.views)                                                                            \
    X(after_eof.casts)                                                                             \
    X(after_eof.core)                                                                              \
    X(after_eof.counters)                                                                          \
    X(after_eof.cpu_scheduling)                                                                    \
    X(after_eof.events)                                                                            \
    X(after_eof.gpu)                                                                               \
    X(after_eof.indexes)                                                                           \
    X(after_eof.memory)                                                                            \
    X(after_eof.slices)                                                                            \
    X(after_eof.stack_samples)                                                                     \
    X(after_eof.state)                                                                             \
    X(after_eof.tables_views)                                                                      \
    X(after_eof.tracks)                                                                            \
    X(after_eof.views)

const struct hw_sql_module hw_sql_modules[] = {
    {"prelude", ""},
#define X(name) {"prelude." #name, ""},
    HW_PRELUDE_MODULES(X)
#undef X
        {"callstacks.stack_profile", hw_module_stack_profile},
    {"stacks.symbolization_candidates", symbolization_candidates},
    {"android.memory.heap_profile.callstacks", hw_module_heap_profile_callstacks},
    {"android.memory.heap_profile.summary_tree", summary_tree},
    {"android.memory.heap_profile.intervals", intervals},
#define X(name) {"android.memory.heap_graph." #name, hw_module_##name},
    HW_GRAPH_MODULES(X)
#undef X
        {"graphs.dominator_tree", hw_module_graph_dominators},
    {"android.oom_adjuster", hw_module_oom_adjuster},
    {"android.process_metadata", hw_module_process_metadata},
    {"android.user_list", hw_module_user_list},
    {"counters.intervals", hw_module_counter_intervals},
    {"android.memory.dmabuf_spans", hw_module_dmabuf_spans},
    {"android.memory.memory_breakdown", hw_module_memory_breakdown},
    {"android.memory.process", hw_module_android_memory_process},
    {"linux.memory.general", hw_module_memory_general},
    {"linux.memory.high_watermark", hw_module_memory_high_watermark},
    {"linux.memory.process", hw_module_memory_process},
    {"stacks.cpu_profiling", hw_module_cpu_profiling},
    {"graphs.scan", hw_module_graph_scan},
    {"graphs.search", hw_module_graph_search},
    {"graphs.hierarchy", hw_module_graph_hierarchy},
    {"graphs.partition", hw_module_graph_partition},
};
const size_t hw_n_sql_modules = HW_ARRAY_LEN(hw_sql_modules);
