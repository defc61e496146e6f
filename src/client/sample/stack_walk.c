/* stack_walk.c - the walk of a sample's stack: with the newest tables, as far as the stack is mapped */
#include "client/sample/stack_walk.h"

#include <dlfcn.h>
#include <link.h>

#include "client/ring/mapped_tables.h"
#include "client/ring/push.h"
#include "client/sample/new_code.h"
#include "client/thread/slabs.h"

#define PAGE_BYTES    4096u
#define FURTHER_BYTES (1024 * 1024u) /* of a stack whose end is unknown */

/* glibc 2.35 and later; lock-free, also in signal handlers. Without it unknown code is taken for
 * generated code until the recorder has seen the new module by itself. */
#ifndef HW_BARE
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));
#endif

static bool is_new_module(void *arg, uint64_t pc)
{
    (void)arg;
#ifdef HW_BARE
    (void)pc;
    return false;
#else
    struct dl_find_object found;
    return _dl_find_object && _dl_find_object((void *)(uintptr_t)pc, &found) == 0;
#endif
}

static void walk_within(struct hw_client_session *s, struct hw_slab *slab,
                        const struct hw_call_site *site, const struct hw_stack *b,
                        const struct hw_tables_view *v)
{
    struct hw_walk_in in; /* field by field: clearing `others` costs more than a few frames */
    in.tables = v->at;
    in.tables_bytes = v->n_bytes;
    in.snapshot = hw_tables_snapshot_in(v->at, v->n_bytes);
    in.regs = (struct hw_walk_regs){.pc = site->pc, .sp = site->sp, .fp = site->fp};
    in.hi = b->hi;
    in.delta = 0;
    in.max_frames = s->config.max_frames;
    in.n_others = 0;
    in.first_is_exact = false;
    in.is_new_module = is_new_module;
    in.is_new_module_arg = NULL;
    if (b->alternate) { /* the interrupted frames are on one of these */
        in.others[in.n_others++] = hw_main_stack;
        if (slab->stack_hi)
            in.others[in.n_others++] = (struct hw_walk_range){slab->stack_lo, slab->stack_hi};
    }
    hw_walk(&in, hw_slab_cache(slab), &slab->out);
}

/* A stack whose end is unknown is walked again with twice as many pages as long as it leads
 * beyond them. */
static void walk(struct hw_client_session *s, struct hw_slab *slab, const struct hw_call_site *site,
                 struct hw_stack *b)
{
    uint32_t stop, n_bytes = PAGE_BYTES;
    do {
        walk_within(s, slab, site, b, hw_tables_view(s));
        stop = slab->out.stop;
        n_bytes *= 2;
    } while (hw_unlikely(
        (stop == HW_STOP_BOUNDS && hw_stack_extend(b, site->sp, n_bytes / 2, FURTHER_BYTES)) ||
        (stop == HW_STOP_FP_LOST && hw_stack_extend(b, site->sp, n_bytes / 2, HW_MAX_COPY_BYTES))));
    if (hw_unlikely(!b->known && hw_stop_wants_copy(stop))) /* the recorder may get further */
        (void)hw_stack_extend(b, site->sp, HW_MAX_COPY_BYTES, HW_MAX_COPY_BYTES);
}

bool hw_stack_walk(struct hw_client_session *s, struct hw_slab *slab,
                   const struct hw_call_site *site, struct hw_stack *b, uint64_t now_ns)
{
    struct hw_walk_out *o = &slab->out;
    bool sure = false;
    for (int again = 0; again < 4; again++) {
        sure = hw_modules_settled(s); /* before the list is loaded */
        walk(s, slab, site, b);
        bool unknown = o->stop == HW_STOP_NO_MODULE || o->stop == HW_STOP_PENDING;
        if (hw_likely(sure && !unknown))
            return true;
        if (!sure || o->stop == HW_STOP_NO_MODULE)
            hw_push_maps(s, sure ? o->stop_pc : 0, now_ns);
        if (!hw_await_module(s, sure ? o->stop_pc : 0))
            break;
    }
    slab->is_unsettled = true;
    return sure;
}
