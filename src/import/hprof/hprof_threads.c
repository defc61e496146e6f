#include "import/hprof/hprof_threads.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"

#include "base/banned.h"

enum {
    MAX_STACK = 1024,
    ROOT_JNI_LOCAL = 0x102, /* records of a dump */
    ROOT_FRAME = 0x103,
    ROOT_THREAD = 0x108
};

void hw_hprof_threads_done(struct hw_hprof_threads *t)
{
    hw_vec_done(&t->records);
    hw_vec_done(&t->roots);
    hw_vec_done(&t->locals);
    hw_map64_done(&t->frame_of_id);
    hw_map64_done(&t->trace_of_serial);
}

static int add_root(struct hw_hprof_threads *t, const struct hw_hprof_record *r)
{
    struct hw_hprof_cursor c = r->body;
    uint64_t object = hw_hprof_id(&c);
    uint32_t serial = (uint32_t)hw_hprof_u(&c, 4), more = (uint32_t)hw_hprof_u(&c, 4);
    struct hw_hprof_thread_root thread = {object, serial, more};
    struct hw_hprof_local_root local = {.object = object,
                                        .serial = serial,
                                        .depth = (int32_t)more < 0 ? HW_ID_NONE : more,
                                        .root_type = r->tag == ROOT_JNI_LOCAL
                                                         ? (uint8_t)HW_ROOT_JNI_LOCAL
                                                         : (uint8_t)HW_ROOT_JAVA_FRAME};
    int rc =
        r->tag == ROOT_THREAD ? hw_vec_push(&t->roots, thread) : hw_vec_push(&t->locals, local);
    return rc < 0 ? HW_ENOMEM : HW_OK;
}

int hw_hprof_threads_add(struct hw_hprof_threads *t, const struct hw_hprof_record *r)
{
    struct hw_hprof_cursor c = r->body;
    if (r->tag == ROOT_THREAD || r->tag == ROOT_JNI_LOCAL || r->tag == ROOT_FRAME)
        return add_root(t, r);
    if (r->tag != HW_HPROF_FRAME && r->tag != HW_HPROF_TRACE)
        return HW_OK;
    bool is_frame = r->tag == HW_HPROF_FRAME;
    uint64_t id = is_frame ? hw_hprof_id(&c) : hw_hprof_u(&c, 4);
    if (hw_vec_push(&t->records, c) < 0)
        return HW_ENOMEM;
    return hw_map64_put(is_frame ? &t->frame_of_id : &t->trace_of_serial, id, t->records.n - 1);
}

static int make_frame(struct hw_hprof_cursor c, struct hw_hprof_classes *classes,
                      struct hw_profile *p, hw_frame_id *out)
{
    struct hw_frame f = {.mapping = {HW_ID_NONE}};
    struct hw_symbol_line line = {0};
    struct hw_strbuf name = {0};
    uint64_t at;
    struct hw_bytes method = hw_hprof_text(classes, hw_hprof_id(&c));
    (void)hw_hprof_id(&c); /* its signature */
    struct hw_bytes file = hw_hprof_text(classes, hw_hprof_id(&c));
    bool known = hw_map64_get(&classes->class_of_serial, hw_hprof_u(&c, 4), &at);
    int32_t number = (int32_t)hw_hprof_u(&c, 4); /* 0 and below: unknown, compiled, native */
    if (known) {
        struct hw_bytes class =
            hw_strings_get(hw_callsites_strings(p->callsites), classes->classes.v[at].name);
        hw_strbuf_add(&name, class.p, class.n);
        hw_strbuf_addc(&name, '.');
    }
    hw_strbuf_add(&name, method.p, method.n);
    int rc = hw_hprof_name(classes, &name, &f.name);
    hw_strbuf_done(&name);
    f.rel_pc = number > 0 ? (uint64_t)number : 0; /* lines of one method are different frames */
    line.function = f.name;
    line.line = number > 0 ? (uint32_t)number : 0;
    if (rc == HW_OK)
        rc = hw_profile_str(p, file, &line.file);
    if (rc == HW_OK)
        rc = hw_callsites_frame(p->callsites, &f, out);
    if (rc == HW_OK && line.file.v)
        rc = hw_symbol_sets_put(hw_callsites_symbol_sets(p->callsites), *out, &line, 1);
    return rc;
}

/* row_of_frame: by record, the frame's row + 1, as stacks share their frames. */
static int build_stack(const struct hw_hprof_threads *t, struct hw_hprof_classes *classes,
                       struct hw_hprof_cursor c, uint32_t *row_of_frame, hw_callsite_id *out)
{
    struct hw_profile *p = classes->p;
    hw_frame_id frames[MAX_STACK];
    size_t n = 0;
    uint64_t at;
    int rc = HW_OK;
    (void)hw_hprof_u(&c, 4); /* the thread's number */
    for (uint64_t left = hw_hprof_u(&c, 4); rc == HW_OK && left && n < MAX_STACK; left--) {
        uint64_t id = hw_hprof_id(&c);
        if (c.bad || !hw_map64_get(&t->frame_of_id, id, &at))
            break;
        hw_frame_id *frame = &frames[MAX_STACK - ++n];
        if (row_of_frame[at]) {
            frame->v = row_of_frame[at] - 1;
            continue;
        }
        rc = make_frame(t->records.v[at], classes, p, frame);
        row_of_frame[at] = rc == HW_OK ? frame->v + 1 : 0;
    }
    return rc < 0 || n == 0 ? rc
                            : hw_callsites_intern(p->callsites, frames + MAX_STACK - n, n, out);
}

static int build_threads(const struct hw_hprof_threads *t, struct hw_hprof_classes *c,
                         const struct hw_graph_builder *b, struct hw_map64 *of_serial,
                         struct hw_heap_graph *g)
{
    hw_autofree uint32_t *row_of_frame = calloc(t->records.n + 1, sizeof *row_of_frame);
    int rc = row_of_frame ? HW_OK : HW_ENOMEM;
    uint64_t at;
    for (size_t i = 0; rc == HW_OK && i < t->roots.n; i++) {
        const struct hw_hprof_thread_root *r = &t->roots.v[i];
        struct hw_heap_thread thread = {.callsite = {HW_ID_NONE}, .object = HW_ID_NONE};
        (void)hw_graph_find(b, r->object, &thread.object); /* or none */
        if (hw_map64_get(&t->trace_of_serial, r->trace, &at))
            rc = build_stack(t, c, t->records.v[at], row_of_frame, &thread.callsite);
        if (rc == HW_OK)
            rc = hw_map64_put(of_serial, r->serial, g->threads.n);
        if (rc == HW_OK && hw_vec_push(&g->threads, thread) < 0)
            rc = HW_ENOMEM;
        struct hw_heap_holder h = {.object = thread.object,
                                   .root_type = HW_ROOT_THREAD_OBJECT,
                                   .thread = (uint32_t)g->threads.n - 1,
                                   .depth = HW_ID_NONE,
                                   .frame = {HW_ID_NONE},
                                   .slot = -1};
        if (rc == HW_OK && h.object != HW_ID_NONE && hw_vec_push(&g->holders, h) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

/* The frame at a depth of a thread's stack, HW_ID_NONE if there is none. `known` caches results,
 * as a file may have a million roots at the end of one long stack. */
static int frame_at(const struct hw_profile *p, hw_callsite_id id, uint32_t depth,
                    struct hw_map64 *known, hw_frame_id *out)
{
    uint64_t *at;
    bool fresh;
    out->v = HW_ID_NONE;
    if (id.v == HW_ID_NONE || depth >= MAX_STACK)
        return HW_OK;
    if (hw_map64_at(known, (uint64_t)id.v * MAX_STACK + depth, &at, &fresh) < 0)
        return HW_ENOMEM;
    for (; fresh && depth && id.v != HW_ID_NONE; depth--)
        id = hw_callsites_get(p->callsites, id)->parent;
    if (fresh)
        *at = id.v == HW_ID_NONE ? HW_ID_NONE : hw_callsites_get(p->callsites, id)->frame.v;
    out->v = (uint32_t)*at;
    return HW_OK;
}

struct lookups {
    struct hw_map64 thread; /* by serial number */
    struct hw_map64 frame;  /* frame_at()'s results */
};

static int build_local(const struct hw_hprof_local_root *r, const struct hw_profile *p,
                       const struct hw_graph_builder *b, struct lookups *lookups,
                       struct hw_heap_graph *g)
{
    uint64_t thread;
    struct hw_heap_holder h = {
        .root_type = r->root_type, .depth = r->depth, .frame = {HW_ID_NONE}, .slot = -1};
    if (!hw_map64_get(&lookups->thread, r->serial, &thread) ||
        !hw_graph_find(b, r->object, &h.object))
        return HW_OK;
    h.thread = (uint32_t)thread;
    int rc = frame_at(p, g->threads.v[thread].callsite, h.depth, &lookups->frame, &h.frame);
    if (h.frame.v == HW_ID_NONE)
        h.depth = HW_ID_NONE;
    return rc < 0 || hw_vec_push(&g->holders, h) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_hprof_threads_build(const struct hw_hprof_threads *t, struct hw_hprof_classes *c,
                           const struct hw_graph_builder *b, struct hw_heap_graph *g)
{
    struct lookups lookups = {0};
    int rc = build_threads(t, c, b, &lookups.thread, g);
    for (size_t i = 0; rc == HW_OK && i < t->locals.n; i++)
        rc = build_local(&t->locals.v[i], c->p, b, &lookups, g);
    hw_map64_done(&lookups.thread);
    hw_map64_done(&lookups.frame);
    hw_heap_graph_sort_holders(g);
    return rc;
}

/* A thread's name is its field, a String since JDK 9; before that a char array, which is not
 * decoded here. */
void hw_hprof_threads_name(const struct hw_profile *p, struct hw_heap_graph *g)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    for (size_t i = 0; g->data_of && i < g->threads.n; i++) {
        uint32_t o = g->threads.v[i].object;
        for (uint32_t r = o == HW_ID_NONE ? 0 : g->first_ref[o];
             o != HW_ID_NONE && r < g->first_ref[o + 1]; r++) {
            uint32_t to = g->ref_owned[r];
            if (to == HW_ID_NONE || g->data_of[to] == HW_ID_NONE ||
                !g->data.v[g->data_of[to]].has_string ||
                !hw_bytes_equal(hw_strings_get(strings, g->fields[g->ref_field[r]].name),
                                hw_bytes_str("java.lang.Thread.name")))
                continue;
            g->threads.v[i].name = g->data.v[g->data_of[to]].string;
        }
    }
}
