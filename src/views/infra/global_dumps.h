/*
 * global_dumps.h - dumps of one moment, across all processes and heaps
 *
 * Why:     memory-infra has global dumps: one logical instant of all processes. Profiles have
 *          dumps of single heaps and memory dumps of processes.
 * Shapes:  items in order of time; a global dump is a run of items within 50 ms. It has each
 *          heap and each process's memory dump at most once, memory dumps of only one time, and
 *          all items of a time. So global dumps never overlap.
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

/* out: empty at first; the caller frees it, also after an error. */
int hw_global_items_init(const struct hw_profile *p, const struct hw_series_list *list,
                         hw_global_items *out);
/* The end of the global dump that begins at i (exclusive). */
size_t hw_global_end(const hw_global_items *items, size_t i);
/* The most detailed level of n items; heap dumps are only in detailed ones. */
enum hw_memory_detail hw_global_detail(const struct hw_profile *p, const struct hw_global_item *v,
                                       size_t n);
/* The pseudo-process of global nodes in the snapshot of this process; HW_ID_NONE. */
uint32_t hw_global_process(const struct hw_profile *p, uint32_t process);

#endif
