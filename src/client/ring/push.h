/*
 * push.h - records into the ring
 */
#ifndef HW_CLIENT_RING_PUSH_H
#define HW_CLIENT_RING_PUSH_H

#include "client/client.h"
#include "client/thread/thread_id.h"

#define HW_PUSH_AHEAD_BYTES 256 /* a few records; the ring is mapped twice in a row */

HW_COLD uint64_t hw_push_wait_for_room(struct hw_client_session *s, uint32_t size);

/*
 * The reader had these lines last. The stores would not wait for them, but the next locked
 * instruction waits for the stores.
 */
static inline void hw_push_fetch_ahead(const struct hw_client_session *s, uint64_t pos)
{
    const char *p = hw_ring_at(&s->ring, pos + HW_PUSH_AHEAD_BYTES);
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0\n\tprefetchw %1" : : "m"(p[0]), "m"(p[64])); /* else no-ops */
#else
    __builtin_prefetch(p, 1);
    __builtin_prefetch(p + 64, 1);
#endif
}

/* Room for a record, waiting as configured; 0 = there is none, the session is over. */
static inline uint64_t hw_push_reserve(struct hw_client_session *s, uint32_t size)
{
    uint64_t pos = hw_ring_reserve_by(&s->ring, size, hw_push_this_thread());
    if (hw_unlikely(pos == 0))
        return hw_push_wait_for_room(s, size);
    hw_push_fetch_ahead(s, pos);
    return pos;
}
bool hw_push_recorder_gone(struct hw_client_session *s,
                           uint64_t now_ns); /* dead for long: ends the session */
/* As of the last check, has the heartbeat not changed for so long? now_ns: of hw_local_ns(). */
bool hw_recorder_silent(uint64_t now_ns, uint64_t limit_ns);
void hw_recorder_note_alive(uint64_t now_ns); /* it has just answered: restarts that time */
void hw_push_free(struct hw_client_session *s, uint64_t sample_id);
/* The memory is unmapped, or was not (HW_UNMAP_FAILED). False: no session needs to know. In or
 * outside of a visit; keeps errno. */
bool hw_push_unmap(uint64_t address, uint64_t n_bytes, enum hw_unmap_kind kind);
/* A child is about to be made: the token that it says in its hello; 0 = nobody wants to know. */
uint64_t hw_push_fork(void);
void hw_push_heap(struct hw_client_session *s, uint32_t heap_id, const char *name,
                  uint64_t interval);
/* An allocation of n_bytes failed. Outside of any visit; keeps errno. */
void hw_push_failed(size_t n_bytes);
void hw_push_maps(struct hw_client_session *s, uint64_t pc, uint64_t now_ns);

#define hw_count(s, name, n)                                                                       \
    ((void)atomic_fetch_add_explicit(&(s)->ring.shm->counters.name, (n), memory_order_relaxed))

#endif
