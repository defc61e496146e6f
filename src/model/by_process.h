/*
 * by_process.h - the rows of a table, process by process
 *
 * Why:     a trace can have 30,000 processes; whoever asks about each of them must not read all
 *          dumps or counters each time.
 * Shapes:  a table is an array of structs whose first member is an hw_upid. The rows of one process
 *          keep their order. Rows of no process (HW_ID_NONE) are in no list.
 * Owns:    its arrays. Zero-initialised is an index of no rows.
 * Errors:  HW_ENOMEM; the index is as it was.
 * Cost:    init O(rows + processes), 4 bytes each; of O(1).
 * Threads: pure once made.
 */
#ifndef HW_MODEL_BY_PROCESS_H
#define HW_MODEL_BY_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "model/ids.h"

struct hw_by_process {
    uint32_t *first; /* by process: where its rows begin in `rows`; one more than processes */
    uint32_t *rows;
    size_t n_processes;
};

struct hw_process_rows { /* borrowed from the index */
    const uint32_t *v;
    size_t n;
};

/* Replaces what the index had. `bytes` is the size of a row; there are fewer than 2^32 of them. */
int hw_by_process_init(struct hw_by_process *b, const void *rows, size_t n, size_t bytes);
void hw_by_process_done(struct hw_by_process *b);
struct hw_process_rows hw_by_process_of(const struct hw_by_process *b, hw_upid upid);

#endif
