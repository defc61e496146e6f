/*
 * graph_functions.h - questions to any graph or tree that a select describes
 *
 * Why:     walking a graph in recursive SQL takes minutes where a walk over arrays takes
 *          milliseconds; modules (graphs.search, graphs.hierarchy, callstacks.stack_profile) put
 *          macros above.
 * Shapes:  a graph is a row_list of edges (from, to), a tree one of (id, parent). Each function
 *          fills rows of integers, NULL for "none". Of a node that is there twice the first counts.
 * Owns:    the rows given out belong to the caller.
 * Errors:  HW_ENOMEM, HW_ELIMIT (2^31 rows), HW_ETIMEOUT (stop said so).
 * Cost:    O(n log n) of nodes and edges in time, O(n) in memory; hw_graph_reach_within: that for
 *          each root.
 */
#ifndef HW_SQL_GRAPHS_GRAPH_FUNCTIONS_H
#define HW_SQL_GRAPHS_GRAPH_FUNCTIONS_H

#include "sql/graphs/row_list.h"

struct hw_graph_views;
struct hw_profile;
struct hw_sql;

typedef HW_VEC(struct hw_row_cell) hw_graph_rows;

/* What an answer has beside its rows. */
struct hw_graph_notes {
    struct hw_strings *texts; /* those that the rows name, owned; NULL: those of the first list */
    char message[256];        /* of HW_EINVAL */
};

struct hw_graph_question {
    const struct hw_row_list *lists[2]; /* NULL = empty */
    int64_t number;                     /* the third argument */
    const char *text;                   /* the same */
    struct hw_sql *sql;                 /* of the scans, which run a select */
    uint64_t (*memory_left)(void);
    struct hw_graph_notes *notes;
    const struct hw_profile *profile;
    struct hw_graph_views *graphs;
    bool (*stop)(void *ctx); /* asked now and then; true ends the walk */
    void *ctx;
};

/* The rows themselves; width columns of them. */
int hw_graph_rows_of(const struct hw_graph_question *q, size_t width, hw_graph_rows *out);
/* (id) of callsites -> (id): these and all above them, ascending. */
int hw_graph_callsites_above(const struct hw_graph_question *q, hw_graph_rows *out);
/* (id, parent, value) -> (id, sum of the values of the node and all below it) */
int hw_graph_tree_sums(const struct hw_graph_question *q, hw_graph_rows *out);
/* (id, parent), (id) -> (id): these and all above them, once each. */
int hw_graph_ancestors(const struct hw_graph_question *q, hw_graph_rows *out);
/* (id, parent, group) -> (id, nearest ancestor of the same group, group) */
int hw_graph_partition(const struct hw_graph_question *q, hw_graph_rows *out);
/* (from, to), (node) -> (node, parent), in the order of the visit. */
int hw_graph_reach_depth_first(const struct hw_graph_question *q, hw_graph_rows *out);
int hw_graph_reach_breadth_first(const struct hw_graph_question *q, hw_graph_rows *out);
/* (from, to, weight), (root, target weight) -> (root, node, parent). number: 1 = the first node
 * whose path weighs more than the target is still part of it (and its end), 0 = it is not. */
int hw_graph_reach_within(const struct hw_graph_question *q, hw_graph_rows *out);

/* (id) of objects -> (id): these and all that hang below them, or all above them, in the tree of
 * shortest paths. */
int hw_graph_objects_below(const struct hw_graph_question *q, hw_graph_rows *out);
int hw_graph_objects_above(const struct hw_graph_question *q, hw_graph_rows *out);

/* (object, parent) -> (id, path_hash, parent_path_hash) of what hangs below an object without a
 * parent. */
int hw_graph_path_hashes(const struct hw_graph_question *q, hw_graph_rows *out);

/* The table functions over these, and their aggregate. */
int hw_sql_add_graph_functions(struct hw_sql *s);

#endif
