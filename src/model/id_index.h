/*
 * id_index.h - 64-bit ids of 10^7 rows, looked up
 *
 * Why:     ids in dumps are mostly addresses that rise: then a table of buckets over them finds one
 *          with a cache miss or two in 4 bytes a row, where a hash map takes 16 to 32.
 * Shapes:  built once over all ids. Of equal ids the first row counts; the others are duplicates.
 * Owns:    its tables; ids are borrowed and must stay.
 * Errors:  HW_ENOMEM.
 * Cost:    build O(n), search O(1) where ids are spread evenly, O(log n) always.
 */
#ifndef HW_MODEL_ID_INDEX_H
#define HW_MODEL_ID_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_id_index {
    const uint64_t *ids; /* rising; borrowed, or own `sorted` */
    uint64_t *sorted;    /* owned; NULL when the ids given rise already */
    uint32_t *rows;      /* owned; row of each of `sorted` */
    uint32_t *starts;    /* owned; first position of each bucket, and one more */
    size_t n, n_buckets;
    unsigned shift;
    size_t n_duplicates; /* ids that an earlier row has, left out */
};

int hw_id_index_init(struct hw_id_index *ix, const uint64_t *ids, size_t n);
void hw_id_index_done(struct hw_id_index *ix);
bool hw_id_index_find(const struct hw_id_index *ix, uint64_t id, uint32_t *row);

#endif
