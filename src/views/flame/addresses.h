/*
 * addresses.h - what was allocated through each address of one function
 *
 * Why:     readers of a function's instructions want the figures at the calls that allocate.
 * Shapes:  a row is an address of a mapping's file. self: of stacks that end in the function there
 *          (at the site with HW_FLAME_SITES); total: of stacks that go through, each counted once.
 *          Frames with the function inlined into another one count: the address is in its code.
 *          Rows in order of mapping and address.
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

/* q: cs, fns, values, flags; its filters are left aside. */
int hw_addresses_find(const struct hw_flame_question *q, uint32_t function, hw_address_rows *out);

#endif
