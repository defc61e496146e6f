/* graph --where: objects by class, size and fields, those that retain most first. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/saturate.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/graph/graph_page.h"
#include "config/command/units.h"
#include "model/profile.h"
#include "views/contents/heap_where.h"
#include "views/objects/dominators.h"

#include "base/banned.h"

struct row {
    uint32_t object;
    int64_t retained;
};

static int by_retained(const void *pa, const void *pb)
{
    const struct row *a = pa, *b = pb;
    if (a->retained != b->retained)
        return a->retained > b->retained ? -1 : 1;
    return (a->object > b->object) - (a->object < b->object);
}

static int64_t *retained_by_object(const struct hw_heap_graph *g)
{
    struct hw_dominators d;
    int64_t *out = calloc((size_t)g->n_objects + 1, sizeof *out);
    if (!out || hw_dominators_build(g, &d) < 0) {
        free(out);
        return NULL;
    }
    for (size_t i = 0; i < d.n; i++)
        out[d.object[i]] = d.native ? hw_sat_add(d.size[i], d.native[i]) : d.size[i];
    hw_dominators_done(&d);
    return out;
}

/* The number is that of SQL: heap_graph_object.id. */
static void put(const struct hw_graph_page *pg, const struct row *r)
{
    const struct hw_heap_graph *g = pg->g;
    const struct hw_heap_data *d = hw_object_data(g, r->object);
    struct hw_bytes class = hw_graph_name_of(pg, g->type[r->object]), text = {NULL, 0};
    if (d && d->has_string)
        text = hw_strings_get(hw_callsites_strings(pg->p->callsites), d->string);
    if (pg->json) {
        hw_json_begin_object(pg->json);
        hw_json_kv_uint(pg->json, "object", g->first_object + r->object);
        hw_graph_json_name(pg, "class", class);
        hw_json_kv_int(pg->json, "size", hw_object_weight(g, r->object));
        hw_json_kv_int(pg->json, "retained", r->retained);
        if (d && d->has_string)
            hw_graph_json_name(pg, "text", text);
        hw_json_end_object(pg->json);
        return;
    }
    enum { MAX_SHOWN = 48 };
    struct hw_strbuf line = {0};
    hw_graph_put_bytes(r->retained);
    hw_graph_put_bytes(hw_object_weight(g, r->object));
    hw_strbuf_add_escaped(&line, class.p, class.n);
    if (d && d->has_string) {
        hw_strbuf_adds(&line, " \"");
        hw_strbuf_add_escaped(&line, text.p, text.n < MAX_SHOWN ? text.n : MAX_SHOWN);
        hw_strbuf_adds(&line, text.n <= MAX_SHOWN ? "\"" : "\"...");
    }
    printf("%*u  %s\n", HW_GRAPH_WIDTH, g->first_object + r->object, line.p ? line.p : "");
    hw_strbuf_done(&line);
}

static int show(const struct hw_graph_page *pg, const hw_found_objects *found,
                const int64_t *retained)
{
    hw_autofree struct row *rows = malloc((found->n + 1) * sizeof *rows);
    char buf[HW_UNIT_MAX];
    int64_t bytes = 0;
    if (!rows)
        return HW_ENOMEM;
    for (size_t i = 0; i < found->n; i++) {
        rows[i] = (struct row){found->v[i], retained[found->v[i]]};
        bytes = hw_sat_add(bytes, hw_object_weight(pg->g, found->v[i]));
    }
    if (found->n)
        qsort(rows, found->n, sizeof *rows, by_retained);
    if (pg->json) {
        hw_json_kv_uint(pg->json, "objects", found->n);
        hw_json_kv_int(pg->json, "size", bytes);
        hw_graph_begin_rows(pg);
    } else {
        printf("%zu object%s, %s of their own\n", found->n, hw_plural(found->n),
               hw_fmt_bytes(buf, (double)bytes));
        if (found->n)
            printf("%*s%*s%*s  %s\n", HW_GRAPH_WIDTH, "retained", HW_GRAPH_WIDTH, "own",
                   HW_GRAPH_WIDTH, "object", "class");
    }
    for (size_t i = 0; i < found->n && i < pg->top; i++)
        put(pg, &rows[i]);
    if (pg->json)
        hw_json_end_array(pg->json);
    return HW_OK;
}

int hw_graph_show_where(const struct hw_graph_page *pg, struct hw_error *err)
{
    hw_found_objects found = {0};
    hw_autofree int64_t *retained = retained_by_object(pg->g);
    int rc =
        retained ? hw_heap_where_find(pg->where, pg->p, pg->g, retained, &found, err) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = show(pg, &found, retained);
    hw_vec_done(&found);
    return rc;
}
