/*
 * books.c - totals per cell, and the peak without copying the world at each new maximum
 *
 * While live bytes rise every operation makes a new maximum. Instead of copying all cells there,
 * the heap's epoch is advanced: it says "the peak is the present state". A cell is copied into
 * peaks[] when it is first touched after that, before the change, and marked with the epoch. So
 *
 *      totals at the peak = cell.peak_epoch == heap.epoch ? peaks[cell] : cell.now
 *
 * holds for every cell at every moment, and an operation costs at most one copy.
 */
#include "daemon/books.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#include "base/banned.h"

void hw_books_init(struct hw_books *b, bool follow_peak)
{
    *b = (struct hw_books){.follow_peak = follow_peak, .free_row = HW_NO_CELL};
    /* Ids are ring positions, at least 56 bytes apart: what was allocated together is found
     * together. Measured with jq, every allocation: looking ids up was a quarter of all CPU, now a
     * tenth. */
    b->live.unit_log2 = 5;
}

void hw_books_done(struct hw_books *b)
{
    for (size_t i = 0; i < HW_MAX_HEAPS; i++) {
        struct hw_book *k = b->books[i];
        if (!k)
            continue;
        hw_vec_done(&k->cells);
        hw_vec_done(&k->peaks);
        hw_vec_done(&k->changed);
        hw_vec_done(&k->cell_of_stack);
        free(k);
        b->books[i] = NULL;
    }
    hw_map64_done(&b->live);
    hw_vec_done(&b->samples);
}

int hw_books_heap(struct hw_books *b, uint32_t heap_id, struct hw_book **out)
{
    if (heap_id == 0 || heap_id >= HW_MAX_HEAPS)
        return HW_ELIMIT;
    struct hw_book *k = b->books[heap_id];
    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k)
            return HW_ENOMEM;
        k->heap_id = heap_id;
        k->epoch = 1;
        b->books[heap_id] = k;
    }
    *out = k;
    return HW_OK;
}

int hw_books_announce(struct hw_books *b, uint32_t heap_id, const char name[HW_HEAP_NAME_MAX],
                      uint64_t interval_bytes)
{
    struct hw_book *k;
    int rc = hw_books_heap(b, heap_id, &k);
    if (rc < 0)
        return rc;
    k->interval_bytes = interval_bytes;
    if (name[0] == '\0')
        return HW_OK;
    memcpy(k->name, name, HW_HEAP_NAME_MAX);
    k->name[HW_HEAP_NAME_MAX - 1] = '\0';
    k->orig_interval_bytes = interval_bytes;
    return HW_OK;
}

static int new_cell(struct hw_books *b, struct hw_book *k, uint32_t stack, uint32_t *out)
{
    if (stack >= k->cell_of_stack.n) {
        size_t want = (size_t)stack + 1;
        if (hw_vec_reserve(&k->cell_of_stack, want) < 0)
            return HW_ENOMEM;
        memset(k->cell_of_stack.v + k->cell_of_stack.n, 0xff,
               (want - k->cell_of_stack.n) * sizeof *k->cell_of_stack.v);
        k->cell_of_stack.n = want;
    }
    if (b->follow_peak && hw_vec_reserve(&k->peaks, k->cells.n + 1) < 0)
        return HW_ENOMEM;
    if (hw_vec_reserve(&k->changed, k->cells.n + 1) < 0) /* so that marking cannot fail */
        return HW_ENOMEM;
    if (hw_vec_push(&k->cells, (struct hw_cell){.stack = stack}) < 0)
        return HW_ENOMEM;
    if (b->follow_peak)
        k->peaks.v[k->peaks.n++] = (struct hw_totals){0};
    *out = (uint32_t)(k->cells.n - 1);
    k->cell_of_stack.v[stack] = *out;
    return HW_OK;
}

static int find_cell(struct hw_books *b, struct hw_book *k, uint32_t stack, uint32_t *out)
{
    if (hw_likely(stack < k->cell_of_stack.n && k->cell_of_stack.v[stack] != HW_NO_CELL)) {
        *out = k->cell_of_stack.v[stack];
        return HW_OK;
    }
    return new_cell(b, k, stack, out);
}

/* Before every change of a cell. */
static struct hw_cell *touch(struct hw_books *b, struct hw_book *k, uint32_t cell)
{
    struct hw_cell *c = &k->cells.v[cell];
    if (b->follow_peak && c->peak_epoch != k->epoch) {
        k->peaks.v[cell] = c->now;
        c->peak_epoch = k->epoch;
    }
    if (!c->changed) {
        c->changed = true;
        k->changed.v[k->changed.n++] = cell;
    }
    return c;
}

static double estimate(uint64_t alloc_size, uint64_t sample_size)
{
    return alloc_size ? (double)sample_size / (double)alloc_size : 1.0;
}

static void book_time(struct hw_book *k, uint64_t time_ns)
{
    if (time_ns > k->last_ns)
        k->last_ns = time_ns;
}

static int new_row(struct hw_books *b, uint32_t *out)
{
    if (b->free_row != HW_NO_CELL) {
        *out = b->free_row;
        b->free_row = (uint32_t)b->samples.v[*out].alloc_size;
        return HW_OK;
    }
    if (b->samples.n >= HW_NO_CELL || hw_vec_push(&b->samples, (struct hw_sample){0}) < 0)
        return HW_ENOMEM;
    *out = (uint32_t)(b->samples.n - 1);
    return HW_OK;
}

static void drop_row(struct hw_books *b, uint32_t row)
{
    b->samples.v[row].cell = HW_NO_CELL;
    b->samples.v[row].alloc_size = b->free_row;
    b->free_row = row;
}

/* The row's sample is freed; its id is the caller's. */
static void book_free(struct hw_books *b, uint32_t row, uint64_t time_ns, struct hw_sample *sample)
{
    struct hw_sample s = b->samples.v[row];
    struct hw_book *k = b->books[s.heap_id];
    struct hw_cell *c = touch(b, k, s.cell);
    c->now.freed += s.sample_size;
    c->now.free_count++;
    c->now.est_free += estimate(s.alloc_size, s.sample_size);
    c->now.variance -= s.variance;
    if (c->now.free_count == c->now.alloc_count)
        c->now.variance = 0; /* no rest of rounding */
    k->live -= s.sample_size;
    book_time(k, time_ns);
    drop_row(b, row);
    if (sample)
        *sample = s;
}

int hw_books_alloc(struct hw_books *b, const struct hw_books_alloc *a)
{
    struct hw_book *k;
    uint32_t cell, row;
    int rc = hw_books_heap(b, a->heap_id, &k);
    if (rc < 0)
        return rc;
    rc = find_cell(b, k, a->stack, &cell);
    if (rc < 0)
        return rc;
    uint64_t *slot;
    bool fresh;
    rc = hw_map64_at(&b->live, a->sample_id, &slot, &fresh);
    if (rc < 0)
        return rc;
    if (hw_unlikely(!fresh)) {
        b->n_duplicate++; /* ids are ring positions: only a damaged target repeats one */
        book_free(b, (uint32_t)*slot, a->time_ns, NULL);
    }
    rc = new_row(b, &row);
    if (rc < 0) {
        (void)hw_map64_take(&b->live, a->sample_id, NULL); /* it is there: made above */
        return rc;
    }
    *slot = row;
    uint64_t size = a->sample_size < HW_BOOKS_MAX_SIZE ? a->sample_size : HW_BOOKS_MAX_SIZE;
    uint64_t asked = a->alloc_size < HW_BOOKS_MAX_SIZE ? a->alloc_size : HW_BOOKS_MAX_SIZE;
    double variance = asked < k->interval_bytes ? (double)k->interval_bytes * (double)size : 0;
    b->samples.v[row] = (struct hw_sample){.address = a->address,
                                           .alloc_size = asked,
                                           .sample_size = size,
                                           .cell = cell,
                                           .heap_id = (uint16_t)a->heap_id,
                                           .variance = variance};
    struct hw_cell *c = touch(b, k, cell);
    c->now.allocated += size;
    c->now.alloc_count++;
    c->now.est_alloc += estimate(asked, size);
    c->now.variance += variance;
    book_time(k, a->time_ns);
    k->n_samples++;
    k->live += size;
    if (k->live > k->peak_live) {
        k->peak_live = k->live;
        k->peak_ns = a->time_ns;
        k->epoch++;
        k->peak_is_new = true;
    }
    return HW_OK;
}

bool hw_books_free(struct hw_books *b, uint64_t sample_id, uint64_t time_ns,
                   struct hw_sample *sample)
{
    uint64_t row;
    if (!hw_map64_take(&b->live, sample_id, &row)) {
        b->n_unknown_free++;
        return false;
    }
    book_free(b, (uint32_t)row, time_ns, sample);
    return true;
}

struct hw_totals hw_book_at_peak(const struct hw_book *k, uint32_t cell)
{
    const struct hw_cell *c = &k->cells.v[cell];
    return c->peak_epoch == k->epoch && cell < k->peaks.n ? k->peaks.v[cell] : c->now;
}

void hw_book_clear_changes(struct hw_book *k)
{
    for (size_t i = 0; i < k->changed.n; i++)
        k->cells.v[k->changed.v[i]].changed = false;
    hw_vec_clear(&k->changed);
    k->peak_is_new = false;
}
