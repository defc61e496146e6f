#include "client/interpreters/chain_reader.h"

#include <string.h>

#include "client/ring/push.h"

#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)

bool hw_chain_begin(struct hw_chain_proof *p, struct chain_reader *k, uint64_t eval)
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

uint32_t hw_evals_count(const struct hw_evals *e, const struct hw_walk_out *o)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_frames; i++) {
        if (!hw_evals_have(e, o->pcs[i]))
            continue;
        if (o->exact[i / 64] >> i % 64 & 1)
            return 0;
        n++;
    }
    return n;
}

/* From the root on, so that what is yet to be done keeps its place. */
void hw_evals_replace(const struct hw_evals *e, const struct hw_python *p, struct hw_mixed_stack *m)
{
    uint32_t left = p->n_evals;
    for (uint32_t i = m->n_frames; i > 0 && left > 0; i--) {
        if (m->entry[i - 1] != HW_ENTRY_RETURN || !hw_evals_have(e, m->at[i - 1]))
            continue;
        left--;
        uint32_t first = left ? p->ends[left - 1] : 0, at = i - 1, n = 1;
        if (at > 0 && m->entry[at - 1] != HW_ENTRY_MANAGED &&
            m->at[at - 1] - 1 - e->inner_lo < e->n_inner) {
            at--;
            n++;
        }
        if (left < p->n_parts && p->ends[left] > first)
            hw_mixed_splice(m, at, n, p->ids + first, p->ends[left] - first);
    }
}

uint64_t hw_evals_hash(const struct hw_python *p)
{
    uint64_t h = p->n_parts;
    for (uint32_t i = 0; i < p->n_ids; i++)
        h = mix(h, p->ids[i]);
    for (uint32_t i = 0; i < p->n_parts; i++)
        h = h * 31 + p->ends[i];
    return h | 1;
}

bool hw_chain_name(struct hw_client_session *s, uint64_t id, const struct heapwise_managed_text *t)
{
    _Atomic uint64_t *named = &s->named[id % HW_NAMED_SLOTS];
    if (atomic_load_explicit(named, memory_order_relaxed) == id)
        return true;
    if (!hw_push_name(s, id, t))
        return false;
    atomic_store_explicit(named, id, memory_order_relaxed);
    return true;
}

static uint64_t hash_text(uint64_t h, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = 0;
        memcpy(&v, p + i, n - i < 8 ? n - i : 8);
        h = mix(h, v);
    }
    return mix(h, n);
}

uint64_t hw_chain_id(enum hw_managed_kind kind, const struct heapwise_managed_text *t)
{
    uint64_t h = hash_text(t->line, t->function, t->n_function);
    return hw_managed_id(kind, hash_text(h, t->file, t->n_file));
}

#endif
