/*
 * graph_views.h - views of all heap graphs, computed when a query first needs them
 *
 * Why:     dominators of 10^7 objects take seconds and hundreds of MB: only queries that need them
 *          pay.
 * Shapes:  internal tables with the prefix _hw_ show them; modules define views over these.
 * Owns:    everything computed, until the connection closes.
 * Errors:  HW_ENOMEM; completed parts stay.
 */
#ifndef HW_SQL_GRAPH_VIEWS_H
#define HW_SQL_GRAPH_VIEWS_H

#include "base/bytes.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "model/profile.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"
#include "views/objects/heap_paths.h"
#include "views/objects/heap_tree.h"

struct hw_path_sum {
    int64_t size, native, count; /* of an object's subtree in the tree of shortest paths */
};

/* A node of a folded tree, in the table of all graphs. */
struct hw_tree_row {
    const struct hw_heap_graph *graph;
    struct hw_heap_node node; /* parent: row of the table */
    struct hw_bytes name;
    int64_t hash; /* of the dump and the names on the path */
};

/* An object's hash in a tree: of its node, and of the parent node. */
struct hw_object_hash {
    int64_t hash, parent; /* parent: 0 at the top */
    bool is_there;
};

typedef HW_VEC(struct hw_tree_row) hw_tree_rows;

struct hw_graph_views {
    const struct hw_profile *profile;
    struct hw_dominators *dominators; /* by graph; NULL = not computed yet, as below */
    uint32_t **path_parent;           /* by graph, by object; HW_ID_NONE = root or not reachable */
    struct hw_path_sum **path_sum;    /* by graph, by object; count 0 = not reachable */
    struct hw_class_sum **sums;       /* by graph, by class */
    struct hw_object_hash **path_hash, **dominated_hash; /* by graph, by object */
    hw_tree_rows paths, dominated;                       /* folded by class */
    bool has_paths, has_dominated;
    struct hw_arena names;
};

struct hw_sql_derived;

int hw_graph_views_dominators(struct hw_graph_views *v);
int hw_graph_views_paths(struct hw_graph_views *v);
int hw_graph_views_sums(struct hw_graph_views *v);
int hw_graph_views_path_tree(struct hw_graph_views *v);
int hw_graph_views_dominated_tree(struct hw_graph_views *v);
int hw_graph_views_path_hashes(struct hw_graph_views *v);
int hw_graph_views_dominated_hashes(struct hw_graph_views *v);
void hw_graph_views_done(struct hw_graph_views *v);

/* The hash of an object without a parent, and of one whose parent's class is shown as `above`. */
struct hw_object_hash hw_object_hash_top(const struct hw_profile *p, const struct hw_heap_graph *g,
                                         uint32_t o);
struct hw_object_hash hw_object_hash_below(const struct hw_profile *p,
                                           const struct hw_heap_graph *g, uint32_t o,
                                           hw_str_id above, const struct hw_object_hash *parent);
/* The hash of the native memory of a node's objects. */
int64_t hw_native_hash(int64_t node);

#endif
