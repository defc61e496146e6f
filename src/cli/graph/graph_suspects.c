/*
 * graph --suspects: what in one dump looks like a leak
 *
 *     1. one object retains 85.3 %: 2 MiB in 20,001 objects
 *     java.lang.Class<a.Cache>
 *       where it accumulates: java.util.HashMap$Node[], 2 MiB
 *        retained    objects  class
 *       ...
 *       what holds it, up to a root:
 *       ...
 */
#include <stdio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "base/text/strbuf.h"
#include "cli/graph/graph_page.h"
#include "config/command/units.h"
#include "model/profile.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_paths.h"
#include "views/objects/heap_suspects.h"

#include "base/banned.h"

enum { CLASSES_SHOWN = 5 };

struct view {
    const struct hw_graph_page *pg;
    struct hw_dominators d;
    struct hw_heap_paths paths;
    struct hw_suspects found;
};

/* The class of the loader; HW_ID_NONE = unknown, or the runtime's own. */
static uint32_t loader_of(const struct hw_heap_graph *g, uint32_t class)
{
    uint32_t loader = g->classes[class].classloader;
    return loader == HW_ID_NONE ? HW_ID_NONE : g->type[loader];
}

static void json_class(const struct hw_graph_page *pg, uint32_t class)
{
    uint32_t loader = loader_of(pg->g, class);
    hw_graph_json_name(pg, "class", hw_graph_name_of(pg, class));
    if (loader != HW_ID_NONE)
        hw_graph_json_name(pg, "loader", hw_graph_name_of(pg, loader));
}

static void add_class(const struct hw_graph_page *pg, struct hw_strbuf *out, uint32_t class)
{
    struct hw_bytes name = hw_graph_name_of(pg, class);
    uint32_t loader = loader_of(pg->g, class);
    if (name.n)
        hw_strbuf_add_escaped(out, name.p, name.n);
    else
        hw_strbuf_adds(out, "[unknown]");
    if (loader == HW_ID_NONE)
        return;
    name = hw_graph_name_of(pg, loader);
    hw_strbuf_adds(out, ", loaded by ");
    hw_strbuf_add_escaped(out, name.p, name.n);
}

static void put_class_name(const struct hw_graph_page *pg, const char *before, uint32_t class,
                           const char *after)
{
    struct hw_strbuf text = {0};
    add_class(pg, &text, class);
    printf("%s%s%s\n", before, text.p ? text.p : "", after);
    hw_strbuf_done(&text);
}

static void put_classes(const struct view *v, const struct hw_suspect *s)
{
    const struct hw_graph_page *pg = v->pg;
    size_t shown = s->n_classes < CLASSES_SHOWN ? s->n_classes : CLASSES_SHOWN;
    if (shown)
        printf("%*s%*s  %s\n", HW_GRAPH_WIDTH, "retained", HW_GRAPH_WIDTH, "objects", "class");
    for (size_t i = 0; i < shown; i++) {
        const struct hw_suspect_class *c = &v->found.classes.v[s->first_class + i];
        hw_graph_put_bytes(c->retained);
        hw_graph_put_count(c->count);
        put_class_name(pg, "  ", c->class, "");
    }
    if (s->n_classes > shown)
        printf("%*s  and %zu class%s more\n", 2 * HW_GRAPH_WIDTH, "", s->n_classes - shown,
               s->n_classes - shown == 1 ? "" : "es");
}

static void json_classes(const struct view *v, const struct hw_suspect *s)
{
    const struct hw_graph_page *pg = v->pg;
    hw_json_kv_uint(pg->json, "n_classes", s->n_classes);
    hw_json_key(pg->json, "accumulates");
    hw_json_begin_array(pg->json);
    for (size_t i = 0; i < s->n_classes && i < pg->top; i++) {
        const struct hw_suspect_class *c = &v->found.classes.v[s->first_class + i];
        hw_json_begin_object(pg->json);
        json_class(pg, c->class);
        hw_json_kv_int(pg->json, "retained", c->retained);
        hw_json_kv_int(pg->json, "objects", c->count);
        hw_json_end_object(pg->json);
    }
    hw_json_end_array(pg->json);
}

/* Where it accumulates. */
static void put_point(const struct view *v, const struct hw_suspect *s)
{
    struct hw_strbuf text = {0};
    char a[HW_UNIT_MAX];
    if (s->point == HW_ID_NONE) {
        puts("  no one object leads to most of them");
        return;
    }
    add_class(v->pg, &text, v->pg->g->type[s->point]);
    if (s->is_class)
        printf("  most of them are found through: %s\n", text.p ? text.p : "");
    else
        printf("  where it accumulates: %s (%s)\n", text.p ? text.p : "",
               hw_fmt_bytes(a, (double)s->point_retained));
    hw_strbuf_done(&text);
}

static size_t path_of(const struct view *v, uint32_t object)
{
    size_t at = 0;
    while (at < v->paths.n && v->paths.object[at] != object)
        at++;
    return at;
}

static void put_suspect(const struct view *v, size_t i)
{
    const struct hw_suspect *s = &v->found.v.v[i];
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX];
    printf("\n%zu. %s %.1f %%: %s in %s object%s", i + 1,
           s->is_class ? "objects of one class retain" : "one object retains", 100 * s->share,
           hw_fmt_bytes(a, (double)s->retained), hw_fmt_count(b, (double)s->count),
           hw_plural((uint64_t)s->count));
    if (s->elsewhere)
        printf(", %s of it in other suspects", hw_fmt_bytes(a, (double)s->elsewhere));
    puts("");
    put_class_name(v->pg, "  ", s->class, "");
    put_point(v, s);
    if (!s->is_class)
        put_classes(v, s);
    puts("  what holds it, up to a root:");
    hw_graph_put_path(v->pg, &v->paths, path_of(v, s->nearest));
}

static void json_suspect(const struct view *v, size_t i)
{
    const struct hw_graph_page *pg = v->pg;
    const struct hw_suspect *s = &v->found.v.v[i];
    hw_json_begin_object(pg->json);
    hw_json_kv_str(pg->json, "kind", s->is_class ? "class" : "object");
    json_class(pg, s->class);
    if (!s->is_class)
        hw_json_kv_uint(pg->json, "object_id", pg->g->first_object + s->object);
    hw_json_kv_int(pg->json, "retained", s->retained);
    hw_json_kv_int(pg->json, "objects", s->count);
    hw_json_kv_double(pg->json, "percent", 100 * s->share);
    hw_json_kv_int(pg->json, "in_other_suspects", s->elsewhere);
    if (s->point != HW_ID_NONE) {
        hw_json_key(pg->json, "point");
        hw_json_begin_object(pg->json);
        json_class(pg, pg->g->type[s->point]);
        hw_json_kv_uint(pg->json, "object_id", pg->g->first_object + s->point);
        hw_json_kv_int(pg->json, "retained", s->point_retained);
        hw_json_end_object(pg->json);
    }
    json_classes(v, s);
    hw_graph_put_path(pg, &v->paths, path_of(v, s->nearest));
    hw_json_end_object(pg->json);
}

static void show(const struct view *v)
{
    const struct hw_graph_page *pg = v->pg;
    size_t n = v->found.v.n;
    if (pg->json) {
        hw_json_kv_int(pg->json, "from_percent", HW_SUSPECT_PERCENT);
        hw_json_kv_uint(pg->json, "suspects", n);
        hw_graph_begin_rows(pg);
    } else {
        printf("%zu suspect%s: objects, or all objects of a class, that retain %d %% of what is "
               "reachable, or more\n",
               n, hw_plural(n), HW_SUSPECT_PERCENT);
    }
    for (size_t i = 0; i < n && i < pg->top; i++) {
        if (pg->json)
            json_suspect(v, i);
        else
            put_suspect(v, i);
    }
    if (pg->json)
        hw_json_end_array(pg->json);
}

int hw_graph_show_suspects(const struct hw_graph_page *pg)
{
    struct view v = {.pg = pg};
    int rc = hw_dominators_build(pg->g, &v.d);
    if (rc == HW_OK)
        rc = hw_heap_paths_build(pg->p, pg->g, &v.paths);
    if (rc == HW_OK)
        rc = hw_heap_suspects_find(pg->g, &v.d, &v.paths, &v.found);
    if (rc == HW_OK)
        show(&v);
    hw_dominators_done(&v.d);
    hw_heap_paths_done(&v.paths);
    hw_heap_suspects_done(&v.found);
    return rc;
}
