#include "model/graph/heap_graph.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

int hw_heap_graph_new(struct hw_heap_graph **out)
{
    struct hw_heap_graph *g = calloc(1, sizeof *g);
    if (!g)
        return HW_ENOMEM;
    g->heap_size = g->oome_allocation_size = g->oome_total_free = g->oome_free_until = -1;
    *out = g;
    return HW_OK;
}

void hw_heap_graph_free(struct hw_heap_graph *g)
{
    if (!g)
        return;
    free(g->type);
    free(g->size);
    free(g->flags);
    free(g->first_ref);
    if (!g->ref_memory) {
        free(g->ref_owned);
        free(g->ref_field);
    }
    free(g->ref_memory);
    free(g->ref_block);
    hw_vec_done(&g->large);
    free(g->classes);
    free(g->fields);
    free(g->data_of);
    hw_vec_done(&g->native);
    hw_vec_done(&g->blocks);
    hw_vec_done(&g->links);
    hw_vec_done(&g->primitives);
    hw_map64_done(&g->primitive_names);
    hw_vec_done(&g->data);
    hw_vec_done(&g->contents);
    hw_vec_done(&g->threads);
    hw_vec_done(&g->holders);
    free(g);
}

int64_t hw_object_native_slow(const struct hw_heap_graph *g, uint32_t o)
{
    size_t low = HW_LOWER_BOUND(mid, 0, g->native.n, g->native.v[mid].object < o);
    return low < g->native.n && g->native.v[low].object == o ? g->native.v[low].size : 0;
}

int64_t hw_object_size_slow(const struct hw_heap_graph *g, uint32_t o)
{
    if (g->size[o] == HW_SIZE_UNKNOWN)
        return -1;
    return g->large.v[HW_LOWER_BOUND(i, 0, g->large.n, g->large.v[i].object < o)].size;
}

/* The last object whose references begin at ref or before; objects without references precede
 * it. */
uint32_t hw_ref_owner(const struct hw_heap_graph *g, uint32_t ref)
{
    const uint32_t *block = &g->ref_block[ref >> HW_REF_BLOCK_SHIFT];
    uint32_t low = block[0], high = block[1];
    while (low < high) {
        uint32_t mid = low + (high - low + 1) / 2;
        if (g->first_ref[mid] <= ref)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

const struct hw_heap_holder *hw_object_holders(const struct hw_heap_graph *g, uint32_t o, size_t *n)
{
    size_t low = HW_LOWER_BOUND(i, 0, g->holders.n, g->holders.v[i].object < o), high;
    for (high = low; high < g->holders.n && g->holders.v[high].object == o;)
        high++;
    *n = high - low;
    return *n ? &g->holders.v[low] : NULL;
}

static int by_object(const void *pa, const void *pb)
{
    const struct hw_heap_holder *a = pa, *b = pb;
    const uint32_t x[] = {a->object, a->root_type, a->thread, a->depth, (uint32_t)a->slot};
    const uint32_t y[] = {b->object, b->root_type, b->thread, b->depth, (uint32_t)b->slot};
    for (size_t i = 0; i < HW_ARRAY_LEN(x); i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

void hw_heap_graph_sort_holders(struct hw_heap_graph *g)
{
    if (g->holders.n)
        qsort(g->holders.v, g->holders.n, sizeof *g->holders.v, by_object);
}

const char *hw_root_type_name(enum hw_root_type t)
{
    static const char *const names[] = {
#define X(name, number) [number] = "ROOT_" #name,
        HW_ROOT_TYPES(X)
#undef X
    };
    return (size_t)t < HW_ARRAY_LEN(names) ? names[t] : names[0];
}

const char *hw_class_kind_name(enum hw_class_kind k)
{
    static const char *const names[] = {
#define X(name, number) [number] = "KIND_" #name,
        HW_CLASS_KINDS(X)
#undef X
    };
    return (size_t)k < HW_ARRAY_LEN(names) ? names[k] : names[0];
}

const char *hw_heap_type_name(enum hw_heap_type t)
{
    static const char *const names[] = {NULL, "HEAP_TYPE_APP", "HEAP_TYPE_ZYGOTE",
                                        "HEAP_TYPE_BOOT_IMAGE"};
    return (size_t)t < HW_ARRAY_LEN(names) ? names[t] : NULL;
}

const char *hw_block_kind_name(enum hw_block_kind k)
{
    static const char *const names[HW_BLOCK_COUNT] = {
#define X(name, number, text) [number] = text,
        HW_BLOCK_KINDS(X)
#undef X
    };
    return k < HW_BLOCK_COUNT ? names[k] : names[HW_BLOCK_UNKNOWN];
}
