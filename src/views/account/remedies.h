/*
 * remedies.h - how to return memory that the program does not use, and how much
 *
 * Why:     "12 MiB are free inside the allocator" is no answer: a call or a setting returns some of
 *          it, the rest needs a change of the code.
 * Shapes:  rows, the largest first. Bytes are what a remedy returns once, as measured by the
 *          account: whole free pages for malloc_trim (by the arenas' free lists, or what pinned memory
 *          leaves), free memory of all arenas but one for a limit of arenas, what threads cache, what a site's blocks pin for a pool of its
 *          own, what the allocator adds to a site's blocks for fewer and larger ones. is_most: an
 *          upper bound, as nothing better is known. If pinned memory was measured at another moment
 *          than the account, there is no row for malloc_trim. Remedies below HW_REMEDY_LEAST or a
 *          fiftieth of resident memory are left out.
 * Units:   bytes.
 * Threads: pure.
 * Source:  doc/design/accounting.md
 */
#ifndef HW_VIEWS_ACCOUNT_REMEDIES_H
#define HW_VIEWS_ACCOUNT_REMEDIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/memory/block_size.h"
#include "views/account/memory_parts.h"

#define HW_REMEDY_LEAST (512.0 * 1024)
#define HW_REMEDIES     6u

/* id, name in JSON */
#define HW_REMEDY_KINDS(X)                                                                         \
    X(TRIM, "malloc_trim")                                                                         \
    X(POOL, "pool")                                                                                \
    X(DECAY, "decay")                                                                              \
    X(SIZES, "sizes")                                                                              \
    X(ARENAS, "arenas")                                                                            \
    X(CACHES, "caches")

enum hw_remedy_kind {
#define X(ID, name) HW_REMEDY_##ID,
    HW_REMEDY_KINDS(X)
#undef X
        HW_REMEDY_COUNT
};

struct hw_remedy {
    enum hw_remedy_kind kind;
    double bytes, error; /* two standard errors */
    bool is_most;
};

/* Facts of two sites: the one that pins most, and the one with the most rounding. 0: none. */
struct hw_remedy_facts {
    enum hw_block_rule allocator;
    bool knows_pins; /* pinned memory was measured */
    double whole,
        whole_error;        /* free whole pages; < 0: measured at another moment than the account */
    bool knows_arenas;      /* all of glibc's; the next three */
    bool same_moment;       /* as the account; else the next one is not used */
    double returnable;      /* by malloc_trim */
    double cached;          /* in threads' caches */
    double in_other_arenas; /* free and in memory, beyond the arena that has the most of it */
    double pinned, pinned_error;
    double rounding, rounding_error, rounding_live;
};

const char *hw_remedy_name(enum hw_remedy_kind k);

/* Returns how many there are, at most HW_REMEDIES. */
size_t hw_remedies_find(const struct hw_memory_parts *m, const struct hw_remedy_facts *f,
                        struct hw_remedy out[HW_REMEDIES]);

#endif
