#include "client/sample/managed.h"

#include <errno.h>
#include <string.h>

#include "client/client.h"
#include "client/kernel/sys.h"

#define HASH_ENTRY 0x9e3779b97f4a7c15u
#define HASH_CHAIN 0xd6e8feb86659fd93u

HW_HIDDEN _Atomic uint32_t hw_managed_on;
static _Atomic(const struct heapwise_managed_source *) agent;

static void begin(struct hw_mixed *m, const struct hw_walk_out *o)
{
    m->n_frames = o->n_frames;
    m->n_managed = 0;
    m->stop = o->stop;
    m->generation = o->generation;
    memcpy(m->at, o->pcs, o->n_frames * sizeof m->at[0]);
    for (uint32_t i = 0; i < o->n_frames; i++)
        m->entry[i] = o->exact[i / 64] >> (i % 64) & 1 ? HW_ENTRY_EXACT : HW_ENTRY_RETURN;
}

void hw_mixed_splice(struct hw_mixed *m, uint32_t at, uint32_t n_removed, const uint64_t *ids,
                     uint32_t n_ids)
{
    if (at > m->n_frames)
        at = m->n_frames;
    if (n_removed > m->n_frames - at)
        n_removed = m->n_frames - at;
    for (uint32_t i = at; i < at + n_removed; i++)
        m->n_managed -= m->entry[i] == HW_ENTRY_MANAGED;
    uint32_t tail = m->n_frames - at - n_removed, room = HW_MAX_FRAMES - at;
    if (n_ids > room || tail > room - n_ids)
        m->stop = HW_STOP_LIMIT;
    if (n_ids > room)
        n_ids = room;
    if (tail > room - n_ids)
        tail = room - n_ids;
    memmove(m->at + at + n_ids, m->at + at + n_removed, tail * sizeof m->at[0]);
    memmove(m->entry + at + n_ids, m->entry + at + n_removed, tail);
    memcpy(m->at + at, ids, n_ids * sizeof m->at[0]);
    memset(m->entry + at, HW_ENTRY_MANAGED, n_ids);
    m->n_managed += n_ids;
    m->n_frames = at + n_ids + tail;
}

/* Other frames, why the walk ended, another list of modules: another stack. */
static uint64_t stack_id(const struct hw_mixed *m)
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

static void count(struct hw_client_session *s, const struct heapwise_managed_stack *out)
{
    struct hw_ring_counters *c = &s->ring.shm->counters;
    _Static_assert(offsetof(struct hw_ring_counters, managed_otherwise) -
                           offsetof(struct hw_ring_counters, managed_none) ==
                       (HEAPWISE_MISSING_OTHERWISE - HEAPWISE_MISSING_BY_NATURE) * 8,
                   "in this order");
    hw_count(s, managed_asked, 1);
    if (out->missing && out->missing < HEAPWISE_MISSING_COUNT)
        atomic_fetch_add_explicit(&c->managed_none + (out->missing - HEAPWISE_MISSING_BY_NATURE), 1,
                                  memory_order_relaxed);
    if (out->n_unnamed)
        hw_count(s, managed_unnamed, out->n_unnamed);
}

static void ask_agent(struct hw_client_session *s, const struct hw_call_site *site,
                      const struct hw_walk_out *o, struct hw_mixed *m)
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
    count(s, out);
    if (!answered || out->n_ids > HEAPWISE_MANAGED_MAX_FRAMES)
        return;
    if (out->ends)
        m->stop = HW_STOP_END;
    hw_mixed_splice(m, out->at, out->n_removed, out->ids, out->n_ids);
}

void hw_managed_build(const struct hw_walk_out *o, const struct hw_python *python,
                      struct hw_mixed *m)
{
    begin(m, o);
    hw_python_put_in(python, m);
    m->is_built = true;
}

/* Python alone: most stacks are known to the recorder, and of those only the id is wanted. */
static bool mix_python(const struct hw_walk_out *o, const struct hw_python *python, uint64_t hash,
                       struct hw_mixed *m)
{
    bool too_deep = o->n_frames + python->n_ids - python->n_evals > HW_MAX_FRAMES;
    m->is_built = false;
    m->stop = too_deep ? (uint32_t)HW_STOP_LIMIT : o->stop;
    m->stack_id = ((o->stack_id ^ hash) * HASH_ENTRY) | 1u;
    return true;
}

bool hw_managed_mix(struct hw_client_session *s, const struct hw_call_site *site,
                    const struct hw_walk_out *o, struct hw_python *python, struct hw_mixed *m)
{
    uint64_t hash = hw_python_is_on() ? hw_python_look(s, o, python) : 0;
    if (atomic_load_explicit(&hw_managed_on, memory_order_relaxed) == 0)
        return hash != 0 && mix_python(o, python, hash, m);
    begin(m, o);
    m->is_built = true;
    ask_agent(s, site, o, m);
    if (m->n_managed == 0 && hash != 0)
        hw_python_put_in(python, m);
    if (m->n_managed == 0)
        return false;
    m->stack_id = stack_id(m);
    return true;
}

bool hw_managed_mark(struct hw_client_session *s, const struct hw_walk_out *o,
                     const struct hw_slab *slab, struct hw_mixed *m)
{
    if (!slab->is_mixed)
        begin(m, o);
    else if (!m->is_built)
        hw_managed_build(o, &slab->python, m);
    m->is_built = true;
    hw_marks_put_in(s, &slab->marks, m);
    m->stack_id = stack_id(m);
    return m->n_managed != 0;
}

bool hw_push_mixed(struct hw_client_session *s, const struct hw_mixed *m)
{
    uint32_t n = m->n_frames, words = (n + 63) / 64;
    uint32_t size = (uint32_t)sizeof(struct hw_rec_stack) + 8 * (n + 2 * words);
    uint64_t pos = hw_push_reserve(s, size);
    if (pos == 0)
        return false;
    struct hw_rec_stack *r = hw_ring_at(&s->ring, pos);
    r->stack_id = m->stack_id;
    r->n_frames = n;
    r->stop = m->stop | (uint32_t)m->generation << HW_STACK_STOP_BITS;
    r->time_ns = hw_client_session_ns(s);
    uint64_t *p = (uint64_t *)(void *)(r + 1), *exact = p + n, *managed = exact + words;
    memcpy(p, m->at, n * sizeof *p);
    memset(exact, 0, 2 * words * sizeof *exact);
    for (uint32_t i = 0; i < n; i++) {
        exact[i / 64] |= (uint64_t)(m->entry[i] == HW_ENTRY_EXACT) << i % 64;
        managed[i / 64] |= (uint64_t)(m->entry[i] == HW_ENTRY_MANAGED) << i % 64;
    }
    hw_ring_commit(&s->ring, pos, size, HW_REC_MIXED);
    atomic_store_explicit(&s->sent[m->stack_id % HW_SENT_SLOTS], m->stack_id, memory_order_relaxed);
    return true;
}

/* At most so many bytes, and no half of a UTF-8 character. */
static uint16_t cut(const char *text, size_t n)
{
    if (!text)
        return 0;
    if (n <= HW_NAME_MAX_BYTES)
        return (uint16_t)n;
    n = HW_NAME_MAX_BYTES;
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return (uint16_t)n;
}

bool hw_push_name(struct hw_client_session *s, uint64_t id,
                  const struct heapwise_managed_text *text)
{
    uint16_t n_function = cut(text->function, text->n_function);
    uint16_t n_file = cut(text->file, text->n_file);
    uint16_t n_module = cut(text->module, text->n_module);
    uint32_t n = (uint32_t)n_function + n_file + n_module;
    uint32_t size = ((uint32_t)sizeof(struct hw_rec_name) + n + 7) & ~7u;
    uint64_t pos = hw_push_reserve(s, size);
    if (pos == 0)
        return false;
    struct hw_rec_name *r = hw_ring_at(&s->ring, pos);
    r->id = id;
    r->line = text->line;
    r->n_function = n_function;
    r->n_file = n_file;
    r->n_module = n_module;
    r->reserved0 = 0;
    r->reserved1 = 0;
    char *p = (char *)(r + 1);
    if (n_function)
        memcpy(p, text->function, n_function);
    if (n_file)
        memcpy(p + n_function, text->file, n_file);
    if (n_module)
        memcpy(p + n_function + n_file, text->module, n_module);
    hw_ring_commit(&s->ring, pos, size, HW_REC_NAME);
    return true;
}

/* ---- what an agent calls ---- */

void hw_managed_hush(void)
{
    hw_here.flags |= HW_TLS_HUSHED;
}

bool hw_managed_hush_until(bool hushed)
{
    bool was = (hw_here.flags & HW_TLS_HUSHED) != 0;
    hw_here.flags =
        hushed ? hw_here.flags | HW_TLS_HUSHED : hw_here.flags & ~(uint32_t)HW_TLS_HUSHED;
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
    bool told = false;
    hw_enter(&v);
    if (v.session && !v.nested && v.session->generation == generation)
        told = hw_push_name(v.session, id, text);
    hw_leave(&v);
    errno = saved;
    return told ? 0 : -1;
}
