/*
 * memory_parts.h - a process's resident memory, divided among owners without remainder
 *
 * Why:     "why does this process hold 4 GB?" A profile of malloc explains only a part of it. The
 *          recorder reads all mappings by owner at each dump; with the live bytes of the same
 *          moment they explain all of it.
 * Shapes:  parts add up to rss, pss and swap, whatever the sources say: what they disagree about is
 *          a part of its own with a sign (moved). Entries are the mappings of each part by name,
 *          the largest first. The allocator's mappings are not among them, as they are divided.
 * Units:   bytes; pss: shared pages divided among the processes that share them.
 * Errors:  HW_ENOMEM; HW_ENOTFOUND: the trace has no reading of this process's mappings.
 * Cost:    O(smaps + counters + callsites).
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/accounting.md
 */
#ifndef HW_VIEWS_ACCOUNT_MEMORY_PARTS_H
#define HW_VIEWS_ACCOUNT_MEMORY_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "model/memory/block_size.h"
#include "model/profile.h"
#include "views/time/process_view.h"

/* In the order in which they are shown: id, name, description. */
#define HW_MEMORY_PARTS(X)                                                                         \
    X(LIVE, "live", "requested by the program and not freed")                                      \
    X(ROUNDING, "rounding", "headers, and blocks rounded up to the allocator's sizes")             \
    X(FREE, "free inside the allocator", "kept for the next allocations")                          \
    X(OLDER, "older than the recording", "allocated before; record from the start to see by whom") \
    X(ANONYMOUS, "anonymous mappings", "memory that the program mapped by itself")                 \
    X(MANAGED, "managed heaps", "a runtime's: its objects, its code")                              \
    X(STACKS, "stacks", "of threads")                                                              \
    X(PROGRAM, "program and libraries", "code, constants, variables")                              \
    X(FILES, "mapped files", "data")                                                               \
    X(SHARED, "shared memory", "memfd, /dev/shm, System V")                                        \
    X(PROFILER, "profiler", "heapwise's own: not there without it")                                \
    X(MOVED, "moved meanwhile", "the sources were read one after the other, and live is sampled")  \
    X(UNEXPLAINED, "unexplained", "mappings that were not read, or of no known kind")

enum hw_memory_part {
#define X(ID, name, what) HW_PART_##ID,
    HW_MEMORY_PARTS(X)
#undef X
        HW_PART_COUNT
};

struct hw_part_bytes {
    double rss, pss, swap;
};

struct hw_part_entry {
    enum hw_memory_part part;
    hw_str_id name; /* as in the mappings; "" = none */
    struct hw_part_bytes bytes;
    double size;
    uint64_t n_mappings;
};

struct hw_memory_parts {
    int64_t ts_ns;       /* of the reading */
    int64_t live_ts_ns;  /* of the live bytes in it */
    int64_t older_ts_ns; /* of the figure of older memory; 0 = unknown, or there is none */
    struct hw_part_bytes total, parts[HW_PART_COUNT];
    HW_VEC(struct hw_part_entry) entries; /* by part, the largest first */
    double requested;                     /* live bytes, resident or not */
    double error;                         /* of that: two standard errors */
    double untouched;                     /* of that: never written, so not resident */
    double page_tables; /* of the process, in the kernel; not in rss; -1 = unknown */
    bool older_or_free; /* OLDER and FREE cannot be separated: all is in OLDER */
    bool is_cut;        /* not all mappings were read */
    const char *unsaid; /* what the runtime does not tell about its heaps; NULL = no runtime */
    enum hw_block_rule allocator; /* by its library among the mappings */
    bool rounding_by_sample; /* summed by the recorder from each sample's size; else an estimate */
    bool by_owner;           /* the recorder identified the allocator's mappings */
    bool has_objects; /* the profile has a heap of Python's objects, which are a managed part */
};

const char *hw_memory_part_name(enum hw_memory_part p);
const char *hw_memory_part_what(enum hw_memory_part p);
/* An entry's shown name: "without a name", "/usr/lib/libz.so". */
const char *hw_memory_entry_name(const struct hw_profile *p, const struct hw_part_entry *e);

/* Whether a mapping with this name is shared memory, not a file on a disk. */
bool hw_memory_is_shared(struct hw_bytes path);

/* At the reading nearest to ts_ns. values: of all the process's callsites at ts_ns. */
int hw_memory_parts_find(const struct hw_profile *p, const struct hw_process_view *v, int64_t ts_ns,
                         const hw_values *values, struct hw_memory_parts *out);
void hw_memory_parts_done(struct hw_memory_parts *m);

#endif
