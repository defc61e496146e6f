#include "views/objects/heap_duplicates.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"

#include "base/banned.h"

struct array {
    uint32_t class, object;
    int64_t length, hash, bytes;
};

bool hw_heap_has_contents(const struct hw_heap_graph *g)
{
    for (size_t i = 0; i < g->data.n; i++)
        if (g->data.v[i].data_id >= 0)
            return true;
    return false;
}

static int by_content(const void *pa, const void *pb)
{
    const struct array *a = pa, *b = pb;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return (a->object > b->object) - (a->object < b->object);
}

static int by_spare(const void *pa, const void *pb)
{
    const struct hw_duplicate *a = pa, *b = pb;
    if (a->spare != b->spare)
        return a->spare > b->spare ? -1 : 1;
    return (a->object > b->object) - (a->object < b->object);
}

static bool same(const struct array *a, const struct array *b)
{
    return a->class == b->class && a->length == b->length && a->hash == b->hash;
}

static size_t list_arrays(const struct hw_heap_graph *g, struct array *out)
{
    size_t n = 0;
    for (uint32_t o = 0; o < g->n_objects; o++) {
        const struct hw_heap_data *d = hw_object_data(g, o);
        if (d && d->data_id >= 0 && hw_object_is_reachable(g, o))
            out[n++] = (struct array){g->type[o], o, d->element_count, d->data_hash,
                                      hw_object_weight(g, o)};
    }
    return n;
}

/* Adds the text of a string whose array is the row's object. */
static int add_texts(const struct hw_heap_graph *g, hw_duplicates *rows)
{
    struct hw_map64 row_of = {0};
    uint64_t row;
    int rc = HW_OK;
    for (size_t i = 0; i < rows->n && rc == HW_OK; i++)
        rc = hw_map64_put(&row_of, rows->v[i].object, i);
    for (uint32_t o = 0; o < g->n_objects && rc == HW_OK; o++) {
        const struct hw_heap_data *d = hw_object_data(g, o);
        if (!d || !d->has_string)
            continue;
        for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++)
            if (g->ref_owned[r] != HW_ID_NONE && hw_map64_get(&row_of, g->ref_owned[r], &row)) {
                rows->v[row].has_text = true;
                rows->v[row].text = d->string;
            }
    }
    hw_map64_done(&row_of);
    return rc;
}

int hw_heap_duplicates(const struct hw_heap_graph *g, hw_duplicates *out)
{
    hw_autofree struct array *all = calloc(g->data.n + 1, sizeof *all);
    size_t n = all ? list_arrays(g, all) : 0, end;
    *out = (hw_duplicates){0};
    if (!all)
        return HW_ENOMEM;
    if (n)
        qsort(all, n, sizeof *all, by_content);
    for (size_t i = 0; i < n; i = end) {
        struct hw_duplicate row = {all[i].class, all[i].object, .length = all[i].length};
        for (end = i; end < n && same(&all[i], &all[end]); end++)
            row.bytes += all[end].bytes;
        row.n_copies = (uint32_t)(end - i);
        row.spare = row.bytes - all[i].bytes;
        if (row.n_copies > 1 && hw_vec_push(out, row) < 0) {
            hw_vec_done(out);
            return HW_ENOMEM;
        }
    }
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, by_spare);
    return add_texts(g, out);
}
