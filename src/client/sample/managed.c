#include "client/sample/managed.h"

#include <errno.h>
#include <string.h>

#include "client/client.h"
#include "client/interpreters/php.h"
#include "client/interpreters/ruby.h"
#include "client/ring/push.h"
#include "client/sample/marks.h"
#include "client/sample/python.h"
#include "client/thread/client_guard.h"

#define HASH_ENTRY 0x9e3779b97f4a7c15u
#define HASH_CHAIN 0xd6e8feb86659fd93u

HW_HIDDEN _Atomic uint32_t hw_managed_on;
static _Atomic(const struct heapwise_managed_source *) agent;

static void begin(struct hw_mixed_stack *m, const struct hw_walk_out *o)
{
    m->n_frames = o->n_frames;
    m->n_managed = 0;
    m->was_asked = false;
    m->stop = o->stop;
    m->generation = o->generation;
    memcpy(m->at, o->pcs, o->n_frames * sizeof m->at[0]);
    for (uint32_t i = 0; i < o->n_frames; i++)
        m->entry[i] = o->exact[i / 64] >> (i % 64) & 1 ? HW_ENTRY_EXACT : HW_ENTRY_RETURN;
}

/* Other frames, another reason why the walk ended, another list of modules: another stack. */
static uint64_t stack_id(const struct hw_mixed_stack *m)
{
    uint64_t h = (uint64_t)m->generation << 8 | m->stop;
    for (uint32_t i = 0; i < m->n_frames; i++) {
        h = (h ^ m->at[i] ^ (uint64_t)m->entry[i] << 62) * HASH_ENTRY;
        h ^= h >> 32;
    }
    h *= HASH_CHAIN;
    h ^= h >> 29;
    return h | 1u;
}

static bool has_exact(const struct hw_walk_out *o)
{
    for (uint32_t i = 0; i < (o->n_frames + 63) / 64; i++)
        if (o->exact[i])
            return true;
    return false;
}

/* The recorder finds the native frames of a stack that is sent as a copy by itself. */
void hw_managed_count(struct hw_client_session *s, struct hw_mixed_stack *m, bool copied)
{
    const struct heapwise_managed_stack *out = &m->answer;
    struct hw_ring_counters *c = &s->ring.shm->counters;
    _Static_assert(offsetof(struct hw_ring_counters, managed_otherwise) -
                           offsetof(struct hw_ring_counters, managed_none) ==
                       (HEAPWISE_MISSING_OTHERWISE - HEAPWISE_MISSING_BY_NATURE) * 8,
                   "in this order");
    if (!m->was_asked)
        return;
    m->was_asked = false;
    hw_count(s, managed_asked, 1);
    if (copied && out->n_ids)
        hw_count(s, managed_copied, 1);
    else if (out->missing && out->missing < HEAPWISE_MISSING_COUNT)
        atomic_fetch_add_explicit(&c->managed_none + (out->missing - HEAPWISE_MISSING_BY_NATURE), 1,
                                  memory_order_relaxed);
    if (out->n_unnamed)
        hw_count(s, managed_unnamed, out->n_unnamed);
}

static void ask_agent(struct hw_client_session *s, const struct hw_call_site *site,
                      const struct hw_walk_out *o, struct hw_mixed_stack *m)
{
    const struct heapwise_managed_source *a = atomic_load_explicit(&agent, memory_order_acquire);
    if (!a)
        return;
    struct heapwise_native_stack in = {.generation = s->generation,
                                       .n_pcs = o->n_frames,
                                       .pcs = o->pcs,
                                       .pc = site->pc,
                                       .sp = site->sp,
                                       .fp = site->fp,
                                       .is_whole = hw_stop_is_complete(o->stop),
                                       .in_handler = has_exact(o)};
    struct heapwise_managed_stack *out = &m->answer;
    out->at = out->n_removed = out->n_ids = out->ends = out->missing = out->n_unnamed = 0;
    hw_here.flags |= HW_TLS_OURS; /* what the runtime allocates for an answer is our doing */
    int answered = a->frames(a->ctx, &in, out);
    hw_here.flags &= ~(uint32_t)HW_TLS_OURS;
    m->was_asked = true;
    if (!answered || out->n_ids > HEAPWISE_MANAGED_MAX_FRAMES)
        return;
    if (out->ends)
        m->stop = HW_STOP_END;
    hw_mixed_splice(m, out->at, out->n_removed, out->ids, out->n_ids);
}

/* 0: it has none there. */
static uint64_t find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                            struct hw_chain *p)
{
    if (hw_python_is_on())
        return hw_python_find_frames(s, o, p);
    if (hw_ruby_is_on())
        return hw_ruby_find_frames(s, o, p);
    return hw_php_is_on() ? hw_php_find_frames(s, o, p) : 0;
}

static void insert_frames(const struct hw_chain *p, struct hw_mixed_stack *m)
{
    if (hw_unlikely(p->n_frames != 0) && p->n_frames < m->n_frames) {
        m->n_frames = p->n_frames;
        m->stop = HW_STOP_END;
    }
    if (hw_python_is_on())
        hw_python_insert(p, m);
    else if (hw_ruby_is_on())
        hw_ruby_insert(p, m);
    else
        hw_php_insert(p, m);
}

void hw_managed_build(const struct hw_walk_out *o, const struct hw_chain *chain,
                      struct hw_mixed_stack *m)
{
    begin(m, o);
    insert_frames(chain, m);
    m->is_built = true;
}

/* An interpreter alone: the recorder knows most stacks already, and of those only the id is needed. */
static bool mix_interpreter(const struct hw_walk_out *o, const struct hw_chain *chain,
                            uint64_t hash, struct hw_mixed_stack *m)
{
    bool is_cut = chain->n_frames != 0 && chain->n_frames < o->n_frames;
    uint32_t n_frames = is_cut ? chain->n_frames : o->n_frames;
    bool too_deep = n_frames + chain->n_ids - chain->n_evals - chain->n_inner > HW_MAX_FRAMES;
    m->is_built = false;
    m->stop = too_deep ? (uint32_t)HW_STOP_LIMIT : is_cut ? (uint32_t)HW_STOP_END : o->stop;
    m->stack_id = ((o->stack_id ^ hash) * HASH_ENTRY) | 1u;
    return true;
}

bool hw_managed_mix_interpreter(struct hw_client_session *s, const struct hw_walk_out *o,
                                struct hw_chain *chain, struct hw_mixed_stack *m)
{
    uint64_t hash = find_frames(s, o, chain);
    return hash != 0 && mix_interpreter(o, chain, hash, m);
}

bool hw_managed_mix(struct hw_client_session *s, const struct hw_call_site *site,
                    const struct hw_walk_out *o, struct hw_chain *chain, struct hw_mixed_stack *m)
{
    if (atomic_load_explicit(&hw_managed_on, memory_order_relaxed) == 0)
        return hw_managed_mix_interpreter(s, o, chain, m);
    uint64_t hash = find_frames(s, o, chain);
    begin(m, o);
    m->is_built = true;
    ask_agent(s, site, o, m);
    if (m->n_managed == 0 && hash != 0)
        insert_frames(chain, m);
    if (m->n_managed == 0)
        return false;
    m->stack_id = stack_id(m);
    return true;
}

bool hw_managed_mark(struct hw_client_session *s, const struct hw_walk_out *o,
                     const struct hw_slab *slab, struct hw_mixed_stack *m)
{
    if (!slab->is_mixed)
        begin(m, o);
    else if (!m->is_built)
        hw_managed_build(o, &slab->chain, m);
    m->is_built = true;
    hw_marks_insert(s, &slab->marks, m);
    m->stack_id = stack_id(m);
    return m->n_managed != 0;
}

/* ---- what an agent calls ---- */

void hw_managed_suppress_thread(void)
{
    hw_here.flags |= HW_TLS_SUPPRESSED;
}

bool hw_managed_suppress(bool suppressed)
{
    bool was = (hw_here.flags & HW_TLS_SUPPRESSED) != 0;
    hw_here.flags = suppressed ? hw_here.flags | HW_TLS_SUPPRESSED
                               : hw_here.flags & ~(uint32_t)HW_TLS_SUPPRESSED;
    return was;
}

HW_EXPORT int heapwise_managed_set(const struct heapwise_managed_source *source)
{
    const struct heapwise_managed_source *none = NULL;
    if (source->version != HEAPWISE_MANAGED_VERSION ||
        !atomic_compare_exchange_strong(&agent, &none, source))
        return -1;
    atomic_fetch_or_explicit(&hw_managed_on, 1u << HW_MANAGED_JAVA, memory_order_relaxed);
    return 0;
}

HW_EXPORT int heapwise_managed_name(uint32_t generation, uint64_t id,
                                    const struct heapwise_managed_text *text)
{
    struct hw_client_guard v;
    int saved = errno;
    bool sent = false;
    hw_enter(&v);
    if (v.session && !v.nested && v.session->generation == generation)
        sent = hw_push_name(v.session, id, text);
    hw_leave(&v);
    errno = saved;
    return sent ? 0 : -1;
}
