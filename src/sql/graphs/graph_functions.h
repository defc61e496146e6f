/*
 * graph_functions.h - algorithms on any graph or tree given by a select
 *
 * Why:     walking a graph in recursive SQL takes minutes where a walk over arrays takes
 *          milliseconds; modules (graphs.search, graphs.hierarchy, callstacks.stack_profile) define
 *          macros over these functions.
 * Shapes:  a graph is a row_list of edges (from, to), a tree one of (id, parent). Each function
 *          fills rows of integers, NULL for "none". If a node occurs twice, the first row is used.
 * Owns:    the caller owns the rows.
 * Errors:  HW_ENOMEM, HW_ELIMIT (2^31 rows), HW_ETIMEOUT (stop said so).
 * Cost:    time O(n log n) in nodes and edges, memory O(n); hw_graph_reach_within: per root.
 */
#ifndef HW_SQL_GRAPHS_GRAPH_FUNCTIONS_H
#define HW_SQL_GRAPHS_GRAPH_FUNCTIONS_H

#include "sql/graphs/row_list.h"

struct hw_graph_views;
struct hw_profile;
struct hw_sql;

typedef HW_VEC(struct hw_row_cell) hw_graph_rows;

/* The output beside the rows. */
struct hw_graph_notes {
    struct hw_strings *texts; /* the rows' texts, owned; NULL: they are in the first list */
    char message[256];        /* for HW_EINVAL */
};

struct hw_graph_query {
    const struct hw_row_list *lists[2]; /* NULL = empty */
    int64_t number;                     /* the third argument */
    const char *text;                   /* the same */
    struct hw_sql *sql;                 /* for scans, which run a select */
    uint64_t (*memory_left)(void);
    struct hw_graph_notes *notes;
    const struct hw_profile *profile;
    struct hw_graph_views *graphs;
    bool (*stop)(void *ctx); /* polled; true ends the walk */
    void *ctx;
};

/* The list's own rows, width columns of each. */
int hw_graph_rows_of(const struct hw_graph_query *q, size_t width, hw_graph_rows *out);
/* (id) of callsites -> (id): these and all their callers, ascending. */
int hw_graph_callsites_above(const struct hw_graph_query *q, hw_graph_rows *out);
/* (id, parent, value) -> (id, sum of the values in its subtree) */
int hw_graph_tree_sums(const struct hw_graph_query *q, hw_graph_rows *out);
/* (id, parent), (id) -> (id): these and their ancestors, once each. */
int hw_graph_ancestors(const struct hw_graph_query *q, hw_graph_rows *out);
/* (id, parent, group) -> (id, nearest ancestor of the same group, group) */
int hw_graph_partition(const struct hw_graph_query *q, hw_graph_rows *out);
/* (from, to), (node) -> (node, parent), in order of visit. */
int hw_graph_reach_depth_first(const struct hw_graph_query *q, hw_graph_rows *out);
int hw_graph_reach_breadth_first(const struct hw_graph_query *q, hw_graph_rows *out);
/* (from, to, weight), (root, target weight) -> (root, node, parent): nodes whose path weighs at
 * most the target. number: 1 = also the first node beyond the target on each path, 0 = not. */
int hw_graph_reach_within(const struct hw_graph_query *q, hw_graph_rows *out);

/* (id) of objects -> (id): these and all their descendants, or ancestors, in the tree of shortest
 * paths. */
int hw_graph_objects_below(const struct hw_graph_query *q, hw_graph_rows *out);
int hw_graph_objects_above(const struct hw_graph_query *q, hw_graph_rows *out);

/* (object, parent) -> (id, path_hash, parent_path_hash) of objects connected to one without a
 * parent. */
int hw_graph_path_hashes(const struct hw_graph_query *q, hw_graph_rows *out);

/* Registers the table functions for these, and their aggregate. */
int hw_sql_add_graph_functions(struct hw_sql *s);

#endif
