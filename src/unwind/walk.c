/*
 * walk.c - the stepping loop, the rule cache and the reuse of the previous sample's frames
 *
 * The chain that bounds the speed of a full walk is
 *     ret -> multiply -> cache entry -> CFA offset -> load of the next return address -> ret
 * (17 cycles with everything in the first-level cache). All else - bounds, fp, hash, output - hangs
 * off that chain and runs in its shadow, so it may cost instructions but no mispredicted branch:
 * the base register of the CFA and the restored fp are selected, not branched on.
 *
 * A frame is known by `ret`: its lookup address + 1. For a return address that is the address
 * itself; for an interrupted instruction (exact) it is one more.
 *
 * Incremental walks. The cache keeps the frames of the previous sample, root last, aligned to the
 * end of `old`, so that newer samples grow at the front and the shared tail never moves:
 *
 *     old:   [ unused ............ | leaf' ... i ........ root ] sentinel
 *     fresh: [ leaf ... current )                   current == old[i]: the tail is taken as it is
 *
 * Frame k of `old` was reached by loading ret from ra_slot and fp from fp_slot. Its successor
 * depends on (ret, sp, fp), the tables, and what the successor's two slots hold; so once the
 * current frame equals old[i], comparing the slots of i+1, i+2, ... proves them all. An fp that was
 * not loaded has the frame's own field as fp_slot. A frame reached in another way (a second
 * dereference, a saved context, the link register) has ra_slot = &never, which holds no return
 * address, and is stepped again. The last frame is always stepped again, so why the walk ended is
 * never taken from the cache.
 *
 * The hash of a stack is the polynomial sum over depth i of K^i * mix(ret_i): it can be taken leaf
 * first while stepping, or be put in front of a known tail's hash.
 */
#include "unwind/walk.h"

#include "base/bytes.h"
#include "unwind/regs.h"

#define WORD ((uint64_t)HW_REGS_WORD)
#if defined(HW_UNWIND_X86)
#define WALK hw_walk_x86
#else
#define WALK hw_walk
#endif

enum {
    RULE_BITS = 12,
    RULE_SLOTS = 1 << RULE_BITS,
    MAX_SIGNALS = 4,
    WINDOW_SAMPLES = 256, /* of the adaptive switch */
    SKIP_SAMPLES = 1024,
    /* Kinds that exist only between lookup and step. */
    KIND_PENDING = 0xf0,
    KIND_NEW_MODULE = 0xf1,
    GO_ON = -1
};

#define HASH_ADDR  0x9e3779b97f4a7c15u
#define HASH_MIX   0xd6e8feb86659fd93u
#define HASH_CHAIN 0xa0761d6478bd642fu /* = 3 mod 4 */

/* The raw rule of a NONE that holds only for one snapshot: fp_kind 1, tag in the upper half. */
#define NONE_TAGGED 0x100u

struct rule_slot {
    uint64_t key; /* lookup address | generation << 48 */
    uint64_t rule;
};

struct frame {
    uint64_t sp; /* | 1: ret is exact, so the frame equals no current one */
    uint64_t ret;
    uint64_t fp;
    uint64_t fp_slot, ra_slot;
    uint64_t hash; /* of this frame to the root */
};

struct hw_walk_cache {
    struct rule_slot rules[RULE_SLOTS];
    const struct hw_module_snapshot *snapshot; /* the frames below were found with */
    uint64_t hi;
    uint64_t never; /* stays 0: no return address */
    uint32_t top;   /* first frame of old in use */
    uint32_t ready;
    uint32_t generation;                             /* of the last walk */
    uint32_t n_samples, n_frames, n_adopted, n_skip; /* the adaptive switch */
    struct frame old[HW_MAX_FRAMES + 1];
    struct frame fresh[HW_MAX_FRAMES];
};

/* One frame and how it was reached. */
struct state {
    uint64_t ret, sp, fp;
    uint64_t lr, hi;
    uint64_t ra_slot, fp_slot; /* readable addresses; 0 = fp as before / not to be adopted */
    uint32_t n_signals;
    bool exact, has_lr, moved, fp_only;
};

struct walker {
    const struct hw_walk_in *in;
    struct hw_walk_cache *c;
    struct hw_walk_out *out;
    uint64_t gen_key;
    uint32_t max;
    uint32_t n;       /* frames in out */
    uint32_t n_fresh; /* of them in c->fresh; the last is the current one */
    uint32_t at;      /* cursor in c->old */
    uint32_t tail;    /* frames old[tail..] end the stack; HW_MAX_FRAMES = none */
};

/* A copy may lie at any address; all architectures load it with the same instruction. */
typedef hw_regs_word word_alias __attribute__((may_alias, aligned(1)));

/* Stacks are read as they are: redzones of an instrumented target are no errors of ours. */
#if defined(__SANITIZE_ADDRESS__)
#define LOADS_AS_IS __attribute__((no_sanitize("address"), noinline))
#else
#define LOADS_AS_IS __attribute__((always_inline)) inline
#endif
LOADS_AS_IS static uint64_t load(uint64_t readable)
{
    return *(const word_alias *)(uintptr_t)readable;
}

static inline uint64_t mix(uint64_t ret, bool exact)
{
    uint64_t p = ret * HASH_ADDR;
    return ((p ^ p >> 32) + exact) * HASH_MIX;
}

static inline uint64_t finish_id(uint64_t hash, uint32_t generation, uint32_t stop)
{
    hash ^= ((uint64_t)generation << 8 | stop) * HASH_ADDR;
    hash = (hash ^ hash >> 32) * HASH_MIX;
    hash = (hash ^ hash >> 29) * HASH_ADDR;
    hash ^= hash >> 32;
    return hash ? hash : 1;
}

/* ---- rules ---- */

static inline uint64_t rule_raw(struct hw_rule r)
{
    return (uint64_t)r.kind | (uint64_t)r.fp_kind << 8 | (uint64_t)(uint16_t)r.fp_off << 16 |
           (uint64_t)(uint16_t)r.ra_off << 32 | (uint64_t)r.cfa_off << 48;
}

/* CFA from sp or fp, fp kept or at the CFA: nearly every rule. */
static inline bool rule_is_plain(uint64_t raw)
{
    bool in_lr = HW_REGS_HAVE_LR && !(raw & 0xffff00000000u);
    return !(((raw & 0xffff) - 1) & ~0x0101ull) && !in_lr;
}

static uint64_t none_tagged(const struct hw_module_snapshot *s)
{
    return NONE_TAGGED | (uint64_t)(uint32_t)((uintptr_t)s >> 3) << 32;
}

static uint64_t rule_find(const struct walker *w, uint64_t va_pc)
{
    const struct hw_walk_in *in = w->in;
    const struct hw_module *m = hw_module_find(in->snapshot, va_pc);
    if (!m) {
        if (in->is_new_module && in->is_new_module(in->is_new_module_arg, va_pc))
            return KIND_NEW_MODULE;
        return none_tagged(in->snapshot);
    }
    if (m->flags & HW_MODULE_PENDING)
        return KIND_PENDING;
    if (!m->table_off || m->flags & HW_MODULE_NO_TABLE)
        return none_tagged(in->snapshot);
    const struct hw_table_header *t =
        (const struct hw_table_header *)(const void *)((const char *)in->tables + m->table_off);
    if (in->tables_bytes &&
        (m->table_off >= in->tables_bytes || in->tables_bytes - m->table_off < sizeof *t ||
         in->tables_bytes - m->table_off < t->total_bytes))
        return HW_RULE_UNSUP;
    struct hw_rule r = hw_table_lookup(t, va_pc - m->bias);
    return r.kind == HW_RULE_NONE ? HW_RULE_NONE : rule_raw(r);
}

/*
 * Fills the slot. The key is void while the two words disagree: a handler may leave us here by
 * siglongjmp.
 */
static __attribute__((noinline)) uint64_t rule_miss(const struct walker *w, struct rule_slot *slot,
                                                    uint64_t ret)
{
    uint64_t raw = rule_find(w, ret - 1);
    if (slot && raw != KIND_PENDING && raw != KIND_NEW_MODULE) {
        slot->key = ~0ull;
        atomic_signal_fence(memory_order_seq_cst);
        slot->rule = raw;
        atomic_signal_fence(memory_order_seq_cst);
        slot->key = (ret - 1) | w->gen_key;
    }
    return raw;
}

/* ---- one step, any rule ---- */

static inline bool slot_ok(const struct state *s, uint64_t a)
{
    return s->hi - s->sp >= WORD && a >= s->sp && a <= s->hi - WORD && a % WORD == 0;
}

static bool load_checked(const struct walker *w, const struct state *s, uint64_t a, uint64_t *out)
{
    if (!slot_ok(s, a))
        return false;
    *out = load(a + w->in->delta);
    return true;
}

/* The frame record at fp. Plausible = on this stack, above sp, with a return address. */
static int step_by_fp(struct walker *w, struct state *s)
{
    uint64_t fp, ra;
    if (!load_checked(w, s, s->fp, &fp) || !load_checked(w, s, s->fp + WORD, &ra))
        return HW_STOP_FP_LOST;
    ra = hw_regs_strip(ra);
    if (ra && (ra < 4096 || ra >> 48))
        return HW_STOP_FP_LOST;
    s->ra_slot = s->fp + WORD + w->in->delta;
    s->fp_slot = s->fp + w->in->delta;
    s->sp = s->fp + 2 * WORD;
    s->fp = fp;
    s->ret = ra;
    s->exact = s->has_lr = false;
    /* A record may lie anywhere in its frame where the call does not push: sp is a lower bound. */
    s->fp_only = HW_REGS_HAVE_LR;
    w->out->n_by_fp++;
    return ra ? GO_ON : HW_STOP_ZERO;
}

static int step_signal(struct walker *w, struct state *s, struct hw_rule r)
{
    uint64_t pc, sp, fp, lr;
    (void)r; /* where every frame is laid out alike */
    if (++s->n_signals > MAX_SIGNALS)
        return HW_STOP_SIGNALS;
    if (!load_checked(w, s, s->sp + HW_SIGNAL_PC(r), &pc) ||
        !load_checked(w, s, s->sp + HW_SIGNAL_SP(r), &sp) ||
        !load_checked(w, s, s->sp + HW_SIGNAL_FP(r), &fp) ||
        !load_checked(w, s, s->sp + HW_SIGNAL_LR(r), &lr))
        return HW_STOP_BOUNDS;
    if (sp % WORD)
        return HW_STOP_BAD_CFA;
    if (sp <= s->sp || sp > s->hi) {
        /* The handler ran on another stack. Without a range for the old one its pc is still told,
         * and the next step ends at hi. */
        s->moved = true;
        s->hi = sp;
        for (uint32_t i = 0; i < w->in->n_others && i < HW_WALK_MAX_STACKS; i++)
            if (sp >= w->in->others[i].lo && sp <= w->in->others[i].hi)
                s->hi = w->in->others[i].hi & ~(WORD - 1);
        if (s->hi < sp)
            s->hi = sp;
    }
    s->ret = hw_regs_strip(pc) + 1;
    s->sp = sp;
    s->fp = fp;
    s->lr = hw_regs_strip(lr);
    s->exact = s->has_lr = true;
    s->fp_only = false;
    s->ra_slot = s->fp_slot = 0;
    return pc ? GO_ON : HW_STOP_ZERO;
}

/* CFA of every kind that has one; GO_ON or why not. */
static int rule_cfa(const struct walker *w, const struct state *s, struct hw_rule r, uint64_t *cfa)
{
    uint64_t pc = s->exact ? s->ret - 1 : s->ret;
    switch (r.kind) {
    case HW_RULE_SP:
        *cfa = s->sp + WORD * r.cfa_off;
        return GO_ON;
    case HW_RULE_FP:
        *cfa = s->fp + WORD * r.cfa_off;
        return GO_ON;
    case HW_RULE_FP_DEREF:
        return load_checked(w, s, s->fp + WORD * (uint64_t)(int16_t)r.cfa_off, cfa)
                   ? GO_ON
                   : HW_STOP_BOUNDS;
    case HW_RULE_SP_DEREF:
        if (!load_checked(w, s, s->sp + WORD * (r.cfa_off & 0xfff), cfa))
            return HW_STOP_BOUNDS;
        *cfa += WORD * (r.cfa_off >> 12);
        return GO_ON;
    case HW_RULE_PLT:
        *cfa = s->sp + WORD + ((pc & 15) >= r.cfa_off ? WORD : 0);
        return GO_ON;
    case HW_RULE_END:
        return HW_STOP_END;
    case KIND_PENDING:
        return HW_STOP_PENDING;
    case KIND_NEW_MODULE:
        return HW_STOP_NO_MODULE;
    default:
        return HW_STOP_UNSUP;
    }
}

/* fp of the caller. A slot below sp was popped already: the register holds the value. */
static int restore_fp(const struct walker *w, struct state *s, struct hw_rule r, uint64_t cfa)
{
    uint64_t slot = r.fp_kind == HW_RULE_FP_AT_CFA ? cfa : s->fp;
    s->fp_slot = 0;
    switch ((enum hw_rule_fp_kind)r.fp_kind) {
    case HW_RULE_FP_SAME:
        return GO_ON;
    case HW_RULE_FP_AT_CFA:
    case HW_RULE_FP_AT_FP:
        slot += WORD * (uint64_t)r.fp_off;
        if (slot < s->sp)
            return GO_ON;
        if (!load_checked(w, s, slot, &s->fp))
            return HW_STOP_BOUNDS;
        s->fp_slot = slot + w->in->delta;
        return GO_ON;
    case HW_RULE_FP_UNSUP:
    case HW_RULE_FP_KIND_COUNT:
        break;
    }
    s->fp = 1; /* misaligned: whoever needs it stops; a frame that restores it makes it good */
    return GO_ON;
}

static __attribute__((noinline)) int step_any(struct walker *w, struct state *s, uint64_t raw)
{
    if ((raw & 0xffff) == NONE_TAGGED && raw != none_tagged(w->in->snapshot)) {
        /* The modules changed since this address was in none of them. */
        uint64_t slot = (s->ret * HASH_ADDR) >> (64 - RULE_BITS);
        raw = rule_miss(w, w->c ? &w->c->rules[slot] : NULL, s->ret);
    }
    struct hw_rule r = {.kind = (uint8_t)raw,
                        .fp_kind = (uint8_t)(raw >> 8),
                        .fp_off = (int16_t)(raw >> 16),
                        .ra_off = (int16_t)(raw >> 32),
                        .cfa_off = (uint16_t)(raw >> 48)};
    if (r.kind == HW_RULE_NONE || (s->fp_only && r.kind == HW_RULE_SP))
        return step_by_fp(w, s);
    if (r.kind == HW_RULE_SIGNAL)
        return step_signal(w, s, r);

    uint64_t cfa;
    int rc = rule_cfa(w, s, r, &cfa);
    if (rc != GO_ON)
        return rc;
    bool in_lr = HW_REGS_HAVE_LR && r.ra_off == 0;
    bool above = cfa > s->sp || (cfa == s->sp && in_lr);
    if (!above || cfa % HW_REGS_CFA_ALIGN)
        return s->fp == 1 ? HW_STOP_UNSUP : HW_STOP_BAD_CFA;
    if (cfa > s->hi)
        return HW_STOP_BOUNDS;

    uint64_t ra_slot = cfa + WORD * (uint64_t)(HW_REGS_HAVE_LR ? r.ra_off : -1);
    uint64_t ra = s->lr;
    if (in_lr && !s->has_lr)
        return HW_STOP_BAD_CFA;
    if (!in_lr && !load_checked(w, s, ra_slot, &ra))
        return HW_STOP_BOUNDS;
    rc = restore_fp(w, s, r, cfa);
    if (rc != GO_ON)
        return rc;
    bool loads_more = r.kind == HW_RULE_FP_DEREF || r.kind == HW_RULE_SP_DEREF;
    s->ra_slot = in_lr || loads_more ? 0 : ra_slot + w->in->delta;
    s->sp = cfa;
    s->ret = hw_regs_strip(ra);
    s->exact = s->has_lr = s->fp_only = false;
    return s->ret ? GO_ON : HW_STOP_ZERO;
}

/* ---- frames of the previous sample ---- */

static inline void frame_copy(struct frame *to, const struct frame *from)
{
    uint64_t self = (uint64_t)(uintptr_t)&from->fp;
    to->sp = from->sp;
    to->ret = from->ret;
    to->fp = from->fp;
    to->fp_slot = from->fp_slot == self ? (uint64_t)(uintptr_t)&to->fp : from->fp_slot;
    to->ra_slot = from->ra_slot;
}

/* 0 when both slots still hold what they held. */
static inline uint64_t frame_changed(const struct frame *f)
{
    return (hw_regs_strip(load(f->ra_slot)) ^ f->ret) | (load(f->fp_slot) ^ f->fp);
}

/*
 * The current frame equals old[at]: takes over what follows it as far as it still holds. Gives the
 * first frame that was not taken. Four at a time: the loads do not depend on each other.
 */
static uint32_t verify(struct walker *w)
{
    const struct frame *old = w->c->old;
    uint32_t first = w->at + 1;
    uint32_t end = HW_MAX_FRAMES - first < w->max - w->n ? HW_MAX_FRAMES : first + w->max - w->n;
    uint64_t *pcs = w->out->pcs + w->n;
    uint32_t k = first;
    for (; end - k >= 4; k += 4, pcs += 4) {
        if (frame_changed(&old[k]) | frame_changed(&old[k + 1]) | frame_changed(&old[k + 2]) |
            frame_changed(&old[k + 3]))
            break;
        pcs[0] = old[k].ret;
        pcs[1] = old[k + 1].ret;
        pcs[2] = old[k + 2].ret;
        pcs[3] = old[k + 3].ret;
    }
    for (; k < end && !frame_changed(&old[k]); k++)
        *pcs++ = old[k].ret;
    return k;
}

static void copy_old(struct walker *w, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to; k++)
        frame_copy(&w->c->fresh[w->n_fresh++], &w->c->old[k]);
}

static __attribute__((noinline)) bool adopt(struct walker *w, struct state *s)
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
    s->sp = f->sp;
    s->fp = f->fp;
    s->exact = s->has_lr = false;
    w->at = end;
    return true;
}

/* The stack goes on behind what looked like its end (it was cut there last time). */
static __attribute__((noinline)) void keep_no_tail(struct walker *w)
{
    copy_old(w, w->tail + 1, HW_MAX_FRAMES);
    w->tail = HW_MAX_FRAMES;
}

/* Puts the fresh frames in front of the kept tail. Gives the hash of the whole stack. */
static uint64_t remember(struct walker *w, bool usable)
{
    struct hw_walk_cache *c = w->c;
    uint32_t top = w->tail;
    uint32_t n = w->n_fresh - (w->tail < HW_MAX_FRAMES); /* the current one was old[tail] */
    uint64_t hash = w->tail < HW_MAX_FRAMES ? c->old[top].hash : 0;
    c->top = HW_MAX_FRAMES; /* nothing is valid while frames are written, see rule_miss */
    atomic_signal_fence(memory_order_seq_cst);
    while (n) {
        const struct frame *f = &c->fresh[--n];
        struct frame *to = &c->old[--top];
        frame_copy(to, f);
        hash = hash * HASH_CHAIN + mix(f->ret, f->sp & 1);
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

/* ---- the loop ---- */

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
            if (old->sp == sp && old->ret == ret && old->fp == fp && !exact) {
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
            push_fresh(w, sp | exact, ret, fp, fp_slot, ra_slot);
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

    c->n_frames += w->n;
    c->n_adopted += w->out->n_adopted;
    if (++c->n_samples == WINDOW_SAMPLES) {
        /* Stacks that never repeat would pay for matching and get nothing. */
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
        /* Keys hold 16 bits; a program that loads and unloads for ever comes round to old ones. */
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
}

#if !defined(HW_UNWIND_X86) /* once is enough */

size_t hw_walk_cache_bytes(void)
{
    return sizeof(struct hw_walk_cache);
}

void hw_walk_cache_reset(struct hw_walk_cache *c)
{
    forget_rules(c);
    cache_prepare(c);
    c->snapshot = NULL;
    c->n_samples = c->n_frames = c->n_adopted = c->n_skip = 0;
}

const char *hw_stop_name(uint32_t stop)
{
    switch ((enum hw_walk_stop)stop) {
    case HW_STOP_END:
        return "END";
    case HW_STOP_ZERO:
        return "ZERO";
    case HW_STOP_LIMIT:
        return "LIMIT";
    case HW_STOP_NO_MODULE:
        return "NO_MODULE";
    case HW_STOP_PENDING:
        return "PENDING";
    case HW_STOP_UNSUP:
        return "UNSUP";
    case HW_STOP_BOUNDS:
        return "BOUNDS";
    case HW_STOP_BAD_CFA:
        return "BAD_CFA";
    case HW_STOP_SIGNALS:
        return "SIGNALS";
    case HW_STOP_FP_LOST:
        return "FP_LOST";
    case HW_STOP_COUNT:
        break;
    }
    return "?";
}

#endif
