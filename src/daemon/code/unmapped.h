/*
 * unmapped.h - removed mappings: what was last at an address
 *
 * Why:     a stack is resolved a moment after it was taken, and its library may be unloaded by
 *          then. A target maps and unmaps as often as it likes and chooses the addresses of its
 *          stacks, so neither their number nor the cost of a lookup may grow with what it does.
 * Shapes:  the newest HW_UNMAPPED_MAX are kept, oldest first. hw_unmapped_last is one binary search in an
 *          index that is rebuilt at the first query after a change.
 * Owns:    the list and the index. Borrows the files of the mappings.
 * Errors:  HW_ENOMEM from push. Without memory for the index nothing is found.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_CODE_UNMAPPED_H
#define HW_DAEMON_CODE_UNMAPPED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/code/modules.h"
#include "model/ids.h"

#define HW_UNMAPPED_MAX 4096u

struct hw_frame_range {
    uint64_t lo, hi, bias; /* pc - bias = rel_pc */
    hw_mapping_id mapping;
    struct hw_module_file *file; /* NULL: no file */
    uint64_t inode;
    uint64_t offset;
    bool filtered;            /* skip_symbol_prefix */
    bool generated;           /* code may have been generated here */
    bool ours;                /* the client library: its frames are no part of the program */
    uint16_t last_generation; /* gone: of the tables when it was there */
};

struct hw_unmapped {
    HW_VEC(struct hw_frame_range) ranges; /* oldest first */
    HW_VEC(uint64_t) points;              /* sorted; one range was last between two of them */
    HW_VEC(uint32_t) owner;               /* of [points[i], points[i + 1]): range + 1, 0 = none */
    bool indexed;
};

void hw_unmapped_done(struct hw_unmapped *g);
int hw_unmapped_push(struct hw_unmapped *g, const struct hw_frame_range *r);
/* What covered the address last; NULL = nothing known did. */
const struct hw_frame_range *hw_unmapped_last(struct hw_unmapped *g, uint64_t pc);
/* What covered it when the tables had that generation: the first that went away since, among the
 * last few. */
const struct hw_frame_range *hw_unmapped_since(const struct hw_unmapped *g, uint64_t pc,
                                               uint16_t generation);
size_t hw_unmapped_bytes(const struct hw_unmapped *g);

#endif
