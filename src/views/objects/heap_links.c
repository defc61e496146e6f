#include "views/objects/heap_links.h"

#include <stdlib.h>

#include "base/error.h"

#include "base/banned.h"

/* key[i] of n items: a number below n_keys; HW_ID_NONE counts as none_is, or not at all if that is
 * HW_ID_NONE, too. */
static int invert(const uint32_t *key, size_t n, size_t n_keys, uint32_t none_is,
                  struct hw_heap_links *out)
{
    struct hw_heap_links l = {calloc(n_keys + 2, sizeof *l.first), NULL};
    if (!l.first)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        uint32_t k = key[i] == HW_ID_NONE ? none_is : key[i];
        if (k != HW_ID_NONE)
            l.first[k + 2]++;
    }
    for (size_t k = 2; k < n_keys + 2; k++)
        l.first[k] += l.first[k - 1];
    l.item = malloc(((size_t)l.first[n_keys + 1] + 1) * sizeof *l.item);
    if (!l.item) {
        free(l.first);
        return HW_ENOMEM;
    }
    /* first[k + 1] is where the next item of k goes; at the end it is where those of k + 1
     * begin. */
    for (size_t i = 0; i < n; i++) {
        uint32_t k = key[i] == HW_ID_NONE ? none_is : key[i];
        if (k != HW_ID_NONE)
            l.item[l.first[k + 1]++] = (uint32_t)i;
    }
    *out = l;
    return HW_OK;
}

int hw_heap_referrers(const struct hw_heap_graph *g, struct hw_heap_links *out)
{
    return invert(g->ref_owned, g->n_refs, g->n_objects, HW_ID_NONE, out);
}

int hw_heap_children(const uint32_t *parent, size_t n, struct hw_heap_links *out)
{
    return invert(parent, n, n + 1, (uint32_t)n, out);
}

void hw_heap_links_done(struct hw_heap_links *l)
{
    free(l->first);
    free(l->item);
    *l = (struct hw_heap_links){0};
}
