/*
 * build.h - rows in ascending order -> the bytes of a table file
 *
 * Why:     merging, the rule dictionary and the chunk arrays have nothing to do with DWARF.
 * Shapes:  rows are given by hw_builder_row in ascending order of address; an equal rule or an
 *          equal address merges with the row before. unwind/table.h describes the result.
 * Owns:    rows and dictionary; the finished table is malloc'ed for the caller.
 * Errors:  HW_ENOMEM, HW_ELIMIT (more than 16 GiB between the first and last address).
 * Threads: one owner at a time.
 */
#ifndef HW_CFI_BUILD_H
#define HW_CFI_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"

struct hw_error;

struct hw_builder_row {
    uint64_t va;
    uint64_t rule; /* bits of struct hw_rule */
};

struct hw_builder {
    HW_VEC(struct hw_builder_row) rows;
};

struct hw_builder_head {
    uint32_t arch; /* enum hw_arch */
    uint32_t build_id_len;
    uint8_t build_id[32];
    uint64_t hi_va; /* where the last row ends */
};

void hw_builder_done(struct hw_builder *b);
int hw_builder_row(void *builder, uint64_t va, uint64_t rule_bits); /* a hw_cfi_sink */
int hw_builder_finish(struct hw_builder *b, const struct hw_builder_head *head, void **out,
                      size_t *n_bytes, struct hw_error *err);

#endif
