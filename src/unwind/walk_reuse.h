/*
 * walk_reuse.h - the frames of the previous sample
 *
 * The cache keeps the frames of the previous sample, root last, aligned to the
 * end of `old`, so that newer samples grow at the front and the shared tail never moves:
 *
 *     old:   [ unused ............ | leaf' ... i ........ root ] sentinel
 *     fresh: [ leaf ... current )                   current == old[i]: the tail is reused as it is
 *
 * Frame k of `old` was reached by loading ret from ra_slot and fp from fp_slot. Its successor
 * depends on (ret, sp, fp), the tables, and what the successor's two slots hold; so once the
 * current frame equals old[i], comparing the slots of i+1, i+2, ... proves them all. An fp that was
 * not loaded has the frame's own field as fp_slot. A frame reached in another way (a second
 * dereference, a saved context, the link register) has ra_slot = &never, which holds no return
 * address, and is stepped again. The last frame is always stepped again, so why the walk ended is
 * never taken from the cache.
 */
#ifndef HW_UNWIND_WALK_REUSE_H
#define HW_UNWIND_WALK_REUSE_H

#include "unwind/walk_state.h"

static inline void frame_reached(struct frame *to, const struct frame *from)
{
    uint64_t self = (uint64_t)(uintptr_t)&from->fp;
    to->fp_slot = from->fp_slot == self ? (uint64_t)(uintptr_t)&to->fp : from->fp_slot;
    to->ra_slot = from->ra_slot;
}

static inline void frame_copy(struct frame *to, const struct frame *from)
{
    to->sp = from->sp;
    to->ret = from->ret;
    to->fp = from->fp;
    frame_reached(to, from);
}

/* 0 when both slots still hold what they held. */
static inline uint64_t frame_changed(const struct frame *f)
{
    return (hw_regs_strip(load(f->ra_slot)) ^ f->ret) | (load(f->fp_slot) ^ f->fp);
}

/*
 * The current frame equals old[at]: reuses what follows it as far as it is still valid. Gives the
 * first frame that was not reused. One after the other: if a frame is the same, a walk would load
 * its caller's slots, too, but not yet those of the next. The processor does not wait for the
 * comparisons.
 */
static inline uint32_t verify(struct walker *w)
{
    const struct frame *old = w->c->old;
    uint32_t first = w->at + 1;
    uint32_t end = HW_MAX_FRAMES - first < w->max - w->n ? HW_MAX_FRAMES : first + w->max - w->n;
    uint64_t *pcs = w->out->pcs + w->n;
    uint32_t k = first;
    for (; k < end && !frame_changed(&old[k]); k++)
        *pcs++ = old[k].ret;
    return k;
}

static __attribute__((unused)) void copy_old(struct walker *w, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to; k++)
        frame_copy(&w->c->fresh[w->n_fresh++], &w->c->old[k]);
}

static __attribute__((noinline, unused)) bool adopt(struct walker *w, struct state *s)
{
    uint32_t first = w->at + 1;
    uint32_t end = verify(w);
    if (end == first) {
        w->at++;
        return false;
    }
    w->n += end - first;
    w->out->n_adopted += end - first;
    if (end == HW_MAX_FRAMES)
        w->tail = w->at;
    else
        copy_old(w, first, end);
    const struct frame *f = &w->c->old[end - 1];
    s->ret = f->ret;
    s->fp_only = frame_is_by_fp(f);
    s->sp = f->sp & ~(uint64_t)FRAME_BY_FP;
    s->fp = f->fp;
    s->exact = s->has_lr = false;
    w->at = end;
    return true;
}

/* The stack continues after what looked like its end (it was cut there last time). */
static __attribute__((noinline, unused)) void keep_no_tail(struct walker *w)
{
    copy_old(w, w->tail + 1, HW_MAX_FRAMES);
    w->tail = HW_MAX_FRAMES;
}

/* Puts the fresh frames in front of the kept tail. Gives the hash of the whole stack. */
static inline uint64_t remember(struct walker *w, bool usable)
{
    struct hw_walk_cache *c = w->c;
    uint32_t top = w->tail;
    uint32_t n = w->n_fresh - (w->tail < HW_MAX_FRAMES); /* the current one was old[tail] */
    uint64_t hash = w->tail < HW_MAX_FRAMES ? c->old[top].hash : 0;
    c->top = HW_MAX_FRAMES; /* nothing is valid while frames are written, see rule_miss */
    atomic_signal_fence(memory_order_seq_cst);
    if (w->tail < HW_MAX_FRAMES) /* the same frame, but another one may have called from there */
        frame_reached(&c->old[w->tail], &c->fresh[n]);
    while (n) {
        const struct frame *f = &c->fresh[--n];
        struct frame *to = &c->old[--top];
        frame_copy(to, f);
        hash = hash * HASH_CHAIN + mix(f->ret, f->sp & FRAME_EXACT);
        to->hash = hash;
    }
    atomic_signal_fence(memory_order_seq_cst);
    c->top = usable ? top : HW_MAX_FRAMES;
    return hash;
}

static inline void push_fresh(struct walker *w, uint64_t sp, uint64_t ret, uint64_t fp,
                              uint64_t fp_slot, uint64_t ra_slot)
{
    struct frame *f = &w->c->fresh[w->n_fresh++];
    f->sp = sp;
    f->ret = ret;
    f->fp = fp;
    f->fp_slot = fp_slot ? fp_slot : (uint64_t)(uintptr_t)&f->fp;
    f->ra_slot = ra_slot ? ra_slot : (uint64_t)(uintptr_t)&w->c->never;
}

#endif
