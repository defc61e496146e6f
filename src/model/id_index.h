/*
 * id_index.h - 64-bit ids of 10^7 rows, looked up
 *
 * Why:     ids in dumps are addresses mostly, which lie in a few ranges, or numbers in a row. A bit
 *          for each place where one may be, and how many bits are set before, say in one memory
 *          access which id it is, in 1 to 3 bytes an id, where a hash map takes 16 to 32.
 * Shapes:  built once over all ids. Of equal ids the first row counts; the others are duplicates.
 *          Ids that lie too far from each other for that are sorted, and found through buckets.
 * Owns:    its tables; ids are borrowed and must stay.
 * Errors:  HW_ENOMEM.
 * Cost:    build O(n), search O(1) where ids lie close or are spread evenly, O(log n) always.
 */
#ifndef HW_MODEL_ID_INDEX_H
#define HW_MODEL_ID_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { HW_ID_PAGE_SHIFT = 12, HW_ID_WORD_SHIFT = 5 };

/* 32 places; how many ids are before them. */
struct hw_id_word {
    uint32_t taken, before;
};

struct hw_id_index {
    uint64_t first, last_place; /* the lowest id; (id - first) >> align is its place */
    unsigned align;
    uint32_t *pages;          /* owned; by 2^12 places: the first of its words */
    struct hw_id_word *words; /* owned; NULL = sorted. The first page's are empty, for all such */
    uint32_t *rows;           /* owned; by an id's rank; NULL = its rank */

    const uint64_t *ids; /* rising; borrowed, or own `sorted` */
    uint64_t *sorted;    /* owned; NULL when the ids given rise already */
    uint32_t *starts;    /* owned; first position of each bucket, and one more */
    size_t n, n_buckets;
    unsigned shift;
    size_t n_duplicates; /* ids that an earlier row has, left out */
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

/* Where an id would be: one between two places, or below the first, is beyond the last one. */
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

/* Fetches what finding the id will look at. */
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
