/*
 * unmapped.c - paint the ranges over each other, newest first
 *
 *     newest      |---C---|
 *                     |----B----|             points   a  c  b  C's end  B's end  A's end
 *     oldest   |----------A---------|         owner     A  C  C  B        A
 *
 * Each piece between two neighbouring ends is painted once; `next` skips those that are painted
 * already, so the index costs n log n for sorting and little more.
 */
#include "daemon/code/unmapped.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

#define SINCE_MOST 256u /* ranges that hw_unmapped_since examines */

void hw_unmapped_done(struct hw_unmapped *g)
{
    hw_vec_done(&g->ranges);
    hw_vec_done(&g->points);
    hw_vec_done(&g->owner);
    g->indexed = false;
}

int hw_unmapped_push(struct hw_unmapped *g, const struct hw_frame_range *r)
{
    if (g->ranges.n == HW_UNMAPPED_MAX) { /* half of them, so that moving is rare */
        g->ranges.n /= 2;
        memmove(g->ranges.v, g->ranges.v + g->ranges.n, g->ranges.n * sizeof *g->ranges.v);
        g->indexed = false;
    }
    if (hw_vec_push(&g->ranges, *r) < 0)
        return HW_ENOMEM;
    g->indexed = false;
    return HW_OK;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* First point above the address. */
static size_t above(const struct hw_unmapped *g, uint64_t pc)
{
    return HW_LOWER_BOUND(mid, 0, g->points.n, g->points.v[mid] <= pc);
}

static uint32_t free_from(uint32_t *next, uint32_t i)
{
    while (next[i] != i)
        i = next[i] = next[next[i]];
    return i;
}

static void paint(struct hw_unmapped *g, uint32_t *next)
{
    for (size_t k = g->ranges.n; k > 0; k--) {
        const struct hw_frame_range *r = &g->ranges.v[k - 1];
        size_t end = above(g, r->hi) - 1;
        uint32_t i = free_from(next, (uint32_t)above(g, r->lo) - 1);
        for (; i < end; i = free_from(next, i)) {
            g->owner.v[i] = (uint32_t)k;
            next[i] = i + 1;
        }
    }
}

static bool make_index(struct hw_unmapped *g)
{
    size_t n = 0, most = 2 * g->ranges.n;
    hw_autofree uint32_t *next = malloc((most + 1) * sizeof *next);
    if (!next || hw_vec_reserve(&g->points, most) < 0 || hw_vec_reserve(&g->owner, most) < 0)
        return false;
    for (size_t i = 0; i < g->ranges.n; i++) {
        g->points.v[2 * i] = g->ranges.v[i].lo;
        g->points.v[2 * i + 1] = g->ranges.v[i].hi;
    }
    qsort(g->points.v, most, sizeof *g->points.v, compare);
    for (size_t i = 0; i < most; i++)
        if (n == 0 || g->points.v[n - 1] != g->points.v[i])
            g->points.v[n++] = g->points.v[i];
    g->points.n = g->owner.n = n;
    for (size_t i = 0; i <= n; i++)
        next[i] = (uint32_t)i;
    memset(g->owner.v, 0, n * sizeof *g->owner.v);
    paint(g, next);
    g->indexed = true;
    return true;
}

const struct hw_frame_range *hw_unmapped_last(struct hw_unmapped *g, uint64_t pc)
{
    if (g->ranges.n == 0 || (!g->indexed && !make_index(g)))
        return NULL;
    size_t i = above(g, pc);
    uint32_t owner = i > 0 ? g->owner.v[i - 1] : 0;
    return owner ? &g->ranges.v[owner - 1] : NULL;
}

const struct hw_frame_range *hw_unmapped_since(const struct hw_unmapped *g, uint64_t pc,
                                               uint16_t generation)
{
    const struct hw_frame_range *found = NULL;
    size_t end = g->ranges.n > SINCE_MOST ? g->ranges.n - SINCE_MOST : 0;
    for (size_t i = g->ranges.n; i > end; i--) {
        const struct hw_frame_range *r = &g->ranges.v[i - 1];
        if ((int16_t)(r->last_generation - generation) < 0)
            break;
        if (pc >= r->lo && pc < r->hi)
            found = r;
    }
    return found;
}

size_t hw_unmapped_bytes(const struct hw_unmapped *g)
{
    return g->ranges.cap * sizeof *g->ranges.v + g->points.cap * sizeof *g->points.v +
           g->owner.cap * sizeof *g->owner.v;
}
