#include "client/ring/mixed.h"

#include <string.h>

#include "client/client.h"
#include "client/kernel/now.h"
#include "client/ring/push.h"

void hw_mixed_splice(struct hw_mixed_stack *m, uint32_t at, uint32_t n_removed, const uint64_t *ids,
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

bool hw_push_mixed_stack(struct hw_client_session *s, const struct hw_mixed_stack *m)
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

/* At most so many bytes, and no partial UTF-8 character. */
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
