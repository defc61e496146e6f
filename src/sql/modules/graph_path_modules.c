/*
 * Modules about the trees of heap graphs: shortest paths and dominators, folded by class, and
 * macros that find the objects of a node. A node and its objects have the same path_hash.
 */
#include "sql/graph_modules.h"

#include "base/banned.h"

/* One line of C per line of SQL. */
/* clang-format off */
#define SIZE(o) "max(" o ".self_size, 0)" /* -1: referenced, never described */
#define HASHES(name, tree, hashes)                                                                 \
    "CREATE PERFETTO VIEW " name " AS SELECT id, path_hash, parent_path_hash FROM " hashes         \
    " WHERE path_hash IS NOT NULL;"                                                                \
    "CREATE PERFETTO VIEW " name "_aggregated AS SELECT t.graph_sample_ts, t.upid,"                \
    " t.path_hash_stable AS path_hash, ifnull(p.path_hash_stable, 0) AS parent_path_hash, t.name,"            \
    " t.root_type, t.heap_type, t.self_count, t.self_size"                                         \
    " FROM " tree " t LEFT JOIN " tree " p ON p.id = t.parent_id;"

const char hw_module_raw_dominator_tree[] =
    "CREATE PERFETTO VIEW _raw_heap_graph_dominator_tree AS"
    " SELECT id, idom_id FROM _hw_heap_graph_dominators WHERE depth > 0;"
    /* an unused object id */
    "CREATE PERFETTO FUNCTION _heap_graph_super_root_fn() RETURNS LONG AS"
    " SELECT ifnull(max(id), -1) + 1 FROM heap_graph_object;";

const char hw_module_dominator_class_tree[] =
    "CREATE PERFETTO VIEW _heap_graph_dominator_class_tree AS"
    " SELECT graph_sample_ts, upid, id, parent_id, name, root_type, heap_type, self_count, self_size,"
    "  path_hash_stable FROM _hw_heap_graph_dominated_tree;"
    HASHES("_heap_graph_dominator_path_hashes", "_hw_heap_graph_dominated_tree", "_hw_heap_graph_dominated_hashes");

/* Objects below or above the chosen ones, summed by class. */
#define OBJECT_AGG(macro, walk)                                                                    \
    "CREATE PERFETTO MACRO " macro "(path_hashes TableOrSubquery, path_hash_values TableOrSubquery)" \
    " RETURNS TableOrSubquery AS (SELECT ifnull(c.deobfuscated_name, c.name) AS class_name, o.heap_type," \
    "  o.root_type, o.reachable, sum(" SIZE("o") ") AS total_size, sum(o.native_size) AS total_native_size," \
    "  count(*) AS count"                                                                          \
    " FROM " walk "((SELECT _hw_gather(h.id) FROM $path_hashes h"                                  \
    "   WHERE h.path_hash IN (SELECT path_hash FROM $path_hash_values))) w"                        \
    " CROSS JOIN heap_graph_object o ON o.id = w.id CROSS JOIN heap_graph_class c ON c.id = o.type_id" \
    " GROUP BY 1, 2, 3, 4 ORDER BY count(*) DESC, 1, 2, 3, 4);"

const char hw_module_class_tree[] =
    "INCLUDE PERFETTO MODULE android.memory.heap_graph.excluded_refs;"
    "CREATE PERFETTO VIEW _heap_graph_object_min_depth_tree AS"
    " SELECT id, parent_id FROM _hw_heap_graph_paths WHERE cumulative_count > 0;"
    "CREATE PERFETTO VIEW _heap_graph_class_tree AS"
    " SELECT graph_sample_ts, upid, id, parent_id, name, root_type, heap_type, self_count, self_size,"
    "  path_hash_stable FROM _hw_heap_graph_path_tree;"
    HASHES("_heap_graph_path_hashes", "_hw_heap_graph_path_tree", "_hw_heap_graph_path_hashes")
    OBJECT_AGG("_heap_graph_retained_object_count_agg", "_hw_heap_graph_below")
    OBJECT_AGG("_heap_graph_retaining_object_count_agg", "_hw_heap_graph_above")
    "CREATE PERFETTO MACRO _heap_graph_duplicate_objects_agg(path_hashes TableOrSubquery)"
    " RETURNS TableOrSubquery AS (SELECT count(DISTINCT h.path_hash) AS path_count,"
    "  count(*) AS object_count, sum(" SIZE("o") ") AS total_size,"
    "  sum(o.native_size) AS total_native_size, ifnull(c.deobfuscated_name, c.name) AS class_name"
    " FROM $path_hashes h CROSS JOIN heap_graph_object o ON o.id = h.id"
    " CROSS JOIN heap_graph_class c ON c.id = o.type_id"
    " GROUP BY 5 ORDER BY 1 DESC, 5);";

const char hw_module_class_summary_tree[] =
    "INCLUDE PERFETTO MODULE android.memory.heap_graph.class_tree;"
    "CREATE PERFETTO VIEW _heap_graph_class_tree_cumulatives AS"
    " SELECT id, cumulative_count, cumulative_size FROM _hw_heap_graph_path_tree;"
    "CREATE PERFETTO VIEW android_heap_graph_class_summary_tree AS"
    " SELECT graph_sample_ts, upid, id, parent_id, name, root_type, self_count, self_size,"
    "  cumulative_count, cumulative_size FROM _hw_heap_graph_path_tree;";

#define FIELD                                                                                      \
    " ifnull(r.deobfuscated_field_name, r.field_name) AS field_name, r.field_type_name,"
#define SUMS                                                                                       \
    " s.cumulative_native_size + s.cumulative_size AS total_cumulative_size, s.cumulative_size,"   \
    " s.cumulative_native_size, s.cumulative_count, o.*"
#define CHOSEN                                                                                     \
    "(path_hashes TableOrSubquery, path_hash_values TableOrSubquery) RETURNS TableOrSubquery AS (" \
    " WITH _hw_chosen AS MATERIALIZED (SELECT h.id, h.path_hash FROM $path_hashes h"                   \
    "  WHERE h.path_hash IN (SELECT path_hash FROM $path_hash_values))"                            \
    " SELECT h.path_hash, ifnull(c.deobfuscated_name, c.name) AS class_name,"
#define BY_SIZE " ORDER BY total_cumulative_size DESC, o.id);"

const char hw_module_object_tree[] =
    "INCLUDE PERFETTO MODULE android.memory.heap_graph.class_tree;"
    "CREATE PERFETTO VIEW _heap_graph_object_tree_aggregation AS"
    " SELECT id, cumulative_size, cumulative_native_size, cumulative_count"
    " FROM _hw_heap_graph_paths WHERE cumulative_count > 0;"
    /* the objects themselves */
    "CREATE PERFETTO MACRO _heap_graph_object_references_agg" CHOSEN
    "  (SELECT count(*) FROM heap_graph_reference r WHERE r.owner_id = o.id AND r.owned_id IS NOT NULL)"
    "   AS outgoing_reference_count," SUMS
    " FROM _hw_chosen h CROSS JOIN heap_graph_object o ON o.id = h.id"
    " CROSS JOIN heap_graph_class c ON c.id = o.type_id"
    " CROSS JOIN _heap_graph_object_tree_aggregation s ON s.id = h.id" BY_SIZE
    /* incoming references */
    "CREATE PERFETTO MACRO _heap_graph_incoming_references_agg" CHOSEN FIELD SUMS
    " FROM _hw_chosen h CROSS JOIN heap_graph_reference r ON r.owned_id = h.id"
    " CROSS JOIN heap_graph_object o ON o.id = r.owner_id CROSS JOIN heap_graph_class c ON c.id = o.type_id"
    " CROSS JOIN _heap_graph_object_tree_aggregation s ON s.id = h.id" BY_SIZE
    /* outgoing references */
    "CREATE PERFETTO MACRO _heap_graph_outgoing_references_agg" CHOSEN FIELD SUMS
    " FROM _hw_chosen h CROSS JOIN heap_graph_reference r ON r.owner_id = h.id"
    " CROSS JOIN heap_graph_object o ON o.id = r.owned_id CROSS JOIN heap_graph_class c ON c.id = o.type_id"
    " CROSS JOIN _heap_graph_object_tree_aggregation s ON s.id = o.id" BY_SIZE;

const char hw_module_helpers[] =
    "INCLUDE PERFETTO MODULE graphs.scan;"
    "CREATE PERFETTO VIEW _heap_graph_class_name_hash AS"
    " SELECT id, hash(ifnull(deobfuscated_name, name)) AS name_hash FROM heap_graph_class;"
    /* the path hash of each object in any tree of objects */
    "CREATE PERFETTO MACRO _heap_graph_type_path_hash(tab TableOrSubquery) RETURNS TableOrSubquery AS ("
    "  SELECT id, path_hash, parent_path_hash FROM _hw_tree_path_hashes("
    "   (SELECT _hw_gather(id, parent_id) FROM $tab)));"
    /* sums by path hash; native memory has a hash of its own */
    "CREATE PERFETTO MACRO _heap_graph_path_hash_aggregate(tab TableOrSubquery) RETURNS TableOrSubquery AS ("
    "  WITH _hw_places AS MATERIALIZED ("
    "   SELECT o.graph_sample_ts, o.upid, h.path_hash, h.parent_path_hash,"
    "    ifnull(c.deobfuscated_name, c.name) AS name, o.root_type, o.heap_type, count(*) AS self_count,"
    "    sum(" SIZE("o") ") AS self_size, sum(o.native_size > 0) AS native_count, sum(o.native_size) AS native_size"
    "   FROM $tab h CROSS JOIN heap_graph_object o ON o.id = h.id"
    "   CROSS JOIN heap_graph_class c ON c.id = o.type_id GROUP BY h.path_hash)"
    "  SELECT graph_sample_ts, upid, path_hash, parent_path_hash, name, root_type, heap_type, self_count,"
    "   self_size FROM _hw_places"
    "  UNION ALL SELECT graph_sample_ts, upid, _hw_native_path_hash(path_hash), path_hash,"
    "   '[native] ' || name, root_type, 'HEAP_TYPE_NATIVE', native_count, native_size FROM _hw_places"
    "  WHERE native_size > 0 ORDER BY 3);"
    /* path hashes -> nodes with row numbers as ids and parent ids */
    "CREATE PERFETTO MACRO _heap_graph_path_hashes_to_class_tree(tab TableOrSubquery)"
    " RETURNS TableOrSubquery AS ("
    "  WITH _hw_nodes AS MATERIALIZED (SELECT row_number() OVER () - 1 AS _hw_id, * FROM $tab)"
    "  SELECT c.graph_sample_ts, c.upid, c._hw_id AS id, p._hw_id AS parent_id, c.name, c.root_type,"
    "   c.heap_type, c.self_count, c.self_size, c.path_hash AS path_hash_stable"
    "  FROM _hw_nodes c LEFT JOIN _hw_nodes p ON p.path_hash = c.parent_path_hash ORDER BY c._hw_id);";

const char hw_module_experimental_flamegraph[] =
    /* even ids: objects; odd ones: their native memory */
    "CREATE PERFETTO MACRO _experimental_flamegraph_heap_graph_frames(upid Expr, ts Expr)"
    " RETURNS TableOrSubquery AS ("
    "  WITH objects AS (SELECT o.id, t.parent_id, o.self_size, o.native_size,"
    "    ifnull(c.deobfuscated_name, c.name) || iif(o.root_type IS NULL, '', ' [' || o.root_type || ']')"
    "     AS name"
    "   FROM heap_graph_object o CROSS JOIN _hw_heap_graph_paths t ON t.id = o.id"
    "   CROSS JOIN heap_graph_class c ON c.id = o.type_id"
    "   WHERE o.upid = $upid AND o.graph_sample_ts = $ts AND t.cumulative_count > 0)"
    "  SELECT 2 * id AS id, 2 * parent_id AS parent_id, name, 'JAVA' AS map_name, 1 AS count,"
    "   max(self_size, 0) AS size, 0 AS alloc_count, 0 AS alloc_size FROM objects"
    "  UNION ALL SELECT 2 * id + 1, 2 * id, '[native] ' || name, 'JAVA', 1, native_size, 0, 0"
    "  FROM objects WHERE native_size > 0);"
    "CREATE PERFETTO MACRO _experimental_flamegraph_heap_graph_state(upid Expr, ts Expr)"
    " RETURNS TableOrSubquery AS ("
    "  SELECT EXISTS (SELECT 1 FROM heap_graph_object o WHERE o.graph_sample_ts = g.ts"
    "    AND o.upid = g.upid AND o.root_type IS NOT NULL) AS has_roots, g.truncated"
    "  FROM heap_graph g WHERE g.upid = $upid AND g.ts = $ts);";
/* clang-format on */
