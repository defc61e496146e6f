#include "client/interpreters/chain_reader.h"

#include <string.h>

#include "client/ring/push.h"

#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)

bool hw_chain_begin_proof(struct hw_chain_proof *p, struct chain_reader *k, uint64_t eval)
{
    if (atomic_load_explicit(&p->eval, memory_order_relaxed) != eval) {
        atomic_store_explicit(&p->n_good, 0, memory_order_relaxed);
        atomic_store_explicit(&p->n_bad, 0, memory_order_relaxed);
        atomic_store_explicit(&p->eval, eval, memory_order_relaxed);
    }
    uint32_t n_good = atomic_load_explicit(&p->n_good, memory_order_relaxed);
    k->careful = n_good < HW_CHAIN_PROOF;
    k->checked_to = k->careful ? UINT64_MAX : HW_CHAIN_NULL_BYTES - 1;
    return atomic_load_explicit(&p->n_bad, memory_order_relaxed) < HW_CHAIN_MAX_FAILURES + n_good &&
           !(k->careful && hw_sandbox());
}

static inline bool is_inner(const struct hw_evals *e, uint64_t pc)
{
    return pc - 1 - e->inner_lo < e->n_inner;
}

static struct hw_chain_native count(const struct hw_evals *e, const struct hw_walk_out *o)
{
    struct hw_chain_native n = {.stack_id = o->stack_id};
    for (uint32_t i = 0; i < o->n_frames; i++) {
        if (!hw_evals_have(e, o->pcs[i]))
            continue;
        if (o->exact[i / 64] >> i % 64 & 1)
            return (struct hw_chain_native){.stack_id = o->stack_id};
        n.n_evals++;
        if (i > 0 && is_inner(e, o->pcs[i - 1]))
            n.n_inner++;
    }
    return n;
}

/* The stack's id identifies its shape. A host may unload its interpreter: asked for new stacks. */
static bool count_evals(struct hw_chain *p, const struct hw_evals *e, const struct hw_walk_out *o)
{
    struct hw_chain_native *pair = p->natives[o->stack_id % HW_CHAIN_NATIVES];
    const struct hw_chain_native *known = &pair[pair[1].stack_id == o->stack_id];
    if (hw_unlikely(known->stack_id != o->stack_id)) {
        struct hw_chain_native n = count(e, o);
        if (n.n_evals && !hw_sandbox() && !hw_sys_readable(e->there))
            return false;
        pair[1] = pair[0];
        pair[0] = n;
        known = &pair[0];
    }
    p->n_evals = known->n_evals;
    p->n_inner = known->n_inner;
    return p->n_evals != 0;
}

bool hw_chain_begin(struct hw_client_session *s, struct hw_chain *p, const struct hw_walk_out *o,
                    const struct hw_evals *e, struct chain_reader *k, struct hw_chain_proof *proof)
{
    if (p->generation != s->generation) {
        memset(p->calls, 0, sizeof p->calls);
        memset(p->natives, 0, sizeof p->natives);
        p->generation = s->generation;
    }
    if (!k->l || !hw_chain_begin_proof(proof, k, e->lo))
        return false;
    p->n_ids = p->n_parts = 0;
    return count_evals(p, e, o);
}

/* ---- places in code ---- */

static uint64_t hash_text(uint64_t h, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = 0;
        memcpy(&v, p + i, n - i < 8 ? n - i : 8);
        h = mix(h, v);
    }
    return mix(h, n);
}

uint64_t hw_chain_find_place(struct hw_chain *p, const struct hw_chain_place *place)
{
    const struct hw_chain_call *pair = hw_chain_pair(p, place->instr);
    for (int i = 0; i < 2; i++)
        if (pair[i].instr == place->instr && pair[i].code == place->code &&
            pair[i].print == place->print)
            return pair[i].id;
    return 0;
}

bool hw_chain_name(struct hw_client_session *s, enum hw_managed_kind kind,
                   const struct heapwise_managed_text *t, uint64_t *id)
{
    uint64_t h = hash_text(t->line, t->function, t->n_function);
    *id = hw_managed_id(kind, hash_text(h, t->file, t->n_file));
    _Atomic uint64_t *named = &s->named[*id % HW_NAMED_SLOTS];
    if (atomic_load_explicit(named, memory_order_relaxed) == *id)
        return true;
    if (!hw_push_name(s, *id, t))
        return false;
    atomic_store_explicit(named, *id, memory_order_relaxed);
    return true;
}

uint64_t hw_chain_add_place(struct hw_client_session *s, struct hw_chain *p,
                            enum hw_managed_kind kind, const struct hw_chain_place *place,
                            const struct heapwise_managed_text *t)
{
    uint64_t id;
    if (!hw_chain_name(s, kind, t, &id))
        return id; /* next time */
    struct hw_chain_call *pair = hw_chain_pair(p, place->instr);
    pair[1] = pair[0];
    pair[0].code = place->code;
    pair[0].instr = place->instr;
    pair[0].print = place->print;
    pair[0].id = id;
    return id;
}

/* ---- what replaces the evaluations ---- */

static uint64_t hash_of(const struct hw_chain *p)
{
    uint64_t h = p->n_parts;
    for (uint32_t i = 0; i < p->n_ids; i++)
        h = mix(h, p->ids[i]);
    for (uint32_t i = 0; i < p->n_parts; i++)
        h = h * 31 + p->ends[i];
    return h | 1;
}

uint64_t hw_chain_end(struct hw_client_session *s, struct hw_chain *p, const struct hw_walk_out *o,
                      const struct chain_reader *k, struct hw_chain_proof *proof, bool known,
                      bool all)
{
    if (known && !all && p->n_parts < p->n_evals)
        end_part(p); /* the part that was cut */
    bool whole = hw_stop_is_complete(o->stop) && all;
    bool fits = whole ? p->n_evals == p->n_parts : !all || p->n_evals <= p->n_parts;
    if (k->bad || !known || !fits) {
        hw_count(s, frames_unclear, 1);
        if (k->bad)
            atomic_fetch_add_explicit(&proof->n_bad, 1, memory_order_relaxed);
        return 0;
    }
    if (k->careful)
        atomic_fetch_add_explicit(&proof->n_good, 1, memory_order_relaxed);
    return p->n_ids ? hash_of(p) : 0;
}

/* From the root on, so that what is yet to be done keeps its place. */
void hw_evals_replace(const struct hw_evals *e, const struct hw_chain *p, struct hw_mixed_stack *m)
{
    uint32_t left = p->n_evals;
    for (uint32_t i = m->n_frames; i > 0 && left > 0; i--) {
        if (m->entry[i - 1] != HW_ENTRY_RETURN || !hw_evals_have(e, m->at[i - 1]))
            continue;
        left--;
        uint32_t first = left ? p->ends[left - 1] : 0, at = i - 1, n = 1;
        if (at > 0 && m->entry[at - 1] != HW_ENTRY_MANAGED && is_inner(e, m->at[at - 1])) {
            at--;
            n++;
        }
        if (left < p->n_parts && p->ends[left] > first)
            hw_mixed_splice(m, at, n, p->ids + first, p->ends[left] - first);
    }
}

uint64_t hw_text_digest(const struct text *t)
{
    uint64_t h = t->n, v = 0;
    if (t->n < 8) {
        for (size_t i = 0; i < t->n; i++)
            v = v << 8 | (uint8_t)t->p[i];
        return mix(h, v);
    }
    for (size_t i = 0; i + 8 <= t->n && i < 64; i += 8) {
        memcpy(&v, t->p + i, 8);
        h = mix(h, v);
    }
    memcpy(&v, t->p + t->n - 8, 8);
    return mix(h, v);
}

#endif
