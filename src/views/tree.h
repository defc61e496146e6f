/*
 * tree.h - operations common to trees of merged stacks: finding a node, keeping a part
 *
 * Why:     nodes of merged callstacks and objects differ in what they count and how they are
 *          labelled, not in how a node is found or which nodes a focus keeps.
 * Shapes:  a node is a struct that begins with its parent's index, a uint32_t: HW_ID_NONE at the
 *          top, else smaller than its own index.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_VIEWS_TREE_H
#define HW_VIEWS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/map64.h"

/* Nodes by parent and label; zero-initialised is empty. */
struct hw_tree_index {
    struct hw_map64 labels; /* key of a label -> dense number */
    struct hw_map64 nodes;  /* parent + 1, number of the label -> node */
    uint64_t last_key;      /* the node found last: consecutive lookups are often equal */
    uint32_t last_node;
    bool has_last;
};

/* The node below parent with this label; `next` if there was none, which is then inserted. */
int hw_tree_index_find(struct hw_tree_index *x, uint32_t parent, uint64_t label, uint32_t next,
                       uint32_t *out);
void hw_tree_index_done(struct hw_tree_index *x);

struct hw_tree_focus {
    size_t node_bytes;
    bool (*matches)(void *ctx, const void *node);
    void *ctx;
};

/* Keeps the nodes that match, and those below or above one that does, with their own values. *n:
 * in: the number of nodes, out: how many are left. */
int hw_tree_focus(const struct hw_tree_focus *f, void *nodes, size_t *n);

#endif
