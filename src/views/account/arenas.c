#include "views/account/arenas.h"

#include <stdlib.h>

#include "base/banned.h"

#define WORTH_A_TABLE (512 << 10) /* bytes */

const char *hw_arena_why(const struct hw_malloc_arena *a)
{
    switch (a->state) {
#define X(ID, number, why)                                                                         \
    case HW_ARENA_##ID:                                                                            \
        return why;
        HW_ARENA_STATES(X)
#undef X
    default: /* of a newer recorder */
        return "the recorder could not read it";
    }
}

/* What is in use and cached is in memory, and the rest of what is in memory is free: a page that was never written to is
 * free, as a rule. */
static double free_resident_of(const struct hw_malloc_arena *a)
{
    double in_use = (double)a->in_use_bytes + (a->cached_bytes > 0 ? (double)a->cached_bytes : 0);
    double left = (double)a->resident_bytes - in_use;
    return left > 0 ? left : 0;
}

/* A damaged trace may have any numbers. */
static int64_t plus(int64_t a, int64_t b)
{
    return b > 0 && a < INT64_MAX - b ? a + b : a;
}

static void add(struct hw_arenas *all, const struct hw_malloc_arena *a)
{
    struct hw_malloc_arena *s = &all->sum;
    double is_free = free_resident_of(a);
    s->threads = plus(s->threads, a->threads);
    s->system_bytes = plus(s->system_bytes, a->system_bytes);
    s->in_use_bytes = plus(s->in_use_bytes, a->in_use_bytes);
    s->free_bytes = plus(s->free_bytes, a->free_bytes);
    s->top_bytes = plus(s->top_bytes, a->top_bytes);
    s->cached_bytes = plus(s->cached_bytes, a->cached_bytes);
    s->fast_bytes = plus(s->fast_bytes, a->fast_bytes);
    s->returnable_bytes = plus(s->returnable_bytes, a->returnable_bytes);
    s->resident_bytes = plus(s->resident_bytes, a->resident_bytes);
    all->free_resident += is_free;
    if (is_free > all->most_free_resident)
        all->most_free_resident = is_free;
}

static uint64_t distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

void hw_arenas_find(const struct hw_profile *p, hw_upid upid, int64_t ts_ns, struct hw_arenas *out)
{
    *out = (struct hw_arenas){.n = 0};
    for (size_t i = 0; i < p->arenas.n; i++) {
        const struct hw_malloc_arena *a = &p->arenas.v[i];
        bool is_nearer = !out->v || distance(a->ts_ns, ts_ns) < distance(out->v->ts_ns, ts_ns);
        if (a->upid.v == upid.v && is_nearer)
            out->v = a;
    }
    if (!out->v)
        return;
    out->ts_ns = out->v->ts_ns;
    for (const struct hw_malloc_arena *a = out->v;
         a < p->arenas.v + p->arenas.n && a->upid.v == upid.v && a->ts_ns == out->ts_ns; a++) {
        out->n++; /* those of a reading follow each other */
        if (a->state == HW_ARENA_KNOWN)
            add(out, a);
        else
            out->n_unknown++;
    }
}

static int64_t unused_of(const struct hw_malloc_arena *a)
{
    return a->state == HW_ARENA_KNOWN ? a->system_bytes - a->in_use_bytes : a->system_bytes;
}

bool hw_arenas_are_worth_a_table(const struct hw_arenas *a)
{
    return a->n > 1 || (a->n == 1 && unused_of(&a->v[0]) >= WORTH_A_TABLE);
}

static int by_unused(const void *pa, const void *pb)
{
    const struct hw_malloc_arena *a = *(const struct hw_malloc_arena *const *)pa,
                                 *b = *(const struct hw_malloc_arena *const *)pb;
    int64_t x = unused_of(a), y = unused_of(b);
    return x > y ? -1 : x < y ? 1 : a->number < b->number ? -1 : a->number > b->number;
}

void hw_arenas_by_unused(const struct hw_arenas *a, const struct hw_malloc_arena **rows)
{
    for (size_t i = 0; i < a->n; i++)
        rows[i] = &a->v[i];
    if (a->n)
        qsort(rows, a->n, sizeof *rows, by_unused);
}
