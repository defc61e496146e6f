/*
 * drain.h - threads that keep up with the rings
 *
 * Why:     a target must never wait for our disk, for /proc or for another target's symbols. These
 *          threads do nothing but empty rings and keep books.
 * Shapes:  the recorder's main thread sends orders, the threads answer into one box. A feed handed
 *          over by HW_DRAIN_ADD belongs to a thread until the final HW_DRAINED_SNAP says that the
 *          thread has released it. Polling: pace.h.
 * Threads: only the main thread calls these functions.
 */
#ifndef HW_DAEMON_BOOKS_DRAIN_H
#define HW_DAEMON_BOOKS_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/books/message_queue.h"
#include "daemon/books/ring_consumer.h"

struct hw_drain;

enum hw_drained_type { /* answers; who = the feed's owner */
                       HW_DRAINED_STACKS =
                           1, /* data: array of n const struct hw_stack *, to be freed */
                       HW_DRAINED_SNAP = 2, /* data: struct hw_snapshot * or NULL (out of memory);
                                               flags: enum hw_drained_flags */
                       HW_DRAINED_MAPS = 3, /* n: pc that no table covers, 0 = something changed */
                       HW_DRAINED_SHARED = 13, /* flags: number of the question; what are its shared
                                                  mappings? hw_drain_shared_done */
                       HW_DRAINED_FORKED = 14, /* data: struct hw_inherited *, to be freed */
                       HW_DRAINED_BROKEN =
                           4, /* damaged: it stays with its thread and is no longer read */
                       HW_DRAINED_STUCK = 5, /* a hole of 10 s in a running process */
                       HW_DRAINED_HOLE = 12, /* flags: does it exist? If not: hw_drain_hole_left */
                       HW_DRAINED_EVENTS =
                           6, /* data: array of n struct hw_stream_event, to be freed */
                       HW_DRAINED_MINFO = 7, /* data: struct hw_minfo, to be freed */
                       HW_DRAINED_FULL = 8,  /* max_bytes reached: it is no longer read */
                       HW_DRAINED_NAMES =
                           10, /* data: array of n const struct hw_managed_name *, to be freed */
                       HW_DRAINED_SLICES = 11 /* data: array of n struct hw_fed_slice, to be
                                                 freed; n leaves the feed's n_slices_told then */
};

enum hw_drained_flags {
    HW_DRAINED_FINAL = 1,     /* the thread has released the feed */
    HW_DRAINED_AT_FAILURE = 2 /* of the moment when an allocation failed; no answer to an order */
};

int hw_drain_new(unsigned n_threads, struct hw_message_queue *answers, struct hw_drain **out);
void hw_drain_free(struct hw_drain *d); /* ends the threads; feeds still there are not freed */

/* All: HW_ENOMEM = not done. */
int hw_drain_add(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key);
/* Drains up to the present write position, then answers with a snapshot. dead: nothing writes
 * any more, so holes are skipped. final: the thread releases the feed with its answer. */
int hw_drain_snap(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key, uint32_t flags,
                  bool final, bool dead);
/* Its shared mappings; taken over and freed in any case. */
int hw_drain_shared_done(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key, uint32_t ask,
                         struct hw_shared_maps *maps);
/* Reads its ring now: somebody waits for what is there. */
int hw_drain_read_now(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key);
int hw_drain_hole_left(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key, uint32_t tid);
/* The target's maps were read again and tables published. */
int hw_drain_maps_done(struct hw_drain *d, struct hw_ring_consumer *f, uint64_t key, uint32_t ask);

#endif
