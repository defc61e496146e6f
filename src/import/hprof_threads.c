#include "import/hprof_threads.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"

#include "base/banned.h"

enum { MAX_STACK = 1024 };

void hw_hprof_threads_done(struct hw_hprof_threads *t)
{
    hw_vec_done(&t->records);
    hw_vec_done(&t->roots);
    hw_map64_done(&t->frame_of_id);
    hw_map64_done(&t->trace_of_serial);
}

static uint64_t key(uint64_t id)
{
    return id == HW_MAP64_NO_KEY ? id - 1 : id;
}

int hw_hprof_threads_take(struct hw_hprof_threads *t, const struct hw_hprof_record *r)
{
    struct hw_hprof_cursor c = r->body;
    if (r->tag == 0x108) { /* a thread is a root: its object, number, stack */
        (void)hw_hprof_id(&c);
        (void)hw_hprof_u(&c, 4);
        return hw_vec_push(&t->roots, hw_hprof_u(&c, 4)) < 0 ? HW_ENOMEM : HW_OK;
    }
    if (r->tag != HW_HPROF_FRAME && r->tag != HW_HPROF_TRACE)
        return HW_OK;
    bool is_frame = r->tag == HW_HPROF_FRAME;
    uint64_t id = is_frame ? hw_hprof_id(&c) : hw_hprof_u(&c, 4);
    if (hw_vec_push(&t->records, c) < 0)
        return HW_ENOMEM;
    return hw_map64_put(is_frame ? &t->frame_of_id : &t->trace_of_serial, key(id),
                        t->records.n - 1);
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

/* made: by record, the frame's row + 1: stacks share their frames. */
static int give_stack(const struct hw_hprof_threads *t, struct hw_hprof_classes *classes,
                      struct hw_hprof_cursor c, uint32_t *made, struct hw_heap_graph *g)
{
    struct hw_profile *p = classes->p;
    hw_frame_id frames[MAX_STACK];
    struct hw_heap_thread thread = {.tid = -1};
    size_t n = 0;
    uint64_t at;
    int rc = HW_OK;
    (void)hw_hprof_u(&c, 4); /* the thread's number */
    for (uint64_t left = hw_hprof_u(&c, 4); rc == HW_OK && left && n < MAX_STACK; left--) {
        uint64_t id = hw_hprof_id(&c);
        if (c.bad || !hw_map64_get(&t->frame_of_id, key(id), &at))
            break;
        hw_frame_id *frame = &frames[MAX_STACK - ++n];
        if (made[at]) {
            frame->v = made[at] - 1;
            continue;
        }
        rc = make_frame(t->records.v[at], classes, p, frame);
        made[at] = rc == HW_OK ? frame->v + 1 : 0;
    }
    if (rc < 0 || n == 0)
        return rc;
    rc = hw_callsites_intern(p->callsites, frames + MAX_STACK - n, n, &thread.callsite);
    return rc == HW_OK && hw_vec_push(&g->threads, thread) < 0 ? HW_ENOMEM : rc;
}

int hw_hprof_threads_give(const struct hw_hprof_threads *t, struct hw_hprof_classes *c,
                          struct hw_heap_graph *g)
{
    hw_autofree uint32_t *made = calloc(t->records.n + 1, sizeof *made);
    int rc = made ? HW_OK : HW_ENOMEM;
    uint64_t at;
    for (size_t i = 0; rc == HW_OK && i < t->roots.n; i++)
        if (hw_map64_get(&t->trace_of_serial, key(t->roots.v[i]), &at))
            rc = give_stack(t, c, t->records.v[at], made, g);
    return rc;
}
