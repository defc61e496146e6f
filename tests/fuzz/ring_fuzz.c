/*
 * The ring's reader against a target that scribbles over the shared memory while it is read. The
 * input is a list of steps: what the target writes where, and what the reader does next.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "wire/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct steps {
    const uint8_t *p;
    size_t n;
};

static uint64_t take(struct steps *s, size_t bytes)
{
    uint64_t v = 0;
    if (bytes > s->n)
        bytes = s->n;
    if (bytes)
        memcpy(&v, s->p, bytes);
    s->p += bytes;
    s->n -= bytes;
    return v;
}

static void peek(struct hw_ring_reader *r)
{
    const uint8_t *rec;
    uint32_t size;
    uint64_t pos;
    int rc = hw_ring_peek(r, &rec, &size, &pos);
    if (rc != 1)
        return;
    if (size < 8 || size > HW_REC_MAX_BYTES || size > r->data_bytes || pos != r->read_pos)
        abort();
    uint64_t sum = 0;
    for (uint32_t i = 0; i < size; i++)
        sum += rec[i]; /* every byte is ours to read */
    if (sum == UINT64_MAX)
        abort();
    hw_ring_next(r, size);
}

/* What honest writers would put there: mostly right, so that the reader gets far. */
static void honest(struct hw_ring_reader *r, uint8_t *mem, struct steps *s)
{
    uint64_t w = atomic_load(&r->shm->write_pos);
    uint32_t size = (uint32_t)(1 + take(s, 1)) * 8;
    if (w + size - r->released_pos > r->data_bytes)
        return;
    uint64_t head = hw_rec_head(w, size, (enum hw_rec_type)(1 + take(s, 1) % 8));
    memcpy(mem + (w & (r->data_bytes - 1)), &head, 8);
    atomic_store(&r->shm->write_pos, w + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_ring_reader r;
    if (hw_ring_create(&r, HW_RING_MIN_BYTES) < 0)
        return 0;
    struct hw_ring_writer w;
    if (hw_ring_attach(r.fd, &w) < 0)
        abort();
    struct steps s = {data, n};
    while (s.n > 0) {
        switch (take(&s, 1) % 8) {
        case 0:
            memcpy(w.data + take(&s, 2) % HW_RING_MIN_BYTES, &(uint64_t){take(&s, 8)}, 8);
            break;
        case 1:
            atomic_store(&w.shm->write_pos, take(&s, 8));
            break;
        case 2:
            atomic_fetch_add(&w.shm->write_pos, take(&s, 2));
            break;
        case 3:
            honest(&r, w.data, &s);
            break;
        case 4:
            hw_ring_release(&r);
            break;
        case 5:
            (void)hw_ring_skip_hole(&r);
            break;
        case 6: /* the rest of page 0: read_pos, counters, magic */
            memset((uint8_t *)w.shm + take(&s, 1) * 8, (int)take(&s, 1), 8);
            break;
        default:
            peek(&r);
        }
        if (r.read_pos < r.released_pos || r.read_pos - r.released_pos > r.data_bytes)
            abort();
    }
    hw_ring_detach(&w);
    hw_ring_done(&r);
    return 0;
}
