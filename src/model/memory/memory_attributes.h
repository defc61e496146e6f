/*
 * memory_attributes.h - inherited and summed attributes of a memory dump's nodes
 *
 * Shapes:  an owner of a global node gets the attributes it lacks; a parent gets the sums of its
 *          children's numbers that it lacks. At most MAX_ADDED per node, so that a file does not
 *          grow by its owners times its attributes.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_MODEL_MEMORY_MEMORY_ATTRIBUTES_H
#define HW_MODEL_MEMORY_MEMORY_ATTRIBUTES_H

#include <stdint.h>

struct hw_memory_children;
struct hw_profile;

/* order: nodes, owners and children first. first_owner (by node), next_owner (by edge): edges. */
int hw_memory_attributes(struct hw_profile *p, const uint32_t *order, const uint32_t *first_owner,
                         const uint32_t *next_owner, const struct hw_memory_children *children);

#endif
