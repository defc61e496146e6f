/*
 * Stacks as trees, for flamegraphs: a row for every function between the samples' callsites and
 * their roots (callstack_rows.h). A callsite's sums are only at its innermost function, so that
 * adding up rows counts nothing twice.
 */
#include "sql/modules/module_texts.h"

#include "base/banned.h"

/* One line of C per line of SQL. */
/* clang-format off */
const char hw_module_stack_profile[] =
    "CREATE PERFETTO MACRO _callstacks_for_stack_profile_samples(samples TableOrSubquery)"
    " RETURNS TableOrSubquery AS ("
    "  SELECT f.id, f.parent_id, f.callsite_id, f.name, m.name AS mapping_name, f.source_file,"
    "   f.line_number, f.inlined, f.is_leaf_function_in_callsite_frame"
    "  FROM _hw_callsites_above((SELECT _hw_gather(callsite_id) FROM $samples)) w"
    "  CROSS JOIN _callstack_spc_forest f ON f.callsite_id = w.id"
    "  CROSS JOIN stack_profile_mapping m ON m.id = f.mapping_id);"
    "CREATE PERFETTO MACRO _callstacks_for_callsites_weighted(samples TableOrSubquery)"
    " RETURNS TableOrSubquery AS ("
    "  WITH _hw_sums AS MATERIALIZED ("
    "   SELECT callsite_id, value FROM _hw_value_sums("
    "    (SELECT _hw_sum_by(callsite_id, value) FROM $samples)))"
    "  SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number, c.inlined,"
    "   c.is_leaf_function_in_callsite_frame,"
    "   iif(c.is_leaf_function_in_callsite_frame, ifnull(s.value, 0), 0) AS self_value"
    "  FROM _callstacks_for_stack_profile_samples!(_hw_sums) c LEFT JOIN _hw_sums s USING (callsite_id));"
    "CREATE PERFETTO MACRO _callstacks_for_callsites(samples TableOrSubquery)"
    " RETURNS TableOrSubquery AS ("
    "  SELECT id, parent_id, name, mapping_name, source_file, line_number, inlined,"
    "   is_leaf_function_in_callsite_frame, self_value AS self_count"
    "  FROM _callstacks_for_callsites_weighted!((SELECT callsite_id, 1 AS value FROM $samples)));"
    "CREATE PERFETTO MACRO _callstacks_self_to_cumulative(callstacks TableOrSubquery)"
    " RETURNS TableOrSubquery AS ("
    "  SELECT id, value AS cumulative_count FROM _hw_tree_sums("
    "   (SELECT _hw_gather(id, parent_id, self_count) FROM $callstacks)));";

const char hw_module_heap_profile_callstacks[] =
    "INCLUDE PERFETTO MODULE callstacks.stack_profile;"
    "CREATE PERFETTO MACRO _android_heap_profile_callstacks_for_allocations("
    "  allocations TableOrSubquery) RETURNS TableOrSubquery AS ("
    "  SELECT id, parent_id, name, mapping_name, source_file, line_number, self_size, self_count,"
    "   self_alloc_size, self_alloc_count FROM _hw_allocation_tree(_hw_allocation_list!($allocations)));";
/* clang-format on */
