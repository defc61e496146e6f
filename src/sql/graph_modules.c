/* The modules about heap graphs: views over the internal tables of graph_views.h. */
#include "sql/graph_modules.h"
#include "sql/engine.h"

#include "base/banned.h"

/* One line of C per line of SQL. */
/* clang-format off */
const char hw_module_excluded_refs[] =
    "CREATE PERFETTO VIEW _ref_type_ids AS SELECT id AS type_id FROM heap_graph_class"
    " WHERE kind IN ('KIND_FINALIZER_REFERENCE', 'KIND_PHANTOM_REFERENCE', 'KIND_WEAK_REFERENCE');"
    "CREATE PERFETTO VIEW _excluded_refs AS SELECT r.id FROM _ref_type_ids t"
    " CROSS JOIN heap_graph_object o ON o.type_id = t.type_id"
    " CROSS JOIN heap_graph_reference r ON r.reference_set_id = o.reference_set_id"
    " WHERE r.field_name = 'java.lang.ref.Reference.referent';";

const char hw_module_dominator_tree[] =
    "INCLUDE PERFETTO MODULE android.memory.heap_graph.raw_dominator_tree;"
    "CREATE PERFETTO VIEW heap_graph_dominator_tree AS"
    " SELECT id, idom_id, dominated_obj_count, dominated_size_bytes, dominated_native_size_bytes,"
    "  depth FROM _hw_heap_graph_dominators WHERE depth > 0;";

const char hw_module_heap_graph_class_aggregation[] =
    "INCLUDE PERFETTO MODULE android.memory.heap_graph.dominator_tree;"
    /* The runtime's own classes and arrays of numbers: of no use when looking for leaks. */
    "CREATE PERFETTO FUNCTION _is_libcore_or_array(obj_name STRING) RETURNS BOOL AS"
    " SELECT ($obj_name GLOB 'java.*' AND NOT $obj_name GLOB 'java.lang.Class<*>')"
    "  OR $obj_name GLOB 'j$.*' OR $obj_name GLOB 'android.util.*Array*'"
    "  OR $obj_name GLOB 'kotlinx.coroutines.*' OR $obj_name GLOB 'kotlinx.atomicfu.*'"
    "  OR ($obj_name GLOB '*[[]*' AND substr($obj_name, 1, instr($obj_name, '[') - 1) IN"
    "   ('int', 'long', 'byte', 'char', 'short', 'float', 'double', 'boolean'));"
    "CREATE PERFETTO VIEW android_heap_graph_class_aggregation AS"
    " SELECT s.upid, s.graph_sample_ts, s.type_id,"
    "  ifnull(c.deobfuscated_name, c.name) AS type_name,"
    "  _is_libcore_or_array(ifnull(c.deobfuscated_name, c.name)) AS is_libcore_or_array,"
    "  s.obj_count, s.size_bytes, s.native_size_bytes, s.reachable_obj_count,"
    "  s.reachable_size_bytes, s.reachable_native_size_bytes, s.dominated_obj_count,"
    "  s.dominated_size_bytes, s.dominated_native_size_bytes"
    " FROM _hw_heap_graph_class_sums s JOIN heap_graph_class c ON c.id = s.type_id"
    " WHERE s.obj_count > 0 ORDER BY s.upid, s.graph_sample_ts, s.type_id;";

/*
 * A counter's value lasts until its next one. The value nearest to a dump is the one that began
 * nearest to it, before or up to half a second after: one recorded 100 ms after the dump is more
 * telling than one from 2 s before. Memory changes when any of its four counters does.
 */
#define NEAREST(what, which)                                                                       \
    "(SELECT " what " FROM (SELECT v.value, v.ts, v.id, abs(v.ts - s.graph_sample_ts) AS distance"  \
    "   FROM process_counter_track t JOIN counter v ON v.track_id = t.id WHERE t.upid = s.upid"    \
    "   AND t.name " which " AND v.ts <= s.graph_sample_ts + 500000000)"                           \
    "  ORDER BY distance, ts, id DESC LIMIT 1)"
#define VALUE_NEAR(counter) NEAREST("value", "= '" counter "'")
#define MEMORY_THEN(counter)                                                                       \
    "(SELECT v.value FROM process_counter_track t JOIN counter v ON v.track_id = t.id"             \
    "  WHERE t.upid = s.upid AND t.name = '" counter "' AND v.ts <= s.memory_ts"                   \
    "  ORDER BY v.ts DESC, v.id DESC LIMIT 1)"

const char hw_module_heap_graph_stats[] =
    "INCLUDE PERFETTO MODULE android.memory.heap_graph.heap_graph_class_aggregation;"
    "CREATE PERFETTO VIEW android_heap_graph_stats AS"
    " WITH sums AS MATERIALIZED (SELECT upid, graph_sample_ts, sum(size_bytes) AS total_heap_size,"
    "   sum(native_size_bytes) AS total_native_alloc_registry_size, sum(obj_count)"
    "    AS total_obj_count, sum(reachable_size_bytes) AS reachable_heap_size,"
    "   sum(reachable_native_size_bytes) AS reachable_native_alloc_registry_size,"
    "   sum(reachable_obj_count) AS reachable_obj_count"
    "  FROM _hw_heap_graph_class_sums GROUP BY upid, graph_sample_ts),"
    " near AS MATERIALIZED (SELECT s.*, "
    NEAREST("ts", "IN ('mem.rss.anon', 'mem.swap', 'mem.rss.file', 'mem.rss.shmem')")
    "   AS memory_ts FROM sums s)"
    " SELECT s.upid, s.graph_sample_ts, s.graph_sample_ts - p.start_ts AS process_uptime,"
    "  total_heap_size, total_native_alloc_registry_size, total_obj_count, reachable_heap_size,"
    "  reachable_native_alloc_registry_size, reachable_obj_count,"
    "  CAST(" VALUE_NEAR("oom_score_adj") " AS INTEGER) AS oom_score_adj,"
    "  CAST(" MEMORY_THEN("mem.rss.anon") " + ifnull(" MEMORY_THEN("mem.swap") ", 0) AS INTEGER)"
    "   AS anon_rss_and_swap_size,"
    "  CAST(" VALUE_NEAR("mem.dmabuf_rss") " AS INTEGER) AS dmabuf_rss_size,"
    "  g.heap_size AS art_bytes_allocated,"
    /* NULL, unknown, if neither says so and one is missing. */
    "  g.dump_reason = 'OOME' OR (SELECT m.str_value FROM metadata m WHERE m.name = 'trace_trigger')"
    "   = 'com.android.telemetry.art-outofmemory' AS is_out_of_memory_error,"
    "  d.allocation_size_bytes AS oome_failing_allocation_size,"
    "  d.free_bytes_until_oom AS oome_remaining_art_free_bytes FROM near s JOIN process p ON p.upid ="
    " s.upid"
    " LEFT JOIN heap_graph g ON g.upid = s.upid AND g.ts = s.graph_sample_ts LEFT JOIN"
    " android_heap_graph_java_oome_details d ON d.heap_graph_id = g.id;";

const char hw_module_class_relationship[] =
    "CREATE PERFETTO MACRO android_heap_graph_class_find_descendants("
    "  ancestor_class_ids TableOrSubquery) RETURNS TableOrSubquery AS ("
    "  WITH RECURSIVE below(id, ancestor_class_id, ancestor_class_name) AS ("
    "    SELECT c.id, c.id, c.name FROM $ancestor_class_ids a JOIN heap_graph_class c ON c.id = a.id"
    "    UNION"
    "    SELECT c.id, b.ancestor_class_id, b.ancestor_class_name FROM below b"
    "    JOIN heap_graph_class c ON c.superclass_id = b.id)"
    "  SELECT id, ancestor_class_id, ancestor_class_name FROM below);";

#define BITMAP_FIELD(name, column)                                                                 \
    "(SELECT v." column " FROM heap_graph_primitive v WHERE v.field_set_id = d.field_set_id"       \
    "  AND v.field_name = 'android.graphics.Bitmap." name "')"

const char hw_module_bitmap[] =
    /* An id is pid * 10^7 + storage * 10^6 + a counter. */
    "CREATE PERFETTO FUNCTION _android_bitmap_storage_type_name(storage_type LONG) RETURNS STRING AS"
    " SELECT CASE $storage_type WHEN 0 THEN 'wrapped_pixel_ref' WHEN 1 THEN 'heap'"
    "  WHEN 2 THEN 'ashmem' WHEN 3 THEN 'hardware' END;"
    "CREATE PERFETTO VIEW android_heap_graph_bitmaps AS"
    " WITH fields AS ("
    "  SELECT o.id AS object_id, o.upid, o.graph_sample_ts, o.self_size, o.native_size, o.reachable,"
    "   " BITMAP_FIELD("mWidth", "int_value") " AS width,"
    "   " BITMAP_FIELD("mHeight", "int_value") " AS height,"
    "   " BITMAP_FIELD("mDensity", "int_value") " AS density,"
    "   " BITMAP_FIELD("mId", "long_value") " AS bitmap_id,"
    "   nullif(" BITMAP_FIELD("mSourceId", "long_value") ", -1) AS source_id"
    "  FROM heap_graph_class c JOIN heap_graph_object o ON o.type_id = c.id"
    "  LEFT JOIN heap_graph_object_data d ON d.id = o.object_data_id"
    "  WHERE ifnull(c.deobfuscated_name, c.name) = 'android.graphics.Bitmap'),"
    " senders AS (SELECT *, (SELECT max(p.upid) FROM process p WHERE p.pid = source_id / 10000000"
    "   AND ifnull(p.start_ts, trace_start()) <= graph_sample_ts) AS source_upid FROM fields)"
    " SELECT object_id, s.upid, graph_sample_ts, width, height, density, bitmap_id,"
    "  bitmap_id / 10000000 AS bitmap_pid,"
    "  _android_bitmap_storage_type_name(bitmap_id % 10000000 / 1000000) AS bitmap_storage_type,"
    "  source_id, source_id / 10000000 AS source_pid,"
    "  _android_bitmap_storage_type_name(source_id % 10000000 / 1000000) AS source_storage_type,"
    "  source_upid, p.name AS source_process_name, self_size, native_size, reachable"
    " FROM senders s LEFT JOIN process p ON p.upid = s.source_upid;"
    /* its public name */
    "CREATE PERFETTO VIEW heap_graph_bitmaps AS SELECT * FROM android_heap_graph_bitmaps;";

const char hw_module_graph_dominators[] =
    "CREATE PERFETTO MACRO graph_dominator_tree(graph_table TableOrSubquery, root_node_id Expr)"
    " RETURNS TableOrSubquery AS ("
    "  SELECT node_id, dominator_node_id FROM _hw_dominator_tree("
    "   (SELECT _hw_gather_edges(source_node_id, dest_node_id) FROM $graph_table),"
    "   (SELECT $root_node_id)));";

const char hw_module_oome[] = "";    /* its table is always there */
/* clang-format on */
