/* Modules for any graph or tree: macros over the table functions of sql/graphs. */
#include "sql/modules/module_texts.h"

#include "base/banned.h"

/* One line of C per line of SQL. */
/* clang-format off */
const char hw_module_graph_search[] =
    "CREATE PERFETTO MACRO graph_reachable_dfs(graph_table TableOrSubquery, start_nodes TableOrSubquery)"
    " RETURNS TableOrSubquery AS ("
    "  SELECT node_id, parent_node_id FROM _hw_reach_dfs("
    "   (SELECT _hw_gather(source_node_id, dest_node_id) FROM $graph_table),"
    "   (SELECT _hw_gather(node_id) FROM $start_nodes)));"
    "CREATE PERFETTO MACRO graph_reachable_bfs(graph_table TableOrSubquery, start_nodes TableOrSubquery)"
    " RETURNS TableOrSubquery AS ("
    "  SELECT node_id, parent_node_id FROM _hw_reach_bfs("
    "   (SELECT _hw_gather(source_node_id, dest_node_id) FROM $graph_table),"
    "   (SELECT _hw_gather(node_id) FROM $start_nodes)));"
    "CREATE PERFETTO MACRO graph_reachable_weight_bounded_dfs(graph_table TableOrSubquery,"
    "  root_nodes TableOrSubquery, is_target_weight_floor Expr) RETURNS TableOrSubquery AS ("
    "  SELECT root_node_id, node_id, parent_node_id FROM _hw_reach_within("
    "   (SELECT _hw_gather(source_node_id, dest_node_id, edge_weight) FROM $graph_table),"
    "   (SELECT _hw_gather(root_node_id, root_target_weight) FROM $root_nodes),"
    "   $is_target_weight_floor));"
    "CREATE PERFETTO MACRO graph_next_sibling(graph_table TableOrSubquery) RETURNS TableOrSubquery AS ("
    "  SELECT node_id, lead(node_id) OVER (PARTITION BY node_parent_id ORDER BY sort_key) AS next_node_id"
    "  FROM $graph_table);";

const char hw_module_graph_hierarchy[] =
    "CREATE PERFETTO MACRO _tree_reachable_ancestors_or_self(tree_table TableOrSubquery,"
    "  start_nodes TableOrSubquery) RETURNS TableOrSubquery AS ("
    "  SELECT id FROM _hw_tree_ancestors((SELECT _hw_gather(id, parent_id) FROM $tree_table),"
    "   (SELECT _hw_gather(id) FROM $start_nodes)));";

const char hw_module_graph_partition[] =
    "CREATE PERFETTO MACRO tree_structural_partition_by_group(tree_table TableOrSubquery)"
    " RETURNS TableOrSubquery AS ("
    "  SELECT id, parent_id, group_key FROM _hw_tree_partition("
    "   (SELECT _hw_gather(id, parent_id, group_key) FROM $tree_table)));";

#define SCAN(macro, function, step)                                                                \
    "CREATE PERFETTO MACRO " macro "(graph_table TableOrSubquery, init_table TableOrSubquery,"      \
    "  scan_columns ColumnNameList, " step " TableOrSubquery) RETURNS TableOrSubquery AS ("          \
    "  SELECT c0 AS id, _hw_scan_columns!($scan_columns) FROM " function "("                         \
    "   (SELECT _hw_gather(source_node_id, dest_node_id) FROM $graph_table),"                       \
    "   (SELECT _hw_gather(id, _hw_columns!($scan_columns)) FROM $init_table),"                     \
    "   _hw_scan_step!($" step ", $scan_columns)));"

const char hw_module_graph_scan[] =
    SCAN("_graph_scan", "_hw_graph_scan", "step_query")
    SCAN("_graph_aggregating_scan", "_hw_graph_aggregating_scan", "agg_query");
/* clang-format on */
