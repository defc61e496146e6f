/*
 * id_index.h - 64-bit ids of 10^7 rows, looked up
 *
 * Why:     ids in dumps are mostly addresses in a few ranges, or consecutive numbers. A bitmap of
 *          all possible ids, with the number of bits set before each word, gives an id's rank in
 *          one memory access. It takes 1 to 3 bytes per id, a hash map 16 to 32.
 * Shapes:  built once over all ids. Of equal ids the first row counts; the others are duplicates.
 *          Ids that are too sparse for a bitmap are sorted and found through buckets.
 * Owns:    its tables; ids are borrowed and must outlive it.
 * Errors:  HW_ENOMEM.
 * Cost:    build O(n), search O(1) if ids are dense or spread evenly, else O(log n).
 */
#ifndef HW_MODEL_ID_INDEX_H
#define HW_MODEL_ID_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { HW_ID_PAGE_SHIFT = 12, HW_ID_WORD_SHIFT = 5 };

/* A bit for each of 32 places; how many ids are before them. */
struct hw_id_word {
    uint32_t taken, before;
};

struct hw_id_index {
    uint64_t first, last_place; /* the lowest id; (id - first) >> align is its place */
    unsigned align;
    uint32_t *pages;          /* owned; by 2^12 places: index of its first word */
    struct hw_id_word *words; /* owned; NULL = sorted. Empty pages share the first page's words */
    uint32_t *rows;           /* owned; by an id's rank; NULL = its rank */

    const uint64_t *ids; /* ascending; borrowed, or `sorted` */
    uint64_t *sorted;    /* owned; NULL if the given ids are ascending */
    uint32_t *starts;    /* owned; first position of each bucket, and one more */
    size_t n, n_buckets;
    unsigned shift;
    size_t n_duplicates; /* ids of earlier rows, left out */
};

int hw_id_index_init(struct hw_id_index *ix, const uint64_t *ids, size_t n);
void hw_id_index_done(struct hw_id_index *ix);
bool hw_id_index_find_sorted(const struct hw_id_index *ix, uint64_t id, uint32_t *row);

static inline uint32_t hw_id_bits_before(uint32_t bits, uint32_t bit)
{
    uint32_t v = bits & (bit - 1);
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    return ((v + (v >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

/* The place of an id; beyond the last one if the id is unaligned or below the first. */
static inline uint64_t hw_id_place(const struct hw_id_index *ix, uint64_t id)
{
    uint64_t d = id - ix->first;
    return d >> ix->align | d << ((64 - ix->align) & 63);
}

static inline const struct hw_id_word *hw_id_word_of(const struct hw_id_index *ix, uint64_t place)
{
    return ix->words + ix->pages[place >> HW_ID_PAGE_SHIFT] +
           ((place & ((1u << HW_ID_PAGE_SHIFT) - 1)) >> HW_ID_WORD_SHIFT);
}

/* Prefetches what hw_id_index_find will read. */
static inline void hw_id_index_prefetch(const struct hw_id_index *ix, uint64_t id)
{
    uint64_t place = hw_id_place(ix, id);
    if (ix->words && place <= ix->last_place) {
        __builtin_prefetch(hw_id_word_of(ix, place));
        __asm__ volatile(""); /* as in hw_prefetch_write() */
    }
}

static inline bool hw_id_index_find(const struct hw_id_index *ix, uint64_t id, uint32_t *row)
{
    if (hw_unlikely(!ix->words))
        return hw_id_index_find_sorted(ix, id, row);
    uint64_t place = hw_id_place(ix, id);
    if (place > ix->last_place)
        return false;
    const struct hw_id_word *w = hw_id_word_of(ix, place);
    uint32_t bit = 1u << (place & 31);
    if (!(w->taken & bit))
        return false;
    uint32_t rank = w->before + hw_id_bits_before(w->taken, bit);
    *row = ix->rows ? ix->rows[rank] : rank;
    return true;
}

#endif
