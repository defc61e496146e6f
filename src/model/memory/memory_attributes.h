/*
 * memory_attributes.h - what nodes of a memory dump say besides their size, where they do not say
 * it
 *
 * Shapes:  an owner of a global node takes over the attributes it lacks; a parent has the sums of
 *          those numbers of its children that it lacks. MAX_TAKEN of them at most, so that a file
 *          does not grow by its owners times its attributes.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_MODEL_MEMORY_MEMORY_ATTRIBUTES_H
#define HW_MODEL_MEMORY_MEMORY_ATTRIBUTES_H

#include <stdint.h>

struct hw_memory_children;
struct hw_profile;

/* order: of nodes, owners and children first. first_owner by node and next_owner by edge: edges. */
int hw_memory_attributes(struct hw_profile *p, const uint32_t *order, const uint32_t *first_owner,
                         const uint32_t *next_owner, const struct hw_memory_children *children);

#endif
