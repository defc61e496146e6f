/*
 * addresses.h - what was allocated through each address of one function
 *
 * Why:     the disassembly of a function shows how much was allocated at each of its calls.
 * Shapes:  a row is an address in a mapping's file. self: stacks that end in the function at this
 *          address (at the site with HW_FLAME_SITES); total: stacks that pass through it, each
 *          counted once. Frames with the function inlined into another one count, too. Rows are
 *          sorted by mapping and address.
 * Owns:    its rows.
 * Errors:  HW_ENOMEM.
 * Cost:    O(frames + sum of depths).
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/pages.md
 */
#ifndef HW_VIEWS_FLAME_ADDRESSES_H
#define HW_VIEWS_FLAME_ADDRESSES_H

#include "base/memory/vec.h"
#include "views/flame/flame.h"

struct hw_address_row {
    hw_mapping_id mapping;
    uint64_t rel_pc;
    struct hw_value self, total;
};

typedef HW_VEC(struct hw_address_row) hw_address_rows;

/* q: cs, fns, values, flags; its filters are ignored. */
int hw_addresses_find(const struct hw_flame_input *q, uint32_t function, hw_address_rows *out);

#endif
