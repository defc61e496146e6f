/*
 * heap_links.h - a heap graph's references reversed, and trees from the top down
 *
 * Why:     graphs store what an object refers to, trees the parent of a node. "Who refers to it"
 *          and "what are its children" are the same inverse lookup.
 * Shapes:  what leads to k is item[first[k] .. first[k + 1]), in ascending order. The tops of a
 *          tree are at k = n.
 * Owns:    two arrays: 4 bytes per key and 4 per item.
 * Errors:  HW_ENOMEM.
 * Cost:    O(items + keys).
 * Threads: pure.
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_LINKS_H
#define HW_VIEWS_OBJECTS_HEAP_LINKS_H

#include <stddef.h>
#include <stdint.h>

#include "model/graph/heap_graph.h"

struct hw_heap_links {
    uint32_t *first, *item;
};

/* By object: numbers of the references that lead to it, weak ones too. */
int hw_heap_referrers(const struct hw_heap_graph *g, struct hw_heap_links *out);
/* By position of a tree: the positions of its children. */
int hw_heap_children(const uint32_t *parent, size_t n, struct hw_heap_links *out);
void hw_heap_links_done(struct hw_heap_links *l);

#endif
