/* mapping_feed.c - records of mappings: checked, and booked by their ranges */
#include <string.h>

#include "base/error.h"
#include "daemon/books/ring_consumer.h"

#include "base/banned.h"

bool hw_ring_consumer_map(struct hw_ring_consumer *f, const struct hw_rec_alloc *a, uint32_t stack,
                          bool is_cut)
{
    struct hw_mapped x = {.address = a->address,
                          .n_bytes = a->alloc_size,
                          .time_ns = a->time_ns,
                          .heap_id = hw_mappings_heap(&f->mappings, a),
                          .cell = HW_NO_CELL};
    if (hw_mappings_wants(&f->mappings, x.heap_id) &&
        (hw_mappings_announce(&f->books, x.heap_id) < 0 ||
         hw_books_cell(&f->books, x.heap_id, stack, &x.cell) < 0)) {
        f->n_nomem++;
        x.cell = HW_NO_CELL;
    }
    int rc = hw_mappings_map(&f->mappings, &f->books, &x);
    if (rc > 0)
        return false;
    f->n_samples++;
    f->n_unwind_errors += is_cut;
    f->n_nomem += rc < 0;
    return true;
}

int hw_ring_consumer_unmap(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size)
{
    struct hw_rec_unmap r;
    if (size < sizeof r)
        return HW_EFORMAT;
    memcpy(&r, rec, sizeof r);
    int rc = f->mappings.heaps != 0 ? hw_mappings_unmap(&f->mappings, &f->books, &r) : HW_OK;
    f->n_nomem += rc < 0;
    return rc > 0;
}
