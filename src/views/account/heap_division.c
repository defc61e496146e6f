/*
 * The allocator's memory is one sum of mappings; what is in it is known by size only:
 *
 *     size      |  live  | rounding | older | free                       |
 *     resident  |  live, touched    | older | free, touched |  untouched |
 *
 * Large blocks are mappings of their own, so what is untouched there is live. Elsewhere untouched
 * memory is assumed to be free memory first, which is true of an arena's end, and only then live.
 */
#include "views/account/heap_division.h"

#include <math.h>

#include "base/banned.h"

struct division {
    const struct hw_heap_memory *h;
    double pss; /* not yet assigned */
    double own; /* not yet assigned, of pages that no other process has */
};

/* Assigns rss bytes to a part: up to `own` of them on unshared pages, the rest with its share of
 * the shared ones. swap: the part's share of swap. */
static void add_part(struct division *d, struct hw_part_bytes *to, double rss, double own,
                     double swap)
{
    double shared = d->h->all.rss - d->h->own;
    double ratio = shared > 0 ? fmax(0, d->h->all.pss - d->h->own) / shared : 1;
    double mine = fmin(fmin(own, d->own), rss);
    struct hw_part_bytes b = {
        .rss = rss, .pss = mine + (rss - mine) * ratio, .swap = d->h->all.swap * swap};
    d->own -= mine;
    d->pss -= b.pss;
    to->rss += b.rss;
    to->pss += b.pss;
    to->swap += b.swap;
}

double hw_heap_untouched(const struct hw_heap_memory *h, const struct hw_heap_use *u)
{
    double used = u->live + u->older + (h->is_glibc ? u->rounding : 0);
    double free_size = fmax(0, h->size - used), foreign = fmax(0, h->blocks_size - used);
    double absent = fmax(0, h->size - h->all.rss - h->all.swap);
    double blocks = fmin(absent, fmax(0, h->blocks_size - h->blocks_resident - foreign));
    return fmin(u->live, blocks + fmax(0, absent - blocks - free_size));
}

void hw_heap_divide(const struct hw_heap_memory *h, const struct hw_heap_use *u,
                    struct hw_memory_parts *m)
{
    m->untouched = hw_heap_untouched(h, u);
    /* Whose memory is swapped is unknown: each part has its share, also when all of it is
     * swapped. */
    double touched = h->all.rss + h->all.swap, in_memory = touched > 0 ? h->all.rss / touched : 0;
    double live = u->live - m->untouched, rounding = u->rounding, older = u->older;
    /* Rounding is an estimate: it is limited to what is left, but not below its lower bound. */
    rounding = fmin(rounding, fmax(u->least_rounding, touched - live - older));
    double rest = touched - live - rounding - older;
    double sum = live + rounding + older + fmax(0, rest);
    double share = sum > 0 ? 1 / sum : 0;
    struct division d = {h, h->all.pss, fmin(h->own, h->all.pss)};
    add_part(&d, &m->parts[HW_PART_LIVE], live * in_memory, d.own, live * share);
    add_part(&d, &m->parts[HW_PART_ROUNDING], rounding * in_memory, d.own, rounding * share);
    double of_older = older > 0 ? d.own * older / (older + fmax(0, rest)) : 0;
    add_part(&d, &m->parts[HW_PART_OLDER], older * in_memory, of_older, older * share);
    m->older_or_free = !u->older_known;
    enum hw_memory_part last = rest < 0         ? HW_PART_MOVED
                               : u->older_known ? HW_PART_FREE
                                                : HW_PART_OLDER;
    m->parts[last].rss += rest * in_memory;
    m->parts[last].pss += d.pss; /* the remainder, so that the sum is exact */
    m->parts[last].swap += rest > 0 ? h->all.swap * rest * share : 0;
}
