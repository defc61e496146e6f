/*
 * mark_frames.c - the marks of a thread become frames of its sampled stack
 *
 * The return address of the function that began a scope says where the scope belongs in a native
 * stack: in the walked stack that function is the entry before it (leaf first). Scopes that began
 * with the same stack pointer belong to one frame; with another one and the same return address, to
 * a recursion's next frame. A recursion of which only some levels have scopes is thus taken for one
 * whose first levels have them.
 */
#include <string.h>

#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/ring/mark_names.h"
#include "client/sample/marks.h"
#include "heapwise/marks.h"

static void send_name(struct hw_client_session *s, uint64_t id, struct hw_mark_text t)
{
    hw_name_send(s, id, t, (struct hw_mark_text){NULL, 0});
}

static uint64_t sent_id(struct hw_client_session *s, const struct heapwise_mark *m)
{
    send_name(s, m->id, hw_mark_text_of(m));
    return m->id;
}

static void insert_thread(struct hw_client_session *s, struct hw_mixed_stack *m)
{
    char name[48] = "[Thread: ";
    size_t n = strlen(name);
    if (!hw_marks_thread_name(name + n))
        memcpy(name + n, "?", 2);
    n = strlen(name);
    name[n++] = ']';
    struct hw_mark_text t = {name, n};
    uint64_t id = hw_mark_id(HW_MANAGED_SCOPE, t);
    send_name(s, id, t);
    hw_mixed_splice(m, m->n_frames, 0, &id, 1);
}

static uint32_t kept(uint32_t n, uint32_t most)
{
    return n < most ? n : most;
}

static void insert_all(struct hw_client_session *s, const struct hw_marks *k,
                       struct hw_mixed_stack *m)
{
    for (uint32_t i = 0, n = kept(k->n_scopes, HW_MAX_SCOPES); i < n; i++) {
        uint64_t id = sent_id(s, k->scopes[i].mark);
        hw_mixed_splice(m, 0, 0, &id, 1);
    }
}

#define NOWHERE UINT32_MAX

/* The frame that began a scope: the one that returns to the address, leafwards of `from`. */
static uint32_t frame_of(const struct hw_mixed_stack *m, uint32_t from, uint64_t return_address)
{
    uint32_t i = from;
    while (i > 0 && (m->entry[i - 1] != HW_ENTRY_RETURN || m->at[i - 1] != return_address))
        i--;
    if (i == 0)
        return NOWHERE;
    for (i--; i > 0; i--) /* scopes of its caller lie in between */
        if (m->entry[i - 1] != HW_ENTRY_MANAGED)
            return i - 1;
    return NOWHERE;
}

/*
 *      leaf                                              root
 *      ... callee | scope 2 | scope 1 | begins them | its caller ...
 *                 ^ at                               ^ from: the next is searched left of it
 */
static void insert_among_frames(struct hw_client_session *s, const struct hw_marks *k,
                                struct hw_mixed_stack *m)
{
    uint32_t from = m->n_frames, at = m->n_frames; /* the next scope's place, if it has no frame */
    uint64_t sp = 0;
    for (uint32_t i = 0, n = kept(k->n_scopes, HW_MAX_SCOPES); i < n; i++) {
        const struct hw_open_mark *mark = &k->scopes[i];
        uint32_t frame = mark->sp == sp ? NOWHERE : frame_of(m, from, mark->return_address);
        sp = mark->sp;
        if (frame != NOWHERE) {
            at = frame;
            from = frame + 1;
        }
        uint64_t id = sent_id(s, mark->mark);
        hw_mixed_splice(m, at, 0, &id, 1);
        from++;
    }
}

void hw_marks_insert(struct hw_client_session *s, const struct hw_marks *k,
                     struct hw_mixed_stack *m)
{
    bool mine = k->generation == (s->generation & HW_MARKS_GENERATION);
    if (hw_marks_only(s)) {
        m->n_frames = m->n_managed = 0;
        m->stop = HW_STOP_END;
    }
    if (s->config.stack_mode == HW_STACKS_PSEUDO && mine)
        insert_all(s, k, m);
    if (s->config.stack_mode == HW_STACKS_MIXED && mine)
        insert_among_frames(s, k, m);
    if (s->config.stack_mode == HW_STACKS_PSEUDO || s->config.stack_mode == HW_STACKS_THREADS)
        insert_thread(s, m);
    if (mine && k->n_types && (s->config.flags & HW_CC_TYPES)) {
        uint64_t id = sent_id(s, k->types[kept(k->n_types, HW_MAX_TYPES) - 1].mark);
        hw_mixed_splice(m, 0, 0, &id, 1);
    }
}
