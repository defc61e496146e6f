#include "daemon/books/inherited.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "base/memory/map64.h"
#include "daemon/books/ring_consumer.h"
#include "proc/maps.h"

#include "base/banned.h"

#define NOBODY UINT32_MAX

/* ---- the parent's ---- */

static size_t stack_bytes(const struct hw_stack *s)
{
    size_t words = ((size_t)s->n_frames + 63) / 64 * (s->mixed ? 2 : 1);
    return sizeof *s + (s->n_frames + words) * sizeof(uint64_t);
}

/* Without managed frames: they are ids of the parent's session, whose names stay there. */
static int copy_stack(struct hw_inherited *i, const struct hw_stack *from, uint32_t *out)
{
    struct hw_stack *s = hw_arena_alloc(&i->arena, stack_bytes(from));
    uint32_t n = 0, kept = 0;
    if (!s || hw_vec_push(&i->stacks, s) < 0)
        return HW_ENOMEM;
    for (uint32_t k = 0; k < from->n_frames; k++)
        n += !hw_stack_is_managed(from, k);
    *s = *from;
    s->n_frames = n;
    s->mixed = false;
    memset(s->pcs + n, 0, ((size_t)n + 63) / 64 * sizeof *s->pcs);
    for (uint32_t k = 0; k < from->n_frames; k++) {
        if (hw_stack_is_managed(from, k))
            continue;
        s->pcs[n + kept / 64] |= (uint64_t)hw_stack_is_exact(from, k) << (kept % 64);
        s->pcs[kept++] = from->pcs[k];
    }
    *out = (uint32_t)(i->stacks.n - 1);
    return HW_OK;
}

/* The new number of an old one; each thing is met once. */
static int renumber(struct hw_map64 *m, uint64_t old, uint32_t *next, uint32_t *out, bool *is_new)
{
    uint64_t known;
    *is_new = !hw_map64_get(m, old, &known);
    *out = *is_new ? *next : (uint32_t)known;
    if (*is_new && hw_map64_put(m, old, (*next)++) < 0)
        return HW_ENOMEM;
    return HW_OK;
}

static int add_range(struct hw_inherited *i, const struct hw_ring_consumer *f,
                     const struct hw_range *r, struct hw_map64 *calls, struct hw_map64 *stacks)
{
    const struct hw_mapped_range *o = &f->mappings.owners.v[r->owner];
    const struct hw_book *k = f->books.books[o->heap_id];
    struct hw_inherited_range x = {
        .lo = r->lo, .hi = r->hi, .call_hi = o->hi, .heap_id = o->heap_id};
    uint32_t n_stacks = (uint32_t)i->stacks.n;
    bool is_new;
    if (!k || o->cell >= k->cells.n || k->cells.v[o->cell].stack >= f->stacks.n)
        return HW_OK;
    uint32_t stack = k->cells.v[o->cell].stack;
    int rc = renumber(stacks, stack, &n_stacks, &x.stack, &is_new);
    if (rc == HW_OK && is_new)
        rc = copy_stack(i, f->stacks.v[stack], &x.stack);
    if (rc == HW_OK)
        rc = renumber(calls, r->owner, &i->n_calls, &x.call, &is_new);
    return rc < 0 || hw_vec_push(&i->ranges, x) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_inherited_of(const struct hw_ring_consumer *f, uint64_t token, struct hw_inherited **out)
{
    const struct hw_ranges *t = &f->mappings.ranges;
    struct hw_inherited *i = calloc(1, sizeof *i);
    struct hw_map64 calls = {0}, stacks = {0};
    int rc = i ? HW_OK : HW_ENOMEM;
    for (size_t n = 0; rc == HW_OK && n < t->nodes.n && n < HW_RANGES_LOOKED_AT; n++) {
        const struct hw_range *r = &t->nodes.v[n].r;
        if (r->owner == 0)
            continue;
        if (i->ranges.n < HW_INHERITED_MAX && i->arena.total < HW_INHERITED_STACKS)
            rc = add_range(i, f, r, &calls, &stacks);
        else
            i->left_bytes += r->hi - r->lo;
    }
    hw_map64_done(&calls);
    hw_map64_done(&stacks);
    if (rc < 0) {
        hw_inherited_free(i);
        return rc;
    }
    i->token = token;
    *out = i;
    return HW_OK;
}

void hw_inherited_free(struct hw_inherited *i)
{
    if (!i)
        return;
    hw_arena_done(&i->arena);
    hw_vec_done(&i->stacks);
    hw_vec_done(&i->ranges);
    free(i);
}

/* ---- the child's ---- */

/* Its code lies where the parent's does; of which generation the child's tables are is not known. */
static int adopt_stack(struct hw_ring_consumer *f, const struct hw_stack *from, uint32_t *out)
{
    size_t n = stack_bytes(from);
    struct hw_stack *s = hw_arena_alloc(&f->arena, n);
    if (!s)
        return HW_ENOMEM;
    memcpy(s, from, n);
    s->index = (uint32_t)f->stacks.n;
    s->generation = 0;
    if (hw_vec_push(&f->stacks, s) < 0)
        return HW_ENOMEM;
    *out = s->index;
    return HW_OK;
}

static int book_range(struct hw_ring_consumer *f, const struct hw_inherited_range *r, uint64_t lo,
                      uint64_t hi, uint32_t stack, uint64_t time_ns, uint32_t *owner)
{
    struct hw_mapped x = {.address = lo,
                          .n_bytes = hi - lo,
                          .time_ns = time_ns,
                          .heap_id = r->heap_id,
                          .cell = HW_NO_CELL};
    int rc = hw_mappings_announce(&f->books, r->heap_id);
    if (rc == HW_OK)
        rc = hw_books_cell(&f->books, r->heap_id, stack, &x.cell);
    return rc < 0 ? rc : hw_mappings_inherit(&f->mappings, &f->books, &x, r->call_hi, owner);
}

/* As far as the child's mappings cover it. */
static int book_covered(struct hw_ring_consumer *f, const struct hw_inherited_range *r,
                        const struct hw_maps *maps, uint32_t stack, uint64_t time_ns,
                        uint32_t *owner)
{
    int rc = HW_OK;
    size_t i = HW_LOWER_BOUND(mid, 0, maps->maps.n, maps->maps.v[mid].end <= r->lo);
    for (uint64_t lo = r->lo; rc == HW_OK && i < maps->maps.n && maps->maps.v[i].start < r->hi;) {
        uint64_t from = maps->maps.v[i].start > lo ? maps->maps.v[i].start : lo, to = from;
        while (i < maps->maps.n && maps->maps.v[i].start <= to && to < r->hi)
            to = maps->maps.v[i++].end; /* neighbours are one range */
        to = to < r->hi ? to : r->hi;
        if (from < to)
            rc = book_range(f, r, from, to, stack, time_ns, owner);
        lo = to;
    }
    return rc;
}

int hw_inherited_book(const struct hw_inherited *i, const struct hw_maps *maps, uint64_t time_ns,
                      struct hw_ring_consumer *f)
{
    uint32_t *owners = calloc(i->n_calls + 1u, sizeof *owners);
    uint32_t *stacks = malloc((i->stacks.n + 1) * sizeof *stacks);
    int rc = owners && stacks ? HW_OK : HW_ENOMEM;
    for (size_t k = 0; rc == HW_OK && k < i->stacks.n; k++)
        stacks[k] = NOBODY;
    for (size_t k = 0; rc == HW_OK && k < i->ranges.n; k++) {
        const struct hw_inherited_range *r = &i->ranges.v[k];
        if (!hw_mappings_wants(&f->mappings, r->heap_id))
            continue;
        if (stacks[r->stack] == NOBODY)
            rc = adopt_stack(f, i->stacks.v[r->stack], &stacks[r->stack]);
        if (rc == HW_OK)
            rc = book_covered(f, r, maps, stacks[r->stack], time_ns, &owners[r->call]);
    }
    free(owners);
    free(stacks);
    return rc;
}
