#include "views/objects/heap_classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "views/objects/dominators.h"
#include "views/time/values.h"

#include "base/banned.h"

static void add(struct hw_heap_sum *s, int64_t count, int64_t size, int64_t native)
{
    s->count += count;
    s->size = hw_sat_add(s->size, size);
    s->native = hw_sat_add(s->native, native);
}

static void add_object(struct hw_class_sum *s, const struct hw_heap_graph *g, uint32_t o)
{
    int64_t native = hw_object_native_size(g, o);
    add(&s->all, 1, hw_object_weight(g, o), native);
    if (hw_object_is_reachable(g, o))
        add(&s->reachable, 1, hw_object_weight(g, o), native);
}

struct hw_class_sum hw_heap_graph_sum(const struct hw_heap_graph *g)
{
    struct hw_class_sum s = {0};
    for (uint32_t o = 0; o < g->n_objects; o++)
        add_object(&s, g, o);
    return s;
}

/*
 * A depth-first walk over the dominator tree, with a counter of open objects for each class: an
 * object with no open object of its class above it counts with all that it dominates.
 */
static int sum_dominated(const struct hw_heap_graph *g, const struct hw_dominators *d,
                         struct hw_class_sum *by_class)
{
    hw_autofree uint32_t *first = malloc((d->n + 1) * sizeof *first);
    hw_autofree uint32_t *next = malloc((d->n + 1) * sizeof *next);
    hw_autofree uint32_t *open = calloc((size_t)g->n_classes + 1, sizeof *open);
    uint32_t top = HW_ID_NONE;
    if (!first || !next || !open)
        return HW_ENOMEM;
    for (size_t i = 0; i < d->n; i++)
        first[i] = HW_ID_NONE;
    for (size_t i = d->n; i-- > 0;) {
        uint32_t *list = d->idom[i] == HW_ID_NONE ? &top : &first[d->idom[i]];
        next[i] = *list;
        *list = (uint32_t)i;
    }
    for (uint32_t at = top; at != HW_ID_NONE;) {
        uint32_t class = g->type[d->object[at]];
        if (open[class]++ == 0)
            add(&by_class[class].dominated, d->count[at], d->size[at],
                d->native ? d->native[at] : 0);
        if (first[at] != HW_ID_NONE) {
            at = first[at];
            continue;
        }
        while (at != HW_ID_NONE) { /* leave it, and those above it that are done */
            open[g->type[d->object[at]]]--;
            if (next[at] != HW_ID_NONE) {
                at = next[at];
                break;
            }
            at = d->idom[at];
        }
    }
    return HW_OK;
}

int hw_heap_class_sums(const struct hw_heap_graph *g, const struct hw_dominators *d,
                       struct hw_class_sum *by_class)
{
    for (uint32_t c = 0; c < g->n_classes; c++)
        by_class[c] = (struct hw_class_sum){0};
    for (uint32_t o = 0; o < g->n_objects; o++)
        add_object(&by_class[g->type[o]], g, o);
    return d ? sum_dominated(g, d, by_class) : HW_OK;
}

bool hw_class_is_libcore_or_array(struct hw_bytes name)
{
    static const char *const libraries[] = {"java.", "j$.", "kotlinx.coroutines.",
                                            "kotlinx.atomicfu."};
    static const char *const numbers[] = {"int[",   "long[",  "byte[",   "char[",
                                          "short[", "float[", "double[", "boolean["};
    static const char util[] = "android.util.", array[] = "Array";
    if (hw_bytes_start_with(name, "java.lang.Class<") && name.p[name.n - 1] == '>')
        return false;
    for (size_t i = 0; i < HW_ARRAY_LEN(libraries); i++)
        if (hw_bytes_start_with(name, libraries[i]))
            return true;
    for (size_t i = 0; i < HW_ARRAY_LEN(numbers); i++)
        if (hw_bytes_start_with(name, numbers[i]))
            return true;
    return hw_bytes_start_with(name, util) &&
           memmem(name.p + sizeof util - 1, name.n - (sizeof util - 1), array, sizeof array - 1);
}
