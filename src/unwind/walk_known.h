/*
 * walk_known.h - whole stacks that were walked before
 *
 * A program's stacks repeat. What a walk finds depends on the first frame's registers, the tables, and the words that
 * it loaded on its way. So a walk that ended at the outermost frame leaves the places and values of those words; when
 * all of them hold the same again, and pc, sp, the stack's end and the tables are the same, the stack is the same, and
 * only its id is needed.
 *
 * Words that decide nothing are left out: most code has data in the frame pointer's register, and whatever it saved
 * there. The frame pointer of frame k matters if the rule of k, or of a caller up to the one that loads another value,
 * makes an address of it. A frame that was reached otherwise than through its two slots (walk_reuse.h) makes its stack
 * unfit, and so does an end that more than the last frame's rule decides.
 *
 * Why that is enough, and why nothing is read that a walk would not read: words are kept and compared from the leaf on.
 * If pc, sp (and fp, if it matters) are those of then, frame 0 is, as far as it decides. If frame k is, its rule is the
 * same (one list of modules, which is immutable), so its step loads its words at the same places, within the same
 * bounds: the entry's next words, which may be loaded now. If they hold what they held, frame k + 1 is the same, too. So
 * it does not matter how the words came there (another function's frame, a handler's, a fiber's, a longjmp's), nor when
 * the entry was made, nor by which thread: a wrong entry would need a rule that depends on something else. Code that
 * lies in no module has no rule but the frame pointer; whether it has come into a module meanwhile is asked once per
 * address and list (rule_miss), and a walk with the rule cache relies on the same answer. While a list may be outdated (dlclose) the
 * client does not ask here.
 *
 * Two stacks with the same pc and sp (an allocating function called from two places) differ in some word. An entry
 * whose word differs leads on: the next one's place is given by the place so far, which word it was, and its value.
 */
#ifndef HW_UNWIND_WALK_KNOWN_H
#define HW_UNWIND_WALK_KNOWN_H

#include "unwind/walk_step.h"

static inline uint64_t known_step(uint64_t at, uint64_t v)
{
    at = (at ^ v) * HASH_ADDR;
    return at ^ at >> 32;
}

static inline struct known_stack *known_at(struct hw_walk_cache *c, uint64_t at)
{
    return &c->known[at * HASH_MIX >> (64 - KNOWN_BITS)];
}

static inline uint64_t known_changed(const struct known_stack *e, uint64_t sp, uint32_t k)
{
    return load(sp + e->at[k]) ^ e->value[k];
}

/* The first word that differs, and what it holds; KNOWN_WORDS if there is none. Four at a time, which do not depend on
 * each other: they lie in one page, so if the first may be loaded, all may. */
static inline uint32_t known_differs(const struct known_stack *e, uint64_t sp, uint64_t *holds)
{
    uint32_t k = e->first;
    while (k < KNOWN_WORDS && !(known_changed(e, sp, k) | known_changed(e, sp, k + 1) |
                                known_changed(e, sp, k + 2) | known_changed(e, sp, k + 3)))
        k += 4;
    if (k == KNOWN_WORDS)
        return k;
    while (!known_changed(e, sp, k))
        k++;
    *holds = load(sp + e->at[k]);
    return k;
}

/* Stacks that never repeat would pay for nothing: then it is tried ever more rarely. */
static inline bool known_is_worth_it(struct hw_walk_cache *c)
{
    if (hw_unlikely(c->known_skip != 0)) {
        c->known_skip--;
        return false;
    }
    if (hw_unlikely(++c->known_tries == KNOWN_WINDOW)) {
        bool pays = c->known_hits * 5 >= KNOWN_WINDOW * 3;
        if (pays) {
            c->known_pause = KNOWN_PAUSE;
        } else {
            c->known_skip = c->known_pause < KNOWN_PAUSE ? KNOWN_PAUSE : c->known_pause;
            c->known_pause = c->known_skip < KNOWN_LONGEST ? c->known_skip * 2 : KNOWN_LONGEST;
        }
        c->known_tries = c->known_hits = 0;
    }
    return true;
}

static inline const struct known_stack *known_find(const struct hw_module_snapshot *snapshot,
                                                   const struct hw_walk_regs *r, uint64_t hi,
                                                   struct hw_walk_cache *c)
{
    struct known_stack *e = NULL;
    uint64_t at = known_step(r->pc, r->sp), holds = 0;
    c->known_next = NULL;
    if (!known_is_worth_it(c))
        return NULL;
    bool passed =
        false; /* the entry of another pc or sp: it may have the place, the next one not */
    for (uint32_t i = 0; i < KNOWN_TRIES; i++) {
        e = known_at(c, at);
        if (e->pc != r->pc || e->sp != r->sp || e->hi != hi || e->snapshot != snapshot ||
            e->generation != snapshot->generation || e->epoch != c->known_epoch) {
            if (passed || e->pc == 0 || e->epoch != c->known_epoch || e->snapshot != snapshot)
                break;
            passed = true;
            at = known_step(at, i + 1);
            continue;
        }
        uint32_t k = KNOWN_WORDS;
        if (e->fp_matters && e->fp != r->fp)
            holds = r->fp;
        else if ((k = known_differs(e, r->sp, &holds)) == KNOWN_WORDS)
            return e;
        at = known_step(at + k, holds);
    }
    c->known_next = e;
    return NULL;
}

/* Does the step from this frame make an address of the frame pointer? Any but the plainest rule counts, and any from a
 * frame that was reached by its record (walk_step.h). */
static inline bool known_uses_fp(const struct walker *w, const struct frame *f)
{
    if (frame_is_by_fp(f))
        return true;
    const struct rule_slot *slot = &w->c->rules[(f->ret * HASH_ADDR) >> (64 - RULE_BITS)];
    return slot->key != ((f->ret - 1) | w->gen_key) || !rule_is_plain(slot->rule) ||
           (slot->rule & 2) != 0;
}

/* The four that were begun get no other word. */
static inline void known_close(struct known_stack *e)
{
    for (; e->first % 4 != 0; e->first--) {
        e->at[e->first - 1] = e->at[e->first];
        e->value[e->first - 1] = e->value[e->first];
    }
}

/* In front of those that are there. As it is in memory: a signed return address as well. */
static inline bool known_add(struct known_stack *e, uint64_t sp, uint64_t slot, uint64_t value)
{
    if (e->first % 4 != 0 && (slot ^ (sp + e->at[e->first])) >= PAGE_BYTES)
        known_close(e);
    if (e->first == 0 || slot < sp || slot - sp > UINT32_MAX)
        return false;
    uint64_t word = load(slot);
    if (word != value && hw_regs_strip(word) != value)
        return false;
    e->at[--e->first] = (uint32_t)(slot - sp);
    e->value[e->first] = word;
    return true;
}

/* From the root to the leaf, as what matters is known only there. */
static __attribute__((unused)) bool known_fill(const struct walker *w, struct known_stack *e,
                                               uint64_t sp)
{
    const struct hw_walk_cache *c = w->c;
    const uint64_t never = (uint64_t)(uintptr_t)&c->never;
    bool matters = false;
    e->first = KNOWN_WORDS;
    for (uint32_t k = HW_MAX_FRAMES - 1; k > c->top; k--) {
        const struct frame *f = &c->old[k];
        bool loaded = f->fp_slot != (uint64_t)(uintptr_t)&f->fp;
        if (f->ra_slot == never || f->sp & FRAME_EXACT ||
            (loaded && matters && !known_add(e, sp, f->fp_slot, f->fp)) ||
            !known_add(e, sp, f->ra_slot, f->ret))
            return false;
        matters = known_uses_fp(w, &c->old[k - 1]) || (!loaded && matters);
    }
    known_close(e);
    e->fp_matters = matters;
    return true;
}

/*
 * The walk that was not known has ended, and its frames are in c->old. The entry is invalid while it is written: a
 * handler may leave us here by siglongjmp.
 */
static __attribute__((noinline, unused)) void known_remember(const struct walker *w)
{
    struct hw_walk_cache *c = w->c;
    struct known_stack *e = c->known_next;
    const struct hw_walk_regs *r = &w->in->regs;
    c->known_next = NULL;
    if (w->out->stop != HW_STOP_END || w->n > KNOWN_WORDS || !w->is_kept ||
        c->top + w->n != HW_MAX_FRAMES || w->in->first_is_exact)
        return;
    e->pc = 0;
    atomic_signal_fence(memory_order_seq_cst);
    if (!known_fill(w, e, r->sp))
        return;
    e->sp = r->sp;
    e->fp = r->fp;
    e->hi = w->in->hi;
    e->snapshot = w->in->snapshot;
    e->generation = w->in->snapshot->generation;
    e->epoch = c->known_epoch;
    e->id = w->out->stack_id;
    e->n_frames = (uint16_t)w->n;
    atomic_signal_fence(memory_order_seq_cst);
    e->pc = r->pc;
}

#endif
