/*
 * mappings.c - ranges come and go, their bytes are booked
 *
 * An unmapping is reported before the call, since the addresses may have another owner right after
 * it. So one that fails has been booked already, and is undone. If a dump has shown it meanwhile,
 * whose figures only grow, its bytes count as mapped again. The last unmaps are kept for that, and
 * for mremap, which is reported as "unmapped" and "mapped", and does not know what kind of memory
 * it moves.
 */
#include "daemon/books/mappings.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "config/config.h"

#include "base/banned.h"

void hw_mappings_done(struct hw_mappings *m)
{
    hw_ranges_done(&m->ranges);
    hw_vec_done(&m->owners);
    free(m->gone);
    m->gone = NULL;
}

size_t hw_mappings_bytes(const struct hw_mappings *m)
{
    return hw_ranges_bytes(&m->ranges) + m->owners.cap * sizeof *m->owners.v +
           (m->gone ? HW_UNMAPPED_KEPT * sizeof *m->gone : 0);
}

bool hw_mappings_wants(const struct hw_mappings *m, uint32_t heap_id)
{
    return m->heaps >> (heap_id - HW_HEAP_ID_ANON) & 1;
}

int hw_mappings_announce(struct hw_books *b, uint32_t heap_id)
{
    const struct hw_book *k = b->books[heap_id];
    char name[HW_HEAP_NAME_MAX];
    if (hw_likely(k && k->name[0]))
        return HW_OK;
    (void)snprintf(name, sizeof name, "%s", hw_mapping_heaps[heap_id - HW_HEAP_ID_ANON]);
    return hw_books_announce(b, heap_id, name, /* interval_bytes = */ 1);
}

/* ---- owners ---- */

static int new_owner(struct hw_mappings *m, uint32_t *out)
{
    *out = m->free;
    if (*out) {
        m->free = m->owners.v[*out].cell;
        return HW_OK;
    }
    if (m->owners.n >= UINT32_MAX || hw_vec_reserve(&m->owners, m->owners.n + 2) < 0)
        return HW_ENOMEM;
    if (m->owners.n == 0)
        m->owners.v[m->owners.n++] = (struct hw_mapped_range){0};
    *out = (uint32_t)m->owners.n++;
    return HW_OK;
}

/* Nothing is left of it, and nothing can come back. */
static void free_owner(struct hw_mappings *m, uint32_t owner)
{
    struct hw_mapped_range *o = &m->owners.v[owner];
    if (o->n_bytes != 0 || o->n_gone != 0)
        return;
    *o = (struct hw_mapped_range){.cell = m->free};
    m->free = owner;
}

static bool is_wanted(const struct hw_mappings *m, const struct hw_mapped *x)
{
    return x->cell != HW_NO_CELL && hw_mappings_wants(m, x->heap_id);
}

/* Nobody has any of it. */
static int add(struct hw_mappings *m, struct hw_books *b, const struct hw_mapped *x)
{
    uint32_t owner;
    if (new_owner(m, &owner) < 0)
        return HW_ENOMEM;
    uint64_t hi = x->address + x->n_bytes;
    int rc = hw_ranges_put(&m->ranges, x->address, hi, owner);
    m->owners.v[owner] = (struct hw_mapped_range){.hi = hi,
                                                  .n_bytes = rc < 0 ? 0 : x->n_bytes,
                                                  .cell = x->cell,
                                                  .heap_id = (uint16_t)x->heap_id};
    if (rc < 0) {
        free_owner(m, owner);
        return rc;
    }
    hw_books_map(b, x->heap_id, x->cell, x->n_bytes, x->time_ns);
    return HW_OK;
}

/* ---- what is unmapped ---- */

struct cut {
    struct hw_mappings *m;
    struct hw_books *b;
    bool keeps;
};

static void remember(struct hw_mappings *m, const struct hw_range *r)
{
    if (!m->gone && !(m->gone = calloc(HW_UNMAPPED_KEPT, sizeof *m->gone)))
        return;
    struct hw_unmapped_range *g = &m->gone[m->n_gone++ % HW_UNMAPPED_KEPT];
    if (g->owner) { /* the oldest one is forgotten */
        m->owners.v[g->owner].n_gone--;
        free_owner(m, g->owner);
    }
    m->owners.v[r->owner].n_gone++;
    *g = (struct hw_unmapped_range){r->lo, r->hi, r->owner};
}

static void on_taken(void *arg, const struct hw_range *r)
{
    struct cut *c = arg;
    struct hw_mapped_range *o = &c->m->owners.v[r->owner];
    uint64_t n = r->hi - r->lo;
    o->n_bytes -= n;
    hw_books_unmap(c->b, o->heap_id, o->cell, n, /* whole = */ o->n_bytes == 0);
    if (c->keeps)
        remember(c->m, r);
    free_owner(c->m, r->owner);
}

static bool is_possible(uint64_t address, uint64_t n_bytes)
{
    return n_bytes != 0 && n_bytes <= HW_BOOKS_MAX_SIZE && address <= UINT64_MAX - n_bytes;
}

int hw_mappings_map(struct hw_mappings *m, struct hw_books *b, const struct hw_mapped *x)
{
    struct cut c = {.m = m, .b = b};
    if (!is_possible(x->address, x->n_bytes)) {
        m->n_ignored++;
        return HW_OK;
    }
    int rc = hw_ranges_cut(&m->ranges, x->address, x->address + x->n_bytes, HW_RANGES_A_TURN,
                           on_taken, &c);
    if (rc != HW_OK || !is_wanted(m, x))
        return rc;
    return add(m, b, x);
}

int hw_mappings_inherit(struct hw_mappings *m, struct hw_books *b, const struct hw_mapped *x,
                        uint64_t call_hi, uint32_t *owner)
{
    uint64_t hi = x->address + x->n_bytes;
    if (!is_possible(x->address, x->n_bytes))
        return HW_OK;
    if (*owner == 0) {
        int rc = add(m, b, x);
        if (rc < 0)
            return rc;
        struct hw_range r;
        (void)hw_ranges_next(&m->ranges, x->address, &r); /* the one that was just added */
        *owner = r.owner;
        m->owners.v[r.owner].hi = call_hi;
        return HW_OK;
    }
    int rc = hw_ranges_put(&m->ranges, x->address, hi, *owner);
    if (rc < 0)
        return rc;
    m->owners.v[*owner].n_bytes += x->n_bytes;
    hw_books_map_again(b, x->heap_id, x->cell, x->n_bytes, /* whole = */ false, x->time_ns);
    return HW_OK;
}

/* ---- unmaps ---- */

/* Of the range between lo and hi. The same one again: what is left of it. */
static int take(struct hw_mappings *m, struct hw_books *b, const struct hw_rec_unmap *r,
                uint64_t lo, uint64_t hi)
{
    m->n_unmaps += !m->goes_on;
    struct hw_recent_unmap *u = &m->unmaps[(m->n_unmaps - 1) % HW_RECENT_UNMAPS];
    struct cut c = {.m = m, .b = b, .keeps = true};
    if (!m->goes_on)
        *u = (struct hw_recent_unmap){
            .lo = r->address, .n_bytes = r->n_bytes, .window = m->window, .n_before = m->n_gone};
    int rc = hw_ranges_cut(&m->ranges, lo, hi, HW_RANGES_A_TURN, on_taken, &c);
    u->n_end = m->n_gone;
    if (u->n_end > u->n_before)
        u->heap_id = m->owners.v[m->gone[(u->n_end - 1) % HW_UNMAPPED_KEPT].owner].heap_id;
    m->goes_on = rc > 0;
    return rc;
}

/* shmdt: what is left of the mapping that begins there. */
static int take_segment(struct hw_mappings *m, struct hw_books *b, const struct hw_rec_unmap *r)
{
    struct hw_range x;
    uint64_t lo = m->goes_on ? m->next : r->address, end = lo;
    if (!m->goes_on)
        m->next_owner = hw_ranges_next(&m->ranges, lo, &x) && x.lo == lo ? x.owner : 0;
    uint64_t hi = m->owners.n ? m->owners.v[m->next_owner].hi : 0; /* nobody's is 0 */
    size_t n = 0;
    while (n < HW_RANGES_A_TURN && end < hi && hw_ranges_next(&m->ranges, end, &x) &&
           x.owner == m->next_owner && ++n)
        end = x.hi;
    int rc = take(m, b, r, lo, end);
    if (rc < 0)
        return rc;
    m->next = end;
    m->goes_on = n == HW_RANGES_A_TURN;
    return m->goes_on;
}

static int add_again(struct hw_mappings *m, struct hw_books *b, const struct hw_range *r,
                     bool is_shown, uint64_t time_ns)
{
    int rc = hw_ranges_put(&m->ranges, r->lo, r->hi, r->owner);
    if (rc < 0)
        return rc;
    struct hw_mapped_range *o = &m->owners.v[r->owner];
    bool whole = o->n_bytes == 0;
    uint64_t n = r->hi - r->lo;
    o->n_bytes += n;
    if (is_shown)
        hw_books_map_again(b, o->heap_id, o->cell, n, whole, time_ns);
    else
        hw_books_unmap_not(b, o->heap_id, o->cell, n, whole, time_ns);
    return HW_OK;
}

/* The part of it that has no other owner meanwhile: a failed call has left the addresses as they
 * were, so only a target that lies has more of them than *left. */
static int give_back(struct hw_mappings *m, struct hw_books *b, const struct hw_unmapped_range *g,
                     bool is_shown, uint64_t time_ns, size_t *left)
{
    uint64_t lo = g->lo;
    int rc = HW_OK;
    for (; lo < g->hi && rc == HW_OK && *left; --*left) {
        struct hw_range next = {.lo = UINT64_MAX, .hi = UINT64_MAX};
        (void)hw_ranges_next(&m->ranges, lo, &next); /* none: it stays behind everything */
        struct hw_range part = {lo, next.lo < g->hi ? next.lo : g->hi, g->owner};
        if (part.lo < part.hi)
            rc = add_again(m, b, &part, is_shown, time_ns);
        lo = part.hi < g->hi ? next.hi : g->hi;
    }
    return rc;
}

static int undo(struct hw_mappings *m, struct hw_books *b, struct hw_recent_unmap *u,
                uint64_t time_ns)
{
    int rc = HW_OK;
    size_t left = HW_RANGES_A_TURN;
    uint64_t n = u->n_end - u->n_before, kept = m->n_gone - u->n_before;
    m->n_ignored += n != 0 && kept > HW_UNMAPPED_KEPT; /* not all of it is known any more */
    for (uint64_t k = u->n_before; k < u->n_end && rc == HW_OK; k++) {
        struct hw_unmapped_range *g = &m->gone[k % HW_UNMAPPED_KEPT];
        if (m->n_gone - k > HW_UNMAPPED_KEPT || !g->owner)
            continue;
        rc = give_back(m, b, g, u->window != m->window, time_ns, &left);
        m->owners.v[g->owner].n_gone--;
        free_owner(m, g->owner);
        g->owner = 0;
    }
    m->n_ignored += left == 0;
    u->n_end = u->n_before;
    return rc;
}

static int failed(struct hw_mappings *m, struct hw_books *b, const struct hw_rec_unmap *r)
{
    for (uint64_t i = m->n_unmaps; i > 0 && i + HW_RECENT_UNMAPS > m->n_unmaps; i--) {
        struct hw_recent_unmap *u = &m->unmaps[(i - 1) % HW_RECENT_UNMAPS];
        if (u->lo == r->address && u->n_bytes == r->n_bytes)
            return undo(m, b, u, r->time_ns);
    }
    m->n_ignored++;
    return HW_OK;
}

int hw_mappings_unmap(struct hw_mappings *m, struct hw_books *b, const struct hw_rec_unmap *r)
{
    switch (r->kind) {
    case HW_UNMAP_RANGE:
        if (is_possible(r->address, r->n_bytes))
            return take(m, b, r, r->address, r->address + r->n_bytes);
        break;
    case HW_UNMAP_SEGMENT:
        return take_segment(m, b, r);
    case HW_UNMAP_FAILED:
        return failed(m, b, r);
    default: /* a number from outside */
        break;
    }
    m->n_ignored++;
    return HW_OK;
}

/* ---- mremap ---- */

static uint32_t heap_before(const struct hw_mappings *m, uint64_t address)
{
    for (uint64_t i = m->n_unmaps; i > 0 && i + HW_RECENT_UNMAPS > m->n_unmaps; i--) {
        const struct hw_recent_unmap *u = &m->unmaps[(i - 1) % HW_RECENT_UNMAPS];
        if (u->lo == address && u->heap_id != 0)
            return u->heap_id;
    }
    return 0;
}

static uint32_t heap_now(const struct hw_mappings *m, uint64_t address)
{
    struct hw_range r;
    bool found = hw_ranges_next(&m->ranges, address, &r) && r.lo <= address;
    return found ? m->owners.v[r.owner].heap_id : 0;
}

uint32_t hw_mappings_heap(const struct hw_mappings *m, const struct hw_rec_alloc *a)
{
    uint32_t heap = 0;
    if (a->flags & HW_ALLOC_REMAPPED)
        heap = a->flags & HW_ALLOC_DOUBLED ? heap_now(m, a->sample_size)
                                           : heap_before(m, a->sample_size);
    return heap ? heap : a->heap_id;
}

/* ---- all of them ---- */

int hw_mappings_list(const struct hw_mappings *m, const struct hw_books *b, uint32_t heap_id,
                     size_t max, hw_mapped_list *out)
{
    const struct hw_book *k = b->books[heap_id];
    size_t n = m->ranges.nodes.n < HW_RANGES_LOOKED_AT ? m->ranges.nodes.n : HW_RANGES_LOOKED_AT;
    if (!k || hw_vec_reserve(out, m->ranges.n < max ? m->ranges.n : max) < 0)
        return k ? HW_ENOMEM : HW_OK;
    for (size_t i = 0; i < n && out->n < max; i++) {
        const struct hw_range *r = &m->ranges.nodes.v[i].r;
        const struct hw_mapped_range *o = &m->owners.v[r->owner];
        if (r->owner == 0 || o->heap_id != heap_id || o->cell >= k->cells.n)
            continue;
        out->v[out->n++] = (struct hw_mapped_by){r->lo, r->hi, k->cells.v[o->cell].stack};
    }
    return HW_OK;
}
