/*
 * memory_sizes.h - sizes and effective sizes of memory-infra nodes, computed once all nodes exist
 *
 * Source: doc/formats/memory-infra.md
 */
#ifndef HW_MODEL_MEMORY_MEMORY_SIZES_H
#define HW_MODEL_MEMORY_MEMORY_SIZES_H

#include <stdint.h>

struct hw_memory_dumps;
struct hw_profile;

/* Children of each node, roots of each process, as lists; HW_ID_NONE ends them. */
struct hw_memory_children {
    uint32_t *first, *next; /* by node */
    uint32_t *first_root;   /* by process; continued by next */
};

int hw_memory_children_init(struct hw_memory_children *c, const struct hw_memory_dumps *m);
void hw_memory_children_done(struct hw_memory_children *c);

/* Also adds `<unspecified>` nodes; edges must have their nodes. */
int hw_memory_sizes(struct hw_profile *p);

#endif
