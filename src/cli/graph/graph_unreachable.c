/* graph --unreachable: what no root reaches, by class. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/saturate.h"
#include "base/text/json_out.h"
#include "cli/graph/graph_page.h"
#include "model/graph/heap_graph.h"

#include "base/banned.h"

/* Classes of one name, of a loader each, share a row. */
struct row {
    uint32_t class; /* the first of them */
    int64_t n, bytes, native;
};

typedef HW_VEC(struct row) rows;

static int add(const struct hw_heap_graph *g, struct hw_map64 *by_name, rows *out, uint32_t o)
{
    uint64_t *at;
    bool fresh;
    uint32_t class = g->type[o];
    if (hw_map64_at(by_name, hw_class_shown_name(&g->classes[class]).v, &at, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh) {
        *at = out->n;
        if (hw_vec_push(out, (struct row){.class = class}) < 0)
            return HW_ENOMEM;
    }
    struct row *r = &out->v[*at];
    r->n++;
    r->bytes = hw_sat_add(r->bytes, hw_object_weight(g, o));
    r->native = hw_sat_add(r->native, hw_object_native_size(g, o));
    return HW_OK;
}

static int by_bytes(const void *pa, const void *pb)
{
    const struct row *a = pa, *b = pb;
    int64_t x = hw_sat_add(a->bytes, a->native), y = hw_sat_add(b->bytes, b->native);
    if (x != y)
        return x > y ? -1 : 1;
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    return (a->class > b->class) - (a->class < b->class);
}

static void put(const struct hw_graph_page *pg, const struct row *r)
{
    if (pg->json) {
        hw_json_begin_object(pg->json);
        hw_graph_json_name(pg, "class", hw_graph_name_of(pg, r->class));
        hw_json_kv_int(pg->json, "size", r->bytes);
        hw_json_kv_int(pg->json, "native", r->native);
        hw_json_kv_int(pg->json, "objects", r->n);
        hw_json_end_object(pg->json);
        return;
    }
    hw_graph_put_bytes(r->bytes);
    hw_graph_put_bytes(r->native);
    hw_graph_put_count(r->n);
    hw_graph_put_name(hw_graph_name_of(pg, r->class));
}

int hw_graph_show_unreachable(const struct hw_graph_page *pg)
{
    struct hw_map64 by_name = {0};
    rows found = {0};
    int rc = HW_OK;
    for (uint32_t o = 0; rc == HW_OK && o < pg->g->n_objects; o++)
        if (!hw_object_is_reachable(pg->g, o) && hw_object_is_described(pg->g, o))
            rc = add(pg->g, &by_name, &found, o);
    hw_map64_done(&by_name);
    if (found.n)
        qsort(found.v, found.n, sizeof *found.v, by_bytes);
    if (pg->json)
        hw_graph_begin_rows(pg);
    else if (found.n == 0)
        puts("every object is reachable");
    else
        printf("%*s%*s%*s  %s\n", HW_GRAPH_WIDTH, "own", HW_GRAPH_WIDTH, "native", HW_GRAPH_WIDTH,
               "objects", "class of unreachable objects");
    for (size_t i = 0; rc == HW_OK && i < found.n && i < pg->top; i++)
        put(pg, &found.v[i]);
    if (pg->json)
        hw_json_end_array(pg->json);
    hw_vec_done(&found);
    return rc;
}
