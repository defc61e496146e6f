/*
 * mappings.h - what a target has mapped: ranges of addresses, by callstack
 *
 * Why:     a mapping is a range and not a block: parts of it are unmapped, replaced, moved.
 * Shapes:  each mapping is an owner with a cell of the books; its ranges are in ranges.h. Bytes are
 *          freed as they go, the mapping counts as freed with its last byte. An unmapping of what
 *          was not recorded (mapped before an attach, or by libc for itself) is ignored.
 * Units:   bytes, as in the records; ns.
 * Owns:    everything but the books. Zero-initialised is empty.
 * Errors:  HW_ENOMEM: the operation is not booked; the caller counts it.
 *          1: a part of it is booked. Repeat the same call before any other.
 * Threads: one owner at a time.
 * Source:  doc/design/mappings.md
 */
#ifndef HW_DAEMON_BOOKS_MAPPINGS_H
#define HW_DAEMON_BOOKS_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/ranges.h"
#include "base/memory/vec.h"
#include "daemon/books/books.h"
#include "wire/records.h"

/* For mremap, and for calls that fail: what the last unmaps took. */
#define HW_RECENT_UNMAPS 16u
#define HW_UNMAPPED_KEPT 1024u /* ranges of all of them together */
/* Ranges handled per call: one record of a target may be about millions of them, and other
 * targets wait for the same thread. */
#define HW_RANGES_A_TURN 4096u

struct hw_unmapped_range {
    uint64_t lo, hi;
    uint32_t owner; /* 0 = none left */
};

struct hw_recent_unmap {
    uint64_t lo, n_bytes;
    uint32_t heap_id;         /* of the first range; 0 = nothing was there */
    uint32_t window;          /* that it was booked in */
    uint64_t n_before, n_end; /* ranges told before it and with it */
};

/* What one call has mapped. */
struct hw_mapped_range {
    uint64_t hi; /* of the whole, as it was made */
    uint64_t n_bytes;
    uint32_t cell; /* in a free one: the next */
    uint16_t heap_id;
    uint16_t n_gone; /* parts that are kept and may come back */
};

struct hw_mappings {
    uint32_t heaps; /* bit i: heap HW_HEAP_ID_ANON + i is wanted; 0 = none is recorded */
    struct hw_ranges ranges;
    HW_VEC(struct hw_mapped_range) owners; /* 0 is nobody */
    uint32_t free;
    struct hw_recent_unmap unmaps[HW_RECENT_UNMAPS];
    uint64_t n_unmaps;
    struct hw_unmapped_range *gone; /* owned; HW_UNMAPPED_KEPT */
    uint64_t n_gone;
    bool goes_on;  /* the last unmap has more to take */
    uint64_t next; /* ...of a segment: from here, of this owner */
    uint32_t next_owner;
    uint32_t window;    /* another one behind each snapshot */
    uint64_t n_ignored; /* impossible ranges, forgotten failed calls, segments of unknown size */
};

void hw_mappings_done(struct hw_mappings *m);
size_t hw_mappings_bytes(const struct hw_mappings *m); /* of memory */

static inline bool hw_mappings_has(const struct hw_mappings *m, uint32_t heap_id)
{
    return m->heaps != 0 && heap_id >= HW_HEAP_ID_ANON && heap_id <= HW_HEAP_ID_SHARED;
}

/* The heap of a new one: its own, or with mremap that of the old address. */
uint32_t hw_mappings_heap(const struct hw_mappings *m, const struct hw_rec_alloc *a);
bool hw_mappings_wants(const struct hw_mappings *m, uint32_t heap_id);
/* Names the heap in the books, once. */
int hw_mappings_announce(struct hw_books *b, uint32_t heap_id);

/* Whose addresses they are: at most max ranges of a heap, in no order, by the stack of their
 * call. Beyond HW_RANGES_LOOKED_AT ranges not all are examined. HW_ENOMEM. */
#define HW_RANGES_LOOKED_AT (UINT32_C(1) << 19)
struct hw_mapped_by {
    uint64_t lo, hi;
    uint32_t stack;
};
typedef HW_VEC(struct hw_mapped_by) hw_mapped_list;
int hw_mappings_list(const struct hw_mappings *m, const struct hw_books *b, uint32_t heap_id,
                     size_t max, hw_mapped_list *out);

struct hw_mapped {
    uint64_t address, n_bytes, time_ns;
    uint32_t heap_id, cell; /* cell HW_NO_CELL: only what it replaces counts */
};
int hw_mappings_map(struct hw_mappings *m, struct hw_books *b, const struct hw_mapped *x);
/* A part of what one call of the parent's has mapped (inherited.h), that nobody has here. owner: 0 for the call's
 * first part, and out. */
int hw_mappings_inherit(struct hw_mappings *m, struct hw_books *b, const struct hw_mapped *x,
                        uint64_t call_hi, uint32_t *owner);
int hw_mappings_unmap(struct hw_mappings *m, struct hw_books *b, const struct hw_rec_unmap *r);

#endif
