/* mapping_feed.c - records of mappings: checked, and booked by their ranges */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/books/inherited.h"
#include "daemon/books/ring_consumer.h"

#include "base/banned.h"

#define WAITS_MAX_NS UINT64_C(1000000000)
#define FORK_REST    10u /* times as long as a copy took: other rings are read by the same thread */

/* ---- what only the kernel knows ---- */

static bool is_asked_about(const struct hw_ring_consumer *f, const struct hw_rec_alloc *a)
{
    const struct hw_mappings *m = &f->mappings;
    return hw_mappings_has(m, a->heap_id) &&
           (hw_mappings_wants(m, HW_HEAP_ID_FILE) || hw_mappings_wants(m, HW_HEAP_ID_SHARED)) &&
           (a->flags & (HW_ALLOC_SHARED_FILE | HW_ALLOC_SEGMENT)) != 0;
}

/* Waiting takes room in the ring, which the target needs for what it does next. */
static bool has_room(const struct hw_ring_consumer *f, uint64_t *write_pos)
{
    const struct hw_ring_reader *r = &f->ring;
    return hw_ring_write_pos(r, write_pos) == HW_OK &&
           r->released_pos + r->data_bytes - *write_pos >= hw_ring_memory_bytes(r) / 2;
}

/* A record is written after its call, so a look that begins later shows what is still mapped of all that are
 * in the ring now. */
static void ask(struct hw_asked_shared *s, uint64_t write_pos)
{
    s->asks_until = write_pos;
    s->ask++;
    s->wanted = true;
}

bool hw_ring_consumer_map_waits(struct hw_ring_consumer *f, const struct hw_rec_alloc *a,
                                uint64_t pos, uint64_t now_ns)
{
    struct hw_asked_shared *s = &f->shared;
    uint64_t write_pos;
    if (hw_likely(!is_asked_about(f, a)))
        return false;
    bool may_wait = pos >= s->until && !f->dead && now_ns >= s->again_ns && has_room(f, &write_pos);
    if (may_wait && s->since_ns == 0) {
        s->since_ns = now_ns;
        ask(s, write_pos);
        return true;
    }
    if (may_wait && now_ns - s->since_ns <= WAITS_MAX_NS)
        return true;
    if (pos >= s->until && s->since_ns)
        s->again_ns = now_ns + WAITS_MAX_NS;
    s->since_ns = 0;
    return false;
}

void hw_ring_consumer_take_shared(struct hw_ring_consumer *f, uint32_t ask_number,
                                  struct hw_shared_maps *maps)
{
    struct hw_asked_shared *s = &f->shared;
    if (ask_number != s->ask) /* an earlier question's */
        return;
    hw_shared_maps_done(&s->maps);
    s->maps = *maps;
    s->until = s->asks_until;
    *maps = (struct hw_shared_maps){0};
}

/* False: its size is not known, so nothing of it is booked. */
static bool look_up(struct hw_ring_consumer *f, const struct hw_rec_alloc *a, uint64_t pos,
                    struct hw_mapped *x)
{
    const struct hw_asked_shared *s = &f->shared;
    bool knows = pos < s->until;
    if (a->flags & HW_ALLOC_SEGMENT) {
        uint64_t n = knows ? hw_shared_maps_segment(&s->maps, (uint32_t)a->sample_size) : 0;
        x->n_bytes = n;
        return n != 0;
    }
    enum hw_shared_kind kind =
        knows ? hw_shared_maps_kind(&s->maps, a->address) : HW_SHARED_UNKNOWN;
    if (kind == HW_SHARED_MEMORY)
        x->heap_id = HW_HEAP_ID_SHARED;
    return true;
}

/* ---- the records ---- */

bool hw_ring_consumer_map(struct hw_ring_consumer *f, const struct hw_rec_alloc *a, uint64_t pos,
                          uint32_t stack, bool is_cut)
{
    struct hw_mapped x = {.address = a->address,
                          .n_bytes = a->alloc_size,
                          .time_ns = a->time_ns,
                          .heap_id = hw_mappings_heap(&f->mappings, a),
                          .cell = HW_NO_CELL};
    if (is_asked_about(f, a) && !look_up(f, a, pos, &x)) {
        f->mappings.n_ignored++;
        return true;
    }
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

bool hw_ring_consumer_fork(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size)
{
    struct hw_rec_fork r;
    struct hw_inherited *i = NULL;
    if (size < sizeof r)
        return false;
    memcpy(&r, rec, sizeof r);
    uint64_t began = hw_now_monotonic_ns();
    if (f->mappings.heaps == 0 || r.token == 0)
        return true;
    if (began < f->fork_next_ns) {
        f->mappings.n_ignored++; /* the child begins with nothing */
        return true;
    }
    if (hw_inherited_of(f, r.token, &i) < 0 || hw_vec_push(&f->forks, i) < 0) {
        hw_inherited_free(i); /* the child has no mappings of its parent's then */
        f->n_nomem++;
    }
    uint64_t now = hw_now_monotonic_ns();
    f->fork_next_ns = now + FORK_REST * (now - began);
    return true;
}

void hw_ring_consumer_map_done(struct hw_ring_consumer *f)
{
    hw_shared_maps_done(&f->shared.maps);
    for (size_t i = 0; i < f->forks.n; i++)
        hw_inherited_free(f->forks.v[i]);
    hw_vec_done(&f->forks);
}
