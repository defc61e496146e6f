/*
 * books.h - the bookkeeping of one target: what was allocated, freed and is live, per callstack
 *
 * Why:     records say "sample taken" and "sample freed"; a dump says what is live where. This is
 *          the sum between the two and nothing else: no rings, no names, no files.
 * Shapes:  one cell per (heap, stack) with running totals; live_samples.h has the live samples. Stacks are
 *          dense numbers given by the caller (ring_consumer.h). Operations are booked in the order
 *          in which they are given, which is ring order.
 * Units:   bytes; *_ns as in the records. Estimates are numbers of allocations: the sum of
 *          sample_size / alloc_size, of which 1 a sample is in the counts. Variances: a small
 *          allocation of s bytes is recorded as interval * Poisson(s / interval), whose variance
 *          is interval * s, estimated by interval * sample_size; that of the number it stands for
 *          is this by s². One of at least the interval is exact. Rounding is each sample's own, as often as the
 *          sample counts; its variance is that number's, by the square of what is added to one. Temporary is what was freed
 *          within a second (live_samples.h).
 * Owns:    everything.
 * Errors:  HW_ENOMEM: the operation is not booked; the caller counts it. HW_ELIMIT: heap id, or
 *          65,535 different intervals of one heap.
 * Threads: one owner at a time.
 */
#ifndef HW_DAEMON_BOOKS_BOOKS_H
#define HW_DAEMON_BOOKS_BOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/books/live_samples.h"
#include "model/memory/block_size.h"
#include "wire/records.h"

/* Larger sizes are taken as this much, so that no sum of them can overflow. */
#define HW_BOOKS_MAX_SIZE (UINT64_C(1) << 47)

struct hw_totals {
    uint64_t allocated, freed;        /* bytes, sampled and scaled */
    uint64_t alloc_count, free_count; /* samples */
    double rounding;                  /* of the live bytes: what the allocator adds to them */
    uint64_t temporary;               /* bytes, of those freed */
    double temporary_objects;         /* estimate of their number */
    double extra_alloc, extra_free; /* estimate of the allocations behind them, less the samples */
    double variance, variance_objects;                   /* of the live bytes and their number */
    double variance_alloc_space, variance_alloc_objects; /* of all, the freed ones too */
    double variance_rounding;
    float variance_temporary, variance_temporary_objects; /* of sums that only grow */
};

struct hw_cell {
    _Alignas(128) uint32_t peak_epoch; /* its place in peaks is valid when equal to the epoch */
    uint32_t stack : 31;
    uint32_t changed : 1; /* in the heap's list of changes since the last snapshot */
    struct hw_totals now;
};
_Static_assert(sizeof(struct hw_cell) == 128, "two cache lines that are fetched together");
_Static_assert(offsetof(struct hw_cell, now.extra_alloc) <= 64, "an exact sample touches one");
#define HW_NO_CELL UINT32_MAX

/* A maximum of live bytes: of one heap, or of malloc's and Python's objects together, which are one
 * heap divided by size: the sum of their own maxima would be more than there ever was. */
struct hw_peak {
    uint64_t live, most, ns; /* most: the maximum, reached at ns */
    uint32_t epoch;          /* a new one each time live bytes reach a new maximum from below */
    bool is_now;             /* the present state is the maximum */
    bool is_new;             /* a maximum was reached since the last snapshot */
    struct hw_book *of;      /* the first of its heaps; the others by next_of_peak */
};

struct hw_book {
    uint32_t heap_id;
    char name[HW_HEAP_NAME_MAX];
    uint64_t interval_bytes, orig_interval_bytes;
    uint64_t n_samples; /* allocations booked */
    uint64_t live;
    struct hw_peak *peak, own_peak; /* peak: own_peak of this heap or of malloc's */
    struct hw_book *next_of_peak;
    double rounding; /* of all cells */
    double gaps;     /* what alignment leaves around live blocks with mappings of their own */
    uint32_t interval_number;       /* of interval_bytes: 1.. in intervals; 0 = none told */
    HW_VEC(uint64_t) intervals;     /* all of them so far */
    HW_VEC(struct hw_cell) cells;   /* starts on a cache line */
    HW_VEC(struct hw_totals) peaks; /* parallel to cells; empty when peaks are not followed */
    HW_VEC(uint32_t) changed;       /* cells */
    HW_VEC(uint32_t) cell_of_stack; /* HW_NO_CELL = none */
};

struct hw_books {
    bool follow_peak;
    struct hw_book *books[HW_MAX_HEAPS]; /* owned; by heap id; NULL = not seen */
    struct hw_live_samples live;
    enum hw_block_rule rule; /* of libc.malloc; set before the first allocation, or never */
    uint64_t n_unknown_free, n_duplicate;
    size_t max_bytes; /* 0 = none; only what one record can multiply is refused because of it... */
    bool full;        /* ...and was: HW_ELIMIT */
};

void hw_books_init(struct hw_books *b, bool follow_peak);
void hw_books_done(struct hw_books *b);
size_t hw_books_bytes(const struct hw_books *b); /* of memory */

/* From a heap record: an empty name only changes the interval. */
int hw_books_announce(struct hw_books *b, uint32_t heap_id, const char name[HW_HEAP_NAME_MAX],
                      uint64_t interval_bytes);

struct hw_books_alloc {
    uint64_t sample_id;
    uint64_t alloc_size, sample_size, time_ns;
    uint32_t heap_id, stack;
    uint32_t doublings; /* of the interval with which it was drawn */
    uint16_t takes;     /* see live_samples.h */
};
/* From what its client told. */
uint16_t hw_books_takes(const struct hw_books *b, const struct hw_rec_alloc *a);
int hw_books_alloc(struct hw_books *b, const struct hw_books_alloc *a);
/* The same in two steps. The cell may be found long before. */
int hw_books_cell(struct hw_books *b, uint32_t heap_id, uint32_t stack, uint32_t *cell);
int hw_books_alloc_in(struct hw_books *b, const struct hw_books_alloc *a, uint32_t cell);
/* The same for a sample that stands for itself. */
int hw_books_exact_in(struct hw_books *b, uint64_t sample_id, uint64_t size, uint64_t time_ns,
                      uint32_t heap_id, uint32_t cell);
/* False: the id is not live; counted, never kept. heap_id: of what was freed; may be NULL. */
bool hw_books_free(struct hw_books *b, uint64_t sample_id, uint64_t time_ns, uint32_t *heap_id);

/* Mappings (mappings.h): bytes that come and go without being samples. whole: it was the last
 * part of what one call has mapped. */
void hw_books_map(struct hw_books *b, uint32_t heap_id, uint32_t cell, uint64_t n_bytes,
                  uint64_t time_ns);
void hw_books_unmap(struct hw_books *b, uint32_t heap_id, uint32_t cell, uint64_t n_bytes,
                    bool whole);
/* Such an unmapping did not happen; or it has been shown as happened, and is mapped again. */
void hw_books_unmap_not(struct hw_books *b, uint32_t heap_id, uint32_t cell, uint64_t n_bytes,
                        bool whole, uint64_t time_ns);
void hw_books_map_again(struct hw_books *b, uint32_t heap_id, uint32_t cell, uint64_t n_bytes,
                        bool whole, uint64_t time_ns);

/* Fetches what booking will touch. */
static inline void hw_books_fetch_cell(const struct hw_books *b, uint32_t heap_id, uint32_t cell)
{
    const struct hw_book *k = b->books[heap_id];
    if (hw_unlikely(!k || cell >= k->cells.n))
        return;
    hw_prefetch_write(&k->cells.v[cell]);
    if (!k->peak->is_now && k->peaks.n)
        hw_prefetch_write(&k->peaks.v[cell]);
}

/* A cell's totals at the last maximum that its heap is part of. */
struct hw_totals hw_book_at_peak(const struct hw_book *k, uint32_t cell);
/* Starts the next window: nothing is changed, no new peak. */
void hw_book_clear_changes(struct hw_book *k);

static inline double hw_totals_est_alloc(const struct hw_totals *t)
{
    return (double)t->alloc_count + t->extra_alloc;
}

static inline double hw_totals_est_free(const struct hw_totals *t)
{
    return (double)t->free_count + t->extra_free;
}

static inline uint64_t hw_totals_live(const struct hw_totals *t)
{
    return t->allocated - t->freed;
}

#endif
