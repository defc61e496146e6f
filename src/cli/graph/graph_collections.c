/* graph --collections: how full collections are; --boxed: what boxed numbers cost. */
#include <stdio.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "cli/graph/graph_page.h"
#include "model/profile.h"
#include "views/contents/heap_boxes.h"
#include "views/contents/heap_collections.h"

#include "base/banned.h"

static struct hw_bytes text_of(const struct hw_graph_page *pg, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(pg->p->callsites), id);
}

/* "com.x.App.cache", "an element of java.lang.Object[]", "a root". */
static void add_holder(const struct hw_graph_page *pg, uint32_t field, uint32_t owner,
                       struct hw_strbuf *out)
{
    struct hw_bytes name = {NULL, 0};
    if (field == HW_ID_NONE) {
        hw_strbuf_adds(out, "a root");
        return;
    }
    const struct hw_heap_field *f = &pg->g->fields[field];
    name = text_of(pg, f->clear_name.v ? f->clear_name : f->name);
    if (name.n == 0) {
        hw_strbuf_adds(out, "an element of ");
        name = hw_graph_name_of(pg, owner);
    }
    hw_strbuf_add(out, name.p, name.n);
}

static void put_name(const struct hw_graph_page *pg, uint32_t class, uint32_t field, uint32_t owner,
                     bool by_holder)
{
    struct hw_bytes name = hw_graph_name_of(pg, class);
    struct hw_strbuf text = {0};
    if (by_holder) {
        add_holder(pg, field, owner, &text);
        hw_strbuf_adds(&text, ": ");
    }
    hw_strbuf_add(&text, name.p, name.n);
    hw_graph_put_name(hw_bytes_of(text.p, text.n));
    hw_strbuf_done(&text);
}

static void json_name(const struct hw_graph_page *pg, uint32_t class, uint32_t field,
                      uint32_t owner, bool by_holder)
{
    struct hw_strbuf text = {0};
    hw_json_begin_object(pg->json);
    hw_graph_json_name(pg, "class", hw_graph_name_of(pg, class));
    if (!by_holder)
        return;
    add_holder(pg, field, owner, &text);
    hw_graph_json_name(pg, "holder", hw_bytes_of(text.p, text.n));
    hw_strbuf_done(&text);
}

/* ---- collections ---- */

static void put_collections(const struct hw_graph_page *pg, const hw_collection_rows *rows,
                            const char *member, bool by_holder)
{
    if (pg->json) {
        hw_json_key(pg->json, member);
        hw_json_begin_array(pg->json);
    } else {
        printf("%*s%*s%*s%*s%*s%8s  %s\n", HW_GRAPH_WIDTH, "bytes", HW_GRAPH_WIDTH, "unused",
               HW_GRAPH_WIDTH, "objects", HW_GRAPH_WIDTH, "empty", HW_GRAPH_WIDTH, "with one",
               "fill", by_holder ? "held by: class" : "class");
    }
    for (size_t i = 0; i < rows->n && i < pg->top; i++) {
        const struct hw_collection_row *r = &rows->v[i];
        if (pg->json) {
            json_name(pg, r->class, r->field, r->owner, by_holder);
            hw_json_kv_int(pg->json, "bytes", r->bytes);
            hw_json_kv_int(pg->json, "unused", r->unused);
            hw_json_kv_int(pg->json, "objects", r->n);
            hw_json_kv_int(pg->json, "empty", r->n_empty);
            hw_json_kv_int(pg->json, "with_one", r->n_ones);
            hw_json_kv_int(pg->json, "elements", r->elements);
            hw_json_kv_int(pg->json, "slots", r->slots);
            hw_json_end_object(pg->json);
            continue;
        }
        hw_graph_put_bytes(r->bytes);
        hw_graph_put_bytes(r->unused);
        hw_graph_put_count(r->n);
        hw_graph_put_count(r->n_empty);
        hw_graph_put_count(r->n_ones);
        if (r->slots)
            printf("%7.0f%%", 100 * (double)r->elements / (double)r->slots);
        else
            printf("%8s", "-");
        put_name(pg, r->class, r->field, r->owner, by_holder);
    }
    if (pg->json)
        hw_json_end_array(pg->json);
}

int hw_graph_show_collections(const struct hw_graph_page *pg)
{
    struct hw_heap_collections found;
    int rc = hw_heap_collections_find(pg->p, pg->g, &found);
    if (rc < 0)
        return rc;
    put_collections(pg, &found.by_class, "rows", /* by_holder = */ false);
    if (pg->json)
        hw_json_kv_int(pg->json, "unknown", found.n_unknown);
    else
        puts("");
    put_collections(pg, &found.by_holder, "by_holder", /* by_holder = */ true);
    if (!pg->json && found.n_unknown)
        printf("\nthe dump does not tell the size of %lld collections\n",
               (long long)found.n_unknown);
    hw_heap_collections_done(&found);
    return HW_OK;
}

/* ---- boxes ---- */

static void put_boxes(const struct hw_graph_page *pg, const hw_box_rows *rows, const char *member,
                      bool by_holder)
{
    if (pg->json) {
        hw_json_key(pg->json, member);
        hw_json_begin_array(pg->json);
    } else {
        printf("%*s%*s%*s%*s  %s\n", HW_GRAPH_WIDTH, "bytes", HW_GRAPH_WIDTH, "as numbers",
               HW_GRAPH_WIDTH, by_holder ? "" : "copies", HW_GRAPH_WIDTH, "objects",
               by_holder ? "held by: class" : "class");
    }
    for (size_t i = 0; i < rows->n && i < pg->top; i++) {
        const struct hw_box_row *r = &rows->v[i];
        if (pg->json) {
            json_name(pg, r->class, r->field, r->owner, by_holder);
            hw_json_kv_int(pg->json, "bytes", r->bytes);
            hw_json_kv_int(pg->json, "as_numbers", r->plain);
            if (!by_holder)
                hw_json_kv_int(pg->json, "copies", r->copies);
            hw_json_kv_int(pg->json, "objects", r->n);
            hw_json_end_object(pg->json);
            continue;
        }
        hw_graph_put_bytes(r->bytes);
        hw_graph_put_bytes(r->plain);
        if (by_holder)
            printf("%*s", HW_GRAPH_WIDTH, "");
        else
            hw_graph_put_bytes(r->copies);
        hw_graph_put_count(r->n);
        put_name(pg, r->class, r->field, r->owner, by_holder);
    }
    if (pg->json)
        hw_json_end_array(pg->json);
}

int hw_graph_show_boxes(const struct hw_graph_page *pg)
{
    struct hw_heap_boxes found;
    int rc = hw_heap_boxes_find(pg->p, pg->g, &found);
    if (rc < 0)
        return rc;
    put_boxes(pg, &found.by_class, "rows", /* by_holder = */ false);
    if (!pg->json)
        puts("");
    put_boxes(pg, &found.by_holder, "by_holder", /* by_holder = */ true);
    hw_heap_boxes_done(&found);
    return HW_OK;
}
