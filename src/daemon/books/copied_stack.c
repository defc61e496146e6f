/*
 * copied_stack.c - stacks that the target could not walk itself: registers, and a copy of the bytes
 *
 * A module may have been loaded a moment ago, and have no table yet. Then the sample waits, and
 * with it everything after it in the ring, until the main thread has read the target's maps.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arch.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "daemon/books/ring_consumer.h"
#include "unwind/walk.h"

#include "base/banned.h"

#define STALL_MAX_NS  250000000u /* how long a sample waits for its table */
#define ASK_AGAIN_NS  5000000u
#define QUICK_NS      2000000000u
#define VAIN_NS       50000000u
#define COARSE_LAG_NS 10000000u /* the coarse clock's, at most */

/* Leaf first; the two rows of bits are sent side by side, so the first has room for both. */
struct hw_copied_frames {
    uint32_t n;
    uint64_t at[HW_MAX_FRAMES]; /* pc, or id of a managed frame */
    uint64_t exact[2 * HW_MAX_FRAMES / 64], managed[HW_MAX_FRAMES / 64];
};

/* ---- the walk ---- */

static bool copy_regs(const struct hw_rec_copy *c, const uint8_t *regs, struct hw_walk_regs *out)
{
    uint32_t pc, sp, fp;
    switch (c->arch) {
#define X(name, number, elf, text, n, i_pc, i_sp, i_fp)                                            \
    case (number):                                                                                 \
        if (c->n_regs < (n))                                                                       \
            return false;                                                                          \
        pc = (i_pc), sp = (i_sp), fp = (i_fp);                                                     \
        break;
        HW_ARCHS(X)
#undef X
    default: /* a number from outside, not our enum */
        return false;
    }
    *out = (struct hw_walk_regs){.pc = hw_load_u64(regs + pc * 8),
                                 .sp = hw_load_u64(regs + sp * 8),
                                 .fp = hw_load_u64(regs + fp * 8)};
    if (c->arch == HW_ARCH_ARM64)
        out->lr = hw_load_u64(regs + 30 * 8);
    return true;
}

static bool walk_buffers(struct hw_ring_consumer *f)
{
    if (!f->walk)
        f->walk = calloc(1, sizeof *f->walk);
    if (!f->mixed)
        f->mixed = calloc(1, sizeof *f->mixed);
    return f->walk != NULL && f->mixed != NULL;
}

static void count_unwind(struct hw_ring_consumer *f, uint64_t ns)
{
    uint64_t us = ns / 1000;
    uint32_t bucket = us ? 64u - (uint32_t)__builtin_clzll(us) : 0;
    if (bucket >= HW_UNWIND_BUCKETS_FEED)
        bucket = HW_UNWIND_BUCKETS_FEED - 1;
    f->unwind_hist[bucket]++;
    f->unwind_us += us;
}

/* Code that the tables' list does not show may have been loaded a moment ago. */
static bool may_be_new(void *arg, uint64_t pc)
{
    (void)arg, (void)pc;
    return true;
}

/* The scratch copy of the record is 8-byte aligned, and so is everything in it. */
static void walk_copy(struct hw_ring_consumer *f, const struct hw_rec_copy *c,
                      const struct hw_walk_regs *regs, const uint8_t *bytes, uint64_t now_ns)
{
    uint64_t t0 = hw_now_monotonic_ns();
    struct hw_walk_out *w = f->walk;
    bool asked = f->stall_since_ns ? f->maps_answered : f->dead || now_ns < f->stalls_again_ns;
    struct hw_walk_in in = {.tables = f->tables,
                            .snapshot = f->tables ? hw_tables_snapshot(f->tables) : NULL,
                            .regs = *regs,
                            .hi = c->sp + c->n_bytes,
                            .delta = (uint64_t)(uintptr_t)bytes - c->sp,
                            .max_frames = HW_MAX_FRAMES,
                            .is_new_module = asked ? NULL : may_be_new};
    if (in.regs.sp < c->sp)
        in.regs.sp = c->sp;
    f->walk_generation = in.snapshot ? (uint16_t)in.snapshot->generation : 0;
    if (!in.snapshot || in.hi < c->sp) {
        *w = (struct hw_walk_out){.n_frames = 1, .stop = HW_STOP_PENDING, .stop_pc = regs->pc};
        w->pcs[0] = regs->pc;
        w->stack_id = hw_hash_u64(regs->pc) | 1;
        return;
    }
    if (c->arch == HW_ARCH_X86)
        hw_walk_x86(&in, NULL, w);
    else
        hw_walk(&in, NULL, w);
    count_unwind(f, hw_now_monotonic_ns() - t0);
}

/* ---- tables that do not exist yet ---- */

/* Does the tables' list say what was where when the sample was taken? */
static bool list_is_current(const struct hw_ring_consumer *f, const struct hw_rec_copy *c)
{
    const struct hw_tables_dir *d = f->tables;
    return d &&
           (int32_t)(atomic_load_explicit(&d->closes_seen, memory_order_acquire) - c->closes) >= 0;
}

static void ask_maps(struct hw_ring_consumer *f, uint64_t now_ns)
{
    f->maps_asked_ns = now_ns;
    f->quick_until_ns = now_ns + QUICK_NS;
    f->maps_pc = f->walk->stop_pc;
    f->maps_ask++;
    f->maps_wanted = true;
    f->maps_answered = false;
}

/* The address is in no module now either: generated code, or no code at all. */
static bool asked_in_vain(const struct hw_ring_consumer *f)
{
    const struct hw_module_snapshot *s = f->tables ? hw_tables_snapshot(f->tables) : NULL;
    return f->maps_pc && !hw_module_find(s, f->maps_pc - 1);
}

/*
 * Should the sample wait until the main thread has read the target's maps again? Each one that
 * leads through unknown code does, unless another has just waited in vain: tables that do not come
 * must not hold up the target.
 */
static bool copy_stalls(struct hw_ring_consumer *f, const struct hw_rec_copy *c, uint64_t now_ns)
{
    uint32_t stop = f->walk->stop;
    bool current = list_is_current(f, c);
    bool wants = !current || stop == HW_STOP_PENDING || stop == HW_STOP_NO_MODULE;
    bool first = f->stall_since_ns == 0;
    if (first && wants && !f->dead && now_ns >= f->stalls_again_ns) {
        f->stall_since_ns = now_ns;
        ask_maps(f, now_ns);
        return true;
    }
    if (!first && wants && !f->dead && now_ns - f->stall_since_ns <= STALL_MAX_NS) {
        if (f->maps_answered && now_ns - f->maps_asked_ns >= ASK_AGAIN_NS)
            ask_maps(f, now_ns); /* another library was loaded, or is being unloaded */
        return true;
    }
    if (!first && wants)
        f->stalls_again_ns = now_ns + 2 * (uint64_t)STALL_MAX_NS;
    else if (!first && asked_in_vain(f))
        f->stalls_again_ns = now_ns + VAIN_NS;
    f->stall_since_ns = 0;
    return false;
}

bool hw_ring_consumer_maps(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size,
                           uint64_t now_ns)
{
    struct hw_rec_maps r;
    if (size < sizeof r)
        return false;
    memcpy(&r, rec, sizeof r);
    f->maps_wanted = true;
    f->maps_pc = r.pc;
    f->quick_until_ns = now_ns + QUICK_NS;
    return true;
}

/* ---- an interpreter's frames ---- */

struct chain {
    struct hw_copy_chain c;
    const uint8_t *ids, *ends;
};

/* From outside: parts must follow each other. */
static bool chain_read(struct hw_bytes in, struct chain *out)
{
    struct hw_copy_chain *c = &out->c;
    if (in.n < sizeof *c)
        return false;
    memcpy(c, in.p, sizeof *c);
    if (c->n_ids > HW_MAX_FRAMES || c->n_parts > HW_MAX_FRAMES ||
        in.n - sizeof *c < (size_t)c->n_ids * 8 + (size_t)c->n_parts * 2)
        return false;
    out->ids = in.p + sizeof *c;
    out->ends = out->ids + (size_t)c->n_ids * 8;
    for (uint32_t i = 0, before = 0; i < c->n_parts; i++) {
        uint32_t end = hw_load_u16(out->ends + (size_t)i * 2);
        if (end < before || end > c->n_ids)
            return false;
        before = end;
    }
    return true;
}

static bool is_eval(const struct hw_copy_chain *c, uint64_t pc)
{
    return pc - 1 - c->eval_lo < c->eval_bytes || pc - 1 - c->cold_lo < c->cold_bytes;
}

/* As hw_chain_end() in the target. An evaluation that a signal's handler interrupted may be halfway between two frames. */
static bool chain_fits(const struct hw_copy_chain *c, const struct hw_walk_out *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_frames; i++) {
        if (!is_eval(c, w->pcs[i]))
            continue;
        if (w->exact[i / 64] >> i % 64 & 1)
            return false;
        n++;
    }
    return hw_stop_is_complete(w->stop) && !c->is_cut ? n == c->n_parts
                                                      : c->is_cut || n <= c->n_parts;
}

static bool add_entry(struct hw_copied_frames *m, uint64_t at, bool exact, bool managed)
{
    if (m->n == HW_MAX_FRAMES)
        return false;
    m->at[m->n] = at;
    m->exact[m->n / 64] |= (uint64_t)exact << m->n % 64;
    m->managed[m->n / 64] |= (uint64_t)managed << m->n % 64;
    m->n++;
    return true;
}

/* Each evaluation is replaced by what it ran; one that ran nothing yet stays. False: deeper than there is room. */
static bool insert(const struct chain *c, const struct hw_walk_out *w, struct hw_copied_frames *m)
{
    memset(m, 0, sizeof *m);
    for (uint32_t i = 0, part = 0, first = 0; i < w->n_frames; i++) {
        uint32_t end = first;
        if (part < c->c.n_parts && is_eval(&c->c, w->pcs[i]))
            end = hw_load_u16(c->ends + (size_t)part++ * 2);
        if (end == first && !add_entry(m, w->pcs[i], w->exact[i / 64] >> i % 64 & 1, false))
            return false;
        for (; first < end; first++)
            if (!add_entry(m, hw_load_u64(c->ids + (size_t)first * 8), false, true))
                return false;
    }
    return true;
}

/* Other ids, or the same at other places: another stack. */
static uint64_t mixed_id(uint64_t native_id, const struct hw_copied_frames *m)
{
    uint64_t h = native_id;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->managed[i / 64] >> i % 64 & 1)
            h = hw_hash_u64(h ^ m->at[i]) + i;
    return h == HW_MAP64_NO_KEY || h == 0 ? 1 : h;
}

static void mix(struct hw_ring_consumer *f, struct hw_bytes rest, struct hw_copied_stack *out)
{
    struct chain c;
    struct hw_copied_frames *m = f->mixed;
    if (!chain_read(rest, &c))
        return;
    if (!chain_fits(&c.c, f->walk)) {
        f->n_unclear++;
        return;
    }
    if (!insert(&c, f->walk, m))
        out->head.stop = (out->head.stop & ~((1u << HW_STACK_STOP_BITS) - 1)) | HW_STOP_LIMIT;
    out->head.n_frames = m->n;
    out->head.stack_id = mixed_id(out->head.stack_id, m);
    size_t words = (m->n + 63) / 64;
    memmove(m->exact + words, m->managed, words * sizeof m->managed[0]); /* side by side */
    out->pcs = m->at;
    out->bits = m->exact;
    out->mixed = true;
}

/* ---- both ---- */

static uint64_t walked_id(const struct hw_walk_out *w)
{
    return w->stack_id == HW_MAP64_NO_KEY || w->stack_id == 0 ? 1 : w->stack_id;
}

enum hw_copy_status hw_ring_consumer_walk(struct hw_ring_consumer *f, const struct hw_rec_copy *c,
                                          struct hw_bytes behind, uint64_t now_ns,
                                          struct hw_copied_stack *out)
{
    struct hw_walk_regs regs;
    if (!walk_buffers(f))
        return HW_COPY_NO_MEMORY;
    if (c->arch != f->arch || !copy_regs(c, behind.p, &regs))
        return HW_COPY_FOREIGN;
    size_t regs_bytes = (size_t)c->n_regs * 8;
    walk_copy(f, c, &regs, behind.p + regs_bytes, now_ns);
    if (copy_stalls(f, c, now_ns))
        return HW_COPY_WAITS;
    const struct hw_walk_out *w = f->walk;
    uint32_t stop = w->stop | (uint32_t)f->walk_generation << HW_STACK_STOP_BITS;
    *out = (struct hw_copied_stack){.head = {.stack_id = walked_id(w),
                                             .n_frames = w->n_frames,
                                             .stop = stop,
                                             .time_ns = c->alloc.time_ns + COARSE_LAG_NS},
                                    .pcs = w->pcs,
                                    .bits = w->exact};
    mix(f, hw_bytes_skip(behind, regs_bytes + c->n_bytes), out);
    return HW_COPY_WALKED;
}
