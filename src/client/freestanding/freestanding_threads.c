/* freestanding_threads.c - the words of a thread, found by its thread pointer */
#include <string.h>

#include "client/client.h"

#define PROBES 64u

struct hw_bare_thread hw_bare_threads[1u << HW_BARE_BITS];
struct hw_tls hw_bare_no_thread;

struct hw_tls *hw_bare_find(uintptr_t tp)
{
    uint32_t mask = (1u << HW_BARE_BITS) - 1, i = hw_bare_index(tp);
    for (uint32_t n = 0; n < PROBES; n++, i = (i + 1) & mask) {
        uintptr_t owner = atomic_load_explicit(&hw_bare_threads[i].tp, memory_order_relaxed);
        if (owner == tp ||
            (owner == 0 &&
             (atomic_compare_exchange_strong(&hw_bare_threads[i].tp, &owner, tp) || owner == tp)))
            return &hw_bare_threads[i].tls;
    }
    hw_bare_no_thread.left = 0; /* then due, but not sampled */
    return &hw_bare_no_thread;
}

/* Their words name slabs that are free again. */
void hw_bare_forget_others(void)
{
    const struct hw_tls *mine = &hw_here;
    for (uint32_t i = 0; i <= (1u << HW_BARE_BITS) - 1; i++) {
        struct hw_bare_thread *t = &hw_bare_threads[i];
        if (atomic_load_explicit(&t->tp, memory_order_relaxed) != 0 && &t->tls != mine)
            memset(&t->tls, 0, sizeof t->tls);
    }
}
