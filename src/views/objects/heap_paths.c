#include "views/objects/heap_paths.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/radix.h"

#include "base/banned.h"

enum { FEW = 24, AHEAD = 8 };

/* ---- roots by class name ---- */

struct named_class {
    struct hw_bytes name;
    uint32_t class;
};

static int by_name(const void *pa, const void *pb)
{
    const struct named_class *a = pa, *b = pb;
    size_t n = a->name.n < b->name.n ? a->name.n : b->name.n;
    int c = n ? memcmp(a->name.p, b->name.p, n) : 0;
    return c ? c : (a->name.n > b->name.n) - (a->name.n < b->name.n);
}

/* Gives each class the rank of its name among all names; equal names share one. */
static int rank_classes(const struct hw_profile *p, const struct hw_heap_graph *g, uint32_t *rank)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    hw_autofree struct named_class *order = malloc(((size_t)g->n_classes + 1) * sizeof *order);
    if (!order)
        return HW_ENOMEM;
    for (uint32_t c = 0; c < g->n_classes; c++)
        order[c] = (struct named_class){hw_strings_get(strings, g->classes[c].name), c};
    if (g->n_classes)
        qsort(order, g->n_classes, sizeof *order, by_name);
    uint32_t r = 0;
    for (uint32_t c = 0; c < g->n_classes; c++) {
        r += c > 0 && by_name(&order[c - 1], &order[c]) != 0;
        rank[order[c].class] = r;
    }
    return HW_OK;
}

static int find_roots(const struct hw_profile *p, const struct hw_heap_graph *g,
                      struct hw_heap_paths *t, uint64_t *seen)
{
    size_t n = 0, k = 0;
    for (uint32_t o = 0; o < g->n_objects; o++)
        n += hw_object_is_root(g, o);
    hw_autofree struct hw_radix16 *roots = malloc((n + 1) * sizeof *roots);
    hw_autofree uint32_t *rank = malloc(((size_t)g->n_classes + 1) * sizeof *rank);
    if (!roots || !rank)
        return HW_ENOMEM;
    int rc = rank_classes(p, g, rank);
    for (uint32_t o = 0; rc == HW_OK && o < g->n_objects; o++)
        if (hw_object_is_root(g, o))
            roots[k++] = (struct hw_radix16){rank[g->type[o]], o, 0};
    if (rc == HW_OK && n)
        rc = hw_radix_sort16(roots, n);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        t->object[t->n] = roots[i].a;
        t->parent[t->n++] = HW_ID_NONE;
        seen[roots[i].a / 64] |= 1ull << (roots[i].a % 64);
    }
    return rc;
}

/* ---- the search ---- */

static int compare_u32(const void *pa, const void *pb)
{
    const uint32_t *a = pa, *b = pb;
    return (*a > *b) - (*a < *b);
}

/* Usually few, and usually in order. */
static void sort_numbers(uint32_t *v, size_t n)
{
    if (n > FEW) {
        qsort(v, n, sizeof *v, compare_u32);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        uint32_t x = v[i];
        size_t k = i;
        for (; k > 0 && v[k - 1] > x; k--)
            v[k] = v[k - 1];
        v[k] = x;
    }
}

/* The next objects are known, but scattered in memory: prefetches them some steps ahead. */
static void prefetch(const struct hw_heap_graph *g, const struct hw_heap_paths *t, size_t at)
{
    if (at + 2 * AHEAD < t->n) {
        uint32_t o = t->object[at + 2 * AHEAD];
        __builtin_prefetch(&g->first_ref[o]);
        __builtin_prefetch(&g->type[o]);
    }
    if (at + AHEAD < t->n)
        __builtin_prefetch(&g->ref_owned[g->first_ref[t->object[at + AHEAD]]]);
    __asm__ volatile(""); /* as in hw_prefetch_write() */
}

static bool find(struct hw_heap_paths *t, uint64_t *seen, size_t from, uint32_t to)
{
    if (seen[to / 64] >> (to % 64) & 1)
        return false;
    seen[to / 64] |= 1ull << (to % 64);
    t->parent[t->n] = (uint32_t)from;
    t->object[t->n++] = to;
    return true;
}

static void search(const struct hw_heap_graph *g, struct hw_heap_paths *t, uint64_t *seen)
{
    for (size_t at = 0; at < t->n; at++) {
        uint32_t o = t->object[at];
        size_t first = t->n;
        bool is_weak = g->classes[g->type[o]].is_weak, in_order = true;
        prefetch(g, t, at);
        for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++) {
            uint32_t to = g->ref_owned[r];
            if (to == HW_ID_NONE || (is_weak && g->fields[g->ref_field[r]].is_referent))
                continue;
            if (find(t, seen, at, to))
                in_order = in_order && (t->n == first + 1 || t->object[t->n - 2] < to);
        }
        uint32_t class_object = hw_object_held_class_below(g, o);
        if (class_object != HW_ID_NONE && find(t, seen, at, class_object))
            in_order = in_order && (t->n == first + 1 || t->object[t->n - 2] < class_object);
        if (!in_order)
            sort_numbers(t->object + first, t->n - first);
    }
}

int hw_heap_paths_build(const struct hw_profile *p, const struct hw_heap_graph *g,
                        struct hw_heap_paths *out)
{
    size_t n = 0;
    for (uint32_t o = 0; o < g->n_objects; o++)
        n += hw_object_is_reachable(g, o);
    struct hw_heap_paths t = {malloc((n + 1) * sizeof *t.object),
                              malloc((n + 1) * sizeof *t.parent), 0};
    hw_autofree uint64_t *seen = calloc((size_t)g->n_objects / 64 + 1, sizeof *seen);
    int rc = t.object && t.parent && seen ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK)
        rc = find_roots(p, g, &t, seen);
    if (rc < 0) {
        hw_heap_paths_done(&t);
        return rc;
    }
    search(g, &t, seen);
    *out = t;
    return HW_OK;
}

void hw_heap_paths_done(struct hw_heap_paths *t)
{
    free(t->object);
    free(t->parent);
    *t = (struct hw_heap_paths){0};
}
