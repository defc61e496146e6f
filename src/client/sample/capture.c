/*
 * capture.c - one sampled allocation: its stack, its record, its place among the live samples
 *
 * Order (doc/design/client.md): make the real call; claim a slot; write the stack if its id is
 * new; write the event; publish the slot; return to the program. So a free never names an unknown
 * id, and an id is never in the ring before its frames.
 */
#include <errno.h>
#include <string.h>

#include "base/arch.h"
#include "base/bytes.h"
#include "client/client.h"
#include "client/kernel/own_memory.h"
#include "client/kernel/sys.h"
#include "client/ring/mapped_tables.h"
#include "client/ring/push.h"
#include "client/sample/adaptive.h"
#include "client/sample/capture.h"
#include "client/sample/heap_table.h"
#include "client/sample/live_set.h"
#include "client/sample/managed.h"
#include "client/sample/marks.h"
#include "client/sample/minfo.h"
#include "client/sample/new_code.h"
#include "client/sample/probes.h"
#include "client/sample/python.h"
#include "client/sample/sampler.h"
#include "client/sample/stack_walk.h"
#include "client/sample/takes.h"
#include "client/thread/client_guard.h"
#include "client/thread/slabs.h"
#include "client/thread/stack_bounds.h"

#define SECOND_NS       1000000000ull
#define STREAM_STACK_ID 1u
#define FRAMES_BATCH    1000u

/* ---- records ---- */

static bool is_mapping(const struct hw_event *e)
{
    return e->heap_id >= HW_HEAP_ID_ANON;
}

/* The thread's draw may have been made at an older interval than the heap's present one. */
static uint32_t doublings_of(const struct hw_client_session *s, const struct hw_event *e)
{
    uint64_t base = s->base[e->heap_id];
    uint64_t drawn = hw_heaps_drawn_by(e->heap_id) == HW_HEAP_ID_LIBC
                         ? hw_here.interval
                         : atomic_load_explicit(&s->interval[e->heap_id], memory_order_relaxed);
    if (drawn <= base || base == 0 || (e->flags & HW_ALLOC_APP_SAMPLED) != 0)
        return 0;
    return (uint32_t)(__builtin_clzll(base) - __builtin_clzll(drawn));
}

static void fill_alloc(const struct hw_client_session *s, struct hw_rec_alloc *r,
                       const struct hw_event *e, uint64_t stack_id, uint64_t now_ns, uint32_t flags)
{
    r->address = e->id;
    r->alloc_size = e->size;
    r->sample_size = e->weight;
    r->stack_id = stack_id;
    r->time_ns = now_ns;
    r->heap_id = e->heap_id;
    r->flags = flags | doublings_of(s, e) << HW_ALLOC_DOUBLINGS_SHIFT;
}

static uint64_t push_exact(struct hw_client_session *s, const struct hw_event *e, uint64_t stack_id,
                           uint64_t now_ns)
{
    uint64_t pos = hw_push_reserve(s, sizeof(struct hw_rec_exact));
    if (pos == 0)
        return 0;
    struct hw_rec_exact *r = hw_ring_at(&s->ring, pos);
    r->stack_id = stack_id;
    r->time_ns = now_ns;
    r->size_heap = hw_exact_pack(e->size, e->heap_id);
    hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_EXACT);
    return pos;
}

static uint64_t push_alloc(struct hw_client_session *s, const struct hw_event *e, uint64_t stack_id,
                           uint64_t now_ns, uint32_t flags)
{
    uint64_t pos = hw_push_reserve(s, sizeof(struct hw_rec_alloc));
    if (pos == 0)
        return 0;
    fill_alloc(s, hw_ring_at(&s->ring, pos), e, stack_id, now_ns, flags);
    hw_ring_commit(&s->ring, pos, sizeof(struct hw_rec_alloc), HW_REC_ALLOC);
    return pos;
}

/* The frames of an id that the recorder may not know. false = no room. */
static bool push_stack(struct hw_client_session *s, const struct hw_walk_out *o)
{
    uint32_t n = o->n_frames, words = (n + 63) / 64;
    uint32_t size = (uint32_t)sizeof(struct hw_rec_stack) + 8 * (n + words);
    uint64_t pos = hw_push_reserve(s, size);
    if (pos == 0)
        return false;
    struct hw_rec_stack *r = hw_ring_at(&s->ring, pos);
    r->stack_id = o->stack_id;
    r->n_frames = n;
    r->stop = o->stop | (uint32_t)o->generation << HW_STACK_STOP_BITS;
    r->time_ns = hw_client_session_ns(s);
    uint64_t *p = (uint64_t *)(void *)(r + 1);
    memcpy(p, o->pcs, n * 8);
    memcpy(p + n, o->exact, words * 8);
    hw_ring_commit(&s->ring, pos, size, HW_REC_STACK);
    /* Only now: a record that found no room must be tried again. */
    atomic_store_explicit(&s->sent[o->stack_id % HW_SENT_SLOTS], o->stack_id, memory_order_relaxed);
    return true;
}

#define X(name, number, elf, text, n, pc, sp, fp)                                                  \
    enum { N_REGS_##name = (n), PC_##name = (pc), SP_##name = (sp), FP_##name = (fp) };
HW_ARCHS(X)
#undef X
#if defined(__x86_64__)
#define HERE(what) what##_X86_64
#elif defined(__aarch64__)
#define HERE(what) what##_ARM64
#else
#define HERE(what) what##_X86
#endif

/* Python's functions, which the recorder inserts; 0 bytes = there are none. */
static uint32_t chain_bytes(const struct hw_copy_chain *c)
{
    return c->n_ids ? (uint32_t)sizeof *c + c->n_ids * 8 + ((c->n_parts * 2 + 7) & ~7u) : 0;
}

static void put_chain(uint8_t *to, const struct hw_copy_chain *c, const struct hw_chain *p)
{
    memset(to, 0, chain_bytes(c));
    memcpy(to, c, sizeof *c);
    memcpy(to + sizeof *c, p->ids, c->n_ids * sizeof p->ids[0]);
    memcpy(to + sizeof *c + c->n_ids * 8, p->ends, c->n_parts * sizeof p->ends[0]);
}

/* Registers and stack bytes, for the recorder to walk. */
static uint64_t push_copy(struct hw_client_session *s, struct hw_slab *slab,
                          const struct hw_event *e, uint64_t hi, uint32_t reason, uint64_t now_ns,
                          uint32_t flags)
{
    const struct hw_call_site *site = e->site;
    struct hw_copy_chain chain = {0};
    uint64_t n = hi > site->sp ? (hi - site->sp) & ~7ull : 0;
    uint64_t room = (s->ring.mask + 1) / 4 & ~7ull; /* a small ring must hold more than one */
    uint64_t most = room < HW_MAX_COPY_BYTES ? room : HW_MAX_COPY_BYTES;
    if (n > most)
        n = most;
    if (slab && hw_python_is_on() && (s->config.flags & HW_CC_NATIVE_ONLY) == 0 &&
        !hw_python_read_chain(s, &slab->chain, site->sp, site->sp + n, &chain))
        chain.n_ids = 0;
    uint32_t with_bytes = (uint32_t)(sizeof(struct hw_rec_copy) + HERE(N_REGS) * 8u + n);
    uint32_t size = with_bytes + chain_bytes(&chain);
    uint64_t pos = hw_push_reserve(s, size);
    if (pos == 0)
        return 0;
    struct hw_rec_copy *r = hw_ring_at(&s->ring, pos);
    fill_alloc(s, &r->alloc, e, 0, now_ns, flags);
    r->sp = site->sp;
    r->hi = hi;
    r->n_bytes = (uint32_t)n;
    r->n_regs = HERE(N_REGS);
    r->arch = HW_ARCH_HERE;
    r->reason = reason;
    r->closes =
        atomic_load_explicit(&s->ring.shm->closes_begun, memory_order_relaxed) - hw_here.n_closing;
    uint64_t *regs = (uint64_t *)(void *)(r + 1);
    memset(regs, 0, HERE(N_REGS) * 8u); /* the walker needs no others than these three */
    regs[HERE(PC)] = site->pc;
    regs[HERE(SP)] = site->sp;
    regs[HERE(FP)] = site->fp;
    memcpy(regs + HERE(N_REGS), (const void *)(uintptr_t)site->sp, (size_t)n);
    if (chain.n_ids)
        put_chain((uint8_t *)r + with_bytes, &chain, &slab->chain);
    hw_ring_commit(&s->ring, pos, size, HW_REC_ALLOC_COPY);
    hw_count(s, copy_fallback, 1);
    return pos;
}

/* ---- stacks ---- */

static bool is_sent(const struct hw_client_session *s, uint64_t stack_id)
{
    return atomic_load_explicit(&s->sent[stack_id % HW_SENT_SLOTS], memory_order_relaxed) ==
           stack_id;
}

/* In batches: counters shared by all threads would cost more than a short walk. */
static void count_frames(struct hw_client_session *s, struct hw_slab *slab)
{
    slab->n_walked += slab->out.n_frames - slab->out.n_adopted;
    slab->n_adopted += slab->out.n_adopted;
    slab->n_samples++;
    if (slab->n_walked + slab->n_adopted < FRAMES_BATCH)
        return;
    hw_count(s, walked_frames, slab->n_walked);
    hw_count(s, adopted_frames, slab->n_adopted);
    hw_count(s, samples, slab->n_samples);
    slab->n_walked = slab->n_adopted = slab->n_samples = 0;
}

/* A stack as far as it could be walked here; out is the slab's. */
struct capture {
    uint64_t hi;
    bool wants_copy;
};

/* Runtimes, marks and malloc_info ask for the frames themselves. */
static bool wants_frames(const struct hw_client_session *s, const struct hw_event *e)
{
    return atomic_load_explicit(&hw_managed_on, memory_order_relaxed) != 0 || hw_marks_wanted(s) ||
           (s->config.flags & HW_CC_MALLOC_INFO) || is_mapping(e);
}

static bool wants_interpreter(const struct hw_client_session *s)
{
    return hw_interpreter_is_on() && (s->config.flags & HW_CC_NATIVE_ONLY) == 0;
}

enum found { FOUND_NOTHING, FOUND_UNSENT, FOUND };

/* Was the stack walked before? FOUND: the recorder has its frames, and out is without them. FOUND_UNSENT: it has not,
 * so it must be walked, but Python's part is there: asked again, it would be counted twice. */
static enum found find_known(struct hw_client_session *s, struct hw_slab *slab,
                             const struct hw_event *e, const struct hw_stack *b)
{
    const struct hw_call_site *site = e->site;
    const struct hw_walk_regs regs = {.pc = site->pc, .sp = site->sp, .fp = site->fp};
    struct hw_walk_out *o = &slab->out;
    if (hw_unlikely(wants_frames(s, e)) || !b->known || !hw_modules_settled(s) ||
        !hw_walk_known(hw_tables_modules(s), &regs, b->hi, hw_slab_cache(slab), o))
        return FOUND_NOTHING;
    if (hw_unlikely(wants_interpreter(s))) {
        if (!hw_chain_knows(&slab->chain, s->generation, o->stack_id))
            return FOUND_NOTHING;
        slab->is_mixed = hw_managed_mix_interpreter(s, o, &slab->chain, &slab->mixed);
    }
    return is_sent(s, slab->is_mixed ? slab->mixed.stack_id : o->stack_id) ? FOUND : FOUND_UNSENT;
}

/* With what runtimes insert into the walked stack. */
static void mix(struct hw_client_session *s, struct hw_slab *slab, const struct hw_event *e)
{
    slab->is_mixed = false;
    if (hw_unlikely(atomic_load_explicit(&hw_managed_on, memory_order_acquire) != 0 ||
                    hw_interpreter_is_on()) &&
        (s->config.flags & HW_CC_NATIVE_ONLY) == 0)
        slab->is_mixed = hw_managed_mix(s, e->site, &slab->out, &slab->chain, &slab->mixed);
}

static struct capture capture(struct hw_client_session *s, struct hw_slab *slab,
                              const struct hw_event *e, uint64_t now_ns)
{
    struct hw_walk_out *o = &slab->out;
    slab->is_mixed = slab->is_known = false;
    if (hw_unlikely(hw_marks_only(s))) {
        slab->sure = false;
        o->n_frames = 0;
        o->generation = 0;
        slab->is_mixed = hw_managed_mark(s, o, slab, &slab->mixed);
        return (struct capture){0, false};
    }
    struct hw_stack b = hw_stack_of(slab, e->site->sp);
    enum found found = find_known(s, slab, e, &b);
    uint64_t found_id = o->stack_id;
    if (found == FOUND) {
        slab->sure = slab->is_known = true;
        count_frames(s, slab);
        return (struct capture){b.hi, false};
    }
    if (hw_tables_modules(s)) {
        slab->sure = hw_stack_walk(s, slab, e->site, &b, now_ns);
        if (hw_unlikely(!slab->sure))
            (void)hw_stack_extend(&b, e->site->sp, HW_MAX_COPY_BYTES, HW_MAX_COPY_BYTES);
        count_frames(s, slab);
        if (found != FOUND_UNSENT || !slab->sure || o->stack_id != found_id)
            mix(s, slab, e);
        if (hw_unlikely(hw_marks_wanted(s)))
            slab->is_mixed = hw_managed_mark(s, o, slab, &slab->mixed);
        uint32_t stop = slab->is_mixed ? slab->mixed.stop : o->stop;
        return (struct capture){b.hi, !slab->sure || hw_stop_wants_copy(stop)};
    }
    hw_push_maps(s, e->site->pc, now_ns);
    slab->sure = slab->is_mixed = false;
    o->n_frames = 1;
    o->generation = 0;
    o->stop = HW_STOP_NO_MODULE;
    o->exact[0] = 0;
    o->pcs[0] = e->site->pc;
    o->stack_id = e->site->pc | 1ull << 63;
    return (struct capture){b.hi, true};
}

/* An allocation that stands for itself, and takes no more than its size tells. */
static bool is_exact(const struct hw_client_session *s, const struct hw_event *e, uint32_t flags)
{
    uint32_t plain = s->config.flags & HW_CC_CHUNKS ? 1 : 0, takes = hw_alloc_takes(flags);
    return e->weight == e->size && e->size <= HW_EXACT_MAX_SIZE && !is_mapping(e) &&
           (s->config.flags & HW_CC_ADDRESSES) == 0 && (takes == 0 || takes == plain);
}

static uint64_t push_captured(struct hw_client_session *s, struct hw_slab *slab,
                              const struct hw_event *e, const struct capture *c, uint64_t now_ns)
{
    const struct hw_walk_out *o = &slab->out;
    struct hw_mixed_stack *m = &slab->mixed;
    bool mixed = slab->is_mixed;
    uint64_t id = mixed ? m->stack_id : o->stack_id;
    uint32_t stop = mixed ? m->stop : o->stop, flags = hw_takes_flags(s, e);
    if (c->wants_copy) {
        if (hw_copy_allowed(s, slab, c->hi - e->site->sp, now_ns)) {
            if (hw_unlikely(atomic_load_explicit(&hw_managed_on, memory_order_relaxed)))
                hw_managed_count(s, m, /* copied = */ true);
            return push_copy(s, slab, e, c->hi, o->stop, now_ns, flags);
        }
        hw_count(s, copy_limited, 1);
    }
    if (hw_unlikely(atomic_load_explicit(&hw_managed_on, memory_order_relaxed)))
        hw_managed_count(s, m, /* copied = */ false);
    if (!hw_stop_is_complete(stop))
        flags |= HW_ALLOC_TRUNCATED;
    if (stop == HW_STOP_LIMIT)
        hw_count(s, truncated, 1);
    if (!slab->is_known && !is_sent(s, id)) {
        if (mixed && !m->is_built)
            hw_managed_build(o, &slab->chain, m);
        if (!(mixed ? hw_push_mixed_stack(s, m) : push_stack(s, o)))
            return 0;
    }
    if (is_exact(s, e, flags))
        return push_exact(s, e, id, now_ns);
    return push_alloc(s, e, id, now_ns, flags);
}

/* stream_allocations asks for no stacks: all samples share one without frames. */
static uint64_t push_stream(struct hw_client_session *s, const struct hw_event *e, uint64_t now_ns)
{
    if (atomic_load_explicit(&s->sent[STREAM_STACK_ID], memory_order_relaxed) != STREAM_STACK_ID) {
        uint64_t pos = hw_push_reserve(s, sizeof(struct hw_rec_stack));
        if (pos == 0)
            return 0;
        struct hw_rec_stack *r = hw_ring_at(&s->ring, pos);
        r->stack_id = STREAM_STACK_ID;
        r->n_frames = 0;
        r->stop = HW_STOP_END;
        r->time_ns = now_ns;
        hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_STACK);
        atomic_store_explicit(&s->sent[STREAM_STACK_ID], STREAM_STACK_ID, memory_order_relaxed);
    }
    return push_alloc(s, e, STREAM_STACK_ID, now_ns, hw_takes_flags(s, e));
}

/* ---- one sample ---- */

static void free_missed(struct hw_client_session *s, const struct hw_event *e)
{
    uint64_t val;
    struct hw_live_set_slot *old = hw_live_set_take(e->heap_id, e->id, &val);
    if (!old)
        return;
    if (val >> 48 == s->tag) {
        hw_count(s, missed_free, 1);
        hw_push_free(s, val & 0xffffffffffffu);
    }
    hw_live_set_drop(old, e->id);
}

/* What was mapped or unmapped since the last record, mostly for this one. */
static void show_own_memory(struct hw_client_session *s)
{
    if (hw_unlikely(!hw_own_memory_is_shown(&s->own_shown)))
        hw_own_memory_show(s->ring.shm, &s->own_shown);
}

static bool record_with(struct hw_client_session *s, struct hw_slab *slab, const struct hw_event *e)
{
    struct hw_tls *t = &hw_here;
    uint64_t now_ns = hw_local_coarse_ns();
    if (hw_push_recorder_gone(s, now_ns))
        return false;
    now_ns += s->ahead_ns;
    /* The walk goes first: meanwhile the slot's cache line arrives. */
    hw_live_set_prefetch(e->heap_id, e->id, e->size);
    bool stream = s->config.flags & HW_CC_STREAM;
    struct capture c = {0};
    if (hw_unlikely(hw_python_is_on()))
        hw_python_sampled(slab ? &slab->chain : NULL);
    if (slab)
        c = capture(s, slab, e, now_ns);
    if (hw_live_set_maybe(e->id))
        free_missed(s, e);
    struct hw_live_set_slot *slot = hw_live_set_claim(e->heap_id, e->id, e->size);
    if (!slot) {
        hw_count(s, lost_no_slot, 1);
        return false;
    }
    uint64_t pos;
    if (stream) {
        pos = push_stream(s, e, now_ns);
    } else if (slab) {
        pos = push_captured(s, slab, e, &c, now_ns);
        if (hw_unlikely(slab->is_unsettled))
            hw_note_unsettled(s, slab);
    } else {
        hw_count(s, no_slab, 1);
        pos = push_copy(s, NULL, e, (e->site->sp | 4095) + 1, HW_STOP_BOUNDS, now_ns,
                        hw_takes_flags(s, e));
    }
    if (pos == 0) {
        hw_live_set_unclaim(slot);
        hw_count(s, lost_full, 1);
        return false;
    }
    hw_live_set_publish(slot, e->heap_id, e->id, hw_live_set_val(s->tag, pos));
    if (!slab)
        hw_count(s, samples, 1);
    if (hw_unlikely(s->config.adaptive_threshold_bytes != 0))
        hw_adapt_interval(s, e->heap_id);
    if (hw_unlikely(s->config.max_samples_per_second != 0))
        hw_adapt_to_rate(s, e->heap_id, now_ns);
    uint32_t wanted = atomic_load_explicit(&hw_control.doublings, memory_order_relaxed);
    if (hw_unlikely(wanted != atomic_load_explicit(&s->doublings, memory_order_relaxed)))
        hw_adapt_to_recorder(s, wanted);
    show_own_memory(s);
    if (t->interval != 0 && t->generation == s->generation &&
        t->interval != atomic_load_explicit(&s->interval[HW_HEAP_ID_LIBC], memory_order_relaxed))
        hw_sampler_start(t, s);
    return true;
}

/* *minfo: the session on whose behalf the caller must ask the allocator, once it has left. */
static bool record(struct hw_client_session *s, const struct hw_event *e, uint32_t *minfo)
{
    if (s->config.flags & HW_CC_STREAM)
        return record_with(s, NULL, e);
    if (hw_likely((hw_here.flags & HW_TLS_BORROWS) == 0)) {
        struct hw_slab *slab = hw_here.slab;
        bool recorded = record_with(s, slab, e);
        if (hw_unlikely(s->config.flags & HW_CC_MALLOC_INFO) && recorded && slab && slab->sure &&
            e->heap_id == HW_HEAP_ID_LIBC && hw_minfo_due(s, &slab->out))
            *minfo = s->generation;
        return recorded;
    }
    struct hw_slab *borrowed = hw_slab_borrow();
    bool ok = record_with(s, borrowed, e);
    hw_slab_return(borrowed);
    return ok;
}

/* ---- one mapping: always recorded, and found by its address ---- */

#define WALKS_PER_SECOND 50000u

/* Stacks may be deep. A program that maps more than this is recorded without them: the bytes are
 * right all the same. */
static bool may_walk(struct hw_client_session *s, uint64_t now_ns)
{
    uint64_t since = atomic_load_explicit(&s->maps_since_ns, memory_order_relaxed);
    if (now_ns - since >= SECOND_NS &&
        atomic_compare_exchange_strong(&s->maps_since_ns, &since, now_ns))
        atomic_store_explicit(&s->n_maps, 0, memory_order_relaxed);
    return atomic_fetch_add_explicit(&s->n_maps, 1, memory_order_relaxed) < WALKS_PER_SECOND;
}

struct hw_walk_range hw_allocator_code;
bool hw_allocator_is_libc;

static bool is_below_allocator(const struct hw_walk_out *o)
{
    const struct hw_walk_range *a = &hw_allocator_code;
    for (uint32_t i = 0; a->lo && i < o->n_frames; i++)
        if (o->pcs[i] - a->lo < a->hi - a->lo)
            return true;
    return false;
}

static void record_mapping(struct hw_client_session *s, const struct hw_event *e, bool walks)
{
    uint64_t now_ns = hw_local_coarse_ns();
    if (hw_push_recorder_gone(s, now_ns))
        return;
    walks = walks && hw_stack_has_room(e->site->sp) && may_walk(s, now_ns);
    now_ns += s->ahead_ns;
    bool borrows = walks && (hw_here.flags & HW_TLS_BORROWS);
    struct hw_slab *slab = borrows ? hw_slab_borrow() : walks ? hw_here.slab : NULL;
    uint64_t pos;
    if (slab) {
        struct capture c = capture(s, slab, e, now_ns);
        bool is_its_own = !is_below_allocator(&slab->out);
        pos = is_its_own ? push_captured(s, slab, e, &c, now_ns) : UINT64_MAX;
    } else {
        pos = push_alloc(s, e, HW_STACK_ID_NOT_WALKED, now_ns, e->flags);
    }
    if (borrows)
        hw_slab_return(slab);
    if (pos == 0)
        hw_count(s, lost_full, 1);
    show_own_memory(s);
}

void hw_record_mapping(const struct hw_event *e)
{
    int saved = errno;
    struct hw_client_guard v;
    hw_enter(&v);
    bool ours = hw_here.flags & (HW_TLS_OURS | HW_TLS_SUPPRESSED);
    if (v.session && (v.session->config.flags & HW_CC_MAPPINGS) && !ours)
        record_mapping(v.session, e, /* walks = */ !v.nested);
    hw_leave(&v);
    errno = saved;
}

/* Python's objects may be counted on behalf of an earlier session. */
static bool is_wanted(const struct hw_client_session *s, const struct hw_event *e)
{
    return e->heap_id == HW_HEAP_ID_LIBC ||
           atomic_load_explicit(&s->interval[e->heap_id], memory_order_relaxed) != 0;
}

bool hw_record_alloc(const struct hw_event *e)
{
    int saved = errno;
    struct hw_client_guard v;
    bool ok = false;
    uint32_t minfo = 0;
    hw_enter(&v);
    if (v.session) {
        bool ours = hw_here.flags & (HW_TLS_OURS | HW_TLS_SUPPRESSED);
        ours |= !is_wanted(v.session, e);
        if (hw_likely(!v.nested && !ours))
            ok = record(v.session, e, &minfo);
        else if (!ours)
            hw_count(v.session, lost_nested, 1);
    } else if (!v.nested && hw_probes_count(e))
        ok = hw_probes_remember(e);
    hw_leave(&v);
    if (ok && hw_probes_want_alloc() && e->heap_id == HW_HEAP_ID_LIBC) {
        /* Makes the compiler keep a frame here: readers of probes may walk by frame pointers. */
        __asm__ volatile("" : : "r"(__builtin_frame_address(0)));
        hw_probes_alloc(e);
    }
    if (hw_unlikely(minfo != 0))
        hw_minfo_make(minfo);
    errno = saved;
    return ok;
}

void hw_report_free(uint32_t heap_id, uint64_t id)
{
    uint64_t val;
    int saved = errno;
    if (heap_id == HW_HEAP_ID_LIBC) /* what the real free will touch; meanwhile we wait for ours */
        hw_prefetch_write((const void *)(uintptr_t)(id - 8));
    hw_live_set_prefetch_take(heap_id, id);
    struct hw_client_guard v;
    hw_enter(&v);
    struct hw_live_set_slot *slot = hw_live_set_take(heap_id, id, &val);
    if (slot && v.session && val >> 48 == v.session->tag)
        hw_push_free(v.session, val & 0xffffffffffffu);
    if (slot)
        hw_live_set_drop(slot, id);
    hw_leave(&v);
    if (slot && hw_probes_want_free() && heap_id == HW_HEAP_ID_LIBC)
        hw_probes_free(id);
    errno = saved;
}
