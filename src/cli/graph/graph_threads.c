/*
 * graph --threads: what each thread keeps alive, and through which variables
 *
 *        retained    objects  thread
 *       7.84 MiB     10.0 k  thread "worker", daemon
 *                              App.work (App.java:8)
 *       7.84 MiB                 java.util.ArrayList
 *          120 B                 a.Cache (also held elsewhere)
 *
 * Frames come innermost first. Those that hold nothing are shown only near the innermost one.
 */
#include <stdio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/saturate.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "base/text/strbuf.h"
#include "cli/graph/graph_page.h"
#include "model/profile.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_holders.h"
#include "views/objects/heap_threads.h"

#include "base/banned.h"

enum { FRAMES_SHOWN = 12, VARIABLES_SHOWN = 5 };

struct view {
    const struct hw_graph_page *pg;
    struct hw_dominators d;
    struct hw_thread_heaps found;
};

/* Variables of one place: [from, end) of the thread's. */
struct place {
    size_t from, end;
};

/* Those of the frame at `depth`, from the variable `at` on; HW_ID_NONE: without a frame. */
static struct place at_depth(const struct view *v, const struct hw_thread_heap *t, size_t at,
                             uint32_t depth)
{
    size_t end = at;
    while (end < t->first_variable + t->n_variables &&
           v->found.variables.v[end].holder->depth == depth)
        end++;
    return (struct place){at, end};
}

/* ---- variables ---- */

static void put_variables(const struct view *v, struct place at)
{
    size_t shown = at.end - at.from < VARIABLES_SHOWN ? at.end - at.from : VARIABLES_SHOWN;
    for (size_t i = at.from; i < at.from + shown; i++) {
        const struct hw_thread_variable *x = &v->found.variables.v[i];
        struct hw_bytes name = hw_graph_name_of(v->pg, v->pg->g->type[x->holder->object]);
        struct hw_strbuf text = {0};
        hw_strbuf_add_escaped(&text, name.p, name.n);
        hw_graph_put_bytes(x->retained);
        printf("%*s      %s%s\n", HW_GRAPH_WIDTH, "", text.n ? text.p : "[unknown]",
               x->is_only ? "" : " (also held elsewhere)");
        hw_strbuf_done(&text);
    }
    if (at.end - at.from > shown)
        printf("%*s      and %zu more\n", 2 * HW_GRAPH_WIDTH, "", at.end - at.from - shown);
}

static void json_variables(const struct view *v, struct place at)
{
    const struct hw_graph_page *pg = v->pg;
    hw_json_key(pg->json, "variables");
    hw_json_begin_array(pg->json);
    for (size_t i = at.from; i < at.end; i++) {
        const struct hw_thread_variable *x = &v->found.variables.v[i];
        const struct hw_heap_holder *h = x->holder;
        hw_json_begin_object(pg->json);
        hw_graph_json_name(pg, "class", hw_graph_name_of(pg, pg->g->type[h->object]));
        hw_json_kv_uint(pg->json, "object_id", pg->g->first_object + h->object);
        hw_json_kv_str(pg->json, "root", hw_root_type_name((enum hw_root_type)h->root_type));
        hw_json_kv_int(pg->json, "retained", x->retained);
        hw_json_kv_bool(pg->json, "only_this_thread", x->is_only);
        hw_json_end_object(pg->json);
    }
    hw_json_end_array(pg->json);
}

/* ---- frames ---- */

static void put_frame(const struct view *v, hw_frame_id frame, struct place at)
{
    const struct hw_graph_page *pg = v->pg;
    struct hw_strbuf text = {0}, shown = {0};
    if (frame.v != HW_ID_NONE)
        hw_heap_frame_text(pg->p, frame, &text);
    if (pg->json) {
        hw_json_begin_object(pg->json);
        if (text.n)
            hw_graph_json_name(pg, "frame", hw_bytes_of(text.p, text.n));
        json_variables(v, at);
        hw_json_end_object(pg->json);
    } else {
        hw_strbuf_add_escaped(&shown, text.p ? text.p : "", text.n);
        printf("%*s    %s\n", 2 * HW_GRAPH_WIDTH, "", shown.n ? shown.p : "without a frame:");
        put_variables(v, at);
    }
    hw_strbuf_done(&text);
    hw_strbuf_done(&shown);
}

static void put_frames(const struct view *v, const struct hw_thread_heap *t)
{
    const struct hw_profile *p = v->pg->p;
    hw_callsite_id site = v->pg->g->threads.v[t->thread].callsite;
    size_t at = t->first_variable, end = at + t->n_variables;
    bool is_gap = false;
    for (uint32_t depth = 0; site.v != HW_ID_NONE; depth++) {
        const struct hw_callsite *c = hw_callsites_get(p->callsites, site);
        struct place here = at_depth(v, t, at, depth);
        if (v->pg->json || here.end > here.from || depth < FRAMES_SHOWN) {
            put_frame(v, c->frame, here);
            is_gap = false;
        } else if (!is_gap) {
            printf("%*s    ...\n", 2 * HW_GRAPH_WIDTH, "");
            is_gap = true;
        }
        at = here.end;
        site = c->parent;
    }
    if (at < end) /* JNI handles, monitors, the Thread object */
        put_frame(v, (hw_frame_id){HW_ID_NONE}, (struct place){at, end});
}

/* ---- threads ---- */

static void put_thread(const struct view *v, const struct hw_thread_heap *t)
{
    const struct hw_heap_thread *thread = &v->pg->g->threads.v[t->thread];
    struct hw_strbuf text = {0}, shown = {0};
    hw_heap_thread_text(v->pg->p, thread, &text);
    hw_strbuf_add_escaped(&shown, text.p ? text.p : "", text.n);
    hw_graph_put_bytes(hw_sat_add(t->retained.size, t->retained.native));
    hw_graph_put_count(t->retained.count);
    printf("  %s%s\n", shown.p ? shown.p : "", thread->is_daemon ? ", daemon" : "");
    hw_strbuf_done(&text);
    hw_strbuf_done(&shown);
    put_frames(v, t);
}

static void json_thread(const struct view *v, const struct hw_thread_heap *t)
{
    const struct hw_graph_page *pg = v->pg;
    const struct hw_heap_thread *thread = &pg->g->threads.v[t->thread];
    hw_json_begin_object(pg->json);
    hw_graph_json_name(pg, "thread",
                       hw_strings_get(hw_callsites_strings(pg->p->callsites), thread->name));
    if (thread->id) { /* a file without ids does not say who is a daemon, either */
        hw_json_kv_int(pg->json, "java_id", thread->id);
        hw_json_kv_bool(pg->json, "daemon", thread->is_daemon);
    }
    hw_json_kv_int(pg->json, "retained", hw_sat_add(t->retained.size, t->retained.native));
    hw_json_kv_int(pg->json, "size", t->retained.size);
    hw_json_kv_int(pg->json, "native", t->retained.native);
    hw_json_kv_int(pg->json, "objects", t->retained.count);
    hw_json_key(pg->json, "frames");
    hw_json_begin_array(pg->json);
    put_frames(v, t);
    hw_json_end_array(pg->json);
    hw_json_end_object(pg->json);
}

static void show(const struct view *v)
{
    const struct hw_graph_page *pg = v->pg;
    size_t n = v->found.v.n, n_others = pg->g->threads.n - n;
    if (pg->json) {
        hw_json_kv_uint(pg->json, "threads", pg->g->threads.n);
        hw_graph_begin_rows(pg);
    } else {
        printf("%*s%*s  thread, frames, variables\n", HW_GRAPH_WIDTH, "retained", HW_GRAPH_WIDTH,
               "objects");
    }
    for (size_t i = 0; i < n && i < pg->top; i++) {
        if (pg->json)
            json_thread(v, &v->found.v.v[i]);
        else
            put_thread(v, &v->found.v.v[i]);
    }
    if (pg->json)
        hw_json_end_array(pg->json);
    else if (n_others)
        printf("%zu thread%s hold%s nothing\n", n_others, hw_plural(n_others),
               n_others == 1 ? "s" : "");
}

int hw_graph_show_threads(const struct hw_graph_page *pg)
{
    struct view v = {.pg = pg};
    int rc = pg->g->threads.n ? hw_dominators_build(pg->g, &v.d) : HW_ENOTFOUND;
    if (rc == HW_OK)
        rc = hw_heap_threads_find(pg->g, &v.d, &v.found);
    if (rc == HW_OK)
        show(&v);
    hw_dominators_done(&v.d);
    hw_heap_threads_done(&v.found);
    return rc;
}
