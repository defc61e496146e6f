#include "views/objects/heap_release.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "views/time/values.h"

#include "base/banned.h"

static bool has_bit(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

static void set_bit(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= 1ull << (i % 64);
}

static size_t reach(const struct hw_heap_graph *g, const uint64_t *cut, const uint64_t *no_root,
                    uint64_t *seen, uint32_t *queue)
{
    size_t n = 0;
    for (uint32_t o = 0; o < g->n_objects; o++)
        if (hw_object_is_root(g, o) && !has_bit(no_root, o)) {
            set_bit(seen, o);
            queue[n++] = o;
        }
    for (size_t at = 0; at < n; at++) {
        uint32_t o = queue[at];
        for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++) {
            if (!hw_ref_is_strong(g, o, r) || has_bit(cut, r) || has_bit(seen, g->ref_owned[r]))
                continue;
            set_bit(seen, g->ref_owned[r]);
            queue[n++] = g->ref_owned[r];
        }
        uint32_t class_object = hw_object_held_class(g, o);
        if (class_object != HW_ID_NONE && !has_bit(seen, class_object)) {
            set_bit(seen, class_object);
            queue[n++] = class_object;
        }
    }
    return n;
}

int hw_heap_release_find(const struct hw_heap_graph *g, const uint32_t *refs, size_t n_refs,
                         const uint32_t *not_root, size_t n_not_root, struct hw_heap_release *out)
{
    hw_autofree uint64_t *cut = calloc((size_t)g->n_refs / 64 + 1, sizeof *cut);
    hw_autofree uint64_t *no_root = calloc((size_t)g->n_objects / 64 + 1, sizeof *no_root);
    hw_autofree uint64_t *seen = calloc((size_t)g->n_objects / 64 + 1, sizeof *seen);
    hw_autofree uint32_t *queue = malloc(((size_t)g->n_objects + 1) * sizeof *queue);
    struct hw_heap_release r = {.is_lost = calloc((size_t)g->n_objects + 1, 1)};
    if (!cut || !no_root || !seen || !queue || !r.is_lost) {
        free(r.is_lost);
        return HW_ENOMEM;
    }
    for (size_t i = 0; i < n_refs; i++)
        set_bit(cut, refs[i]);
    for (size_t i = 0; i < n_not_root; i++)
        set_bit(no_root, not_root[i]);
    (void)reach(g, cut, no_root, seen, queue); /* the loop below counts */
    for (uint32_t o = 0; o < g->n_objects; o++) {
        if (!hw_object_is_reachable(g, o) || has_bit(seen, o))
            continue;
        r.is_lost[o] = 1;
        r.lost.count++;
        r.lost.size = hw_sat_add(r.lost.size, hw_object_weight(g, o));
        r.lost.native = hw_sat_add(r.lost.native, hw_object_native_size(g, o));
    }
    *out = r;
    return HW_OK;
}

void hw_heap_release_done(struct hw_heap_release *r)
{
    free(r->is_lost);
    *r = (struct hw_heap_release){0};
}
