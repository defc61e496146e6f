/*
 * remedies.h - what would give memory back that the program does not use, and how much
 *
 * Why:     "12 MiB are free inside the allocator" is no answer: of some of it a call or a setting is all that is
 *          missing, of the rest code has to change.
 * Shapes:  rows, the largest first. Bytes are what the remedy returns once, of what the account has measured:
 *          whole free pages for malloc_trim, what a site's blocks pin for a pool of its own, what the allocator adds
 *          to a site's blocks for fewer and larger ones. is_most: an upper bound, as nothing told more.
 *          Where what is pinned was measured at another moment than the account was read, nothing is said of malloc_trim.
 *          Below HW_REMEDY_LEAST, or a fiftieth of resident memory, nothing is worth a change.
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
#define HW_REMEDIES     4u

/* id, name in JSON */
#define HW_REMEDY_KINDS(X)                                                                         \
    X(TRIM, "malloc_trim")                                                                         \
    X(POOL, "pool")                                                                                \
    X(DECAY, "decay")                                                                              \
    X(SIZES, "sizes")

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

/* What is known of a site: the one that pins most, and the one that most is added to. 0: none. */
struct hw_remedy_facts {
    enum hw_block_rule allocator;
    bool knows_pins; /* it was measured what live blocks pin... */
    double whole,
        whole_error; /* ...and left, in whole pages; < 0: at another moment than the account was read */
    double pinned, pinned_error;
    double rounding, rounding_error, rounding_live;
};

const char *hw_remedy_name(enum hw_remedy_kind k);

/* At most HW_REMEDIES; how many. */
size_t hw_remedies_find(const struct hw_memory_parts *m, const struct hw_remedy_facts *f,
                        struct hw_remedy out[HW_REMEDIES]);

#endif
