/*
 * pages_tree.h - any tree as the arrays of a flamegraph
 *
 * Why:     heap graphs by class, their differences and whole processes are trees without
 *          callstacks; the page draws them with the same component.
 * Shapes:  nodes are added parents first, each with its self value; those without a parent go below
 *          the root "all". put computes sums and order: siblings by descending width; nodes below
 *          min_share of the whole, or deeper than HW_PAGE_TREE_LEVELS, are merged into one named
 *          after their number.
 * Owns:    nodes and texts.
 * Errors:  HW_ENOMEM, HW_ELIMIT (2^31 nodes, 4 GiB of texts).
 * Cost:    O(nodes × log of siblings).
 * Source:  the bytes: doc/design/pages.md
 */
#ifndef HW_SERVER_API_GRAPH_PAGES_TREE_H
#define HW_SERVER_API_GRAPH_PAGES_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "server/api/graph/flame_block.h"

#define HW_PAGE_TREE_LEVELS 2000u

/* Flags of nodes in trees of heaps; those of other trees are in pages_flame.c, pages_diff.c. */
enum {
    HW_PAGE_NODE_MERGED = HW_FLAME_BOX_MERGED,
    HW_PAGE_NODE_NATIVE = 2,  /* [native]: memory outside the heap that an object registered */
    HW_PAGE_NODE_TWICE = 4,   /* may be counted in another part too */
    HW_PAGE_NODE_UNNAMED = 8, /* a native frame without a name */
    HW_PAGE_NODE_ONLY_A = 16, /* of a difference */
    HW_PAGE_NODE_ONLY_B = 32,
    HW_PAGE_NODE_GROUP = 64,   /* a part of the whole, not a class */
    HW_PAGE_NODE_MANAGED = 128 /* a class */
};

struct hw_page_node {
    uint32_t parent; /* a smaller index; HW_ID_NONE: the root */
    uint32_t name, module;
    uint8_t flags;
    double self, samples; /* samples: shown beside the value; here the number of objects */
    double a, b;          /* self values of both sides; has_sides only */
};

struct hw_page_tree {
    HW_VEC(struct hw_page_node) v;
    HW_VEC(uint32_t) begins; /* of texts; 0 is "all", 1 is "" */
    struct hw_strbuf texts;
    bool has_sides;
    double ts_ns;
};

int hw_page_tree_init(struct hw_page_tree *t);
void hw_page_tree_done(struct hw_page_tree *t);
int hw_page_tree_text(struct hw_page_tree *t, const void *p, size_t n, uint32_t *out);
int hw_page_tree_put(const struct hw_page_tree *t, double min_share, struct hw_strbuf *out);

#endif
