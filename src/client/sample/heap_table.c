/* heap_table.c - the heaps of this process, and what a session wants of them */
#include "client/sample/heap_table.h"
#include "client/ring/push.h"

#include <string.h>

struct AHeapInfo hw_heap_table[HW_MAX_HEAPS];
_Atomic uint32_t hw_n_heaps = 2; /* 0 = none, 1 = libc.malloc */

_Atomic uint32_t hw_python_heap;

uint32_t hw_heaps_used(void)
{
    uint32_t n = atomic_load(&hw_n_heaps);
    return n < HW_HEAP_ID_ANON ? n : HW_HEAP_ID_ANON; /* after them come mappings */
}

static uint64_t configured(const struct hw_client_config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_heaps; i++)
        if (strncmp(c->heaps[i].name, name, HW_HEAP_NAME_MAX) == 0)
            return c->heaps[i].interval_bytes;
    return c->flags & HW_CC_ALL_HEAPS ? c->default_interval_bytes : 0;
}

static uint64_t interval_for(const struct hw_client_config *c, const char *name)
{
    uint64_t n = configured(c, name);
    bool other =
        strncmp(name, HW_PYTHON_HEAP, HW_HEAP_NAME_MAX) == 0 && n != configured(c, "libc.malloc");
    return other ? 0 : n;
}

bool hw_heaps_wants_python(const struct hw_client_session *s)
{
    return interval_for(&s->config, HW_PYTHON_HEAP) != 0;
}

uint64_t hw_heaps_select_one(struct hw_client_session *s, uint32_t id, const char *name)
{
    s->base[id] = interval_for(&s->config, name);
    atomic_store(&s->interval[id], s->base[id]);
    return s->base[id];
}

void hw_heaps_select(struct hw_client_session *s)
{
    (void)hw_heaps_select_one(s, HW_HEAP_ID_LIBC, "libc.malloc");
    for (uint32_t i = 2; i < hw_heaps_used(); i++)
        if (atomic_load(&hw_heap_table[i].registered))
            (void)hw_heaps_select_one(s, i, hw_heap_table[i].name);
}

void hw_heaps_announce_one(struct hw_client_session *s, uint32_t id, uint64_t interval)
{
    if (interval != 0 || !hw_heap_table[id].quiet)
        hw_push_heap(s, id, hw_heap_table[id].name, interval);
}

void hw_heaps_announce(struct hw_client_session *s)
{
    hw_push_heap(s, HW_HEAP_ID_LIBC, "libc.malloc", atomic_load(&s->interval[HW_HEAP_ID_LIBC]));
    for (uint32_t i = 2; i < hw_heaps_used(); i++)
        if (atomic_load(&hw_heap_table[i].registered))
            hw_heaps_announce_one(s, i, atomic_load(&s->interval[i]));
}
