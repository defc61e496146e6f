/*
 * heap_tree.h - a tree over objects, folded by class
 *
 * Why:     a flamegraph of 10^7 objects has one node for all objects that are reached through the
 *          same classes. The tree underneath may be that of shortest paths or of dominators.
 * Shapes:  a node's index is larger than its parent's. Two ways of folding:
 *          HW_FOLD_FLAME    by shown class name and root type; an object's memory outside the
 *                           heap is a child "[native] …". Indexes are in the order in which a
 *                           depth-first walk over the objects first visits the nodes.
 *          HW_FOLD_CLASSES  at the top by name, root type and heap, below by name and heap; an
 *                           object of the class of its parent's node belongs to that node.
 * Owns:    its nodes.
 * Errors:  HW_ENOMEM.
 * Cost:    O(objects), 12 bytes each while building.
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/heap-graphs.md
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_TREE_H
#define HW_VIEWS_OBJECTS_HEAP_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "model/profile.h"

struct hw_heap_node {
    uint32_t parent; /* HW_ID_NONE at the top */
    uint32_t depth;
    uint32_t class; /* a class with the node's name */
    uint8_t root;   /* enum hw_root_type + 1; 0 = no root (of the first object) */
    uint8_t heap;   /* enum hw_heap_type (of the first object) */
    bool is_native;
    int64_t count, size, cumulative_count, cumulative_size;
};

typedef HW_VEC(struct hw_heap_node) hw_heap_tree;

enum hw_heap_fold { HW_FOLD_FLAME, HW_FOLD_CLASSES };

/* object[], parent[] as in struct hw_heap_paths: a parent's position is smaller. */
int hw_heap_tree_fold(const struct hw_heap_graph *g, const uint32_t *object, const uint32_t *parent,
                      size_t n, enum hw_heap_fold how, hw_heap_tree *out);

/* The tree of shortest paths, as experimental_flamegraph shows it. focus, when not NULL: only paths
 * through nodes whose name contains it (ignoring case); kept nodes have their own self values,
 * cumulative ones are summed again. */
int hw_heap_tree_flame(const struct hw_profile *p, const struct hw_heap_graph *g, const char *focus,
                       hw_heap_tree *out);

/* "[native] a.Bitmap [ROOT_JNI_GLOBAL]"; HW_FOLD_CLASSES: without the root. */
void hw_heap_node_name(const struct hw_profile *p, const struct hw_heap_graph *g,
                       const struct hw_heap_node *n, enum hw_heap_fold how, struct hw_strbuf *out);

/* The graph of a process at a time; NULL = there is none. */
const struct hw_heap_graph *hw_heap_graph_at(const struct hw_profile *p, hw_upid upid,
                                             int64_t ts_ns);
/* A process's graph to show: the last one made when memory ran out, else the last; NULL: none. */
const struct hw_heap_graph *hw_heap_graph_of(const struct hw_profile *p, hw_upid upid);
/* The same by pid (pid < 0: the process with the largest graph). */
const struct hw_heap_graph *hw_heap_graph_pick(const struct hw_profile *p, int64_t pid);

#endif
