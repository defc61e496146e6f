#include "import/perfetto/heap_graph_natives.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "model/graph/heap_graph_build.h"

#include "base/banned.h"

enum role { NO_ROLE, REFERENT, THUNK, NEXT, OUTER, N_ROLES };

/* A field's role in the chain, by the last component of its name. */
static enum role role_of(struct hw_bytes name)
{
    static const char *const words[N_ROLES] = {NULL, "referent", "thunk", "next", "this$0"};
    size_t from = name.n;
    while (from > 0 && name.p[from - 1] != '.')
        from--;
    for (int r = REFERENT; r < N_ROLES; r++)
        if (hw_bytes_equal(hw_bytes_skip(name, from), hw_bytes_str(words[r])))
            return (enum role)r;
    return NO_ROLE;
}

static uint32_t follow(const struct hw_heap_graph *g, uint32_t o, const uint8_t *roles,
                       enum role role)
{
    for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++)
        if (roles[g->ref_field[r]] == role)
            return g->ref_owned[r];
    return HW_ID_NONE;
}

/* Object of each registry -> its size. */
static int sizes_of(const struct hw_graph_builder *b, const hw_sized_ids *registries,
                    struct hw_map64 *out)
{
    int rc = HW_OK;
    uint32_t o;
    for (size_t i = 0; rc == HW_OK && i < registries->n; i++)
        if (hw_graph_find(b, registries->v[i].id, &o))
            rc = hw_map64_put(out, o, (uint64_t)registries->v[i].size & ~1ull);
    return rc;
}

static int by_object(const void *pa, const void *pb)
{
    const struct hw_heap_native *a = pa, *b = pb;
    return (a->object > b->object) - (a->object < b->object);
}

void hw_heap_graph_sum_natives(struct hw_heap_graph *g)
{
    size_t n = 0;
    if (g->native.n)
        qsort(g->native.v, g->native.n, sizeof *g->native.v, by_object);
    for (size_t i = 0; i < g->native.n; i++) {
        struct hw_heap_native *to = n ? &g->native.v[n - 1] : NULL;
        if (to && to->object == g->native.v[i].object) {
            if (__builtin_add_overflow(to->size, g->native.v[i].size, &to->size))
                to->size = INT64_MAX;
        } else {
            g->native.v[n++] = g->native.v[i];
        }
    }
    g->native.n = n;
    for (size_t i = 0; i < n; i++)
        g->flags[g->native.v[i].object] |= HW_OBJECT_NATIVE;
}

int hw_heap_graph_add_natives(const struct hw_strings *strings, const struct hw_graph_builder *b,
                              const hw_sized_ids *registries, struct hw_heap_graph *g)
{
    hw_autofree uint8_t *roles = calloc((size_t)g->n_fields + 1, 1);
    hw_autofree uint8_t *is_cleaner = calloc((size_t)g->n_classes + 1, 1);
    struct hw_map64 sizes = {0};
    if (registries->n == 0)
        return HW_OK;
    if (!roles || !is_cleaner)
        return HW_ENOMEM;
    for (uint32_t f = 0; f < g->n_fields; f++)
        roles[f] = (uint8_t)role_of(hw_strings_get(strings, g->fields[f].name));
    for (uint32_t c = 0; c < g->n_classes; c++)
        is_cleaner[c] = (uint8_t)hw_bytes_equal(hw_strings_get(strings, g->classes[c].name),
                                                hw_bytes_str("sun.misc.Cleaner"));
    int rc = sizes_of(b, registries, &sizes);
    for (uint32_t o = 0; rc == HW_OK && o < g->n_objects; o++) {
        uint64_t size;
        if (!is_cleaner[g->type[o]] || follow(g, o, roles, NEXT) == o)
            continue;
        uint32_t object = follow(g, o, roles, REFERENT), thunk = follow(g, o, roles, THUNK);
        uint32_t registry = thunk == HW_ID_NONE ? thunk : follow(g, thunk, roles, OUTER);
        if (object == HW_ID_NONE || registry == HW_ID_NONE ||
            !hw_map64_get(&sizes, registry, &size) || size == 0 || size > INT64_MAX)
            continue;
        if (hw_vec_push(&g->native, (struct hw_heap_native){object, (int64_t)size}) < 0)
            rc = HW_ENOMEM;
    }
    hw_map64_done(&sizes);
    if (rc == HW_OK)
        hw_heap_graph_sum_natives(g);
    return rc;
}
