/*
 * walk_step.h - the rule of an address, and one step by any rule
 *
 * The loop of walk.c makes the usual steps itself.
 */
#ifndef HW_UNWIND_WALK_STEP_H
#define HW_UNWIND_WALK_STEP_H

#include "unwind/walk_state.h"

enum {
    MAX_SIGNALS = 4,
    /* Kinds that exist only between lookup and step. */
    KIND_PENDING = 0xf0,
    KIND_NEW_MODULE = 0xf1
};

/* The raw rule of a NONE that holds only for one snapshot: fp_kind 1, tag in the upper half. */
#define NONE_TAGGED 0x100u

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

static inline uint64_t none_tagged(const struct hw_module_snapshot *s)
{
    return NONE_TAGGED | (uint64_t)(uint32_t)((uintptr_t)s >> 3) << 32;
}

static inline uint64_t rule_find(const struct walker *w, uint64_t va_pc)
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
 * Fills the slot. The key is invalid while the two words disagree: a handler may leave us here by
 * siglongjmp.
 */
static __attribute__((noinline, unused)) uint64_t rule_miss(const struct walker *w,
                                                            struct rule_slot *slot, uint64_t ret)
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

static inline bool load_checked(const struct walker *w, const struct state *s, uint64_t a,
                                uint64_t *out)
{
    if (!slot_ok(s, a))
        return false;
    *out = load(a + w->in->delta);
    return true;
}

/* The frame record at fp. Plausible = on this stack, above sp, with a return address. */
static inline int step_by_fp(struct walker *w, struct state *s)
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
    /* If the call does not push, a record may lie anywhere in its frame: sp is a lower bound. */
    s->fp_only = HW_REGS_HAVE_LR;
    w->out->n_by_fp++;
    return ra ? GO_ON : HW_STOP_ZERO;
}

static inline int step_signal(struct walker *w, struct state *s, struct hw_rule r)
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
        /* The handler ran on another stack. Without a range for the old one its pc is still
         * reported, and the next step ends at hi. */
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
static inline int rule_cfa(const struct walker *w, const struct state *s, struct hw_rule r,
                           uint64_t *cfa)
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
static inline int restore_fp(const struct walker *w, struct state *s, struct hw_rule r,
                             uint64_t cfa)
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

static __attribute__((noinline, unused)) int step_any(struct walker *w, struct state *s,
                                                      uint64_t raw)
{
    if ((raw & 0xffff) == NONE_TAGGED && raw != none_tagged(w->in->snapshot)) {
        /* The modules have changed since this address was in none of them. */
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

#endif
