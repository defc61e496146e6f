#include "import/perfetto/heap_graph_holders.h"

#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "model/graph/heap_graph_build.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F_THREAD(name) HW_F_ManagedThread_##name
#define F_FRAME(name)  HW_F_ManagedFrame_##name
#define F_ROOT(name)   HW_F_ManagedRoot_##name

enum { MAX_STACK = 1024 };

void hw_raw_holders_done(struct hw_raw_holders *t)
{
    hw_vec_done(&t->threads);
    hw_vec_done(&t->frames);
    hw_vec_done(&t->holders);
}

int hw_raw_thread_read(struct hw_profile *p, struct hw_bytes message, struct hw_raw_holders *to)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_raw_thread t = {0};
    int rc, next;
    while ((next = hw_pb_next(&r, &f)) == 1) {
        if (f.number == F_THREAD(id))
            t.id = (int64_t)f.value;
        else if (f.number == F_THREAD(object_id))
            t.object = f.value;
        else if (f.number == F_THREAD(daemon))
            t.is_daemon = f.value != 0;
        else if (f.number == F_THREAD(name) && (rc = hw_profile_str(p, f.bytes, &t.name)) < 0)
            return rc;
    }
    if (to->threads.n >= HW_ID_NONE)
        return HW_ELIMIT;
    return hw_vec_push(&to->threads, t) < 0 ? HW_ENOMEM : next == 0;
}

int hw_raw_frame_read(struct hw_profile *p, struct hw_bytes message, struct hw_raw_holders *to)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_frame frame = {.mapping = {HW_ID_NONE}};
    struct hw_symbol_line line = {0};
    hw_frame_id id;
    int rc = HW_OK, next;
    while (rc == HW_OK && (next = hw_pb_next(&r, &f)) == 1) {
        if (f.number == F_FRAME(function))
            rc = hw_profile_str(p, f.bytes, &frame.name);
        else if (f.number == F_FRAME(file))
            rc = hw_profile_str(p, f.bytes, &line.file);
        else if (f.number == F_FRAME(line))
            line.line = (uint32_t)f.value;
    }
    line.function = frame.name;
    frame.rel_pc = line.line; /* lines of one method are different frames */
    if (rc == HW_OK)
        rc = hw_callsites_frame(p->callsites, &frame, &id);
    if (rc == HW_OK && (line.file.v || line.line))
        rc = hw_symbol_sets_put(hw_callsites_symbol_sets(p->callsites), id, &line, 1);
    if (rc == HW_OK && hw_vec_push(&to->frames, id) < 0)
        rc = HW_ENOMEM;
    return rc < 0 ? rc : next == 0;
}

static uint32_t id_or_none(uint64_t v)
{
    return v < HW_ID_NONE ? (uint32_t)v : HW_ID_NONE;
}

int hw_raw_holder_read(struct hw_bytes message, struct hw_raw_holders *to)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_raw_holder h = {
        .thread = HW_ID_NONE, .frame = HW_ID_NONE, .depth = HW_ID_NONE, .slot = -1};
    int next;
    while ((next = hw_pb_next(&r, &f)) == 1) {
        if (f.number == F_ROOT(object_id))
            h.object = f.value;
        else if (f.number == F_ROOT(root_type))
            h.root_type = f.value < HW_ROOT_COMPILED_CODE ? (uint32_t)f.value : HW_ROOT_UNKNOWN;
        else if (f.number == F_ROOT(compiled_code) && f.value)
            h.root_type = HW_ROOT_COMPILED_CODE;
        else if (f.number == F_ROOT(thread))
            h.thread = id_or_none(f.value);
        else if (f.number == F_ROOT(frame))
            h.frame = id_or_none(f.value);
        else if (f.number == F_ROOT(depth))
            h.depth = id_or_none(f.value);
        else if (f.number == F_ROOT(slot))
            h.slot = f.value <= INT32_MAX ? (int32_t)f.value : -1;
    }
    if (next < 0 || !h.object)
        return 0;
    return hw_vec_push(&to->holders, h) < 0 ? HW_ENOMEM : 1;
}

/* ---- to the graph ---- */

static int by_position(const void *pa, const void *pb)
{
    const struct hw_raw_holder *a = pa, *b = pb;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->depth != b->depth)
        return a->depth < b->depth ? -1 : 1;
    return (a->frame > b->frame) - (a->frame < b->frame);
}

/* Makes a callsite of a thread's frames, and turns depths into positions in it, from the leaf. */
static int add_stack(const struct hw_raw_holders *t, struct hw_raw_holder *h, size_t n,
                     struct hw_callsites *callsites, hw_callsite_id *out)
{
    hw_frame_id frames[MAX_STACK];
    uint32_t last = HW_ID_NONE;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t depth = h[i].depth;
        h[i].depth = HW_ID_NONE;
        if (depth == HW_ID_NONE || h[i].frame == HW_ID_NONE)
            continue;
        if (depth != last) {
            if (k == MAX_STACK)
                return HW_OK; /* deeper frames are dropped */
            frames[MAX_STACK - ++k] = t->frames.v[h[i].frame];
        }
        last = depth;
        h[i].depth = (uint32_t)k - 1;
    }
    return k ? hw_callsites_intern(callsites, frames + MAX_STACK - k, k, out) : HW_OK;
}

static int add_stacks(struct hw_raw_holders *t, uint32_t first, struct hw_profile *p,
                      struct hw_heap_graph *g)
{
    int rc = HW_OK;
    if (t->holders.n)
        qsort(t->holders.v, t->holders.n, sizeof *t->holders.v, by_position);
    for (size_t i = 0, end; i < t->holders.n && rc == HW_OK; i = end) {
        uint32_t thread = t->holders.v[i].thread;
        hw_callsite_id none, *out = &none;
        for (end = i + 1; end < t->holders.n && t->holders.v[end].thread == thread;)
            end++;
        if (thread != HW_ID_NONE)
            out = &g->threads.v[first + thread].callsite;
        rc = add_stack(t, hw_vec_from(&t->holders, i), thread == HW_ID_NONE ? 0 : end - i,
                       p->callsites, out);
    }
    return rc;
}

static int add_threads(const struct hw_raw_holders *t, const struct hw_graph_builder *b,
                       struct hw_heap_graph *g)
{
    for (size_t i = 0; i < t->threads.n; i++) {
        const struct hw_raw_thread *from = &t->threads.v[i];
        struct hw_heap_thread thread = {.id = from->id,
                                        .callsite = {HW_ID_NONE},
                                        .name = from->name,
                                        .object = HW_ID_NONE,
                                        .is_daemon = from->is_daemon};
        if (from->object)
            (void)hw_graph_find(b, from->object, &thread.object); /* or none */
        if (hw_vec_push(&g->threads, thread) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

int hw_raw_holders_add(struct hw_raw_holders *t, struct hw_profile *p,
                       const struct hw_graph_builder *b, struct hw_heap_graph *g, uint64_t *lost)
{
    uint32_t first = (uint32_t)g->threads.n;
    int rc = add_threads(t, b, g);
    *lost = 0;
    for (size_t i = 0; i < t->holders.n; i++) {
        struct hw_raw_holder *h = &t->holders.v[i];
        if (h->thread != HW_ID_NONE && h->thread >= t->threads.n) {
            h->thread = HW_ID_NONE;
            ++*lost;
        }
        if (h->frame != HW_ID_NONE && h->frame >= t->frames.n) {
            h->frame = HW_ID_NONE;
            ++*lost;
        }
    }
    if (rc == HW_OK)
        rc = add_stacks(t, first, p, g);
    for (size_t i = 0; i < t->holders.n && rc == HW_OK; i++) {
        const struct hw_raw_holder *from = &t->holders.v[i];
        struct hw_heap_holder h = {.root_type = (uint8_t)from->root_type,
                                   .thread = HW_ID_NONE,
                                   .depth = from->thread == HW_ID_NONE ? HW_ID_NONE : from->depth,
                                   .frame = {HW_ID_NONE},
                                   .slot = from->slot};
        if (from->thread != HW_ID_NONE)
            h.thread = first + from->thread;
        if (from->frame != HW_ID_NONE)
            h.frame = t->frames.v[from->frame];
        if (!hw_graph_find(b, from->object, &h.object))
            ++*lost;
        else if (hw_vec_push(&g->holders, h) < 0)
            rc = HW_ENOMEM;
    }
    hw_heap_graph_sort_holders(g);
    return rc;
}
