/*
 * unwind_tables.h - the memory file with unwind tables of one target
 *
 * Why:     the target maps one file once; tables and lists of modules are appended and published.
 * Shapes:  unwind/table.h. Sparse: only what was written costs memory. The file is sealed against
 *          shrinking, growing and further writing mappings before its descriptor is given away.
 *
 *              | directory | tables ....... lists | tables that found no room ........ |
 *              0                                 room                             size
 *
 *          The target maps the first `room` bytes; if it may use little address space, stacks
 *          through the modules of the second part are copied and walked here.
 * Threads: main thread writes; drain threads and the target read what was published.
 */
#ifndef HW_DAEMON_CODE_UNWIND_TABLES_H
#define HW_DAEMON_CODE_UNWIND_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "unwind/table.h"

struct hw_module_file;

struct hw_tables {
    int fd;            /* owned; -1 after it was given away */
    uint8_t *map;      /* owned */
    uint64_t size;     /* of map: HW_TABLES_BYTES, or what our own limit allows */
    uint64_t room;     /* that the target maps */
    uint64_t used;     /* of it */
    uint64_t used_far; /* end of what lies after it; room = nothing */
    uint32_t generation;
    struct hw_map64 offsets;       /* struct hw_module_file * → offset of its table */
    HW_VEC(struct hw_module) last; /* as published */
};

/* One executable range; file may be NULL (no file, no table). */
struct hw_table_range {
    uint64_t lo, hi, bias;
    struct hw_module_file *file;
};

/* room_kib: what the target says; 0 = all of it. */
int hw_tables_init(struct hw_tables *t, uint32_t arch, uint32_t room_kib);
void hw_tables_done(struct hw_tables *t);
/* Appends new tables and publishes the list if it differs from the last one. 1 = was published,
 * 0 = nothing new. ranges: sorted, disjoint. HW_ELIMIT: the file is full; what was published
 * stays. */
int hw_tables_publish(struct hw_tables *t, const struct hw_table_range *ranges, size_t n);
/* Are there tables that the target does not map? */
static inline bool hw_tables_overflow(const struct hw_tables *t)
{
    return t->used_far > t->room;
}
/* What is published was read when so many dlcloses of the target were over, and none was
 * running. */
void hw_tables_seen(struct hw_tables *t, uint32_t closes);

#endif
