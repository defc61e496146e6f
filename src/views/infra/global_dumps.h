/*
 * global_dumps.h - dumps of one moment, across all processes and heaps
 *
 * Why:     memory-infra knows global dumps: one logical instant of all processes. Profiles know
 *          dumps of single heaps and memory dumps of processes.
 * Shapes:  items in order of time; a global dump is a run of them within a twentieth of a second
 *          that has each heap, and each process's memory dump, once, memory dumps of one time only,
 *          and all that was dumped at a time. So they never overlap.
 * Errors:  HW_ENOMEM.
 * Threads: pure; the profile must be frozen.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_VIEWS_INFRA_GLOBAL_DUMPS_H
#define HW_VIEWS_INFRA_GLOBAL_DUMPS_H

#include "model/memory/memory_dump.h"
#include "views/time/series.h"

struct hw_global_item { /* a heap dump, or a process of a memory dump */
    int64_t ts_ns;
    hw_upid upid;
    uint32_t series, dump; /* HW_ID_NONE: none */
    uint32_t process;      /* of the model's memory dumps; HW_ID_NONE */
};
typedef HW_VEC(struct hw_global_item) hw_global_items;

/* out begins empty; after an error it holds what to free all the same. */
int hw_global_items_init(const struct hw_profile *p, const struct hw_series_list *list,
                         hw_global_items *out);
/* The end of the global dump that begins at i (exclusive). */
size_t hw_global_end(const hw_global_items *items, size_t i);
/* The most detailed level of n items; heap dumps are only in detailed ones. */
enum hw_memory_detail hw_global_detail(const struct hw_profile *p, const struct hw_global_item *v,
                                       size_t n);
/* The process of nodes that belong to all, in the snapshot of this one; HW_ID_NONE. */
uint32_t hw_global_process(const struct hw_profile *p, uint32_t process);

#endif
