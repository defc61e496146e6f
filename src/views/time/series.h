/*
 * series.h - the dumps of a profile, by heap
 *
 * Why:     a reader asks "what did this heap look like over time"; the trace has a flat list of
 *          dumps in which checkpoints, peaks and several dumps of one moment are mixed.
 * Shapes:  a series is one heap of one process. `all` holds the dumps whose rows add up (everything
 *          but peaks) in order of time; `shown` those of them that readers see: the last at each
 *          time, and a checkpoint only at the series' end. `peaks` holds dumps of a maximum
 *          (HW_DUMP_AT_MAX): each is independent, its rows are the live values of that moment. A
 *          dump that only says "rejected" has no values and is in none of the lists.
 * Units:   ids are indices into hw_profile.dumps.
 * Owns:    its lists, nothing of the profile.
 * Errors:  HW_ENOMEM.
 * Cost:    O(dumps), and what a process has is found in O(1): there may be 30,000 of them.
 * Threads: pure; the profile must be frozen.
 */
#ifndef HW_VIEWS_TIME_SERIES_H
#define HW_VIEWS_TIME_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "model/by_process.h"
#include "model/ids.h"
#include "model/profile.h"

typedef HW_VEC(uint32_t) hw_dump_list;

/* Heaps of the same kind are added up, heaps of different kinds never are: a Java object is no
 * block of malloc, and what was allocated is not what is live. A process shows the first kind it
 * has; one whose malloc is next to nothing beside what its Go code allocates shows the latter. */
enum hw_heap_kind {
    HW_HEAP_NATIVE,   /* malloc's and those that programs register themselves */
    HW_HEAP_OBJECTS,  /* java.alloc, go.alloc: live managed objects */
    HW_HEAP_CHURN,    /* com.android.art: allocated managed objects, frees unknown */
    HW_HEAP_MAPPED,   /* mmap.*: address space; may contain what a program allocates */
    HW_HEAP_RESIDENT, /* mmap.anon.resident: the part of mmap.anon in memory, by caller */
    HW_HEAP_PINNED,   /* malloc.pinned: free memory on pages with live blocks, by their sites */
    HW_HEAP_KIND_COUNT
};

struct hw_series {
    hw_upid upid;
    hw_str_id heap_name;
    uint8_t kind; /* enum hw_heap_kind */
    uint8_t rank; /* among the process's; the lowest are shown */
    hw_dump_list all, shown, peaks;
};

struct hw_series_list {
    HW_VEC(struct hw_series) v;      /* in order of first appearance */
    struct hw_by_process by_process; /* indices of v */
    struct hw_map64 by_heap;         /* process and heap → index of v */
};

/* A dump of a series: one profile as other tools see it. */
struct hw_moment {
    uint32_t series; /* index into the list */
    uint32_t dump;
};

typedef HW_VEC(struct hw_moment) hw_moment_list;

int hw_series_list_init(struct hw_series_list *list, const struct hw_profile *p);
void hw_series_list_done(struct hw_series_list *list);
/* Indices of a process's heaps, in the list's order. */
static inline struct hw_process_rows hw_series_of(const struct hw_series_list *list, hw_upid upid)
{
    return hw_by_process_of(&list->by_process, upid);
}
/* NULL: the list has no such heap. */
const struct hw_series *hw_series_find(const struct hw_series_list *list, hw_upid upid,
                                       hw_str_id heap_name);
bool hw_series_has(const struct hw_series_list *list, const struct hw_profile *p, hw_upid upid,
                   const char *heap);
/* Keeps only heaps of this name; HW_ENOTFOUND if there is none, then the list is unchanged. */
int hw_series_list_choose(struct hw_series_list *list, const struct hw_profile *p,
                          const char *heap);
enum hw_heap_kind hw_heap_kind_of(struct hw_bytes name);
/* malloc's are not shown unless named: they are next to nothing beside Go's. */
bool hw_series_is_behind(const struct hw_series *s);

/* All shown dumps and peaks of all series in order of time, then process, then series. */
int hw_moments(const struct hw_profile *p, const struct hw_series_list *list, hw_moment_list *out);

#endif
