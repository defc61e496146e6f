/*
 * walk.c - the stepping loop and the rule cache
 *
 * The chain that bounds the speed of a full walk is
 *     ret -> multiply -> cache entry -> CFA offset -> load of the next return address -> ret
 * (17 cycles with everything in the first-level cache). All else - bounds, fp, hash, output - hangs
 * off that chain and runs in its shadow, so it may cost instructions but no mispredicted branch:
 * the base register of the CFA and the restored fp are selected, not branched on.
 *
 * The hash of a stack is the polynomial sum over depth i of K^i * mix(ret_i): it can be taken leaf
 * first while stepping, or be put in front of a known tail's hash.
 */
#include "unwind/walk.h"

#include "base/bytes.h"
#include "unwind/regs.h"
#include "unwind/walk_known.h"
#include "unwind/walk_reuse.h"
#include "unwind/walk_state.h"
#include "unwind/walk_step.h"

#if defined(HW_UNWIND_X86)
#define WALK hw_walk_x86
#else
#define WALK hw_walk
#endif

enum {
    WINDOW_SAMPLES = 256, /* of the adaptive switch */
    SKIP_SAMPLES = 1024
};

static inline uint64_t finish_id(uint64_t hash, uint32_t generation, uint32_t stop)
{
    hash ^= ((uint64_t)generation << 8 | stop) * HASH_ADDR;
    hash = (hash ^ hash >> 32) * HASH_MIX;
    hash = (hash ^ hash >> 29) * HASH_ADDR;
    hash ^= hash >> 32;
    return hash ? hash : 1;
}

/* ---- the loop ---- */

/* Reached by its caller's record, where sp is only a lower bound: its own step depends on that. */
static inline bool is_by_fp(const struct state *s)
{
    return HW_REGS_HAVE_LR && s->fp_only;
}

/*
 * One function, three copies: with the previous frames, with the rule cache only, with nothing.
 * Gives why the walk ended; *hash is set unless `match`. What the chain above needs lives in
 * locals and is written to *s only for the rare steps: through memory each frame would cost a
 * store-to-load forward.
 */
static __attribute__((always_inline)) inline int
walk_loop(struct walker *w, struct state *s, uint64_t *hash, const bool match, const bool cached)
{
    struct hw_walk_out *out = w->out;
    const uint64_t delta = w->in->delta, gen_key = w->gen_key;
    struct rule_slot *rules = cached ? w->c->rules : NULL;
    const struct frame *old = match ? &w->c->old[w->at] : NULL;
    uint64_t ret = s->ret, sp = s->sp, fp = s->fp, hi = s->hi;
    uint64_t power = 1, sum = 0;
    uint32_t n = w->n, max = w->max;
    bool exact = s->exact;
    int stop;
    for (;;) {
        if (match) {
            while (old->sp < sp)
                old++;
            if (old->sp == sp && old->ret == ret && old->fp == fp && !exact && !is_by_fp(s)) {
                w->at = (uint32_t)(old - w->c->old);
                w->n = n;
                if (adopt(w, s)) {
                    ret = s->ret;
                    sp = s->sp;
                    fp = s->fp;
                    n = w->n;
                }
                old = &w->c->old[w->at];
            }
        } else {
            sum += power * mix(ret, exact);
            power *= HASH_CHAIN;
        }

        uint64_t raw;
        if (cached) {
            struct rule_slot *slot = &rules[(ret * HASH_ADDR) >> (64 - RULE_BITS)];
            raw = slot->rule;
            if (hw_unlikely(slot->key != ((ret - 1) | gen_key)))
                raw = rule_miss(w, slot, ret);
        } else {
            raw = rule_miss(w, NULL, ret);
        }

        uint64_t room = hi - sp; /* never wraps: sp <= hi always */
        uint64_t cfa = (raw & 2 ? fp : sp) + WORD * (raw >> 48);
        uint64_t ra_slot = cfa + WORD * (uint64_t)(HW_REGS_HAVE_LR ? (int16_t)(raw >> 32) : -1);
        uint64_t fp_slot = cfa + WORD * (uint64_t)(int16_t)(raw >> 16);
        bool plain = rule_is_plain(raw) & (cfa - sp - 1 < room) & !(cfa % HW_REGS_CFA_ALIGN);
        if (HW_REGS_HAVE_LR)
            plain &= (room >= 8) & (ra_slot - sp <= room - 8) & !(ra_slot % 8) & !s->fp_only;
        if (hw_likely(plain)) {
            ret = hw_regs_strip(load(ra_slot + delta));
            /* Loads something valid in any case; room >= WORD as an aligned CFA is in (sp, hi]. */
            bool loads_fp = (raw >> 8 & 1) & (fp_slot - sp <= room - WORD);
            uint64_t loaded = load((loads_fp ? fp_slot : ra_slot) + delta);
            fp = loads_fp ? loaded : fp;
            sp = cfa;
            exact = false;
            ra_slot += delta;
            fp_slot = loads_fp ? fp_slot + delta : 0;
            if (HW_REGS_HAVE_LR)
                s->has_lr = false;
            stop = ret ? GO_ON : HW_STOP_ZERO;
        } else {
            s->ret = ret;
            s->sp = sp;
            s->fp = fp;
            s->exact = exact;
            stop = step_any(w, s, raw);
            ret = s->ret;
            sp = s->sp;
            fp = s->fp;
            hi = s->hi;
            exact = s->exact;
            ra_slot = s->ra_slot;
            fp_slot = s->fp_slot;
        }
        if (hw_unlikely(stop != GO_ON))
            break;
        if (hw_unlikely(n >= max)) {
            stop = HW_STOP_LIMIT;
            break;
        }
        out->pcs[n] = ret;
        if (hw_unlikely(exact)) {
            out->pcs[n] = ret - 1;
            out->exact[n / 64] |= 1ull << n % 64;
        }
        n++;
        if (match) {
            if (hw_unlikely(w->tail < HW_MAX_FRAMES))
                keep_no_tail(w);
            push_fresh(w, sp | exact | (is_by_fp(s) ? FRAME_BY_FP : 0), ret, fp, fp_slot, ra_slot);
            if (hw_unlikely(s->moved))
                old = &w->c->old[HW_MAX_FRAMES]; /* the sentinel: other stacks are not in order */
        }
    }
    s->ret = ret;
    s->exact = exact;
    w->n = n;
    *hash = sum;
    return stop;
}

static __attribute__((noinline)) int walk_matching(struct walker *w, struct state *s,
                                                   uint64_t *hash)
{
    struct hw_walk_cache *c = w->c;
    if (c->snapshot != w->in->snapshot || c->hi != s->hi) {
        c->top = HW_MAX_FRAMES;
        c->snapshot = w->in->snapshot;
        c->hi = s->hi;
    }
    w->at = c->top;
    push_fresh(w, s->sp | s->exact, s->ret, s->fp, 0, 0);
    int stop = walk_loop(w, s, hash, /* match = */ true, /* cached = */ true);
    *hash = remember(w, /* usable = */ !s->moved);
    w->is_kept = !s->moved;

    c->n_frames += w->n;
    c->n_adopted += w->out->n_adopted;
    if (++c->n_samples == WINDOW_SAMPLES) {
        /* Stacks that never repeat would pay for matching without a benefit. */
        if (c->n_adopted * 10ull < c->n_frames * 3ull)
            c->n_skip = SKIP_SAMPLES;
        c->n_samples = c->n_frames = c->n_adopted = 0;
    }
    return stop;
}

static __attribute__((noinline)) int walk_cached(struct walker *w, struct state *s, uint64_t *hash)
{
    return walk_loop(w, s, hash, /* match = */ false, /* cached = */ true);
}

static __attribute__((noinline)) int walk_bare(struct walker *w, struct state *s, uint64_t *hash)
{
    return walk_loop(w, s, hash, /* match = */ false, /* cached = */ false);
}

static void cache_prepare(struct hw_walk_cache *c)
{
    c->top = HW_MAX_FRAMES;
    c->old[HW_MAX_FRAMES].sp = ~0ull;
    c->ready = 1;
}

static void forget_rules(struct hw_walk_cache *c)
{
    for (size_t i = 0; i < RULE_SLOTS; i++)
        c->rules[i] = (struct rule_slot){0};
}

static int walk_steps(struct walker *w, struct state *s, uint64_t *hash)
{
    struct hw_walk_cache *c = w->c;
    *hash = mix(s->ret, s->exact);
    if (!HW_REGS_SUPPORTED)
        return HW_STOP_UNSUP;
    if (!w->in->snapshot)
        return HW_STOP_PENDING;
    if (s->sp % WORD)
        return HW_STOP_BAD_CFA;
    if (s->sp > s->hi)
        return HW_STOP_BOUNDS;
    if (!c)
        return walk_bare(w, s, hash);
    if (!c->ready)
        cache_prepare(c);
    uint32_t generation = w->in->snapshot->generation;
    if (hw_unlikely(c->generation != generation)) {
        /* Keys hold 16 bits; a program that loads and unloads for ever wraps around to old ones. */
        if (c->generation >> 16 != generation >> 16)
            forget_rules(c);
        c->top = HW_MAX_FRAMES;
        c->generation = generation;
    }
    if (w->in->delta) /* a copy: its slots are gone with it */
        return walk_cached(w, s, hash);
    if (c->n_skip) {
        c->n_skip--;
        return walk_cached(w, s, hash);
    }
    return walk_matching(w, s, hash);
}

void WALK(const struct hw_walk_in *in, struct hw_walk_cache *cache, struct hw_walk_out *out)
{
    uint32_t generation = in->snapshot ? in->snapshot->generation : 0;
    struct state s = {.ret = hw_regs_strip(in->regs.pc) + in->first_is_exact,
                      .sp = in->regs.sp,
                      .fp = in->regs.fp,
                      .lr = in->regs.lr,
                      .hi = in->hi & ~(WORD - 1),
                      .exact = in->first_is_exact,
                      .has_lr = true};
    struct walker w = {.in = in,
                       .c = cache,
                       .out = out,
                       .gen_key = (uint64_t)generation << 48,
                       .max = in->max_frames < HW_MAX_FRAMES ? in->max_frames : HW_MAX_FRAMES,
                       .n = 1,
                       .tail = HW_MAX_FRAMES};
    if (!w.max)
        w.max = 1;
    for (size_t i = 0; i < HW_ARRAY_LEN(out->exact); i++)
        out->exact[i] = 0;
    out->exact[0] = in->first_is_exact;
    out->pcs[0] = s.ret - in->first_is_exact;
    out->n_adopted = 0;
    out->n_by_fp = 0;

    uint64_t hash;
    int stop = walk_steps(&w, &s, &hash);
    out->n_frames = w.n;
    out->stop = (uint32_t)stop;
    out->stop_pc = s.exact ? s.ret - 1 : s.ret;
    out->generation = (uint16_t)generation;
    out->stack_id = finish_id(hash, generation, (uint32_t)stop);
    if (cache && cache->known_next)
        known_remember(&w);
}

#if !defined(HW_UNWIND_X86) /* once is enough */

bool hw_walk_known(const struct hw_module_snapshot *snapshot, const struct hw_walk_regs *regs,
                   uint64_t hi, struct hw_walk_cache *cache, struct hw_walk_out *out)
{
    const struct known_stack *e = snapshot ? known_find(snapshot, regs, hi, cache) : NULL;
    if (!e)
        return false;
    cache->known_hits++;
    out->n_frames = out->n_adopted = e->n_frames;
    out->n_by_fp = 0;
    out->stop = HW_STOP_END;
    out->stop_pc = 0;
    out->generation = (uint16_t)e->generation;
    out->stack_id = e->id;
    return true;
}

size_t hw_walk_cache_bytes(void)
{
    return sizeof(struct hw_walk_cache);
}

void hw_walk_cache_reset(struct hw_walk_cache *c)
{
    forget_rules(c);
    cache_prepare(c);
    c->snapshot = NULL;
    c->known_epoch++;
    c->known_next = NULL;
    c->known_tries = c->known_hits = c->known_skip = c->known_pause = 0;
    c->n_samples = c->n_frames = c->n_adopted = c->n_skip = 0;
}

#endif
