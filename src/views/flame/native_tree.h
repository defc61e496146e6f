/*
 * native_tree.h - callstacks merged as in the experimental_flamegraph table
 *
 * Why:     that table has its own rules: rows of all heaps together, raw names, one node for each
 *          (parent, name, module path), every callstack with a row, even when nothing is live.
 * Shapes:  a node's index is larger than its parent's; depth 0 is outermost. cumulative = the node
 *          and all below it. alloc: what was ever allocated; others: what is live.
 * Owns:    its nodes; names are the profile's.
 * Errors:  HW_ENOMEM.
 * Cost:    O(rows up to ts + callsites).
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/sql.md, "experimental_flamegraph"
 */
#ifndef HW_VIEWS_FLAME_NATIVE_TREE_H
#define HW_VIEWS_FLAME_NATIVE_TREE_H

#include <stdint.h>

#include "base/memory/vec.h"
#include "model/ids.h"
#include "model/profile.h"

struct hw_native_value {
    int64_t count, size, alloc_count, alloc_size;
};

struct hw_native_node {
    uint32_t parent; /* HW_ID_NONE at a root */
    uint32_t depth;
    hw_str_id name, module;
    hw_str_id file; /* of the first callsite that is in it; 0 = unknown */
    uint32_t line;
    struct hw_native_value self, cumulative;
};

typedef HW_VEC(struct hw_native_node) hw_native_tree;

/* upid HW_ID_NONE: every process. Rows with ts <= ts_ns. focus, when not NULL: only paths through
 * nodes whose name contains it (ignoring case); kept nodes have their own self values, cumulative
 * ones are summed again. */
int hw_native_tree_build(const struct hw_profile *p, hw_upid upid, int64_t ts_ns, const char *focus,
                         hw_native_tree *out);
/* The tree of any values by callsite. seen: callsites with a row; set here for their ancestors,
 * too. */
int hw_native_tree_of(const struct hw_profile *p, const struct hw_native_value *values,
                      uint8_t *seen, const char *focus, hw_native_tree *out);

#endif
