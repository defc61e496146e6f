/*
 * deliver.h - entries to their store, now or later
 *
 * Why:     who makes entries must never wait for a store that is down; who has only one file to
 *          send needs to know that it failed. Both are this, with a spool and without one.
 * Shapes:  an attempt that failed is made again after 0.5 s, then twice that, up to a minute, each
 *          wait shortened by chance to as little as half, so that a thousand machines do not come
 *          back together; what the store asks for (Retry-After) counts when it is longer.
 * Errors:  of the store: told by `tell`, counted. Returned: HW_ENOMEM, HW_EBUSY (*stop), and what
 *          a spool that cannot be written says.
 * Threads: one owner at a time.
 */
#ifndef HW_FLEET_PUSH_DELIVER_H
#define HW_FLEET_PUSH_DELIVER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet/push/send.h"
#include "fleet/push/spool.h"

struct hw_error;

enum hw_told { HW_TOLD_DOWN, HW_TOLD_UP, HW_TOLD_REFUSED, HW_TOLD_DROPPED, HW_TOLD_OLDER };

struct hw_delivery {
    struct hw_sender sender;
    struct hw_spool *spool; /* borrowed; NULL: entries that cannot be sent are lost, and counted */
    uint64_t retry_ms;      /* how long without a success before it gives up */
    const volatile sig_atomic_t *stop;
    void (*tell)(void *ctx, enum hw_told what, const char *text);
    void *ctx;

    uint64_t n_sent, n_refused, n_lost;
    unsigned fails;  /* in a row */
    bool told_older; /* once */
    bool unanswered; /* the next attempt may repeat one that reached the store */
    uint64_t first_fail_ns, next_ns;
    char refusal[512]; /* the last one told: the same is told once */
};

int hw_delivery_init(struct hw_delivery *d, const struct hw_store *store, struct hw_spool *spool,
                     const volatile sig_atomic_t *stop, struct hw_error *err);
void hw_delivery_done(struct hw_delivery *d);
/* Sends the entry; with a spool it is put there when others wait or the store does not take it, and
 * this never waits. Without one it waits as long as retry_ms says. */
int hw_delivery_give(struct hw_delivery *d, const struct hw_entry *e, struct hw_error *err);
/* One attempt with the oldest entry of the spool, if one is due. *wait_ms: until the next is; 0 =
 * at once, UINT64_MAX = nothing waits. */
int hw_delivery_step(struct hw_delivery *d, uint64_t *wait_ms, struct hw_error *err);
/* Did it try for retry_ms in vain? */
bool hw_delivery_gave_up(const struct hw_delivery *d);
/* Steps until the spool is empty or it gave up. */
int hw_delivery_drain(struct hw_delivery *d, struct hw_error *err);
/* Sleeps, or until *stop: HW_EBUSY. */
int hw_delivery_sleep(const struct hw_delivery *d, uint64_t ms, struct hw_error *err);

#endif
