/*
 * target_variables.h - a copy of the writable variables of some of a process's files
 *
 * Why:     a runtime's tables are recognized among its variables by what they have in them, as its
 *          symbols may have been removed.
 * Shapes:  a block for each writable mapping of such a file, and for the nameless one behind it
 *          (variables without bytes in the file). Pages that are not in memory, or were never written to, are zero. At most 64 MiB in all: what is behind that, or
 *          comes when the CPU time is used up, is left out.
 * Owns:    its blocks; hw_target_variables_done frees them, and may be called again.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_PROC_HEAPS_TARGET_VARIABLES_H
#define HW_PROC_HEAPS_TARGET_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "proc/heaps/target_memory.h"
#include "proc/smaps.h"

struct hw_variables {
    uint64_t start, n; /* words */
    uint64_t *words;   /* owned */
};

struct hw_target_variables {
    HW_VEC(struct hw_variables) v; /* by address */
    uint64_t n_bytes;              /* in all */
};

/* wants: of a file's path. */
int hw_target_variables_read(struct hw_target_memory *m, const struct hw_smaps *s,
                             bool (*wants)(const char *path), struct hw_target_variables *out);
void hw_target_variables_done(struct hw_target_variables *v);

#endif
