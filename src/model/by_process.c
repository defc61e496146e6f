#include "model/by_process.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

static uint32_t process_of(const void *rows, size_t i, size_t bytes)
{
    hw_upid upid;
    memcpy(&upid, (const unsigned char *)rows + i * bytes, sizeof upid);
    return upid.v;
}

static size_t count_processes(const void *rows, size_t n, size_t bytes)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t upid = process_of(rows, i, bytes);
        if (upid != HW_ID_NONE && upid >= most)
            most = (size_t)upid + 1;
    }
    return most;
}

int hw_by_process_init(struct hw_by_process *b, const void *rows, size_t n, size_t bytes)
{
    size_t n_processes = count_processes(rows, n, bytes);
    struct hw_by_process fresh = {.first = calloc(n_processes + 2, sizeof *fresh.first),
                                  .rows = calloc(n + 1, sizeof *fresh.rows),
                                  .n_processes = n_processes};
    if (!fresh.first || !fresh.rows) {
        hw_by_process_done(&fresh);
        return HW_ENOMEM;
    }
    /* Counted two places on, summed to where each begins one place on; filling moves that to where
     * it ends, which is where the next one begins. */
    for (size_t i = 0; i < n; i++) {
        uint32_t upid = process_of(rows, i, bytes);
        if (upid != HW_ID_NONE)
            fresh.first[(size_t)upid + 2]++;
    }
    for (size_t i = 2; i < n_processes + 2; i++)
        fresh.first[i] += fresh.first[i - 1];
    for (size_t i = 0; i < n; i++) {
        uint32_t upid = process_of(rows, i, bytes);
        if (upid != HW_ID_NONE)
            fresh.rows[fresh.first[(size_t)upid + 1]++] = (uint32_t)i;
    }
    hw_by_process_done(b);
    *b = fresh;
    return HW_OK;
}

void hw_by_process_done(struct hw_by_process *b)
{
    free(b->first);
    free(b->rows);
    *b = (struct hw_by_process){0};
}

struct hw_process_rows hw_by_process_of(const struct hw_by_process *b, hw_upid upid)
{
    if (upid.v >= b->n_processes)
        return (struct hw_process_rows){0};
    return (struct hw_process_rows){b->rows + b->first[upid.v],
                                    b->first[upid.v + 1] - b->first[upid.v]};
}
